//! Processes that are not our children; in some lives a filter denies to watch them.

use std::os::fd::{AsFd, BorrowedFd};

use super::fd;
use crate::world;

pub struct PidFd(i32);

impl PidFd {
    pub fn open(pid: i32) -> Option<PidFd> {
        world::with(|world| world.can_watch(pid)).then_some(PidFd(pid))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(fd::PIDFD + self.0)
    }
}
