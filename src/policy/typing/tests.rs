use proptest::prelude::*;

use super::*;

/// Owns the time, and remembers what was written when.
struct Desk {
    typing: Typing,
    ground: Ground,
    now: Instant,
    written: Vec<(Instant, Vec<u8>)>,
    done: Vec<(u64, Result<Receipt, Refusal>)>,
    tickets: u64,
    /// Texts that may be typed whatever stands in the line.
    forced: Vec<Vec<u8>>,
    /// The agent shows what is typed, at once.
    echoes: bool,
}

const READY: Ground = Ground {
    is_running: true,
    is_ready: true,
    is_plain: false,
    has_draft: false,
    half_typed: None,
    bracketed: true,
    canonical: false,
    room: 65536,
    unwritten: false,
    unread: false,
    output: 0,
    shows: None,
};

impl Desk {
    fn new() -> Desk {
        Desk {
            typing: Typing::default(),
            ground: READY,
            now: Instant::now(),
            written: Vec::new(),
            done: Vec::new(),
            tickets: 0,
            forced: Vec::new(),
            echoes: true,
        }
    }

    fn job(&mut self, text: &str) -> Job {
        self.tickets += 1;
        Job { ticket: self.tickets, text: text.into(), submit: true, force: false, confirms: false }
    }

    fn ask(&mut self, job: Job) {
        self.typing.ask(job, self.now).expect("there is room");
        self.turn();
    }

    fn turn(&mut self) {
        // Each turn may make the next one possible.
        loop {
            let effects = self.typing.turn(&self.ground, self.now);
            if effects.is_empty() {
                return;
            }
            self.take(effects);
        }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(bytes) => {
                    let is_free = bytes == b"\r" || !self.ground.has_draft;
                    assert!(is_free || self.forced.contains(&bytes), "typed into a draft");
                    self.written.push((self.now, bytes));
                    self.ground.output += u64::from(self.echoes);
                }
                Effect::Done { ticket, result } => self.done.push((ticket, result)),
                Effect::LineTaken | Effect::Strayed(_) => self.ground.has_draft = true,
                Effect::LineSent => self.ground.has_draft = false,
            }
        }
    }

    fn go_to_next_deadline(&mut self) {
        self.now = self.typing.wake().expect("something is due");
        self.turn();
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.written.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        String::from_utf8(bytes).expect("text")
    }
}

#[test]
fn an_enter_follows_its_text_by_itself_and_later() {
    let mut desk = Desk::new();
    let job = desk.job("hello\nyou");
    desk.ground.unwritten = true;
    desk.ask(job);
    let given_up = desk.now + READS_WITHIN;
    assert_eq!(desk.typing.wake(), Some(given_up), "the terminal tells when it has taken the text");
    desk.now += Duration::from_secs(1);
    desk.ground.unwritten = false;
    desk.turn();
    let taken = desk.now;
    assert!(desk.typing.is_typing());
    desk.go_to_next_deadline();
    assert_eq!(desk.text(), "\x1b[200~hello\ryou\x1b[201~\r");
    assert_eq!(desk.written[1], (taken + PAUSE, b"\r".to_vec()));
    assert_eq!(desk.done, [(1, Ok(Receipt::Submitted))]);
    assert!(!desk.typing.has_work() && desk.typing.wake().is_none());
}

#[test]
fn an_agent_that_has_not_read_the_text_yet_gets_the_enter_later_but_gets_it() {
    let mut desk = Desk::new();
    let job = desk.job("hello");
    desk.ground.unread = true;
    desk.ask(job);
    for _ in 0..5 {
        desk.go_to_next_deadline();
    }
    assert_eq!(desk.done, []);
    desk.ground.unread = false;
    desk.go_to_next_deadline();
    assert_eq!(desk.done, [(1, Ok(Receipt::Submitted))]);

    let mut desk = Desk::new();
    let began = desk.now;
    let job = desk.job("hello");
    desk.ground.unread = true;
    desk.ask(job);
    while desk.done.is_empty() {
        desk.go_to_next_deadline();
    }
    assert!(desk.now - began >= READS_WITHIN && desk.now - began < READS_WITHIN + Duration::from_secs(1));
}

#[test]
fn an_agent_that_never_lets_a_text_in_does_not_keep_others_waiting() {
    for (submit, receipt) in [(true, Receipt::Submitted), (false, Receipt::Written)] {
        let mut desk = Desk::new();
        let began = desk.now;
        let job = Job { submit, ..desk.job("hello") };
        (desk.ground.unwritten, desk.ground.unread, desk.echoes) = (true, true, false);
        desk.ask(job);
        while desk.done.is_empty() {
            desk.go_to_next_deadline();
        }
        assert_eq!(desk.done, [(1, Ok(receipt))]);
        assert!(!desk.typing.is_typing());
        assert!(desk.now - began <= READS_WITHIN + PAUSE);
    }
}

#[test]
fn an_enter_comes_a_pause_behind_the_echo_or_without_one_after_a_second() {
    let mut desk = Desk::new();
    desk.echoes = false;
    let job = desk.job("hello");
    desk.ask(job);
    desk.now += Duration::from_millis(140);
    desk.ground.output += 9;
    desk.turn();
    let echoed = desk.now;
    desk.go_to_next_deadline();
    assert_eq!(desk.written[1], (echoed + PAUSE, b"\r".to_vec()));

    let mut desk = Desk::new();
    let began = desk.now;
    desk.echoes = false;
    let job = desk.job("hello");
    desk.ask(job);
    while desk.done.is_empty() {
        desk.go_to_next_deadline();
    }
    assert!(desk.now - began >= ECHOES_WITHIN && desk.now - began < ECHOES_WITHIN + PAUSE);
}

#[test]
fn an_enter_is_not_pressed_where_the_text_is_not_seen() {
    let mut desk = Desk::new();
    desk.ground.shows = Some(false);
    let job = desk.job("hello");
    desk.ask(job);
    while desk.done.is_empty() {
        desk.go_to_next_deadline();
    }
    assert_eq!((desk.done[0], desk.written.len()), ((1, Err(Refusal::NotShown)), 1));
    assert!(desk.ground.has_draft, "nobody types behind it");

    let mut desk = Desk::new();
    desk.ground.shows = Some(false);
    let job = desk.job("hello");
    desk.ask(job);
    desk.go_to_next_deadline();
    desk.ground.shows = Some(true);
    desk.go_to_next_deadline();
    assert_eq!(desk.done, [(1, Ok(Receipt::Submitted))]);
}

#[test]
fn the_next_text_waits_until_the_enter_is_seen() {
    for confirms in [false, true] {
        let mut desk = Desk::new();
        let job = Job { confirms, ..desk.job("one") };
        let next = desk.job("two");
        desk.ask(job);
        desk.ask(next);
        desk.go_to_next_deadline();
        let entered = desk.now;
        assert!(!desk.typing.is_typing(), "others may type meanwhile");
        desk.go_to_next_deadline();
        let settled = entered + if confirms { CONFIRMS_SOON } else { SETTLES_WITHIN };
        assert_eq!((desk.now, desk.written.len()), (settled, 3));
    }
    for confirms in [false, true] {
        let mut desk = Desk::new();
        let job = Job { confirms, ..desk.job("one") };
        let next = desk.job("two");
        desk.ask(job);
        desk.ask(next);
        desk.go_to_next_deadline();
        for (prompt, written) in [("", 2), ("another one", 2), (" one\n", 3)] {
            let effects = desk.typing.prompt_taken(prompt);
            desk.take(effects);
            desk.turn();
            assert_eq!(desk.written.len(), written, "at once, behind its own prompt: {prompt:?}");
        }
    }
}

#[test]
fn an_enter_alone_is_not_seen_because_of_any_prompt() {
    let mut desk = Desk::new();
    for text in ["", "two"] {
        let job = Job { force: true, ..desk.job(text) };
        desk.ask(job);
    }
    assert_eq!(desk.typing.prompt_taken("an older one"), []);
    desk.turn();
    assert_eq!(desk.text(), "\r");
}

#[test]
fn an_enter_alone_is_pressed_at_once_but_not_into_a_draft() {
    let mut desk = Desk::new();
    let job = desk.job("");
    desk.ask(job);
    assert_eq!((desk.text().as_str(), &desk.done[..]), ("\r", &[(1, Ok(Receipt::Submitted))][..]));
    desk.ground.has_draft = true;
    let job = desk.job("");
    desk.now += SETTLES_WITHIN;
    desk.ask(job);
    assert_eq!((desk.text().as_str(), desk.done[1]), ("\r", (2, Err(Refusal::OperatorBusy))));
}

#[test]
fn without_an_enter_the_text_stands_in_the_line() {
    let mut desk = Desk::new();
    let job = Job { submit: false, ..desk.job("half a") };
    desk.ground.bracketed = false;
    desk.ask(job);
    assert_eq!((desk.text().as_str(), &desk.done[..]), ("half a", &[(1, Ok(Receipt::Written))][..]));
    let next = desk.job("hello");
    desk.ask(next);
    assert_eq!(desk.done[1], (2, Err(Refusal::OperatorBusy)));
    let forced = Job { force: true, ..desk.job(" sentence") };
    desk.forced.push(b" sentence".to_vec());
    desk.ask(forced);
    desk.go_to_next_deadline();
    assert_eq!((desk.text().as_str(), desk.ground.has_draft), ("half a sentence\r", false));
}

#[test]
fn only_the_agent_itself_confirms_and_only_this_text() {
    let mut desk = Desk::new();
    for text in ["one", "two", "one"] {
        let job = Job { confirms: true, ..desk.job(text) };
        desk.ask(job);
    }
    while desk.written.len() < 6 {
        desk.go_to_next_deadline();
    }
    let submitted = desk.now;
    assert_eq!(desk.done, []);
    for prompt in ["three", "", "o", "one more", " two\n", "one"] {
        let effects = desk.typing.prompt_taken(prompt);
        desk.take(effects);
    }
    assert_eq!(desk.done, [(2, Ok(Receipt::Confirmed)), (1, Ok(Receipt::Confirmed))]);
    desk.go_to_next_deadline();
    assert_eq!((desk.now, desk.done[2]), (submitted + CONFIRMS_WITHIN, (3, Ok(Receipt::Submitted))));
    let effects = desk.typing.prompt_taken("one");
    assert_eq!(effects, [], "nothing is told twice");
}

#[test]
fn a_forced_text_is_confirmed_within_what_stood_in_the_line() {
    let mut desk = Desk::new();
    desk.ground.has_draft = true;
    let job = Job { force: true, confirms: true, ..desk.job("hello") };
    desk.ground.bracketed = false;
    desk.forced.push(b"hello".to_vec());
    desk.ask(job);
    desk.go_to_next_deadline();
    let effects = desk.typing.prompt_taken("a draft hello");
    desk.take(effects);
    assert_eq!(desk.done, [(1, Ok(Receipt::Confirmed))]);
}

#[test]
fn nothing_is_typed_into_the_middle_of_a_key() {
    let mut desk = Desk::new();
    let until = desk.now + Duration::from_millis(100);
    desk.ground.half_typed = Some(until);
    let job = Job { force: true, ..desk.job("hello") };
    desk.ask(job);
    assert_eq!((desk.written.len(), desk.typing.wake()), (0, Some(until)));
    desk.go_to_next_deadline();
    assert_eq!((desk.written.len(), desk.now), (1, until), "it was no half of a key after all");
}

#[test]
fn refusals_type_nothing() {
    let changed = |change: fn(&mut Ground)| {
        let mut ground = READY;
        change(&mut ground);
        ground
    };
    for (ground, text, refusal) in [
        (changed(|g| g.is_running = false), "x".to_owned(), Refusal::NotRunning),
        (changed(|g| g.has_draft = true), "x".to_owned(), Refusal::OperatorBusy),
        (changed(|g| g.room = 12), "x".to_owned(), Refusal::InputFull),
        (
            changed(|g| (g.canonical, g.bracketed) = (true, false)),
            format!("a\n{}", "x".repeat(4096)),
            Refusal::LineTooLong { line: 2 },
        ),
    ] {
        let mut desk = Desk::new();
        desk.ground = ground;
        let job = desk.job(&text);
        desk.ask(job);
        assert_eq!((desk.done[0], desk.written.len()), ((1, Err(refusal)), 0));
        assert!(!desk.typing.has_work());
    }
}

#[test]
fn an_agent_that_comes_up_is_waited_for() {
    let mut desk = Desk::new();
    desk.ground.is_ready = false;
    let job = desk.job("hello");
    desk.ask(job);
    assert_eq!((desk.written.len(), desk.typing.is_typing()), (0, false));
    desk.ground.is_ready = true;
    desk.turn();
    assert_eq!(desk.written.len(), 1);

    let mut desk = Desk::new();
    let began = desk.now;
    desk.ground.is_ready = false;
    let job = desk.job("hello");
    desk.ask(job);
    desk.go_to_next_deadline();
    assert_eq!(desk.done, [(1, Err(Refusal::NotReady))]);
    assert!(desk.now >= began + READY_WITHIN);

    // It speaks, so it lives: in the end it is given what it may read.
    let mut desk = Desk::new();
    (desk.ground.is_ready, desk.ground.is_plain) = (false, true);
    let job = desk.job("hello");
    desk.ask(job);
    assert_eq!(desk.written.len(), 0);
    desk.go_to_next_deadline();
    assert_eq!((desk.written.len(), desk.done.len()), (1, 0));
}

#[test]
fn an_agent_that_ends_in_the_middle_is_told_of() {
    let mut desk = Desk::new();
    for text in ["one", "two", "three"] {
        let job = Job { confirms: true, ..desk.job(text) };
        desk.ask(job);
    }
    desk.go_to_next_deadline();
    desk.go_to_next_deadline();
    desk.ground.is_running = false;
    desk.turn();
    assert_eq!(
        desk.done,
        [(1, Ok(Receipt::Submitted)), (2, Err(Refusal::EndedMeanwhile)), (3, Err(Refusal::NotRunning))]
    );
    assert!(!desk.typing.has_work());
}

#[test]
fn the_queue_has_an_end() {
    let mut desk = Desk::new();
    desk.ground.is_ready = false;
    for _ in 0..MOST_QUEUED {
        let job = desk.job("x");
        desk.ask(job);
    }
    let job = desk.job("x");
    assert_eq!(desk.typing.ask(job, desk.now), Err(Refusal::TooMany));
}

#[derive(Clone, Debug)]
enum Happens {
    Asked { submit: bool, force: bool, confirms: bool },
    Passes(u64),
    Room(bool),
    Read(bool),
    Ready(bool),
    Drafts(bool),
    Runs(bool),
    Says(usize),
    Echoes(bool),
    Shows(Option<bool>),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => any::<(bool, bool, bool)>()
            .prop_map(|(submit, force, confirms)| Happens::Asked { submit, force, confirms }),
        6 => (0u64..3000).prop_map(Happens::Passes),
        2 => any::<bool>().prop_map(Happens::Room),
        2 => any::<bool>().prop_map(Happens::Read),
        1 => any::<bool>().prop_map(Happens::Ready),
        1 => any::<bool>().prop_map(Happens::Drafts),
        1 => prop_oneof![4 => Just(true), 1 => Just(false)].prop_map(Happens::Runs),
        2 => (0usize..20).prop_map(Happens::Says),
        1 => any::<bool>().prop_map(Happens::Echoes),
        1 => any::<Option<bool>>().prop_map(Happens::Shows),
    ]
}

proptest! {
    #[test]
    fn every_text_ends_once_and_none_is_typed_into_another(story in prop::collection::vec(happens(), 1..80)) {
        let mut desk = Desk::new();
        desk.ground.bracketed = false;
        for step in story {
            match step {
                Happens::Asked { submit, force, confirms } => {
                    let text = format!("<{}>", desk.tickets + 1);
                    let job = Job { submit, force, confirms, ..desk.job(&text) };
                    if force {
                        desk.forced.push(text.into_bytes());
                    }
                    let ticket = job.ticket;
                    if desk.typing.ask(job, desk.now).is_err() {
                        desk.done.push((ticket, Err(Refusal::TooMany)));
                    }
                }
                Happens::Passes(ms) => desk.now += Duration::from_millis(ms),
                Happens::Room(full) => desk.ground.unwritten = full,
                Happens::Read(unread) => desk.ground.unread = unread,
                Happens::Ready(ready) => desk.ground.is_ready = ready,
                // Nobody else types while a text is typed.
                Happens::Drafts(stands) if !desk.typing.is_typing() => desk.ground.has_draft = stands,
                Happens::Drafts(_) => {}
                Happens::Shows(shows) => desk.ground.shows = shows,
                Happens::Echoes(echoes) => desk.echoes = echoes,
                Happens::Runs(runs) => desk.ground.is_running = runs,
                Happens::Says(n) => {
                    let effects = desk.typing.prompt_taken(&format!("<{n}>"));
                    desk.take(effects);
                }
            }
            desk.turn();
            prop_assert!(desk.typing.wake().is_none_or(|at| at > desk.now), "a deadline is never behind");
        }
        let output = desk.ground.output;
        desk.ground = Ground { unwritten: false, unread: false, bracketed: false, output, ..READY };
        desk.turn();
        for _ in 0..1000 {
            if !desk.typing.has_work() {
                break;
            }
            desk.go_to_next_deadline();
        }
        prop_assert!(!desk.typing.has_work());
        let mut tickets: Vec<u64> = desk.done.iter().map(|(ticket, _)| *ticket).collect();
        tickets.sort_unstable();
        prop_assert_eq!(tickets, (1..=desk.tickets).collect::<Vec<_>>(), "each ends exactly once");
        // Whole texts in order, each at most once, and an Enter only after its pause.
        let mut last = 0;
        for pair in desk.written.windows(2) {
            if pair[1].1 == b"\r" {
                prop_assert!(pair[1].0 - pair[0].0 >= PAUSE);
                prop_assert!(pair[0].1 != b"\r");
            }
        }
        for (_, bytes) in desk.written.iter().filter(|(_, bytes)| bytes != b"\r") {
            let text = String::from_utf8(bytes.clone()).expect("text");
            let number: u64 = text.trim_matches(['<', '>']).parse().expect("a whole text");
            prop_assert!(number > last);
            last = number;
        }
    }
}
