//! Processes that begin, or fail to at any step.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

pub use agentsup::os::spawn::{Env, Fds, Place, Signals, SpawnError, SpawnStep, Spec};

use super::fd;
use crate::world;

pub struct Spawning {
    pub pid: i32,
}

impl Spawning {
    pub fn outcome(&self) -> Result<(), SpawnError> {
        world::with(|world| world.outcome(self.pid))
    }
}

impl AsFd for Spawning {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(fd::REPORT + self.pid)
    }
}

pub fn spawn(spec: &Spec) -> Result<Spawning, SpawnError> {
    world::with(|world| world.spawn(spec)).map(|pid| Spawning { pid })
}

pub fn pipe_holding(_text: &[u8]) -> io::Result<OwnedFd> {
    match world::with(|world| world.has_no_descriptors()) {
        true => Err(Errno::EMFILE.into()),
        false => Ok(fd::real()),
    }
}

/// Only a node asks for it, and no life is one.
pub fn ready_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Err(Errno::ENOSYS.into())
}
