use super::*;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn rule(when: When) -> Rule {
    Rule { name: "r", when, then: Then::Log }
}

/// An agent, its clock, and what it shows.
struct Life {
    book: Rulebook,
    began: Instant,
    now: Instant,
    running: Option<Instant>,
    is_coming: bool,
    is_paused: bool,
    restarts: u64,
    tokens: u64,
    heard: Option<Instant>,
    idle: Option<Instant>,
    repeats: bool,
    drawn: u64,
    screen: &'static str,
}

impl Life {
    fn under(rules: Vec<Rule>) -> Life {
        let now = Instant::now();
        Life {
            book: Rulebook::new(rules),
            began: now,
            now,
            running: Some(now),
            is_coming: false,
            is_paused: false,
            restarts: 0,
            tokens: 0,
            heard: None,
            idle: None,
            repeats: false,
            drawn: 0,
            screen: "",
        }
    }

    fn of(when: When) -> Life {
        Life::under(vec![rule(when)])
    }

    /// What is done now; a second look at the same moment does nothing more.
    fn look(&mut self) -> Vec<String> {
        let screen = self.screen;
        let shows = |text: &str| screen.contains(text);
        let world = World {
            running: self.running,
            is_coming: self.is_coming,
            is_paused: self.is_paused,
            restarts: self.restarts,
            tokens: self.tokens,
            heard: self.heard,
            idle: self.idle,
            repeats: self.repeats,
            drawn: self.drawn,
            shows: &shows,
        };
        let fired = self.book.turn(&world, self.now);
        assert_eq!(self.book.turn(&world, self.now), [], "done twice");
        assert!(self.book.wake().is_none_or(|wake| wake > self.now), "a wake-up that is over");
        fired.into_iter().map(|fired| fired.value).collect()
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.look()
    }

    fn draws(&mut self, screen: &'static str) -> Vec<String> {
        self.screen = screen;
        self.drawn += 1;
        self.look()
    }

    fn wakes_at(&self) -> Option<Duration> {
        self.book.wake().map(|wake| wake - self.began)
    }
}

const NONE: [String; 0] = [];

#[test]
fn a_runtime_is_of_each_run() {
    let mut life = Life::of(When::MaxRuntime(secs(10)));
    assert_eq!(life.look(), NONE);
    assert_eq!(life.wakes_at(), Some(secs(10)));
    assert_eq!(life.after(secs(10)), ["10s"]);
    assert_eq!((life.after(secs(100)), life.wakes_at()), (vec![], None));
    life.running = None;
    assert_eq!((life.after(secs(5)), life.wakes_at()), (vec![], None));
    life.running = Some(life.now);
    assert_eq!(life.look(), NONE);
    assert_eq!(life.wakes_at(), Some(secs(125)));
    assert_eq!(life.after(secs(11)), ["11s"]);
}

#[test]
fn a_time_that_no_clock_holds_never_comes() {
    let mut life = Life::of(When::MaxRuntime(Duration::MAX));
    assert_eq!((life.after(secs(1 << 30)), life.wakes_at()), (vec![], None));
}

#[test]
fn a_silence_is_told_once_and_ends_with_a_sign() {
    let mut life = Life::of(When::SilentFor(secs(10)));
    assert_eq!(life.look(), NONE);
    life.now += secs(4);
    life.heard = Some(life.now);
    assert_eq!((life.look(), life.wakes_at()), (vec![], Some(secs(14))));
    assert_eq!(life.after(secs(10)), ["10s"]);
    assert_eq!((life.after(secs(50)), life.wakes_at()), (vec![], None));
    life.heard = Some(life.now);
    assert_eq!(life.look(), NONE);
    assert_eq!(life.after(secs(10)), ["10s"]);
    // What the last agent said is no sign of this one.
    life.running = Some(life.now + secs(1));
    life.now += secs(1);
    assert_eq!(life.after(secs(9)), NONE);
    assert_eq!(life.after(secs(1)), ["10s"]);
}

#[test]
fn a_pause_is_neither_silence_nor_idleness() {
    let mut life = Life::under(vec![rule(When::SilentFor(secs(10))), rule(When::IdleFor(secs(10)))]);
    life.idle = Some(life.now);
    assert_eq!(life.after(secs(9)), NONE);
    life.is_paused = true;
    assert_eq!((life.after(secs(100)), life.wakes_at()), (vec![], None));
    life.is_paused = false;
    assert_eq!(life.look(), NONE);
    assert_eq!(life.after(secs(9)), NONE);
    assert_eq!(life.after(secs(1)), ["10s", "10s"]);
}

#[test]
fn each_idle_time_is_one() {
    let mut life = Life::of(When::IdleFor(secs(10)));
    assert_eq!((life.after(secs(100)), life.wakes_at()), (vec![], None));
    for _ in 0..2 {
        life.idle = Some(life.now);
        assert_eq!(life.look(), NONE);
        assert_eq!(life.after(secs(10)), ["10s"]);
        assert_eq!(life.after(secs(10)), NONE);
        life.idle = None;
        assert_eq!(life.after(secs(1)), NONE);
    }
}

#[test]
fn tokens_are_a_budget_that_a_resume_renews() {
    let mut life = Life::of(When::MaxTokens(100));
    life.tokens = 99;
    assert_eq!(life.look(), NONE);
    life.tokens = 130;
    assert_eq!(life.look(), ["130"]);
    life.tokens = 500;
    assert_eq!(life.look(), NONE, "the budget is used up once");
    life.book.begin_anew(1, 500);
    assert_eq!(life.look(), NONE, "not used up again at once");
    life.tokens = 600;
    assert_eq!(life.look(), ["100"]);
}

#[test]
fn a_restart_for_tokens_begins_their_budget_anew() {
    let mut life = Life::under(vec![Rule { then: Then::Restart, ..rule(When::MaxTokens(100)) }]);
    for total in [100, 200, 300] {
        life.tokens = total - 1;
        assert_eq!(life.look(), NONE);
        life.tokens = total;
        assert_eq!(life.look(), ["100"]);
    }
}

#[test]
fn each_rule_has_a_budget_of_its_own() {
    let restart = Rule { then: Then::Restart, ..rule(When::MaxTokens(100)) };
    let mut life = Life::under(vec![restart, rule(When::MaxTokens(250))]);
    life.tokens = 150;
    assert_eq!(life.look(), ["150"]);
    life.tokens = 250;
    assert_eq!(life.look(), ["100", "250"]);
}

#[test]
fn so_many_restarts_are_allowed_and_one_more_is_not() {
    let mut life = Life::of(When::MaxRestarts(2));
    life.restarts = 2;
    assert_eq!(life.look(), NONE);
    (life.running, life.restarts) = (None, 3);
    assert_eq!(life.look(), NONE, "while nothing can be done about it");
    life.is_coming = true;
    assert_eq!(life.look(), ["3"]);
    life.restarts = 4;
    assert_eq!(life.look(), NONE);
    life.book.begin_anew(5, 0);
    life.restarts = 7;
    assert_eq!(life.look(), NONE);
    life.restarts = 8;
    assert_eq!(life.look(), ["3"]);
}

#[test]
fn a_text_counts_when_it_appears() {
    let mut life = Life::of(When::ScreenContains("Error".into()));
    assert_eq!(life.draws("all well"), NONE);
    assert_eq!(life.draws("an Error"), ["Error"]);
    assert_eq!(life.draws("an Error and more"), NONE);
    // Drawn anew.
    assert_eq!(life.draws(""), NONE);
    life.now += Duration::from_millis(900);
    assert_eq!(life.draws("an Error"), NONE);
    // Gone for long enough, although nobody looked at the end of it.
    assert_eq!(life.draws(""), NONE);
    life.now += secs(1);
    assert_eq!(life.draws("an Error"), ["Error"]);
    assert_eq!(life.wakes_at(), None);
    // Another run has another screen.
    life.running = Some(life.now + secs(1));
    life.now += secs(1);
    assert_eq!(life.draws("an Error"), ["Error"]);
}

#[test]
fn what_a_conversation_showed_before_is_not_new_when_it_goes_on() {
    let mut life = Life::of(When::ScreenContains("Error".into()));
    assert_eq!(life.draws("Error"), ["Error"]);
    for _ in 0..2 {
        // Ended for it, perhaps, and continued: an empty screen, then what was.
        (life.running, life.repeats) = (Some(life.now + secs(5)), true);
        assert_eq!(life.draws(""), [""; 0]);
        life.now += secs(8);
        assert_eq!(life.draws("Error"), [""; 0]);
        assert_eq!(life.draws("Err"), [""; 0]);
        life.now += secs(3);
        assert_eq!(life.draws("> go on, Error"), [""; 0], "drawn in pieces");
    }
    // Something was said to it since.
    life.repeats = false;
    assert_eq!(life.draws("Error, go on"), [""; 0]);
    life.draws("");
    life.now += secs(1);
    assert_eq!(life.draws("Error"), ["Error"]);

    let mut life = Life::of(When::ScreenContains("Error".into()));
    life.repeats = true;
    assert_eq!(life.draws("Error"), ["Error"], "nobody has seen it before");
    (life.running, life.repeats) = (Some(life.now + secs(1)), false);
    assert_eq!(life.draws("Error"), ["Error"], "of another conversation");
}

#[test]
fn a_screen_that_nobody_drew_on_is_not_looked_at() {
    let mut life = Life::of(When::ScreenContains("Error".into()));
    assert_eq!(life.draws(""), NONE);
    life.screen = "Error";
    assert_eq!(life.look(), NONE);
}

#[test]
fn the_next_wake_up_is_the_earliest() {
    let mut life = Life::under(vec![
        rule(When::MaxRuntime(secs(30))),
        rule(When::SilentFor(secs(10))),
        rule(When::MaxRuntime(secs(20))),
    ]);
    life.look();
    assert_eq!(life.wakes_at(), Some(secs(10)));
    assert_eq!(life.after(secs(10)), ["10s"]);
    assert_eq!(life.wakes_at(), Some(secs(20)));
    assert_eq!(life.after(secs(20)), ["30s", "30s"]);
    assert_eq!(life.wakes_at(), None);
    assert_eq!(life.book.times().map(|(_, times)| times).collect::<Vec<_>>(), [1, 1, 1]);
}
