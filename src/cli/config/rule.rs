//! `[[rule]]` of the config file: `when` is a table of one key, `then` a word or a table of one key.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::table::{self, Complaint, Read, table};
use super::value::{self, At, Value, wrong, wrong_kind};
use crate::cli::duration;
use crate::cli::names::nearest;
use crate::policy::rules::{Rule, Then, When};
use crate::policy::typing::text;
use crate::supervisor::LONGEST_TEXT;

/// More are not written by hand.
const MOST: usize = 64;
const LONGEST_NAME: usize = 64;
const CHOICES: &str = "max_runtime, max_tokens, max_restarts, silent_for, idle_for or screen_contains";

/// Only what the file says.
#[derive(Debug, Default)]
pub struct Table {
    name: Option<At<String>>,
    when: Option<At<Conditions>>,
    then: Option<At<Then>>,
}

table! {
    Table {
        name: name,
        when: conditions,
        then: action,
    }
}

#[derive(Debug, Default)]
struct Conditions {
    max_runtime: Option<Duration>,
    max_tokens: Option<u64>,
    max_restarts: Option<u64>,
    silent_for: Option<Duration>,
    idle_for: Option<Duration>,
    screen_contains: Option<String>,
}

table! {
    Conditions {
        max_runtime: value::positive_duration,
        max_tokens: tokens,
        max_restarts: restarts,
        silent_for: value::positive_duration,
        idle_for: value::positive_duration,
        screen_contains: shown,
    }
}

fn tokens(from: &Value) -> Read<Option<u64>> {
    match value::integer(from)? {
        number @ 1.. => Ok(Some(number as u64)),
        number => Err(wrong(from, format!("{number} is out of range; expected 1 or more"))),
    }
}

fn restarts(from: &Value) -> Read<Option<u64>> {
    match value::integer(from)? {
        number @ 0.. => Ok(Some(number as u64)),
        number => Err(wrong(from, format!("{number} is out of range; expected 0 or more"))),
    }
}

/// What can stand in one line of a screen.
fn shown(from: &Value) -> Read<Option<String>> {
    let text = value::string(from)?;
    match text.trim().is_empty() || text.contains(char::is_control) {
        true => Err(wrong(from, "nothing that one line of a screen can show; expected a piece of a line")),
        false => Ok(Some(text.to_owned())),
    }
}

fn name(from: &Value) -> Read<Option<At<String>>> {
    Ok(Some(At { at: from.span().start, value: value::string(from)?.to_owned() }))
}

fn conditions(from: &Value) -> Read<Option<At<Conditions>>> {
    let value = table::read_as(from, "a table like { max_tokens = 200000 }")?;
    Ok(Some(At { at: from.span().start, value }))
}

fn action(from: &Value) -> Read<Option<At<Then>>> {
    let value = match from.get_ref() {
        DeValue::String(word) => act(word).map_err(|what| wrong(from, what))?,
        DeValue::Table(table) => act_with(from, table)?,
        _ => {
            return Err(wrong_kind(
                from,
                "\"log\", \"pause\", \"restart\", \"reap\", { notify = [\"COMMAND\"] } or { warn = \"TEXT\" }",
            ));
        }
    };
    Ok(Some(At { at: from.span().start, value }))
}

fn act(word: &str) -> Result<Then, String> {
    match word {
        "log" => Ok(Then::Log),
        "pause" => Ok(Then::Pause),
        "restart" => Ok(Then::Restart),
        "reap" => Ok(Then::Reap),
        "notify" => Err("`notify` needs a command; expected { notify = [\"COMMAND\"] }".to_owned()),
        "warn" => Err("`warn` needs a text; expected { warn = \"TEXT\" }".to_owned()),
        other => Err(match nearest(other, Then::NAMES) {
            Some(meant) => format!("`{other}` is not a choice; expected `{meant}`?"),
            None => format!("`{other}` is not a choice; expected one of {}", Then::NAMES.join(", ")),
        }),
    }
}

fn act_with(from: &Value, table: &DeTable) -> Read<Then> {
    let mut keys = table.iter();
    let (Some((key, given)), None) = (keys.next(), keys.next()) else { return Err(no_action(from)) };
    match key.get_ref().as_ref() {
        "notify" => match value::command(given)? {
            empty if empty.is_empty() => Err(wrong(given, "the command is empty; expected its words")),
            command => Ok(Then::Notify(command)),
        },
        "warn" => {
            let words = value::string(given)?;
            if text::clean(words).trim().is_empty() {
                return Err(wrong(given, "there is nothing to type in it; expected text"));
            }
            if words.len() > LONGEST_TEXT {
                let length = words.len();
                let what = format!("the text is {length} bytes long; expected {LONGEST_TEXT} at most");
                return Err(wrong(given, what));
            }
            Ok(Then::Warn(words.to_owned()))
        }
        _ => Err(no_action(from)),
    }
}

fn no_action(from: &Value) -> Complaint {
    wrong(from, "expected either { notify = [\"COMMAND\"] } or { warn = \"TEXT\" }")
}

pub fn tables(from: &Value) -> Read<Vec<At<Table>>> {
    let one = |from: &Value| {
        let value = table::read_as(from, "a table with `when` and `then`")?;
        Ok(At { at: from.span().start, value })
    };
    value::list(from)?.iter().map(one).collect()
}

pub fn rules(tables: Vec<At<Table>>) -> Read<Vec<Rule>> {
    if let Some(first) = tables.get(MOST) {
        return Err((first.at, format!("more than {MOST} rules; expected fewer")));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for (nth, table) in tables.into_iter().enumerate() {
        let At { at, value: Table { name, when, then } } = table;
        let named_at = name.as_ref().map_or(at, |name| name.at);
        let name = name.map_or_else(|| format!("rule-{}", nth + 1), |name| name.value);
        if name.trim().is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err((
                named_at,
                format!("`{}` is no name of a rule; expected a few words", name.escape_debug()),
            ));
        }
        if rules.iter().any(|rule| rule.name == name) {
            return Err((named_at, format!("a second rule is called `{name}`; expected another name")));
        }
        let when =
            when.ok_or_else(|| (at, format!("rule `{name}` has no `when`; expected {CHOICES} in it")))?;
        let when = one(when.value).map_err(|what| (when.at, what))?;
        let then = then.ok_or_else(|| {
            (at, format!("rule `{name}` has no `then`; expected {}", Then::NAMES.join(", ")))
        })?;
        let At { at: then_at, value: then } = then;
        if let (When::MaxRestarts(_), Then::Restart) = (&when, &then) {
            let what = "`restart` would make it more than `max_restarts` again; expected another `then`";
            return Err((then_at, what.to_owned()));
        }
        // A handful of words, for as long as the process lives.
        rules.push(Rule { name: name.leak(), when, then });
    }
    Ok(rules)
}

fn one(from: Conditions) -> Result<When, String> {
    let all = [
        from.max_runtime.map(When::MaxRuntime),
        from.max_tokens.map(When::MaxTokens),
        from.max_restarts.map(When::MaxRestarts),
        from.silent_for.map(When::SilentFor),
        from.idle_for.map(When::IdleFor),
        from.screen_contains.map(When::ScreenContains),
    ];
    let mut said = all.into_iter().flatten();
    match (said.next(), said.next()) {
        (Some(when), None) => Ok(when),
        (None, _) => Err(format!("`when` is empty; expected {CHOICES} in it")),
        (Some(first), Some(second)) => Err(format!(
            "`when` holds both `{}` and `{}`; expected one of them, and a second rule for the other",
            first.name(),
            second.name()
        )),
    }
}

/// As in the file, for `explain`.
pub fn shown_as(rule: &Rule) -> String {
    let value = match &rule.when {
        When::MaxRuntime(time) | When::SilentFor(time) | When::IdleFor(time) => {
            format!("{:?}", duration::show(*time))
        }
        When::MaxTokens(number) | When::MaxRestarts(number) => number.to_string(),
        When::ScreenContains(text) => format!("{text:?}"),
    };
    let then = match &rule.then {
        Then::Notify(command) => format!("{{ notify = {command:?} }}"),
        Then::Warn(text) => format!("{{ warn = {text:?} }}"),
        Then::Log | Then::Pause | Then::Restart | Then::Reap => format!("{:?}", rule.then.name()),
    };
    format!("when {{ {} = {value} }} then {then}", rule.when.name())
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
