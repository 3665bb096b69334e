//! The loop and what it owns; the only place where things happen.
pub mod settings;
