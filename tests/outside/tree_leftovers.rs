//! What somebody left behind who is started again: the next one meets none of it, and what was never of it is let be.

use crate::support;
use crate::support::log::Log;
use crate::support::{Caller, Lab, Launch, Place, Running, eventually, procfs, sys};
use serde_json::json;

/// Below the root: `sleep TIME`, by its command line.
fn sleepers(sup: &Running, time: &str) -> Vec<i32> {
    let line = format!("sleep\0{time}\0").into_bytes();
    let is_it = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|l| l == line);
    procfs::descendants(sup.pid()).into_iter().map(|p| p.pid).filter(is_it).collect()
}

/// An agent that leaves behind what `script` starts in a session of its own, once that has said "set".
fn leaving(lab: &Lab, env: &str, script: &str, more: &str) -> String {
    let command =
        format!("{env} setsid sh -c {script:?} </dev/null >>{} 2>&1 & exec sleep 1000", lab.text("said"));
    let command = format!("command = [\"sh\", \"-c\", {}]", serde_json::Value::from(command));
    lab.write(
        "team.toml",
        &format!("[node]\nwait = \"0s\"\n[[child]]\nid = \"a\"\ngrace = \"1s\"\n{command}\n{more}"),
    )
}

fn pid_of(sup: &Running, session: &str) -> i32 {
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|word| word == session.as_bytes())
    };
    let below = procfs::descendants(sup.pid()).into_iter().map(|p| p.pid);
    below.into_iter().find(is_it).unwrap_or_else(|| panic!("no supervisor of {session}"))
}

/// A daemon whose clean-up starts another one: when that is born, who was there has been counted.
#[test]
fn what_is_born_when_a_leftover_is_told_to_end_is_ended_too() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        for env in ["", "env -i"] {
            let lab = Lab::new();
            let script = "trap 'setsid sleep 7402 & exit' TERM; echo set; sleep 7401 & wait";
            let sup = Launch::tree(&lab, &leaving(&lab, env, script, "")).at(place).start();
            lab.wait_for_file("said", "set\n");
            eventually("it waits", || sleepers(&sup, "7401").len() == 1);
            let before = sleepers(&sup, "7401");
            sys::kill(pid_of(&sup, "t.a"), libc::SIGKILL);
            Log::named(&lab.state_dir(), "t.a").wait_for_nth(2, "claude_spawn");
            assert_eq!(sleepers(&sup, "7402"), Vec::<i32>::new(), "{env} {}", sup.so_far());
            assert!(!procfs::alive(before[0]));
            sys::kill(sup.pid(), libc::SIGTERM);
            sup.end().assert_code(0);
        }
    }
}

/// It does not end by TERM, and is still at work when KILL comes.
#[test]
fn what_is_born_while_a_deaf_leftover_is_waited_for_dies_with_it() {
    for env in ["", "env -i"] {
        let lab = Lab::new();
        let go = lab.text("go");
        // In a script of its own: three shells in one another have no quotes left.
        let script = lab.write(
            "left",
            &format!("trap '' TERM\nmkfifo {go}\necho set\nread line <{go}\nsetsid sleep 7404\n"),
        );
        let more = "shutdown = \"2s\"\n";
        let sup = Launch::tree(&lab, &leaving(&lab, env, &format!("sh {script}"), more)).start();
        lab.wait_for_file("said", "set\n");
        sys::kill(pid_of(&sup, "t.a"), libc::SIGKILL);
        sup.log.wait_for("leftovers_ended child=a");
        std::fs::write(&go, "\n").expect("its fifo");
        eventually("one is born", || !sleepers(&sup, "7404").is_empty());
        let born = sleepers(&sup, "7404");
        Log::named(&lab.state_dir(), "t.a").wait_for_nth(2, "claude_spawn");
        assert!(born.iter().all(|pid| !procfs::alive(*pid)), "{env} {}", sup.so_far());
        sys::kill(sup.pid(), libc::SIGTERM);
        sup.end().assert_code(0);
    }
}

/// The supervisor lives on, and no node hears of it.
#[test]
fn the_next_agent_of_a_child_meets_nothing_of_one_that_was_killed() {
    for env in ["", "env -i"] {
        let lab = Lab::new();
        let script = "trap '' TERM; echo set; exec sleep 7405";
        let policy = "[child.policy]\ntransient_wait = \"0s\"\n";
        let sup = Launch::tree(&lab, &leaving(&lab, env, script, policy)).start();
        lab.wait_for_file("said", "set\n");
        eventually("it is deaf", || sleepers(&sup, "7405").len() == 1);
        let before = sleepers(&sup, "7405");
        sys::kill(sleepers(&sup, "1000")[0], libc::SIGKILL);
        let log = Log::named(&lab.state_dir(), "t.a");
        log.wait_for("state_changed from=backoff to=clearing");
        log.wait_for_nth(2, "claude_spawn");
        assert!(!procfs::alive(before[0]), "{env} {}", sup.so_far());
        let ended = log.events("leftovers_ended");
        assert!(ended.len() >= 2 && ended[0].contains("signal=TERM"), "{ended:?}");
        assert!(ended.last().is_some_and(|line| line.contains("signal=KILL")), "{ended:?}");
        assert_eq!(sup.log.events("child_exit"), Vec::<String>::new(), "the node hears nothing of it");
        sys::kill(sup.pid(), libc::SIGTERM);
        sup.end().assert_code(0);
    }
}

/// Without a node that promises anything, what an agent started is the operator's business.
#[test]
fn what_a_crashed_agent_of_a_plain_run_left_goes_on() {
    let lab = Lab::new();
    let config = lab.write("run.toml", "[policy]\ntransient_wait = \"0s\"\n");
    let script = format!("setsid sleep 7406 & echo set >>{}; exec sleep 1000", lab.text("said"));
    let sup = Launch::run(&lab, ["sh", "-c", &script]).with(["--config", &config]).start();
    eventually("it is there", || sleepers(&sup, "7406").len() == 1);
    let before = sleepers(&sup, "7406");
    sys::kill(sleepers(&sup, "1000")[0], libc::SIGKILL);
    sup.log.wait_for_nth(2, "claude_spawn");
    assert!(procfs::alive(before[0]));
    assert_eq!(sup.log.events("leftovers_ended"), Vec::<String>::new());
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end();
}

/// `docker exec -d`, or a shell's `&` there: it comes to PID 1 as the orphans of a dead child do.
#[test]
fn what_entered_the_container_outlives_a_child_however_that_ends() {
    for place in Place::possible(&[Place::Pid1]) {
        let lab = Lab::new();
        let file = lab.write(
            "team.toml",
            "[node]\nstrategy = \"pool\"\nwait = \"0s\"\n[[child]]\nid = \"a\"\nrestart = \"transient\"\n\
             command = [\"sh\", \"-c\", \"read line <$0\", \"go\"]\n",
        );
        let sup = Launch::tree(&lab, &file).in_dir(lab.path("")).at(place).start();
        assert!(std::process::Command::new("mkfifo").arg(lab.path("go")).status().expect("mkfifo").success());
        let mut node = Caller::of(&lab);
        node.get("child.add", json!({"id": "one"}));
        sup.log.wait_for("child_ready child=one");
        let words = ["sh", "-c", "setsid sleep 7407 </dev/null >/dev/null 2>&1 &"];
        assert!(support::place::enter(sup.pid(), &words).status().expect("nsenter").success());
        eventually("it has come to PID 1", || sleepers(&sup, "7407").len() == 1);
        let outsider = sleepers(&sup, "7407");
        std::fs::write(lab.path("go"), "\n").expect("its fifo");
        sup.log.wait_for("child_exit child=one");
        node.get("child.add", json!({"id": "two"}));
        sup.log.wait_for("child_ready child=two");
        node.get("child.restart", json!({"id": "two"}));
        sup.log.wait_for_nth(2, "child_ready child=two");
        assert!(procfs::alive(outsider[0]), "{}", sup.so_far());
        // Of the time of the one that is killed.
        let words = ["sh", "-c", "setsid sleep 7408 </dev/null >/dev/null 2>&1 &"];
        assert!(support::place::enter(sup.pid(), &words).status().expect("nsenter").success());
        eventually("it has come to PID 1", || sleepers(&sup, "7408").len() == 1);
        let later = sleepers(&sup, "7408");
        sys::kill(pid_of(&sup, "t.two"), libc::SIGKILL);
        sup.log.wait_for_nth(3, "child_ready child=two");
        assert!(procfs::alive(outsider[0]) && procfs::alive(later[0]), "{}", sup.so_far());
        sys::kill(sup.pid(), libc::SIGTERM);
        sup.end().assert_code(0);
    }
}
