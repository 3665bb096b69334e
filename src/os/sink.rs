//! Writing to an inherited descriptor without ever blocking, and without setting O_NONBLOCK on a
//! description that others share.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};

pub struct Sink<'fd> {
    fd: Fd<'fd>,
    kind: Kind,
}

enum Fd<'fd> {
    Own(OwnedFd),
    Inherited(BorrowedFd<'fd>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A description of our own, non-blocking.
    Own,
    /// A regular file, or a device like /dev/null: a write ends by itself.
    Direct,
    Socket,
    /// A pipe that could not be reopened (another uid's, or no /proc). POLLOUT promises this much.
    SharedPipe,
    /// A terminal that could not be reopened. POLLOUT promises next to nothing.
    SharedTerminal,
}

/// The outcome of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    Bytes(usize),
    /// Ask again when it is ready to be written.
    Full,
    /// Nobody will ever read it.
    Broken,
}

impl<'fd> Sink<'fd> {
    pub fn on(fd: BorrowedFd<'fd>) -> Sink<'fd> {
        let is = |kind: SFlag| {
            fstat(fd).is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind)
        };
        let (own, shared) = if is(SFlag::S_IFIFO) {
            (reopened(fd), Kind::SharedPipe)
        } else if is(SFlag::S_IFCHR) && nix::unistd::isatty(fd).unwrap_or(false) {
            (reopened(fd).or_else(|| controlling_if_same(fd)), Kind::SharedTerminal)
        } else if is(SFlag::S_IFSOCK) {
            (None, Kind::Socket)
        } else {
            (None, Kind::Direct)
        };
        match own {
            Some(own) => Sink { fd: Fd::Own(own), kind: Kind::Own },
            None => Sink { fd: Fd::Inherited(fd), kind: shared },
        }
    }

    pub fn write(&self, bytes: &[u8]) -> Wrote {
        let written = match self.kind {
            Kind::Own | Kind::Direct => nix::unistd::write(self.as_fd(), bytes),
            Kind::Socket => {
                send(self.as_fd().as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)
            }
            Kind::SharedPipe => self.write_if_ready(&bytes[..bytes.len().min(libc::PIPE_BUF)]),
            Kind::SharedTerminal => self.write_if_ready(&bytes[..bytes.len().min(1)]),
        };
        match written {
            Ok(n) => Wrote::Bytes(n),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => Wrote::Full,
            Err(_) => Wrote::Broken,
        }
    }

    fn write_if_ready(&self, bytes: &[u8]) -> nix::Result<usize> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut fd = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fd, PollTimeout::ZERO)? {
            0 => Err(Errno::EAGAIN),
            _ => nix::unistd::write(self.as_fd(), bytes),
        }
    }
}

impl AsFd for Sink<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Fd::Own(fd) => fd.as_fd(),
            Fd::Inherited(fd) => *fd,
        }
    }
}

fn own_description(path: &str) -> Option<OwnedFd> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    OpenOptions::new().write(true).custom_flags(flags).open(path).ok().map(OwnedFd::from)
}

fn reopened(fd: BorrowedFd) -> Option<OwnedFd> {
    own_description(&format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// `/dev/tty` may be opened by everybody, also where the terminal itself belongs to another uid.
fn controlling_if_same(fd: BorrowedFd) -> Option<OwnedFd> {
    let own = own_description("/dev/tty")?;
    let group = nix::unistd::tcgetpgrp(fd).ok()?;
    (nix::unistd::tcgetpgrp(&own) == Ok(group)).then_some(own)
}

/// Descriptors 0–2 exist from here on: otherwise the first file we open would become somebody's
/// stdout.
pub fn ensure_stdio() {
    for fd in 0..3 {
        // SAFETY: plain integers; a closed descriptor is the answer that is looked for.
        let closed = unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0;
        if closed {
            // SAFETY: a valid C string; the lowest free number is `fd`, because all below are open.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

pub fn stdout() -> BorrowedFd<'static> {
    // SAFETY: descriptor 1 is open for the life of the process (`ensure_stdio`).
    unsafe { BorrowedFd::borrow_raw(1) }
}

pub fn stderr() -> BorrowedFd<'static> {
    // SAFETY: descriptor 2 is open for the life of the process (`ensure_stdio`).
    unsafe { BorrowedFd::borrow_raw(2) }
}
