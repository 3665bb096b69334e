//! `[watch]` of the config file.

use std::time::Duration;

use super::table::{Read, table};
use super::value::{self, At};
use crate::cli::duration;
use crate::policy::watch::Numbers;

/// Only what the file says; `numbers` fills in the rest.
#[derive(Debug, Default)]
pub struct Watch {
    pub enabled: Option<bool>,
    continue_after: Option<At<Duration>>,
    kill_after: Option<At<Duration>>,
    tool_after: Option<Duration>,
    start_after: Option<Duration>,
}

table! {
    Watch {
        enabled: value::flag,
        continue_after: value::placed_duration,
        kill_after: value::placed_duration,
        tool_after: value::positive_duration,
        start_after: value::positive_duration,
    }
}

impl Watch {
    /// What no single value can tell; where, and what is wrong.
    pub(super) fn check(&self) -> Read<()> {
        let Numbers { continue_after, kill_after, .. } = self.numbers();
        if kill_after > continue_after {
            return Ok(());
        }
        let said = self.kill_after.as_ref().or(self.continue_after.as_ref());
        let at = said.map_or(0, |said| said.at);
        let (least, is) = (duration::show(continue_after), duration::show(kill_after));
        Err((at, format!("`kill_after` is {is}; expected more than `continue_after`, which is {least}")))
    }

    pub fn numbers(&self) -> Numbers {
        let default = Numbers::default();
        let said = |time: &Option<At<Duration>>| time.as_ref().map(|time| time.value);
        Numbers {
            continue_after: said(&self.continue_after).unwrap_or(default.continue_after),
            kill_after: said(&self.kill_after).unwrap_or(default.kill_after),
            tool_after: self.tool_after.unwrap_or(default.tool_after),
            start_after: self.start_after.unwrap_or(default.start_after),
        }
    }

    /// Every key with its value, and whether the file itself says it, for `explain`.
    pub fn shown(&self) -> [(&'static str, String, bool); 4] {
        let numbers = self.numbers();
        [
            ("continue_after", duration::show(numbers.continue_after), self.continue_after.is_some()),
            ("kill_after", duration::show(numbers.kill_after), self.kill_after.is_some()),
            ("tool_after", duration::show(numbers.tool_after), self.tool_after.is_some()),
            ("start_after", duration::show(numbers.start_after), self.start_after.is_some()),
        ]
    }
}
