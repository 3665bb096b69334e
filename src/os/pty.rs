//! The agent's terminal, seen from the master.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag};
use nix::sys::termios::{self, InputFlags, LocalFlags, SetArg, Termios};
use portable_pty::{MasterPty, PtySize, native_pty_system};

/// What the agent's side of a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Bytes(usize),
    Nothing,
    /// The last process that held the slave has closed it.
    HungUp,
}

pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    fd: std::os::fd::RawFd,
}

impl Pty {
    /// A new pty, and its slave for the child. With `like` the line settings are the operator's own
    /// (erase key, UTF-8), as if the agent ran on that terminal.
    pub fn open(cols: u16, rows: u16, like: Option<&Termios>) -> io::Result<(Pty, OwnedFd)> {
        let size = PtySize { cols, rows, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).map_err(|_| {
            // Its message quotes the error's Rust form; errno still holds the kernel's own.
            io::Error::last_os_error()
        })?;
        let fd = pair
            .master
            .as_raw_fd()
            .ok_or_else(|| io::Error::other("the pty has no descriptor on this platform"))?;
        let pty = Pty { master: pair.master, fd };
        let flags = OFlag::from_bits_truncate(nix::fcntl::fcntl(&pty, FcntlArg::F_GETFL)?);
        nix::fcntl::fcntl(&pty, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;

        // Asked of the master itself, so that it works without a /dev/pts of this mount namespace.
        // SAFETY: plain integers; the new descriptor is owned by nobody else.
        let slave = unsafe {
            let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
            OwnedFd::from_raw_fd(Errno::result(libc::ioctl(fd, libc::TIOCGPTPEER, flags))?)
        };
        match like {
            Some(like) => termios::tcsetattr(&slave, SetArg::TCSANOW, like)?,
            None => {
                let mut modes = termios::tcgetattr(&slave)?;
                modes.input_flags |= InputFlags::IUTF8;
                termios::tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
            }
        }
        Ok((pty, slave))
    }

    pub fn read(&self, buffer: &mut [u8]) -> Read {
        match nix::unistd::read(self, buffer) {
            Ok(0) | Err(Errno::EIO) => Read::HungUp,
            Ok(n) => Read::Bytes(n),
            Err(_) => Read::Nothing,
        }
    }

    /// How many bytes the line discipline took; 0 when it is full.
    pub fn write(&self, bytes: &[u8]) -> usize {
        nix::unistd::write(self, bytes).unwrap_or(0)
    }

    pub fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        let size = PtySize { cols, rows, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).map_err(io::Error::other)
    }

    /// Whether the terminal gathers lines and edits them, as it does until a program wants each key.
    pub fn is_canonical(&self) -> bool {
        termios::tcgetattr(self).is_ok_and(|modes| modes.local_flags.contains(LocalFlags::ICANON))
    }

    /// The process group in front of the agent's terminal.
    pub fn foreground(&self) -> Option<i32> {
        nix::unistd::tcgetpgrp(self).ok().map(nix::unistd::Pid::as_raw).filter(|&group| group > 0)
    }
}

/// How many bytes of input, whole lines where lines are gathered, wait at a slave to be read.
pub fn unread(slave: BorrowedFd) -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: `waiting` is valid for writes and is the integer that this request fills.
    let asked = unsafe { libc::ioctl(slave.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
    if asked == 0 { usize::try_from(waiting).unwrap_or(0) } else { 0 }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the master owns the descriptor and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl AsRawFd for Pty {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd
    }
}
