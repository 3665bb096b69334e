//! A node: many children, each a supervisor of its own. Which of them runs, who is started again when one
//! has failed, and when the node gives up; DESIGN §11.
//!
//! `words` says what can be, `order` who comes first, `asks` is what somebody may ask of one child. Here is what
//! an event means; after each `going` does what can be done next, in order: stop, then start.

mod asks;
mod going;
mod order;
mod words;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use order::{OrderError, order};
pub use words::{
    Clearing, Effect, Event, GAVE_UP, Keep, Key, REFUSED, Refusal, Rest, Rules, Sequel, Spec, State,
    Strategy, Then,
};

use super::stop::AFTER_KILL;

#[derive(Clone, Debug)]
pub struct Kid {
    pub key: Key,
    pub spec: Spec,
    pub state: State,
    /// Starts after the first.
    pub restarts: u64,
    pub last_exit: Option<u8>,
    was_started: bool,
    /// Its ends within the window that were followed by another start.
    failures: VecDeque<Instant>,
}

/// A restart of more than one: those from `from` on are stopped, and then started, nobody before `until`.
#[derive(Clone, Copy, Debug)]
struct Round {
    from: usize,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// All are being ended, the last first.
    Leaving {
        code: u8,
    },
    Over,
}

pub struct Tree {
    rules: Rules,
    /// In the order of their start.
    kids: Vec<Kid>,
    next_key: Key,
    phase: Phase,
    round: Option<Round>,
    /// Restarts within the window.
    recent: VecDeque<Instant>,
    is_up: bool,
    /// Of the last child that ended for good and not well.
    failed_with: u8,
    /// Of a pool: those that are gone, by whether they ended well.
    pub done: u64,
    pub failed: u64,
    /// Starts of children after the first of each.
    pub restarted: u64,
}

impl Tree {
    /// `specs` in the order of their start: whom one needs stands before it.
    pub fn begin(rules: Rules, specs: Vec<Spec>, now: Instant) -> (Tree, Vec<Effect>) {
        let mut tree = Tree {
            rules,
            kids: Vec::new(),
            next_key: 0,
            phase: Phase::Working,
            round: None,
            recent: VecDeque::new(),
            is_up: false,
            failed_with: 0,
            done: 0,
            failed: 0,
            restarted: 0,
        };
        for spec in specs {
            tree.join(spec);
        }
        let effects = tree.go_on(now);
        (tree, effects)
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn kids(&self) -> &[Kid] {
        &self.kids
    }

    pub fn kid(&self, key: Key) -> Option<&Kid> {
        self.kids.iter().find(|kid| kid.key == key)
    }

    pub fn named(&self, id: &str) -> Option<&Kid> {
        self.kids.iter().find(|kid| kid.spec.id == id)
    }

    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// All are being ended, or have been.
    pub fn is_leaving(&self) -> bool {
        self.phase != Phase::Working
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// How many restarts count against the node now.
    pub fn recent(&self, now: Instant) -> usize {
        self.recent.iter().filter(|at| now.saturating_duration_since(**at) < self.rules.max_seconds).count()
    }

    /// The longest that a stop can take: one behind the other, those of a pool all at once.
    pub fn longest_stop(rules: &Rules, specs: impl Iterator<Item = Duration>) -> Duration {
        match rules.strategy {
            Strategy::Pool => specs.max().unwrap_or_default() + AFTER_KILL,
            Strategy::OneForOne | Strategy::OneForAll | Strategy::RestForOne => specs
                .map(|shutdown| shutdown.saturating_add(AFTER_KILL))
                .fold(Duration::ZERO, Duration::saturating_add),
        }
    }

    /// When the loop must wake although nothing happens.
    pub fn wake(&self) -> Option<Instant> {
        let own = self.kids.iter().filter_map(|kid| match &kid.state {
            State::Stopping { kill_at, .. } => *kill_at,
            State::Clearing { stage: Clearing::Asked { kill_at }, .. } => Some(*kill_at),
            State::Clearing { stage: Clearing::Killed { until }, .. } | State::Waiting { until } => {
                Some(*until)
            }
            State::Queued | State::Starting { .. } | State::Running { .. } | State::Resting(_) => None,
        });
        // While somebody is still to go, that somebody wakes us.
        let round = self.round.filter(|round| !self.is_busy_from(round.from)).map(|round| round.until);
        own.chain(round).chain(self.next_turn()).min()
    }

    /// A second of the same is harmless, and so is one about a child that is no more.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = match event {
            Event::Ready(key) => self.on_ready(key),
            Event::Exited(key, code) => self.on_exit(key, code, now),
            Event::Dismissed(key, code) => self.on_dismissed(key, code, now),
            Event::Cleared(key) => self.on_cleared(key),
            Event::Stop => self.leave(0),
            Event::Kill => self.kill_all(),
            Event::Due => self.on_due(now),
        };
        effects.extend(self.go_on(now));
        effects
    }

    fn join(&mut self, spec: Spec) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        self.kids.push(Kid {
            key,
            spec,
            state: State::Queued,
            restarts: 0,
            last_exit: None,
            was_started: false,
            failures: VecDeque::new(),
        });
        key
    }

    fn at(&self, key: Key) -> Option<usize> {
        self.kids.iter().position(|kid| kid.key == key)
    }

    fn on_ready(&mut self, key: Key) -> Vec<Effect> {
        if let Some(at) = self.at(key)
            && let State::Starting { since } = self.kids[at].state
        {
            self.kids[at].state = State::Running { since };
        }
        vec![]
    }

    fn on_exit(&mut self, key: Key, code: u8, now: Instant) -> Vec<Effect> {
        let Some(at) = self.at(key) else { return vec![] };
        let was_ready = match self.kids[at].state {
            State::Starting { .. } => false,
            State::Running { .. } => true,
            State::Stopping { then, .. } => {
                self.kids[at].last_exit = Some(code);
                return self.clear(at, then, now);
            }
            State::Queued | State::Clearing { .. } | State::Waiting { .. } | State::Resting(_) => {
                return vec![];
            }
        };
        self.kids[at].last_exit = Some(code);
        let (then, sequel) = self.judge(at, code, was_ready, now);
        let mut effects = vec![Effect::TellExit(key, code, sequel)];
        if sequel == Sequel::GiveUp {
            effects.push(Effect::TellGaveUp(key));
            effects.extend(self.leave(GAVE_UP));
        }
        effects.extend(self.clear(at, then, now));
        effects
    }

    fn on_dismissed(&mut self, key: Key, code: u8, now: Instant) -> Vec<Effect> {
        let Some(at) = self.at(key) else { return vec![] };
        if !matches!(self.kids[at].state, State::Starting { .. } | State::Running { .. }) {
            return self.on_exit(key, code, now);
        }
        self.kids[at].last_exit = Some(code);
        let mut effects = vec![Effect::TellExit(key, code, Sequel::Dismissed)];
        effects.extend(self.clear(at, Then::Rest(Rest::Stopped), now));
        effects
    }

    /// The one place that decides what an end means that nobody asked for.
    fn judge(&mut self, at: usize, code: u8, was_ready: bool, now: Instant) -> (Then, Sequel) {
        let keep = self.kids[at].spec.keep;
        if self.is_leaving() {
            return (Then::Rest(Rest::Stopped), Sequel::Rest);
        }
        if let Some(refused) = Rest::of_unready(code).filter(|_| !was_ready) {
            return (Then::Rest(refused), Sequel::Refused);
        }
        if !keep.wants(code) {
            return (Then::Rest(Rest::Ended { code }), Sequel::Rest);
        }
        if self.round.is_some_and(|round| at >= round.from) {
            // It was to be stopped anyway; whose doing its end is cannot be told.
            return (Then::Start, Sequel::WithOthers);
        }
        if !self.may_restart(now) {
            return (Then::Rest(Rest::Ended { code }), Sequel::GiveUp);
        }
        let wait = self.wait_for(at, now);
        let until = now.checked_add(wait).unwrap_or(now);
        let from = match self.rules.strategy {
            Strategy::OneForOne | Strategy::Pool => {
                return (Then::WaitUntil(until), Sequel::Restart { wait });
            }
            Strategy::OneForAll => 0,
            Strategy::RestForOne => at,
        };
        let round = self.round.unwrap_or(Round { from, until });
        self.round = Some(Round { from: round.from.min(from), until: round.until.max(until) });
        (Then::Start, Sequel::Restart { wait })
    }

    /// Counts it, too.
    fn may_restart(&mut self, now: Instant) -> bool {
        let window = self.rules.max_seconds;
        self.recent.retain(|at| now.saturating_duration_since(*at) < window);
        let may = self.recent.len() < self.rules.max_restarts as usize;
        if may {
            self.recent.push_back(now);
        }
        may
    }

    fn wait_for(&mut self, at: usize, now: Instant) -> Duration {
        let window = self.rules.max_seconds;
        let failures = &mut self.kids[at].failures;
        failures.retain(|at| now.saturating_duration_since(*at) < window);
        failures.push_back(now);
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(30);
        self.rules.wait.saturating_mul(1 << doublings).min(self.rules.max_wait)
    }

    /// The process of a child is gone.
    fn clear(&mut self, at: usize, then: Then, now: Instant) -> Vec<Effect> {
        let kid = &mut self.kids[at];
        if self.phase != Phase::Working {
            // What is left behind by any of them is ended when all are gone.
            kid.state = State::Resting(resting(then));
            return vec![];
        }
        let kill_at = now.checked_add(kid.spec.leftovers).unwrap_or(now);
        kid.state = State::Clearing { stage: Clearing::Asked { kill_at }, then };
        vec![Effect::Clear(kid.key)]
    }

    fn on_cleared(&mut self, key: Key) -> Vec<Effect> {
        let Some(at) = self.at(key) else { return vec![] };
        let State::Clearing { then, .. } = self.kids[at].state else { return vec![] };
        let rests = match then {
            Then::Start => return self.becomes(at, State::Queued),
            Then::WaitUntil(until) => return self.becomes(at, State::Waiting { until }),
            Then::Rest(rest) => rest,
            Then::Leave => return self.forget(at),
        };
        match (rests, self.rules.strategy) {
            // Whoever has done its work makes room; who was refused is there to be asked why.
            (Rest::Ended { code }, Strategy::Pool) => {
                if code == 0 {
                    self.done += 1
                } else {
                    self.failed += 1
                }
                self.forget(at)
            }
            (Rest::Ended { code }, _) => {
                self.failed_with = if code == 0 { self.failed_with } else { code };
                self.becomes(at, State::Resting(rests))
            }
            (Rest::Refused { .. } | Rest::Stopped, _) => self.becomes(at, State::Resting(rests)),
        }
    }

    fn becomes(&mut self, at: usize, state: State) -> Vec<Effect> {
        self.kids[at].state = state;
        vec![]
    }

    fn forget(&mut self, at: usize) -> Vec<Effect> {
        vec![Effect::Forget(self.kids.remove(at).key)]
    }

    fn on_due(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut over = Vec::new();
        for kid in &mut self.kids {
            match &mut kid.state {
                State::Stopping { kill_at, .. } if kill_at.is_some_and(|at| now >= at) => {
                    *kill_at = None;
                    effects.push(Effect::Kill(kid.key));
                }
                State::Clearing { stage, .. } => match *stage {
                    Clearing::Asked { kill_at } if now >= kill_at => {
                        *stage = Clearing::Killed { until: now + AFTER_KILL };
                        effects.push(Effect::KillLeft(kid.key));
                    }
                    // What survives KILL survives waiting too.
                    Clearing::Killed { until } if now >= until => over.push(kid.key),
                    Clearing::Asked { .. } | Clearing::Killed { .. } => {}
                },
                _ => {}
            }
        }
        for key in over {
            effects.extend(self.on_cleared(key));
        }
        effects
    }

    fn leave(&mut self, code: u8) -> Vec<Effect> {
        if self.phase == Phase::Working {
            self.phase = Phase::Leaving { code };
            self.round = None;
            for kid in &mut self.kids {
                match kid.state {
                    State::Queued | State::Waiting { .. } => kid.state = State::Resting(Rest::Stopped),
                    State::Clearing { then, .. } => kid.state = State::Resting(resting(then)),
                    State::Starting { .. }
                    | State::Running { .. }
                    | State::Stopping { .. }
                    | State::Resting(_) => {}
                }
            }
        }
        vec![]
    }

    fn kill_all(&mut self) -> Vec<Effect> {
        let mut effects = self.leave(0);
        for kid in self.kids.iter_mut().filter(|kid| kid.state.lives()) {
            if !matches!(kid.state, State::Stopping { kill_at: None, .. }) {
                kid.state = State::Stopping { kill_at: None, then: Then::Rest(Rest::Stopped) };
                effects.push(Effect::Kill(kid.key));
            }
        }
        effects
    }
}

fn resting(then: Then) -> Rest {
    match then {
        Then::Rest(rest) => rest,
        Then::Start | Then::WaitUntil(_) | Then::Leave => Rest::Stopped,
    }
}

fn tell_to_stop(kid: &mut Kid, then: Then, now: Instant) -> Option<Effect> {
    let kill_at = now.checked_add(kid.spec.shutdown);
    kid.state = State::Stopping { kill_at, then };
    Some(Effect::Term(kid.key))
}
