//! The command line: called by `main` with the words it was given, hands `Settings` to `supervisor`
//! and an exit code back. Knows flags, config files and defaults; never spawns, waits or signals.
#![forbid(unsafe_code)]

pub mod args;
pub mod asked;
pub mod config;
pub mod duration;
pub mod names;
pub mod words;

/// Why a verb could not do its work, and the code that says so. `main` prints it.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    /// The words themselves are wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// The words are fine; what they ask for is refused.
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { code: 78, message: message.into() }
    }
}
