//! The control socket's language. Called by `supervisor` (the server's side) and `cli` (the
//! client's); hands on typed requests and replies. `frame` and `protocol` never touch a descriptor
//! or a clock, so a fuzzer and a property test can feed them anything.
#![forbid(unsafe_code)]

pub mod access;
pub mod client;
pub mod frame;
pub mod protocol;
pub mod server;

pub use client::{CallError, Client};
