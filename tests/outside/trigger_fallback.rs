//! What becomes of a trigger that nobody acknowledged: a call carries it, or the agent begins anew.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::bridge::{at_terminal, launch, prompts, stop, until_draft, up, verb};
use crate::support::caller::pid_of;
use crate::support::{Caller, FAKE, Lab, Launch, eventually, sys};
use serde_json::{Value, json};

const QUICK: &str = "[policy]\ntransient_wait = \"50ms\"\n[trigger]\nquiet = \"1s\"\nmax_defer = \"1s\"\n\
                     ack_timeout = \"300ms\"\nretry_waits = []\nrate_per_minute = 1000\n";

/// An agent that goes by claude's name and is called as claude is; without hooks it acknowledges nothing.
fn claude(lab: &Lab, key: &str) -> Launch {
    let program = lab.path("claude");
    symlink(FAKE, &program).expect("a name for the fake");
    let home = lab.text("");
    launch(lab, &format!("{QUICK}{key}\n"), &[program.to_str().expect("UTF-8")]).with([
        "--env",
        &format!("FAKE_CLAUDE={home}"),
        "--env",
        &format!("HOME={home}"),
    ])
}

fn lines(lab: &Lab, file: &str) -> Vec<Value> {
    let text = lab.whole_lines(file);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The arguments of each start that is not a call's.
fn starts(lab: &Lab) -> Vec<Vec<String>> {
    let args = lines(lab, "starts").into_iter().map(|start| start["args"].clone());
    let args = args.map(|args| serde_json::from_value::<Vec<String>>(args).expect("words"));
    args.filter(|args| args.iter().all(|word| word != "-p")).collect()
}

fn follows(args: &[String], option: &str) -> Option<String> {
    args.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1].clone())
}

fn trigger(lab: &Lab, id: &str) -> (i32, Value, String) {
    let (code, out, err) = verb(lab, &["trigger", "--json", "--thread", "ci", "--id", id, "fix it"]);
    (code, serde_json::from_str(&out).unwrap_or(Value::Null), err)
}

fn pid_now(caller: &mut Caller) -> i32 {
    pid_of(&caller.get("pid", json!({})))
}

fn conversation(caller: &mut Caller) -> String {
    caller.state()["conversation"].as_str().expect("one").to_owned()
}

#[test]
fn a_call_brings_it_into_the_conversation_and_the_agent_returns_to_it() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, "").with(["--no-hooks"]), &lab);
    let (pid, id) = (pid_now(&mut caller), conversation(&mut caller));
    let (code, told, err) = trigger(&lab, "a-1");
    assert_eq!((code, &told["state"], &told["by"]), (0, &json!("delivered"), &json!("resume")), "{err}");
    assert_eq!((&told["forked"], &told["attempts"]), (&json!(false), &json!(2)));
    assert_eq!(lines(&lab, "calls"), [json!("[BRIDGE_TRIGGER id=a-1 thread=ci]\nfix it\n[/BRIDGE_TRIGGER]")]);
    caller.wait_for("ready");
    eventually("the agent is back", || starts(&lab).len() == 2);
    assert_ne!(pid_now(&mut caller), pid);
    assert_eq!(conversation(&mut caller), id);
    let call = lines(&lab, "starts")[1]["args"].clone();
    assert_eq!(call, json!(["-p", "--resume", id]));
    assert_eq!(follows(&starts(&lab)[1], "--resume"), Some(id));
    let state = caller.state();
    assert_eq!((&state["health"], &state["exits"][0]["class"]), (&json!("healthy"), &json!("asked")));
    let log = lab.read("state/logs/t.log");
    for event in ["fallback_resume_started", "fallback_resume_succeeded"] {
        let line = log.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {log}"));
        assert!(line.contains("trigger_id=a-1"), "{line}");
    }
    assert_eq!(prompts(&lab).len(), 1, "what was typed is typed once");
    // The next one finds the agent where it was.
    let (code, told, _) = trigger(&lab, "a-2");
    assert_eq!((code, &told["by"]), (0, &json!("resume")));
    stop(sup, &mut caller);
}

#[test]
fn what_the_call_itself_says_counts_before_it_ends_and_a_stop_ends_it() {
    let lab = Lab::new();
    lab.write("hangs", "");
    let (sup, mut caller) = up(claude(&lab, "").with(["--no-hooks"]), &lab);
    caller.get("trigger", json!({"thread": "ci", "trigger_id": "a-1", "text": "fix it", "wait": false}));
    eventually("the call is made", || !lines(&lab, "calls").is_empty());
    let status = caller.get("trigger.status", json!({"trigger_id": "a-1"}));
    assert_eq!((&status["state"], &caller.state()["phase"]), (&json!("fallback"), &json!("restarting")));
    // As the agent of the call would.
    caller.get("ack", json!({"trigger_id": "a-1"}));
    let status = caller.get("trigger.status", json!({"trigger_id": "a-1"}));
    assert_eq!((&status["state"], &status["by"]), (&json!("delivered"), &json!("resume")));
    assert_eq!(caller.state()["phase"], json!("restarting"), "one writer at a time");
    let call = lines(&lab, "starts")[1]["pid"].as_i64().expect("a pid");
    stop(sup, &mut caller);
    assert!(!Path::new(&format!("/proc/{call}")).exists(), "nothing is left of it");
}

#[test]
fn a_stop_ends_the_call_and_makes_no_other() {
    let lab = Lab::new();
    lab.write("hangs", "");
    let (sup, mut caller) = up(claude(&lab, "").with(["--no-hooks"]), &lab);
    caller.get("trigger", json!({"thread": "ci", "trigger_id": "a-1", "text": "fix it", "wait": false}));
    eventually("the call is made", || !lines(&lab, "calls").is_empty());
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    assert_eq!(lines(&lab, "starts").len(), 2, "{ended}");
    assert!(ended.log.contains("trigger_failed trigger_id=a-1 thread=ci error=NOT_RUNNING"), "{ended}");
}

#[test]
fn a_call_that_fails_is_tried_again_and_told_with_its_last_words() {
    let lab = Lab::new();
    lab.write("fails", "");
    let (sup, mut caller) = up(claude(&lab, "").with(["--no-hooks"]), &lab);
    let (code, _, err) = trigger(&lab, "a-1");
    assert!(code == 70 && err.contains("RESUME_FAILED"), "{code} {err}");
    caller.wait_for("ready");
    let all = lines(&lab, "starts");
    let calls = all.iter().filter(|start| start["args"][0] == json!("-p")).count();
    assert_eq!(calls, 2);
    assert!(lab.read("state/logs/t.log").contains("error=\"API Error: 529 overloaded\""));
    stop(sup, &mut caller);
}

#[test]
fn while_a_human_types_a_fork_carries_it_and_the_draft_stays() {
    let lab = Lab::new();
    let (mut terminal, mut caller) = at_terminal(&claude(&lab, ""), &lab);
    let pid = pid_now(&mut caller);
    terminal.type_in("my own words");
    until_draft(&mut caller);
    let (code, told, err) = trigger(&lab, "a-1");
    assert_eq!((code, &told["by"], &told["forked"]), (0, &json!("fork"), &json!(true)), "{err}");
    let call = lines(&lab, "starts")[1]["args"].clone();
    assert!(call.as_array().expect("words").contains(&json!("--fork-session")), "{call}");
    assert_eq!(pid_now(&mut caller), pid);
    eventually("the call notes it behind its hook", || lines(&lab, "calls").len() == 1);
    assert!(caller.state()["operator"]["draft"].as_bool().expect("a word"));
    terminal.type_in("\r");
    eventually("the draft is sent", || prompts(&lab) == ["my own words"]);
    caller.get("stop", json!({"graceful": false}));
}

#[test]
fn after_crashes_and_after_a_long_silence_the_agent_begins_anew() {
    for key in ["crash_shortcut = [1, \"15m\"]", "stale_after = \"1ms\""] {
        let lab = Lab::new();
        let (sup, mut caller) = up(claude(&lab, key).with(["--no-hooks"]), &lab);
        let id = conversation(&mut caller);
        if key.starts_with("crash") {
            sys::kill(pid_now(&mut caller), libc::SIGKILL);
            eventually("it is back", || starts(&lab).len() == 2);
            caller.wait_for("ready");
        } else {
            eventually("a second passes", || caller.state()["uptime_ms"].as_u64() > Some(1100));
        }
        let (code, told, err) = trigger(&lab, "a-1");
        assert_eq!((code, &told["by"]), (0, &json!("spawn")), "{err}");
        assert_ne!(conversation(&mut caller), id);
        let first = lines(&lab, "first")[0].as_str().expect("text").to_owned();
        assert!(first.ends_with("[BRIDGE_TRIGGER id=a-1 thread=ci]\nfix it\n[/BRIDGE_TRIGGER]"), "{first}");
        assert!(lines(&lab, "calls").is_empty());
        assert!(lab.read("state/logs/t.log").contains("fallback_spawn_started trigger_id=a-1"));
        stop(sup, &mut caller);
    }
}
