//! Issue point 3: `init` is transparent: signals, dispositions, streams, job control.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support;
use crate::support::sys::{self, Dispositions, bit};
use crate::support::{FAKE, LIMIT, Lab, Launch, Pattern, Place, Running, Terminal, procfs};

/// Everything that can be caught, TERM last: it also begins the stop.
fn catchable() -> Vec<i32> {
    let kept = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGTERM];
    let all = (1..=31).filter(|n| !kept.contains(n)).chain(34..=64);
    all.chain([libc::SIGTERM]).collect()
}

fn recorder(lab: &Lab, place: Place) -> Running {
    let file = lab.text("signals");
    let sup = Launch::init([FAKE, "record-signals", &file]).at(place).stdin(Stdio::piped()).start();
    sup.wait_for_output("READY");
    sup
}

fn count_of(record: &str, signal: i32) -> usize {
    record.lines().filter(|line| *line == signal.to_string()).count()
}

fn wait_for_count(lab: &Lab, signal: i32, n: usize) {
    let seen = support::log::wait_for_file(&lab.path("signals"), LIMIT, |text| count_of(text, signal) >= n);
    seen.unwrap_or_else(|record| panic!("signal {signal} did not arrive {n} times: {record:?}"));
}

#[test]
fn every_signal_reaches_the_child_once_one_after_the_other() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let mut sup = recorder(&lab, place);
        let pid = sup.pid();
        for signal in catchable() {
            sys::kill(pid, signal);
            wait_for_count(&lab, signal, 1);
        }
        // A second USR1 is the fence: whatever was sent twice before it has arrived.
        sys::kill(pid, libc::SIGUSR1);
        wait_for_count(&lab, libc::SIGUSR1, 2);
        drop(sup.child.stdin.take());
        sup.end().assert_code(0);
        let record = lab.read("signals");
        for signal in catchable() {
            let expected = if signal == libc::SIGUSR1 { 2 } else { 1 };
            assert_eq!(count_of(&record, signal), expected, "{place:?}: signal {signal}");
        }
    }
}

#[test]
fn every_signal_of_a_burst_reaches_the_child_once() {
    // CONT takes back stop signals that are still on their way, and they take back CONT.
    let cancelling = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let mut sup = recorder(&lab, place);
        let pid = sup.pid();
        let burst: Vec<i32> = catchable().into_iter().filter(|s| !cancelling.contains(s)).collect();
        for signal in &burst {
            sys::kill(pid, *signal);
        }
        for signal in &burst {
            wait_for_count(&lab, *signal, 1);
        }
        sys::kill(pid, libc::SIGUSR1);
        wait_for_count(&lab, libc::SIGUSR1, 2);
        drop(sup.child.stdin.take());
        sup.end().assert_code(0);
        let record = lab.read("signals");
        assert_eq!(record.lines().count(), burst.len() + 1, "{place:?}: {record:?}");
    }
}

/// What a program started by such a caller finds, with and without agentsup before it.
fn blocked_and_ignored(sets: Dispositions, through_init: bool) -> String {
    let words = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let output = if through_init {
        Launch::init(words).called_with(sets).end().assert_code(0).stdout.clone()
    } else {
        let mut direct = Command::new(words[0]);
        direct.args(&words[1..]).stdout(Stdio::piped());
        sys::start_with(&mut direct, sets);
        direct.output().expect("grep").stdout
    };
    String::from_utf8(output).expect("text")
}

#[test]
fn the_child_finds_the_blocked_and_ignored_sets_that_it_would_find_without_agentsup() {
    let several = bit(libc::SIGHUP) | bit(libc::SIGTERM) | bit(libc::SIGUSR1) | bit(40);
    let all = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    let callers = [
        Dispositions::default(),
        Dispositions { ignored: bit(libc::SIGPIPE), blocked: 0 },
        Dispositions { ignored: bit(libc::SIGCHLD), blocked: 0 },
        Dispositions { ignored: 0, blocked: bit(libc::SIGCHLD) },
        Dispositions { ignored: several, blocked: 0 },
        Dispositions { ignored: 0, blocked: several },
        Dispositions { ignored: several | bit(libc::SIGCHLD), blocked: several | bit(libc::SIGCHLD) },
        Dispositions { ignored: 0, blocked: all },
    ];
    for sets in callers {
        let (with, without) = (blocked_and_ignored(sets, true), blocked_and_ignored(sets, false));
        assert_eq!(with, without, "{sets:x?}");
        assert!(
            without.contains(&format!("SigIgn:\t{:016x}", sets.ignored)),
            "the caller was as meant: {without}"
        );
    }
}

#[test]
fn a_caller_that_ignores_child_or_blocks_everything_changes_nothing() {
    let all = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    let callers = [
        Dispositions { ignored: bit(libc::SIGCHLD), blocked: 0 },
        Dispositions { ignored: 0, blocked: all },
        Dispositions { ignored: all, blocked: all },
    ];
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        for sets in callers {
            let lab = Lab::new();
            Launch::init([FAKE, "die-with-orphans", "7", "20"])
                .called_with(sets)
                .at(place)
                .end()
                .assert_code(7);
            let run = Launch::run(&lab, [FAKE, "die-with-orphans", "7", "20"]).with(["--restart", "no"]);
            run.called_with(sets).at(place).end().assert_code(7);
            // `run` starts its agent with everything at its default.
            let sup = Launch::run(&lab, [FAKE, "wait"]).called_with(sets).at(place).start();
            sup.wait_for_output("READY");
            sup.signal(libc::SIGTERM);
            sup.end().assert_code(143);
        }
    }
}

#[test]
fn run_starts_its_agent_with_nothing_blocked_or_ignored() {
    let lab = Lab::new();
    let sets = Dispositions { ignored: bit(libc::SIGPIPE) | bit(libc::SIGHUP), blocked: bit(libc::SIGUSR1) };
    let launch = Launch::run(&lab, ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
    let ended = launch.with(["--restart", "no"]).called_with(sets).end();
    let text = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    assert_eq!(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", "{ended}");
}

#[test]
fn three_streams_of_a_mebibyte_stay_separate_and_untouched() {
    const MIB: usize = 1 << 20;
    let streams = |seed| {
        let mut bytes = vec![0; MIB];
        Pattern::new(seed).fill(&mut bytes);
        bytes
    };
    let (typed, complained) = (streams(7), streams(2));
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let words = [FAKE, "stdio-binary", &MIB.to_string()];
        let launches = [
            Launch::init(words),
            Launch::run(&lab, words).with(["--io", "inherit", "--restart", "no", "--pass-env", "*"]),
        ];
        for launch in launches {
            let mut sup = launch.at(place).stdin(Stdio::piped()).start();
            sup.child.stdin.take().expect("piped").write_all(&typed).expect("all of it is read");
            let stderr = sup.stderr.clone();
            let ended = sup.end();
            assert!(ended.status.success(), "{place:?}: {:?}", ended.status);
            assert!(ended.stdout == typed, "{place:?}: stdout is stdin");
            assert!(stderr.bytes() == complained, "{place:?}: stderr is the pattern and nothing else");
        }
    }
}

#[test]
fn under_a_shell_ctrl_z_stops_both_and_fg_resumes_both() {
    let mut terminal = Terminal::new(80, 24);
    let shell = terminal.shell();
    terminal.type_in(format!("{} init -- cat\n", support::AGENTSUP));
    terminal.type_in("first\n");
    terminal.expect("first\r\nfirst\r\n");
    let agentsup = procfs::children(shell)[0];
    let cat = procfs::children(agentsup)[0];
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("PROMPT> ");
    for pid in [agentsup, cat] {
        assert_eq!(procfs::process(pid).map(|p| p.state), Some('T'), "pid {pid}");
    }
    assert_eq!(procfs::process(shell).map(|p| p.foreground), Some(shell), "the shell is in front");
    terminal.type_in("fg\n");
    terminal.expect("init -- cat");
    terminal.type_in("second\n");
    terminal.expect("second\r\nsecond\r\n");
    // Once more: the second time is where forgotten state shows.
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("PROMPT> ");
    terminal.type_in("fg\n");
    terminal.expect("init -- cat");
    terminal.type_in("third\n");
    terminal.expect("third\r\nthird\r\n");
    terminal.type_in("\x04");
    terminal.expect("PROMPT> ");
    terminal.type_in("echo code=$?\n");
    terminal.expect("code=0\r\n");
    terminal.type_in("exit\n");
    assert!(terminal.end().success());
}

#[test]
fn under_a_shell_ctrl_c_and_the_hang_up_reach_the_child() {
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    terminal.type_in(format!("{} init -- {FAKE} wait\n", support::AGENTSUP));
    terminal.expect("READY");
    terminal.type_in("\x03");
    terminal.expect("PROMPT> ");
    terminal.type_in("echo code=$?\n");
    terminal.expect("code=130\r\n");

    let lab = Lab::new();
    terminal.type_in(format!("{} init -- {FAKE} leftover {} 0\n", support::AGENTSUP, lab.text("leftover")));
    terminal.expect("READY ");
    terminal.type_in("\x1c");
    terminal.expect("PROMPT> ");
    assert_eq!(lab.read("leftover"), "TERM\nDONE\n", "what was left ends with the child");
    terminal.type_in("echo code=$?\n");
    terminal.expect("code=131\r\n");
}
