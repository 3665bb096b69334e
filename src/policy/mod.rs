//! Decisions, pure: (state, event, now) → effects. Called by `supervisor`; hands back what to do.
//! Never touches a file, a clock, a process or a thread.
//!
//! `crash` judges an exit, `stop` times the end of a process tree, `life` is the whole machine;
//! `typing` puts callers' texts into the agent's line, `trigger` sees to it that messages arrive,
//! `viewers` are those who are attached.
#![forbid(unsafe_code)]

pub mod crash;
pub mod life;
pub mod stop;
pub mod trigger;
pub mod typing;
pub mod viewers;

use std::time::Instant;

/// The time at which an event is judged. Every wait is measured on the monotonic clock; the wall
/// clock is for people to read and may step backwards.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: Instant,
    pub epoch: u64,
}
