//! What callers follow: events, log lines, figures.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support;
use crate::support::caller::{stop, waiting};
use crate::support::{Caller, Lab, Running, procfs};
use serde_json::{Value, json};

fn frames_until_end(caller: &mut Caller) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let frame = caller.receive().expect("the end comes first");
        if frame["end"] == true {
            return frames;
        }
        frames.push(frame);
    }
}

fn seqs(frames: &[Value]) -> Vec<u64> {
    frames.iter().map(|f| f["event"]["seq"].as_u64().unwrap_or_else(|| panic!("{f}"))).collect()
}

#[test]
fn events_resume_after_a_reconnect_without_a_gap() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    caller.get("events", json!({}));
    let held = frames_until_end(&mut caller);
    let newest = held.len() as u64;
    assert_eq!(seqs(&held), (1..=newest).collect::<Vec<_>>());
    assert_eq!(held[0]["event"]["name"], "session_start");

    let mut follower = Caller::of(&lab);
    assert_eq!(follower.get("events", json!({"follow": true}))["newest"], newest);
    caller.get("inject", json!({"bytes": "YQ=="}));
    let event = follower.receive().unwrap();
    assert_eq!(
        (&event["event"]["name"], &event["event"]["seq"], &event["event"]["fields"]["count"]),
        (&json!("inject"), &json!(newest + 1), &json!("1"))
    );
    drop(follower);
    // A number of another life counts as none.
    caller.get("events", json!({"since": 1_000_000}));
    assert_eq!(seqs(&frames_until_end(&mut caller))[0], 1);
    caller.get("restart", json!({}));
    let mut again = Caller::of(&lab);
    again.get("events", json!({"since": newest + 1, "follow": true}));
    let names: Vec<_> = (0..3).map(|_| again.receive().unwrap()).collect();
    assert_eq!(seqs(&names), [newest + 2, newest + 3, newest + 4]);
    assert_eq!(names[0]["event"]["name"], "user_action");
    caller.get("stop", json!({}));
    sup.end();
    let mut last = Value::Null;
    while let Some(frame) = again.receive() {
        last = frame;
    }
    assert_eq!(last["event"]["name"], "shutdown", "a follower sees the end");
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_many_it_missed() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let mut slow = Caller::of(&lab);
    let newest = slow.get("events", json!({"follow": true}))["newest"].as_u64().unwrap();
    let more = 8_000;
    for _ in 0..more / 100 {
        for _ in 0..100 {
            caller.send(&json!({"method": "inject", "params": {"bytes": ""}}));
        }
        for _ in 0..100 {
            assert_eq!(caller.receive().unwrap()["ok"], true);
        }
    }
    let (mut expected, mut dropped) = (newest + 1, 0);
    while expected <= newest + more {
        let frame = slow.receive().expect("it is told, not closed");
        match frame["dropped"].as_u64() {
            Some(n) => {
                dropped += n;
                expected += n;
            }
            None => {
                assert_eq!(frame["event"]["seq"], expected);
                expected += 1;
            }
        }
    }
    assert!(dropped > 0);
    assert!(procfs::peak_kib(sup.pid()) < 16 * 1024);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn logs_are_followed_without_gap_or_repetition() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    for lines in [0, 3, 100_000] {
        caller.get("logs", json!({"lines": lines}));
        let got: Vec<_> =
            frames_until_end(&mut caller).iter().map(|f| f["line"].as_str().unwrap().to_owned()).collect();
        let all = sup.log.lines();
        assert_eq!(got, all[all.len().saturating_sub(lines)..]);
    }
    let mut follower = Caller::of(&lab);
    follower.get("logs", json!({"lines": 2, "follow": true}));
    caller.get("restart", json!({}));
    let from = sup.log.lines().len();
    stop_and_keep(sup, &mut caller);
    let mut got = Vec::new();
    while let Some(frame) = follower.receive() {
        got.push(frame["line"].as_str().unwrap().to_owned());
    }
    let all = support::log::Log::of(&lab.state_dir()).lines();
    assert!(got.len() > 2 && from > 0);
    assert_eq!(got, all[all.len() - got.len()..]);
    assert!(got.last().unwrap().contains("shutdown"));
}

fn stop_and_keep(sup: Running, caller: &mut Caller) {
    caller.get("stop", json!({}));
    sup.end();
}

#[test]
fn metrics_are_what_prometheus_expects() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    caller.refusal("resume", json!({}));
    let text = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    for line in [
        "agentsup_exits_total{class=\"clean\"} 0",
        "agentsup_control_calls_total{method=\"resume\",result=\"error\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match promtool {
        Ok(mut child) => {
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "promtool: {error}");
            eprintln!("SKIPPED: no promtool on this machine");
        }
    }
    stop(sup, &mut caller).assert_code(143);
}
