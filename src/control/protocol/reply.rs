//! What comes back: `{"id":7,"ok":true,…}` or `{"id":7,"ok":false,"error":{…}}`.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{
    Answer, Child, Claim, Code, ConversationFrame, Decision, Entry, Error, Heard, Id, Node, PermissionList,
    QuestionList, Responded, SkippedFrame, State, Tree, Trigger, TriggerList, WaitFor,
};
use crate::control::frame::{self, EncodeError, Framing};
use crate::control::json::{self, Wrong};
use crate::sorted::Sorted;

/// A supervisor sends [`Body`]; a client reads the one that belongs to its call: `Reply<Pid>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply<B = Body> {
    pub id: Option<Id>,
    pub result: Result<B, Error>,
}

/// Everything a supervisor says when the answer is not an error.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Body {
    Pong(Pong),
    State(Box<State>),
    /// `pid`, `restart`, `resume`.
    Pid(Pid),
    Interrupted(Interrupted),
    /// `pause`, `idle`, `done`, `describe`, `progress`, `heartbeat`, `thread.unblock`,
    /// `resize`, `detach`.
    Ack(Ack),
    Injected(Injected),
    Sent(Sent),
    /// `trigger`, `trigger.status`, `trigger.cancel`, `ack`.
    Trigger(Box<Trigger>),
    TriggerList(TriggerList),
    /// `hook`.
    Heard(Heard),
    /// `permission.request`.
    Decision(Decision),
    PermissionList(PermissionList),
    /// `question.request`.
    Answer(Answer),
    QuestionList(QuestionList),
    /// `permission.respond`, `question.respond`.
    Responded(Responded),
    Claim(Claim),
    Stopped(Stopped),
    Screen(Box<Screen>),
    /// `attach`: first `attached`, then whatever is not for the terminal.
    Attach(AttachFrame),
    Waited(Waited),
    /// `tree`.
    Node(Box<Node>),
    /// `child.add`, `child.remove`, `child.start`, `child.stop`, `child.restart`.
    Child(Box<Child>),
    Stats(Box<Stats>),
    Metrics(Metrics),
    /// `events`, `logs`, `transcript`: one of many.
    Stream(StreamFrame),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pong {
    pub version: String,
    pub protocol: u32,
    pub session: String,
}

/// The agent that is really running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pid {
    pub pid: i32,
}

/// Done; there is nothing to add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ack {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Injected {
    /// Bytes written.
    pub n: u64,
}

/// How far a text that was sent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sent {
    pub receipt: Receipt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// It stands in the agent's line; no Enter was asked for.
    Written,
    /// Enter was pressed. Whether the agent took it as a prompt is not known.
    Submitted,
    /// The agent itself said that it was given this prompt.
    Confirmed,
}

impl Receipt {
    pub fn name(self) -> &'static str {
        match self {
            Receipt::Written => "written",
            Receipt::Submitted => "submitted",
            Receipt::Confirmed => "confirmed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupted {
    pub key: Key,
}

/// What became of the key that cancels a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Key {
    Pressed,
    /// The agent has no turn to cancel.
    Idle,
    /// It was pressed a moment ago, and what it did is not known yet.
    Already,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stopped {
    /// A stop was under way before this one.
    pub already: bool,
}

/// What the agent's terminal shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Screen {
    /// Lines, joined by newlines; without blanks at their ends and blank lines at the end.
    pub text: String,
    pub cursor: Cursor,
    pub rows: u32,
    pub cols: u32,
    /// Of the window; empty when the agent has given none.
    pub title: String,
}

/// Counted from 0, from the top left of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cursor {
    pub row: u32,
    pub col: u32,
    pub visible: bool,
}

/// What an attached caller is told beside terminal bytes; each has a key of its own to know it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AttachFrame {
    Attached(Attached),
    Suspend(Suspend),
    Over(Over),
    /// A client's name for a frame that a newer supervisor sent: to be skipped.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Other(serde_json::Map<String, Value>),
}

/// First: the caller is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attached {
    /// Always true.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub attached: bool,
    pub session: String,
    pub readonly: bool,
    /// Pressed twice it is the client's to act upon: `ctrl-\\`, `ctrl-b`, ….
    pub detach_key: String,
    /// Of the agent's terminal.
    pub rows: u16,
    pub cols: u16,
}

/// Ctrl-Z was typed: the client may suspend itself, the agent goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspend {
    /// Always true.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub suspend: bool,
}

/// Last: the session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Over {
    /// Always true.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub ended: bool,
}

/// The state that ended a `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waited {
    /// What was waited for.
    pub reason: WaitFor,
    /// `exit`, `halted`: the code of the last exit; 0 when no agent ever ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// `ready`: the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// Figures since the supervisor started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stats {
    pub uptime_ms: u64,
    pub restarts: u64,
    /// How many of each class.
    pub exits: Sorted<String, u64>,
    pub orphans_reaped: u64,
    /// How long agents have run, all together.
    #[serde(default)]
    pub run_ms: u64,
    /// Prompts that the agent says it was given, turns that it ended, and those that ended with an error.
    #[serde(default)]
    pub prompts: u64,
    #[serde(default)]
    pub turns: u64,
    #[serde(default)]
    pub failed_turns: u64,
    /// `asked`, `allowed`, `denied`, `expired`.
    #[serde(default)]
    pub permissions: Sorted<String, u64>,
    /// `asked`, `answered`.
    #[serde(default)]
    pub questions: Sorted<String, u64>,
    /// `attempts`, `delivered`, `failed`, `deferred`, `refused`.
    #[serde(default)]
    pub triggers: Sorted<String, u64>,
    /// The agent and all below it; null where nobody can look.
    #[serde(default)]
    pub tree: Option<Tree>,
    /// What the agent wrote to its terminal.
    pub output_bytes: u64,
    /// What was typed into it, by the operator and by callers, and as answers of a terminal.
    pub input_bytes: u64,
    /// Connected now, this one included.
    pub callers: u64,
    pub callers_most: u64,
    /// Closed by the supervisor: slow readers, half-sent frames, the limit.
    pub callers_dropped: u64,
    /// Of the callers, those that are attached.
    #[serde(default)]
    pub attached: u64,
    /// By method.
    pub calls: Sorted<String, Calls>,
    /// The `seq` of the newest event.
    pub events: u64,
    pub log_lost: u64,
    /// What the agent has used since the supervisor started; nothing where its transcript cannot be read.
    #[serde(default)]
    pub tokens: Tokens,
    /// How often it used each tool.
    #[serde(default)]
    pub tools: Sorted<String, u64>,
    /// Of the supervisor alone.
    pub resident_bytes: u64,
    pub cpu_ms: u64,
    pub open_files: u64,
}

/// As the agent's own transcript tells, a message counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_created: u64,
    /// All four.
    pub total: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calls {
    pub ok: u64,
    pub error: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metrics {
    /// Prometheus text, version 0.0.4.
    pub text: String,
}

/// One frame of a stream; each has a key of its own to know it by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum StreamFrame {
    Event(EventFrame),
    Log(LogLine),
    Dropped(Dropped),
    Entry(Box<Entry>),
    Conversation(ConversationFrame),
    Skipped(SkippedFrame),
    End(End),
    Start(Start),
    /// A client's name for a frame that a newer supervisor sent: to be skipped.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Other(serde_json::Map<String, Value>),
}

/// As serde's `untagged` would read them, without a second reader for all that is in them.
macro_rules! read_what_fits {
    ($Frame:ident: $($kind:ident)+) => {
        impl<'de> Deserialize<'de> for $Frame {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$Frame, D::Error> {
                let all = Value::deserialize(from)?;
                $(
                    if let Ok(it) = json::read(&all) {
                        return Ok($Frame::$kind(it));
                    }
                )+
                Err(D::Error::custom(concat!("no ", stringify!($Frame))))
            }
        }
    };
}

read_what_fits! { AttachFrame: Attached Suspend Over Other }
read_what_fits! { StreamFrame: Event Log Dropped Entry Conversation Skipped End Start Other }

/// First in every stream: from here on nothing is missed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Start {
    /// Always true.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub start: bool,
    /// When the supervisor began: `seq` counts from there.
    pub started_at: f64,
    /// The `seq` of the newest event so far, 0 before the first.
    pub newest: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventFrame {
    pub event: Event,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// 1, 2, 3 … in each life of a supervisor.
    pub seq: u64,
    pub at: f64,
    /// As in the log.
    pub name: String,
    pub fields: Sorted<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogLine {
    /// Without its newline.
    pub line: String,
}

/// The reader was too slow, or `since` is older than what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// How many are missing here.
    pub dropped: u64,
}

/// Last in a stream that was not to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct End {
    /// Always true.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub end: bool,
}

impl Reply {
    pub fn ok(id: Option<Id>, body: Body) -> Reply {
        Reply { id, result: Ok(body) }
    }

    pub fn error(id: Option<Id>, code: Code, message: impl Into<String>) -> Reply {
        Reply { id, result: Err(Error::new(code, message)) }
    }

    /// Always gives a frame: what is too large is answered by an error that says so.
    pub fn to_frame(&self, framing: Framing) -> Vec<u8> {
        let refused = match frame::encode(framing, self, frame::REPLY_MAX) {
            Ok(frame) => return frame,
            Err(EncodeError::TooLarge { size }) => {
                let message = format!("the reply is {size} bytes long, {} are allowed", frame::REPLY_MAX);
                Reply::error(self.id.clone(), Code::TooLarge, message)
            }
            Err(EncodeError::Json(why)) => Reply::error(self.id.clone(), Code::Internal, why),
        };
        frame::encode(framing, &refused, usize::MAX).unwrap_or_default()
    }
}

impl From<(Option<Id>, Error)> for Reply {
    fn from((id, error): (Option<Id>, Error)) -> Reply {
        Reply { id, result: Err(error) }
    }
}

impl<B: DeserializeOwned> Reply<B> {
    /// One frame's JSON, as a client reads it. The error says what is wrong with the reply.
    pub fn parse(bytes: &[u8]) -> Result<Reply<B>, String> {
        let Reply { id, result } = untyped(bytes).map_err(|why| why.to_string())?;
        let result = match result {
            Ok(body) => Ok(json::read(&body).map_err(|why| why.to_string())?),
            Err(error) => Err(error),
        };
        Ok(Reply { id, result })
    }
}

/// The same for all bodies.
pub fn untyped(bytes: &[u8]) -> Result<Reply<Value>, Wrong> {
    let mut all = json::parse(bytes)?;
    let fields = all.as_object_mut().ok_or_else(|| Wrong::custom("it is no object"))?;
    let id = fields.remove("id").map(Id::from_value).transpose().map_err(Wrong::custom)?;
    let result = match (fields.remove("ok"), fields.remove("error")) {
        (Some(Value::Bool(true)), _) => Ok(all),
        (Some(Value::Bool(false)), Some(error)) => Err(json::read(&error)?),
        (Some(Value::Bool(false)), None) => return Err(Wrong::missing_field("error")),
        _ => return Err(Wrong::missing_field("ok")),
    };
    Ok(Reply { id, result })
}

#[derive(Serialize)]
struct Wire<'a, B> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    ok: bool,
    #[serde(flatten)]
    body: Option<&'a B>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

impl<B: Serialize> Serialize for Reply<B> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (body, error) = match &self.result {
            Ok(body) => (Some(body), None),
            Err(error) => (None, Some(error)),
        };
        Wire { id: self.id.as_ref(), ok: error.is_none(), body, error }.serialize(to)
    }
}
