use proptest::prelude::*;
use serde_json::Value;

use super::super::line::is_frame;
use super::super::parser::{Csi, End, Listener, Parser};
use super::*;

/// A recording and all that came out of it, with a clock of its own.
struct Tape {
    recording: Recording,
    begun: Instant,
    now: Instant,
    file: Vec<u8>,
}

impl Tape {
    fn new(secrets: &[&str]) -> Tape {
        let begun = Instant::now();
        let mut recording = Recording::default();
        recording.hide(secrets.iter().map(|secret| (*secret).to_owned()).collect());
        Tape { recording, begun, now: begun, file: Vec::new() }
    }

    fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.recording.output(bytes.as_ref(), self.now);
    }

    fn take(&mut self, take: Take) {
        let mut lines = Lines::new(self.file.len() as u64, self.begun);
        self.recording.take(take, self.now, &mut lines);
        self.file.extend(lines.bytes);
    }

    /// As the supervisor's loop does it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.recording.deadline().filter(|at| *at <= end) {
            self.now = at;
            self.take(Take::Settled);
        }
        self.now = end;
    }

    fn events(&self) -> Vec<(f64, String, String)> {
        let text = std::str::from_utf8(&self.file).expect("UTF-8");
        let event = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let word = |n: usize| event[n].as_str().unwrap().to_owned();
            (event[0].as_f64().unwrap(), word(1), word(2))
        };
        text.lines().map(event).collect()
    }

    fn text(&self, letter: &str) -> String {
        self.events().into_iter().filter(|event| event.1 == letter).map(|event| event.2).collect()
    }

    fn shown(&self) -> Vec<String> {
        self.events().into_iter().map(|(at, kind, text)| format!("{at} {kind} {text}")).collect()
    }
}

const SECRET: &str = "sk-12345678";
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn nothing_stays_unwritten_for_a_second_and_nothing_is_waited_for_without_need() {
    let mut tape = Tape::new(&[SECRET]);
    assert_eq!(tape.recording.deadline(), None);
    tape.say("hello ");
    tape.pass(Duration::from_millis(300));
    tape.say("world");
    assert!(tape.file.is_empty());
    tape.pass(Duration::from_millis(699));
    assert_eq!(tape.shown(), ["0 o hello ", "0.3 o world"]);
    assert_eq!(tape.recording.deadline(), None);
    // Held back, and yet in the file within the second.
    tape.say("files");
    tape.pass(PATIENCE);
    assert_eq!(tape.text("o"), "hello worldfiles");
    assert_eq!(tape.recording.deadline(), None, "the match goes on without a deadline");
    tape.pass(LONG);
    tape.say("k-12345678");
    tape.pass(LONG);
    assert_eq!(tape.text("o"), "hello worldfiles**********");
}

#[test]
fn what_is_held_back_keeps_its_time_and_its_place() {
    let mut tape = Tape::new(&[SECRET]);
    tape.say("a sk-1");
    tape.pass(Duration::from_millis(500));
    tape.recording.resize(80, 24, tape.now);
    tape.recording.input(b"typed", tape.now);
    tape.pass(Duration::from_millis(100));
    tape.say("2345678 b");
    tape.pass(LONG);
    assert_eq!(tape.shown(), ["0 o a ****", "0.5 r 80x24", "0.5 i typed", "0.6 o ******* b"]);
}

#[test]
fn input_is_hidden_too_and_by_itself() {
    let mut tape = Tape::new(&[SECRET]);
    for key in "\x1bsk-12345678".chars() {
        tape.recording.input(key.to_string().as_bytes(), tape.now);
        tape.say("*");
        tape.pass(Duration::from_millis(100));
    }
    tape.pass(LONG);
    assert_eq!(tape.text("i"), "\x1b***********");
    assert_eq!(tape.text("o"), "*".repeat(12));
    assert_eq!(tape.events().len(), 24);
}

#[test]
fn characters_are_joined_and_what_is_none_is_replaced() {
    let mut tape = Tape::new(&[]);
    for piece in [&b"a\xe6"[..], b"\x97", b"\xa5b\xff\xc3", b"(\xf0\x9f\x98", b"\x80\xe2\x82"] {
        tape.say(piece);
    }
    tape.recording.end_streams(tape.now);
    tape.take(Take::All);
    assert_eq!(tape.text("o"), "a日b\u{fffd}\u{fffd}(😀\u{fffd}");
}

#[test]
fn memory_is_bounded_whatever_follows_a_letter() {
    let mut tape = Tape::new(&[SECRET]);
    tape.say("sk-");
    for _ in 0..1000 {
        tape.say("\x1b[31m│ │\r\n".repeat(50));
        if tape.recording.is_full() {
            tape.take(Take::Settled);
        }
        assert!(tape.recording.text.len() < FULL + 4096);
    }
    for _ in 0..10_000 {
        tape.say(" ");
        if tape.recording.is_full() {
            tape.take(Take::Settled);
        }
        assert!(tape.recording.events.len() < FULL / 32);
    }
    tape.say("12345678");
    tape.take(Take::All);
    assert!(tape.text("o").ends_with("  ********"));
}

#[test]
fn other_secrets_end_the_search_for_the_old_and_the_same_do_not() {
    let mut tape = Tape::new(&[SECRET]);
    tape.say("sk-123");
    tape.recording.end_streams(tape.now);
    tape.recording.hide(vec![SECRET.to_owned()]);
    tape.say("45678 ");
    tape.say("sk-123");
    tape.recording.hide(vec!["hunter22".to_owned()]);
    tape.say("45678 hunter22 sk-12345678");
    tape.take(Take::All);
    assert_eq!(tape.text("o"), "*********** ******45678 ******** sk-12345678");
}

#[test]
fn the_last_of_it_does_not_wait() {
    let mut tape = Tape::new(&[SECRET]);
    tape.say("the ");
    tape.say("end s");
    tape.take(Take::Settled);
    assert_eq!(tape.text("o"), "the ");
    tape.take(Take::All);
    assert_eq!(tape.text("o"), "the end s");
    assert_eq!(tape.recording.deadline(), None);
}

/// What a terminal shows of a stream, and what stands in its strings, without blanks and frames.
#[derive(Default)]
struct Seen {
    text: String,
    strings: String,
}

impl Listener for Seen {
    fn plain(&mut self, text: &[u8]) {
        self.text.extend(text.iter().map(|byte| char::from(*byte)).filter(|c| !is_frame(*c)));
    }
    fn other(&mut self, c: char) {
        self.text.extend(Some(c).filter(|c| !is_frame(*c)));
    }
    fn control(&mut self, _: u8) {}
    fn escape(&mut self, _: Option<u8>, _: u8) {}
    fn csi(&mut self, _: &Csi) {}
    fn osc(&mut self, command: &[u8], _: End) {
        self.strings.extend(String::from_utf8_lossy(command).chars().filter(|c| !is_frame(*c)));
        self.strings.push('\u{0}');
    }
    fn dcs(&mut self, _: &[u8]) {}
}

fn seen(stream: &str) -> Seen {
    let mut seen = Seen::default();
    Parser::default().feed(stream.as_bytes(), &mut seen);
    seen
}

fn secrets() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abcé本 |]{6,12}", 1..4)
}

/// Letters, and all that may stand between them; mostly pieces of secrets.
fn pieces(secrets: Vec<String>) -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let part = (prop::sample::select(secrets.clone()), 0..12usize, 1..13usize)
        .prop_map(|(secret, from, most)| secret.chars().skip(from).take(most).collect::<String>());
    let between = prop::sample::select(vec![
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[12;5H",
        "\x1b[K",
        "\x1b(B",
        "\x1b7",
        "\x1b]0;t\x07",
        "\x1b]0;abc\x1b\\",
        " ",
        "│",
        "| ",
        "\r\n",
        "\r\n│ ",
        "\x08",
        "─",
        "⎿ ",
        "x",
    ]);
    let piece = prop_oneof![4 => part, 4 => between.prop_map(str::to_owned), 1 => "[abcé本x]{1,8}"];
    (Just(secrets), prop::collection::vec(piece, 0..30))
}

proptest! {
    #[test]
    fn no_secret_is_ever_in_the_file(
        (secrets, pieces) in secrets().prop_flat_map(pieces),
        cuts in prop::collection::vec((1..9usize, 0..900u64), 1..40),
        as_title in any::<bool>(),
    ) {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut tape = Tape::new(&secrets);
        let stream = match as_title {
            false => pieces.concat(),
            true => format!("\x1b]0;{}\x07", pieces.concat().replace(|c: char| c.is_control(), "")),
        };
        let mut rest = stream.as_bytes();
        for (length, pause) in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*length).min(rest.len()));
            tape.say(now);
            tape.pass(Duration::from_millis(*pause));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        tape.take(Take::All);
        let file = tape.text("o");
        let seen = seen(&file);
        for secret in secrets {
            let core: String = secret.chars().filter(|c| !is_frame(*c)).collect();
            // With less than that of it only the whole secret is looked for.
            if core.chars().count() >= 6 {
                prop_assert!(!seen.text.contains(&core), "{core:?} is in {:?}", seen.text);
                prop_assert!(!seen.strings.contains(&core), "{core:?} is in {:?}", seen.strings);
            }
            prop_assert!(secret.trim().is_empty() || !file.contains(secret), "{secret:?} is in {file:?}");
        }
    }

    #[test]
    fn without_secrets_it_is_the_output_byte_for_byte(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xe2), Just(0x94), Just(0x82), Just(b'"')], 0..500),
        cuts in prop::collection::vec((1..50usize, 0..900u64), 1..40),
        secret in prop_oneof![Just(vec![]), Just(vec!["never said \u{1}"])],
    ) {
        let mut tape = Tape::new(&secret);
        let mut rest = &bytes[..];
        for (length, pause) in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*length).min(rest.len()));
            tape.say(now);
            tape.pass(Duration::from_millis(*pause));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        tape.recording.end_streams(tape.now);
        tape.take(Take::All);
        prop_assert_eq!(tape.text("o"), String::from_utf8_lossy(&bytes));
    }
}
