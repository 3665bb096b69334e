//! agentsup: an init-style supervisor for one AI coding agent.
//!
//! Arrows point one way: `cli` → `supervisor` → {`policy`, `session`, `os`, `control`, `screen`, `log`}.
//! `policy` and `session` know nothing of the others; all `unsafe` lives in `os`. `sorted` is everybody's.

// Where all else is small, what sees each byte of the agent's output is to be fast.
#![cfg_attr(agentsup_small, feature(optimize_attribute))]

pub mod cli;
pub mod control;
pub mod log;
pub mod os;
pub mod policy;
pub mod screen;
pub mod session;
pub mod sorted;
pub mod supervisor;
