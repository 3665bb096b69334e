//! Signals that arrive, and signals that are sent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

pub use agentsup::os::signals::{Arrived, let_go, name};

use super::fd::{self, INBOX};
use crate::world;

pub struct Inbox;

pub fn catch_all() -> io::Result<Inbox> {
    Ok(Inbox)
}

impl Inbox {
    pub fn take(&self) -> Vec<Arrived> {
        world::with(|world| world.take_signals())
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(INBOX)
    }
}

pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    world::with(|world| world.kill(pid, signal));
    Ok(())
}

pub fn send_group(group: i32, signal: i32) -> io::Result<()> {
    world::with(|world| world.kill_group(group, signal));
    Ok(())
}

pub fn send_everyone(signal: i32) -> io::Result<()> {
    world::with(|world| world.kill_everyone(signal));
    Ok(())
}
