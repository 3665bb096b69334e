//! DESIGN §6: the control socket, asked from outside by a client of the test's own.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::caller::{Framing, pid_of, socket, stop, waiting};
use crate::support::{Caller, FAKE, Lab, Launch, Running, epoch, eventually, exists, procfs};
use serde_json::{Value, json};

fn start(lab: &Lab, words: &[&str]) -> Running {
    Launch::run(lab, words).start()
}

/// Transient failures wait for a minute; code 5 halts at once.
fn slow_policy(lab: &Lab) -> String {
    lab.write("policy.toml", "[policy]\ntransient_wait = \"60s\"\nno_retry = [5]\n")
}

#[test]
fn a_pause_is_told_with_the_time_when_it_began() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "echo-raw"]);
    let mut caller = Caller::of(&lab);
    for again in [false, true] {
        if again {
            caller.get("restart", json!({"mode": "fresh"}));
        }
        caller.wait_for("ready");
        let before = epoch();
        caller.get("pause", json!({}));
        let state = caller.state();
        assert!(state["activity_since"].as_f64() >= Some(before), "{state}");
        caller.get("pause", json!({}));
        let since = caller.state()["activity_since"].as_f64().unwrap();
        assert!((since - state["activity_since"].as_f64().unwrap()).abs() < 0.01, "it is the same pause");
        caller.get("resume", json!({}));
        assert!(caller.state()["activity_since"].as_f64() < Some(before), "{state}");
    }
    stop(sup, &mut caller);
}

#[test]
fn every_method_answers_through_both_framings() {
    for framing in [Framing::Lines, Framing::Prefixed] {
        let lab = Lab::new();
        let sup = start(&lab, &[FAKE, "echo-raw"]);
        sup.wait_for_output("READY");
        let mut caller = Caller::at(&socket(&lab), framing);

        let pong = caller.get("ping", json!({}));
        assert_eq!((&pong["session"], &pong["protocol"]), (&json!("t"), &json!(1)));
        let pid = pid_of(&caller.wait_for("ready"));
        assert_eq!(pid_of(&caller.get("pid", json!({}))), pid);
        let state = caller.get("state", json!({"why": true, "deep": true}));
        assert_eq!(
            (&state["running"], &state["pid"], &state["phase"], &state["health"], &state["activity"]),
            (&json!(true), &json!(pid), &json!("running"), &json!("healthy"), &json!("unknown"))
        );
        assert_eq!((&state["zombies"], &state["tree"]["processes"]), (&json!(0), &json!(1)), "{state}");
        assert!(state["why"].as_array().is_some_and(|why| !why.is_empty()), "{state}");
        assert!(caller.state().get("tree").is_none(), "only when asked for");

        assert_eq!(caller.get("inject", json!({"bytes": "aGVsbG8="}))["n"], 5);
        sup.wait_for_output("hello");
        caller.get("interrupt", json!({}));
        sup.wait_for_output("\u{3}");
        caller.get("pause", json!({}));
        assert_eq!(caller.state()["activity"], "paused");
        assert_eq!(pid_of(&caller.get("resume", json!({}))), pid);
        let stats = caller.get("stats", json!({}));
        assert_eq!((&stats["input_bytes"], &stats["callers"]), (&json!(6), &json!(1)), "{stats}");
        assert!(stats["output_bytes"].as_u64() >= Some(5 + 6), "{stats}");
        let metrics = caller.get("metrics", json!({}));
        assert!(metrics["text"].as_str().unwrap().contains("\nagentsup_restarts_total 0\n"), "{metrics}");
        assert_eq!(caller.refusal("wait", json!({"for": "halted", "timeout_ms": 1})), "TIMEOUT");

        for (method, key) in [("events", "event"), ("logs", "line")] {
            let first = caller.get(method, json!({}));
            assert_eq!(first["start"], true, "{first}");
            let mut frames = 0;
            loop {
                let frame = caller.receive().expect("a stream ends with its end");
                if frame["end"] == true {
                    break;
                }
                assert!(frame.get(key).is_some(), "{frame}");
                frames += 1;
            }
            assert!(frames > 5, "{method}: {frames}");
        }
        let new = pid_of(&caller.get("restart", json!({"mode": "fresh"})));
        assert_ne!(new, pid);
        stop(sup, &mut caller).assert_code(143);
        assert_eq!(caller.receive(), None);
        assert!(!exists(&socket(&lab)), "removed on an orderly exit");
    }
}

/// What a program prints that is given lines on stdin; `None`, said loudly, where it is missing.
fn by_pipe(program: &str, words: &[&str], lines: &str) -> Option<Vec<Value>> {
    let child = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{program}: {error}");
            eprintln!("SKIPPED: no {program} on this machine");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let replies = String::from_utf8(output.stdout).unwrap();
    Some(replies.lines().map(|line| serde_json::from_str(line).expect("a reply is a line")).collect())
}

#[test]
fn the_line_framing_needs_no_client_but_socat_or_nc() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "echo-raw"]);
    sup.wait_for_output("READY");
    Caller::of(&lab).wait_for("ready");
    let path = socket(&lab).into_os_string().into_string().unwrap();
    let address = format!("UNIX-CONNECT:{path}");
    let calls = [
        ("ping", "{}"),
        ("state", r#"{"deep":true}"#),
        ("pid", "{}"),
        ("wait", r#"{"for":"ready"}"#),
        ("interrupt", "{}"),
        ("inject", r#"{"bytes":"YQ=="}"#),
        ("pause", "{}"),
        ("resume", "{}"),
        ("screen", r#"{"ansi":true}"#),
        ("stats", "{}"),
        ("metrics", "{}"),
        ("restart", r#"{"mode":"fresh"}"#),
        ("events", "{}"),
        ("logs", r#"{"lines":3}"#),
    ];
    let lines: String = calls
        .map(|(method, params)| {
            format!("{{\"id\":\"{method}\",\"method\":\"{method}\",\"params\":{params}}}\n")
        })
        .concat();
    for (program, words) in
        [("socat", &["-t", "20", "-", &address][..]), ("nc", &["-N", "-w", "20", "-U", &path][..])]
    {
        let Some(replies) = by_pipe(program, words, &lines) else { continue };
        for (method, _) in calls {
            let own: Vec<_> = replies.iter().filter(|reply| reply["id"] == method).collect();
            assert!(!own.is_empty() && own.iter().all(|reply| reply["ok"] == true), "{program}: {own:?}");
        }
    }
    let stop = "{\"method\":\"stop\"}\n";
    if let Some(replies) = by_pipe("socat", &["-t", "20", "-", &address], stop) {
        assert_eq!(replies, [json!({"ok": true, "already": false})]);
    } else {
        Caller::of(&lab).get("stop", json!({}));
    }
    sup.end().assert_code(143);
}

#[test]
fn a_restart_answers_with_the_agent_that_really_runs_and_counts_as_no_failure() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    for n in 1..=7 {
        let before = pid_of(&caller.get("pid", json!({})));
        let after = pid_of(&caller.get("restart", json!({})));
        assert!(!procfs::alive(before) && procfs::alive(after));
        assert_eq!(pid_of(&caller.get("pid", json!({}))), after);
        let state = caller.state();
        assert_eq!((&state["restart_count"], &state["health"]), (&json!(n), &json!("healthy")), "{state}");
        assert_eq!((&state["exits"][0]["class"], &state["last_exit"]), (&json!("asked"), &json!(143)));
    }
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn two_restarts_at_once_are_one() {
    let lab = Lab::new();
    let (sup, mut one) = waiting(&lab);
    let mut two = Caller::of(&lab);
    for caller in [&mut one, &mut two] {
        caller.send(&json!({"method": "restart"}));
    }
    let pids = [&mut one, &mut two].map(|caller| pid_of(&caller.receive().expect("an answer")));
    // The second may have come after the first was done.
    let restarts = one.state()["restart_count"].as_u64().unwrap();
    assert_eq!(pids[0] == pids[1], restarts == 1, "{pids:?}, {restarts} restarts");
    stop(sup, &mut one).assert_code(143);
}

#[test]
fn a_restart_cuts_a_backoff_short_and_a_stop_ends_it() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "exit", "1"]).with(["--config", &slow_policy(&lab)]).start();
    let mut caller = Caller::of(&lab);
    let state = caller.until_phase("backoff");
    assert_eq!((&state["running"], &state["pid"]), (&json!(false), &Value::Null));
    assert_eq!(state["wake"]["why"], "restart", "{state}");
    assert_eq!(caller.refusal("pid", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("pause", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("interrupt", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("inject", json!({"bytes": ""})), "NOT_RUNNING");
    assert_eq!(caller.refusal("resume", json!({})), "NOT_HALTED");
    assert!(pid_of(&caller.get("restart", json!({}))) > 0);
    assert_eq!(caller.until_phase("backoff")["restart_count"], 1);
    stop(sup, &mut caller).assert_code(1);
}

#[test]
fn a_halted_supervisor_is_resumed_or_restarted() {
    let lab = Lab::new();
    let options = ["--config", &slow_policy(&lab), "--on-halt", "wait"];
    let sup = Launch::run(&lab, [FAKE, "exit", "5"]).with(options).start();
    let mut caller = Caller::of(&lab);
    for (n, method) in ["resume", "restart", "resume"].iter().enumerate() {
        let halted = caller.wait_for("halted");
        assert_eq!((&halted["reason"], &halted["code"]), (&json!("halted"), &json!(5)));
        assert_eq!(caller.wait_for("exit")["code"], 5);
        let state = caller.state();
        assert_eq!((&state["phase"], &state["restart_count"]), (&json!("halted"), &json!(n)));
        assert!(pid_of(&caller.get(method, json!({}))) > 0);
    }
    caller.until_phase("halted");
    stop(sup, &mut caller).assert_code(5);
}

#[test]
fn a_stop_is_answered_first_and_a_second_one_is_no_hurry() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "ignore", "15"]).with(["--grace", "60s"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    assert_eq!(caller.get("stop", json!({}))["already"], false);
    caller.until_phase("stopping");
    assert_eq!(caller.get("stop", json!({}))["already"], true);
    for method in ["restart", "resume", "pause"] {
        assert_eq!(caller.refusal(method, json!({})), "STOPPING", "{method}");
    }
    assert_eq!(caller.refusal("wait", json!({"for": "ready"})), "STOPPING");
    assert_eq!(caller.state()["phase"], "stopping");
    let mut waits = Caller::of(&lab);
    waits.send(&json!({"method": "wait", "params": {"for": "exit"}}));
    assert_eq!(caller.get("stop", json!({"graceful": false}))["already"], true);
    sup.end().assert_code(137);
    assert_eq!(waits.receive().expect("answered before the end")["code"], 137);
}

#[test]
fn a_stop_by_a_caller_makes_no_hurry_of_the_signal_that_follows() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "ignore", "15"]).with(["--grace", "60s"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.get("stop", json!({}));
    // As an orchestrator does after its own hook.
    sup.signal(libc::SIGTERM);
    sup.log.wait_for("signal_received");
    assert!(pid_of(&caller.get("pid", json!({}))) > 0, "the agent still has its grace");
    caller.get("stop", json!({"graceful": false}));
    sup.end().assert_code(137);
}

#[test]
fn while_before_spawn_is_asked_nothing_runs_and_a_stop_is_no_failed_spawn() {
    let lab = Lab::new();
    let (agreed, config) = (lab.text("agreed"), lab.text("ask.toml"));
    // It agrees once, then takes its time.
    let ask = format!("[ ! -e '{agreed}' ] || exec sleep 1000; touch '{agreed}'");
    std::fs::write(&config, format!("[run]\nbefore_spawn = [\"sh\", \"-c\", \"{ask}\"]\n")).unwrap();
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    let mut waits = Caller::of(&lab);
    waits.wait_for("ready");
    waits.send(&json!({"method": "restart"}));
    let mut caller = Caller::of(&lab);
    caller.until_phase("preparing");
    for (method, params) in
        [("pid", json!({})), ("pause", json!({})), ("interrupt", json!({})), ("inject", json!({"bytes": ""}))]
    {
        assert_eq!(caller.refusal(method, params), "NOT_RUNNING", "{method}");
    }
    assert_eq!(caller.refusal("resume", json!({})), "NOT_HALTED");
    stop(sup, &mut caller).assert_code(143);
    assert_eq!(waits.receive().expect("an answer")["error"]["code"], "STOPPING");
}

#[test]
fn an_interrupt_that_ends_a_program_is_an_exit_like_any_other() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, ["sleep", "1000"]).with(["--config", &slow_policy(&lab)]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    caller.get("interrupt", json!({}));
    let state = caller.until_phase("backoff");
    assert_eq!((&state["last_exit"], &state["exits"][0]["class"]), (&json!(130), &json!("transient")));
    stop(sup, &mut caller).assert_code(130);
}

#[test]
fn a_spawn_that_fails_is_told_to_whoever_asked() {
    let lab = Lab::new();
    let agent = lab.write("agent", "#!/bin/sh\necho READY\nexec sleep 1000\n");
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();
    let sup = start(&lab, &[&agent]);
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    std::fs::remove_file(&agent).unwrap();
    let reply = caller.ask("restart", json!({}));
    assert_eq!(reply["error"]["code"], "SPAWN_FAILED", "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("agent"), "{reply}");
    caller.until_phase("backoff");
    stop(sup, &mut caller);
}

#[test]
fn a_pause_stops_the_whole_tree_and_a_resume_lets_it_go_on() {
    let lab = Lab::new();
    let file = lab.text("pids");
    let sup = start(&lab, &[FAKE, "tree", &file]);
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    lab.wait_for_file("pids", "\n");
    let all = || procfs::descendants(sup.pid());
    sup.wait_for_output("READY");
    for _ in 0..2 {
        caller.get("pause", json!({}));
        eventually("all stand still", || all().iter().all(|p| p.stands()));
    }
    assert_eq!(caller.state()["activity"], "paused");
    assert_eq!(caller.state()["phase"], "running");
    caller.get("resume", json!({}));
    eventually("all go on", || all().iter().all(|p| !p.stands()));
    assert_eq!(caller.refusal("resume", json!({})), "NOT_HALTED");

    caller.get("pause", json!({}));
    let before = pid_of(&caller.get("pid", json!({})));
    assert_ne!(pid_of(&caller.get("restart", json!({}))), before);
    assert_eq!(caller.state()["activity"], "unknown");
    eventually("nobody is left standing", || all().iter().all(|p| !p.stands()));
    caller.get("pause", json!({}));
    let began = Instant::now();
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
    assert!(began.elapsed() < Duration::from_secs(5), "a frozen agent acts on TERM");
}

#[test]
fn under_inherit_nothing_can_be_typed() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--io", "inherit"]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    assert_eq!(caller.refusal("inject", json!({"bytes": "YQ=="})), "NO_PTY");
    assert_eq!(caller.refusal("interrupt", json!({})), "NO_PTY");
    assert_eq!(caller.refusal("screen", json!({})), "NO_PTY");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn what_an_agent_does_not_read_is_refused_as_a_whole() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "echo-raw"]);
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    // Nobody reads: the kernel's buffer and ours fill up.
    caller.get("pause", json!({}));
    let piece = json!({"bytes": "YWFh".repeat(10_000)});
    let full = (0..20).find(|_| caller.ask("inject", piece.clone())["error"]["code"] == "INPUT_FULL");
    assert!(full.is_some());
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_wait_for_exit_has_the_agents_code_also_for_a_caller_that_will_not_speak_again() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "exit", "7", "--after", "500"]);
    let mut caller = Caller::of(&lab);
    caller.send(&json!({"method": "wait", "params": {"for": "ready"}}));
    caller.send(&json!({"method": "wait", "params": {"for": "exit"}, "id": 2}));
    caller.half_close();
    assert!(pid_of(&caller.receive().unwrap()) > 0);
    // By default a failure is tried again, so that exit is none.
    let mut other = Caller::of(&lab);
    other.until_phase("backoff");
    stop(sup, &mut other).assert_code(7);
    assert_eq!(caller.receive(), Some(json!({"id": 2, "ok": true, "reason": "exit", "code": 7})));
    assert_eq!(caller.receive(), None);
}
