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

/// Seconds that local time is ahead of UTC at this time, by `$TZ` or /etc/localtime; 0 when neither
/// tells.
pub fn utc_offset(epoch: u64) -> i64 {
    // Not by its name: libc calls `time_t` deprecated on musl.
    let Ok(time) = epoch.try_into() else { return 0 };
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both point to values of our own that outlive the call; a `tm` of zeros is a valid one, so
    // it may be read whether or not it was filled in. Nothing here changes the environment that it reads.
    let local = unsafe {
        libc::localtime_r(&raw const time, local.as_mut_ptr());
        local.assume_init()
    };
    local.tm_gmtoff
}

/// Seconds since 1970 as `2026-11-16 18:35:02`, in UTC.
pub fn utc(epoch: f64) -> String {
    let seconds = epoch.max(0.0) as u64;
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days of the proleptic Gregorian calendar, counted from 1 March of the year 0.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (h, min, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{min:02}:{s:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (epoch, text) in [
            (0.0, "1970-01-01 00:00:00"),
            (951_782_399.9, "2000-02-28 23:59:59"),
            (951_782_400.0, "2000-02-29 00:00:00"),
            (1_794_851_023.0, "2026-11-16 17:43:43"),
            (4_107_542_400.0, "2100-03-01 00:00:00"),
            (-5.0, "1970-01-01 00:00:00"),
        ] {
            assert_eq!(utc(epoch), text);
        }
    }
}
