//! `SESSION.triggers`, with odd things in its place.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::bridge::{PATIENT, launch, stop, up};
use crate::support::{FAKE, Lab, eventually, sys};
use serde_json::json;

#[test]
fn what_waits_outlives_a_kill_whatever_lay_in_the_place_of_the_file() {
    for odd in ["mkfifo", "ln -s /dev/null", "mkfifo x; ln -s x", "head -c 99999 /dev/urandom >"] {
        let lab = Lab::new();
        lab.dir("state");
        lab.dir("state/supervisor");
        let make = format!("{odd} '{}'", lab.text("state/supervisor/t.triggers"));
        let mut shell = Command::new("sh");
        assert!(shell.args(["-c", &make]).current_dir(lab.path("")).status().expect("sh").success());
        // Never ready: what comes has to wait.
        let (sup, mut caller) = up(launch(&lab, PATIENT, &[FAKE, "wait"]).with(["--agent", "claude"]), &lab);
        caller.get("trigger", json!({"thread": "t", "trigger_id": "a", "text": "fix it", "wait": false}));
        sys::kill(sup.pid(), libc::SIGKILL);
        sup.end();
        let (sup, mut caller) = up(support::bridge::claude(&lab, PATIENT), &lab);
        eventually(odd, || caller.get("trigger.status", json!({"trigger_id": "a"}))["state"] == "delivered");
        stop(sup, &mut caller);
    }
}

#[test]
fn a_file_of_many_that_have_ended_is_read_in_no_time() {
    let lab = Lab::new();
    lab.dir("state");
    lab.dir("state/supervisor");
    let line = |n: u32| {
        json!({"ended": {"id": format!("a-{n}"), "thread": "t", "reason": null, "force": false, "subject": "x",
               "gist": n, "how": "ack", "attempts": 1, "late": false, "at": 1, "ended": 2}})
    };
    // As long as a file may become before it is written anew, and longer.
    let text: String = (0..100_000).map(|n| format!("{}\n", line(n))).collect();
    lab.write("state/supervisor/t.triggers", &text);
    let began = Instant::now();
    let (sup, mut caller) = up(launch(&lab, PATIENT, &[FAKE, "wait"]), &lab);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(caller.get("trigger.status", json!({"trigger_id": "a-99999"}))["state"], "delivered");
    stop(sup, &mut caller);
}
