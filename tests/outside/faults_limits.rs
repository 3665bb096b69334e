//! An agent that takes all the processes or all the memory there is, and one that leaves its dead.

use std::time::{Duration, Instant};

use crate::support::caller::stop;
use crate::support::cgroup::{Cgroup, tell_skipped};
use crate::support::{Caller, FAKE, Lab, Launch, Place, count, eventually, log, procfs, sys};
use serde_json::json;

/// A busy machine included.
const QUICK: Duration = Duration::from_secs(2);

#[test]
fn a_fork_bomb_within_a_limit_neither_silences_agentsup_nor_outlives_its_stop() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        for (ears, code) in [(None, 143), (Some("--deaf"), 137)] {
            let Some(cgroup) = Cgroup::of_pids(100) else { return tell_skipped("pids") };
            let lab = Lab::new();
            let marks = lab.text("marks");
            let bomb = [FAKE, "fork-bomb", &marks].into_iter().chain(ears);
            let launch = Launch::run(&lab, bomb).with(["--grace", "1s"]).at(place);
            let sup = launch.wrapped_in(cgroup.entrance()).start();
            sup.wait_for_output("READY");
            let mut caller = Caller::of(&lab);
            eventually("the limit is reached", || cgroup.read("cgroup.procs").lines().count() > 90);
            let asked = Instant::now();
            for _ in 0..20 {
                assert_eq!(caller.state()["phase"], "running");
            }
            assert!(asked.elapsed() < QUICK, "20 calls took {:?}", asked.elapsed());
            let asked = Instant::now();
            let ended = stop(sup, &mut caller);
            ended.assert_code(code);
            let took = asked.elapsed();
            assert!(took < QUICK * 3, "{place:?} {ears:?}: grace and a moment: {took:?}\n{ended}");
            assert!(!ended.log.contains("kill_survived"), "{place:?} {ears:?}: {ended}");
            assert_eq!(cgroup.read("cgroup.procs"), "", "{place:?} {ears:?}: nobody is left: {ended}");
        }
    }
}

#[test]
fn without_room_for_a_process_a_spawn_fails_by_name_and_the_agent_is_back_when_there_is_some() {
    let Some(cgroup) = Cgroup::of_pids(60) else { return tell_skipped("pids") };
    let lab = Lab::new();
    let patient = "[policy]\ntransient_wait = \"10ms\"\nflapping_wait = \"50ms\"\nhalt_after = 100000\n";
    let config = lab.write("c.toml", patient);
    let launch = Launch::run(&lab, [FAKE, "fork-bomb", &lab.text("marks")]).with(["--config", &config]);
    let sup = launch.wrapped_in(cgroup.entrance()).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    let within =
        || -> Vec<i32> { cgroup.read("cgroup.procs").lines().filter_map(|l| l.parse().ok()).collect() };
    eventually("the limit is reached", || within().len() >= 60);
    // What it has made is faster than agentsup at taking its place; if it ever is not, once more.
    eventually("a spawn fails", || {
        if let Some(agent) = caller.state()["pid"].as_i64() {
            sys::kill(agent as i32, libc::SIGKILL);
        }
        !sup.log.events("spawn_failed").is_empty()
    });
    let failed = sup.wait_for("spawn_failed");
    assert_eq!(log::field(&failed, "step"), Some("fork"), "{failed}");
    assert_eq!(caller.state()["phase"], "backoff");
    let mut killed = Vec::new();
    eventually("nobody of it is left", || {
        let others: Vec<i32> = within().into_iter().filter(|pid| *pid != sup.pid()).collect();
        others.iter().for_each(|pid| sys::kill(*pid, libc::SIGKILL));
        killed.extend(&others);
        others.len() <= 1
    });
    // The last that was killed may have been the next agent already, and not have ended yet.
    eventually("another agent runs", || {
        let pid = caller.state()["pid"].as_i64();
        pid.is_some_and(|pid| !killed.contains(&(pid as i32)))
    });
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn zombies_that_the_agent_keeps_are_counted_and_slow_nobody_down() {
    let zombies = count(1_000, 10_000);
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "zombies", &zombies.to_string()]).at(place).start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        let state = caller.get("state", json!({"deep": true}));
        assert_eq!(state["zombies"], zombies, "{place:?}: {state}");
        let metrics = caller.get("metrics", json!({}))["text"].as_str().expect("text").to_owned();
        assert!(metrics.contains(&format!("\nagentsup_zombies {zombies}\n")), "{metrics}");
        let asked = Instant::now();
        for _ in 0..100 {
            caller.state();
        }
        assert!(asked.elapsed() < QUICK, "100 calls took {:?}", asked.elapsed());
        let asked = Instant::now();
        let ended = stop(sup, &mut caller);
        ended.assert_code(143);
        assert!(asked.elapsed() < QUICK * 2, "{place:?}: the end took {:?}", asked.elapsed());
        let last = ended.log.lines().last().expect("a log");
        assert_eq!(log::number(last, "orphans"), zombies as i32, "all were reaped: {last}");
    }
}

#[test]
fn an_agent_that_the_kernel_kills_for_its_memory_is_started_again_and_told_apart() {
    let Some(cgroup) = Cgroup::of_memory(64 << 20) else { return tell_skipped("memory") };
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
        let agent = [FAKE, "hog", &lab.text("marks")];
        let launch = Launch::run(&lab, agent).with(["--config", &config]).at(place);
        let sup = launch.wrapped_in(cgroup.entrance()).start();
        sup.wait_for_output("READY");
        sup.wait_for("oom_kill");
        sup.wait_for_stderr("out of memory");
        let mut caller = Caller::of(&lab);
        caller.wait_for("ready");
        assert_eq!(caller.state()["restart_count"], 1);
        // A KILL that is nobody's but ours is not the kernel's.
        sys::kill(procfs::children(sup.pid())[0], libc::SIGKILL);
        sup.log.wait_for_nth(2, "claude_exit");
        sup.log.wait_for_nth(3, "claude_spawn");
        assert_eq!(sup.log.events("oom_kill").len(), 1, "{}", sup.so_far());
        stop(sup, &mut caller).assert_code(143);
    }
}
