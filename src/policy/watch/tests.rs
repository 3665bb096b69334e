use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const NUMBERS: Numbers = Numbers {
    continue_after: Duration::from_secs(120),
    kill_after: Duration::from_secs(240),
    tool_after: Duration::from_secs(1800),
    start_after: Duration::from_secs(60),
};

/// An agent and the clock it lives by.
struct Story {
    watch: Watch,
    now: Instant,
    task: Option<Task>,
    run: u64,
    words: u64,
    keys: u64,
    typed: u64,
    drawn: u64,
    face: u64,
    used: Option<Used>,
    /// Per mille of the time that it has a core, and that it stands in line for one.
    load: u32,
    wait: u32,
    /// What it draws while time passes, every so often.
    spins: bool,
    is_stopped: bool,
    continued: u64,
    limit: Option<u64>,
    faces: Cell<u32>,
    steps: Vec<(Duration, Step)>,
    began: Instant,
}

impl Story {
    fn of(task: Task) -> Story {
        let now = Instant::now();
        let mut story = Story {
            watch: Watch::new(NUMBERS),
            now,
            task: Some(task),
            run: 1,
            words: 0,
            keys: 0,
            typed: 0,
            drawn: 0,
            face: 0,
            used: Some(Used::default()),
            load: 0,
            wait: 0,
            spins: false,
            is_stopped: false,
            continued: 0,
            limit: None,
            faces: Cell::new(0),
            steps: Vec::new(),
            began: now,
        };
        story.turn();
        story
    }

    fn turn(&mut self) -> Option<Step> {
        let (face, used, is_stopped, faces) = (self.face, self.used, self.is_stopped, &self.faces);
        let limit = self.limit;
        let world = World {
            task: self.task,
            run: self.run,
            words: self.words,
            keys: self.keys,
            typed: self.typed,
            drawn: self.drawn,
            face: &|| {
                faces.set(faces.get() + 1);
                face
            },
            used: &|| used,
            is_stopped: &|| is_stopped,
            continued: self.continued,
            limit: &|| limit,
        };
        let step = self.watch.turn(&world, self.now);
        if let Some(step) = step {
            self.steps.push((self.now - self.began, step));
            if let Step::Stuck { speak: true, .. } = step {
                // As the loop does it: typed, and looked at again before anything is read.
                self.typed += 1;
                self.turn();
            }
        }
        step
    }

    /// The loop sleeps until something is due or something is drawn.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let spin = self.now + Duration::from_secs(1);
            let wake = self.watch.wake().into_iter().chain(self.spins.then_some(spin));
            let next = wake.fold(end, Instant::min).max(self.now);
            let part = |share: u32| (next - self.now) * share / 1000;
            self.used = self.used.map(|Used { cpu, waited }| Used {
                cpu: cpu + part(self.load),
                waited: waited + part(self.wait),
            });
            self.now = next;
            self.drawn += u64::from(self.spins);
            let turns = (0..4).take_while(|_| {
                let due = self.watch.wake().is_some_and(|wake| wake <= self.now);
                self.turn();
                due
            });
            assert!(turns.count() < 4, "it wants to be woken at once, for ever");
        }
        self.turn();
    }

    fn seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    fn told(&self) -> Vec<(u64, &'static str)> {
        let name = |step: &Step| match step {
            Step::Stuck { speak: true, .. } => "continue",
            Step::Stuck { speak: false, .. } => "stuck",
            Step::Kill(_) => "kill",
        };
        self.steps.iter().map(|(at, step)| (at.as_secs(), name(step))).collect()
    }

    fn draw(&mut self) {
        self.drawn += 1;
        self.face += 1;
        self.turn();
    }
}

#[test]
fn silence_is_answered_with_continue_and_then_the_kill() {
    for (task, told) in [
        (Task::Work, [(120, "continue"), (240, "kill")]),
        (Task::Tool, [(1800, "continue"), (1920, "kill")]),
        (Task::Start, [(60, "stuck"), (180, "kill")]),
    ] {
        let mut story = Story::of(task);
        story.seconds(10_000);
        assert_eq!(story.told(), told);
        assert_eq!(story.watch.wake(), None, "a killed one is not waited for");
    }
}

#[test]
fn a_spinner_is_silence_and_is_looked_at_a_few_times_only() {
    let mut story = Story::of(Task::Work);
    story.spins = true;
    story.seconds(300);
    assert_eq!(story.told(), [(120, "continue"), (240, "kill")]);
    assert!(story.faces.get() < 50, "{}", story.faces.get());
    let Some((_, Step::Kill(evidence))) = story.steps.last() else { panic!("{:?}", story.steps) };
    assert!(evidence.drew);
}

#[test]
fn a_word_a_new_screen_and_a_key_begin_a_new_silence() {
    let signs: [fn(&mut Story); 3] = [|s| s.words += 1, |s| s.draw(), |s| s.keys += 1];
    for sign in signs {
        let mut story = Story::of(Task::Work);
        story.seconds(100);
        sign(&mut story);
        story.turn();
        story.seconds(119);
        assert_eq!(story.told(), []);
        story.seconds(1);
        assert_eq!(story.told(), [(220, "continue")]);
        story.seconds(60);
        assert!(story.watch.stuck().is_some());
        sign(&mut story);
        story.turn();
        assert_eq!(story.watch.stuck(), None, "it lives again");
        story.seconds(119);
        assert_eq!(story.told().len(), 1);
    }
}

#[test]
fn the_echo_of_what_is_typed_is_no_sign() {
    let mut story = Story::of(Task::Work);
    story.seconds(60);
    story.typed += 1;
    story.turn();
    story.draw();
    story.seconds(60);
    assert_eq!(story.told(), [(120, "continue")]);
    // The echo of `continue` itself.
    story.draw();
    story.seconds(1);
    story.draw();
    story.seconds(119);
    assert_eq!(story.told(), [(120, "continue"), (240, "kill")]);
}

#[test]
fn news_before_an_echo_and_behind_it_are_news() {
    for before in [true, false] {
        let mut story = Story::of(Task::Work);
        story.seconds(60);
        if before {
            (story.drawn, story.face) = (story.drawn + 1, story.face + 1);
        }
        story.typed += 1;
        story.turn();
        story.seconds(20);
        if !before {
            story.draw();
        }
        story.seconds(90);
        assert_eq!(story.told(), [], "{before}");
    }
}

#[test]
fn who_is_given_little_but_never_rests_is_at_work() {
    for (load, wait, told) in [(90, 900, 0), (10, 800, 0), (90, 500, 2), (190, 600, 2), (0, 700, 2)] {
        let mut story = Story::of(Task::Work);
        (story.load, story.wait) = (load, wait);
        story.seconds(1000);
        assert_eq!(story.told().len(), told, "{load} {wait}");
    }
}

#[test]
fn a_fifth_of_a_core_is_life_and_less_is_not() {
    for (load, told) in [(210, 0), (1000, 0), (190, 2), (70, 2)] {
        let mut story = Story::of(Task::Work);
        story.load = load;
        story.seconds(1000);
        assert_eq!(story.told().len(), told, "{load}");
    }
    let mut unknown = Story::of(Task::Work);
    unknown.used = None;
    unknown.seconds(1000);
    assert_eq!(unknown.told(), [], "nobody can tell that it does nothing");
}

#[test]
fn who_is_stopped_or_not_at_work_is_not_stuck() {
    let mut story = Story::of(Task::Work);
    story.is_stopped = true;
    story.seconds(1000);
    assert_eq!(story.told(), []);
    story.is_stopped = false;
    story.task = None;
    story.seconds(1000);
    assert_eq!((story.told(), story.watch.wake()), (vec![], None));
    story.task = Some(Task::Work);
    story.turn();
    story.seconds(120);
    assert_eq!(story.told().len(), 1);
    story.task = None;
    story.turn();
    assert_eq!(story.watch.stuck(), None);
}

#[test]
fn a_silence_begins_where_a_stop_has_ended() {
    let mut story = Story::of(Task::Work);
    story.seconds(20);
    story.is_stopped = true;
    story.seconds(80);
    (story.is_stopped, story.continued) = (false, 1);
    story.turn();
    story.seconds(300);
    assert_eq!(story.told(), [(220, "continue"), (340, "kill")]);
}

#[test]
fn who_waits_for_a_rate_limit_is_not_stuck_as_long_as_its_screen_counts() {
    let mut story = Story::of(Task::Work);
    for n in 0..10 {
        story.limit = Some(n);
        story.seconds(1000);
    }
    assert_eq!(story.told(), []);
    story.limit = None;
    story.seconds(120);
    assert_eq!(story.told().len(), 1, "it waits no more");
}

#[test]
fn a_screen_that_has_shown_the_same_limit_for_an_hour_is_stuck() {
    let mut story = Story::of(Task::Work);
    story.limit = Some(1);
    story.seconds(3600 + 119);
    assert_eq!(story.told(), []);
    story.seconds(240);
    assert_eq!(story.told(), [(3720, "continue"), (3840, "kill")]);
}

#[test]
fn a_supervisor_that_stood_still_itself_blames_nobody() {
    let mut story = Story::of(Task::Work);
    story.seconds(100);
    story.now += Duration::from_secs(3600);
    story.turn();
    story.seconds(119);
    assert_eq!(story.told(), []);
}

#[test]
fn the_next_agent_is_watched_like_the_first() {
    let mut story = Story::of(Task::Work);
    story.seconds(500);
    assert_eq!(story.told().len(), 2);
    (story.run, story.began) = (2, story.now);
    story.turn();
    story.steps.clear();
    story.seconds(500);
    assert_eq!(story.told(), [(120, "continue"), (240, "kill")]);
}

#[derive(Clone, Debug)]
enum Act {
    Hook,
    Draw,
    Spin(bool),
    Type,
    Load(u32, u32),
    Task(Option<Task>),
    Stop(bool),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let task = prop_oneof![
        Just(None),
        Just(Some(Task::Work)),
        Just(Some(Task::Work)),
        Just(Some(Task::Tool)),
        Just(Some(Task::Start)),
    ];
    let act = prop_oneof![
        Just(Act::Hook),
        Just(Act::Draw),
        any::<bool>().prop_map(Act::Spin),
        Just(Act::Type),
        (0u32..500, 0u32..1000).prop_map(|(load, wait)| Act::Load(load, wait)),
        task.prop_map(Act::Task),
        any::<bool>().prop_map(Act::Stop),
        (0u64..200).prop_map(Act::Pass),
        (0u64..3000).prop_map(Act::Pass),
    ];
    proptest::collection::vec(act, 1..40)
}

proptest! {
    /// Nobody is blamed before the limit has passed since the last sign, each is told in order and
    /// once a silence, and whoever is silent for long enough is always found out.
    #[test]
    fn nobody_is_blamed_too_soon_and_silence_is_always_found_out(acts in acts()) {
        let mut story = Story::of(Task::Work);
        let mut signed = Duration::ZERO;
        for act in acts {
            let before = story.steps.len();
            let at = story.now - story.began;
            match act {
                Act::Hook => (story.words, signed) = (story.words + 1, at),
                Act::Draw => story.draw(),
                Act::Spin(spins) => story.spins = spins,
                Act::Type => story.typed += 1,
                Act::Load(load, wait) => (story.load, story.wait) = (load, wait),
                Act::Task(task) if task != story.task => (story.task, signed) = (task, at),
                Act::Task(_) => {}
                Act::Stop(is_stopped) => story.is_stopped = is_stopped,
                Act::Pass(seconds) => story.seconds(seconds),
            }
            story.turn();
            for (at, step) in &story.steps[before..] {
                let (evidence, limit) = match step {
                    Step::Stuck { evidence, .. } => (evidence, NUMBERS.limit(evidence.task)),
                    Step::Kill(evidence) => (evidence, NUMBERS.limit(evidence.task) + NUMBERS.patience()),
                };
                prop_assert!(Some(evidence.task) == story.task && !story.is_stopped);
                prop_assert!(*at >= signed + limit, "{at:?} {step:?} signed at {signed:?}");
                prop_assert!(evidence.silent >= limit && !evidence.used.is_alive(evidence.over));
            }
        }
        let kinds: Vec<bool> = story.steps.iter().map(|(_, step)| matches!(step, Step::Kill(_))).collect();
        prop_assert!(kinds.first() != Some(&true) && !kinds.windows(2).any(|two| two == [true, true]));
        // From now on it is silent, whatever it was before.
        (story.run, story.task, story.is_stopped) = (story.run + 1, Some(Task::Work), false);
        (story.load, story.wait) = (0, 0);
        story.turn();
        (story.began, story.steps) = (story.now, Vec::new());
        story.seconds(1000);
        prop_assert_eq!(story.told(), [(120, "continue"), (240, "kill")]);
    }
}
