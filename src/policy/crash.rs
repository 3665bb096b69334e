//! DESIGN §5: what an exit means, how long to wait, when to give up.

use std::time::Duration;

/// When an ended agent is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    OnFailure,
    Always,
    No,
}

/// What a clean exit leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClean {
    Exit,
    Prompt,
    Restart,
}

/// What a halted supervisor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHalt {
    Exit,
    Wait,
}

/// The `[policy]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub window: Duration,
    pub flapping_after: u32,
    pub transient_wait: Duration,
    pub flapping_wait: Duration,
    pub halt_after: u32,
    pub stable_after: Duration,
    pub no_retry: Vec<u8>,
    pub backoff: Backoff,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// `transient_wait`, then `flapping_wait`.
    Fixed,
    /// `base · factor^(failures in a row − 1)`, at most `max`, moved by up to `jitter` of itself.
    Exponential { base: Duration, factor: f64, max: Duration, jitter: f64 },
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            window: Duration::from_secs(60),
            flapping_after: 3,
            transient_wait: Duration::from_secs(2),
            flapping_wait: Duration::from_secs(30),
            halt_after: 5,
            stable_after: Duration::from_secs(120),
            no_retry: Vec::new(),
            backoff: Backoff::Fixed,
        }
    }
}
