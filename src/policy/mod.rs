//! Decisions, pure: (state, event, now) → effects. Called by `supervisor`; hands back what to do.
//! Never touches a file, a clock, a process or a thread.
//!
//! `crash` judges an exit, `stop` times the end of a process tree, `life` is the whole machine;
//! `typing` puts callers' texts into the agent's line, `trigger` sees to it that messages arrive,
//! `viewers` are those who are attached; `activity` is what the agent says it does, `requests` are what it
//! asks of others, `watch` whether it is stuck, `rules` are the user's own; `recovery` tells it why it was
//! restarted; `tree` is a node, whose children are supervisors.
#![forbid(unsafe_code)]

pub mod activity;
pub mod crash;
pub mod life;
pub mod recovery;
pub mod requests;
pub mod rules;
pub mod stop;
pub mod tree;
pub mod trigger;
pub mod typing;
pub mod viewers;
pub mod watch;

use std::time::Instant;

/// The time at which an event is judged. Every wait is measured on the monotonic clock; the wall
/// clock is for people to read and may step backwards.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: Instant,
    pub epoch: u64,
}
