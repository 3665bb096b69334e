//! The agent's terminal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::termios::Termios;

pub use agentsup::os::pty::Read;

use super::fd;
use crate::world;

pub struct Pty {
    serial: u64,
}

impl Pty {
    pub fn open(_cols: u16, _rows: u16, _like: Option<&Termios>) -> io::Result<(Pty, OwnedFd)> {
        match world::with(|world| world.open_pty()) {
            Some(serial) => Ok((Pty { serial }, fd::real())),
            None => Err(Errno::EMFILE.into()),
        }
    }

    pub fn read(&self, buffer: &mut [u8]) -> Read {
        world::with(|world| world.read_pty(self.serial, buffer))
    }

    pub fn write(&self, bytes: &[u8]) -> usize {
        world::with(|world| world.write_pty(self.serial, bytes))
    }

    pub fn resize(&self, _cols: u16, _rows: u16) -> io::Result<()> {
        Ok(())
    }

    pub fn is_canonical(&self) -> bool {
        world::with(|world| world.pty.is_canonical)
    }

    pub fn foreground(&self) -> Option<i32> {
        world::with(|world| world.foreground())
    }
}

pub fn unread(_slave: BorrowedFd) -> usize {
    world::with(|world| world.pty.input.len())
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(fd::PTY)
    }
}
