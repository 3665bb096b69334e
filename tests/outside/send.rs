//! What callers type into the agent's line, what the operator has in it, and what the agent says of it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::bridge::{prompts, stop, until_prompts, up};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, Terminal, eventually, log, sys};
use serde_json::{Value, json};

/// The agent with a line of input, known as claude: it confirms.
fn claude(lab: &Lab) -> Launch {
    let record = lab.text("record");
    // The supervisor puts its options behind the first word, and the agent takes them off again.
    Launch::run(lab, [FAKE, "tui", &record]).with(["--agent", "claude"])
}

/// The same agent under no name that is known.
fn stranger(lab: &Lab) -> Launch {
    let record = lab.text("record");
    Launch::run(lab, [FAKE, "tui", &record])
}

/// What the agent read, and when.
fn reads(lab: &Lab) -> Vec<(u64, String)> {
    let record = lab.whole_lines("record");
    let reads = record.lines().filter_map(|line| line.strip_prefix("READ ")?.split_once(' '));
    reads.map(|(ms, text)| (ms.parse().unwrap(), serde_json::from_str(text).unwrap())).collect()
}

#[test]
fn a_text_is_pasted_and_its_enter_comes_by_itself() {
    let lab = Lab::new();
    let (sup, mut caller) = up(stranger(&lab), &lab);
    let began = Instant::now();
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "submitted");
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert_eq!(until_prompts(&lab, 1), ["hello"]);
    let reads = reads(&lab);
    let (enter, text) = (&reads[reads.len() - 1], &reads[..reads.len() - 1]);
    assert_eq!(enter.1, "\r");
    assert!(enter.0 >= text.last().unwrap().0 + 145, "{reads:?}");
    assert_eq!(text.iter().map(|(_, text)| text.as_str()).collect::<String>(), "\x1b[200~hello\x1b[201~");
    stop(sup, &mut caller);
}

#[test]
fn the_agent_itself_confirms() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab), &lab);
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "confirmed");
    let text = "several\nlines\twith a tab\n\n👩‍👩‍👧 日本 e\u{301}";
    assert_eq!(caller.get("send", json!({"text": text}))["receipt"], "confirmed");
    let text = "x".repeat(100) + "\n" + &"long ".repeat(3300);
    assert_eq!(caller.get("send", json!({"text": &text[..16 * 1024]}))["receipt"], "confirmed");
    // Behind a backslash an Enter would only begin a new line.
    assert_eq!(caller.get("send", json!({"text": "cd C:\\"}))["receipt"], "confirmed");
    let prompts = until_prompts(&lab, 4);
    assert_eq!(prompts[3], "cd C:\\ ");
    assert_eq!(prompts[1], "several\nlines\twith a tab\n\n👩‍👩‍👧 日本 e\u{301}");
    assert_eq!(prompts[2], text[..16 * 1024]);
    sup.wait_for("send");
    stop(sup, &mut caller);
}

#[test]
fn an_agent_that_only_echoes_never_confirms() {
    let lab = Lab::new();
    // Known as claude, and it switches bracketed paste on by echoing what does so.
    let (sup, mut caller) = up(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--agent", "claude"]), &lab);
    caller.send(&json!({"id": "send", "method": "send", "params": {"text": "hello ACK"}}));
    let mut other = Caller::of(&lab);
    other.get("inject", json!({"bytes": "G1s/MjAwNGg="}));
    let reply = caller.receive().expect("an answer");
    assert_eq!(reply["receipt"], "submitted", "{reply}");
    stop(sup, &mut other);
}

#[test]
fn nothing_but_text_is_typed() {
    let lab = Lab::new();
    let (sup, mut caller) = up(stranger(&lab), &lab);
    let text = "a\x1b[201~\x03\x04\x15\x7f b\r\nc\rd\u{9b}e\x00";
    caller.get("send", json!({"text": text}));
    assert_eq!(until_prompts(&lab, 1), ["a[201~ b\nc\nde"]);
    for (text, code) in [
        ("", "BAD_PARAMS"),
        ("\x1b\x07", "BAD_PARAMS"),
        (" \n", "BAD_PARAMS"),
        (&"x".repeat(16 * 1024 + 1), "TOO_LARGE"),
    ] {
        assert_eq!(caller.refusal("send", json!({"text": text})), code, "{:?}", &text[..text.len().min(9)]);
    }
    assert_eq!(caller.refusal("send", json!({})), "BAD_PARAMS");
    assert_eq!(caller.refusal("send", json!({"text": 7})), "BAD_PARAMS");
    stop(sup, &mut caller);
}

#[test]
fn a_terminal_that_edits_lines_takes_no_line_that_it_would_cut() {
    let lab = Lab::new();
    let record = lab.text("record");
    let (sup, mut caller) = up(Launch::run(&lab, [FAKE, "lines", &record]), &lab);
    let line = "y".repeat(4095);
    assert_eq!(caller.refusal("send", json!({"text": format!("a\n{line}y")})), "LINE_TOO_LONG");
    assert_eq!(lab.read("record"), "", "nothing of it was typed");
    let text = format!("{line}\nsecond\n{}", &line[..4000]);
    assert_eq!(caller.get("send", json!({"text": text}))["receipt"], "submitted");
    eventually("all lines arrive", || lab.read("record") == format!("{text}\n"));
    stop(sup, &mut caller);
}

#[test]
fn nobody_types_into_a_draft_unless_forced() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(stranger(&lab).to_command());
    terminal.expect("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let drafts = |caller: &mut Caller| caller.state()["operator"]["draft"].as_bool().unwrap();
    // What a terminal says by itself is no draft.
    terminal.type_in("\x1b[I\x1b[O\x1b[<35;10;12M\x1b[12;40R\x1b]11;rgb:0000/0000/0000\x07");
    assert_eq!(caller.get("send", json!({"text": "one"}))["receipt"], "submitted");
    terminal.type_in("a draft");
    terminal.expect("a draft");
    eventually("the draft is seen", || drafts(&mut caller));
    assert_eq!(caller.refusal("send", json!({"text": "two"})), "OPERATOR_BUSY");
    terminal.type_in("\x7f".repeat(7));
    eventually("it is gone", || !drafts(&mut caller));
    caller.get("send", json!({"text": "three"}));
    terminal.type_in("mine ");
    terminal.expect("mine ");
    eventually("the draft is seen", || drafts(&mut caller));
    caller.get("send", json!({"text": "and theirs", "force": true}));
    assert!(!drafts(&mut caller), "it was sent with the text");
    assert_eq!(until_prompts(&lab, 3), ["one", "three", "mine and theirs"]);
    // Left standing by a caller it is a draft as well.
    assert_eq!(caller.get("send", json!({"text": "half", "submit": false}))["receipt"], "written");
    assert_eq!(caller.refusal("send", json!({"text": "four"})), "OPERATOR_BUSY");
    terminal.type_in("\x15");
    eventually("it is gone", || !drafts(&mut caller));
    caller.get("send", json!({"text": "four"}));
    assert_eq!(until_prompts(&lab, 4)[3], "four");
    let log = lab.read("state/logs/t.log");
    assert_eq!(log.matches(" operator_input").count(), 1, "{log}");
    assert!(log.contains("send count=3 ") && log.contains("error=OPERATOR_BUSY"), "{log}");
    assert!(!log.contains("theirs"), "no text is logged");
    caller.get("stop", json!({"graceful": false}));
    terminal.end();
}

#[test]
fn what_others_type_meanwhile_comes_behind_the_enter() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(stranger(&lab).to_command());
    terminal.expect("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    caller.send(&json!({"id": "send", "method": "send", "params": {"text": "the text"}}));
    terminal.expect("the text");
    // The text stands there and its Enter is still to come.
    terminal.type_in("keys");
    let mut other = Caller::of(&lab);
    assert_eq!(other.get("inject", json!({"bytes": "IGFuZCBieXRlcw=="}))["n"], 10);
    assert_eq!(caller.receive().unwrap()["receipt"], "submitted");
    eventually("all of it is read", || {
        let all: String = reads(&lab).into_iter().map(|(_, text)| text).collect();
        all.contains("keys") && all.contains(" and bytes")
    });
    let all: String = reads(&lab).into_iter().map(|(_, text)| text).collect();
    assert!(all.starts_with("\x1b[200~the text\x1b[201~\r"), "{all:?}");
    assert_eq!(prompts(&lab), ["the text"]);
    assert_eq!(caller.state()["operator"]["draft"], true);
    caller.get("stop", json!({"graceful": false}));
    terminal.end();
}

#[test]
fn a_ctrl_c_that_has_had_enough_of_a_stop_waits_for_no_text() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    let deaf = Launch::run(&lab, [FAKE, "ignore", "15"]).with(["--grace", "60s"]);
    terminal.start(deaf.to_command());
    terminal.expect("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    // Shown by the terminal and never read: its Enter waits for seconds.
    caller.send(&json!({"id": 1, "method": "send", "params": {"text": "one line\nand more"}}));
    terminal.expect("and more");
    sys::kill(terminal.child_pid(), libc::SIGTERM);
    eventually("it stops", || log::Log::of(&lab.state_dir()).text().contains(" to=stopping"));
    let began = Instant::now();
    terminal.type_in("\x03");
    assert_eq!(terminal.end().code(), Some(128 + libc::SIGKILL));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn many_at_once_arrive_whole_and_in_order() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab), &lab);
    for n in 0..10 {
        caller.send(&json!({"id": n, "method": "send", "params": {"text": format!("text {n}")}}));
    }
    for _ in 0..10 {
        let reply = caller.receive().expect("an answer");
        assert_eq!(reply["receipt"], "confirmed", "{reply}");
    }
    assert_eq!(until_prompts(&lab, 10), (0..10).map(|n| format!("text {n}")).collect::<Vec<_>>());
    stop(sup, &mut caller);
}

#[test]
fn without_somebody_to_type_to_it_is_refused() {
    let lab = Lab::new();
    let (sup, mut caller) = up(stranger(&lab), &lab);
    caller.get("pause", json!({}));
    assert_eq!(caller.refusal("send", json!({"text": "x"})), "NOT_RUNNING");
    caller.get("resume", json!({}));
    caller.send(&json!({"id": "send", "method": "send", "params": {"text": "the text"}}));
    sup.wait_for_output("the text");
    let agent = caller.state()["pid"].as_i64().or_else(|| caller.receive()?["pid"].as_i64());
    sys::kill(agent.expect("an agent") as i32, libc::SIGKILL);
    let reply = caller.receive().expect("an answer");
    assert_eq!(reply["error"]["code"], "NOT_RUNNING", "{reply}");
    assert_eq!(caller.refusal("send", json!({"text": "x"})), "NOT_RUNNING");
    stop(sup, &mut caller);
    assert_eq!(prompts(&lab), [""; 0]);

    let lab = Lab::new();
    let (sup, mut caller) = up(Launch::run(&lab, [FAKE, "wait"]).with(["--io", "inherit"]), &lab);
    assert_eq!(caller.refusal("send", json!({"text": "x"})), "NO_PTY");
    stop(sup, &mut caller);
}

fn verb(lab: &Lab, words: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(AGENTSUP);
    command.args([&words[..1], &["--dir", lab.state_dir().to_str().unwrap()], &words[1..]].concat());
    command.env_remove("AGENTSUP_SOCKET").env_remove("AGENTSUP_SESSION");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_verb_says_how_far_it_came() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab), &lab);
    let said = |output: &Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(said(&verb(&lab, &["send", "hello"], "")), (0, "confirmed\n".into(), "".into()));
    assert_eq!(said(&verb(&lab, &["send", "t", "-"], "from\nstdin\n")).1, "confirmed\n");
    let json: Value = serde_json::from_slice(&verb(&lab, &["send", "--json", "x"], "").stdout).unwrap();
    assert_eq!(json, json!({"receipt": "confirmed"}));
    assert_eq!(said(&verb(&lab, &["send", "--no-submit", "half"], "")).1, "written\n");
    let (code, _, why) = said(&verb(&lab, &["send", "more"], ""));
    assert_eq!(code, 1);
    assert!(why.contains("draft") && why.contains("`force`") && why.contains("OPERATOR_BUSY"), "{why}");
    assert_eq!(said(&verb(&lab, &["send", "--force", " whole"], "")).1, "confirmed\n");
    assert_eq!(said(&verb(&lab, &["send", ""], "")).0, 2);
    assert_eq!(said(&verb(&lab, &["send", "-"], "")).0, 2);
    assert_eq!(until_prompts(&lab, 4)[1..], ["from\nstdin\n", "x", "half whole"]);
    stop(sup, &mut caller);
}

/// `agentsup hook`, as an agent calls it.
fn hook(socket: &str, event: &str, told: &str) -> (Output, Duration) {
    let began = Instant::now();
    let mut command = Command::new(AGENTSUP);
    command.args(["hook", event]).env("AGENTSUP_SOCKET", socket);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(told.as_bytes());
    (child.wait_with_output().unwrap(), began.elapsed())
}

#[test]
fn a_hook_never_breaks_its_agent() {
    let lab = Lab::new();
    let (sup, mut caller) = up(stranger(&lab), &lab);
    let socket = support::caller::socket(&lab).to_str().unwrap().to_owned();
    let plain = lab.write("no-socket", "");
    let good = r#"{"prompt":"x"}"#;
    let huge = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(3 << 20));
    sys::kill(sup.pid(), libc::SIGSTOP);
    let silent = hook(&socket, "UserPromptSubmit", good);
    sys::kill(sup.pid(), libc::SIGCONT);
    for (output, took) in [
        silent,
        hook(&socket, "UserPromptSubmit", good),
        hook(&socket, "UserPromptSubmit", "no JSON"),
        hook(&socket, "UserPromptSubmit", &huge),
        hook(&socket, "SomethingNew", good),
        hook("/nonexistent/a.sock", "UserPromptSubmit", good),
        hook(&plain, "UserPromptSubmit", good),
    ] {
        assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    stop(sup, &mut caller);
}

#[test]
fn the_users_settings_file_is_merged_into_one_of_our_own() {
    let lab = Lab::new();
    let (record, mark) = (lab.text("record"), lab.text("mark"));
    let theirs = json!({
        "env": {"MINE": "sk-my-own-secret"},
        "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": format!("cat >{mark}")}]}]},
    });
    let settings = lab.write("settings.json", &theirs.to_string());
    let command = [FAKE, "--settings", &settings, "tui", &record];
    let (sup, mut caller) = up(Launch::run(&lab, command).with(["--agent", "claude"]), &lab);
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "confirmed");
    assert!(lab.wait_for_file("mark", "hello").contains("UserPromptSubmit"), "theirs is called too");
    let merged = lab.path("state/supervisor/t.settings");
    assert_eq!(merged.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(lab.read("settings.json"), theirs.to_string(), "the user's file is not touched");
    let agent = caller.state()["pid"].as_i64().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{agent}/cmdline")).unwrap();
    assert!(!line.contains("sk-my-own-secret"), "{line}");
    stop(sup, &mut caller);
    verb(&lab, &["prune"], "");
    assert!(!merged.exists());
}

#[test]
fn settings_that_cannot_be_read_cost_the_hooks_and_nothing_else() {
    let lab = Lab::new();
    let record = lab.text("record");
    let bad = lab.write("bad.json", "[]");
    let command = ["sh", "-c", "exec \"$0\" tui \"$1\"", FAKE, &record, "--settings", &bad];
    let (sup, mut caller) = up(Launch::run(&lab, command).with(["--agent", "claude"]), &lab);
    sup.wait_for_stderr("no hooks");
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "submitted");
    stop(sup, &mut caller);
}

#[test]
fn without_hooks_nothing_is_put_on_the_command_line() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab).with(["--no-hooks"]), &lab);
    let agent = caller.state()["pid"].as_i64().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{agent}/cmdline")).unwrap();
    assert!(!line.contains("--settings"), "{line}");
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "submitted");
    stop(sup, &mut caller);
}

#[test]
fn what_could_not_be_submitted_is_cleared_and_no_draft_of_anybodys() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab), &lab);
    let pid = support::caller::pid_of(&caller.state());
    sys::kill(pid, libc::SIGSTOP);
    assert_eq!(caller.refusal("send", json!({"text": "the first"})), "NOT_READY");
    assert_eq!(caller.refusal("send", json!({"text": "too early"})), "OPERATOR_BUSY");
    sys::kill(pid, libc::SIGCONT);
    eventually("its line shows it", || {
        caller.get("screen", json!({}))["text"].as_str().unwrap().contains("> the first")
    });
    assert_eq!(caller.get("send", json!({"text": "the second"}))["receipt"], "confirmed");
    assert_eq!(until_prompts(&lab, 1), ["the second"]);
    assert_eq!(caller.state()["operator"]["draft"], false);
    stop(sup, &mut caller);
}
