//! Triggers outlive the agent and the supervisor: delivered or reported, none dropped, none doubled.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::bridge::up;
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, eventually, sys};
use serde_json::{Value, json};

const CONFIG: &str = "[trigger]\nrate_per_minute = 1000\n";

fn launch(lab: &Lab, words: &[&str]) -> Launch {
    let config = lab.write("config.toml", CONFIG);
    Launch::run(lab, words).with(["--agent", "claude", "--config", &config])
}

/// Known as claude, and it never shows a line of input: whatever comes has to wait.
fn never_ready(lab: &Lab) -> (Running, Caller) {
    up(launch(lab, &[FAKE, "wait"]), lab)
}

fn tui(lab: &Lab) -> (Running, Caller) {
    up(launch(lab, &[FAKE, "tui", &lab.text("record")]), lab)
}

fn kill(sup: Running) {
    sys::kill(sup.pid(), libc::SIGKILL);
    sup.end();
}

fn ask(caller: &mut Caller, id: &str, wait: bool) -> Value {
    let text = format!("do {id}");
    caller.ask("trigger", json!({"thread": "t", "trigger_id": id, "text": text, "wait": wait}))
}

fn ids(lab: &Lab) -> Vec<String> {
    let record = lab.whole_lines("record");
    let prompts = record.lines().filter_map(|line| line.strip_prefix("PROMPT "));
    let id = |text: &str| text.split(['=', ' ']).nth(2).unwrap_or_default().to_owned();
    prompts.map(id).collect()
}

#[test]
fn what_waits_is_delivered_by_the_next_supervisor_however_the_first_one_ended() {
    for is_killed in [false, true] {
        let lab = Lab::new();
        let (sup, mut caller) = never_ready(&lab);
        for id in ["a", "b", "c"] {
            assert_eq!(ask(&mut caller, id, false)["state"], "queued");
        }
        caller.get("trigger.cancel", json!({"trigger_id": "b"}));
        let file = lab.path("state/supervisor/t.triggers");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        if is_killed {
            kill(sup);
        } else {
            // Who waits is told, and the trigger is not lost by that.
            caller.send(&json!({"id": 9, "method": "trigger", "params": {"thread": "t", "trigger_id": "a", "text": "do a"}}));
            let mut other = Caller::of(&lab);
            other.get("stop", json!({}));
            assert_eq!(caller.receive().unwrap()["error"]["code"], "STOPPING");
            sup.end();
        }
        let (sup, mut caller) = tui(&lab);
        for id in ["a", "c"] {
            assert_eq!(ask(&mut caller, id, true)["state"], "delivered");
        }
        assert_eq!(ask(&mut caller, "b", true)["error"]["code"], "CANCELLED");
        eventually("both are noted", || ids(&lab).len() >= 2);
        assert_eq!(ids(&lab), ["a", "c"]);
        // And once more: what has ended is known, and nothing is typed.
        kill(sup);
        let (sup, mut caller) = tui(&lab);
        assert_eq!(ask(&mut caller, "a", true)["by"], "hook");
        assert_eq!(ask(&mut caller, "b", true)["error"]["code"], "CANCELLED");
        assert_eq!(ask(&mut caller, "d", true)["state"], "delivered");
        eventually("it is noted", || ids(&lab).len() >= 3);
        assert_eq!(ids(&lab), ["a", "c", "d"]);
        caller.get("stop", json!({"graceful": false}));
        sup.end();
        let dir = lab.state_dir();
        let pruned = Command::new(AGENTSUP).args(["prune", "--dir", dir.to_str().unwrap()]).output().unwrap();
        assert!(pruned.status.success() && !file.exists(), "{pruned:?}");
    }
}

#[test]
fn what_was_typed_and_not_acknowledged_is_reported_and_not_typed_again() {
    let lab = Lab::new();
    // Its hooks are not called: nobody acknowledges.
    let (sup, mut caller) = up(launch(&lab, &[FAKE, "echo-raw"]).with(["--no-hooks"]), &lab);
    caller.get("inject", json!({"bytes": "G1s/MjAwNGg="}));
    caller.send(
        &json!({"id": 1, "method": "trigger", "params": {"thread": "t", "trigger_id": "a", "text": "do a"}}),
    );
    sup.wait_for("trigger_sent");
    kill(sup);
    let (sup, mut caller) = tui(&lab);
    let status = caller.get("trigger.status", json!({"trigger_id": "a"}));
    assert_eq!((&status["state"], &status["code"]), (&json!("failed"), &json!("NOT_RUNNING")), "{status}");
    sup.wait_for("trigger_failed");
    assert_eq!(ask(&mut caller, "b", true)["state"], "delivered");
    eventually("it is noted", || !ids(&lab).is_empty());
    assert_eq!(ids(&lab), ["b"]);
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}

#[test]
fn what_waits_lives_through_a_restart_of_the_agent() {
    let lab = Lab::new();
    let (sup, mut caller) = tui(&lab);
    caller.get("pause", json!({}));
    for id in ["a", "b"] {
        assert_eq!(ask(&mut caller, id, false)["state"], "queued");
    }
    caller.get("restart", json!({"mode": "fresh"}));
    for id in ["a", "b"] {
        assert_eq!(ask(&mut caller, id, true)["state"], "delivered");
    }
    eventually("both are noted", || ids(&lab).len() >= 2);
    assert_eq!(ids(&lab), ["a", "b"]);
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}

#[test]
fn a_file_that_cannot_be_written_or_read_stops_nothing() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("state/supervisor/t.triggers")).unwrap();
    for dir in ["state", "state/supervisor"] {
        std::fs::set_permissions(lab.path(dir), PermissionsExt::from_mode(0o700)).unwrap();
    }
    let (sup, mut caller) = tui(&lab);
    assert_eq!(ask(&mut caller, "a", true)["state"], "delivered");
    caller.get("stop", json!({"graceful": false}));
    let ended = sup.end();
    assert_eq!(ended.stderr.matches("triggers cannot be kept").count(), 1, "{}", ended.stderr);

    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("state/supervisor")).unwrap();
    for dir in ["state", "state/supervisor"] {
        std::fs::set_permissions(lab.path(dir), PermissionsExt::from_mode(0o700)).unwrap();
    }
    lab.write("state/supervisor/t.triggers", "\u{0}no JSON\n{\"typing\":\"x\"}\n{\"asked\":{\"id\":\"cut");
    let (sup, mut caller) = tui(&lab);
    assert_eq!(ask(&mut caller, "a", true)["state"], "delivered");
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}
