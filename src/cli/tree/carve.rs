//! The config file of a child, carved out of the tree's: what stands in `[[child]]` becomes `[run]`, and
//! `[child.policy]` becomes `[policy]`. Every value keeps its text and, where that can be, its line; `config`
//! reads it by the rules of all config files and complains about the right line of the right file.

use std::fmt::Write;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::source::{Source, Value, entries};

/// The tables of a config file beside `[run]`.
pub const SECTIONS: [&str; 10] =
    ["policy", "halt", "trigger", "rule", "watch", "recovery", "permission", "access", "screen", "log"];

pub struct Carved<'a> {
    source: Source<'a>,
    text: String,
    /// Of each line of the text, that of the file: a header of our own has none, so what stands behind
    /// `policy.base` or in `policy = {…}` is further down than there.
    lines: Vec<usize>,
}

/// A config file, and where it comes from.
pub struct Cut {
    pub text: String,
    /// `env = …` in `[run]`, or where that could stand; `None`: there is no `[run]`.
    pub env_at: Option<Range<usize>>,
    lines: Vec<usize>,
}

impl Cut {
    /// In the tree's file.
    pub fn line(&self, line: usize) -> usize {
        let found = line.checked_sub(1).and_then(|at| self.lines.get(at)).or(self.lines.last());
        found.copied().unwrap_or(1)
    }
}

impl<'a> Carved<'a> {
    pub fn new(source: Source<'a>) -> Carved<'a> {
        Carved { source, text: String::new(), lines: Vec::new() }
    }

    /// `keys` of `table` as `[run]`, and its sections. `more` are lines of `[policy]` for keys that the
    /// table does not name.
    pub fn carve(
        mut self,
        table: &DeTable,
        at: usize,
        is_own: impl Fn(&str) -> bool,
        more: &[(&str, &str)],
    ) -> Cut {
        let entries = entries(table);
        let is_section = |key: &str, value: &Value| SECTIONS.contains(&key) && is_table(value);
        let of_run = entries.iter().filter(|(key, _, value)| !is_own(key) && !is_section(key, value));
        let mut env_at = None;
        for (nth, (key, span, value)) in of_run.enumerate() {
            if nth == 0 {
                self.push_at(at, "[run]");
                env_at = Some(self.text.len()..self.text.len());
            }
            let value = self.value(value);
            let line = format!("{} = {value}", self.source.slice(span.clone()));
            self.push_at(span.start, &line);
            if *key == "env" {
                env_at = Some(self.text.len() - line.len() - 1..self.text.len());
            }
        }
        let mut more = more;
        for (key, span, value) in entries.iter().filter(|(key, _, value)| is_section(key, value)) {
            match value.get_ref() {
                DeValue::Array(list) => {
                    for element in list.iter() {
                        self.push_at(element.span().start, &format!("[[{key}]]"));
                        self.section(element.get_ref(), &[]);
                    }
                }
                section => {
                    self.push_at(span.start, &format!("[{key}]"));
                    let of_policy = if *key == "policy" { std::mem::take(&mut more) } else { &[] };
                    self.section(section, of_policy);
                }
            }
        }
        if !more.is_empty() {
            self.push("[policy]", self.last());
            more.iter().for_each(|(key, value)| self.push(&format!("{key} = {value}"), self.last()));
        }
        Cut { text: self.text, env_at, lines: self.lines }
    }

    fn section(&mut self, section: &DeValue, more: &[(&str, &str)]) {
        let DeValue::Table(table) = section else { return };
        let entries = entries(table);
        for (_, span, value) in &entries {
            let value = self.value(value);
            self.push_at(span.start, &format!("{} = {value}", self.source.slice(span.clone())));
        }
        for (key, value) in more.iter().filter(|(key, _)| !entries.iter().any(|(said, ..)| said == key)) {
            self.push(&format!("{key} = {value}"), self.last());
        }
    }

    /// On the line that it has in the tree's file, unless that has been passed.
    fn push_at(&mut self, at: usize, text: &str) {
        let wanted = self.source.line(at);
        while self.lines.len() + 1 < wanted {
            self.push("", self.lines.len() + 1);
        }
        self.push(text, wanted);
    }

    fn last(&self) -> usize {
        self.lines.last().copied().unwrap_or(1)
    }

    fn push(&mut self, text: &str, line: usize) {
        self.lines.extend(line..=line + text.matches('\n').count());
        self.text += text;
        self.text.push('\n');
    }

    /// As it is written; a table of several lines, which has no one place, in one.
    fn value(&self, value: &Value) -> String {
        let written = self.source.slice(value.span());
        match value.get_ref() {
            DeValue::Table(table) if !written.starts_with('{') => {
                let mut text = "{ ".to_owned();
                for (nth, (_, span, value)) in entries(table).into_iter().enumerate() {
                    let comma = if nth > 0 { ", " } else { "" };
                    let _ = write!(text, "{comma}{} = {}", self.source.slice(span), self.value(value));
                }
                text + " }"
            }
            _ => written.to_owned(),
        }
    }
}

fn is_table(value: &Value) -> bool {
    match value.get_ref() {
        DeValue::Table(_) => true,
        DeValue::Array(list) => list.iter().all(|element| element.get_ref().is_table()) && !list.is_empty(),
        _ => false,
    }
}
