//! Here a life goes on: while the supervisor waits, the world does something.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

pub use agentsup::os::poll::{Ready, Want};

use crate::{clock, world};

pub struct Sources<T> {
    wants: Vec<(i32, Want)>,
    tokens: Vec<T>,
}

impl<T: Copy> Sources<T> {
    pub fn new() -> Sources<T> {
        Sources { wants: Vec::new(), tokens: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.wants.clear();
        self.tokens.clear();
    }

    pub fn add(&mut self, token: T, fd: BorrowedFd, want: Want) {
        self.wants.push((fd.as_raw_fd(), want));
        self.tokens.push(token);
    }

    pub fn wait(&mut self, deadline: Option<Instant>) -> Vec<(T, Ready)> {
        let ready = world::with(|world| world.sleep(&self.wants, deadline.map(clock::of)));
        ready.into_iter().map(|(at, ready)| (self.tokens[at], ready)).collect()
    }
}
