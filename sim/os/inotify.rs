//! Files that change: nobody is told here, so whoever follows a conversation hears of it at the next
//! occasion.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;

pub use agentsup::os::inotify::Change;

use super::fd;
use crate::world;

pub struct Watch;

impl Watch {
    pub fn new() -> io::Result<Watch> {
        match world::with(|world| world.has_no_descriptors()) {
            true => Err(Errno::EMFILE.into()),
            false => Ok(Watch),
        }
    }

    pub fn add_dir(&mut self, path: &Path) -> io::Result<bool> {
        Ok(path.is_dir())
    }

    pub fn add_file(&mut self, path: &Path) -> io::Result<bool> {
        Ok(path.is_file())
    }

    pub fn clear(&mut self) {}

    pub fn changes(&mut self) -> Vec<Change> {
        Vec::new()
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(999_999)
    }
}
