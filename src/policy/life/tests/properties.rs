//! What holds whatever happens, in whatever order, at whatever time.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Failures shrink to a short list that is printed; nothing is written beside the sources. A soak:
/// `PROPTEST_CASES=100000 cargo test --release properties`.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// How many `Due` a single moment may need: the last deadline, then a stop without any grace.
const DUES_AT_ONCE: u32 = 3;

#[derive(Clone, Debug)]
enum Act {
    Pass(Duration),
    /// The wall clock is set to this; the monotonic one does not care.
    SetWallClock(u64),
    Hear(Event),
    /// A whole run, from the spawn that worked to its end: without it few stories go far.
    Run(Duration, End),
    ReachDeadline,
}

fn any_time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(NO_TIME),
        4 => (0..100u64).prop_map(millis),
        4 => (0..300u64).prop_map(secs),
        1 => Just(LONGEST),
    ]
}

/// Any code; a signal as 128+n.
fn any_end() -> impl Strategy<Value = End> {
    (prop_oneof![2 => Just(0), 3 => Just(1), 1 => any::<u8>()], any::<bool>())
        .prop_map(|(with, oom)| End { oom, ..code(with) })
}

fn any_next() -> impl Strategy<Value = Next> {
    prop_oneof![Just(Next::Fresh), Just(Next::Continue), Just(Next::Anew)]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::LeftoversGone),
        8 => any::<bool>().prop_map(|agreed| Event::Prepared { agreed }),
        8 => any_next().prop_map(|ran_as| Event::ExecDone { ran_as }),
        4 => any::<u8>().prop_map(|code| Event::SpawnFailed { code }),
        8 => any_end().prop_map(Event::Exited),
        8 => Just(Event::Retry),
        8 => Just(Event::Notified),
        8 => Just(Event::TreeGone),
        8 => Just(Event::Due),
        3 => any_next().prop_map(|next| Event::RestartAsked { next }),
        3 => Just(Event::AwayAsked),
        6 => any_next().prop_map(|next| Event::BackAsked { next }),
        2 => Just(Event::RuleRestarts),
        2 => Just(Event::ReapAsked { rule: "r" }),
        1 => Just(Event::KillAsked),
        1 => Just(Event::Quit),
        1 => Just(Event::TerminalGone),
        1 => Just(Event::StopCalled),
        1 => (0..2).prop_map(|sender| Event::StopAsked { sender }),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any_time().prop_map(Act::Pass),
        1 => any::<u64>().prop_map(Act::SetWallClock),
        6 => any_event().prop_map(Act::Hear),
        8 => (any_time(), any_end()).prop_map(|(time, end)| Act::Run(time, end)),
        8 => Just(Act::ReachDeadline),
    ]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let exponential = (any_time(), 0.0..1e9, any_time(), 0.0..1.0)
        .prop_map(|(base, factor, max, jitter)| Backoff::Exponential { base, factor, max, jitter });
    prop_oneof![Just(Backoff::Fixed), exponential]
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    let times = (any_time(), any_time(), any_time(), any_time());
    (times, 0..5u32, 0..7u32, vec(any::<u8>(), 0..2), any_backoff()).prop_map(
        |(
            (window, transient_wait, flapping_wait, stable_after),
            flapping_after,
            halt_after,
            no_retry,
            backoff,
        )| {
            Numbers {
                window,
                flapping_after,
                transient_wait,
                flapping_wait,
                halt_after,
                halt_within: None,
                stable_after,
                no_retry,
                backoff,
            }
        },
    )
}

prop_compose! {
    fn any_rules()(
        numbers in prop_oneof![Just(Numbers::default()), any_numbers()],
        restart in prop_oneof![4 => Just(Restart::OnFailure), 4 => Just(Restart::Always), 1 => Just(Restart::No)],
        on_clean in prop_oneof![1 => Just(OnClean::Exit), 1 => Just(OnClean::Prompt), 2 => Just(OnClean::Restart)],
        on_halt in prop_oneof![1 => Just(OnHalt::Exit), 3 => Just(OnHalt::Wait)],
        grace in prop_oneof![Just(GRACE), any_time()],
        rest in option::weighted(0.3, any_time()),
        timeout in option::weighted(0.2, any_time()),
        first in prop_oneof![Just(Next::Fresh), Just(Next::Continue)],
        asks_before_spawn in any::<bool>(),
        notifies in any::<bool>(),
        ends_leftovers in any::<bool>(),
    ) -> Rules {
        let leftovers = rest.unwrap_or(grace);
        Rules {
            numbers,
            restart,
            on_clean,
            on_halt,
            grace,
            leftovers,
            timeout,
            first,
            asks_before_spawn,
            notifies,
            ends_leftovers,
        }
    }
}

/// Sees every step and knows the rules, but nothing of how they are kept.
struct Watch {
    story: Story,
    numbers: Numbers,
    restart: Restart,
    grace: Duration,
    in_a_row: u32,
    ended: bool,
}

impl Watch {
    fn over(rules: Rules) -> Watch {
        let (numbers, restart, grace) = (rules.numbers.clone(), rules.restart, rules.grace);
        Watch { story: Story::begins(rules), numbers, restart, grace, in_a_row: 0, ended: false }
    }

    fn longest_wait(&self) -> Duration {
        match self.numbers.backoff {
            Backoff::Fixed => self.numbers.transient_wait.max(self.numbers.flapping_wait),
            Backoff::Exponential { max, .. } => max,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Pass(time) => self.story.passes(time),
            Act::SetWallClock(epoch) => self.story.now.epoch = epoch,
            Act::Hear(event) => self.hear(event),
            Act::Run(time, end) => {
                self.hear(Event::Prepared { agreed: true });
                self.hear(Event::ExecDone { ran_as: Next::Continue });
                self.story.passes(time);
                self.hear(Event::Exited(end));
            }
            Act::ReachDeadline => self.reaches_deadline(),
        }
    }

    /// Deadlines that have come are gone after few `Due`: the loop never spins.
    fn reaches_deadline(&mut self) {
        let Some((left, _)) = self.story.armed() else { return };
        self.story.passes(left);
        let mut dues = 0;
        while self.story.armed().is_some_and(|(left, _)| left == NO_TIME) {
            dues += 1;
            assert!(dues <= DUES_AT_ONCE, "the loop spins in {:?}", self.story.life.phase());
            self.hear(Event::Due);
        }
    }

    fn hear(&mut self, event: Event) {
        let before = self.story.life.phase().clone();
        let effects = self.story.only_hears(event);
        let life = &self.story.life;

        if self.ended {
            assert_eq!((&*effects, life.phase(), life.wake()), (&[][..], &Phase::Ended, None));
        }
        self.ended |= effects.iter().any(|effect| matches!(effect, Effect::End(_)));
        assert_eq!(self.ended, *life.phase() == Phase::Ended);

        let starts = |effect: &Effect| matches!(effect, Effect::Spawn(_) | Effect::AskBeforeSpawn(_));
        if before == Phase::Halted && !matches!(event, Event::Retry | Event::RestartAsked { .. }) {
            assert!(!effects.iter().any(starts), "{event:?} starts a halted agent");
        }
        if let Phase::Waiting { until, .. } = life.phase() {
            let wait = until.saturating_duration_since(self.story.now.at);
            assert!(wait <= self.longest_wait(), "waits for {wait:?}");
        }
        assert!(life.history().exits().count() <= 10);
        self.count_the_row(&effects);
    }

    /// Counts by what is told, and by DESIGN's words: without a clean exit and without a run longer
    /// than `stable_after` between them.
    fn count_the_row(&mut self, effects: &[Effect]) {
        let life = &self.story.life;
        for effect in effects {
            match *effect {
                Effect::TellResumed => self.in_a_row = 0,
                Effect::TellExit { class, end, ran } if class != Class::Asked => {
                    self.in_a_row = match end.code {
                        0 => 0,
                        _ if ran > self.numbers.stable_after => 1,
                        _ => self.in_a_row + 1,
                    };
                    let enough = self.in_a_row >= self.numbers.halt_after.max(1);
                    if enough && self.restart != Restart::No {
                        assert_eq!(life.health(), Health::Halted, "{} in a row", self.in_a_row);
                        assert!(!matches!(life.phase(), Phase::Waiting { .. }));
                    } else if !self.numbers.no_retry.contains(&end.code) {
                        assert!(!matches!(life.phase(), Phase::Halted), "{} in a row", self.in_a_row);
                    }
                }
                _ => {}
            }
        }
    }
}

/// How one spawn goes: what comes of it, and after how long.
#[derive(Clone, Debug)]
enum Run {
    Fails { code: u8 },
    Exits { end: End, after: Duration },
}

fn any_run() -> impl Strategy<Value = Run> {
    let after =
        prop_oneof![4 => Just(NO_TIME), 2 => (0..5_000u64).prop_map(millis), 1 => (0..200u64).prop_map(secs)];
    prop_oneof![
        1 => any::<u8>().prop_map(|code| Run::Fails { code: code.max(1) }),
        6 => (any_end(), after).prop_map(|(end, after)| Run::Exits { end, after }),
    ]
}

/// Nobody is there: only the clock and the agent. Ends when there are no more runs, or no spawn.
fn left_alone(rules: Rules, runs: impl IntoIterator<Item = Run>) -> (Story, Vec<Instant>) {
    let mut story = Story::begins(rules);
    let mut spawned = Vec::new();
    let mut effects = story.only_hears(Event::LeftoversGone);
    for run in runs {
        if !effects.iter().any(|effect| matches!(effect, Effect::Spawn(_))) {
            break;
        }
        spawned.push(story.now.at);
        match run {
            Run::Fails { code } => story.fails_to_spawn(code),
            Run::Exits { end, after } => {
                story.only_hears(Event::ExecDone { ran_as: Next::Continue });
                story.runs_for(after);
                story.only_hears(Event::Exited(end))
            }
        };
        let Some((left, Why::Restart)) = story.armed() else { break };
        story.passes(left);
        effects = story.only_hears(Event::Due);
    }
    (story, spawned)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_rules_hold_after_every_step(rules in any_rules(), acts in vec(any_act(), 0..80)) {
        let mut watch = Watch::over(rules);
        for act in acts {
            watch.act(act);
        }
    }

    #[test]
    fn a_stop_ends_by_the_clock_alone_within_the_grace_and_a_second(
        rules in any_rules(),
        acts in vec(any_act(), 0..40),
    ) {
        let mut watch = Watch::over(rules);
        for act in acts {
            watch.act(act);
        }
        watch.hear(Event::StopAsked { sender: 1 });
        let asked = watch.story.now.at;
        while watch.story.armed().is_some() {
            watch.reaches_deadline();
        }
        prop_assert_eq!(watch.story.life.phase(), &Phase::Ended);
        prop_assert!(watch.story.now.at <= asked + watch.grace + secs(1));
    }

    /// Between five spawns lie four exits, and the third and the fourth of them
    /// each wait for half a minute.
    #[test]
    fn whatever_the_exits_no_minute_sees_more_than_four_spawns(runs in vec(any_run(), 0..60)) {
        let (_, spawned) = left_alone(always(), runs);
        for five in spawned.windows(5) {
            prop_assert!(five[4] - five[0] >= secs(60), "five within {:?}", five[4] - five[0]);
        }
    }

    #[test]
    fn an_agent_that_always_crashes_halts_in_time(
        numbers in any_numbers(),
        first in any_run(),
        runs in vec((any_end(), any_time()), 8),
    ) {
        let patience = numbers.halt_after.max(1);
        let stable_after = numbers.stable_after;
        let rules = Rules { numbers, ..always() };
        let crashes = runs.into_iter().map(|(end, after)| Run::Exits {
            end: code(end.code.max(1)),
            after: after.min(stable_after),
        });
        let (story, spawned) = left_alone(rules, [first].into_iter().chain(crashes));
        let over = matches!(story.life.phase(), Phase::Halted | Phase::Stopping { .. });
        prop_assert!(over, "{:?}", story.life.phase());
        prop_assert!(spawned.len() as u32 <= patience + 1);
        prop_assert_eq!(story.life.health(), Health::Halted);
    }
}
