//! Calls that carry a trigger and go wrong: they cannot be made, never end, or are cut short.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::bridge::{launch, up};
use crate::support::caller::pid_of;
use crate::support::procfs;
use crate::support::{Caller, FAKE, Lab, Launch, Running, eventually, sys};
use serde_json::{Value, json};

const QUICK: &str = "[policy]\ntransient_wait = \"50ms\"\n[trigger]\nquiet = \"1s\"\nmax_defer = \"1s\"\n\
                     ack_timeout = \"300ms\"\nretry_waits = []\nrate_per_minute = 1000\n";

/// A claude that acknowledges nothing. A call is written down and does what `call` says; when the agent
/// has ended, `behind` is done.
fn claude(lab: &Lab, call: &str, behind: &str) -> Launch {
    let (program, home) = (lab.path("claude"), lab.text(""));
    lab.dir("bin");
    let _ = symlink(FAKE, lab.path("bin/claude"));
    let script = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' -p '*) cat >/dev/null; echo $$ >>'{home}/calls'; {call}; exit;; esac\n\
         trap : TERM\n\
         '{home}/bin/claude' \"$@\"\n\
         {behind}\n"
    );
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it can be run");
    launch(lab, QUICK, &[program.to_str().expect("UTF-8")]).with([
        "--no-hooks",
        "--env",
        &format!("FAKE_CLAUDE={home}"),
        "--env",
        &format!("HOME={home}"),
    ])
}

fn ask(caller: &mut Caller, id: &str) {
    caller.get("trigger", json!({"thread": "ci", "trigger_id": id, "text": "fix it", "wait": false}));
}

fn status(caller: &mut Caller, id: &str) -> (Value, Value) {
    let status = caller.get("trigger.status", json!({"trigger_id": id}));
    (status["state"].clone(), status["code"].clone())
}

/// The pids of all calls so far.
fn calls(lab: &Lab) -> Vec<i32> {
    let text = std::fs::read_to_string(lab.path("calls")).unwrap_or_default();
    text.lines().map(|pid| pid.parse().expect("a pid")).collect()
}

fn until_called(lab: &Lab) -> i32 {
    eventually("the call is made", || !calls(lab).is_empty());
    calls(lab)[0]
}

fn is_gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn stop(sup: Running, caller: &mut Caller) {
    caller.get("stop", json!({"graceful": false}));
    sup.end();
}

#[test]
fn an_agent_comes_back_from_a_call_that_could_not_be_made_though_nobody_asks() {
    let lab = Lab::new();
    // Gone in the very moment in which the agent makes room.
    let (sup, mut caller) = up(claude(&lab, "exit 0", "mv \"$0\" \"$HOME/away\""), &lab);
    ask(&mut caller, "a-1");
    drop(caller);
    sup.wait_for("fallback_resume_failed");
    std::fs::rename(lab.path("away"), lab.path("claude")).expect("it is there again");
    sup.log.wait_for_nth(2, "claude_spawn");
    let mut caller = Caller::of(&lab);
    assert_eq!(status(&mut caller, "a-1"), (json!("failed"), json!("RESUME_FAILED")));
    stop(sup, &mut caller);
}

#[test]
fn a_stop_while_a_call_runs_begins_no_other() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, "exec sleep 1000", ":"), &lab);
    ask(&mut caller, "a-1");
    let call = until_called(&lab);
    caller.get("stop", json!({}));
    sup.end();
    assert!(is_gone(call));
    assert_eq!(calls(&lab).len(), 1);
    // It may have been read.
    let (sup, mut caller) = up(claude(&lab, "exit 0", ":"), &lab);
    assert_eq!(status(&mut caller, "a-1"), (json!("failed"), json!("NOT_RUNNING")));
    stop(sup, &mut caller);
}

#[test]
fn a_killed_supervisors_call_is_gone_before_the_next_agent_runs() {
    let lab = Lab::new();
    // KILL takes what we started with us; what that started lives on.
    let call = format!("(trap '' TERM; sleep 1000) & echo $! >>'{}'; wait", lab.text("calls"));
    let (sup, mut caller) = up(claude(&lab, &call, ":"), &lab);
    ask(&mut caller, "a-1");
    eventually("the call is at work", || calls(&lab).len() == 2);
    let below = calls(&lab)[1];
    sys::kill(sup.pid(), libc::SIGKILL);
    sup.end();
    assert!(procfs::alive(below));
    let sup = claude(&lab, ":", ":").with(["--grace", "1s"]).start();
    sup.wait_for_output("READY");
    assert!(!procfs::alive(below), "one writer per conversation");
    let mut caller = Caller::of(&lab);
    assert_eq!(status(&mut caller, "a-1"), (json!("failed"), json!("NOT_RUNNING")));
    assert_eq!(calls(&lab).len(), 2);
    stop(sup, &mut caller);
}

#[test]
fn an_agent_whose_program_is_gone_is_not_ended_for_a_trigger() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, ":", ":"), &lab);
    let pid = pid_of(&caller.get("pid", json!({})));
    std::fs::remove_file(lab.path("claude")).expect("it was there");
    let refusal = caller.refusal("trigger", json!({"thread": "ci", "trigger_id": "a-1", "text": "fix it"}));
    assert_eq!(refusal, "ACK_TIMEOUT");
    assert_eq!(pid_of(&caller.get("pid", json!({}))), pid);
    stop(sup, &mut caller);
}

#[test]
fn a_restart_does_not_wait_for_a_call_that_hangs() {
    let lab = Lab::new();
    let call = format!("setsid sleep 1000 & echo $! >>'{}'; wait", lab.text("calls"));
    let (sup, mut caller) = up(claude(&lab, &call, ":"), &lab);
    let first = caller.state()["conversation"].clone();
    ask(&mut caller, "a-1");
    eventually("the call is at work", || calls(&lab).len() == 2);
    caller.get("restart", json!({"mode": "fresh"}));
    let [call, below] = calls(&lab)[..] else { panic!("two were noted") };
    assert!(!procfs::alive(call), "one writer per conversation");
    // It was killed with the call, and is nobody's child that could be waited for.
    eventually("what it started is gone", || !procfs::alive(below));
    assert_eq!(status(&mut caller, "a-1"), (json!("failed"), json!("RESUME_FAILED")));
    caller.wait_for("ready");
    assert_ne!(caller.state()["conversation"], first);
    stop(sup, &mut caller);
}

#[test]
fn whatever_lies_in_the_place_of_its_output_the_call_is_made() {
    for odd in ["mkfifo", "mkdir", "ln -s /dev/full"] {
        let lab = Lab::new();
        let (sup, mut caller) = up(claude(&lab, "echo done", ":"), &lab);
        let make = format!("{odd} '{}'", lab.text("state/supervisor/t.call"));
        assert!(Command::new("sh").args(["-c", &make]).status().expect("sh").success());
        let told = caller.get("trigger", json!({"thread": "ci", "trigger_id": "a-1", "text": "fix it"}));
        assert_eq!((&told["state"], &told["by"]), (&json!("delivered"), &json!("resume")), "{odd}");
        stop(sup, &mut caller);
    }
}
