//! The config file: TOML, read once, every complaint with file and line. `value` reads single values.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Failure;
use super::asked::Asked;
use super::names::nearest;
use crate::control::access::Role;
use crate::policy::crash::{Backoff, Numbers};
use crate::screen::chord::Chord;

pub mod trigger;
pub mod value;

/// A config file is written by hand; beyond this it is some other file.
const LARGEST: u64 = 1 << 20;

/// What the design names and does not work yet: refused, never ignored.
const UNBUILT_TABLES: [&str; 4] = ["permission", "recovery", "rule", "watch"];
const UNBUILT_RUN_KEYS: [&str; 1] = ["watch"];

#[derive(Debug, Default)]
pub struct Config {
    /// As it was named, for messages and the log.
    pub path: PathBuf,
    pub run: Asked,
    pub policy: Policy,
    pub trigger: trigger::Trigger,
    pub halt_notify: Vec<String>,
    pub access: Access,
    pub screen: Screen,
    pub log_max_bytes: Option<u64>,
    pub journald: Option<bool>,
}

/// Only what the file says; `numbers` fills in the rest.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    #[serde(deserialize_with = "value::positive_duration")]
    window: Option<Duration>,
    #[serde(deserialize_with = "value::count")]
    flapping_after: Option<u32>,
    #[serde(deserialize_with = "value::duration")]
    transient_wait: Option<Duration>,
    #[serde(deserialize_with = "value::positive_duration")]
    flapping_wait: Option<Duration>,
    #[serde(deserialize_with = "value::count")]
    halt_after: Option<u32>,
    #[serde(deserialize_with = "value::positive_duration")]
    stable_after: Option<Duration>,
    #[serde(deserialize_with = "value::failure_codes")]
    no_retry: Option<Vec<u8>>,
    #[serde(deserialize_with = "value::backoff")]
    backoff: Option<value::Kind>,
    base: Option<Spanned<value::Positive>>,
    factor: Option<Spanned<value::Factor>>,
    max: Option<Spanned<value::Positive>>,
    jitter: Option<Spanned<value::Share>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Halt {
    #[serde(deserialize_with = "value::command")]
    notify: Vec<String>,
}

/// Which role callers get that are neither of the tree nor simply the owner.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    #[serde(deserialize_with = "value::group_role")]
    pub group: Option<Role>,
    #[serde(deserialize_with = "value::choice")]
    pub outside: Option<Role>,
}

/// How far the agent's output is followed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Screen {
    pub enabled: Option<bool>,
    #[serde(deserialize_with = "value::scrollback")]
    pub scrollback: Option<usize>,
    #[serde(deserialize_with = "value::chord")]
    pub detach_key: Option<Chord>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Log {
    #[serde(deserialize_with = "value::log_bytes")]
    max_bytes: Option<u64>,
    journald: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tables {
    run: Asked,
    policy: Policy,
    halt: Halt,
    trigger: trigger::Trigger,
    access: Access,
    screen: Screen,
    log: Log,
}

pub fn read(path: &Path) -> Result<Config, Failure> {
    let refused = |why: String| Failure::refused(format!("config file {}: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| refused(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(refused("is larger than 1 MiB; expected a TOML file".to_string()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Failure::refused(format!("{}:{line}: not UTF-8 text; expected TOML", path.display()))
    })?;
    parse(path, &text)
}

pub fn parse(path: &Path, text: &str) -> Result<Config, Failure> {
    let refused = |at: Option<usize>, message: String| {
        let line = 1 + text.bytes().take(at.unwrap_or(0)).filter(|byte| *byte == b'\n').count();
        Failure::refused(format!("{}:{line}: {message}", path.display()))
    };
    let tables: Tables = toml::from_str(text)
        .map_err(|error| refused(error.span().map(|span| span.start), plain_words(error.message())))?;
    tables.policy.check().map_err(|(at, message)| refused(Some(at), message))?;
    Ok(Config {
        path: path.to_path_buf(),
        run: tables.run,
        policy: tables.policy,
        trigger: tables.trigger,
        halt_notify: tables.halt.notify,
        access: tables.access,
        screen: tables.screen,
        log_max_bytes: tables.log.max_bytes,
        journald: tables.log.journald,
    })
}

/// serde's message in this project's words. For an unknown key serde names it and all that it
/// knows, each in backticks; that is enough to tell a typo from a key that is not built yet.
fn plain_words(message: &str) -> String {
    if !message.starts_with("unknown field `") {
        let one_line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        return one_line.replacen(", expected", "; expected", 1);
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let key = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let unbuilt: &[&str] = match () {
        _ if known.contains(&"policy") => &UNBUILT_TABLES,
        _ if known.contains(&"document") => &UNBUILT_RUN_KEYS,
        _ => &[],
    };
    if unbuilt.contains(&key) {
        return format!("`{key}` is not built yet; leave it out");
    }
    match nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key `{key}`; expected `{meant}`?"),
        None => format!("unknown key `{key}`; expected one of {}", known.join(", ")),
    }
}

impl Policy {
    /// What no single value can tell; where, and what is wrong.
    fn check(&self) -> Result<(), (usize, String)> {
        if self.backoff != Some(value::Kind::Exponential) {
            for (key, at) in self.exponential_keys() {
                if let Some(at) = at {
                    return Err((
                        at,
                        format!("`{key}` has no meaning here; expected backoff = \"exponential\" with it"),
                    ));
                }
            }
        }
        if let Backoff::Exponential { base, max, .. } = self.numbers().backoff
            && max < base
        {
            let at = self.max.as_ref().map(|max| max.span()).or(self.base.as_ref().map(|base| base.span()));
            let at = at.map_or(0, |span| span.start);
            let (base, max) = (super::duration::show(base), super::duration::show(max));
            return Err((at, format!("`max` is {max}, less than `base`; expected at least {base}")));
        }
        Ok(())
    }

    fn exponential_keys(&self) -> [(&'static str, Option<usize>); 4] {
        [
            ("base", self.base.as_ref().map(|value| value.span().start)),
            ("factor", self.factor.as_ref().map(|value| value.span().start)),
            ("max", self.max.as_ref().map(|value| value.span().start)),
            ("jitter", self.jitter.as_ref().map(|value| value.span().start)),
        ]
    }

    pub fn numbers(&self) -> Numbers {
        let default = Numbers::default();
        Numbers {
            window: self.window.unwrap_or(default.window),
            flapping_after: self.flapping_after.unwrap_or(default.flapping_after),
            transient_wait: self.transient_wait.unwrap_or(default.transient_wait),
            flapping_wait: self.flapping_wait.unwrap_or(default.flapping_wait),
            halt_after: self.halt_after.unwrap_or(default.halt_after),
            stable_after: self.stable_after.unwrap_or(default.stable_after),
            no_retry: self.no_retry.clone().unwrap_or(default.no_retry),
            backoff: match self.backoff {
                None | Some(value::Kind::Fixed) => Backoff::Fixed,
                Some(value::Kind::Exponential) => Backoff::Exponential {
                    base: self.base.as_ref().map_or(Duration::from_secs(2), |base| base.get_ref().0),
                    factor: self.factor.as_ref().map_or(2.0, |factor| factor.get_ref().0),
                    max: self.max.as_ref().map_or(Duration::from_secs(60), |max| max.get_ref().0),
                    jitter: self.jitter.as_ref().map_or(0.1, |jitter| jitter.get_ref().0),
                },
            },
        }
    }

    /// Whether the file itself says `key`: for `explain`, which names where a number comes from.
    pub fn says(&self, key: &str) -> bool {
        match key {
            "window" => self.window.is_some(),
            "flapping_after" => self.flapping_after.is_some(),
            "transient_wait" => self.transient_wait.is_some(),
            "flapping_wait" => self.flapping_wait.is_some(),
            "halt_after" => self.halt_after.is_some(),
            "stable_after" => self.stable_after.is_some(),
            "no_retry" => self.no_retry.is_some(),
            "backoff" => self.backoff.is_some(),
            _ => self.exponential_keys().iter().any(|(name, at)| *name == key && at.is_some()),
        }
    }
}

#[cfg(test)]
mod tests;
