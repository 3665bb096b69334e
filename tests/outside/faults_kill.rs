//! KILL and STOP, of the agent and of agentsup itself, at moments that nobody chose.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::caller::{self, pid_of, stop};
use crate::support::{
    Caller, FAKE, Lab, Launch, Pattern, Place, Running, count, eventually, log, procfs, sys,
};
use serde_json::json;

/// Restarts come at once and never end.
const TIRELESS: &str = "[policy]\ntransient_wait = \"1ms\"\nflapping_wait = \"1ms\"\nhalt_after = 1000000\n";

/// Where a process is in its life when this is over, nobody knows.
fn a_moment(dice: &mut Pattern) {
    let mut byte = [0u8; 2];
    dice.fill(&mut byte);
    // Nothing at all for half of them: that is when a child has not begun its program yet.
    sys::pause(Duration::from_millis(if byte[0] < 128 { 0 } else { u64::from(byte[1] % 8) }));
}

fn open_files(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn rss_kib(pid: i32) -> i64 {
    let text = procfs::status(pid, "VmRSS").unwrap_or_default();
    text.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// The children that live, of which there may be one.
fn agent_of(supervisor: i32) -> Option<i32> {
    let living: Vec<i32> =
        procfs::children(supervisor).into_iter().filter(|pid| procfs::alive(*pid)).collect();
    assert!(living.len() <= 1, "one agent at most: {living:?}");
    living.first().copied()
}

#[test]
fn an_agent_killed_at_any_moment_is_replaced_by_one_and_costs_nothing() {
    let kills = count(60, 1000);
    let lab = Lab::new();
    let config = lab.write("tireless.toml", TIRELESS);
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    let pid = sup.pid();
    let mut dice = Pattern::new(8);
    let mut at_rest = (0, 0);
    for nth in 1..=kills {
        a_moment(&mut dice);
        let mut agent = None;
        eventually("there is an agent", || {
            agent = agent_of(pid);
            agent.is_some()
        });
        let agent = agent.expect("just seen");
        sys::kill(agent, libc::SIGKILL);
        eventually("another one is there", || agent_of(pid).is_some_and(|next| next != agent));
        let state = caller.state();
        assert!(["starting", "running", "backoff"].iter().any(|p| state["phase"] == *p), "{state}");
        // What grows once, to the size that is needed, has grown by now.
        if nth == kills / 4 {
            caller.wait_for("ready");
            at_rest = (open_files(pid), rss_kib(pid));
        }
    }
    caller.wait_for("ready");
    eventually("every death was noticed", || caller.state()["restart_count"] == kills);
    let state = caller.get("state", json!({"deep": true}));
    assert_eq!((&state["zombies"], &state["orphans_reaped"]), (&json!(0), &json!(0)), "{state}");
    assert_eq!(Some(pid_of(&state)), agent_of(pid));
    assert_eq!(open_files(pid), at_rest.0, "descriptors after {} and after {kills} kills", kills / 4);
    let grown = rss_kib(pid) - at_rest.1;
    // A page here and there is the allocator's; a leak of a screen or a buffer would be a thousand times that.
    assert!(grown < 256, "{grown} KiB more after {kills} kills than after {}", kills / 4);

    let (spawned, ended) = (sup.log.events("claude_spawn"), sup.log.events("claude_exit"));
    assert_eq!((spawned.len(), ended.len()), (kills + 1, kills), "{}", sup.so_far());
    let killed = |line: &&String| log::field(line, "signal") == Some("KILL");
    assert_eq!(ended.iter().filter(killed).count(), kills, "{ended:?}");
    for (was, end) in spawned.iter().zip(&ended) {
        assert_eq!(log::number(was, "pid"), log::number(end, "pid"), "one after the other");
    }
    stop(sup, &mut caller).assert_code(143);
}

/// Starts one, has it write a line for every call, and kills it meanwhile. How many calls were answered.
fn killed_while_it_writes(lab: &Lab, dice: &mut Pattern) -> usize {
    let sup = Launch::run(lab, [FAKE, "leftover", &lab.text("leftover"), "0"]).start();
    sup.wait_for_output("READY ");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    let below: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
    assert_eq!(below.len(), 2, "the agent and one in a session of its own");
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let call = b"{\"method\": \"inject\", \"params\": {\"bytes\": \"\"}}\n";
            while caller.stream.write_all(call).is_ok() && caller.receive().is_some() {
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
        eventually("calls are answered", || answered.load(Ordering::SeqCst) > 20);
        a_moment(dice);
        sup.signal(libc::SIGKILL);
    });
    sup.end();
    eventually("the agent dies with it", || below.iter().filter(|pid| procfs::alive(**pid)).count() == 1);
    answered.into_inner()
}

#[test]
fn agentsup_killed_while_it_writes_loses_no_line_that_was_answered_for() {
    let lab = Lab::new();
    let mut dice = Pattern::new(9);
    let mut answered = 0;
    let rounds = count(6, 60);
    for _ in 0..rounds {
        answered += killed_while_it_writes(&lab, &mut dice);
    }
    // The next start ends whoever got away, and goes on in the same file.
    let ended = Launch::run(&lab, [FAKE, "exit", "4"]).with(["--restart", "no"]).end();
    ended.assert_code(4);
    assert_eq!(lab.read("leftover"), "TERM\nDONE\n".repeat(rounds), "each had its TERM: {ended}");
    let lines: Vec<&str> = ended.log.lines().collect();
    let told = lines.iter().filter(|line| line.contains("] [supervisor] inject ")).count();
    assert!((answered..=answered + rounds).contains(&told), "{told} lines for {answered} answers");
    assert_eq!(lines.iter().filter(|line| line.contains(" session_start ")).count(), rounds + 1);
    // Half a line, cut off by the KILL, would stand before the first line of the next run.
    let whole = |line: &&&str| line.starts_with('[') && line.matches("] [supervisor] ").count() <= 1;
    assert!(lines.iter().filter(|line| !whole(line)).count() <= rounds, "{ended}");
}

#[test]
fn when_pid_1_is_killed_nothing_survives_it() {
    for place in Place::possible(&[Place::Pid1]) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "tree", &lab.text("pids"), "--deaf"]).at(place).start();
        sup.wait_for_output("READY");
        let below: Vec<i32> = procfs::descendants(sup.pid()).iter().map(|p| p.pid).collect();
        assert_eq!(below.len(), 5, "{}", sup.so_far());
        sup.signal(libc::SIGKILL);
        sup.end();
        eventually("all are gone", || below.iter().all(|pid| !procfs::alive(*pid)));
    }
}

fn stopped(pid: i32) {
    sys::kill(pid, libc::SIGSTOP);
    eventually("it stands still", || procfs::process(pid).is_some_and(|p| p.state == 'T'));
}

/// Longer than the time that is to pass while agentsup stands still.
fn outlast(time: Duration) {
    sys::pause(time + Duration::from_millis(100));
}

fn waiting(lab: &Lab, policy: &str) -> (Running, Caller) {
    let config = lab.write("c.toml", policy);
    let sup = Launch::run(lab, [FAKE, "wait"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

#[test]
fn what_came_in_time_while_agentsup_stood_still_was_in_time() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab, "[policy]\nhalt_after = 1\n[run]\non_halt = \"wait\"\n");
    let agent = pid_of(&caller.state());
    let patience = Duration::from_millis(500);
    caller.send(&json!({"method": "wait", "params": {"for": "halted", "timeout_ms": 500}}));
    // Answered in order, so the wait has begun.
    caller.send(&json!({"id": "fence", "method": "ping"}));
    assert_eq!(caller.receive().expect("an answer")["id"], "fence");
    // Who is stopped between a look and its judgement has looked already.
    eventually("it waits", || procfs::asleep(sup.pid()));
    stopped(sup.pid());
    sys::kill(agent, libc::SIGKILL);
    let mut late = caller::connect(&caller::socket(&lab)).map(|s| Caller::on(s, caller::Framing::Lines));
    let late = late.as_mut().expect("the kernel takes it in meanwhile");
    late.send(&json!({"id": 1, "method": "ping"}));
    outlast(patience);
    sys::kill(sup.pid(), libc::SIGCONT);
    let halted = caller.receive().expect("an answer");
    assert_eq!((&halted["ok"], &halted["reason"]), (&json!(true), &json!("halted")), "{halted}");
    assert_eq!(late.receive().expect("an answer")["ok"], true, "who called meanwhile is answered");
    let exits = caller.state()["exits"].as_array().map(Vec::len);
    assert_eq!(exits, Some(1));
    stop(sup, &mut caller).assert_code(137);
}

#[test]
fn an_agent_that_ended_within_its_grace_did_so_although_nobody_looked() {
    let lab = Lab::new();
    // On TERM it needs a while, and leaves with a code of its own.
    let tidies = "trap 'sleep 0.3; exit 7' TERM; echo READY; while :; do sleep 60 & wait $!; done";
    let sup = Launch::run(&lab, ["sh", "-c", tidies]).with(["--grace", "800ms"]).start();
    sup.wait_for_output("READY");
    let agent = log::number(&sup.wait_for("claude_spawn"), "pid");
    let pid = sup.pid();
    sys::kill(pid, libc::SIGTERM);
    sup.wait_for("state_changed from=running to=stopping");
    stopped(pid);
    assert!(procfs::alive(agent), "it is not done yet");
    eventually("the agent has ended", || !procfs::alive(agent));
    outlast(Duration::from_millis(800));
    sys::kill(pid, libc::SIGCONT);
    sup.end().assert_code(7);
}

#[test]
fn a_restart_that_fell_due_meanwhile_happens_once() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab, "[policy]\ntransient_wait = \"200ms\"\n");
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    sup.wait_for("restart_scheduled");
    stopped(sup.pid());
    outlast(Duration::from_millis(200));
    sys::kill(sup.pid(), libc::SIGCONT);
    sup.log.wait_for_nth(2, "claude_spawn");
    caller.wait_for("ready");
    let state = caller.state();
    assert_eq!((&state["restart_count"], &state["health"]), (&json!(1), &json!("healthy")), "{state}");
    assert_eq!(procfs::children(sup.pid()), [pid_of(&state)]);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn an_agent_that_stands_still_is_no_dead_one() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "echo-raw"]).at(place).start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        caller.wait_for("ready");
        let agent = procfs::children(sup.pid())[0];
        stopped(agent);
        assert_eq!(caller.state()["phase"], "running");
        let typed = json!({"bytes": "aGVsbG8="});
        caller.get("inject", typed);
        sys::kill(agent, libc::SIGCONT);
        sup.wait_for_output("hello");
        assert_eq!(caller.state()["restart_count"], 0);
        // Stopped again: a stop reaches it all the same, without a KILL.
        stopped(agent);
        stop(sup, &mut caller).assert_code(143);
    }
}
