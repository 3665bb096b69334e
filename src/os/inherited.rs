//! The blocked and ignored signals agentsup was started with, and whether it had a stdout.
//!
//! Rust's runtime ignores SIGPIPE, catches SEGV and BUS, and opens /dev/null in the place of what is closed before
//! `main`, so the truth has to be read earlier: a function in `.init_array` runs before the runtime, with glibc and with musl.
//! What is ignored and nobody here touches is still as it was, and can be asked for when it matters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bit `n - 1` stands for signal `n`, as the kernel lays out a 64-bit mask.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Of those in `CHANGED`.
static IGNORED: AtomicU64 = AtomicU64::new(0);

static HAD_STDOUT: AtomicBool = AtomicBool::new(true);

/// Ignored by Rust's runtime; and reset by us, in time to hear of children.
const CHANGED: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

pub(super) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Those that are not as agentsup found them, wherever they are ignored or not.
pub(super) fn changed() -> u64 {
    CHANGED.into_iter().fold(0, |set, signal| set | bit(signal))
}

/// Those of `changed` that were ignored.
pub(super) fn ignored_before() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

pub(super) fn blocked_before() -> u64 {
    BLOCKED.load(Ordering::Relaxed)
}

/// Whether anybody can read what is printed.
pub fn had_stdout() -> bool {
    HAD_STDOUT.load(Ordering::Relaxed)
}

/// Those that are ignored now.
pub(super) fn ignored() -> u64 {
    (1..=64).filter(|&signal| is_ignored(signal)).fold(0, |set, signal| set | bit(signal))
}

fn is_ignored(signal: i32) -> bool {
    kernel_action(signal).is_some_and(|action| action.handler == libc::SIG_IGN)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("KernelSigaction is laid out as the kernel has it on x86_64 and aarch64");

/// The kernel's own layout, not the C library's: only so can the signals be seen that a C library
/// keeps for itself (musl: 32–34).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelSigaction {
    pub handler: usize,
    pub flags: libc::c_ulong,
    pub restorer: usize,
    pub mask: u64,
}

pub(super) const MASK_BYTES: usize = 8;

pub(super) fn kernel_action(signal: i32) -> Option<KernelSigaction> {
    let mut old = KernelSigaction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: a null new action only asks; `old` has the kernel's layout and is valid for writes.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            std::ptr::null::<KernelSigaction>(),
            &raw mut old,
            MASK_BYTES,
        )
    };
    (asked == 0).then_some(old)
}

extern "C" fn remember() {
    let mut blocked = 0u64;
    // SAFETY: a null set only asks; `blocked` is eight bytes, as announced.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            std::ptr::null::<u64>(),
            &raw mut blocked,
            MASK_BYTES,
        );
    }
    let ignored = CHANGED.into_iter().filter(|&signal| is_ignored(signal));
    let ignored = ignored.fold(0, |set, signal| set | bit(signal));
    // SAFETY: it only asks for a flag.
    let had_stdout = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    HAD_STDOUT.store(had_stdout, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
}

// SAFETY: the loader calls each entry once, before `main`, on the only thread; `remember` makes
// system calls and stores atomics, so it needs nothing that the runtime sets up later.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;
