//! Agents that are triggered: with a line of input that writes down all it is given, and the verbs
//! that trigger them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, Terminal, eventually};

/// Numbers that a test can wait for.
pub const QUICK: &str = "[trigger]\nquiet = \"700ms\"\nmax_defer = \"2s\"\nack_timeout = \"400ms\"\n\
                         retry_waits = [\"100ms\", \"200ms\"]\nrate_per_minute = 1000\n\
                         [policy]\ntransient_wait = \"100ms\"\n";
pub const PATIENT: &str = "[trigger]\nrate_per_minute = 1000\n";

pub fn launch(lab: &Lab, config: &str, words: &[&str]) -> Launch {
    let config = lab.write("config.toml", config);
    Launch::run(lab, words).with(["--config", &config])
}

/// An agent with a line of input that runs `script` with each prompt, under no name that is known.
pub fn tui(lab: &Lab, config: &str, script: &str) -> Launch {
    launch(lab, config, &[FAKE, "tui", &lab.text("record"), script])
}

pub fn claude(lab: &Lab, config: &str) -> Launch {
    launch(lab, config, &[FAKE, "tui", &lab.text("record")]).with(["--agent", "claude"])
}

/// A claude of the fake kind with a conversation to go on with, that runs `script` with each prompt.
pub fn talking_claude(lab: &Lab, config: &str, script: &str) -> Launch {
    lab.dir("bin");
    let (program, home) = (lab.path("bin/claude"), lab.text(""));
    let _ = std::os::unix::fs::symlink(FAKE, &program);
    let set = [("FAKE_CLAUDE", home.as_str()), ("HOME", &home), ("FAKE_SCRIPT", script)];
    let set = set.map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
    launch(lab, config, &[program.to_str().expect("UTF-8")]).with(set.iter().flatten())
}

pub fn up(launch: Launch, lab: &Lab) -> (Running, Caller) {
    let sup = launch.start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

/// Under a terminal, with an operator at it.
pub fn at_terminal(launch: &Launch, lab: &Lab) -> (Terminal, Caller) {
    let mut terminal = Terminal::new(100, 30);
    terminal.start(launch.to_command());
    terminal.expect("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (terminal, caller)
}

pub fn stop(sup: Running, caller: &mut Caller) {
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}

/// What the agent was given, prompt by prompt.
pub fn prompts(lab: &Lab) -> Vec<String> {
    let record = lab.whole_lines("record");
    let prompts = record.lines().filter_map(|line| line.strip_prefix("PROMPT "));
    prompts.map(|text| serde_json::from_str(text).expect("JSON")).collect()
}

/// The agent notes a prompt behind its hooks.
pub fn until_prompts(lab: &Lab, count: usize) -> Vec<String> {
    eventually("the prompt is noted", || prompts(lab).len() >= count);
    prompts(lab)
}

/// Every byte that it read.
pub fn all_read(lab: &Lab) -> String {
    let record = lab.whole_lines("record");
    let reads = record.lines().filter_map(|line| line.strip_prefix("READ ")?.split_once(' '));
    reads.map(|(_, text)| serde_json::from_str::<String>(text).expect("JSON")).collect()
}

pub fn has_draft(caller: &mut Caller) -> bool {
    caller.state()["operator"]["draft"].as_bool().expect("a word about drafts")
}

pub fn until_draft(caller: &mut Caller) {
    eventually("the draft is seen", || has_draft(caller));
}

/// As the agent reads it.
pub fn envelope(id: &str, thread: &str, text: &str) -> String {
    format!("[BRIDGE_TRIGGER id={id} thread={thread}]\n{text}\n[/BRIDGE_TRIGGER]")
}

/// As it is typed: a paste, and the Enter by itself.
pub fn typed(envelope: &str) -> String {
    format!("\x1b[200~{}\x1b[201~\r", envelope.replace('\n', "\r"))
}

/// A verb: its code, stdout and stderr.
pub fn verb(lab: &Lab, words: &[&str]) -> (i32, String, String) {
    verb_with(lab, words, "")
}

pub fn verb_with(lab: &Lab, words: &[&str], stdin: impl AsRef<[u8]>) -> (i32, String, String) {
    let mut command = Command::new(AGENTSUP);
    command.args([&words[..1], &["--dir", lab.state_dir().to_str().unwrap()], &words[1..]].concat());
    command.env_remove("AGENTSUP_SOCKET").env_remove("AGENTSUP_SESSION");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_ref());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

pub fn metric(caller: &mut Caller, name: &str) -> u64 {
    let page = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    let line = page.lines().find(|line| line.starts_with(&format!("agentsup_trigger_{name}_total ")));
    line.unwrap_or_else(|| panic!("no {name}")).rsplit(' ').next().unwrap().parse().unwrap()
}
