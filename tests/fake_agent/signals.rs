//! Verbs about signals.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use crate::{leave, sys, tell};

pub fn wait() -> ! {
    tell("READY\n");
    sys::pause_for_ever()
}

pub fn ignore(signals: impl Iterator<Item = i32>) -> ! {
    signals.for_each(sys::ignore);
    tell("READY\n");
    sys::pause_for_ever()
}

fn catchable() -> impl Iterator<Item = i32> {
    let kept = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD];
    (1..=31).filter(move |n| !kept.contains(n)).chain(34..=64)
}

/// One line per arrival in `file`; ends with 0 when stdin does.
pub fn record(file: &str) -> ! {
    let mut record = OpenOptions::new().create(true).append(true).open(file).expect("record");
    let arrivals = sys::arrivals(catchable());
    let mut arrivals = std::fs::File::from(arrivals);
    tell("READY\n");
    loop {
        let (signal, ended) = sys::readable(arrivals.as_raw_fd(), 0);
        if signal {
            let mut bytes = [0u8; 256];
            let n = arrivals.read(&mut bytes).expect("own pipe");
            let lines: String = bytes[..n].iter().map(|signal| format!("{signal}\n")).collect();
            record.write_all(lines.as_bytes()).expect("record");
        } else if ended && std::io::stdin().read(&mut [0u8; 64]).unwrap_or(0) == 0 {
            leave(0);
        }
    }
}

/// Writes to stdout without end from a child, records USR1 in `file`, ends with 5 on USR2.
pub fn flood_and_record(file: &str) -> ! {
    let mut record = OpenOptions::new().create(true).append(true).open(file).expect("record");
    let signals = [libc::SIGUSR1, libc::SIGUSR2];
    // The child ignores them from its first moment: they go to the whole group.
    signals.into_iter().for_each(sys::ignore);
    if let sys::Side::Child = sys::fork() {
        crate::streams::flood();
    }
    let mut arrivals = std::fs::File::from(sys::arrivals(signals.into_iter()));
    writeln!(record, "READY").expect("record");
    loop {
        let mut byte = [0u8; 1];
        arrivals.read_exact(&mut byte).expect("own pipe");
        writeln!(record, "{}", byte[0]).expect("record");
        if i32::from(byte[0]) == libc::SIGUSR2 {
            sys::exit_now(5);
        }
    }
}
