//! What a machine, a container or a filter may withhold: system calls, /proc, processes, descriptors.

use std::ffi::OsString;
use std::process::Command;

use crate::support;
use crate::support::caller::{pid_of, stop};
use crate::support::{
    AGENTSUP, Caller, FAKE, Lab, Launch, Place, Running, eventually, log, place, procfs, sys,
};
use serde_json::json;

const NEWER_CALLS: &str = "pidfd_open,pidfd_send_signal,close_range";

fn filter(errno: &str) -> Vec<OsString> {
    [FAKE, "denying", errno, NEWER_CALLS].map(OsString::from).to_vec()
}

fn ready(lab: &Lab, sup: &Running) -> Caller {
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    caller
}

#[test]
fn a_filter_that_denies_newer_system_calls_changes_nothing() {
    for errno in ["ENOSYS", "EPERM"] {
        for place in Place::possible(&[Place::Plain, Place::Pid1]) {
            let lab = Lab::new();
            let sup = Launch::run(&lab, [FAKE, "tree", &lab.text("pids")])
                .at(place)
                .wrapped_in(filter(errno))
                .start();
            let mut caller = ready(&lab, &sup);
            let first: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
            assert_eq!(first.len(), 5, "{errno} {place:?}: {}", sup.so_far());
            assert!(pid_of(&caller.get("restart", json!({}))) > 0);
            eventually("the second tree is complete", || {
                let below = procfs::descendants(sup.pid());
                below.iter().filter(|p| !first.contains(&p.pid)).count() == 5
            });
            let all: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
            stop(sup, &mut caller).assert_code(143);
            assert!(all.iter().all(|pid| !procfs::alive(*pid)), "{errno} {place:?}: nothing is left");
        }
    }
}

#[test]
fn under_such_a_filter_what_escaped_a_killed_supervisor_is_found_and_waited_for() {
    for errno in ["ENOSYS", "EPERM"] {
        let lab = Lab::new();
        let agent = [FAKE, "leftover", &lab.text("leftover"), "300"];
        let sup = Launch::run(&lab, agent).wrapped_in(filter(errno)).start();
        sup.wait_for_output("READY ");
        sup.signal(libc::SIGKILL);
        sup.end();
        let again = Launch::run(&lab, [FAKE, "exit", "4"]).with(["--restart", "no"]);
        let ended = again.wrapped_in(filter(errno)).end();
        ended.assert_code(4);
        assert_eq!(lab.read("leftover"), "TERM\nDONE\n", "{errno}: it had its time: {ended}");
        let (gone, spawn) = (ended.log.find("leftovers_ended"), ended.log.rfind("claude_spawn"));
        assert!(gone.is_some() && gone < spawn, "{errno}: before the next agent: {ended}");
    }
}

#[test]
fn under_such_a_filter_what_entered_from_outside_has_its_time_to_end() {
    for place in Place::possible(&[Place::Pid1]) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "wait"]).at(place).wrapped_in(filter("EPERM")).start();
        let mut caller = ready(&lab, &sup);
        let tidies = format!(
            "trap 'sleep 0.3; echo DONE >{}; exit' TERM; echo READY; while :; do sleep 60 & wait $!; done",
            lab.text("guest")
        );
        let mut guest = place::enter(sup.pid(), &["sh", "-c", &tidies]).spawn().expect("nsenter");
        let out = support::stream::Stream::of(guest.stdout.take().expect("piped"));
        assert!(out.position_after(0, "READY", support::LIMIT).is_some());
        stop(sup, &mut caller).assert_code(143);
        assert_eq!(lab.read("guest"), "DONE\n");
        guest.wait().expect("it ended with the namespace");
    }
}

#[test]
fn under_such_a_filter_an_agent_finds_no_descriptors_but_its_own() {
    let lab = Lab::new();
    let open = "exec 7</dev/null 200</dev/null; exec \"$@\"";
    let wrapper: Vec<OsString> =
        ["bash", "-c", open, "bash"].into_iter().map(OsString::from).chain(filter("ENOSYS")).collect();
    let listing = "for fd in /proc/self/fd/*; do [ -e $fd ] && echo ${fd##*/}; done; exit 0";
    let ended = Launch::run(&lab, ["sh", "-c", listing]).wrapped_in(wrapper).end();
    ended.assert_code(0);
    let seen = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["0", "1", "2"], "{ended}");
}

/// The same two places with nothing at /proc.
fn without_proc() -> Vec<Place> {
    Place::possible(&[Place::PlainWithoutProc, Place::Pid1WithoutProc])
}

#[test]
fn without_proc_an_agent_is_supervised_all_the_same_and_what_cannot_be_done_is_said() {
    for place in without_proc() {
        let lab = Lab::new();
        let config = lab.write("quick.toml", "[policy]\ntransient_wait = \"10ms\"\n");
        let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).at(place).start();
        sup.wait_for_output("READY");
        sup.wait_for("proc_unusable");
        sup.wait_for_stderr("no usable /proc");
        let mut caller = Caller::of(&lab);
        sys::kill(procfs::children(sup.pid())[0], libc::SIGKILL);
        sup.log.wait_for_nth(2, "claude_spawn");
        eventually("it runs again", || caller.state()["phase"] == "running");
        let state = caller.get("state", json!({"deep": true}));
        assert_eq!((&state["restart_count"], &state["zombies"]), (&json!(1), &json!(null)), "{state}");
        match place {
            // We are of another pid namespace.
            Place::Pid1WithoutProc => {
                assert!(pid_of(&caller.get("restart", json!({}))) > 0);
                caller.get("pause", json!({}));
                caller.get("resume", json!({}));
                stop(sup, &mut caller).assert_code(143);
            }
            _ => {
                let refused = caller.ask("stop", json!({}));
                assert_eq!(refused["error"]["code"], "FORBIDDEN", "{refused}");
                assert!(refused["error"]["message"].to_string().contains("/proc"), "{refused}");
                sup.signal(libc::SIGTERM);
                let ended = sup.end();
                ended.assert_code(143);
                assert!(!ended.stderr.contains("left running"), "{ended}");
            }
        }
    }
}

#[test]
fn without_proc_a_tree_is_ended_as_far_as_it_can_be_and_the_rest_is_told() {
    for place in without_proc() {
        let lab = Lab::new();
        let words = [FAKE, "tree", &lab.text("pids"), "--deaf"];
        let sup = Launch::run(&lab, words).with(["--grace", "400ms"]).at(place).start();
        sup.wait_for_output("READY");
        let all: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
        assert_eq!(all.len(), 5);
        sup.signal(libc::SIGTERM);
        let ended = sup.end();
        ended.assert_code(137);
        let left: Vec<i32> = all.into_iter().filter(|pid| procfs::alive(*pid)).collect();
        left.iter().for_each(|pid| sys::kill(*pid, libc::SIGKILL));
        let told = ended.stderr.contains("left running") && ended.log.contains("kill_survived");
        match place {
            Place::Pid1WithoutProc => assert!(left.is_empty() && !told, "{left:?}: {ended}"),
            _ => assert!(!left.is_empty() && told, "{left:?}: {ended}"),
        }
    }
}

/// `who` stands before the command: a process is its owner's to limit.
fn limit(who: &[&str], pid: i32, what: &str) {
    let pid = format!("--pid={pid}");
    let words: Vec<&str> = who.iter().copied().chain(["prlimit", &pid, what]).collect();
    let done = Command::new(words[0]).args(&words[1..]).status();
    assert!(done.expect("util-linux").success(), "{words:?}");
}

/// Tries again soon, and for long.
const PATIENT: &str = "[policy]\ntransient_wait = \"10ms\"\nflapping_wait = \"100ms\"\nhalt_after = 1000\n";

#[test]
fn without_descriptors_a_spawn_fails_by_name_and_a_later_one_succeeds() {
    let lab = Lab::new();
    let config = lab.write("c.toml", PATIENT);
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).start();
    let mut caller = ready(&lab, &sup);
    let pid = sup.pid();
    // Fewer than it waits for at once, which `poll` refuses.
    limit(&[], pid, "--nofile=3:");
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    let failed = sup.wait_for("spawn_failed");
    assert_eq!(log::field(&failed, "step"), Some("pty"), "{failed}");
    assert!(failed.contains("os error 24") && failed.contains("code=125"), "{failed}");
    sup.log.wait_for_nth(3, "restart_scheduled");
    limit(&[], pid, "--nofile=1024:");
    sup.log.wait_for_nth(2, "claude_spawn");
    caller.wait_for("ready");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn without_processes_a_spawn_fails_by_name_and_a_later_one_succeeds() {
    let lab = Lab::new();
    let config = lab.write("c.toml", PATIENT);
    // The limit holds for nobody who is root: then somebody without any other process.
    let uid = 54321;
    let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
    let somebody = ["setpriv", &user, &group, "--clear-groups"];
    let who: &[&str] = if nix::unistd::geteuid().is_root() { &somebody } else { &[] };
    if let [program, words @ ..] = who {
        let probe = Command::new(program).args(words).args([AGENTSUP, "--version"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: uid {uid} may not run {AGENTSUP}");
            return;
        }
        std::os::unix::fs::chown(lab.dir("state"), Some(uid), Some(uid)).expect("our directory");
    }
    let launch = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]);
    let sup = launch.wrapped_in(who.iter().map(OsString::from).collect()).start();
    let mut caller = ready(&lab, &sup);
    let pid = sup.pid();
    limit(who, pid, "--nproc=1:");
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    let failed = sup.wait_for("spawn_failed");
    assert_eq!(log::field(&failed, "step"), Some("fork"), "{failed}");
    assert!(failed.contains("code=125"), "{failed}");
    assert_eq!(caller.state()["phase"], "backoff", "and callers are answered");
    limit(who, pid, "--nproc=1000:");
    sup.log.wait_for_nth(2, "claude_spawn");
    caller.wait_for("ready");
    stop(sup, &mut caller).assert_code(143);
}
