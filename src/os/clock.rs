//! Clocks that std has not got.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// What this thread has used of the processor.
pub fn own_cpu_time() -> Duration {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Since boot, as /proc tells the start of a process.
pub fn ticks() -> u64 {
    let ticks = read(ClockId::CLOCK_BOOTTIME).as_micros() * u128::from(ticks_a_second()) / 1_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

pub fn ticks_a_second() -> u64 {
    super::procfs::sysconf(libc::_SC_CLK_TCK, 100)
}
