//! Stdout and stderr, with readers that stop reading.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

pub use agentsup::os::sink::Wrote;

use super::fd;
use crate::world;

pub struct Sink<'fd>(i32, PhantomData<BorrowedFd<'fd>>);

impl<'fd> Sink<'fd> {
    pub fn on(fd: BorrowedFd<'fd>) -> Sink<'fd> {
        Sink(fd.as_raw_fd(), PhantomData)
    }

    pub fn write(&self, bytes: &[u8]) -> Wrote {
        world::with(|world| world.write_out(self.0, bytes))
    }
}

impl AsFd for Sink<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fd::number(self.0)
    }
}

pub fn ensure_stdio() {}

pub fn stdout() -> BorrowedFd<'static> {
    fd::number(1)
}

pub fn stderr() -> BorrowedFd<'static> {
    fd::number(2)
}
