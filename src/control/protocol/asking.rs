//! What the agent tells and asks: its hooks, permissions, questions and claims.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an agent tells of itself through `agentsup hook`, by the agent's own names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HookEvent {
    SessionStart,
    /// It was given a prompt.
    UserPromptSubmit,
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    /// It is about to ask a human; `permission.request` asks others first.
    PermissionRequest,
    /// It shows a human something; `kind` says what.
    Notification,
    /// Its turn has ended.
    Stop,
    /// Its turn has ended with an error.
    StopFailure,
    /// Anything else: it lives.
    #[default]
    #[serde(other)]
    Other,
}

/// One hook. All but the event is the agent's own and may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hook {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub event: HookEvent,
    /// The prompt that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tool that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Which use of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// Of a notification: `permission_prompt`, `idle_prompt`, …. Of a `SessionStart`, how it came to its
    /// conversation: `startup`, `clear`, `resume`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of a failed turn: `rate_limit`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same for a tool's request for permission and for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Which conversation this was in: the agent may have begun or taken up another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// What it says of that, at most 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A hook was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heard {
    /// Of a `PermissionRequest`: a `permission.request` has its answer by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Deny,
    /// The agent asks its own human: one is at its terminal.
    NoOpinion,
}

/// The answer to `permission.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decision {
    pub decision: Verdict,
    /// For the agent: why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to `question.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    pub answer: String,
}

/// What was answered: `permission.respond`, `question.respond`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Responded {
    pub request_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionAsked {
    pub request_id: String,
    pub tool: String,
    /// What it is to be used on, without secrets.
    pub input: Value,
    pub asked_at: f64,
    /// When it is denied by itself.
    pub expires_in_ms: u64,
}

/// The answer to `permission.list`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionList {
    pub permissions: Vec<PermissionAsked>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionAsked {
    pub request_id: String,
    pub text: String,
    /// Empty: any answer will do.
    pub choices: Vec<String>,
    pub asked_at: f64,
    pub expires_in_ms: u64,
}

/// The answer to `question.list`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionList {
    pub questions: Vec<QuestionAsked>,
}

/// What became of a `claim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// The ticket is this session's now.
    Claimed,
    /// It was already.
    Already,
    /// It is nobody's any more.
    Released,
}

/// The answer to `claim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Claim {
    pub outcome: ClaimOutcome,
    pub ticket: String,
    pub session: String,
    pub claimed_at: f64,
    /// The session that had claimed it before, and has gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}
