//! The operator's terminal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::termios::{self, SetArg, Termios};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getppid, getsid};

use super::mask::Blocked;

pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

pub fn modes(tty: BorrowedFd) -> io::Result<Termios> {
    Ok(termios::tcgetattr(tty)?)
}

/// Waits for no output and drops no input: what the operator has typed ahead is kept.
pub fn set_modes(tty: BorrowedFd, modes: &Termios) -> io::Result<()> {
    from_the_background(|| Ok(termios::tcsetattr(tty, SetArg::TCSANOW, modes)?))
}

pub fn raw(modes: &Termios) -> Termios {
    let mut raw = modes.clone();
    termios::cfmakeraw(&mut raw);
    raw
}

/// (cols, rows); `None` where the terminal does not know.
pub fn size(tty: BorrowedFd) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is valid for writes and has the layout this request fills.
    let asked = unsafe { libc::ioctl(tty.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// The terminal no longer answers: its window is closed, its connection is down.
pub fn is_gone(tty: BorrowedFd) -> bool {
    termios::tcgetattr(tty).is_err()
}

/// The controlling terminal, whatever stdin is.
pub fn controlling() -> Option<OwnedFd> {
    File::options().read(true).write(true).open("/dev/tty").ok().map(OwnedFd::from)
}

pub fn foreground(tty: BorrowedFd) -> Option<i32> {
    nix::unistd::tcgetpgrp(tty).ok().map(Pid::as_raw)
}

pub fn set_foreground(tty: BorrowedFd, group: i32) -> io::Result<()> {
    from_the_background(|| Ok(nix::unistd::tcsetpgrp(tty, Pid::from_raw(group))?))
}

pub fn own_group() -> i32 {
    getpgrp().as_raw()
}

/// A background process that changes a terminal, or writes to one with `tostop`, gets TTOU and is
/// made to try again for ever, unless the signal is blocked.
pub fn from_the_background<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _ttou = Blocked::one(libc::SIGTTOU);
    change()
}

/// Whether somebody would continue us after a stop: a process of our session, outside our group,
/// among our ancestors. Otherwise the group is orphaned and a stop would last for ever.
pub fn has_job_control_parent() -> bool {
    let (own_session, own_group) = match getsid(None) {
        Ok(session) if session != getpid() && getpid().as_raw() != 1 => (session, getpgrp()),
        _ => return false,
    };
    let mut ancestor = getppid();
    while ancestor.as_raw() > 0 && getsid(Some(ancestor)) == Ok(own_session) {
        match getpgid(Some(ancestor)) {
            Ok(group) if group != own_group => return true,
            Ok(_) => match super::procfs::parent_of(ancestor.as_raw()) {
                Some(parent) => ancestor = Pid::from_raw(parent),
                None => return false,
            },
            Err(_) => return false,
        }
    }
    false
}

/// Stops this process as Ctrl-Z would; returns when it is continued.
pub fn stop_self() {
    // SIGSTOP, because TSTP is caught for forwarding. The whole group, as the kernel does it: the
    // shell waits until every process of the job has stopped.
    let _ = super::signals::send_group(own_group(), libc::SIGSTOP);
}

/// What there is to read on stdin, whatever it is; 0 at its end.
pub fn read_stdin(buffer: &mut [u8]) -> nix::Result<usize> {
    nix::unistd::read(stdin(), buffer)
}

pub fn stdin() -> BorrowedFd<'static> {
    // SAFETY: descriptor 0 is open for the life of the process (`sink::ensure_stdio`).
    unsafe { BorrowedFd::borrow_raw(0) }
}
