//! Issue point 8: what goes through the agent's terminal arrives, all of it, and holds up nothing.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{FAKE, LIMIT, Lab, Launch, Pattern, Place, Terminal, count, in_parallel, log, procfs};

fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Pattern::new(1).fill(&mut bytes);
    bytes
}

#[test]
fn a_hundred_megabytes_arrive_byte_for_byte_in_bounded_memory() {
    let total = count(20_000_000, 100_000_000);
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "pattern", &total.to_string(), "--stay"]).start();
    let pid = sup.pid();
    assert!(sup.stdout.holds_within(4 * LIMIT, total), "{} of {total} bytes", sup.stdout.len());
    let peak = procfs::peak_kib(pid);
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    assert!(ended.stdout == pattern(total), "{} bytes, as they were written", ended.stdout.len());
    assert!(peak > 0 && peak < 16 * 1024, "at most {peak} KiB were resident");
}

#[test]
fn a_reader_that_is_late_gets_everything_too() {
    // More than the memory it may use.
    let total = 24_000_000;
    let lab = Lab::new();
    let launch = Launch::run(&lab, [FAKE, "pattern", &total.to_string()]).with(["--restart", "no"]);
    let mut sup = launch.stdout_unread().start();
    let agent = log::number(&sup.wait_for("claude_spawn"), "pid");
    support::eventually("everything is full, and the agent held up", || {
        let before = procfs::written(agent);
        support::sys::pause(Duration::from_millis(100));
        before > 64 * 1024 && before == procfs::written(agent)
    });
    let peak = procfs::peak_kib(sup.pid());
    assert!(peak < 16 * 1024, "{peak} KiB were resident");
    sup.stdout = support::stream::Stream::of(sup.unread.take().expect("unread"));
    let ended = sup.end();
    ended.assert_code(0);
    assert!(ended.stdout == pattern(total), "{} bytes of {total}", ended.stdout.len());
}

#[test]
fn the_last_output_before_the_exit_is_never_lost() {
    in_parallel(count(150, 1000), |_| {
        let lab = Lab::new();
        let ended = Launch::run(&lab, [FAKE, "say", "x", "0"]).end();
        ended.assert_code(0);
        assert_eq!(ended.stdout, b"x", "{ended}");
    });
    // More than one read takes, and more than the pty holds at once.
    in_parallel(count(20, 100), |_| {
        let lab = Lab::new();
        let ended = Launch::run(&lab, [FAKE, "pattern", "50000"]).end();
        assert!(ended.stdout == pattern(50_000), "{} bytes\n{}", ended.stdout.len(), ended.log);
    });
}

#[test]
fn what_is_typed_arrives_byte_for_byte_and_the_end_of_stdin_is_not_typed() {
    let lab = Lab::new();
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--io", "pty"]).stdin(Stdio::piped());
    let mut sup = launch.start();
    sup.wait_for_output("READY");
    let all: Vec<u8> = (0..=255u8).filter(|b| *b != b'q').cycle().take(100_000).collect();
    let mut stdin = sup.child.stdin.take().expect("piped");
    stdin.write_all(&all).expect("all of it is read");
    assert!(sup.stdout.holds_within(LIMIT, all.len() + 5), "{} bytes", sup.stdout.len());
    assert!(sup.stdout.bytes()[5..] == all);
    drop(stdin);
    // A Ctrl-D or a hang-up would end it; a signal that it does not handle proves that it was alive.
    sup.signal(libc::SIGUSR1);
    let exit = sup.wait_for("claude_exit");
    assert_eq!(log::field(&exit, "signal"), Some("USR1"), "{exit}");
    assert_eq!(sup.stdout.len(), all.len() + 5, "nothing was typed after the end");
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[test]
fn the_size_is_right_at_the_start_and_after_a_resize() {
    let lab = Lab::new();
    for (options, size) in [(vec![], "SIZE 120x40"), (vec!["--size", "97x31"], "SIZE 97x31")] {
        let sup = Launch::run(&lab, [FAKE, "size"]).with(options).start();
        sup.wait_for_output(size);
        sup.signal(libc::SIGTERM);
        sup.end();
    }
    let mut terminal = Terminal::new(101, 33);
    let pid = terminal.start(Launch::run(&lab, [FAKE, "size"]).to_command());
    terminal.expect("SIZE 101x33");
    for (cols, rows) in [(80, 24), (200, 50), (1, 1)] {
        terminal.resize(cols, rows);
        terminal.expect(&format!("SIZE {cols}x{rows}\r\n"));
    }
    support::sys::kill(pid, libc::SIGTERM);
    terminal.end();
    // A terminal that does not know its size, until it does.
    let mut terminal = Terminal::new(0, 0);
    let pid = terminal.start(Launch::run(&lab, [FAKE, "size"]).with(["--size", "90x20"]).to_command());
    terminal.expect("SIZE 90x20");
    terminal.resize(70, 22);
    terminal.expect("SIZE 70x22");
    support::sys::kill(pid, libc::SIGTERM);
    terminal.end();
}

#[test]
fn an_orphan_that_keeps_the_terminal_open_does_not_delay_the_exit() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let began = Instant::now();
        let launch = Launch::run(&lab, [FAKE, "hold-tty", "3"]).with(["--restart", "no", "--grace", "60s"]);
        let ended = launch.at(place).end();
        ended.assert_code(3);
        assert_eq!(ended.stdout, b"HELD\r\n", "{ended}");
        assert!(began.elapsed() < Duration::from_secs(5), "{ended}");
    }
    // Nor the restart.
    let lab = Lab::new();
    let config = lab.write("quick.toml", "[policy]\ntransient_wait = \"20ms\"\n");
    let sup = Launch::run(&lab, [FAKE, "hold-tty", "3"]).with(["--config", &config]).start();
    sup.log.wait_for_nth(2, "claude_spawn");
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[test]
fn stdout_that_nobody_reads_delays_neither_signals_nor_reaping_nor_the_restart() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let config = lab.write("quick.toml", "[policy]\ntransient_wait = \"20ms\"\n");
        let words = [FAKE, "flood-and-record", &lab.text("record")];
        let launch = Launch::run(&lab, words).with(["--config", &config, "--grace", "2s"]);
        let sup = launch.at(place).stdout_unread().start();
        lab.wait_for_file("record", "READY\n");
        let pid = sup.pid();
        support::eventually("the pipe is full and agentsup at rest", || procfs::asleep(pid));
        sup.signal(libc::SIGUSR1);
        lab.wait_for_file("record", "10\n");
        sup.signal(libc::SIGUSR2);
        let exit = sup.wait_for("claude_exit");
        assert_eq!(log::field(&exit, "code"), Some("5"), "{exit}");
        sup.log.wait_for_nth(2, "claude_spawn");
        lab.wait_for_file("record", "READY\n10\n12\nREADY\n");
        support::eventually("every zombie is reaped", || procfs::zombies_below(pid).is_empty());
        let asked = Instant::now();
        sup.signal(libc::SIGTERM);
        let ended = sup.end();
        assert!(asked.elapsed() < Duration::from_secs(5), "{ended}");
    }
}
