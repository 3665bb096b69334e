//! The operator's terminal, in the lives that have one.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::termios::Termios;

pub use agentsup::os::tty::raw;

use super::fd;
use crate::world;

pub fn stdin_is_terminal() -> bool {
    world::with(|world| world.console.is_terminal())
}

pub fn stdout_is_terminal() -> bool {
    stdin_is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    stdin_is_terminal()
}

/// Nobody looks at what is in it.
fn some_modes() -> Termios {
    // SAFETY: plain numbers, for which all zeroes are as good as any.
    let zero: libc::termios = unsafe { std::mem::zeroed() };
    zero.into()
}

pub fn modes(_tty: BorrowedFd) -> io::Result<Termios> {
    match world::with(|world| world.console.answers()) {
        true => Ok(some_modes()),
        false => Err(Errno::ENOTTY.into()),
    }
}

pub fn set_modes(_tty: BorrowedFd, _modes: &Termios) -> io::Result<()> {
    match world::with(|world| world.console.answers()) {
        true => Ok(()),
        false => Err(Errno::EIO.into()),
    }
}

pub fn size(_tty: BorrowedFd) -> Option<(u16, u16)> {
    world::with(|world| world.console.size())
}

pub fn is_gone(_tty: BorrowedFd) -> bool {
    world::with(|world| !world.console.answers())
}

/// An agent on our own stdio shares our group: job control is for real terminals, and for tests of it.
pub fn controlling() -> Option<OwnedFd> {
    None
}

pub fn foreground(_tty: BorrowedFd) -> Option<i32> {
    world::with(|world| {
        world.console.answers().then_some(if world.console.in_front { own_group() } else { 77 })
    })
}

pub fn set_foreground(_tty: BorrowedFd, _group: i32) -> io::Result<()> {
    Ok(())
}

pub fn own_group() -> i32 {
    std::process::id().cast_signed()
}

pub fn from_the_background<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    change()
}

pub fn has_job_control_parent() -> bool {
    world::with(|world| world.console.is_terminal() && !world.mood.is_pid_1)
}

pub fn stop_self() {
    world::with(|world| world.stand_still());
}

pub fn read_stdin(buffer: &mut [u8]) -> nix::Result<usize> {
    world::with(|world| world.read_stdin(buffer))
}

pub fn stdin() -> BorrowedFd<'static> {
    fd::number(0)
}
