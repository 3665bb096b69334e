//! Why a request was not done.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $variant:ident $word:literal,)+) => {
        /// A word for programs; the message beside it is for people and may change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Code {
            $(
                $(#[doc = $meaning])+
                #[serde(rename = $word)]
                $variant,
            )+
            /// A client's name for a code that a newer supervisor sent.
            #[serde(other, rename = "OTHER")]
            #[cfg_attr(feature = "schema", schemars(skip))]
            Other,
        }

        impl Code {
            /// Every code that a supervisor of this version sends.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $word,)+
                    Code::Other => "OTHER",
                }
            }
        }
    };
}

codes! {
    /// The bytes are no frame: an announced length of zero, a frame that was begun and not finished.
    BadFrame "BAD_FRAME",
    /// The request is over 64 KiB, or its reply would be over 1 MiB.
    TooLarge "TOO_LARGE",
    /// The frame is no JSON: a syntax error, bytes that are no UTF-8, nesting deeper than 128.
    BadJson "BAD_JSON",
    /// JSON, but no request: no object, no `method`, an `id` that is no scalar; or `attach` by lines.
    BadRequest "BAD_REQUEST",
    /// No supervisor of this protocol knows the method.
    UnknownMethod "UNKNOWN_METHOD",
    /// A param is missing, of the wrong type, out of range, or not known to the method.
    BadParams "BAD_PARAMS",
    /// A method of this protocol that this supervisor has not got.
    Unsupported "UNSUPPORTED",
    /// The caller's role may not do this. Logged, with uid and pid.
    Forbidden "FORBIDDEN",
    /// The agent has no terminal of its own (`--io inherit`), so nothing can be typed.
    NoPty "NO_PTY",
    /// `resume`, but the supervisor is neither halted nor paused.
    NotHalted "NOT_HALTED",
    /// No agent is running now.
    NotRunning "NOT_RUNNING",
    /// The supervisor is on its way out; nothing will be started any more.
    Stopping "STOPPING",
    /// The agent could not be started; the message names the step and why.
    SpawnFailed "SPAWN_FAILED",
    /// Terminal bytes, `resize` or `detach` on a connection that is not attached.
    NotAttached "NOT_ATTACHED",
    /// `wait`: `timeout_ms` passed first. `question.request`: nobody answered in time.
    Timeout "TIMEOUT",
    /// Too many callers, or too much waits to be done for this one. `child.add`: the pool is full.
    TooMany "TOO_MANY",
    /// The agent does not read its terminal; nothing of the request was written.
    InputFull "INPUT_FULL",
    /// `send`: a draft stands in the agent's line. `force` types all the same. Of a trigger: what it
    /// is deferred by.
    OperatorBusy "OPERATOR_BUSY",
    /// `send`, `trigger`: the agent has not shown its line of input in time, or the line does not show
    /// the text, so Enter was not pressed.
    NotReady "NOT_READY",
    /// `send`, `trigger`: a line is over 4095 bytes, and the terminal would cut it off.
    LineTooLong "LINE_TOO_LONG",
    /// `trigger`: an operator was at work for all of `max_defer`. Nothing was typed.
    DeferTimeout "DEFER_TIMEOUT",
    /// `trigger`: typed, and not acknowledged, retries included.
    AckTimeout "ACK_TIMEOUT",
    /// `trigger`: the agent does not take what is typed.
    WriteFailed "WRITE_FAILED",
    /// `trigger`: not acknowledged, and a call into the conversation failed too.
    ResumeFailed "RESUME_FAILED",
    /// `trigger`: too many within a minute, of this thread or in all.
    TriggerRateLimited "TRIGGER_RATE_LIMITED",
    /// `trigger`: the loop guard has blocked the thread, until an operator unblocks it.
    ThreadAutoBlocked "THREAD_AUTO_BLOCKED",
    /// `trigger`: the id was given to another trigger before. `child.add`: there is such a child.
    DuplicateId "DUPLICATE_ID",
    /// `trigger`: somebody cancelled it before it was typed.
    Cancelled "CANCELLED",
    /// `claim`: the ticket is another live session's.
    Claimed "CLAIMED",
    /// `claim`: the ticket was nobody's, and others are taking it at this moment: ask again.
    Busy "BUSY",
    /// No such trigger, thread, permission, question, claim or child.
    NotFound "NOT_FOUND",
    /// `trigger.cancel`: it was typed already, or has ended. `permission.respond`, `question.respond`: it was
    /// answered already, or its time is over.
    TooLate "TOO_LATE",
    /// The method needs an agent, and this supervisor is a node: ask one of its children.
    NoAgent "NO_AGENT",
    /// `tree`, `child.*`: this supervisor has an agent, and no children.
    NotANode "NOT_A_NODE",
    /// `child.add`, `child.remove`: the children of this node are those of its file.
    NotAPool "NOT_A_POOL",
    /// A fault of the supervisor, which goes on.
    Internal "INTERNAL",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Error {
    pub code: Code,
    /// What, on what, why, and what now.
    pub message: String,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

/// A caller's own words, fit to be said back: not long, and without anything that a terminal would
/// obey.
pub(super) fn quoted(text: &str, longest: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if out.len() >= longest {
            out.push('…');
            break;
        }
        match c {
            '\'' | '"' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}
