//! `agentsup attach` as a person uses it: on a terminal of its own, beside others.

use std::process::{Command, Stdio};

use crate::support;
use crate::support::viewer::{self, until_attached};
use crate::support::{
    AGENTSUP, Caller, FAKE, Lab, Launch, Running, Terminal, Viewer, eventually, log, procfs, sys,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const SIZE: (u16, u16) = (80, 24);

/// An agent without a terminal that writes whatever is typed to it.
fn echoing(lab: &Lab) -> (Running, Caller) {
    let sup = Launch::run(lab, [FAKE, "echo-raw"]).with(["--size", "80x24"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

fn draw(caller: &mut Caller, output: &str) {
    caller.get("inject", json!({"bytes": STANDARD.encode(output)}));
}

#[track_caller]
fn assert_given_back(viewer: &Viewer, before: &nix::sys::termios::Termios, line: &str) {
    assert_eq!(&viewer.terminal.modes(), before, "line settings");
    assert_eq!(viewer.left_on(), "", "modes");
    let capture = viewer.capture();
    assert_eq!(capture.lines[capture.row - 1].text().trim_end(), line, "{}", capture.text());
}

#[test]
fn a_newcomer_sees_what_the_others_see_and_all_of_them_type() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let drawn = "\x1b[2Jmain\x1b[?1049h\x1b[?2004;1000;1006h\x1b[3;5H\x1b[1;31mred\x1b[m 日本 e\u{301}\x1b[10;20H\x1b[7m";
    draw(&mut caller, &format!("{drawn}\x1b]0;a title\x07"));
    eventually("it is drawn", || caller.get("screen", json!({}))["title"] == "a title");
    let first = Viewer::attach(&lab, SIZE, &[]);
    first.until_shown("red 日本 e\u{301}");
    first.until_shown("Ctrl-\\ twice detaches");
    first.until_live();
    let ansi = caller.get("screen", json!({"ansi": true}))["text"].as_str().unwrap().to_owned();
    assert_eq!(first.capture().ansi(), ansi);
    let mut second = Viewer::attach(&lab, SIZE, &[]);
    second.until_live();
    let (one, two) = (first.capture(), second.capture());
    assert_eq!((one.ansi(), one.row, one.col, &one.title), (two.ansi(), two.row, two.col, &two.title));
    for on in ["\x1b[?2004h", "\x1b[?1000h", "\x1b[?1006h", "\x1b[?1049h"] {
        assert!(second.terminal.screen.text().contains(on), "{on:?}");
    }
    second.terminal.type_in("typed");
    first.until_shown("typed");
    second.until_shown("typed");
    assert_eq!(first.capture().ansi(), second.capture().ansi());
    // What is under the alternate screen is there too.
    draw(&mut caller, "\x1b[?1049l");
    for viewer in [&first, &second] {
        viewer.until_shown("main");
    }
    until_attached(&mut caller, 2);
    assert_eq!(caller.get("stats", json!({}))["attached"], 2);
    draw(&mut caller, "q");
    sup.end().assert_code(0);
}

#[test]
fn the_key_pressed_twice_detaches_and_gives_the_terminal_back() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    draw(&mut caller, "\x1b[?1049h\x1b[?25l\x1b[?1000;1006;2004h\x1b[>1uIN\x1b[2;3r");
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_shown("IN");
    let before = Terminal::new(80, 24).modes();
    assert!(viewer.terminal.is_raw());
    // Once, then another key: both are the agent's.
    viewer.terminal.type_in("\x1cx");
    sup.wait_for_output("\x1cx");
    // Once, then nothing: it is the agent's too.
    viewer.terminal.type_in("y\x1c");
    sup.wait_for_output("y\x1c");
    viewer.until_live();
    assert_eq!(viewer.detach(), Some(0));
    assert_given_back(&viewer, &before, "[detached from t]");
    let event = sup.wait_for("detached");
    assert_eq!((log::field(&event, "why"), log::number(&event, "pid")), (Some("asked"), viewer.pid));
    let event = sup.wait_for("attached");
    assert_eq!((log::field(&event, "size"), log::field(&event, "readonly")), (Some("80x24"), Some("false")));
    assert!(caller.state()["running"] == true && caller.state()["operator"]["attached"] == 0);
    // As terminals with the kitty protocol or modifyOtherKeys send it.
    for keys in ["\x1b[92;5u\x1b[92;5u", "\x1b[92;5:1u\x1b[92;5:3u\x1b[92;5:1u", "\x1b[27;5;92~\x1b[27;5;92~"]
    {
        let mut viewer = Viewer::attach(&lab, SIZE, &[]);
        viewer.until_shown("IN");
        viewer.terminal.type_in(keys);
        assert_eq!(viewer.terminal.end().code(), Some(0), "{keys:?}");
    }
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    let output = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!((output.matches('\x1c').count(), output.matches("[92;5").count()), (2, 0), "{output:?}");
}

#[test]
fn another_key_can_be_chosen() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[screen]\ndetach_key = \"ctrl-b\"\n");
    let sup = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_shown("Ctrl-B twice detaches");
    viewer.terminal.type_in("\x1c\x1cz");
    sup.wait_for_output("\x1c\x1cz");
    viewer.terminal.type_in("\x02\x02");
    assert_eq!(viewer.terminal.end().code(), Some(0));
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[test]
fn however_a_client_ends_the_agent_goes_on_and_nothing_stays_behind() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let before = Terminal::new(80, 24).modes();
    draw(&mut caller, "\x1b[?1049h\x1b[?25l\x1b[?1000;1006;2004h\x1b[>1uIN\x1b[2;3r\x1b[?1h");
    for (how, code) in [("hang up", None), ("TERM", Some(143)), ("kill", None)] {
        let mut viewer = Viewer::attach(&lab, SIZE, &[]);
        viewer.until_shown("IN");
        assert_ne!(viewer.left_on(), "");
        until_attached(&mut caller, 1);
        match how {
            "hang up" => viewer.terminal.hang_up(),
            "TERM" => sys::kill(viewer.pid, libc::SIGTERM),
            _ => sys::kill(viewer.pid, libc::SIGKILL),
        }
        let status = viewer.terminal.end();
        if code.is_some() {
            assert_eq!(status.code(), code, "{how}");
            assert_given_back(&viewer, &before, "[detached from t]");
        }
        until_attached(&mut caller, 0);
    }
    assert_eq!(sup.log.events("detached").len(), 3, "{}", sup.log.text());
    assert_eq!(caller.get("stats", json!({}))["callers"], 1);
    assert_eq!(caller.state()["restart_count"], 0);
    draw(&mut caller, "q");
    sup.end().assert_code(0);
}

#[test]
fn the_newest_that_may_type_owns_the_size() {
    let lab = Lab::new();
    let mut stdin = Terminal::new(90, 20);
    stdin.start(Launch::run(&lab, [FAKE, "size"]).to_command());
    stdin.expect("SIZE 90x20");
    let mut caller = Caller::of(&lab);
    let sized = |caller: &mut Caller, cols: u16, rows: u16| {
        eventually(&format!("{cols}x{rows}"), || {
            let screen = caller.get("screen", json!({}));
            screen["text"].as_str().unwrap().trim_end().ends_with(&format!("SIZE {cols}x{rows}"))
        });
    };
    let mut first = Viewer::attach(&lab, (100, 30), &[]);
    sized(&mut caller, 100, 30);
    let mut second = Viewer::attach(&lab, (70, 25), &[]);
    sized(&mut caller, 70, 25);
    let mut watching = Viewer::attach(&lab, (50, 10), &["--readonly"]);
    until_attached(&mut caller, 3);
    // Nobody else's resize counts.
    first.resize(101, 31);
    stdin.resize(91, 21);
    watching.resize(51, 11);
    second.resize(71, 26);
    sized(&mut caller, 71, 26);
    // The others get a view of it that fits, with the cursor in it.
    for viewer in [&first, &watching] {
        viewer.until_shown("SIZE 71x26");
    }
    // The next agent begins with it.
    let agent = caller.get("restart", json!({}))["pid"].clone();
    assert!(agent.is_i64());
    eventually("one line of the new agent", || caller.get("screen", json!({}))["text"] == "SIZE 71x26");
    assert_eq!(second.detach(), Some(0));
    sized(&mut caller, 101, 31);
    assert_eq!(first.detach(), Some(0));
    sized(&mut caller, 91, 21);
    until_attached(&mut caller, 1);
    assert_eq!(watching.detach(), Some(0));
    caller.get("stop", json!({}));
    stdin.end();
}

#[test]
fn the_terminal_on_stdin_is_not_garbled_by_another_size() {
    let lab = Lab::new();
    let size = (90, 20);
    let mut stdin = Terminal::new(size.0, size.1);
    stdin.start(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--on-clean", "exit"]).to_command());
    stdin.expect("READY");
    let mut caller = Caller::of(&lab);
    let on_stdin = |stdin: &Terminal| viewer::capture(&stdin.screen.bytes(), size);
    let seen = |stdin: &Terminal, text: &str| {
        let mut last = String::new();
        let is_seen = support::holds_within(support::LIMIT, || {
            last = on_stdin(stdin).text();
            last.contains(text)
        });
        assert!(is_seen, "no {text:?} on stdin's terminal:\n{last}");
    };
    for (cols, rows) in [(40, 10), (120, 40)] {
        let mut viewer = Viewer::attach(&lab, (cols, rows), &[]);
        viewer.until_live();
        draw(&mut caller, &format!("\x1b[2J\x1b[{rows};{}Hcorner \x1b[6n", cols - 7));
        viewer.until_shown("corner");
        seen(&stdin, "corner");
        // Who is not told the question does not answer it; somebody does.
        viewer.terminal.expect(&format!("\x1b[{rows};{cols}R"));
        stdin.type_in("\r\ntyped here");
        viewer.until_shown("typed here");
        seen(&stdin, "typed here");
        assert_eq!(viewer.detach(), Some(0));
        eventually("its own size is back", || caller.get("screen", json!({}))["cols"] == 90);
        draw(&mut caller, "\x1b[2J\x1b[20;80H\x1b[32mown size");
        seen(&stdin, "own size");
        let ansi = caller.get("screen", json!({"ansi": true}))["text"].clone();
        assert_eq!(on_stdin(&stdin).ansi(), ansi);
        draw(&mut caller, "\x1b[m\x1b[5;5Hraw");
        stdin.expect("\x1b[m\x1b[5;5Hraw");
    }
    stdin.type_in("q");
    assert_eq!(stdin.end().code(), Some(0));
}

#[test]
fn without_a_terminal_on_stdin_the_last_size_stays() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "size"]).with(["--size", "60x15"]).start();
    sup.wait_for_output("SIZE 60x15");
    let mut caller = Caller::of(&lab);
    // A terminal that knows no size says nothing about it, and is shown what it usually has.
    let mut unsized_one = Viewer::attach(&lab, (0, 0), &[]);
    unsized_one.size = (80, 24);
    unsized_one.until_shown("SIZE 60x15");
    let mut viewer = Viewer::attach(&lab, (44, 11), &[]);
    sup.wait_for_output("SIZE 44x11");
    viewer.until_shown("SIZE 44x11");
    assert_eq!(viewer.detach(), Some(0));
    assert_eq!(unsized_one.detach(), Some(0));
    until_attached(&mut caller, 0);
    assert_eq!(caller.get("screen", json!({}))["cols"], 44);
    caller.get("restart", json!({}));
    eventually("the new one has it too", || sup.stdout.text().matches("SIZE 44x11").count() == 2);
    caller.get("stop", json!({}));
    sup.end();
}

#[test]
fn over_restarts_a_client_stays_and_reads_why() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"1h\"\nhalt_after = 2\n");
    let launch = Launch::run(&lab, [FAKE, "say", "last words", "3"]);
    let sup = launch.with(["--config", &config, "--on-halt", "wait"]).start();
    sup.wait_for("restart_scheduled");
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_shown("last words");
    viewer.until_shown("[supervisor] agent exited with code 3");
    viewer.terminal.type_in("\r");
    sup.log.wait_for_nth(1, "halted");
    viewer.until_shown("supervisor halted — run 'agentsup resume t' to retry");
    viewer.until_shown("Enter: try again, q: quit");
    let mut newcomer = Viewer::attach(&lab, SIZE, &[]);
    newcomer.until_shown("Enter: try again, q: quit");
    newcomer.terminal.type_in("\r");
    sup.log.wait_for_nth(3, "claude_spawn");
    sup.log.wait_for_nth(1, "resumed");
    viewer.until_shown("starts again");
    viewer.terminal.type_in("\r");
    sup.log.wait_for_nth(2, "halted");
    viewer.until_shown("Enter: try again, q: quit");
    viewer.terminal.type_in("q");
    for viewer in [&mut viewer, &mut newcomer] {
        assert_eq!(viewer.terminal.end().code(), Some(0));
        viewer.until_shown("[session t has ended]");
    }
    sup.end().assert_code(3);
    let log = sup_log(&lab);
    assert_eq!(log.events("user_action=restart").len(), 3, "{}", log.text());
    assert_eq!(log.events("detached").iter().filter(|e| log::field(e, "why") == Some("ended")).count(), 2);
}

fn sup_log(lab: &Lab) -> log::Log {
    log::Log::of(&lab.state_dir())
}

#[test]
fn the_end_of_the_session_is_told_and_its_last_words_are_seen() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    let mut viewers = [Viewer::attach(&lab, SIZE, &[]), Viewer::attach(&lab, (40, 12), &["--readonly"])];
    let before = Terminal::new(80, 24).modes();
    viewers.iter().for_each(Viewer::until_live);
    draw(&mut caller, "\x1b[?1000hlast words q");
    for viewer in &mut viewers {
        assert_eq!(viewer.terminal.end().code(), Some(0));
        viewer.until_shown("last words");
        assert_given_back(viewer, &before, "[session t has ended]");
    }
    sup.end().assert_code(0);
}

#[test]
fn a_lost_connection_gives_the_terminal_back_too() {
    let lab = Lab::new();
    let (sup, _) = echoing(&lab);
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    let before = Terminal::new(80, 24).modes();
    viewer.until_shown("READY");
    sup.signal(libc::SIGKILL);
    assert_eq!(viewer.terminal.end().code(), Some(69));
    assert_given_back(&viewer, &before, "[the connection to t is lost]");
    sup.end();
}

#[test]
fn who_only_watches_types_nothing_and_leaves_by_ctrl_c_or_the_key() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(&lab);
    for keys in ["\x03", "\x1b[99;5u", "\x1c\x1c"] {
        let mut viewer = Viewer::attach(&lab, SIZE, &["--readonly"]);
        viewer.until_shown("watching t, readonly: Ctrl-\\ twice or Ctrl-C leaves");
        viewer.terminal.type_in("not this q\r\x1a");
        viewer.terminal.type_in(keys);
        assert_eq!(viewer.terminal.end().code(), Some(0), "{keys:?}");
        viewer.until_shown("[detached from t]");
    }
    assert_eq!(caller.get("stats", json!({}))["input_bytes"], 0);
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    assert_eq!(ended.stdout, b"READYq");
}

#[test]
fn ctrl_z_suspends_the_client_and_not_the_agent() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, ["cat"]).with(["--size", "80x24"]).start();
    let cat = log::number(&sup.wait_for("claude_spawn"), "pid");
    let mut caller = Caller::of(&lab);
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    let before = terminal.modes();
    let words: Vec<String> =
        viewer::command(&lab, &[]).get_args().map(|it| it.to_str().unwrap().to_owned()).collect();
    terminal.type_in(format!("{AGENTSUP} {}\n", words.join(" ")));
    terminal.expect("detaches");
    for word in ["first", "second"] {
        terminal.type_in(format!("{word}\n"));
        terminal.expect(word);
        terminal.type_in("\x1a");
        terminal.expect("[suspended; t goes on]");
        terminal.expect("Stopped");
        terminal.expect("PROMPT> ");
        assert_eq!(terminal.modes(), before, "the shell has its terminal back");
        until_attached(&mut caller, 0);
        assert_ne!(procfs::process(cat).map(|p| p.state), Some('T'));
        terminal.type_in("fg\n");
        terminal.expect("attach");
        terminal.expect(word);
        until_attached(&mut caller, 1);
    }
    terminal.type_in("\x1c\x1c");
    terminal.expect("[detached from t]");
    terminal.expect("PROMPT> ");
    terminal.type_in("echo code=$?\n");
    terminal.expect("code=0\r\n");
    assert_eq!(terminal.modes(), before);
    assert!(!sup.stdout.text().contains("^Z"), "{}", sup.stdout.text());
    caller.get("stop", json!({}));
    sup.end();
}

#[test]
fn ctrl_z_where_nobody_could_continue_the_client_stops_nobody() {
    let lab = Lab::new();
    // A shell that stops itself at Ctrl-Z, as agents do that tidy up before.
    let script = "trap 'echo STOPPING; kill -STOP $$; echo CONTINUED' TSTP; echo READY; while :; do read -r x && echo got $x; done";
    let launch = Launch::run(&lab, ["bash", "-c", script]).with(["--size", "80x24"]);
    let sup = launch.start();
    sup.wait_for_output("READY");
    let agent = log::number(&sup.wait_for("claude_spawn"), "pid");
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    viewer.until_shown("READY");
    viewer.terminal.type_in("\x1a");
    viewer.terminal.type_in("word\r");
    viewer.until_shown("got word");
    assert_ne!(procfs::process(agent).map(|p| p.state), Some('T'));
    sys::kill(agent, libc::SIGTSTP);
    assert_eq!(viewer.detach(), Some(0));
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[test]
fn refusals_say_what_to_do() {
    let lab = Lab::new();
    // Its own terminal, shown in itself.
    let words: Vec<String> =
        viewer::command(&lab, &[]).get_args().map(|it| it.to_str().unwrap().to_owned()).collect();
    let inside = format!("{AGENTSUP} {}; echo code=$?; read x", words.join(" "));
    let sup = Launch::run(&lab, ["sh", "-c", &inside]).start();
    sup.wait_for_output("inside the agent's own process tree");
    sup.wait_for_output("code=1");
    assert!(sup.stdout.text().contains("attach from another one"), "{}", sup.stdout.text());

    let output = viewer::command(&lab, &[]).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("needs a terminal") && message.contains("agentsup screen"), "{message}");

    let mut viewer = Viewer::attach(&lab, SIZE, &["--session", "t"]);
    assert_eq!(viewer.terminal.end().code(), Some(2), "two sessions");
    sup.signal(libc::SIGTERM);
    sup.end();
    let mut viewer = Viewer::attach(&lab, SIZE, &[]);
    assert_eq!(viewer.terminal.end().code(), Some(69), "nobody is there");
    assert_eq!(viewer.terminal.modes(), Terminal::new(80, 24).modes());
}

#[test]
fn the_verb_is_in_the_help() {
    let help = Command::new(AGENTSUP).args(["attach", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("--readonly") && help.contains("Ctrl-\\ twice detaches"), "{help}");
}
