//! How a service manager is told: datagrams to systemd's socket, a descriptor that it left open for s6.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};

/// systemd's end of `$NOTIFY_SOCKET`. Connected, so that poll tells when its queue has room again.
pub struct NotifySocket(OwnedFd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Yes,
    /// Its queue is full: ask again when it is ready to be written.
    Later,
    Never(Errno),
}

impl NotifySocket {
    /// A path, or `@name` in the abstract namespace.
    pub fn open(address: &OsStr) -> io::Result<NotifySocket> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => UnixAddr::new_abstract(name)?,
            path => UnixAddr::new(path)?,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        connect(fd.as_raw_fd(), &address)?;
        Ok(NotifySocket(fd))
    }

    pub fn send(&self, message: &str) -> Told {
        match send(self.0.as_raw_fd(), message.as_bytes(), MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => Told::Yes,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => Told::Later,
            Err(errno) => Told::Never(errno),
        }
    }
}

impl AsFd for NotifySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that whoever started us has left open, by its number; from now on ours alone, so that
/// no child keeps it open. Call it once for each number, and not for one that is in use here.
pub fn adopt(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: only asked whether it is open; nothing is closed or kept.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: it is open, and by the caller's promise nobody else here owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
