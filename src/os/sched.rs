//! What is asked of the kernel's scheduler.

use std::mem::size_of;

/// As the kernel lays it out, in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const OTHER: u32 = 0;
const RESET_ON_FORK: u64 = 1;
/// The shortest that the kernel grants, in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Short turns, and sooner: on a busy machine whoever asks for little at a time is let in between
/// those that take much. The share of the processor stays the same, and children start as if nothing
/// had been asked for. Kernels before 6.12 take no notice.
pub fn take_short_turns() {
    let mut now = Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
    // SAFETY: the struct is as large as it says and outlives the call; 0 is this thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, now.size, 0) };
    if known != 0 || now.policy != OTHER {
        return;
    }
    let wanted = Attributes { flags: now.flags | RESET_ON_FORK, runtime: SHORTEST, ..now };
    // SAFETY: the same. A refusal, by a seccomp filter for one, changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pid: i32) -> Attributes {
        let mut now = Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
        // SAFETY: as above.
        let known = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut now, now.size, 0) };
        assert_eq!(known, 0);
        now
    }

    #[test]
    fn children_start_as_if_nothing_had_been_asked_for() {
        let usual = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let expected = attributes(usual.id().cast_signed());
        let child = std::thread::spawn(|| {
            take_short_turns();
            std::process::Command::new("sleep").arg("100").spawn().unwrap()
        });
        let child = child.join().unwrap();
        let seen = attributes(child.id().cast_signed());
        for mut child in [usual, child] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // The tests themselves may have been started by `nice`.
        assert_eq!(
            (seen.flags & RESET_ON_FORK, seen.runtime, seen.nice),
            (0, expected.runtime, expected.nice)
        );
    }
}
