//! Unix stream sockets: modes that are right from the first moment, paths of any length, and who
//! is at the other end.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, socket};

use super::clock;

/// Linux 6.5; the C libraries' headers may be older.
const SO_PEERPIDFD: libc::c_int = 77;
/// Callers that have connected and are not accepted yet.
const BACKLOG: i32 = 256;

/// Who is at the other end, as the kernel knew it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// 0 for a process of another pid namespace.
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
    /// When it was let in, as [`clock::ticks`] counts: a process of that pid that started later is
    /// somebody else.
    pub since: u64,
}

pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
    /// Of its file.
    id: (u64, u64),
}

impl Listener {
    /// Replaces whatever lies at `path`: call it only as the owner of the session's lock.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> io::Result<Listener> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        // Linux creates the file with the mode of the unbound socket: closed to others from its
        // first moment, whatever the umask.
        // SAFETY: a valid descriptor and a plain integer.
        Errno::result(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
        at(path, |address| bind(fd.as_raw_fd(), address))?;
        let id = id_at(path)?;
        let listener = Listener { fd, path: path.to_owned(), id };
        if group.is_some() {
            chown(path, None, group)?;
        }
        // After the group is right, so that the old one never has the new mode.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        // Not nix's wrapper: it refuses more than the C library's SOMAXCONN, which musl puts at 128.
        // SAFETY: a valid descriptor and a plain integer.
        Errno::result(unsafe { libc::listen(listener.fd.as_raw_fd(), BACKLOG) })?;
        Ok(listener)
    }

    /// Whether its name still leads here.
    pub fn stands(&self) -> bool {
        id_at(&self.path).is_ok_and(|id| id == self.id)
    }

    /// The next caller; `None` when nobody waits.
    pub fn accept(&self) -> io::Result<Option<(Stream, Peer)>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: null address pointers ask for no address; the new descriptor is nobody else's.
        let fd = unsafe {
            let fd = libc::accept4(self.fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags);
            match Errno::result(fd) {
                Ok(fd) => OwnedFd::from_raw_fd(fd),
                // Gone again before we looked.
                Err(Errno::EAGAIN | Errno::ECONNABORTED | Errno::EINTR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        let who = getsockopt(&fd, PeerCredentials)?;
        Ok(Some((Stream(fd), Peer { pid: who.pid(), uid: who.uid(), gid: who.gid(), since: clock::ticks() })))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    /// Another's socket, in a directory that was put in place of ours, is not ours to remove.
    fn drop(&mut self) {
        if self.stands() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn id_at(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// One caller's connection, non-blocking.
pub struct Stream(OwnedFd);

/// What a read or write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(usize),
    /// Not now.
    Nothing,
    /// Never again.
    Closed,
}

/// Whether the process that made a connection still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLife {
    Lives,
    Gone,
    /// A kernel before 6.5.
    Unknown,
}

impl Stream {
    /// Asked of the kernel by the connection itself: a pid may belong to another by now.
    pub fn peer_life(&self) -> PeerLife {
        let mut fd: libc::c_int = -1;
        let mut size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes to `fd`, which is that large.
        let got = unsafe {
            let socket = self.0.as_raw_fd();
            libc::getsockopt(socket, libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut fd).cast(), &raw mut size)
        };
        match Errno::result(got) {
            Ok(_) => {
                // SAFETY: a new descriptor of ours that nobody else knows.
                let process = unsafe { OwnedFd::from_raw_fd(fd) };
                let mut look = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
                match poll(&mut look, PollTimeout::ZERO) {
                    Ok(0) => PeerLife::Lives,
                    _ => PeerLife::Gone,
                }
            }
            // Not known, forbidden by a filter, or no descriptor is left.
            Err(Errno::ENOPROTOOPT | Errno::EPERM | Errno::ENOSYS | Errno::EMFILE | Errno::ENFILE) => {
                PeerLife::Unknown
            }
            Err(_) => PeerLife::Gone,
        }
    }

    pub fn read(&self, buffer: &mut [u8]) -> Moved {
        match nix::unistd::read(&self.0, buffer) {
            Ok(0) => Moved::Closed,
            Ok(n) => Moved::Bytes(n),
            Err(Errno::EAGAIN | Errno::EINTR) => Moved::Nothing,
            Err(_) => Moved::Closed,
        }
    }

    pub fn write(&self, bytes: &[u8]) -> Moved {
        use nix::sys::socket::{MsgFlags, send};
        match send(self.0.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(n) => Moved::Bytes(n),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => Moved::Nothing,
            Err(_) => Moved::Closed,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A blocking connection for a client. Times out only through the caller's socket options: a
/// listener with a full backlog makes `connect` wait, so the send time-out is set before.
pub fn connect_to(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let stream = UnixStream::from(fd);
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    at(path, |address| connect(stream.as_raw_fd(), address))?;
    Ok(stream)
}

/// No other place would do.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// How often, and for how long each time, a listener that may be about to go is waited for: one that was killed lets
/// go of its lock a moment before that.
const LAST_MOMENTS: (u32, Duration) = (100, Duration::from_millis(2));

/// Whether somebody listens there, for longer than the dead do.
pub fn is_answered(path: &Path) -> bool {
    for _ in 0..LAST_MOMENTS.0 {
        match connect_to(path, LAST_MOMENTS.1) {
            // Whose backlog is full is alive.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return false,
            Ok(_) | Err(_) => std::thread::sleep(LAST_MOMENTS.1),
        }
    }
    true
}

/// `sun_path` holds 108 bytes. A longer path is reached through its open directory, which /proc
/// names in a few bytes; without /proc by going there.
fn at<T>(path: &Path, act: impl FnOnce(&UnixAddr) -> nix::Result<T>) -> io::Result<T> {
    if path.as_os_str().as_bytes().len() < 108 {
        return Ok(act(&UnixAddr::new(path)?)?);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::ENAMETOOLONG.into());
    };
    let dir = File::open(dir)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    if short.exists() {
        return Ok(act(&UnixAddr::new(&short.join(name))?)?);
    }
    let here = File::open(".")?;
    nix::unistd::fchdir(&dir)?;
    let acted = UnixAddr::new(Path::new(name)).and_then(|address| act(&address));
    nix::unistd::fchdir(&here)?;
    Ok(acted?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_sun_path_is_bound_and_reached() {
        let dir = std::env::temp_dir().join(format!("agentsup-socket-{}", std::process::id()));
        let deep = dir.join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let path = deep.join("s.sock");
        let listener = Listener::bind(&path, 0o640, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let _client = connect_to(&path, Duration::from_secs(5)).unwrap();
        let (stream, peer) = listener.accept().unwrap().expect("somebody waits");
        assert_eq!(peer.pid, std::process::id().cast_signed());
        assert_ne!(stream.peer_life(), PeerLife::Gone);
        drop(listener);
        assert!(!path.exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
