//! `attach` by the protocol alone: what an attached terminal is told, what it is not, and what becomes of
//! one that does not read.

use std::time::{Duration, Instant};

use crate::support;
use crate::support::caller::{Framing, socket, stop};
use crate::support::viewer::until_attached;
use crate::support::{
    Caller, FAKE, Lab, Launch, Running, Terminal, Wire, eventually, holds_within, log, procfs, sys,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const SIZE: (u16, u16) = (80, 24);

/// An agent that writes whatever is typed to it, until it is stopped.
fn echoing(lab: &Lab) -> (Running, Caller) {
    let launch = Launch::run(lab, ["sh", "-c", "stty raw -echo; printf READY; exec cat"]);
    let sup = launch.with(["--size", "80x24"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

fn draw(caller: &mut Caller, output: &[u8]) {
    caller.get("inject", json!({"bytes": STANDARD.encode(output)}));
}

/// Each with its answer by the emulator, as far as it has one.
const QUESTIONS: [&str; 24] = [
    "\x1b[6n",
    "\x1b[5n",
    "\x1b[?6n",
    "\x1b[c",
    "\x1b[>c",
    "\x1b[=c",
    "\x1b[>q",
    "\x1bZ",
    "\x05",
    "\x1b[14t",
    "\x1b[16t",
    "\x1b[18t",
    "\x1b[?u",
    "\x1b[?2026$p",
    "\x1b[4$p",
    "\x1b]10;?\x07",
    "\x1b]11;?\x1b\\",
    "\x1b]4;1;?\x07",
    "\x1bP+q544e\x1b\\",
    "\x1bP$qm\x1b\\",
    "\x1b]52;c;?\x07",
    "\x1b[?996n",
    "\x1b[21t",
    "\x1b[x",
];

#[test]
fn every_question_is_answered_once_and_no_viewer_is_asked() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let input = |caller: &mut Caller| caller.get("stats", json!({}))["input_bytes"].as_u64().unwrap();
    let mut cost = None;
    let mut viewers = Vec::new();
    for count in [0, 1, 5] {
        viewers.resize_with(count, || {
            let mut wire = Wire::attach(&lab, SIZE, false);
            // It is painted.
            wire.until("\x1b[?2026l");
            wire
        });
        let (before, mark) = (input(&mut caller), format!("<{count}>"));
        for question in QUESTIONS {
            // From the same place, so that answers are as long.
            draw(&mut caller, format!("\x1b[H{question}").as_bytes());
        }
        draw(&mut caller, mark.as_bytes());
        // The echo of an answer is output too, but no answer is a question: it comes to rest.
        let mut last = 0;
        eventually("all is answered", || {
            sys::pause(Duration::from_millis(20));
            let now = input(&mut caller);
            std::mem::replace(&mut last, now) == now && sup.stdout.text().contains(&mark)
        });
        let taken = input(&mut caller) - before;
        assert_eq!(*cost.get_or_insert(taken), taken, "as many answers with {count} as with nobody");
        for wire in &mut viewers {
            wire.until(&mark);
            for question in QUESTIONS {
                assert!(!wire.text().contains(question), "{count}: asked {question:?}: {:?}", wire.text());
            }
        }
    }
    assert!(cost > Some(QUESTIONS.concat().len() as u64 + 100), "{cost:?}");
    stop(sup, &mut caller);
}

#[test]
fn with_a_terminal_on_stdin_that_one_is_asked_and_nobody_else() {
    let lab = Lab::new();
    let mut stdin = Terminal::new(80, 24);
    stdin.start(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--on-clean", "exit"]).to_command());
    stdin.expect("READY");
    let mut caller = Caller::of(&lab);
    let mut viewers = [Wire::attach(&lab, SIZE, false), Wire::attach(&lab, SIZE, true)];
    viewers.iter_mut().for_each(|wire| wire.until_shown("READY"));
    let before = caller.get("stats", json!({}))["input_bytes"].as_u64().unwrap();
    draw(&mut caller, b"\x1b[6n\x1b[c done");
    stdin.expect("\x1b[6n\x1b[c done");
    for wire in &mut viewers {
        wire.until(" done");
        assert!(!wire.text().contains("\x1b[6n"));
    }
    assert_eq!(caller.get("stats", json!({}))["input_bytes"], before + 12, "we have not answered too");
    draw(&mut caller, b"q");
    assert_eq!(stdin.end().code(), Some(0));
}

#[test]
fn other_output_passes_byte_for_byte() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    wire.until_shown("READY");
    let from = wire.output.len();
    let all: Vec<u8> = (0..=255u8).filter(|byte| ![0x05, 0x1b, 0xc2].contains(byte)).collect();
    let output =
        [&all[..], "\x1b[1;31m日本\x1b]0;what?\x07\x1b[?1049h\x1b[22;2t\x1bP0q~\x1b\\.".as_bytes()].concat();
    wire.type_in(&output);
    while wire.output.len() < from + output.len() {
        assert!(wire.read());
    }
    assert_eq!(wire.output[from..], output);
    stop(sup, &mut caller);
}

#[test]
fn who_joins_within_a_sequence_does_not_see_its_rest_as_text() {
    for (begin, end, text) in [
        ("\x1b]0;a ti", "tle\x07after", "after"),
        ("\x1b[1;3", "1mafter", "after"),
        ("\x1bP0", "q~~~\x1b\\after", "after"),
        ("\x1b]52;c;QUJD", "QUJD\x07after", "after"),
        ("\x1b[", "6nafter", "after"),
    ] {
        let lab = Lab::new();
        let (sup, mut caller) = echoing(&lab);
        draw(&mut caller, b"\x1b[2J\x1b[H");
        draw(&mut caller, begin.as_bytes());
        sup.wait_for_output(begin);
        let (mut wire, mut other) = (Wire::attach(&lab, SIZE, false), Wire::attach(&lab, (40, 10), true));
        draw(&mut caller, end.as_bytes());
        wire.until_shown(text);
        other.until_shown(text);
        assert_eq!((wire.shown().trim(), other.shown().trim()), (text, text), "{begin:?}");
        draw(&mut caller, b"\x1b[32mgreen");
        wire.until_shown("green");
        let screen = caller.get("screen", json!({"ansi": true}))["text"].clone();
        assert_eq!(support::viewer::capture(&wire.output, SIZE).ansi(), screen, "{begin:?}");
        stop(sup, &mut caller);
    }
}

#[test]
fn who_does_not_read_is_dropped_and_neither_the_agent_nor_the_others_wait() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "flood"]).with(["--size", "80x24", "--restart", "no"]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let mut reads = Wire::attach(&lab, SIZE, false);
    // Its time runs from the first frame that it does not read.
    let began = Instant::now();
    let idle = Wire::attach(&lab, SIZE, false);
    let output = |caller: &mut Caller| caller.get("stats", json!({}))["output_bytes"].as_u64().unwrap();
    let before = output(&mut caller);
    let mut most = Duration::ZERO;
    while sup.log.events("detached").is_empty() {
        assert!(began.elapsed() < support::LIMIT, "{}", sup.log.text());
        assert!(reads.read());
        reads.output.clear();
        let asked = Instant::now();
        caller.state();
        most = most.max(asked.elapsed());
    }
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(most < Duration::from_secs(1), "a caller waited {most:?}");
    assert!(output(&mut caller) > before + 10_000_000, "the agent goes on");
    for event in sup.log.events("detached") {
        assert_eq!(log::field(&event, "why"), Some("too_slow"), "{event}");
    }
    until_attached(&mut caller, 1);
    assert!(procfs::peak_kib(sup.pid()) < 64 * 1024, "{} KiB", procfs::peak_kib(sup.pid()));
    drop(idle);
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}

#[test]
fn who_is_behind_is_still_heard_and_sees_the_end() {
    let lab = Lab::new();
    // Lines until Ctrl-C, then a last one.
    let script = "trap 'echo; echo THE END; read x; exit' INT; while :; do echo 0123456789012345678901234567890123456789; done";
    let sup = Launch::run(&lab, ["bash", "-c", script]).with(["--size", "80x24"]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let mut wire = Wire::attach(&lab, SIZE, false);
    let far =
        |caller: &mut Caller| caller.get("stats", json!({}))["output_bytes"].as_u64().unwrap() > 3_000_000;
    eventually("more was written than any queue holds", || far(&mut caller));
    wire.type_in(b"\x03");
    sup.wait_for_output("THE END");
    wire.until_shown("THE END");
    assert!(
        wire.output.len() < 1_500_000,
        "{} bytes were sent to somebody who did not read",
        wire.output.len()
    );
    let ansi = caller.get("screen", json!({}))["text"].clone();
    assert_eq!(wire.shown(), ansi);
    wire.type_in(b"\r");
    assert_eq!(wire.frame()["ended"], true);
    sup.end();
}

#[test]
fn a_terminal_of_another_size_gets_frames_that_fit() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let mut owner = Wire::attach(&lab, SIZE, false);
    let mut small = Wire::attach(&lab, (20, 5), true);
    let mut large = Wire::attach(&lab, (120, 40), true);
    draw(
        &mut caller,
        "\x1b[?2004h\x1b[2J\x1b[H0123456789012345678901234567890\r\n日本\x1b[20;70Hcursor".as_bytes(),
    );
    owner.until_shown("cursor");
    small.until_shown("cursor");
    large.until_shown("cursor");
    assert!(large.shown().starts_with("0123456789012345678901234567890\n日本\n"), "{}", large.shown());
    assert_eq!(small.shown().trim(), "cursor");
    assert!(small.text().contains("\x1b[?2004h"));
    let painted = support::viewer::capture(&small.output, (20, 5));
    assert_eq!((painted.row, painted.col), (4, 19));
    // No wake-ups, no frames, while nothing happens.
    assert!(!small.text().contains("0123"));
    draw(&mut caller, b"\x1b[H");
    small.until_shown("01234567890123456789");
    // Resized to the agent's size it is told the output itself.
    small.send(&json!({"id": 1, "method": "resize", "params": {"rows": 24, "cols": 80}}));
    assert_eq!(small.frame()["ok"], true);
    small.size = SIZE;
    small.output.clear();
    small.until_shown("cursor");
    let from = small.output.len();
    draw(&mut caller, b"\x1b[5;5Hraw");
    small.until("raw");
    assert_eq!(&small.output[from..], b"\x1b[5;5Hraw");
    stop(sup, &mut caller);
}

#[test]
fn keys_while_no_agent_runs() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"1h\"\nhalt_after = 9\n");
    let launch =
        Launch::run(&lab, [FAKE, "say", "words", "3"]).with(["--config", &config, "--on-halt", "wait"]);
    let sup = launch.start();
    sup.wait_for("restart_scheduled");
    let (mut wire, mut watching) = (Wire::attach(&lab, SIZE, false), Wire::attach(&lab, SIZE, true));
    let mut caller = Caller::of(&lab);
    wire.until_shown("[supervisor] agent exited with code 3");
    watching.until_shown("[supervisor] agent exited with code 3");
    // None of these is an answer: letters that somebody types on with, what ends a program, a first press of
    // the key that detaches.
    for keys in [b"q".as_slice(), b"\x03", b"\x04", b"\x1c", b"a line\r"] {
        wire.type_in(keys);
    }
    watching.type_in(b"\r");
    watching.send(&json!({"id": 1, "method": "ping"}));
    watching.frame();
    wire.send(&json!({"id": 1, "method": "ping"}));
    wire.frame();
    assert_eq!(caller.state()["phase"], "backoff");
    wire.type_in(b"\r");
    sup.log.wait_for_nth(2, "claude_spawn");
    let event = sup.wait_for("user_action=restart");
    assert_eq!(log::field(&event, "by"), Some("caller"), "{event}");
    caller.get("stop", json!({}));
    assert_eq!(wire.frame()["ended"], true);
    assert_eq!(watching.frame()["ended"], true);
    sup.end();
}

#[test]
fn what_we_say_while_no_agent_runs_is_shown_when_it_is_said() {
    let lab = Lab::new();
    let refuse = lab.text("refuse");
    let config = format!(
        "[run]\nbefore_spawn = [\"test\", \"!\", \"-e\", \"{refuse}\"]\n[policy]\ntransient_wait = \"1h\"\n"
    );
    let config = lab.write("c.toml", &config);
    let sup = Launch::run(&lab, [FAKE, "say", "words", "3"]).with(["--config", &config]).start();
    sup.wait_for("restart_scheduled");
    let (mut wire, mut small) = (Wire::attach(&lab, SIZE, false), Wire::attach(&lab, (60, 10), true));
    wire.until_shown("exited with code 3");
    lab.write("refuse", "");
    wire.type_in(b"\r");
    wire.until_shown("before_spawn refused the spawn");
    small.until_shown("before_spawn refused the spawn");
    stop(sup, &mut Caller::of(&lab));
}

#[test]
fn what_cannot_be_is_refused() {
    let lab = Lab::new();
    let (sup, mut by_lines) = echoing(&lab);
    assert_eq!(by_lines.refusal("attach", json!({"rows": 24, "cols": 80})), "BAD_REQUEST");
    let reply = by_lines.ask("attach", json!({}));
    assert!(reply["error"]["message"].as_str().unwrap().contains("length-prefixed"), "{reply}");
    let mut plain = Caller::at(&socket(&lab), Framing::Prefixed);
    assert_eq!(plain.refusal("resize", json!({"rows": 1, "cols": 1})), "NOT_ATTACHED");
    assert_eq!(plain.refusal("detach", json!({})), "NOT_ATTACHED");
    assert_eq!(plain.refusal("attach", json!({"rows": -1})), "BAD_PARAMS");
    assert_eq!(plain.refusal("attach", json!({"rows": 70000})), "BAD_PARAMS");
    plain.send_raw(b"\0\0\0\x02\x01x");
    assert_eq!(plain.receive().unwrap()["error"]["code"], "NOT_ATTACHED");
    // Detached, it is a caller like any other, and may attach again.
    let mut wire = Wire::attach(&lab, SIZE, false);
    for _ in 0..3 {
        wire.send(&json!({"id": "d", "method": "detach"}));
        assert_eq!(wire.frame()["ok"], true);
        wire.type_in(b"lost");
        assert_eq!(wire.frame()["error"]["code"], "NOT_ATTACHED");
        wire.send(&json!({"id": "s", "method": "state"}));
        assert_eq!(wire.frame()["operator"]["attached"], 0);
        wire.send(&json!({"id": "a", "method": "attach", "params": {"rows": 10, "cols": 20}}));
        let reply = wire.frame();
        assert_eq!((&reply["attached"], &reply["detach_key"]), (&json!(true), &json!("ctrl-\\")), "{reply}");
        assert_eq!(
            (&reply["session"], &reply["rows"], &reply["cols"]),
            (&json!("t"), &json!(10), &json!(20))
        );
    }
    // Twice on one connection is once.
    wire.send(&json!({"id": "a", "method": "attach", "params": {"rows": 11, "cols": 20}}));
    assert_eq!(wire.frame()["rows"], 11);
    until_attached(&mut by_lines, 1);
    by_lines.get("stop", json!({}));
    assert_eq!(wire.frame()["ended"], true);
    sup.end();
    for (options, code) in [(vec!["--io", "inherit"], "NO_PTY"), (vec!["--config", "OFF"], "UNSUPPORTED")] {
        let lab = Lab::new();
        let off = lab.write("off.toml", "[screen]\nenabled = false\n");
        let options = options.into_iter().map(|word| if word == "OFF" { off.as_str() } else { word });
        let sup = Launch::run(&lab, [FAKE, "wait"]).with(options).start();
        let mut caller = Caller::at(&socket(&lab), Framing::Prefixed);
        caller.wait_for("ready");
        assert_eq!(caller.refusal("attach", json!({"rows": 24, "cols": 80})), code);
        caller.get("stop", json!({}));
        sup.end();
    }
}

#[test]
fn somebody_silent_who_is_attached_outlives_idle_callers() {
    let lab = Lab::new();
    let (sup, _) = echoing(&lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    wire.until_shown("READY");
    let idle: Vec<Caller> = (0..270)
        .map(|_| {
            let mut idle = Caller::at(&socket(&lab), Framing::Lines);
            // One that waits for an answer too.
            idle.get("events", json!({"follow": true}));
            idle
        })
        .collect();
    wire.type_in(b"still here");
    wire.until_shown("still here");
    drop(idle);
    eventually("the others are gone", || caller_count(&lab) <= 3);
    stop(sup, &mut Caller::of(&lab));
    assert_eq!(wire.frame()["ended"], true);
    fn caller_count(lab: &Lab) -> u64 {
        Caller::of(lab).get("stats", json!({}))["callers"].as_u64().unwrap()
    }
}

#[test]
fn many_at_once_all_see_the_same() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let mut viewers: Vec<Wire> = (0..40).map(|n| Wire::attach(&lab, SIZE, n % 2 == 0)).collect();
    until_attached(&mut caller, 40);
    draw(&mut caller, "\x1b[2J\x1b[3;3H\x1b[35mseen by all 日本".as_bytes());
    let screen = || Caller::of(&lab).get("screen", json!({"ansi": true}))["text"].clone();
    for wire in &mut viewers {
        wire.until_shown("seen by all 日本");
        assert_eq!(support::viewer::capture(&wire.output, SIZE).ansi(), screen());
    }
    drop(viewers);
    until_attached(&mut caller, 0);
    let gone = sup.log.events("detached");
    assert!(gone.iter().all(|event| log::field(event, "why") == Some("gone")), "{gone:?}");
    assert!(holds_within(support::LIMIT, || caller.get("stats", json!({}))["callers"] == 1));
    stop(sup, &mut caller);
}

#[test]
fn a_paste_that_the_agent_does_not_read_yet_waits_and_loses_nothing() {
    let lab = Lab::new();
    let script = format!(
        "stty raw -echo; printf READY; until [ -e {} ]; do sleep 0.05; done; exec cat",
        lab.text("go")
    );
    let sup = Launch::run(&lab, ["sh", "-c", &script]).with(["--size", "80x24"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    wire.until_shown("READY");
    let pasted: Vec<u8> = (0..400_000u32).map(|n| b'a' + (n % 23) as u8).collect();
    let mut writer = wire.again();
    let sent = pasted.clone();
    let typing = std::thread::spawn(move || sent.chunks(60_000).for_each(|chunk| writer.type_in(chunk)));
    // Everybody else is heard meanwhile, and what waits is bounded.
    let mut typed = 0;
    eventually("no more is taken", || {
        sys::pause(Duration::from_millis(50));
        let now = caller.get("stats", json!({}))["input_bytes"].as_u64().unwrap();
        std::mem::replace(&mut typed, now) == now && now > 60_000
    });
    assert!(typed < 200_000, "{typed}");
    lab.write("go", "");
    let from = wire.output.len();
    while wire.output.len() < from + pasted.len() && sup.stdout.len() < pasted.len() {
        assert!(wire.read());
    }
    typing.join().unwrap();
    eventually("all of it came back", || sup.stdout.len() >= pasted.len() + 5);
    assert_eq!(sup.stdout.bytes()[5..], pasted);
    caller.get("stop", json!({}));
    sup.end();
}
