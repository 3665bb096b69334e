//! The config file: TOML, read once, every complaint with file and line. `value` reads single values.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

use super::Failure;
use super::asked::Asked;
use crate::control::access::Role;
use crate::policy::crash::{Backoff, Numbers};
use crate::policy::rules::Rule;
use crate::screen::chord::Chord;

pub mod rule;
pub mod table;
pub mod trigger;
pub mod value;
pub mod watch;

use table::{Read, table};
use value::At;

/// A config file is written by hand; beyond this it is some other file.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Default)]
pub struct Config {
    /// As it was named, for messages and the log.
    pub path: PathBuf,
    pub run: Asked,
    pub policy: Policy,
    pub trigger: trigger::Trigger,
    pub rules: Vec<Rule>,
    pub watch: watch::Watch,
    pub permission_timeout: Option<Duration>,
    pub halt_notify: Vec<String>,
    /// `[recovery] prompt`.
    pub recovery: Option<bool>,
    pub access: Access,
    pub screen: Screen,
    pub log_max_bytes: Option<u64>,
    pub journald: Option<bool>,
}

/// Only what the file says; `numbers` fills in the rest.
#[derive(Debug, Default)]
pub struct Policy {
    window: Option<Duration>,
    flapping_after: Option<u32>,
    transient_wait: Option<Duration>,
    flapping_wait: Option<Duration>,
    halt_after: Option<u32>,
    halt_within: Option<Duration>,
    stable_after: Option<Duration>,
    no_retry: Option<Vec<u8>>,
    backoff: Option<value::Kind>,
    base: Option<At<Duration>>,
    factor: Option<At<f64>>,
    max: Option<At<Duration>>,
    jitter: Option<At<f64>>,
}

table! {
    Policy {
        window: value::positive_duration,
        flapping_after: value::count,
        transient_wait: value::duration,
        flapping_wait: value::positive_duration,
        halt_after: value::count,
        halt_within: value::positive_duration,
        stable_after: value::positive_duration,
        no_retry: value::failure_codes,
        backoff: value::choice,
        base: value::placed_duration,
        factor: value::factor,
        max: value::placed_duration,
        jitter: value::share,
    }
}

#[derive(Debug, Default)]
struct Halt {
    notify: Vec<String>,
}

table! {
    Halt {
        notify: value::command,
    }
}

#[derive(Debug, Default)]
struct Permission {
    timeout: Option<Duration>,
}

table! {
    Permission {
        timeout: value::positive_duration,
    }
}

/// Which role callers get that are neither of the tree nor simply the owner.
#[derive(Debug, Default)]
pub struct Access {
    pub group: Option<Role>,
    pub outside: Option<Role>,
}

table! {
    Access {
        group: value::group_role,
        outside: value::choice,
    }
}

/// How far the agent's output is followed.
#[derive(Debug, Default)]
pub struct Screen {
    pub enabled: Option<bool>,
    pub scrollback: Option<usize>,
    pub detach_key: Option<Chord>,
}

table! {
    Screen {
        enabled: value::flag,
        scrollback: value::scrollback,
        detach_key: value::chord,
    }
}

#[derive(Debug, Default)]
struct Recovery {
    prompt: Option<bool>,
}

table! {
    Recovery {
        prompt: value::flag,
    }
}

#[derive(Debug, Default)]
struct Log {
    max_bytes: Option<u64>,
    journald: Option<bool>,
}

table! {
    Log {
        max_bytes: value::log_bytes,
        journald: value::flag,
    }
}

#[derive(Debug, Default)]
struct Tables {
    run: Asked,
    policy: Policy,
    halt: Halt,
    trigger: trigger::Trigger,
    rule: Vec<At<rule::Table>>,
    watch: watch::Watch,
    recovery: Recovery,
    permission: Permission,
    access: Access,
    screen: Screen,
    log: Log,
}

table! {
    Tables {
        run: table::read,
        policy: table::read,
        halt: table::read,
        trigger: table::read,
        rule: rule::tables,
        watch: table::read,
        recovery: table::read,
        permission: table::read,
        access: table::read,
        screen: table::read,
        log: table::read,
    }
}

pub fn read(path: &Path) -> Result<Config, Failure> {
    let refused = |why: String| Failure::refused(format!("config file {}: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| refused(format!("cannot be read: {error}; give another with --config")))?;
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
    parse_cut(path, text, |line| line)
}

/// What has been cut out of the file at `path`; `line_there` knows where its lines are in that.
pub fn parse_cut(path: &Path, text: &str, line_there: impl Fn(usize) -> usize) -> Result<Config, Failure> {
    let refused = |at: Option<usize>, message: String| {
        let line = 1 + text.bytes().take(at.unwrap_or(0)).filter(|byte| *byte == b'\n').count();
        let line = line_there(line);
        Failure::refused(format!("{}:{line}: {message}", path.display()))
    };
    let file = DeTable::parse(text)
        .map_err(|error| refused(error.span().map(|span| span.start), plain_words(error.message())))?;
    let (tables, rules) = tables(file.get_ref()).map_err(|(at, what)| refused(Some(at), what))?;
    Ok(Config {
        path: path.to_path_buf(),
        run: tables.run,
        policy: tables.policy,
        trigger: tables.trigger,
        rules,
        watch: tables.watch,
        permission_timeout: tables.permission.timeout,
        halt_notify: tables.halt.notify,
        recovery: tables.recovery.prompt,
        access: tables.access,
        screen: tables.screen,
        log_max_bytes: tables.log.max_bytes,
        journald: tables.log.journald,
    })
}

fn tables(file: &DeTable) -> Read<(Tables, Vec<Rule>)> {
    let mut tables: Tables = table::fill(file)?;
    tables.policy.check()?;
    tables.watch.check()?;
    let rules = rule::rules(std::mem::take(&mut tables.rule))?;
    Ok((tables, rules))
}

/// The parser's message in this project's words.
fn plain_words(message: &str) -> String {
    let one_line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replacen(", expected", "; expected", 1)
}

impl Policy {
    /// What no single value can tell; where, and what is wrong.
    fn check(&self) -> Read<()> {
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
            let at = self.max.or(self.base).map_or(0, |given| given.at);
            let (base, max) = (super::duration::show(base), super::duration::show(max));
            return Err((at, format!("`max` is {max}, less than `base`; expected at least {base}")));
        }
        Ok(())
    }

    fn exponential_keys(&self) -> [(&'static str, Option<usize>); 4] {
        [
            ("base", self.base.map(|given| given.at)),
            ("factor", self.factor.map(|given| given.at)),
            ("max", self.max.map(|given| given.at)),
            ("jitter", self.jitter.map(|given| given.at)),
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
            halt_within: self.halt_within.or(default.halt_within),
            stable_after: self.stable_after.unwrap_or(default.stable_after),
            no_retry: self.no_retry.clone().unwrap_or(default.no_retry),
            backoff: match self.backoff {
                None | Some(value::Kind::Fixed) => Backoff::Fixed,
                Some(value::Kind::Exponential) => Backoff::Exponential {
                    base: self.base.map_or(Duration::from_secs(2), |given| given.value),
                    factor: self.factor.map_or(2.0, |given| given.value),
                    max: self.max.map_or(Duration::from_secs(60), |given| given.value),
                    jitter: self.jitter.map_or(0.1, |given| given.value),
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
            "halt_within" => self.halt_within.is_some(),
            "stable_after" => self.stable_after.is_some(),
            "no_retry" => self.no_retry.is_some(),
            "backoff" => self.backoff.is_some(),
            _ => self.exponential_keys().iter().any(|(name, at)| *name == key && at.is_some()),
        }
    }
}

#[cfg(test)]
mod tests;
