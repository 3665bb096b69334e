//! What the agent's output means for a terminal. Called by `supervisor` with every byte that goes
//! by; hands back escape sequences and text. Never touches a descriptor.
#![forbid(unsafe_code)]

pub mod modes;
pub mod tail;
