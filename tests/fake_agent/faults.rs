//! Verbs that are a burden to the machine, and a launcher that takes system calls away.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::processes::Ears;
use crate::{signals, sys, tell};

/// `n` children that have ended and that nobody waits for.
pub fn zombies(n: i32) -> ! {
    for _ in 0..n {
        if let sys::Side::Child = sys::fork() {
            sys::exit_now(0);
        }
    }
    signals::wait()
}

/// A line in `file` for each start. The first one forks in every process, without end: only a limit holds
/// it, and whoever makes room is replaced. Later ones wait.
pub fn fork_bomb(file: &str, ears: Ears) -> ! {
    if !is_first(file) {
        signals::wait();
    }
    // What it has made goes on when it dies.
    sys::ignore(libc::SIGHUP);
    ears.wear();
    tell("READY\n");
    loop {
        match sys::try_fork() {
            // Nobody's group reaches it.
            Some(sys::Side::Child) if ears == Ears::Deaf => sys::setsid(),
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
}

/// A line in `file` for each start; the first one takes memory until somebody ends it, later ones wait.
pub fn hog(file: &str) -> ! {
    if !is_first(file) {
        signals::wait();
    }
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        // Written to, so that it is really taken.
        held.push(vec![held.len() as u8 | 1; 1 << 20]);
    }
}

fn is_first(file: &str) -> bool {
    let mut marks = OpenOptions::new().create(true).append(true).open(file).expect("marks");
    writeln!(marks, "started").expect("marks");
    std::fs::read_to_string(file).expect("marks").lines().count() == 1
}

const CALLS: [(&str, libc::c_long); 3] = [
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
    ("close_range", libc::SYS_close_range),
];

/// Becomes the command, for which these system calls fail.
pub fn denying(errno: &str, calls: &str, command: &[&str]) -> ! {
    let number = |name: &str| CALLS.iter().find(|(known, _)| *known == name).expect("a known call").1;
    let calls: Vec<libc::c_long> = calls.split(',').map(number).collect();
    let errno = match errno {
        "ENOSYS" => libc::ENOSYS,
        "EPERM" => libc::EPERM,
        _ => panic!("ENOSYS or EPERM, not {errno}"),
    };
    sys::deny(&calls, errno);
    assert!(calls.iter().all(|call| sys::is_denied(*call)), "the filter is in force");
    panic!("{command:?}: {}", Command::new(command[0]).args(&command[1..]).exec())
}
