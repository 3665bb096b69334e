//! The few system calls that nix does not wrap here; all `unsafe` of the tests lives here.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn poll_one(fd: i32, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as announced.
        let ready = unsafe { libc::poll(&raw mut entry, 1, left.as_millis() as i32 + 1) };
        if ready > 0 {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

pub fn pause(time: Duration) {
    let time =
        libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) };
    // SAFETY: no entries and no mask: only the timeout.
    unsafe { libc::ppoll(std::ptr::null_mut(), 0, &time, std::ptr::null()) };
}

/// A handle on a process that stays its own even when the number is used again.
pub struct Pidfd(OwnedFd);

impl Pidfd {
    pub fn open(pid: i32) -> Option<Pidfd> {
        // SAFETY: plain integers; a non-negative answer is a new descriptor that we own.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
            (fd >= 0).then(|| Pidfd(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn ended_within(&self, limit: Duration) -> bool {
        poll_one(self.0.as_raw_fd(), Instant::now() + limit)
    }
}

/// A file or directory whose changes can be waited for.
pub struct Watch(OwnedFd);

impl Watch {
    pub fn new() -> Watch {
        // SAFETY: plain flags; checked before it is owned.
        unsafe {
            let fd = libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK);
            assert!(fd >= 0, "inotify: {}", std::io::Error::last_os_error());
            Watch(OwnedFd::from_raw_fd(fd))
        }
    }

    /// Something that does not exist (yet) is passed over.
    pub fn also(&self, path: &Path) {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
        let changes = libc::IN_CREATE | libc::IN_MODIFY | libc::IN_MOVED_TO | libc::IN_DELETE;
        // SAFETY: the path outlives the call.
        unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), changes) };
    }

    pub fn changed_before(&self, until: Instant) -> bool {
        let changed = poll_one(self.0.as_raw_fd(), until);
        let mut events = [0u8; 4096];
        // SAFETY: the buffer is as long as announced.
        while unsafe { libc::read(self.0.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) } > 0 {}
        changed
    }
}

pub fn kill(pid: i32, signal: i32) {
    assert!(pid > 0, "kill({pid})");
    // SAFETY: plain integers.
    unsafe { libc::kill(pid, signal) };
}

pub fn kill_group(group: i32, signal: i32) {
    assert!(group > 1, "kill(-{group})");
    // SAFETY: plain integers.
    unsafe { libc::kill(-group, signal) };
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Dispositions {
    /// Bit n-1 is signal n.
    pub ignored: u64,
    pub blocked: u64,
}

pub fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The command starts with exactly these sets, as from a caller that has them.
pub fn start_with(command: &mut Command, sets: Dispositions) {
    let set = move || {
        // The kernel's own call and layout (handler, flags, restorer, mask): libc hides 32 and 33.
        for signal in (1..=64).filter(|s| ![libc::SIGKILL, libc::SIGSTOP].contains(s)) {
            let ignored = sets.ignored & bit(signal) != 0;
            let action = [if ignored { libc::SIG_IGN as u64 } else { libc::SIG_DFL as u64 }, 0, 0, 0];
            let none = std::ptr::null_mut::<u64>();
            // SAFETY: async-signal-safe; four words are the whole struct, and no handler needs more.
            unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), none, 8) };
        }
        // SAFETY: an eight-byte set, as announced.
        unsafe {
            let mask = &raw const sets.blocked;
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, mask, none, 8);
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only.
    unsafe { command.pre_exec(set) };
}

/// The command leads a session of its own whose terminal is its stdin.
pub fn on_terminal(command: &mut Command) {
    // SAFETY: the closure makes async-signal-safe calls only.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            default_signals();
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

/// A test run that was itself started in the background has INT and QUIT ignored, and a shell that
/// inherits that cannot be interrupted.
fn default_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
        // SAFETY: async-signal-safe; default installs no code.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// A session without a terminal, so that no signal meant for the test's own terminal arrives.
pub fn own_session(command: &mut Command) {
    // SAFETY: async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
}

pub fn set_size(terminal: &OwnedFd, cols: u16, rows: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the struct outlives the call.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(done, 0, "TIOCSWINSZ");
}

/// Traced by this thread and told to stop on its way out, a killed process stays where it is until
/// `let_traced_go`: as near to one that KILL does not end as a test gets.
pub fn hold_by_tracing(pid: i32) {
    // SAFETY: plain integers.
    let done = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_TRACEEXIT) };
    assert_eq!(done, 0, "ptrace: {}", std::io::Error::last_os_error());
}

/// The traced process ends, and is its parent's to wait for.
pub fn let_traced_go(pid: i32) {
    // SAFETY: plain integers; no status is asked for.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG);
        libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0);
        libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG);
    }
}

/// Orphans of our descendants come to this process.
pub fn become_subreaper() {
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}
