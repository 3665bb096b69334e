//! The world of one life: a machine with processes, a terminal, a disk and callers, and everything that
//! happens on it. The supervisor meets it through `os` alone; while it sleeps the world goes on.

mod agent;
mod callers;
mod chance;
mod console;
mod processes;
mod requests;
mod troubles;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock;
use crate::invariants::{Facts, Violation};
use crate::mood::Mood;
use crate::os::poll::{Ready, Want};
use crate::os::signals::Arrived;
use crate::os::{CALLER, INBOX, LISTENER, PIDFD, PTY, REPORT};
use crate::rng::Rng;
use crate::story::Story;
use crate::witness::Witness;

pub use agent::Pty;
pub use callers::{Callers, Said};
pub use console::Console;
pub use processes::Processes;

/// A turn of the loop takes at least that.
const TURN: Duration = Duration::from_micros(20);
/// Deeds of the world while the supervisor sleeps once: more would be a life without a supervisor.
const DEEDS_MOST: u32 = 5_000;

pub struct World {
    pub rng: Rng,
    pub mood: Mood,
    pub story: Story,
    pub agenda: Agenda,
    pub processes: Processes,
    pub inbox: Vec<Arrived>,
    pub pty: Pty,
    pub console: Console,
    pub callers: Callers,
    pub oom_kills: u64,
    /// EAGAIN for every fork.
    pub no_processes: bool,
    /// Somebody has removed things from the state dir.
    pub has_tidied: bool,
    /// The lock of another supervisor that has taken the session.
    pub taken: Option<nix::fcntl::Flock<std::fs::File>>,
    /// What the invariants are judged by.
    pub facts: Facts,
    pub witness: Witness,
    pub violation: Option<Violation>,
    /// Somebody will want an end from here on.
    pub deeds_left: u64,
    pub ends_wanted: u32,
    /// Where its files are.
    pub dir: PathBuf,
    is_over: bool,
}

/// What will happen by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is known whether exec succeeded.
    Exec(i32),
    Ends(i32, crate::os::wait::How),
    /// A process does something.
    Acts(i32),
    /// A caller does.
    Calls(i32),
    Recovers(Trouble),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Disk,
    Descriptors,
    Processes,
    Stdout,
    Stderr,
}

#[derive(Default)]
pub struct Agenda {
    deeds: BTreeMap<(u64, u64), Deed>,
    next: u64,
}

impl Agenda {
    pub fn after(&mut self, span: Duration, deed: Deed) {
        self.next += 1;
        self.deeds.insert((clock::now() + clock::nanos(span), self.next), deed);
    }

    fn first(&self) -> Option<u64> {
        self.deeds.first_key_value().map(|((at, _), _)| *at)
    }

    fn take_due(&mut self) -> Option<Deed> {
        let first = self.deeds.first_entry()?;
        (first.key().0 <= clock::now()).then(|| first.remove())
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

pub fn begin(world: World) {
    WORLD.set(Some(world));
}

/// The world as the life left it.
pub fn end() -> World {
    WORLD.take().expect("a life was begun")
}

pub fn with<R>(act: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a life is lived on this thread")))
}

/// For destructors: they may run while everything else has come to its end.
pub fn with_if_free(act: impl FnOnce(&mut World)) {
    WORLD.with(|world| {
        if let Ok(mut world) = world.try_borrow_mut()
            && let Some(world) = world.as_mut()
        {
            act(world);
        }
    });
}

impl World {
    pub fn new(mood: Mood, mut rng: Rng, dir: PathBuf, is_traced: bool) -> World {
        let deeds_left = 50 + crate::clock::nanos(rng.span(Duration::from_micros(3))).min(3_000);
        World {
            story: Story::new(is_traced),
            agenda: Agenda::default(),
            processes: Processes::new(&mood),
            inbox: Vec::new(),
            pty: Pty::default(),
            console: Console::new(&mood),
            callers: Callers::default(),
            oom_kills: 0,
            no_processes: false,
            has_tidied: false,
            taken: None,
            facts: Facts::new(&mood),
            witness: Witness::default(),
            violation: None,
            deeds_left,
            ends_wanted: 0,
            dir,
            is_over: false,
            mood,
            rng,
        }
    }

    /// The life ends here: what is wrong is told, and the supervisor unwinds.
    pub fn fail(&mut self, invariant: &'static str, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail });
        }
        if !std::thread::panicking() && !self.is_over {
            std::panic::panic_any(crate::Stopped);
        }
    }

    /// The supervisor has ended, or was ended: from here on nobody is stopped for what is found.
    pub fn is_over(&mut self) {
        self.is_over = true;
    }

    /// What the supervisor is woken by, after whatever else happened meanwhile.
    pub fn sleep(&mut self, wants: &[(i32, Want)], deadline: Option<u64>) -> Vec<(usize, Ready)> {
        clock::advance(TURN);
        self.read_the_log();
        self.judge(deadline);
        for deeds in 0.. {
            self.do_what_is_due();
            self.end_if_it_is_time();
            if self.rng.once_in(3) {
                self.something_happens();
            }
            let ready = self.ready(wants);
            let now = clock::now();
            let is_due = deadline.is_some_and(|at| at <= now);
            if !ready.is_empty() || is_due || deeds > DEEDS_MOST {
                return ready;
            }
            let pause = self.rng.span(self.mood.pace);
            let next = self.agenda.first().unwrap_or(u64::MAX).min(now + clock::nanos(pause));
            if deadline.is_some_and(|at| at <= next) {
                clock::go_to(deadline.unwrap_or(next));
                self.story.event("clock", "deadline", 0);
                self.oversleep();
            } else {
                clock::go_to(next);
                self.something_happens();
            }
        }
        Vec::new()
    }

    /// A busy machine wakes nobody in time.
    fn oversleep(&mut self) {
        if self.mood.is_late && self.rng.once_in(8) {
            let late = self.rng.span(Duration::from_secs(20));
            self.story.event("clock", "overslept", late.as_millis() as i64);
            clock::advance(late);
            self.facts.late(late);
        }
    }

    fn do_what_is_due(&mut self) {
        while let Some(deed) = self.agenda.take_due() {
            match deed {
                Deed::Exec(pid) => self.exec(pid),
                Deed::Ends(pid, how) => self.process_ends(pid, how),
                Deed::Acts(pid) => self.process_acts(pid),
                Deed::Calls(number) => self.caller_acts(number),
                Deed::Recovers(trouble) => self.recover(trouble),
            }
        }
    }

    /// While the supervisor itself is stopped the world goes on without it.
    pub fn stand_still(&mut self) {
        self.story.event("job", "stopped", 0);
        for _ in 0..self.rng.below(4) {
            let pause = self.rng.span(Duration::from_secs(60));
            clock::advance(pause);
            self.facts.late(pause);
            self.do_what_is_due();
            self.something_happens();
        }
        self.console.in_front |= !self.rng.once_in(4);
        self.inbox.push(Arrived { signal: libc::SIGCONT, sent: true, sender: 9 });
    }

    fn ready(&mut self, wants: &[(i32, Want)]) -> Vec<(usize, Ready)> {
        let mut found = Vec::new();
        for (at, (fd, want)) in wants.iter().enumerate() {
            let (read, write, hung_up) = self.readiness(*fd);
            let (asks_read, asks_write) = match want {
                Want::Read => (true, false),
                Want::Write => (false, true),
                Want::Both => (true, true),
                Want::HangUp => (false, false),
            };
            if hung_up {
                found.push((at, Ready { read: true, write: true, hung_up: true }));
            } else if asks_read && read || asks_write && write {
                found.push((
                    at,
                    Ready { read: asks_read && read, write: asks_write && write, hung_up: false },
                ));
            }
        }
        if found.len() > 1 && self.rng.once_in(4) {
            // The others became ready a moment later.
            let kept = 1 + self.rng.index(found.len());
            found.truncate(kept);
        }
        found
    }

    /// Readable, writable, hung up.
    fn readiness(&self, fd: i32) -> (bool, bool, bool) {
        match fd {
            0 => (self.console.is_readable(), false, false),
            1 | 2 => (false, self.console.is_writable(fd), false),
            INBOX => (!self.inbox.is_empty(), false, false),
            LISTENER => (self.callers.is_anybody_at_the_door(), false, false),
            PTY => (self.pty.is_readable(), self.pty.is_writable(), false),
            REPORT.. => (self.processes.is_exec_known(fd - REPORT), false, false),
            PIDFD.. => (self.processes.has_ended(fd - PIDFD), false, false),
            CALLER.. => self.callers.readiness(fd - CALLER),
            _ => (false, false, false),
        }
    }

    pub fn take_signals(&mut self) -> Vec<Arrived> {
        let taken = std::mem::take(&mut self.inbox);
        self.facts.moved += taken.len() as u64;
        if taken.iter().any(|arrived| arrived.signal == libc::SIGTERM) {
            self.facts.asked_to_stop(clock::now());
        }
        taken
    }
}
