//! Decisions, pure: (state, event, now) → effects. Called by `supervisor`; hands back what to do.
//! Never touches a file, a clock, a process or a thread.
#![forbid(unsafe_code)]

pub mod crash;
