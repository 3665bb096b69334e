//! Verbs that make families: orphans, leftovers, trees.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::{leave, sys, tell};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ears {
    Open,
    /// TERM, INT and HUP are ignored.
    Deaf,
}

impl Ears {
    pub fn wear(self) {
        if self == Ears::Deaf {
            [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].into_iter().for_each(sys::ignore);
        }
    }
}

/// `n` orphans that exit at once, made as fast as possible.
pub fn orphans(n: i32, exit: Option<i32>) -> ! {
    for _ in 0..n {
        if let sys::Side::Child = sys::fork_orphan() {
            sys::exit_now(99);
        }
    }
    tell(&format!("ORPHANS {n}\n"));
    match exit {
        Some(code) => leave(code),
        None => sys::pause_for_ever(),
    }
}

/// `n` orphans wait for a pipe to close that only we hold: our own death is their signal to die, so
/// all of it reaches the supervisor together. They exit with 99 to be told from us.
pub fn die_with_orphans(code: i32, n: i32) -> ! {
    let (until, held) = sys::pipe();
    for _ in 0..n {
        if let sys::Side::Child = sys::fork_orphan() {
            drop(held);
            let _ = std::fs::File::from(until).read(&mut [0u8; 1]);
            sys::exit_now(99);
        }
    }
    sys::exit_now(code)
}

/// An orphan in a session of its own that counts TERM in `file` and needs `work_ms` after the first
/// one, then writes DONE. We tell its pid, then exit or wait.
pub fn leftover(file: &str, work_ms: u64, exit: Option<i32>, ears: Ears) -> ! {
    let (told, tells) = sys::pipe();
    if let sys::Side::Child = sys::fork_orphan() {
        drop(told);
        sys::setsid();
        sys::let_go_of_stdio();
        let mut record = OpenOptions::new().create(true).append(true).open(file).expect("record");
        let mut tells = std::fs::File::from(tells);
        if ears == Ears::Deaf {
            ears.wear();
            write!(tells, "{}", std::process::id()).expect("pipe");
            drop(tells);
            sys::pause_for_ever();
        }
        let mut terms = std::fs::File::from(sys::arrivals([libc::SIGTERM].into_iter()));
        write!(tells, "{}", std::process::id()).expect("pipe");
        drop(tells);
        note_term(&mut terms, &mut record);
        // Further TERMs are counted while the work goes on.
        let done = Instant::now() + Duration::from_millis(work_ms);
        while sys::readable_before(&terms, done) {
            note_term(&mut terms, &mut record);
        }
        writeln!(record, "DONE").expect("record");
        sys::exit_now(0);
    }
    drop(tells);
    let mut pid = String::new();
    std::fs::File::from(told).read_to_string(&mut pid).expect("pipe");
    tell(&format!("READY {pid}\n"));
    match exit {
        Some(code) => leave(code),
        None => sys::pause_for_ever(),
    }
}

fn note_term(terms: &mut std::fs::File, record: &mut std::fs::File) {
    terms.read_exact(&mut [0u8; 1]).expect("own pipe");
    writeln!(record, "TERM").expect("record");
}

/// An orphan without ears for HUP keeps our terminal open; we leave with `code`.
pub fn hold_tty(code: i32) -> ! {
    let (up, ready) = sys::pipe();
    if let sys::Side::Child = sys::fork_orphan() {
        sys::ignore(libc::SIGHUP);
        drop(ready);
        drop(up);
        sys::pause_for_ever();
    }
    drop(ready);
    let _ = std::fs::File::from(up).read(&mut [0u8; 1]);
    tell("HELD\n");
    leave(code)
}

/// Ourselves, a child in our group, one in a group of its own, one in a session of its own, and an
/// orphan in yet another one. All pids in `file`, then READY.
pub fn tree(file: &str, ears: Ears) -> ! {
    ears.wear();
    let (told, tells) = sys::pipe();
    let mut tells = std::fs::File::from(tells);
    type Member = (fn() -> sys::Side, fn());
    let members: [Member; 4] = [
        (sys::fork, || ()),
        (sys::fork, sys::setpgid),
        (sys::fork, sys::setsid),
        (sys::fork_orphan, sys::setsid),
    ];
    for (fork, place) in members {
        if let sys::Side::Child = fork() {
            place();
            writeln!(tells, "{}", std::process::id()).expect("pipe");
            drop(tells);
            sys::pause_for_ever();
        }
    }
    writeln!(tells, "{}", std::process::id()).expect("pipe");
    drop(tells);
    let mut pids = String::new();
    std::fs::File::from(told).read_to_string(&mut pids).expect("pipe");
    std::fs::write(file, pids).expect("pid file");
    tell("READY\n");
    sys::pause_for_ever()
}
