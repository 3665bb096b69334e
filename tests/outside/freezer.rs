//! A pause freezes the tree in a cgroup of its own where it may, and by signals where not.

use std::io::Write;

use crate::support;
use crate::support::{Caller, FAKE, LIMIT, Lab, Launch, eventually, log, place, procfs, sys};
use serde_json::json;

/// Whether cgroups can be made below our own. Told aloud where not.
fn may_freeze() -> bool {
    let probe = procfs::cgroup(std::process::id() as i32)
        .map(|dir| format!("{dir}/agentsup-probe-{:?}", std::thread::current().id()));
    let made = probe.is_some_and(|dir| {
        let made =
            std::fs::create_dir(&dir).is_ok() && support::exists(format!("{dir}/cgroup.freeze").as_ref());
        let _ = std::fs::remove_dir(dir);
        made
    });
    if !made {
        // Past the test harness, which would keep it for itself.
        let _ = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/2").and_then(|mut e| {
            writeln!(e, "\n*** FREEZER CASES SKIPPED: no cgroup v2 may be made here ***\n")
        });
    }
    made
}

fn how(sup: &support::Running) -> String {
    let told = sup.wait_for("user_action=pause");
    log::field(&told, "how").expect("how it was done").to_owned()
}

/// Whether the cgroup that this supervisor made is there.
fn is_left(supervisor: i32) -> bool {
    let own = procfs::cgroup(std::process::id() as i32).expect("a cgroup");
    support::exists(format!("{own}/agentsup-{}-{supervisor}", support::SESSION).as_ref())
}

/// Forks as fast as it can, and never waits for anybody.
const FORKS: &str = "trap '' CHLD; echo READY; while :; do sleep 0.01 & done";

#[test]
fn a_tree_that_forks_meanwhile_is_frozen_whole_and_goes_on_where_it_was() {
    if !may_freeze() {
        return;
    }
    let lab = Lab::new();
    let sup = Launch::run(&lab, ["sh", "-c", FORKS]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    let all = || procfs::descendants(sup.pid());
    caller.get("pause", json!({}));
    assert_eq!(how(&sup), "freezer");
    eventually("all stand still", || all().iter().all(|p| p.state == 'Z' || p.stands()));
    assert!(all().iter().all(|p| p.state != 'T'), "nobody was stopped by a signal");
    let why = caller.get("state", json!({"why": true}))["why"].to_string();
    assert!(why.contains("cgroup freezer"), "{why}");
    caller.get("resume", json!({}));
    eventually("all go on", || all().iter().all(|p| !p.stands()));
    assert!(!is_left(sup.pid()), "its cgroup is gone");
    caller.get("pause", json!({}));
    caller.get("stop", json!({}));
    let pid = sup.pid();
    sup.end().assert_code(143);
    assert!(!is_left(pid), "its cgroup is gone");
}

#[test]
fn who_was_stopped_before_a_pause_is_stopped_after_it() {
    if !may_freeze() {
        return;
    }
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "tree", &lab.text("pids")]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let all = || procfs::descendants(sup.pid());
    sup.wait_for_output("READY");
    let stopped = all().last().expect("one of five").pid;
    sys::kill(stopped, libc::SIGSTOP);
    let stands = |pid| procfs::process(pid).is_some_and(|p| p.state == 'T');
    eventually("one is stopped", || stands(stopped));
    caller.get("pause", json!({}));
    eventually("all stand still", || all().iter().all(|p| p.stands()));
    caller.get("resume", json!({}));
    eventually("the others go on", || all().iter().all(|p| p.pid == stopped || !p.stands()));
    assert!(stands(stopped));
    caller.get("stop", json!({}));
    sup.end().assert_code(143);
}

#[test]
fn what_a_killed_supervisor_left_frozen_is_ended_by_the_next_start() {
    if !may_freeze() {
        return;
    }
    let lab = Lab::new();
    let launch = || Launch::run(&lab, [FAKE, "tree", &lab.text("pids")]);
    let sup = launch().start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    sup.wait_for_output("READY");
    let tree: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
    caller.get("pause", json!({}));
    let pid = sup.pid();
    sup.signal(libc::SIGKILL);
    sup.end();
    assert!(is_left(pid));
    let next = launch().start();
    next.log.wait_for_nth(2, "claude_spawn");
    assert!(tree.iter().all(|&pid| !procfs::alive(pid)), "all of them have ended");
    let ended = log::field(&next.wait_for("leftovers_ended"), "signal").map(str::to_owned);
    assert_eq!(ended.as_deref(), Some("TERM"), "they could act on it");
    assert!(!is_left(pid), "its cgroup is gone");
    next.signal(libc::SIGTERM);
    next.end_within(LIMIT).assert_code(143);
}

#[test]
fn without_a_cgroup_to_write_in_signals_do_it() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let hidden = place::own_mounts("mount -t tmpfs none /sys/fs/cgroup; exec \"$@\"");
    let sup = Launch::run(&lab, [FAKE, "tree", &lab.text("pids")]).wrapped_in(hidden).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let all = || procfs::descendants(sup.pid());
    sup.wait_for_output("READY");
    caller.get("pause", json!({}));
    assert_eq!(how(&sup), "signal");
    eventually("all are stopped", || all().iter().all(|p| p.state == 'T'));
    caller.get("resume", json!({}));
    eventually("all go on", || all().iter().all(|p| p.state != 'T'));
    caller.get("stop", json!({}));
    sup.end().assert_code(143);
}
