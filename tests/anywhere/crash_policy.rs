//! Issue point 7, the end-to-end part: the table of DESIGN §5 with short waits.

use std::time::{Duration, Instant};

use crate::support;
use crate::support::{FAKE, Lab, Launch, log};

fn policy(lab: &Lab, more: &str) -> String {
    let numbers = "[policy]\ntransient_wait = \"100ms\"\nflapping_wait = \"400ms\"\n";
    lab.write("policy.toml", &format!("{numbers}{more}"))
}

#[test]
fn an_agent_that_always_crashes_is_restarted_by_the_table_and_halts_at_the_fifth() {
    let lab = Lab::new();
    let began = Instant::now();
    let launch = Launch::run(&lab, [FAKE, "say", "last words\n", "7"]).with(["--config", &policy(&lab, "")]);
    let ended = launch.end();
    let took = began.elapsed();
    ended.assert_code(7);
    let log = log::Log::of(&lab.state_dir());
    let told = |event: &str, key: &str| -> Vec<String> {
        log.events(event).iter().map(|line| log::field(line, key).unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(log.events("claude_spawn").len(), 5, "{ended}");
    assert_eq!(told("claude_exit", "code"), ["7"; 5], "{ended}");
    assert_eq!(
        told("claude_exit", "class")[..4],
        ["transient", "transient", "flapping", "flapping"],
        "{ended}"
    );
    assert_eq!(
        told("restart_scheduled", "class"),
        ["transient", "transient", "flapping", "flapping"],
        "{ended}"
    );
    assert_eq!(told("restart_scheduled", "wait_ms"), ["100", "100", "400", "400"], "{ended}");
    assert_eq!(log.events("halted").len(), 1, "{ended}");
    let health = told("state_changed", "health");
    let mut seen = health.clone();
    seen.dedup();
    assert_eq!(seen, ["healthy", "degraded", "halted"], "{ended}");
    let record = lab.read("state/supervisor/t.json");
    let record: serde_json::Value = serde_json::from_str(&record).expect("the last state as JSON");
    assert_eq!((&record["health"], &record["last_exit"]), (&"halted".into(), &7.into()), "{record}");
    let halt = "supervisor halted — run 'agentsup resume t' to retry";
    assert!(ended.stderr.contains(halt) && ended.log.contains(halt), "{ended}");
    assert!(ended.stderr.matches("last words").count() >= 1, "the agent's last lines: {ended}");
    assert!(
        ended.log.lines().find(|l| l.contains("] halted ")).is_some_and(|l| l.contains("last words")),
        "{ended}"
    );
    assert!(took >= Duration::from_millis(1000), "the waits were kept: {took:?}\n{ended}");
    assert!(ended.log.trim_end().lines().last().is_some_and(|l| l.contains("shutdown code=7")), "{ended}");
}

#[test]
fn an_agent_that_recovers_stays() {
    let lab = Lab::new();
    let words = [FAKE, "crash-then", &lab.text("marks"), "3", "1"];
    let sup = Launch::run(&lab, words).with(["--config", &policy(&lab, "")]).start();
    sup.wait_for_output("READY");
    assert_eq!(lab.read("marks").lines().count(), 4);
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    assert!(!ended.log.contains("halted"), "{ended}");
}

#[test]
fn a_clean_exit_ends_a_run_without_a_terminal_unless_always_is_asked_for() {
    let lab = Lab::new();
    let ended = Launch::run(&lab, [FAKE, "exit", "0"]).end();
    ended.assert_code(0);
    assert_eq!(ended.log.matches("claude_spawn").count(), 1, "{ended}");

    let lab = Lab::new();
    let options = ["--restart", "always", "--config", &policy(&lab, "")];
    let sup = Launch::run(&lab, [FAKE, "crash-then", &lab.text("marks"), "2", "0"]).with(options).start();
    sup.wait_for_output("READY");
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    assert_eq!(ended.log.matches("claude_spawn").count(), 3, "{ended}");
}

#[test]
fn a_code_that_is_not_to_be_retried_halts_at_once() {
    let lab = Lab::new();
    let config = policy(&lab, "no_retry = [42]\n");
    let ended = Launch::run(&lab, [FAKE, "exit", "42"]).with(["--config", &config]).end();
    ended.assert_code(42);
    assert_eq!(ended.log.matches("claude_spawn").count(), 1, "{ended}");
    assert!(ended.log.contains("] halted "), "{ended}");
}

#[test]
fn whoever_is_to_be_told_of_a_halt_is_told_why() {
    let lab = Lab::new();
    let told = lab.text("told");
    let notify = format!("halt_after = 1\n[halt]\nnotify = [\"sh\", \"-c\", \"cat > {told}\"]\n");
    let ended = Launch::run(&lab, [FAKE, "exit", "6"]).with(["--config", &policy(&lab, &notify)]).end();
    ended.assert_code(6);
    let json: serde_json::Value =
        serde_json::from_str(&lab.read("told")).unwrap_or_else(|e| panic!("{e}\n{ended}"));
    assert!(json.to_string().contains("halted") && json.to_string().contains('6'), "{json}");
}

#[test]
fn an_agent_killed_by_somebody_else_is_a_failure_like_any_other() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &policy(&lab, "")]).start();
    let first = log::number(&sup.wait_for("claude_spawn"), "pid");
    support::sys::kill(first, libc::SIGKILL);
    let exit = sup.wait_for("claude_exit");
    assert_eq!((log::field(&exit, "code"), log::field(&exit, "signal")), (Some("137"), Some("KILL")));
    let second = log::number(&sup.log.wait_for_nth(2, "claude_spawn"), "pid");
    assert_ne!(first, second);
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
}
