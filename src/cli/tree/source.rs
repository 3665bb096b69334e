//! A TOML file with its spans: keys taken out one by one, every complaint with file and line.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cli::duration;
use crate::cli::names::{Named, nearest};
use crate::cli::{Failure, asked};

/// A tree is written by hand; beyond this it is some other file.
const LARGEST: u64 = 1 << 20;

const TOO_DEEP: &str = "nested too deeply; expected tables and lists that a person can follow";

pub type Value<'a> = Spanned<DeValue<'a>>;

pub fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}; expected a TOML file"))?;
    if bytes.len() as u64 > LARGEST {
        return Err("is larger than 1 MiB; expected a TOML file".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let fine = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + fine.iter().filter(|byte| **byte == b'\n').count();
        format!("is not UTF-8 text in line {line}; expected TOML")
    })
}

#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    pub fn line(self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    pub fn refuse(self, at: usize, message: impl AsRef<str>) -> Failure {
        Failure::refused(format!("{}:{}: {}", self.path.display(), self.line(at), message.as_ref()))
    }

    pub fn parse(self) -> Result<Spanned<DeTable<'a>>, Failure> {
        DeTable::parse(self.text).map_err(|error| {
            let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            let span = error.span().unwrap_or(0..0);
            // Of a key with too many dots the parser does not say where it stands.
            if words == "recursion limit" {
                return self.refuse(self.most_dotted(), TOO_DEEP);
            }
            let said = match &*words {
                words if words.starts_with("cannot recurse further") => TOO_DEEP.to_owned(),
                "duplicate key" => format!("duplicate key `{}`; expected it once", self.slice(span.clone())),
                words => words.replacen(", expected", "; expected", 1),
            };
            self.refuse(span.start, said)
        })
    }

    /// The line with the most dots.
    fn most_dotted(self) -> usize {
        let mut at = 0;
        let lines = self.text.split_inclusive('\n').map(|line| {
            at += line.len();
            (line.matches('.').count(), std::cmp::Reverse(at - line.len()))
        });
        lines.max().map_or(0, |(_, std::cmp::Reverse(at))| at)
    }

    /// As it is written.
    pub fn slice(self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }
}

/// The keys of a table in the order of the file.
pub fn entries<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t str, Range<usize>, &'t Value<'a>)> {
    let mut entries: Vec<_> =
        table.iter().map(|(key, value)| (&**key.get_ref(), key.span(), value)).collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

/// A table whose keys are taken out; what is not known in the end is refused.
pub struct Table<'t, 'a> {
    source: Source<'a>,
    /// Where it begins.
    pub at: usize,
    entries: Vec<(&'t str, Range<usize>, &'t Value<'a>)>,
    asked: BTreeSet<&'static str>,
}

impl<'t, 'a> Table<'t, 'a> {
    pub fn of(source: Source<'a>, value: &'t Value<'a>, what: &str) -> Result<Table<'t, 'a>, Failure> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => Ok(Table::new(source, at, table)),
            other => Err(source.refuse(at, wrong(other, what))),
        }
    }

    pub fn new(source: Source<'a>, at: usize, table: &'t DeTable<'a>) -> Table<'t, 'a> {
        Table { source, at, entries: entries(table), asked: BTreeSet::new() }
    }

    pub fn entries(&self) -> &[(&'t str, Range<usize>, &'t Value<'a>)] {
        &self.entries
    }

    pub fn find(&mut self, key: &'static str) -> Option<&'t Value<'a>> {
        self.asked.insert(key);
        self.entries.iter().find(|(name, ..)| *name == key).map(|(_, _, value)| *value)
    }

    /// Where the key stands, or the table.
    pub fn place(&self, key: &str) -> usize {
        self.entries.iter().find(|(name, ..)| *name == key).map_or(self.at, |(_, span, _)| span.start)
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&DeValue<'a>) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.find(key) else { return Ok(None) };
        let refuse = |why: String| self.source.refuse(value.span().start, format!("`{key}`: {why}"));
        parse(value.get_ref()).map(Some).map_err(refuse)
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Failure> {
        self.read(key, |value| text(value, "text"))
    }

    pub fn choice<T: Named>(&mut self, key: &'static str) -> Result<Option<T>, Failure> {
        self.read(key, |value| T::parse(&text(value, "text")?))
    }

    /// Text, or a number of seconds.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<Duration>, Failure> {
        self.read(key, |value| match value {
            DeValue::String(text) => duration::parse(text),
            DeValue::Integer(_) => Ok(Duration::from_secs(count(value, 0, 1_000_000_000)? as u64)),
            other => Err(wrong(other, "a duration like \"30s\"")),
        })
    }

    pub fn count(&mut self, key: &'static str, least: i64, most: i64) -> Result<Option<usize>, Failure> {
        self.read(key, |value| count(value, least, most))
    }

    /// A list of words, or one word.
    pub fn names(&mut self, key: &'static str) -> Result<Vec<String>, Failure> {
        let names = self.read(key, |value| match value {
            DeValue::String(_) => Ok(vec![text(value, "text")?]),
            DeValue::Array(list) => list.iter().map(|value| text(value.get_ref(), "text")).collect(),
            other => Err(wrong(other, "the id of a child, or a list of them")),
        })?;
        Ok(names.unwrap_or_default())
    }

    /// A program and its arguments, which may be empty.
    pub fn command(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Failure> {
        const WANTED: &str = "a list of words: the program and its arguments";
        self.read(key, |value| {
            let DeValue::Array(list) = value else { return Err(wrong(value, WANTED)) };
            let word = |value: &Value<'a>| match value.get_ref() {
                DeValue::String(word) if word.contains('\0') => {
                    Err("contains a NUL character; expected text".to_owned())
                }
                DeValue::String(word) => Ok(word.to_string()),
                other => Err(wrong(other, WANTED)),
            };
            let words = list.iter().map(word).collect::<Result<Vec<String>, String>>()?;
            match words.first().is_some_and(|program| !program.is_empty()) {
                true => Ok(words),
                false => Err(format!("it is empty; expected {WANTED}")),
            }
        })
    }

    /// Whatever is left is not known, and these would have been too.
    pub fn done(&self, also: &[&str]) -> Result<(), Failure> {
        let known: Vec<&str> = self.asked.iter().copied().chain(also.iter().copied()).collect();
        let unknown = self.entries.iter().find(|(key, ..)| !known.contains(key));
        let Some((key, span, _)) = unknown else { return Ok(()) };
        let hint = match nearest(key, known.iter().copied()) {
            Some(meant) => format!("expected `{meant}`?"),
            None => format!("expected one of {}", known.join(", ")),
        };
        Err(self.source.refuse(span.start, format!("unknown key `{key}`; {hint}")))
    }
}

pub fn wrong(value: &DeValue, expected: &str) -> String {
    format!("invalid type: {}; expected {expected}", value.type_str())
}

fn text(value: &DeValue, expected: &str) -> Result<String, String> {
    let DeValue::String(text) = value else { return Err(wrong(value, expected)) };
    if text.contains('\0') {
        return Err("contains a NUL character; expected text".to_owned());
    }
    asked::non_empty(text).map(str::to_owned).map_err(|why| format!("{why}; expected text"))
}

fn count(value: &DeValue, least: i64, most: i64) -> Result<usize, String> {
    let DeValue::Integer(number) = value else { return Err(wrong(value, "a whole number")) };
    let read = i64::from_str_radix(number.as_str(), number.radix()).ok();
    match read.filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(usize::try_from(number).unwrap_or_default()),
        None => Err(format!("{} is out of range; expected {least} to {most}", number.as_str())),
    }
}
