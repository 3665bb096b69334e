//! The control socket: callers are in memory, and by a file in its place they know that it is there.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use agentsup::os::socket::{Moved, Peer, PeerLife};

use super::fd;
use crate::world;

pub struct Listener {
    path: PathBuf,
    inode: u64,
}

impl Listener {
    pub fn bind(path: &Path, _mode: u32, _group: Option<u32>) -> io::Result<Listener> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let inode = File::create_new(path)?.metadata()?.ino();
        Ok(Listener { path: path.to_owned(), inode })
    }

    pub fn stands(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode)
    }

    pub fn accept(&self) -> io::Result<Option<(Stream, Peer)>> {
        match world::with(|world| world.accept()) {
            Ok(Some((number, peer))) => Ok(Some((Stream(number), peer))),
            Ok(None) => Ok(None),
            Err(errno) => Err(Errno::from_raw(errno).into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(fd::LISTENER)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        world::with_if_free(|world| world.door_is_closed());
        if self.stands() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub struct Stream(i32);

impl Stream {
    pub fn peer_life(&self) -> PeerLife {
        world::with(|world| world.peer_life(self.0))
    }

    pub fn read(&self, buffer: &mut [u8]) -> Moved {
        world::with(|world| world.read_caller(self.0, buffer))
    }

    pub fn write(&self, bytes: &[u8]) -> Moved {
        world::with(|world| world.write_caller(self.0, bytes))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        world::with_if_free(|world| world.closed_by_supervisor(self.0));
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(fd::CALLER + self.0)
    }
}

/// The product's client, which nobody runs here.
pub use agentsup::os::socket::is_out_of_descriptors;

/// Whoever had the session before is gone.
pub fn is_answered(_path: &Path) -> bool {
    false
}

pub fn connect_to(_path: &Path, _patience: std::time::Duration) -> io::Result<UnixStream> {
    Err(Errno::ECONNREFUSED.into())
}
