//! What `transcript` streams: the conversation, entry by entry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that was said or done. A frame of its own, known by its `role`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    pub role: Speaker,
    pub kind: EntryKind,
    /// For `tool_use` what tells most of its input.
    pub text: String,
    /// Where the agent wrote it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// For `tool_use` and `tool_result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// The tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// So many bytes of the text or the input are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    User,
    Assistant,
    /// What a tool gave back.
    Tool,
    /// The agent's program itself.
    System,
    /// A client's name for one that a newer supervisor sent.
    #[default]
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    /// An image or a document, which is not sent; `text` says what it is.
    Attachment,
    /// What the user had the agent's program do: `/compact`, `! ls`.
    Command,
    /// What that printed.
    Output,
    /// What stands for all before it, from here on: the conversation was compacted.
    Summary,
    Notice,
    /// The model could not be asked.
    Error,
    /// A client's name for one that a newer supervisor sent.
    #[default]
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// The same for a use and its result.
    pub id: String,
    /// Of a use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of a use; long texts in it are cut, and a huge one is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// Which conversation what follows is of: behind `start`, and again when that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationFrame {
    pub conversation: Conversation,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversation {
    /// The agent's own id for it.
    pub id: String,
    pub news: News,
    /// Nothing has been said in it yet.
    pub empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The one there is.
    Current,
    /// Another one from here on.
    Changed,
    /// The agent replaced its file or took back some of it: its last entries follow once more.
    Rewritten,
    /// A client's name for one that a newer supervisor sent.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedFrame {
    pub skipped: Skipped,
}

/// Lines of the agent's file that are not told here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    pub why: SkippedWhy,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SkippedWhy {
    /// One line over 256 KiB: an image, mostly.
    TooLong,
    /// Nothing that the agent would write.
    Unreadable,
    /// More than 64 MiB before the end; nobody looked.
    TooFarBack,
    /// A client's name for one that a newer supervisor sent.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}
