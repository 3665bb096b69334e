//! A human and a trigger at one line of input: over `attach`, at stdin, and all at once. Neither
//! ever stands in the other's text, byte by byte.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::bridge::{
    self, QUICK, all_read, at_terminal, claude, envelope, typed, until_draft, verb,
};
use crate::support::caller::pid_of;
use crate::support::{AGENTSUP, Caller, Lab, Terminal, Viewer, Wire, count, eventually, sys};
use serde_json::{Value, json};

const SIZE: (u16, u16) = (100, 30);
const QUIET: Duration = Duration::from_millis(700);

/// Nobody gives up for as long as a test takes.
fn patient() -> String {
    QUICK.replace("max_defer = \"2s\"", "max_defer = \"60s\"").replace("\"400ms\"", "\"8s\"")
}

/// An Enter that comes with a burst of text is a part of it; a human takes longer than that.
fn human_pause() {
    sys::pause(Duration::from_millis(200));
}

fn state_of(caller: &mut Caller, id: &str) -> Value {
    caller.get("trigger.status", json!({"trigger_id": id}))["state"].clone()
}

/// With all that it asked for and waited for: delivered.
#[track_caller]
fn delivered(caller: &mut Caller, id: &str) {
    let reply = caller.get("trigger", json!({"thread": "ci", "trigger_id": id, "text": format!("do {id}")}));
    assert_eq!(reply["state"], "delivered", "{reply}");
}

fn ask(lab: &Lab, id: &str) -> (i32, String) {
    let (code, out, _) =
        verb(lab, &["trigger", "--thread", "ci", "--id", id, "--no-wait", &format!("do {id}")]);
    (code, out)
}

fn as_typed(id: &str) -> String {
    typed(&envelope(id, "ci", &format!("do {id}")))
}

/// What was recorded as typed.
fn recorded(lab: &Lab) -> String {
    let recording = lab.read("cast");
    let lines =
        recording.lines().skip(1).map(|line| serde_json::from_str::<Value>(line.trim()).expect("JSON"));
    lines.filter(|line| line[1] == "i").map(|line| line[2].as_str().expect("text").to_owned()).collect()
}

/// The agent reads nothing for as long as `act` takes, so a trigger is typed and its Enter is not:
/// whatever comes now comes in the very middle.
fn in_the_middle_of(caller: &mut Caller, lab: &Lab, id: &str, act: impl FnOnce()) {
    let pid = pid_of(&caller.get("pid", json!({})));
    sys::kill(pid, libc::SIGSTOP);
    assert_eq!(ask(lab, id).0, 0);
    eventually("it is being typed", || state_of(caller, id) == "triggering");
    act();
    assert_eq!(state_of(caller, id), "triggering", "the Enter has not been pressed");
    sys::kill(pid, libc::SIGCONT);
}

#[test]
fn a_draft_typed_over_attach_is_sent_first_and_the_trigger_follows_when_all_is_quiet() {
    let lab = Lab::new();
    let cast = lab.text("cast");
    let launch = claude(&lab, &patient()).with(["--record", &cast, "--record-input"]);
    let (sup, mut caller) = bridge::up(launch, &lab);
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_live();
    viewer.terminal.type_in("my own te");
    viewer.until_shown("my own te");
    until_draft(&mut caller);
    assert_eq!(ask(&lab, "a"), (75, "deferred a, OPERATOR_BUSY\n".to_owned()));
    viewer.terminal.type_in("xt");
    viewer.until_shown("my own text");
    human_pause();
    let sent = Instant::now();
    viewer.terminal.type_in("\r");
    delivered(&mut caller, "a");
    assert!(sent.elapsed() >= QUIET, "{:?}", sent.elapsed());
    assert_eq!(bridge::until_prompts(&lab, 2), ["my own text", &envelope("a", "ci", "do a")]);
    let all = format!("my own text\r{}", as_typed("a"));
    assert_eq!(all_read(&lab), all, "byte by byte");
    let log = sup.log.events("trigger_deferred");
    assert!(log.len() == 1 && log[0].contains("trigger_id=a") && log[0].contains("OPERATOR_BUSY"), "{log:?}");
    assert_eq!(bridge::metric(&mut caller, "deferred"), 1);
    bridge::stop(sup, &mut caller);
    assert_eq!(recorded(&lab), all);
}

#[test]
fn keys_in_the_very_middle_of_a_trigger_come_behind_its_enter() {
    let lab = Lab::new();
    let (sup, mut caller) = bridge::up(claude(&lab, &patient()), &lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    in_the_middle_of(&mut caller, &lab, "a", || {
        wire.type_in(b"not");
        wire.type_in(b" mixed");
    });
    delivered(&mut caller, "a");
    until_draft(&mut caller);
    eventually("the keys are read", || all_read(&lab).ends_with("mixed"));
    assert_eq!(all_read(&lab), format!("{}not mixed", as_typed("a")));
    // They are a draft like any other.
    assert_eq!(ask(&lab, "b"), (75, "deferred b, OPERATOR_BUSY\n".to_owned()));
    human_pause();
    wire.type_in(b"\r");
    delivered(&mut caller, "b");
    assert_eq!(all_read(&lab), format!("{}not mixed\r{}", as_typed("a"), as_typed("b")));
    bridge::stop(sup, &mut caller);
}

#[test]
fn a_trigger_does_not_come_between_the_two_halves_of_a_key() {
    let lab = Lab::new();
    let config = patient().replace("quiet = \"700ms\"", "quiet = \"0ms\"");
    let (sup, mut caller) = bridge::up(claude(&lab, &config), &lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    // A mouse report, which holds back nobody, cut in two as a slow line does. Its second half has
    // 100 ms to come, and a busy machine may take them away from this test.
    let is_in_time = (0..20).any(|n| {
        let (before, id) = (all_read(&lab).len(), format!("n{n}"));
        let began = Instant::now();
        wire.type_in(b"\x1b[<35;1");
        let text = format!("do {id}");
        caller.get("trigger", json!({"thread": "ci", "trigger_id": id, "text": text, "wait": false}));
        wire.type_in(b"0;12M");
        let is_in_time = began.elapsed() < Duration::from_millis(50);
        delivered(&mut caller, &id);
        let read = all_read(&lab).split_off(before);
        assert!(!is_in_time || read == format!("\x1b[<35;10;12M{}", as_typed(&id)), "{read:?}");
        is_in_time
    });
    assert!(is_in_time, "never in time");
    bridge::stop(sup, &mut caller);
}

#[test]
fn a_trigger_waits_for_every_operator_wherever_they_are() {
    let lab = Lab::new();
    let (mut terminal, mut caller) = at_terminal(&claude(&lab, &patient()), &lab);
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_live();
    let mut wire = Wire::attach(&lab, SIZE, false);
    // One line, and three who type into it.
    for (n, part) in ["one ", "two ", "three"].into_iter().enumerate() {
        match n {
            0 => terminal.type_in(part),
            1 => viewer.terminal.type_in(part),
            _ => wire.type_in(part.as_bytes()),
        }
        eventually("the part is read", || all_read(&lab).ends_with(part));
        if n == 0 {
            assert_eq!(ask(&lab, "a"), (75, "deferred a, OPERATOR_BUSY\n".to_owned()));
        }
    }
    human_pause();
    viewer.terminal.type_in("\r");
    eventually("it is sent", || all_read(&lab).ends_with('\r'));
    // The last key counts, whoever pressed it.
    terminal.type_in("x");
    eventually("the key is read", || all_read(&lab).ends_with('x'));
    wire.type_in(b"\x7f");
    let last = Instant::now();
    delivered(&mut caller, "a");
    assert!(last.elapsed() >= QUIET, "{:?}", last.elapsed());
    assert_eq!(all_read(&lab), format!("one two three\rx\x7f{}", as_typed("a")));
    // And all of them in the middle of the next one.
    let before = all_read(&lab);
    in_the_middle_of(&mut caller, &lab, "b", || {
        terminal.type_in("ONE");
        viewer.terminal.type_in("TWO");
        wire.type_in(b"THREE");
    });
    delivered(&mut caller, "b");
    let behind = |lab: &Lab| all_read(lab).split_off(before.len());
    eventually("all keys are read", || ["ONE", "TWO", "THREE"].iter().all(|it| behind(&lab).contains(it)));
    let (all, own) = (behind(&lab), as_typed("b"));
    assert!(all.starts_with(&own) && all.len() == own.len() + 11, "{all:?}");
    caller.get("stop", json!({"graceful": false}));
    terminal.end();
}

#[test]
fn who_waits_at_a_terminal_is_told_why() {
    let lab = Lab::new();
    let (sup, mut caller) = bridge::up(claude(&lab, &patient()), &lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    wire.type_in(b"mine");
    until_draft(&mut caller);
    let mut terminal = Terminal::new(200, 10);
    let mut command = Command::new(AGENTSUP);
    command.args(["trigger", "--thread", "ci", "--id", "a", "do a", "--dir"]).arg(lab.state_dir());
    terminal.start(command);
    terminal.expect("deferred while an operator is at work (OPERATOR_BUSY)");
    terminal.expect("`agentsup triggers --cancel a`");
    human_pause();
    wire.type_in(b"\r");
    terminal.expect("delivered a, by hook");
    assert_eq!(terminal.end().code(), Some(0));
    assert_eq!(all_read(&lab), format!("mine\r{}", as_typed("a")), "asked for twice, typed once");
    bridge::stop(sup, &mut caller);
}

/// However often both come at once: taken out, the triggers leave exactly what was typed, and each
/// stood between two lines.
#[test]
fn a_human_who_never_stops_typing_and_triggers_that_never_stop_coming() {
    let lab = Lab::new();
    let config = patient().replace("quiet = \"700ms\"", "quiet = \"60ms\"");
    let (sup, mut caller) = bridge::up(claude(&lab, &config), &lab);
    let mut wire = Wire::attach(&lab, SIZE, false);
    let (lines, mut human, mut asked) = (count(4, 40), String::new(), 0);
    for n in 0..lines {
        let line = format!("line {n} of a human\r");
        for (at, key) in line.char_indices() {
            if key == '\r' {
                human_pause();
            }
            wire.type_in(key.to_string().as_bytes());
            if at % 7 == n % 7 {
                let params = json!({"thread": "ci", "trigger_id": format!("n{asked}"), "text": format!("do n{asked}"), "wait": false});
                caller.get("trigger", params);
                asked += 1;
            }
            sys::pause(Duration::from_millis(5));
        }
        human += &line;
        // Now and then the next line begins in the middle of a trigger, now and then it does not.
        sys::pause(Duration::from_millis((n as u64 * 97) % 400));
    }
    for n in 0..asked {
        delivered(&mut caller, &format!("n{n}"));
    }
    let mut rest = all_read(&lab);
    let (mut at, mut between) = (0, 0);
    for n in 0..asked {
        let own = as_typed(&format!("n{n}"));
        let place = rest[at..].find(&own).unwrap_or_else(|| panic!("no n{n} behind {at} in {rest:?}")) + at;
        assert!(place == 0 || rest[..place].ends_with('\r'), "n{n} came into a line: {rest:?}");
        between += usize::from(place > 0 && place + own.len() < rest.len());
        rest.replace_range(place..place + own.len(), "");
        at = place;
    }
    assert_eq!(rest, human);
    assert!(between > 0, "they did meet");
    bridge::stop(sup, &mut caller);
}
