//! `[trigger]` of the config file.

use std::time::Duration;

use super::table::table;
use super::value;
use crate::cli::duration;
use crate::policy::trigger::Numbers;

/// Only what the file says; `numbers` fills in the rest.
#[derive(Debug, Default)]
pub struct Trigger {
    quiet: Option<Duration>,
    max_defer: Option<Duration>,
    ack_timeout: Option<Duration>,
    retry_waits: Option<Vec<Duration>>,
    max_bytes: Option<usize>,
    rate_per_minute: Option<u32>,
    no_progress_turns: Option<u32>,
    identical_findings: Option<u32>,
    resume_attempts: Option<u32>,
    stale_after: Option<Duration>,
    crash_shortcut: Option<(u32, Duration)>,
}

table! {
    Trigger {
        quiet: value::duration,
        max_defer: value::positive_duration,
        ack_timeout: value::positive_duration,
        retry_waits: value::waits,
        max_bytes: value::trigger_bytes,
        rate_per_minute: value::rate,
        no_progress_turns: value::count,
        identical_findings: value::count,
        resume_attempts: value::attempts,
        stale_after: value::positive_duration,
        crash_shortcut: value::count_within,
    }
}

impl Trigger {
    pub fn numbers(&self) -> Numbers {
        let default = Numbers::default();
        Numbers {
            quiet: self.quiet.unwrap_or(default.quiet),
            max_defer: self.max_defer.unwrap_or(default.max_defer),
            ack_timeout: self.ack_timeout.unwrap_or(default.ack_timeout),
            retry_waits: self.retry_waits.clone().unwrap_or(default.retry_waits),
            max_bytes: self.max_bytes.unwrap_or(default.max_bytes),
            rate_per_minute: self.rate_per_minute.unwrap_or(default.rate_per_minute),
            no_progress_turns: self.no_progress_turns.unwrap_or(default.no_progress_turns),
            identical_findings: self.identical_findings.unwrap_or(default.identical_findings),
            resume_attempts: self.resume_attempts.unwrap_or(default.resume_attempts),
            stale_after: self.stale_after.unwrap_or(default.stale_after),
            crash_shortcut: self.crash_shortcut.unwrap_or(default.crash_shortcut),
        }
    }

    /// Every key with its value, for `explain`.
    pub fn shown(&self) -> [(&'static str, String); 11] {
        let numbers = self.numbers();
        let (failures, within) = numbers.crash_shortcut;
        let waits: Vec<String> = numbers.retry_waits.iter().map(|wait| duration::show(*wait)).collect();
        [
            ("quiet", duration::show(numbers.quiet)),
            ("max_defer", duration::show(numbers.max_defer)),
            ("ack_timeout", duration::show(numbers.ack_timeout)),
            ("retry_waits", format!("{waits:?}")),
            ("max_bytes", numbers.max_bytes.to_string()),
            ("rate_per_minute", numbers.rate_per_minute.to_string()),
            ("no_progress_turns", numbers.no_progress_turns.to_string()),
            ("identical_findings", numbers.identical_findings.to_string()),
            ("resume_attempts", numbers.resume_attempts.to_string()),
            ("stale_after", duration::show(numbers.stale_after)),
            ("crash_shortcut", format!("[{failures}, {:?}]", duration::show(within))),
        ]
    }

    /// Whether the file itself says `key`.
    pub fn says(&self, key: &str) -> bool {
        match key {
            "quiet" => self.quiet.is_some(),
            "max_defer" => self.max_defer.is_some(),
            "ack_timeout" => self.ack_timeout.is_some(),
            "retry_waits" => self.retry_waits.is_some(),
            "max_bytes" => self.max_bytes.is_some(),
            "rate_per_minute" => self.rate_per_minute.is_some(),
            "no_progress_turns" => self.no_progress_turns.is_some(),
            "identical_findings" => self.identical_findings.is_some(),
            "resume_attempts" => self.resume_attempts.is_some(),
            "stale_after" => self.stale_after.is_some(),
            "crash_shortcut" => self.crash_shortcut.is_some(),
            _ => false,
        }
    }
}
