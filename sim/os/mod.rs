//! The product's `os` room, as far as it is fake: the same functions, and behind them the world of this
//! life. What only carries facts (types, names, pure functions), and what stands on the C library's
//! functions that `symbols` replaces, is the product's own.

pub use agentsup::os::{clock, lock, notify, random};

mod fd;
/// It stands on `signals` and `tty` alone, so it is the product's own.
#[path = "../../src/os/front.rs"]
pub mod front;
pub mod inotify;
pub mod pidfd;
pub mod poll;
pub mod procfs;
pub mod pty;
pub mod signals;
pub mod sink;
pub mod socket;
pub mod spawn;
pub mod tty;
pub mod wait;

pub use fd::{CALLER, INBOX, LISTENER, PIDFD, PTY, REPORT};

/// All lives share one process, and its pages.
pub mod code {
    pub fn give_back() {}
}

/// What a cgroup knows.
pub mod cgroup {
    pub fn oom_kills() -> Option<u64> {
        crate::world::with(|world| world.mood.has_proc.then_some(world.oom_kills))
    }
}

/// There are no cgroups to freeze anybody in: a pause is made of signals.
pub mod freezer {
    pub struct Freezer;

    impl Freezer {
        pub fn make(_session: &str) -> Option<Freezer> {
            None
        }

        pub fn take(&self, _pid: i32) -> bool {
            false
        }

        pub fn holds(&self, _pid: i32) -> bool {
            false
        }
    }

    pub fn release(_pid: i32) {}

    pub fn remove_empty(_session: &str) {}
}

/// A panic of a life is a finding, and there is no terminal to be given back.
pub mod rescue {
    use nix::sys::termios::Termios;

    pub fn remember(_original: &Termios, _off: &str) {}

    pub fn give_back_on_panic() {}
}

pub mod sched {
    pub fn take_short_turns() {}
}
