//! The conversation as the agent itself writes it down: where its file lies (`place`), how it is
//! read from either end in small pieces (`lines`), what a line of it means (`claude`) and costs (`usage`). Called by
//! `supervisor` for callers that read or follow it. The file is the agent's, so anything may stand
//! in it; nothing here opens it, keeps it or fails on it.

mod claude;
pub mod lines;
mod place;
mod usage;

use serde_json::Value;

pub use claude::{LastWord, Unreadable, entries, last_word};
pub use place::Place;
pub use usage::{Spent, Tokens};

/// One thing that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Seconds since 1970.
    pub at: Option<f64>,
    pub role: Role,
    pub kind: Kind,
    pub text: String,
    pub tool: Option<Tool>,
    /// Of a tool's result.
    pub failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    /// What a tool gave back.
    Tool,
    /// The agent's program itself.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    /// An image or a document; the text says which.
    Attachment,
    /// What the user had the agent's program do: `/compact`, `! ls`.
    Command,
    /// What that printed.
    Output,
    /// What stands for all before it, from here on.
    Summary,
    Notice,
    /// The model could not be asked.
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The same for a use and its result.
    pub id: String,
    /// `None` for a result.
    pub name: Option<String>,
    pub input: Value,
}

/// What tells most about the use of a tool, if it is among its input.
const TELLING: &[&str] = &[
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "path",
    "url",
    "query",
    "description",
    "prompt",
    "skill",
    "question",
];

/// The use of a tool in few words.
pub fn gist(input: &Value) -> String {
    let text = |key: &&str| input.get(*key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match TELLING.iter().find_map(text) {
        Some(text) => text.to_owned(),
        None if input.as_object().is_some_and(|object| !object.is_empty()) => input.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
