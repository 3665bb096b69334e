//! Which signals are blocked. By the kernel's own call: C libraries leave out the signals that they keep for
//! themselves (musl: 32–34), of what they are to block and of what they say was blocked before.

use super::inherited::{MASK_BYTES, bit};

/// Blocked until it is dropped; then what was blocked before is.
pub struct Blocked(u64);

impl Blocked {
    pub fn all() -> Blocked {
        Blocked(change(libc::SIG_BLOCK, u64::MAX))
    }

    pub fn one(signal: i32) -> Blocked {
        Blocked(change(libc::SIG_BLOCK, bit(signal)))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set(self.0);
    }
}

pub(super) fn add(signal: i32) {
    change(libc::SIG_BLOCK, bit(signal));
}

pub(super) fn remove(signal: i32) {
    change(libc::SIG_UNBLOCK, bit(signal));
}

/// Blocks these and no others. Async-signal-safe.
pub(super) fn set(mask: u64) {
    change(libc::SIG_SETMASK, mask);
}

fn change(how: libc::c_int, mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both sets are eight bytes, as announced. With them the call cannot fail.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, &raw mut old, MASK_BYTES) };
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> u64 {
        change(libc::SIG_BLOCK, 0)
    }

    #[test]
    fn what_the_c_library_keeps_is_blocked_too_and_comes_back_as_it_was() {
        let before = now();
        {
            let _all = Blocked::all();
            // KILL and STOP cannot be.
            assert_eq!(now() | 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1), u64::MAX);
            let all = now();
            drop(Blocked::one(libc::SIGTTOU));
            assert_eq!(now(), all);
        }
        assert_eq!(now(), before);
        let _one = Blocked::one(libc::SIGTTOU);
        assert_eq!(now(), before | 1 << (libc::SIGTTOU - 1));
    }
}
