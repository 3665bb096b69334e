//! What a caller can ask for.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::params::Params;
use super::{Code, Error, Hook};
use crate::sorted::Sorted;

/// How a restart treats the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Fresh,
    #[default]
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// An agent runs: its exec succeeded.
    Ready,
    /// The agent has nothing to do, as far as it says.
    Idle,
    /// No agent runs, and none is being started.
    Exit,
    /// The supervisor has given up on the agent.
    Halted,
}

pub const LINES_BY_DEFAULT: u32 = 100;

/// A method with its params, the defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Call {
    Ping,
    State {
        /// Say what `activity` and `health` are concluded from.
        #[serde(default)]
        why: bool,
        /// Look at the whole process tree.
        #[serde(default)]
        deep: bool,
    },
    Pid,
    Restart {
        #[serde(default)]
        mode: Mode,
    },
    Interrupt,
    Pause,
    Resume,
    Inject {
        /// Base64 (RFC 4648 §4), padding optional; written to the agent's terminal as they are.
        #[serde(serialize_with = "super::params::as_base64")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        bytes: Vec<u8>,
    },
    Send {
        /// What is typed into the agent's line, without its control characters but newline and tab.
        text: String,
        /// Press Enter behind it.
        #[serde(default = "yes")]
        submit: bool,
        /// Type it although a draft stands in the line.
        #[serde(default)]
        force: bool,
    },
    Hook(Hook),
    /// Answered when somebody has, or the time for that is over.
    #[serde(rename = "permission.request")]
    PermissionRequest {
        tool: String,
        /// What it is to be used on.
        #[serde(default)]
        input: Value,
        /// The same again, while it waits, is the same request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    #[serde(rename = "permission.respond")]
    PermissionRespond {
        /// Absent: the only one that waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        allow: bool,
        /// For the agent: why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "permission.list")]
    PermissionList,
    /// Answered when somebody has, or the time for that is over.
    #[serde(rename = "question.request")]
    QuestionRequest {
        text: String,
        /// Only one of these will do. Empty: anything.
        #[serde(default)]
        choices: Vec<String>,
        /// The same again, while it waits, is the same request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    #[serde(rename = "question.respond")]
    QuestionRespond {
        /// Absent: the only one that waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        answer: String,
    },
    #[serde(rename = "question.list")]
    QuestionList,
    /// By the agent: it has nothing to do.
    Idle,
    /// By the agent: what it was started for is done.
    Done {
        /// The outcome, in a few words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// By the agent: what it is about, in a few words.
    Describe {
        text: String,
    },
    /// The ticket is to be this session's own.
    Claim {
        /// One line of text.
        ticket: String,
        /// It is to be nobody's again.
        #[serde(default)]
        release: bool,
    },
    Trigger {
        thread: String,
        /// At most 16 KiB, without control characters but newline and tab.
        text: String,
        /// A few words for the agent: what the trigger is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The same id again is the same trigger. Absent: a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger_id: Option<String>,
        /// Type it although an operator is at work; needs `why`.
        #[serde(default)]
        force: bool,
        /// For the log: why it is forced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Answer when it has ended. False: at once.
        #[serde(default = "yes")]
        wait: bool,
    },
    #[serde(rename = "trigger.status")]
    TriggerStatus {
        trigger_id: String,
    },
    #[serde(rename = "trigger.list")]
    TriggerList,
    #[serde(rename = "trigger.cancel")]
    TriggerCancel {
        trigger_id: String,
    },
    Ack {
        /// This or `thread`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger_id: Option<String>,
        /// The thread whose trigger is under way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<String>,
    },
    Progress {
        /// This or `thread`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<String>,
        /// What was found; the same again is no progress.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finding: Option<String>,
    },
    Heartbeat,
    #[serde(rename = "thread.unblock")]
    ThreadUnblock {
        thread: String,
    },
    Stop {
        /// False: KILL at once.
        #[serde(default = "yes")]
        graceful: bool,
    },
    Screen {
        /// That many of the last lines which hold something, what scrolled off included. Absent: the
        /// screen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<u32>,
        /// With the sequences for colours and attributes.
        #[serde(default)]
        ansi: bool,
    },
    /// From here on terminal bytes go both ways, in frames that begin with 0x01.
    Attach {
        /// Of the caller's terminal; 0: not known.
        #[serde(default)]
        rows: u16,
        #[serde(default)]
        cols: u16,
        /// Nothing that is typed reaches the agent, and the size stays another's.
        #[serde(default)]
        readonly: bool,
        /// Show for two seconds, on the last row, how to detach.
        #[serde(default)]
        hint: bool,
        /// The caller can be suspended: a Ctrl-Z that would suspend the agent comes back to it.
        #[serde(default)]
        suspend: bool,
    },
    Resize {
        rows: u16,
        cols: u16,
    },
    Detach,
    Events {
        /// Events with a greater `seq`. Absent: with `follow` only new ones, else all that are held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        #[serde(default)]
        follow: bool,
    },
    Logs {
        /// How many of the last lines.
        #[serde(default = "lines_by_default")]
        lines: u32,
        #[serde(default)]
        follow: bool,
    },
    Transcript {
        /// How many of the last entries of the conversation.
        #[serde(default = "lines_by_default")]
        lines: u32,
        #[serde(default)]
        follow: bool,
    },
    Wait {
        #[serde(rename = "for")]
        until: WaitFor,
        /// Absent: as long as it takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    Stats,
    Metrics,
    /// Of a node: its children, and where each is.
    Tree,
    /// Of a pool: one more.
    #[serde(rename = "child.add")]
    ChildAdd {
        /// Absent: the template's id with the next number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// For its first start, as `--prompt`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// Set in its agent's environment, as `--env`.
        #[serde(default)]
        env: Sorted<String, String>,
        /// Further arguments of its command.
        #[serde(default)]
        args: Vec<String>,
    },
    /// Of a pool: ended, and forgotten.
    #[serde(rename = "child.remove")]
    ChildRemove {
        id: String,
    },
    #[serde(rename = "child.start")]
    ChildStart {
        id: String,
    },
    /// It stays away until it is started.
    #[serde(rename = "child.stop")]
    ChildStop {
        id: String,
    },
    #[serde(rename = "child.restart")]
    ChildRestart {
        id: String,
    },
}

/// The defaults as the schema shows them; [`Call::of`] uses them too.
fn yes() -> bool {
    true
}

fn lines_by_default() -> u32 {
    LINES_BY_DEFAULT
}

/// Every method there is in [`Call`].
pub const METHODS: [&str; 45] = [
    "ping",
    "state",
    "pid",
    "restart",
    "interrupt",
    "pause",
    "resume",
    "inject",
    "send",
    "hook",
    "permission.request",
    "permission.respond",
    "permission.list",
    "question.request",
    "question.respond",
    "question.list",
    "idle",
    "done",
    "describe",
    "claim",
    "trigger",
    "trigger.status",
    "trigger.list",
    "trigger.cancel",
    "ack",
    "progress",
    "heartbeat",
    "thread.unblock",
    "stop",
    "screen",
    "attach",
    "resize",
    "detach",
    "events",
    "logs",
    "transcript",
    "wait",
    "stats",
    "metrics",
    "tree",
    "child.add",
    "child.remove",
    "child.start",
    "child.stop",
    "child.restart",
];

/// Names that are taken, for methods that this version has not got: `UNSUPPORTED`, so that a client
/// can tell an old supervisor from a typing error.
pub const UNBUILT: [&str; 0] = [];

impl Call {
    pub fn method(&self) -> &'static str {
        match self {
            Call::Ping => "ping",
            Call::State { .. } => "state",
            Call::Pid => "pid",
            Call::Restart { .. } => "restart",
            Call::Interrupt => "interrupt",
            Call::Pause => "pause",
            Call::Resume => "resume",
            Call::Inject { .. } => "inject",
            Call::Send { .. } => "send",
            Call::Hook(_) => "hook",
            Call::PermissionRequest { .. } => "permission.request",
            Call::PermissionRespond { .. } => "permission.respond",
            Call::PermissionList => "permission.list",
            Call::QuestionRequest { .. } => "question.request",
            Call::QuestionRespond { .. } => "question.respond",
            Call::QuestionList => "question.list",
            Call::Idle => "idle",
            Call::Done { .. } => "done",
            Call::Describe { .. } => "describe",
            Call::Claim { .. } => "claim",
            Call::Trigger { .. } => "trigger",
            Call::TriggerStatus { .. } => "trigger.status",
            Call::TriggerList => "trigger.list",
            Call::TriggerCancel { .. } => "trigger.cancel",
            Call::Ack { .. } => "ack",
            Call::Progress { .. } => "progress",
            Call::Heartbeat => "heartbeat",
            Call::ThreadUnblock { .. } => "thread.unblock",
            Call::Stop { .. } => "stop",
            Call::Screen { .. } => "screen",
            Call::Attach { .. } => "attach",
            Call::Resize { .. } => "resize",
            Call::Detach => "detach",
            Call::Events { .. } => "events",
            Call::Logs { .. } => "logs",
            Call::Transcript { .. } => "transcript",
            Call::Wait { .. } => "wait",
            Call::Stats => "stats",
            Call::Metrics => "metrics",
            Call::Tree => "tree",
            Call::ChildAdd { .. } => "child.add",
            Call::ChildRemove { .. } => "child.remove",
            Call::ChildStart { .. } => "child.start",
            Call::ChildStop { .. } => "child.stop",
            Call::ChildRestart { .. } => "child.restart",
        }
    }

    pub(super) fn of(method: &'static str, mut params: Params) -> Result<Call, Error> {
        let p = &mut params;
        let call = match method {
            "ping" => Call::Ping,
            "state" => Call::State { why: p.or("why", false)?, deep: p.or("deep", false)? },
            "pid" => Call::Pid,
            "restart" => Call::Restart { mode: p.or("mode", Mode::default())? },
            "interrupt" => Call::Interrupt,
            "pause" => Call::Pause,
            "resume" => Call::Resume,
            "inject" => Call::Inject { bytes: p.base64("bytes")? },
            "send" => Call::Send {
                text: p.need("text")?,
                submit: p.or("submit", yes())?,
                force: p.or("force", false)?,
            },
            "hook" => Call::Hook(Hook {
                event: p.need("event")?,
                prompt: p.maybe("prompt")?,
                tool: p.maybe("tool")?,
                tool_use_id: p.maybe("tool_use_id")?,
                kind: p.maybe("kind")?,
                error: p.maybe("error")?,
                key: p.maybe("key")?,
                conversation: p.maybe("conversation")?,
                text: p.maybe("text")?,
            }),
            "permission.request" => Call::PermissionRequest {
                tool: p.need("tool")?,
                input: p.or("input", Value::Null)?,
                key: p.maybe("key")?,
            },
            "permission.respond" => Call::PermissionRespond {
                request_id: p.maybe("request_id")?,
                allow: p.need("allow")?,
                reason: p.maybe("reason")?,
            },
            "permission.list" => Call::PermissionList,
            "question.request" => Call::QuestionRequest {
                text: p.need("text")?,
                choices: p.or("choices", Vec::new())?,
                key: p.maybe("key")?,
            },
            "question.respond" => {
                Call::QuestionRespond { request_id: p.maybe("request_id")?, answer: p.need("answer")? }
            }
            "question.list" => Call::QuestionList,
            "idle" => Call::Idle,
            "done" => Call::Done { text: p.maybe("text")? },
            "describe" => Call::Describe { text: p.need("text")? },
            "claim" => Call::Claim { ticket: p.need("ticket")?, release: p.or("release", false)? },
            "trigger" => Call::Trigger {
                thread: p.need("thread")?,
                text: p.need("text")?,
                reason: p.maybe("reason")?,
                trigger_id: p.maybe("trigger_id")?,
                force: p.or("force", false)?,
                why: p.maybe("why")?,
                wait: p.or("wait", yes())?,
            },
            "trigger.status" => Call::TriggerStatus { trigger_id: p.need("trigger_id")? },
            "trigger.list" => Call::TriggerList,
            "trigger.cancel" => Call::TriggerCancel { trigger_id: p.need("trigger_id")? },
            "ack" => Call::Ack { trigger_id: p.maybe("trigger_id")?, thread: p.maybe("thread")? },
            "progress" => Call::Progress {
                trigger_id: p.maybe("trigger_id")?,
                thread: p.maybe("thread")?,
                finding: p.maybe("finding")?,
            },
            "heartbeat" => Call::Heartbeat,
            "thread.unblock" => Call::ThreadUnblock { thread: p.need("thread")? },
            "stop" => Call::Stop { graceful: p.or("graceful", yes())? },
            "screen" => Call::Screen { lines: p.maybe("lines")?, ansi: p.or("ansi", false)? },
            "attach" => Call::Attach {
                rows: p.or("rows", 0)?,
                cols: p.or("cols", 0)?,
                readonly: p.or("readonly", false)?,
                hint: p.or("hint", false)?,
                suspend: p.or("suspend", false)?,
            },
            "resize" => Call::Resize { rows: p.need("rows")?, cols: p.need("cols")? },
            "detach" => Call::Detach,
            "events" => Call::Events { since: p.maybe("since")?, follow: p.or("follow", false)? },
            "logs" => {
                Call::Logs { lines: p.or("lines", lines_by_default())?, follow: p.or("follow", false)? }
            }
            "transcript" => {
                Call::Transcript { lines: p.or("lines", lines_by_default())?, follow: p.or("follow", false)? }
            }
            "wait" => Call::Wait { until: p.need("for")?, timeout_ms: p.maybe("timeout_ms")? },
            "stats" => Call::Stats,
            "metrics" => Call::Metrics,
            "tree" => Call::Tree,
            "child.add" => Call::ChildAdd {
                id: p.maybe("id")?,
                prompt: p.maybe("prompt")?,
                env: p.or("env", Sorted::new())?,
                args: p.or("args", Vec::new())?,
            },
            "child.remove" => Call::ChildRemove { id: p.need("id")? },
            "child.start" => Call::ChildStart { id: p.need("id")? },
            "child.stop" => Call::ChildStop { id: p.need("id")? },
            "child.restart" => Call::ChildRestart { id: p.need("id")? },
            _ => return Err(Error::new(Code::Internal, format!("`{method}` is listed but not built"))),
        };
        params.done()?;
        Ok(call)
    }
}
