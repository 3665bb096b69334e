//! What callers are told of a line: without secrets, and never more than a frame may hold.

use serde_json::Value;

use crate::control::protocol::{Entry, EntryKind, Skipped, SkippedWhy, Speaker, Tool};
use crate::log::Log;
use crate::session::transcript::lines::Line;
use crate::session::transcript::{self as session, Kind, Role};

/// Of one text. A slow reader may have one such frame waiting.
const TEXT_MAX: usize = 64 * 1024;
/// Of each text in a tool's input, once that is longer than [`TEXT_MAX`].
const VALUE_MAX: usize = 1024;

pub enum Meaning {
    Entries(Vec<session::Entry>),
    Skipped(Skipped),
}

/// The file is the agent's: whatever stands in it means something, if only that it was passed over.
pub fn meaning(line: Line) -> Meaning {
    let bytes = match line {
        Line::TooLong(bytes) => return Meaning::Skipped(Skipped { why: SkippedWhy::TooLong, bytes }),
        Line::Whole(line) if line.trim_ascii().is_empty() => return Meaning::Entries(vec![]),
        Line::Whole(line) => line,
    };
    match session::entries(&String::from_utf8_lossy(bytes)) {
        Ok(entries) => Meaning::Entries(entries),
        Err(session::Unreadable) => {
            Meaning::Skipped(Skipped { why: SkippedWhy::Unreadable, bytes: bytes.len() as u64 })
        }
    }
}

impl Meaning {
    /// How many of the entries that a caller asks for.
    pub fn worth(&self) -> u64 {
        match self {
            Meaning::Entries(entries) => entries.len() as u64,
            Meaning::Skipped(_) => 1,
        }
    }
}

/// Masked first: what is cut off a secret would not be known as one any more.
pub fn told(entry: session::Entry, log: &Log) -> Entry {
    let mut cut = 0;
    let (mut text, mut tool) = (log.mask(&entry.text), None);
    if let Some(session::Tool { id, name, input }) = entry.tool {
        let input = masked(input, log);
        if entry.kind == Kind::ToolUse {
            text = session::gist(&input);
        }
        tool = Some(Tool {
            id: shortened(log.mask(&id), VALUE_MAX, &mut cut),
            name: name.map(|name| shortened(log.mask(&name), VALUE_MAX, &mut cut)),
            input: fitting(input, &mut cut),
        });
    }
    Entry {
        role: match entry.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::Tool => Speaker::Tool,
            Role::System => Speaker::System,
        },
        kind: match entry.kind {
            Kind::Text => EntryKind::Text,
            Kind::Thinking => EntryKind::Thinking,
            Kind::ToolUse => EntryKind::ToolUse,
            Kind::ToolResult => EntryKind::ToolResult,
            Kind::Attachment => EntryKind::Attachment,
            Kind::Command => EntryKind::Command,
            Kind::Output => EntryKind::Output,
            Kind::Summary => EntryKind::Summary,
            Kind::Notice => EntryKind::Notice,
            Kind::Error => EntryKind::Error,
        },
        text: shortened(text, TEXT_MAX, &mut cut),
        at: entry.at,
        tool,
        is_error: entry.failed,
        cut,
    }
}

fn shortened(mut text: String, most: usize, cut: &mut u64) -> String {
    if text.len() > most {
        let kept = text.floor_char_boundary(most);
        *cut += (text.len() - kept) as u64;
        text.truncate(kept);
    }
    text
}

/// No deeper than a line of JSON may be to be read at all.
fn masked(value: Value, log: &Log) -> Value {
    match value {
        Value::String(text) => Value::String(log.mask(&text)),
        Value::Array(values) => values.into_iter().map(|value| masked(value, log)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (log.mask(&key), masked(value, log))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// A tool's input as it is, or with its long texts cut, or not at all.
fn fitting(input: Value, cut: &mut u64) -> Option<Value> {
    let size = |value: &Value| value.to_string().len();
    if input.is_null() || size(&input) <= TEXT_MAX {
        return Some(input).filter(|input| !input.is_null());
    }
    let mut left_out = 0;
    let short = with_short_texts(input, &mut left_out);
    match size(&short) {
        0..=TEXT_MAX => {
            *cut += left_out;
            Some(short)
        }
        rest => {
            *cut += left_out + rest as u64;
            None
        }
    }
}

fn with_short_texts(value: Value, cut: &mut u64) -> Value {
    match value {
        Value::String(text) => Value::String(shortened(text, VALUE_MAX, cut)),
        Value::Array(values) => values.into_iter().map(|value| with_short_texts(value, cut)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, with_short_texts(value, cut))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
