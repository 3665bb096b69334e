//! What is said of a node and its children.

use serde::{Deserialize, Serialize};

/// The answer to `tree`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Node {
    pub session: String,
    /// `one_for_one`, `one_for_all`, `rest_for_one` or `pool`.
    pub strategy: String,
    /// So many restarts within so long; the next one is one too many.
    pub max_restarts: u32,
    pub max_seconds: u64,
    /// How many count now.
    pub recent_restarts: u64,
    /// All children that were to run have been ready.
    pub up: bool,
    /// Children of a pool that are gone: those that ended well, and the others.
    pub done: u64,
    pub failed: u64,
    /// In the order of their start.
    pub children: Vec<Child>,
}

/// The answer to `child.add`, `child.remove`, `child.start`, `child.stop` and `child.restart`: where the child
/// is when the request has been taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Child {
    /// Its id; `id` in a reply is the request's.
    pub child: String,
    /// Of its own supervisor, whose socket and log have this name.
    pub session: String,
    /// `agent` or `node`.
    pub kind: String,
    /// `queued`, `blocked` (what it needs will not be ready), `starting`, `ready`, `stopping`, `clearing` (what
    /// it left behind is being ended), `backoff`, `ended`, `stopped` or `refused`.
    pub state: String,
    /// `permanent`, `transient` or `temporary`.
    pub restart: String,
    pub needs: Vec<String>,
    /// Of its supervisor.
    pub pid: Option<i32>,
    /// Starts after the first.
    pub restarts: u64,
    /// The code with which its supervisor last ended, or 128+n.
    pub last_exit: Option<u8>,
    /// When it will be started again, in `backoff`.
    pub in_ms: Option<u64>,
    /// Why it could not be started, in `refused`.
    pub why: Option<String>,
}

/// Of a node, in `state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeInShort {
    pub strategy: String,
    pub children: u64,
    pub ready: u64,
    /// Who could not be started, and who waits for that in vain: then the node is `degraded`.
    #[serde(default)]
    pub trouble: Option<String>,
}
