//! The control socket's language. Called by `supervisor` (the server's side) and `cli` (the
//! client's); hands on typed requests and replies. `frame` and `protocol` never touch a descriptor
//! or a clock, so a fuzzer and a property test can feed them anything.
#![forbid(unsafe_code)]

use std::time::Duration;

pub mod access;
mod caller;
pub mod client;
mod door;
pub mod frame;
pub mod json;
pub mod protocol;
pub mod server;

pub use client::{CallError, Client};

/// Callers at once; one more and the longest-silent one without a request is closed.
pub const CALLERS_MAX: usize = 256;
/// What all callers' buffers may hold together.
pub const BUFFERS_MAX: usize = 8 * 1024 * 1024;
/// Requests of one caller that are not answered yet, streams included; one more is `TOO_MANY`.
pub const PENDING_MAX: usize = 16;
/// A stream is fed while less than this waits for its reader. The rest stays in the ring of the last
/// events, so that a slow reader costs no memory.
pub const STREAM_MAX: usize = 16 * 1024;
/// What may wait for one caller: a reply, and one more behind it. Beyond it is closed.
pub const UNREAD_MAX: usize = 2 * 1024 * 1024;
/// From the first byte of a request to its last.
pub const HALF_SENT_MAX: Duration = Duration::from_secs(10);
