//! What is said of triggers.

use serde::{Deserialize, Serialize};

use super::Code;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    #[default]
    Queued,
    /// An operator is at work; `code` is `OPERATOR_BUSY`.
    Deferred,
    /// Being typed.
    Triggering,
    /// Enter was pressed.
    AwaitingAck,
    /// Typing did not help: a call carries it, or the agent begins anew with it.
    Fallback,
    Delivered,
    /// `code` says why.
    Failed,
    /// A client's name for a state that a newer supervisor sent.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

impl TriggerState {
    pub fn name(self) -> &'static str {
        match self {
            TriggerState::Queued => "queued",
            TriggerState::Deferred => "deferred",
            TriggerState::Triggering => "triggering",
            TriggerState::AwaitingAck => "awaiting_ack",
            TriggerState::Fallback => "fallback",
            TriggerState::Delivered => "delivered",
            TriggerState::Failed => "failed",
            TriggerState::Unknown => "unknown",
        }
    }
}

/// What is known of one trigger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trigger {
    pub trigger_id: String,
    pub thread: String,
    pub reason: Option<String>,
    pub state: TriggerState,
    /// Why it failed, or what holds it back.
    pub code: Option<Code>,
    /// Who said that it arrived: `ack`, `progress`, `hook`, `heartbeat` or `marker`; or how it did when
    /// typing had not helped: `resume`, `fork` or `spawn`.
    pub by: Option<String>,
    /// How often Enter was pressed for it, and how often it was carried otherwise.
    pub attempts: u32,
    /// It went into a fork of the conversation, because a human was typing.
    pub forked: bool,
    /// An operator had it typed whatever stood in the line.
    pub forced: bool,
    /// The agent acknowledged it when it had failed already.
    pub acked_late: bool,
    pub accepted_at: f64,
    pub ended_at: Option<f64>,
}

/// All that wait, and the last of those that have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggerList {
    /// In the order in which they ended, are under way and will be served.
    pub triggers: Vec<Trigger>,
    /// Threads that the loop guard has blocked.
    pub blocked: Vec<String>,
}
