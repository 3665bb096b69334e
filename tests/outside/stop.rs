//! Issue point 4: a stop is graceful, complete and in time, as a plain process and as PID 1.

use std::time::{Duration, Instant};

use crate::support;
use crate::support::stream::Stream;
use crate::support::{AGENTSUP, Caller, FAKE, LIMIT, Lab, Launch, Place, Running, eventually, procfs, sys};
use serde_json::json;

const BOTH: [Place; 2] = [Place::Plain, Place::Pid1];
/// What a busy machine may add to a wait that is over.
const SLACK: Duration = Duration::from_secs(2);

/// `run` and `init` of the same command.
fn each(lab: &Lab, words: &[&str], grace: &'static str) -> [Launch; 2] {
    [Launch::run(lab, words), Launch::init(words)].map(|launch| launch.with(["--grace", grace]))
}

fn pids_below(sup: &Running) -> Vec<i32> {
    procfs::descendants(sup.pid()).into_iter().map(|p| p.pid).collect()
}

#[test]
fn an_agent_that_ignores_term_is_killed_at_three_quarters_of_the_grace() {
    for place in Place::possible(&BOTH) {
        let lab = Lab::new();
        for launch in each(&lab, &[FAKE, "ignore", "15"], "2s") {
            let sup = launch.at(place).start();
            sup.wait_for_output("READY");
            let asked = Instant::now();
            sup.signal(libc::SIGTERM);
            let ended = sup.end();
            let took = asked.elapsed();
            ended.assert_code(137);
            assert!(took >= Duration::from_millis(1450), "it had its time: {took:?}\n{ended}");
            assert!(took < Duration::from_secs(2) + SLACK, "within the grace: {took:?}\n{ended}");
        }
    }
}

#[test]
fn a_leftover_in_another_session_gets_term_once_and_finishes_its_work() {
    for place in Place::possible(&BOTH) {
        for nth in 0..2 {
            let lab = Lab::new();
            let words = [FAKE, "leftover", &lab.text("leftover"), "700"];
            let launch = each(&lab, &words, "8s").into_iter().nth(nth).expect("one of two");
            let sup = launch.at(place).start();
            sup.wait_for_output("READY ");
            let asked = Instant::now();
            sup.signal(libc::SIGTERM);
            let ended = sup.end();
            ended.assert_code(143);
            assert_eq!(lab.read("leftover"), "TERM\nDONE\n", "{place:?}\n{ended}");
            assert!(asked.elapsed() < Duration::from_secs(5), "it does not sit out the grace\n{ended}");
        }
    }
}

#[test]
fn a_leftover_of_an_agent_that_ends_by_itself_finishes_its_work_too() {
    for place in Place::possible(&BOTH) {
        let lab = Lab::new();
        for (nth, name) in ["by-run", "by-init"].into_iter().enumerate() {
            let words = [FAKE, "leftover", &lab.text(name), "300", "--exit", "3"];
            let run = Launch::run(&lab, words).with(["--restart", "no"]);
            let launch = if nth == 0 { run } else { Launch::init(words) };
            let ended = launch.at(place).end();
            ended.assert_code(3);
            assert_eq!(lab.read(name), "TERM\nDONE\n", "{place:?}\n{ended}");
        }
    }
}

#[test]
fn a_leftover_that_takes_too_long_is_killed_at_the_end_of_the_grace() {
    for place in Place::possible(&BOTH) {
        let lab = Lab::new();
        let words = [FAKE, "leftover", &lab.text("leftover"), "60000"];
        let sup = Launch::run(&lab, words).with(["--grace", "1s"]).at(place).start();
        sup.wait_for_output("READY ");
        let below = pids_below(&sup);
        assert_eq!(below.len(), 2, "agent and leftover");
        let asked = Instant::now();
        sup.signal(libc::SIGTERM);
        let ended = sup.end();
        ended.assert_code(143);
        let took = asked.elapsed();
        assert!(
            took >= Duration::from_millis(950) && took < Duration::from_secs(1) + SLACK,
            "{took:?}\n{ended}"
        );
        assert_eq!(lab.read("leftover"), "TERM\n", "{place:?}: once, and not done\n{ended}");
        assert!(below.iter().all(|pid| !procfs::alive(*pid)), "nothing survives\n{ended}");
    }
}

#[test]
fn nothing_of_the_tree_survives_whatever_its_group_or_session() {
    for place in Place::possible(&BOTH) {
        for ears in [None, Some("--deaf")] {
            let lab = Lab::new();
            let pids = lab.text("pids");
            let words: Vec<&str> = [FAKE, "tree", &pids].into_iter().chain(ears).collect();
            for launch in each(&lab, &words, "1s") {
                let sup = launch.at(place).start();
                sup.wait_for_output("READY");
                let below = pids_below(&sup);
                assert_eq!(below.len(), 5, "the whole tree is known");
                sup.signal(libc::SIGTERM);
                let ended = sup.end();
                ended.assert_code(if ears.is_some() { 137 } else { 143 });
                let alive: Vec<_> = below.into_iter().filter(|pid| procfs::alive(*pid)).collect();
                assert!(alive.is_empty(), "{place:?} {ears:?}: {alive:?}\n{ended}");
            }
        }
    }
}

/// As `docker exec` does: a process of the namespace that is no descendant of its PID 1.
#[test]
fn what_entered_the_namespace_from_outside_gets_term_once_and_ends_too() {
    for place in Place::possible(&[Place::Pid1]) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--grace", "1s"]).at(place).start();
        sup.wait_for_output("READY");
        let words = [FAKE, "record-signals", &lab.text("signals")];
        let mut outsider = support::place::enter(sup.pid(), &words).spawn().expect("nsenter");
        let out = Stream::of(outsider.stdout.take().expect("piped"));
        assert!(out.position_after(0, "READY", LIMIT).is_some());
        sup.signal(libc::SIGTERM);
        let ended = sup.end();
        ended.assert_code(143);
        assert_eq!(lab.read("signals"), "15\n", "{ended}");
        outsider.wait().expect("it ended with the namespace");
    }
}

/// `docker exec … agentsup wait --for exit`: the TERM for all that entered and the answer come together.
#[test]
fn who_waited_from_inside_has_the_answer_before_the_term() {
    for place in Place::possible(&[Place::Pid1]) {
        let lab = Lab::new();
        let agent = "trap 'exit 5' TERM; echo READY; sleep 60 & wait";
        let sup = Launch::run(&lab, ["sh", "-c", agent]).at(place).start();
        sup.wait_for_output("READY");
        let state = lab.text("state");
        let words = [AGENTSUP, "wait", "--for", "exit", "--timeout", "60s", "--dir", &state];
        let mut outsider = support::place::enter(sup.pid(), &words).spawn().expect("nsenter");
        let out = Stream::of(outsider.stdout.take().expect("piped"));
        let mut caller = Caller::of(&lab);
        eventually("it waits", || caller.get("stats", json!({}))["callers"] == 2);
        let entered = outsider.id().cast_signed();
        let waiter = procfs::children(entered)[0];
        // From its connection on it sleeps only when it has asked.
        eventually("it has asked", || procfs::asleep(waiter));
        // It looks only when all has come: stopped, it is continued by whoever sends it a TERM.
        sys::kill(waiter, libc::SIGSTOP);
        eventually("nsenter stops with it", || procfs::process(entered).is_some_and(|p| p.state == 'T'));
        sup.signal(libc::SIGTERM);
        eventually("it ends", || !procfs::alive(waiter));
        // Its parent reaps it, and until then the namespace is not over.
        sys::kill(entered, libc::SIGCONT);
        sup.end().assert_code(5);
        let status = outsider.wait().expect("it ends");
        assert_eq!(status.code(), Some(5), "{status} {}", out.text());
        assert!(out.position_after(0, "exit, code 5", LIMIT).is_some(), "{}", out.text());
    }
}

#[test]
fn a_second_term_or_int_during_the_grace_kills_at_once() {
    for place in Place::possible(&BOTH) {
        for second in [libc::SIGTERM, libc::SIGINT] {
            let lab = Lab::new();
            let words = [FAKE, "tree", &lab.text("pids"), "--deaf"];
            let sup = Launch::run(&lab, words).with(["--grace", "60s"]).at(place).start();
            sup.wait_for_output("READY");
            let below = pids_below(&sup);
            sup.signal(libc::SIGTERM);
            sup.wait_for("signal_received signal=TERM");
            // Signals of one sender in the same instant count as one request; from outside of a pid
            // namespace every sender looks the same.
            sys::pause(Duration::from_millis(50));
            sup.signal(second);
            let ended = sup.end_within(Duration::from_secs(3));
            ended.assert_code(137);
            assert!(below.iter().all(|pid| !procfs::alive(*pid)), "{ended}");
        }
    }
}

#[test]
fn term_int_and_quit_all_stop_a_run_and_other_signals_reach_the_agent() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "wait"]).start();
        sup.wait_for_output("READY");
        sup.signal(signal);
        let ended = sup.end();
        ended.assert_code(143);
        assert!(ended.log.contains("shutdown code=143"), "{ended}");
    }
    let lab = Lab::new();
    let sup =
        Launch::run(&lab, [FAKE, "record-signals", &lab.text("signals")]).with(["--grace", "1s"]).start();
    sup.wait_for_output("READY");
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP, libc::SIGALRM, 34, 64] {
        sup.signal(signal);
        lab.wait_for_file("signals", &format!("{signal}\n"));
    }
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(137);
    assert_eq!(lab.read("signals"), "10\n12\n1\n14\n34\n64\n15\n");
}

#[test]
fn a_process_that_cannot_be_killed_does_not_hang_agentsup() {
    let lab = Lab::new();
    let words = [FAKE, "leftover", &lab.text("leftover"), "0", "--deaf"];
    for launch in each(&lab, &words, "1s") {
        let sup = launch.start();
        sup.wait_for_output("READY ");
        let text = sup.stdout.text();
        let pid: i32 = text.split("READY ").nth(1).and_then(|rest| rest.trim().parse().ok()).expect("a pid");
        sys::hold_by_tracing(pid);
        let asked = Instant::now();
        sup.signal(libc::SIGTERM);
        let ended = sup.end_within(LIMIT);
        let took = asked.elapsed();
        sys::let_traced_go(pid);
        ended.assert_code(143);
        assert!(took < Duration::from_secs(2) + SLACK, "grace and one second: {took:?}\n{ended}");
        assert!(ended.stderr.contains(&pid.to_string()), "what is left is named: {ended}");
    }
    assert!(Launch::run(&lab, [FAKE, "exit", "0"]).end().log.contains("kill_survived"));
}

#[test]
fn kill_9_of_agentsup_takes_the_agent_along_and_the_next_start_ends_what_escaped() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "leftover", &lab.text("leftover"), "300"]).start();
    sup.wait_for_output("READY ");
    let agent = support::log::number(&sup.wait_for("claude_spawn"), "pid");
    let below = pids_below(&sup);
    let escaped = *below.iter().find(|pid| **pid != agent).expect("the leftover");
    sup.signal(libc::SIGKILL);
    sup.end();
    support::eventually("the agent dies with its supervisor", || !procfs::alive(agent));
    assert!(procfs::alive(escaped), "the leftover is in a session of its own");

    let ended = Launch::run(&lab, [FAKE, "exit", "4"]).with(["--restart", "no"]).end();
    ended.assert_code(4);
    assert!(!procfs::alive(escaped), "{ended}");
    assert_eq!(lab.read("leftover"), "TERM\nDONE\n", "{ended}");
    let ending = ended.log.find("leftovers_ended").expect("it is told");
    let spawn = ended.log.rfind("claude_spawn").expect("the new agent");
    assert!(ending < spawn, "before the new agent starts\n{ended}");
}

#[test]
fn kill_9_of_agentsup_takes_an_agent_along_that_ignores_every_hint() {
    let lab = Lab::new();
    for launch in each(&lab, &[FAKE, "ignore", "1,2,15"], "8s") {
        let sup = launch.start();
        sup.wait_for_output("READY");
        let agent = pids_below(&sup)[0];
        sup.signal(libc::SIGKILL);
        sup.end();
        support::eventually("the agent dies with its supervisor", || !procfs::alive(agent));
    }
}

#[test]
fn another_session_is_left_alone() {
    let lab = Lab::new();
    let other = Launch::run(&lab, [FAKE, "leftover", &lab.text("leftover"), "0"]).start();
    other.wait_for_output("READY ");
    Launch::session(&lab, "t2", [FAKE, "exit", "0"]).end().assert_code(0);
    assert_eq!(pids_below(&other).len(), 2, "{}", other.so_far());
    other.signal(libc::SIGTERM);
    other.end().assert_code(143);
}

#[test]
fn a_timeout_ends_gracefully_with_124() {
    for place in Place::possible(&BOTH) {
        let lab = Lab::new();
        let words = [FAKE, "leftover", &lab.text("leftover"), "300"];
        let ended = Launch::run(&lab, words).with(["--timeout", "500ms"]).at(place).end();
        ended.assert_code(124);
        assert_eq!(lab.read("leftover"), "TERM\nDONE\n", "{ended}");
    }
    // It is the time of the whole run, waits included.
    let lab = Lab::new();
    Launch::run(&lab, [FAKE, "exit", "1"]).with(["--timeout", "1s"]).end().assert_code(124);
}

#[test]
fn a_stop_while_the_agent_waits_for_its_restart_ends_with_the_agents_last_code() {
    let lab = Lab::new();
    let config = lab.write("slow.toml", "[policy]\ntransient_wait = \"60s\"\n");
    let sup = Launch::run(&lab, [FAKE, "exit", "9"]).with(["--config", &config]).start();
    sup.wait_for("restart_scheduled");
    sup.signal(libc::SIGTERM);
    sup.end_within(Duration::from_secs(3)).assert_code(9);
}

#[test]
fn without_a_terminal_stderr_tells_of_restart_and_stop() {
    let lab = Lab::new();
    let config = lab.write("quick.toml", "[policy]\ntransient_wait = \"50ms\"\n");
    let words = [FAKE, "crash-then", &lab.text("marks"), "1", "3"];
    let sup = Launch::run(&lab, words).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("[supervisor] ")).collect();
    assert!(told.iter().any(|line| line.contains("exited with code 3")), "{ended}");
    assert!(told.iter().any(|line| line.contains("stopping")), "{ended}");
}
