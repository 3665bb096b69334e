//! Descriptors that nobody has opened: numbers by which the fake poll knows what is meant. None of them
//! ever reaches the kernel.

use std::os::fd::{BorrowedFd, OwnedFd};

pub const INBOX: i32 = 1_000_001;
pub const LISTENER: i32 = 1_000_002;
pub const PTY: i32 = 1_000_003;
pub const CALLER: i32 = 2_000_000;
pub const PIDFD: i32 = 300_000_000;
pub const REPORT: i32 = 400_000_000;

pub(super) fn number<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: it is not -1, and the only one that looks at it is the fake poll.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Where the product owns a descriptor it closes it, so this one is real.
pub(super) fn real() -> OwnedFd {
    thread_local! {
        static NULL: OwnedFd = OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null"));
    }
    NULL.with(|null| null.try_clone()).expect("a descriptor of /dev/null")
}
