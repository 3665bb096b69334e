//! How single values of the config file are read. Errors become the words after `FILE:LINE:`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::cli::asked;
use crate::cli::duration as durations;
use crate::cli::names::Named;
use crate::control::access::Role;
use crate::screen::chord::Chord;
use crate::supervisor::settings::Size;

/// Nothing that reaches the kernel as a C string may hold a NUL, which TOML can write.
fn plain<E: Error>(text: String) -> Result<String, E> {
    if text.contains('\0') { Err(E::custom("contains a NUL character; expected text")) } else { Ok(text) }
}

pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = plain::<D::Error>(String::deserialize(from)?)?;
    asked::non_empty(&text).map_err(|error| D::Error::custom(error + "; expected text"))?;
    Ok(Some(text))
}

pub fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(from)?.map(PathBuf::from))
}

pub fn prompt<'de, D: Deserializer<'de>>(from: D) -> Result<Option<OsString>, D::Error> {
    Ok(Some(OsString::from(plain::<D::Error>(String::deserialize(from)?)?)))
}

/// Words that may be empty, as arguments may.
pub fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Vec::<String>::deserialize(from)?.into_iter().map(plain).collect()
}

pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let texts = words(from)?;
    match texts.iter().any(String::is_empty) {
        true => Err(D::Error::custom("one of the values is empty; expected text")),
        false => Ok(texts),
    }
}

/// A program and its arguments; an empty list is none.
pub fn command<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let words = words(from)?;
    match words.first().is_some_and(String::is_empty) {
        true => Err(D::Error::custom("the program is an empty word; expected its name or path")),
        false => Ok(words),
    }
}

pub fn labels<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    let labels = words(from)?.iter().map(|text| asked::label_from(text)).collect::<Result<_, _>>();
    labels.and_then(asked::unique).map_err(D::Error::custom)
}

pub fn variables<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(OsString, OsString)>, D::Error> {
    let variables =
        words(from)?.iter().map(|text| asked::variable(OsStr::new(text))).collect::<Result<_, _>>();
    variables.and_then(asked::unique).map_err(D::Error::custom)
}

pub fn choice<'de, D: Deserializer<'de>, T: Named>(from: D) -> Result<Option<T>, D::Error> {
    T::parse(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Size>, D::Error> {
    durations::parse_size(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// Text only: a plain 660 in TOML is decimal, and another mode.
pub fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    asked::mode(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

pub fn descriptor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    asked::descriptor(&i64::deserialize(from)?.to_string()).map(Some).map_err(D::Error::custom)
}

/// A name, or a number with or without quotes.
pub fn group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    struct Group;

    impl Visitor<'_> for Group {
        type Value = String;

        fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
            out.write_str("the name or number of a group")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            let text = plain(text.to_owned())?;
            asked::non_empty(&text).map_err(|error| E::custom(error + "; expected a group"))?;
            Ok(text)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
            match u32::try_from(number) {
                Ok(gid) => Ok(gid.to_string()),
                Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
            }
        }
    }

    from.deserialize_any(Group).map(Some)
}

/// A caller of the socket's group can be no part of a tree, so two roles make sense.
pub fn group_role<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Role>, D::Error> {
    match choice(from)? {
        Some(role @ (Role::Observer | Role::Operator)) => Ok(Some(role)),
        Some(role @ (Role::Agent | Role::Peer)) => Err(D::Error::custom(format!(
            "`{}` is not a choice; expected observer or operator",
            Named::name(role)
        ))),
        None => Ok(None),
    }
}

pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    from.deserialize_any(DurationText(durations::parse)).map(Some)
}

pub fn positive_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Positive::deserialize(from).map(|Positive(duration)| Some(duration))
}

/// A string, or an integer that means seconds as it does on the command line.
struct DurationText(fn(&str) -> Result<Duration, String>);

impl Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a duration like \"8s\", \"500ms\" or 8")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        if seconds < 0 {
            return Err(E::invalid_value(Unexpected::Signed(seconds), &self));
        }
        (self.0)(&seconds.to_string()).map_err(E::custom)
    }
}

/// A duration that is not zero: with it the policy would spin or never halt.
#[derive(Debug)]
pub struct Positive(pub Duration);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Positive, D::Error> {
        from.deserialize_any(DurationText(durations::parse_positive)).map(Positive)
    }
}

/// Waits must not shrink.
#[derive(Debug)]
pub struct Factor(pub f64);

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Factor, D::Error> {
        match f64::deserialize(from)? {
            factor if factor >= 1.0 && factor.is_finite() => Ok(Factor(factor)),
            other => Err(D::Error::custom(format!("the factor {other} is out of range; expected 1 or more"))),
        }
    }
}

#[derive(Debug)]
pub struct Share(pub f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
        match f64::deserialize(from)? {
            share if (0.0..=1.0).contains(&share) => Ok(Share(share)),
            other => Err(D::Error::custom(format!("the jitter {other} is out of range; expected 0 to 1"))),
        }
    }
}

pub fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let count = i64::deserialize(from)?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(D::Error::custom(format!("{count} is out of range; expected 1 or more"))),
    }
}

pub fn failure_codes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    let code = |code: i64| match u8::try_from(code) {
        Ok(code) if code > 0 => Ok(code),
        _ => Err(D::Error::custom(format!("{code} is no exit code of a failure; expected 1 to 255"))),
    };
    Vec::<i64>::deserialize(from)?.into_iter().map(code).collect::<Result<_, _>>().map(Some)
}

pub fn log_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let bytes = i64::deserialize(from)?;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes >= 4096 => Ok(Some(bytes)),
        _ => Err(D::Error::custom(format!("{bytes} bytes are out of range; expected 4096 or more"))),
    }
}

/// A plain duration within a list.
struct Plain(Duration);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Plain, D::Error> {
        from.deserialize_any(DurationText(durations::parse)).map(Plain)
    }
}

pub fn waits<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Duration>>, D::Error> {
    let waits: Vec<Duration> = Vec::<Plain>::deserialize(from)?.into_iter().map(|Plain(wait)| wait).collect();
    match waits.len() {
        0..=10 => Ok(Some(waits)),
        many => Err(D::Error::custom(format!("{many} waits are out of range; expected 10 at most"))),
    }
}

fn within<'de, D: Deserializer<'de>>(from: D, most: u32) -> Result<u32, D::Error> {
    let number = i64::deserialize(from)?;
    match u32::try_from(number) {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(D::Error::custom(format!("{number} is out of range; expected 1 to {most}"))),
    }
}

/// None at all may be meant.
pub fn attempts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = i64::deserialize(from)?;
    match u32::try_from(number) {
        Ok(number) if number <= 10 => Ok(Some(number)),
        _ => Err(D::Error::custom(format!("{number} is out of range; expected 0 to 10"))),
    }
}

/// So many within so long: `[3, "15m"]`. 0 is never.
pub fn count_within<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(u32, Duration)>, D::Error> {
    let (count, Positive(within)) = <(i64, Positive)>::deserialize(from)?;
    match u32::try_from(count) {
        Ok(count) if count <= 1000 => Ok(Some((count, within))),
        _ => Err(D::Error::custom(format!("{count} is out of range; expected 0 to 1000"))),
    }
}

pub fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    within(from, 1000).map(Some)
}

/// What is longer is a file's business; a request holds 64 KiB, and JSON may double a text.
pub fn trigger_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    within(from, 16384).map(|bytes| Some(bytes as usize))
}

/// Lines of a few hundred bytes each: more would no longer be a small supervisor.
const MOST_SCROLLBACK: usize = 100_000;

pub fn chord<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Chord>, D::Error> {
    let text = String::deserialize(from)?;
    let chord = Chord::parse(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "`{text}` is no key to detach with; expected ctrl- and a letter, or one of \\ ] ^ _, but not h, i, j or m"
        ))
    })?;
    Ok(Some(chord))
}

pub fn scrollback<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let lines = i64::deserialize(from)?;
    match usize::try_from(lines) {
        Ok(lines) if lines <= MOST_SCROLLBACK => Ok(Some(lines)),
        _ => {
            Err(D::Error::custom(format!("{lines} lines are out of range; expected 0 to {MOST_SCROLLBACK}")))
        }
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

pub fn backoff<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Kind>, D::Error> {
    choice(from)
}
