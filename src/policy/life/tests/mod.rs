//! Stories of agents. A `Story` owns the clock, so that years pass in no time, and answers like a
//! supervisor whose spawns work.

mod backoff;
mod crashes;
mod leftovers;
mod limits;
mod properties;
mod reaping;
mod restarts;
mod stops;

use std::time::{Duration, Instant};

use super::*;
use crate::policy::crash::{Backoff, Exit, Numbers};

const NO_TIME: Duration = Duration::ZERO;
/// The longest duration that can be written on a command line.
const LONGEST: Duration = Duration::from_millis(u64::MAX);
const GRACE: Duration = Duration::from_secs(8);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The defaults of `--restart on-failure` without a terminal, but halted stays.
fn rules() -> Rules {
    Rules {
        numbers: Numbers::default(),
        restart: Restart::OnFailure,
        on_clean: OnClean::Exit,
        on_halt: OnHalt::Wait,
        grace: GRACE,
        leftovers: GRACE,
        timeout: None,
        first: Next::Fresh,
        asks_before_spawn: false,
        notifies: false,
        ends_leftovers: false,
    }
}

fn always() -> Rules {
    Rules { restart: Restart::Always, on_clean: OnClean::Restart, ..rules() }
}

fn code(code: u8) -> End {
    End {
        code,
        signal: code.checked_sub(128).map(i32::from),
        oom: false,
        asked: false,
        spoke: false,
        limit: None,
    }
}

/// What an event led to, as an operator would tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sequel {
    Waits(Duration, Next),
    Asks,
    Halts,
    Ends(u8),
}
use Sequel::*;

struct Story {
    life: Life,
    now: Now,
}

impl Story {
    /// In `Clearing`, with nothing heard yet.
    fn begins(rules: Rules) -> Story {
        let now = Now { at: Instant::now(), epoch: 1_700_000_000 };
        let (life, effects) = Life::begin(rules, 7, now);
        assert_eq!(effects, [Effect::Leftovers(Whose::EarlierSupervisor, Order::Term)]);
        Story { life, now }
    }

    fn runs(rules: Rules) -> Story {
        let mut story = Story::begins(rules);
        story.hears(Event::LeftoversGone);
        story.is_running();
        story
    }

    /// One event; a spawn that it leads to works.
    fn hears(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.only_hears(event);
        if let Some(&Effect::Spawn(ran_as)) = effects.last() {
            effects.extend(self.only_hears(Event::ExecDone { ran_as }));
        }
        effects
    }

    fn only_hears(&mut self, event: Event) -> Vec<Effect> {
        self.life.step(event, self.now)
    }

    fn exits(&mut self, with: u8) -> Vec<Effect> {
        self.is_running();
        self.hears(Event::Exited(code(with)))
    }

    fn fails_to_spawn(&mut self, code: u8) -> Vec<Effect> {
        assert!(matches!(self.life.phase(), Phase::Starting { .. }), "{:?}", self.life.phase());
        self.hears(Event::SpawnFailed { code })
    }

    fn stop_is_asked_by(&mut self, sender: i32) -> Vec<Effect> {
        self.hears(Event::StopAsked { sender })
    }

    fn passes(&mut self, time: Duration) {
        self.now.at += time;
        self.now.epoch = self.now.epoch.saturating_add(time.as_secs());
    }

    fn runs_for(&mut self, time: Duration) -> &mut Story {
        self.is_running();
        self.passes(time);
        self
    }

    fn reaches_deadline(&mut self) -> Vec<Effect> {
        let (left, _) = self.armed().expect("nothing is armed");
        self.passes(left);
        self.hears(Event::Due)
    }

    /// What will wake the loop, and how long from now.
    fn armed(&self) -> Option<(Duration, Why)> {
        self.life.wake().map(|(at, why)| (at.saturating_duration_since(self.now.at), why))
    }

    fn is_running(&self) {
        assert!(matches!(self.life.phase(), Phase::Running { .. }), "{:?}", self.life.phase());
    }

    /// How the present run treats the conversation.
    fn runs_as(&self) -> Next {
        match self.life.phase() {
            Phase::Running { next, .. } => *next,
            other => panic!("not running: {other:?}"),
        }
    }

    fn last_exit(&self) -> &Exit {
        self.life.history().exits().next_back().expect("no exit yet")
    }

    /// Where the story stands; one that is about to end is told to the end.
    fn sequel(&mut self) -> Sequel {
        match *self.life.phase() {
            Phase::Waiting { next, until, .. } => Waits(until - self.now.at, next),
            Phase::Asking => Asks,
            Phase::Halted => Halts,
            Phase::Telling { .. } => {
                self.hears(Event::Notified);
                self.sequel()
            }
            Phase::Stopping { .. } => match self.hears(Event::TreeGone)[..] {
                [Effect::End(code)] => {
                    assert_eq!((self.life.phase(), self.armed()), (&Phase::Ended, None));
                    Ends(code)
                }
                ref other => panic!("nothing is left, yet: {other:?}"),
            },
            ref other => panic!("nothing follows from {other:?}"),
        }
    }
}
