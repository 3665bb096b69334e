//! Files that go away under a live supervisor: full, read-only, removed, replaced. (Full disks are in
//! logs.rs and record.rs.)

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::caller::{self, socket, stop, waiting};
use crate::support::{
    Caller, FAKE, Lab, Launch, Place, SESSION, eventually, exists, log, place, procfs, sys,
};
use serde_json::json;

/// Something that wakes agentsup and harms nobody.
fn nudge(sup: &support::Running) {
    sup.signal(libc::SIGCONT);
}

fn drift(caller: &mut Caller) -> u64 {
    let text = caller.get("metrics", json!({}))["text"].as_str().expect("text").to_owned();
    let line = text.lines().find(|line| line.starts_with("agentsup_registry_drift_total "));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no figure in {text}"))
}

#[test]
fn a_log_that_is_removed_is_begun_anew_by_the_next_event() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    fs::remove_file(&sup.log.file).expect("it is there");
    caller.get("inject", json!({"bytes": ""}));
    assert_eq!(sup.log.events("inject").len(), 1, "{}", sup.so_far());
    assert_eq!(caller.get("stats", json!({}))["log_lost"], 0);

    // With its directory gone, what comes before the next look is lost, counted and told.
    fs::remove_dir_all(lab.path("state/logs")).expect("it is there");
    caller.get("inject", json!({"bytes": ""}));
    nudge(&sup);
    let told = sup.wait_for("runtime_restored");
    assert_eq!(log::field(&told, "names"), Some("logs"), "{told}");
    assert_eq!(log::number(&sup.wait_for("log_lost"), "lost"), 2, "inject and signal_received");
    assert_eq!(caller.get("stats", json!({}))["log_lost"], 2);
    let mode = |path| fs::metadata(lab.path(path)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("state/logs"), mode("state/logs/t.log")), (0o700, 0o600));
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_socket_that_is_removed_is_put_back_and_who_was_connected_stays() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    fs::remove_file(socket(&lab)).expect("it is there");
    assert_eq!(caller.state()["phase"], "running", "who is in already is served");
    nudge(&sup);
    let told = sup.wait_for("runtime_restored");
    assert_eq!(log::field(&told, "names"), Some("socket"), "{told}");
    sup.wait_for_stderr("put back: socket");
    let mode = fs::metadata(socket(&lab)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(Caller::of(&lab).state()["pid"], caller.state()["pid"]);
    assert_eq!(drift(&mut caller), 1);
    // Nothing is amiss: nothing is done.
    nudge(&sup);
    sup.log.wait_for_nth(2, "signal_received");
    caller.state();
    assert_eq!(sup.log.events("runtime_restored").len(), 1);
    stop(sup, &mut caller).assert_code(143);
    assert!(!exists(&socket(&lab)), "an orderly end removes the new one too");
}

#[test]
fn an_agent_that_removed_the_socket_is_heard_again_when_it_writes() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "echo-raw"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    fs::remove_file(socket(&lab)).expect("it is there");
    eventually("its output wakes agentsup, who looks", || {
        caller.get("inject", json!({"bytes": "aGVsbG8="}));
        exists(&socket(&lab))
    });
    let mut again = Caller::of(&lab);
    stop(sup, &mut again).assert_code(143);
}

#[test]
fn a_state_dir_that_is_removed_or_moved_away_is_made_again_with_all_that_counts() {
    for fate in ["removed", "moved", "emptied"] {
        let lab = Lab::new();
        let (sup, mut caller) = waiting(&lab);
        let state = lab.state_dir();
        match fate {
            "removed" => fs::remove_dir_all(&state),
            "moved" => fs::rename(&state, lab.path("aside")),
            _ => fs::remove_dir_all(&state).and_then(|()| fs::create_dir(&state)),
        }
        .expect("ours");
        // The event that comes before the look has nowhere to go.
        nudge(&sup);
        let told = sup.wait_for("runtime_restored");
        assert_eq!(log::field(&told, "names"), Some("lock,socket,logs,claims"), "{fate}: {told}");
        let second = Launch::run(&lab, [FAKE, "exit", "0"]).end();
        second.assert_code(78);
        assert!(second.stderr.contains(&format!("pid={}", sup.pid())), "the session is held: {second}");
        let mut again = Caller::of(&lab);
        assert_eq!(again.state()["phase"], "running");
        let record = fs::read_to_string(state.join("supervisor/t.json")).expect("the record");
        assert!(record.contains("\"running\""), "{fate}: {record}");
        if fate == "moved" {
            let aside = fs::read_to_string(lab.path("aside/logs/t.log")).expect("the old log");
            assert!(aside.contains("claude_spawn"), "what was there stays there");
        }
        assert_eq!(caller.state()["phase"], "running", "who was in stays");
        stop(sup, &mut caller).assert_code(143);
    }
}

#[test]
fn a_session_that_another_has_taken_meanwhile_is_left_to_it() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
    // From where the first one cannot be seen; elsewhere it would be refused.
    let Some(place) = Place::possible(&[Place::Pid1]).into_iter().next() else { return };
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    // At each new phase it looks, and would put back what is gone.
    Caller::of(&lab).wait_for("ready");
    fs::rename(lab.state_dir(), lab.path("aside")).expect("ours");
    let other = Launch::run(&lab, [FAKE, "wait"]).at(place).start();
    other.wait_for_output("READY");
    let mut to_other = Caller::of(&lab);
    to_other.wait_for("ready");
    // The first one's agent ends, and no other may follow.
    sys::kill(procfs::children(sup.pid())[0], libc::SIGKILL);
    sup.wait_for_stderr("cannot be put back: lock,socket");
    sup.wait_for_stderr("cannot start");
    let told = sup.stderr.text();
    assert!(told.contains("already supervised") && told.contains("pid=1 "), "{told}");
    assert!(procfs::children(sup.pid()).is_empty(), "one session, one agent");
    assert_eq!(to_other.state()["restart_count"], 0);
    sup.signal(libc::SIGTERM);
    sup.end();
    // Neither its socket nor its lock nor its record has gone with the first one.
    assert_eq!(Caller::of(&lab).state()["phase"], "running");
    Launch::run(&lab, [FAKE, "exit", "0"]).end().assert_code(78);
    let record = fs::read_to_string(lab.path("state/supervisor/t.json")).expect("the record");
    assert!(record.contains("\"supervisor_pid\": 1,"), "{record}");
    stop(other, &mut to_other).assert_code(143);
}

#[test]
fn a_trap_in_place_of_the_state_dir_is_not_walked_into() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    fs::rename(lab.state_dir(), lab.path("aside")).expect("ours");
    let trap = lab.dir("trap");
    symlink(&trap, lab.state_dir()).expect("a symlink");
    nudge(&sup);
    sup.wait_for_stderr("is a symlink");
    assert_eq!(fs::read_dir(&trap).expect("it is there").count(), 0, "nothing was put there");
    assert_eq!(caller.state()["phase"], "running");
    // What was wrong is mended: it finds its own again.
    fs::remove_file(lab.state_dir()).expect("the symlink");
    fs::rename(lab.path("aside"), lab.state_dir()).expect("ours");
    nudge(&sup);
    assert_eq!(Caller::of(&lab).state()["phase"], "running");
    stop(sup, &mut caller).assert_code(143);
}

/// A command in the mount namespace of `pid`.
fn inside(pid: i32, words: &[&str]) {
    let mut command = Command::new("nsenter");
    if !nix::unistd::geteuid().is_root() {
        command.args(["-U", "--preserve-credentials"]);
    }
    let done = command.args(["--target", &pid.to_string(), "--mount", "--"]).args(words).status();
    assert!(done.expect("nsenter").success(), "{words:?}");
}

#[test]
fn a_state_dir_that_becomes_read_only_stops_nobody_and_the_loss_is_told() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let state = lab.text("state");
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
    let launch = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]);
    let sup = launch.wrapped_in(place::own_mounts("exec \"$@\"")).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let pid = sup.pid();
    inside(pid, &["mount", "--bind", &state, &state]);
    inside(pid, &["mount", "-o", "remount,bind,ro", &state]);
    // From outside it can still be written to: what is removed here cannot be made again there.
    fs::remove_file(Path::new(&state).join(format!("logs/{SESSION}.log"))).expect("the log");
    fs::remove_file(socket(&lab)).expect("the socket");
    sys::kill(procfs::children(pid)[0], libc::SIGKILL);
    let runs = |caller: &mut Caller| {
        let state = caller.state();
        state["restart_count"] == 1 && state["phase"] == "running"
    };
    eventually("the agent is started again", || runs(&mut caller));
    sup.wait_for_stderr("cannot be put back: socket: ");
    assert!(sup.stderr.text().contains("Read-only file system"), "{}", sup.so_far());
    let lost = caller.get("stats", json!({}))["log_lost"].as_u64();
    assert!(lost > Some(0), "what is lost is counted: {lost:?}");

    inside(pid, &["umount", &state]);
    sys::kill(pid, libc::SIGCONT);
    let told = sup.wait_for("log_lost");
    assert!(told.contains("Read-only file system") && log::number(&told, "lost") > 0, "{told}");
    sup.wait_for("runtime_restored");
    let connected = caller::connect(&socket(&lab)).is_ok();
    assert!(connected, "and callers find it again");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_second_start_ends_nobody_whose_files_were_removed() {
    for gone in ["supervisor/t.lock", "supervisor", ""] {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "wait"]).start();
        sup.wait_for_output("READY");
        let agent = procfs::children(sup.pid())[0];
        fs::rename(lab.state_dir().join(gone), lab.path("aside")).expect("it was there");
        for _ in 0..2 {
            let second = Launch::run(&lab, [FAKE, "exit", "0"]).end();
            second.assert_code(78);
            assert!(second.stderr.contains("already supervised"), "{gone:?} {second}");
        }
        assert!(sup.is_running() && procfs::alive(agent), "{gone:?}");
        sup.signal(libc::SIGTERM);
        sup.end().assert_code(143);
    }
}
