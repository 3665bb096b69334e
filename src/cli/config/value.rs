//! How single values of the config file are read. What is wrong becomes the words after `FILE:LINE:`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::table::{Complaint, Read};
use crate::cli::asked;
use crate::cli::duration as durations;
use crate::cli::names::Named;
use crate::control::access::Role;
use crate::screen::chord::Chord;
use crate::supervisor::settings::Size;

/// A value of the file, and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;

pub fn wrong(at: &Value, what: impl Into<String>) -> Complaint {
    (at.span().start, what.into())
}

/// It is of another kind than what is expected.
#[inline(never)]
pub fn wrong_kind(at: &Value, expected: &str) -> Complaint {
    let found = match at.get_ref() {
        DeValue::String(text) => format!("string {text:?}"),
        DeValue::Integer(number) => format!("integer `{number}`"),
        DeValue::Float(number) => format!("floating point `{number}`"),
        DeValue::Boolean(yes) => format!("boolean `{yes}`"),
        DeValue::Datetime(_) => "date or time".to_owned(),
        DeValue::Array(_) => "array".to_owned(),
        DeValue::Table(_) => "table".to_owned(),
    };
    wrong(at, format!("invalid type: {found}; expected {expected}"))
}

fn out_of_range(at: &Value, number: i64, expected: &str) -> Complaint {
    wrong(at, format!("{number} is out of range; expected {expected}"))
}

/// The value, with where it stands.
#[derive(Clone, Copy, Debug)]
pub struct At<T> {
    pub at: usize,
    pub value: T,
}

pub fn string<'a>(from: &'a Value) -> Read<&'a str> {
    from.get_ref().as_str().ok_or_else(|| wrong_kind(from, "a string"))
}

pub fn integer(from: &Value) -> Read<i64> {
    let number = from.get_ref().as_integer().ok_or_else(|| wrong_kind(from, "an integer"))?;
    i64::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| wrong(from, format!("{number} is out of range; expected an integer of 64 bits")))
}

/// Also an integer.
fn number(from: &Value) -> Read<f64> {
    match from.get_ref() {
        DeValue::Integer(_) => Ok(integer(from)? as f64),
        // JSON's own reader is there already; std's is 12 KB of tables.
        DeValue::Float(number) => match number.as_str().trim_start_matches('+') {
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            "nan" | "-nan" => Ok(f64::NAN),
            digits => {
                serde_json::from_str(digits).map_err(|_| wrong(from, format!("{number} is out of range")))
            }
        },
        _ => Err(wrong_kind(from, "a number")),
    }
}

pub fn flag(from: &Value) -> Read<Option<bool>> {
    from.get_ref().as_bool().map(Some).ok_or_else(|| wrong_kind(from, "a boolean"))
}

pub fn list<'a, 'b>(from: &'a Value<'b>) -> Read<&'a [Value<'b>]> {
    from.get_ref().as_array().map(|array| &array[..]).ok_or_else(|| wrong_kind(from, "an array"))
}

/// A string that `parse` reads.
pub fn parsed<T>(from: &Value, parse: fn(&str) -> Result<T, String>) -> Read<T> {
    parse(string(from)?).map_err(|error| wrong(from, error))
}

/// Nothing that reaches the kernel as a C string may hold a NUL, which TOML can write.
fn plain(from: &Value) -> Read<String> {
    match string(from)? {
        text if text.contains('\0') => Err(wrong(from, "contains a NUL character; expected text")),
        text => Ok(text.to_owned()),
    }
}

pub fn text(from: &Value) -> Read<Option<String>> {
    let text = plain(from)?;
    asked::non_empty(&text).map_err(|error| wrong(from, error + "; expected text"))?;
    Ok(Some(text))
}

pub fn path(from: &Value) -> Read<Option<PathBuf>> {
    Ok(text(from)?.map(PathBuf::from))
}

pub fn prompt(from: &Value) -> Read<Option<OsString>> {
    Ok(Some(OsString::from(plain(from)?)))
}

/// Words that may be empty, as arguments may.
pub fn words(from: &Value) -> Read<Vec<String>> {
    list(from)?.iter().map(plain).collect()
}

pub fn texts(from: &Value) -> Read<Vec<String>> {
    let texts = words(from)?;
    match texts.iter().any(String::is_empty) {
        true => Err(wrong(from, "one of the values is empty; expected text")),
        false => Ok(texts),
    }
}

/// A program and its arguments; an empty list is none.
pub fn command(from: &Value) -> Read<Vec<String>> {
    let words = words(from)?;
    match words.first().is_some_and(String::is_empty) {
        true => Err(wrong(from, "the program is an empty word; expected its name or path")),
        false => Ok(words),
    }
}

pub fn labels(from: &Value) -> Read<Vec<(String, String)>> {
    let labels = words(from)?.iter().map(|text| asked::label_from(text)).collect::<Result<_, _>>();
    labels.and_then(asked::unique).map_err(|error| wrong(from, error))
}

pub fn variables(from: &Value) -> Read<Vec<(OsString, OsString)>> {
    let variables =
        words(from)?.iter().map(|text| asked::variable(OsStr::new(text))).collect::<Result<_, _>>();
    variables.and_then(asked::unique).map_err(|error| wrong(from, error))
}

pub fn choice<T: Named>(from: &Value) -> Read<Option<T>> {
    parsed(from, T::parse).map(Some)
}

pub fn size(from: &Value) -> Read<Option<Size>> {
    parsed(from, durations::parse_size).map(Some)
}

/// Text only: a plain 660 in TOML is decimal, and another mode.
pub fn mode(from: &Value) -> Read<Option<u32>> {
    parsed(from, asked::mode).map(Some)
}

pub fn descriptor(from: &Value) -> Read<Option<i32>> {
    asked::descriptor(&integer(from)?.to_string()).map(Some).map_err(|error| wrong(from, error))
}

/// A name, or a number with or without quotes.
pub fn group(from: &Value) -> Read<Option<String>> {
    const EXPECTED: &str = "the name or number of a group";
    match from.get_ref() {
        DeValue::String(_) => {
            let text = plain(from)?;
            asked::non_empty(&text).map_err(|error| wrong(from, error + "; expected a group"))?;
            Ok(Some(text))
        }
        DeValue::Integer(_) => match integer(from)? {
            number if u32::try_from(number).is_ok() => Ok(Some(number.to_string())),
            number => Err(wrong(from, format!("invalid value: integer `{number}`; expected {EXPECTED}"))),
        },
        _ => Err(wrong_kind(from, EXPECTED)),
    }
}

/// A caller of the socket's group can be no part of a tree, so two roles make sense.
pub fn group_role(from: &Value) -> Read<Option<Role>> {
    match choice(from)? {
        Some(role @ (Role::Agent | Role::Peer)) => Err(wrong(
            from,
            format!("`{}` is not a choice; expected observer or operator", Named::name(role)),
        )),
        role => Ok(role),
    }
}

/// A string, or an integer that means seconds as it does on the command line.
fn time(from: &Value, parse: fn(&str) -> Result<Duration, String>) -> Read<Duration> {
    const EXPECTED: &str = "a duration like \"8s\", \"500ms\" or 8";
    match from.get_ref() {
        DeValue::String(_) => parsed(from, parse),
        DeValue::Integer(_) => match integer(from)? {
            seconds @ 0.. => parse(&seconds.to_string()).map_err(|error| wrong(from, error)),
            seconds => Err(wrong(from, format!("invalid value: integer `{seconds}`; expected {EXPECTED}"))),
        },
        _ => Err(wrong_kind(from, EXPECTED)),
    }
}

pub fn duration(from: &Value) -> Read<Option<Duration>> {
    time(from, durations::parse).map(Some)
}

/// Not zero: with it the policy would spin or never halt.
pub fn positive_duration(from: &Value) -> Read<Option<Duration>> {
    time(from, durations::parse_positive).map(Some)
}

pub fn placed_duration(from: &Value) -> Read<Option<At<Duration>>> {
    let value = time(from, durations::parse_positive)?;
    Ok(Some(At { at: from.span().start, value }))
}

/// Waits must not shrink.
pub fn factor(from: &Value) -> Read<Option<At<f64>>> {
    match number(from)? {
        value if value >= 1.0 && value.is_finite() => Ok(Some(At { at: from.span().start, value })),
        other => Err(wrong(from, format!("the factor {other} is out of range; expected 1 or more"))),
    }
}

pub fn share(from: &Value) -> Read<Option<At<f64>>> {
    match number(from)? {
        value if (0.0..=1.0).contains(&value) => Ok(Some(At { at: from.span().start, value })),
        other => Err(wrong(from, format!("the jitter {other} is out of range; expected 0 to 1"))),
    }
}

pub fn count(from: &Value) -> Read<Option<u32>> {
    match integer(from)? {
        count if count > 0 && u32::try_from(count).is_ok() => Ok(Some(count as u32)),
        count => Err(out_of_range(from, count, "1 or more")),
    }
}

pub fn failure_codes(from: &Value) -> Read<Option<Vec<u8>>> {
    let code = |one: &Value| match integer(one)? {
        code @ 1..=255 => Ok(code as u8),
        code => Err(wrong(from, format!("{code} is no exit code of a failure; expected 1 to 255"))),
    };
    list(from)?.iter().map(code).collect::<Read<_>>().map(Some)
}

pub fn log_bytes(from: &Value) -> Read<Option<u64>> {
    match integer(from)? {
        bytes @ 4096.. => Ok(Some(bytes as u64)),
        bytes => Err(wrong(from, format!("{bytes} bytes are out of range; expected 4096 or more"))),
    }
}

pub fn waits(from: &Value) -> Read<Option<Vec<Duration>>> {
    let waits: Vec<Duration> =
        list(from)?.iter().map(|wait| time(wait, durations::parse)).collect::<Read<_>>()?;
    match waits.len() {
        0..=10 => Ok(Some(waits)),
        many => Err(wrong(from, format!("{many} waits are out of range; expected 10 at most"))),
    }
}

fn within(from: &Value, least: i64, most: i64) -> Read<u32> {
    match integer(from)? {
        number if (least..=most).contains(&number) => Ok(number as u32),
        number => Err(out_of_range(from, number, &format!("{least} to {most}"))),
    }
}

/// None at all may be meant.
pub fn attempts(from: &Value) -> Read<Option<u32>> {
    within(from, 0, 10).map(Some)
}

/// So many within so long: `[3, "15m"]`. 0 is never.
pub fn count_within(from: &Value) -> Read<Option<(u32, Duration)>> {
    let [count, time_within] = list(from)? else {
        return Err(wrong_kind(from, "a number and a duration, like [3, \"15m\"]"));
    };
    Ok(Some((within(count, 0, 1000)?, time(time_within, durations::parse_positive)?)))
}

pub fn rate(from: &Value) -> Read<Option<u32>> {
    within(from, 1, 1000).map(Some)
}

/// What is longer is a file's business; a request holds 64 KiB, and JSON may double a text.
pub fn trigger_bytes(from: &Value) -> Read<Option<usize>> {
    within(from, 1, 16384).map(|bytes| Some(bytes as usize))
}

/// Lines of a few hundred bytes each: more would no longer be a small supervisor.
const MOST_SCROLLBACK: i64 = 100_000;

pub fn chord(from: &Value) -> Read<Option<Chord>> {
    let text = string(from)?;
    let chord = Chord::parse(text).ok_or_else(|| {
        wrong(from, format!(
            "`{text}` is no key to detach with; expected ctrl- and a letter, or one of \\ ] ^ _, but not h, i, j or m"
        ))
    })?;
    Ok(Some(chord))
}

pub fn scrollback(from: &Value) -> Read<Option<usize>> {
    match integer(from)? {
        lines @ 0..=MOST_SCROLLBACK => Ok(Some(lines as usize)),
        lines => Err(wrong(from, format!("{lines} lines are out of range; expected 0 to {MOST_SCROLLBACK}"))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Fixed,
    Exponential,
}

impl Named for Kind {
    const NAMES: &'static [(&'static str, Kind)] =
        &[("fixed", Kind::Fixed), ("exponential", Kind::Exponential)];
}
