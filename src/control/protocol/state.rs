//! The answer to `state`.

use crate::sorted::Sorted;
use serde::{Deserialize, Serialize};

use super::NodeInShort;

/// Where the supervisor is with its agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// What an earlier supervisor of the session left behind is being ended.
    Clearing,
    /// `before_spawn` is being asked.
    Preparing,
    /// Forked; whether the program runs is not known yet.
    Starting,
    Running,
    /// Somebody asked for another start: the agent is being ended first.
    Restarting,
    /// The agent ended; `wake` says when it starts again.
    Backoff,
    /// The agent ended cleanly; the operator at the terminal decides.
    Asking,
    /// Given up; `resume` or `restart` tries again.
    Halted,
    Stopping,
    Ended,
    /// A client's name for a phase that a newer supervisor sent.
    #[default]
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    Healthy,
    /// The agent fails often.
    Degraded,
    Halted,
    /// A client's name for a health that a newer supervisor sent.
    #[default]
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

/// What the agent is doing, as far as it says so itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Starting,
    Working,
    Tool,
    Idle,
    WaitingPermission,
    WaitingAnswer,
    /// The whole tree is frozen.
    Paused,
    Stuck,
    #[default]
    #[serde(other)]
    Unknown,
}

impl Activity {
    pub fn name(self) -> &'static str {
        match self {
            Activity::Starting => "starting",
            Activity::Working => "working",
            Activity::Tool => "tool",
            Activity::Idle => "idle",
            Activity::WaitingPermission => "waiting_permission",
            Activity::WaitingAnswer => "waiting_answer",
            Activity::Paused => "paused",
            Activity::Stuck => "stuck",
            Activity::Unknown => "unknown",
        }
    }
}

/// Times are seconds since 1970, with a fraction where it is known. What is not known is null;
/// what was not asked for (`deep`, `why`) is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    pub session: String,
    pub version: String,
    pub supervisor_pid: u32,
    /// An agent runs now.
    pub running: bool,
    pub pid: Option<i32>,
    pub phase: Phase,
    pub health: Health,
    pub activity: Activity,
    /// When it began to do that.
    pub activity_since: Option<f64>,
    /// Permissions and questions that wait for somebody's answer.
    pub permissions: u64,
    pub questions: u64,
    /// What the agent says that it is about.
    pub description: Option<String>,
    /// What the agent was started for is done, it says.
    pub done: Option<Done>,
    pub cwd: Option<String>,
    /// `cli_flag`, `frontmatter`, `project_root`, `document_parent` or `invocation`.
    pub cwd_source: Option<String>,
    pub restart_count: u64,
    /// The code of the last exit, or 128+n.
    pub last_exit: Option<u8>,
    /// The last ten, oldest first.
    pub exits: Vec<Exit>,
    /// The next thing that the supervisor will do by itself.
    pub wake: Option<Wake>,
    pub env_fingerprint: Option<String>,
    pub orphans_reaped: u64,
    pub operator: Operator,
    pub labels: Sorted<String, String>,
    /// When the agent itself last gave a sign: a heartbeat, a hook, an acknowledgement, progress.
    pub last_heartbeat_at: Option<f64>,
    /// The trigger that was last typed.
    pub last_trigger_id: Option<String>,
    pub document: Option<String>,
    /// The agent's own id of its conversation.
    pub conversation: Option<String>,
    pub started_at: f64,
    pub agent_started_at: Option<f64>,
    /// Of the supervisor.
    pub uptime_ms: u64,
    /// `pty` or `inherit`.
    pub io: String,
    /// `claude`, `codex` or `other`.
    pub profile: String,
    /// `deep`: processes of the tree that nobody has reaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zombies: Option<u64>,
    /// `deep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
    /// The supervisor is a node: it has children, and no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeInShort>,
    /// `why`: what the conclusions rest on, one sentence each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Done {
    pub at: f64,
    /// The outcome, in its own words.
    pub text: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exit {
    pub at: f64,
    /// The agent's code, or 128+n.
    pub code: u8,
    /// `KILL`, … when one ended it.
    pub signal: Option<String>,
    pub run_ms: u64,
    /// `clean`, `transient`, `flapping`, `fatal` or `asked`.
    pub class: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wake {
    pub at: f64,
    pub in_ms: u64,
    /// `restart`, `grace_over`, `timeout` or `helper_too_slow`.
    pub why: String,
}

/// The humans that type to the agent: at the supervisor's own terminal, and attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operator {
    /// There is a terminal on the supervisor's stdin.
    pub terminal: bool,
    /// How many are attached, readonly ones included.
    #[serde(default)]
    pub attached: u64,
    pub last_key_at: Option<f64>,
    /// Something that was not sent stands in the agent's line.
    pub draft: bool,
}

/// The agent and all that descends from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tree {
    pub processes: u64,
    pub cpu_ms: u64,
    pub rss_bytes: u64,
}
