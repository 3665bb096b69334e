//! The agent's screen for whoever is not in front of it, and who answers when the agent asks its
//! terminal something.

use std::process::{Command, Stdio};

use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, Terminal, eventually};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An agent that writes whatever is typed to it.
fn echoing(launch: Launch, lab: &Lab) -> (Running, Caller) {
    let sup = launch.start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

fn draw(caller: &mut Caller, output: &str) {
    caller.get("inject", json!({"bytes": STANDARD.encode(output)}));
}

/// The screen as soon as `text` is on it.
fn screen_with(caller: &mut Caller, text: &str) -> Value {
    let mut screen = Value::Null;
    eventually(text, || {
        screen = caller.get("screen", json!({}));
        screen["text"].as_str().is_some_and(|seen| seen.contains(text))
    });
    screen
}

#[test]
fn a_caller_sees_what_the_agent_drew() {
    let lab = Lab::new();
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--size", "30x5"]);
    let (sup, mut caller) = echoing(launch, &lab);
    draw(&mut caller, "\x1b[2J\x1b[H1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n");
    draw(&mut caller, "\x1b]0;a title\x07\x1b[2;3H\x1b[1;31mred\x1b[m 日本 e\u{301}\x1b[?25l!");
    let screen = screen_with(&mut caller, "!");
    assert_eq!(
        screen,
        json!({
            "id": screen["id"], "ok": true, "text": "3\n4 red 日本 e\u{301}!\n5\n6", "rows": 5, "cols": 30,
            "cursor": {"row": 1, "col": 13, "visible": false}, "title": "a title",
        })
    );
    let ansi = caller.get("screen", json!({"ansi": true}))["text"].clone();
    assert_eq!(ansi, "3\n4 \x1b[0;1;31mred\x1b[0m 日本 e\u{301}!\n5\n6");
    assert_eq!(caller.get("screen", json!({"lines": 100}))["text"], "1\n2\n3\n4 red 日本 e\u{301}!\n5\n6");
    assert_eq!(caller.get("screen", json!({"lines": 2}))["text"], "5\n6");
    assert_eq!(caller.refusal("screen", json!({"lines": -1})), "BAD_PARAMS");

    let verb = |words: &[&str]| {
        let mut command = Command::new(AGENTSUP);
        command.arg("screen").args(words).env("AGENTSUP_DIR", lab.state_dir()).env_remove("AGENTSUP_SOCKET");
        let output = command.stdin(Stdio::null()).output().expect("agentsup runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(verb(&["t"]), "3\n4 red 日本 e\u{301}!\n5\n6\n");
    assert_eq!(verb(&["--ansi", "-n", "1"]), "6\n");
    let json: Value = serde_json::from_str(&verb(&["--json"])).expect("JSON");
    assert_eq!((&json["title"], &json["cursor"]["row"]), (&json!("a title"), &json!(1)));
    draw(&mut caller, "q");
    sup.end().assert_code(0);
}

#[test]
fn no_secret_is_on_it_however_it_is_wrapped() {
    let lab = Lab::new();
    let secret = "sk-0123456789abcdefghijklm";
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--size", "20x6"]);
    let (sup, mut caller) = echoing(launch.with(["--env", &format!("MY_TOKEN={secret}")]), &lab);
    let (begin, end) = secret.split_at(10);
    draw(&mut caller, &format!("\x1b[2J\x1b[Hwrapped {secret}\r\n│ {begin} │\r\n│ {end} │"));
    draw(&mut caller, &format!("\x1b]0;{secret}\x07\r\nhalf {begin}"));
    draw(&mut caller, &format!("{end} over"));
    let screen = screen_with(&mut caller, "over");
    let plain = "wrapped ************\n**************\n│ ********** │\n│ **************** │";
    let plain = format!("{plain}\nhalf ***************\n*********** over");
    assert_eq!((&screen["text"], &screen["title"]), (&json!(plain), &json!("***")));
    draw(&mut caller, "\r\n\r\nmore");
    let screen = screen_with(&mut caller, "more");
    assert!(screen["text"].as_str().unwrap().starts_with("│ ***"), "{screen}");
    for params in [json!({"ansi": true}), json!({"lines": 100}), json!({"lines": 4})] {
        let text = caller.get("screen", params)["text"].to_string();
        assert!(!text.contains("sk-0") && !text.contains(end), "{text}");
    }
    draw(&mut caller, "q");
    sup.end().assert_code(0);
}

#[test]
fn an_agent_without_a_terminal_is_answered_once() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--size", "90x20"]), &lab);
    // What the agent writes comes from what is typed, and so does the echo of the answer.
    for (query, answer) in [
        ("\x1b[2J\x1b[3;7H\x1b[6n", "\x1b[3;7R"),
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>1;10;0c"),
        ("\x1b[18t", "\x1b[8;20;90t"),
        ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
        ("\x1b[?u", "\x1b[?0u"),
        ("\x1b[?2026$p", "\x1b[?2026;2$y"),
    ] {
        draw(&mut caller, query);
        sup.wait_for_output(answer);
    }
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    let drawn = String::from_utf8_lossy(&ended.stdout);
    let drawn = drawn.split_once("\x1b[3;7H").unwrap().1;
    for answer in ["R", "\x1b[?62;22c", "\x1b[8;20;90t", "rgb:", "\x1b[?0u", "$y"] {
        assert_eq!(drawn.matches(answer).count(), 1, "{answer:?} in {}", drawn.escape_debug());
    }
}

#[test]
fn the_terminal_on_stdin_answers_and_nobody_else() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--on-clean", "exit"]).to_command());
    terminal.expect("READY");
    let typed = "\x1b[6n\x1b[c\x1b]11;?\x07\x1b[?2026$p done";
    terminal.type_in(typed);
    terminal.expect("done");
    let mut caller = Caller::of(&lab);
    screen_with(&mut caller, "done");
    assert_eq!(caller.get("stats", json!({}))["input_bytes"], typed.len(), "only what was typed");
    terminal.type_in("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_terminal_that_nobody_is_at_is_answered_for() {
    let lab = Lab::new();
    // As that of a container which was started detached, until somebody attaches.
    let mut terminal = Terminal::new(0, 0);
    terminal.start(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--on-clean", "exit"]).to_command());
    terminal.expect("READY");
    terminal.type_in("\x1b[18t");
    terminal.expect("\x1b[8;40;120t");
    terminal.resize(80, 24);
    let mut caller = Caller::of(&lab);
    eventually("it has heard of the size", || caller.get("screen", json!({}))["rows"] == 24);
    let before = caller.get("stats", json!({}))["input_bytes"].as_u64().unwrap();
    terminal.type_in("\x1b[18t done");
    terminal.expect("done");
    screen_with(&mut caller, "done");
    assert_eq!(caller.get("stats", json!({}))["input_bytes"], before + 10, "only what was typed");
    terminal.type_in("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn the_screen_has_the_size_of_the_terminal() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(Launch::run(&lab, [FAKE, "size"]).to_command());
    terminal.expect("SIZE 80x24");
    let mut caller = Caller::of(&lab);
    let size = |caller: &mut Caller| {
        let screen = caller.get("screen", json!({}));
        (screen["cols"].as_u64().unwrap(), screen["rows"].as_u64().unwrap())
    };
    assert_eq!(size(&mut caller), (80, 24));
    terminal.resize(100, 30);
    terminal.expect("SIZE 100x30");
    assert_eq!(size(&mut caller), (100, 30));
    caller.get("stop", json!({}));
    terminal.end();
}

#[test]
fn without_an_agent_it_is_the_last_ones_screen() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\nno_retry = [5]\n");
    let launch = Launch::run(&lab, [FAKE, "say", "last words", "5"]);
    let sup = launch.with(["--config", &config, "--on-halt", "wait"]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("halted");
    assert_eq!(caller.get("screen", json!({}))["text"], "last words");
    caller.get("stop", json!({}));
    sup.end();
}

#[test]
fn switched_off_it_is_refused() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[screen]\nenabled = false\n");
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--config", &config]);
    let (sup, mut caller) = echoing(launch, &lab);
    assert_eq!(caller.refusal("screen", json!({})), "UNSUPPORTED");
    draw(&mut caller, "\x1b[6n");
    sup.wait_for_output("\x1b[6n");
    draw(&mut caller, "next");
    sup.wait_for_output("next");
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    assert!(ended.stdout.ends_with(b"\x1b[6nnextq"), "{ended}");
}
