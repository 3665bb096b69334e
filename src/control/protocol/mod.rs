//! What callers and the supervisor say to each other, as types. `docs/protocol.md` is the same for
//! people, `docs/protocol.schema.json` for programs; a test keeps that one equal to these types.
//!
//! Liberal where it costs nothing: a key beside `id`, `method` and `params` is ignored, and so is an
//! unknown key of a reply, so that either side may be the newer one. Strict where a caller would be
//! misled: an unknown key in `params` is refused, because a misspelt `graceful` must not stop an
//! agent gently.

mod asking;
mod call;
mod error;
mod id;
mod node;
mod params;
pub mod reply;
mod request;
#[cfg(feature = "schema")]
mod schema;
mod state;
mod transcript;
mod trigger;

pub use asking::{
    Answer, Claim, ClaimOutcome, Decision, Heard, Hook, HookEvent, PermissionAsked, PermissionList,
    QuestionAsked, QuestionList, Responded, Verdict,
};
pub use call::{Call, LINES_BY_DEFAULT, METHODS, Mode, UNBUILT, WaitFor};
pub use error::{Code, Error};
pub use id::Id;
pub use node::{Child, Node, NodeInShort};
pub use reply::{
    Ack, AttachFrame, Attached, Body, Calls, Cursor, Dropped, End, Event, EventFrame, Injected, Interrupted,
    Key, LogLine, Metrics, Over, Pid, Pong, Receipt, Reply, Screen, Sent, Start, Stats, Stopped, StreamFrame,
    Suspend, Tokens, Waited,
};
pub use request::Request;
#[cfg(feature = "schema")]
pub use schema::schema;
pub use state::{Activity, Done, Exit, Health, Operator, Phase, State, Tree, Wake};
pub use transcript::{
    Conversation, ConversationFrame, Entry, EntryKind, News, Skipped, SkippedFrame, SkippedWhy, Speaker, Tool,
};
pub use trigger::{Trigger, TriggerList, TriggerState};

/// Goes up when an existing client could break; what is added beside the old does not move it.
pub const PROTOCOL: u32 = 1;

#[cfg(test)]
mod tests;
