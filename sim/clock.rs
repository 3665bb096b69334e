//! The clocks of a life. Each thread lives one life, and has its own.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// Nanoseconds; 0 where nobody simulates: there the machine's own clock counts.
    static MONOTONIC: Cell<u64> = const { Cell::new(0) };
    /// How far the wall clock is from it, in nanoseconds.
    static WALL: Cell<i64> = const { Cell::new(0) };
    static BASE: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// To read a clock takes time, so nobody who waits for it to move waits for ever.
const READING: u64 = 150;
/// Some day in 2033.
const EPOCH: i64 = 2_000_000_000_000_000_000;

pub fn begin() {
    MONOTONIC.set(1_000_000_000_000);
    WALL.set(EPOCH);
    let now = Instant::now();
    BASE.set(Some((now, MONOTONIC.get())));
}

pub fn end() {
    MONOTONIC.set(0);
}

pub fn is_simulated() -> bool {
    MONOTONIC.get() > 0
}

pub fn now() -> u64 {
    MONOTONIC.get()
}

/// For a reader.
pub fn read() -> u64 {
    MONOTONIC.set(MONOTONIC.get() + READING);
    MONOTONIC.get()
}

pub fn wall() -> u64 {
    u64::try_from(WALL.get().saturating_add_unsigned(read())).unwrap_or(0)
}

pub fn advance(by: Duration) {
    MONOTONIC.set(MONOTONIC.get() + nanos(by));
}

pub fn go_to(at: u64) {
    MONOTONIC.set(MONOTONIC.get().max(at));
}

/// Somebody sets the wall clock, back or forth.
pub fn set_wall_off_by(seconds: i64) {
    WALL.set((WALL.get() + seconds * 1_000_000_000).max(0));
}

pub fn of(instant: Instant) -> u64 {
    let Some((base, at)) = BASE.get() else { return 0 };
    match instant.checked_duration_since(base) {
        Some(after) => at.saturating_add(nanos(after)),
        None => at - nanos(base - instant),
    }
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}
