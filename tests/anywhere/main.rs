//! The real binary, as in `tests/outside`, with no more than a build sandbox allows: the tests of a package.

#[path = "../outside/support/mod.rs"]
mod support;

mod crash_policy;
mod exit_codes;
mod pty;
mod reaping;
