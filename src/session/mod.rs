//! Who the agent is: document, cwd, environment and profile become a `SpawnPlan`, each value with
//! its source. Called by `supervisor` before every spawn and by `explain`. Reads files; never
//! spawns, logs or remembers anything between two calls.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

/// What was asked for, fixed for the life of the supervisor. Nothing in it is resolved yet.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Canonical path of the directory agentsup was started in.
    pub started_in: PathBuf,
    /// Never empty.
    pub command: Vec<OsString>,
    pub document: Option<PathBuf>,
    /// The session id and which rule gave it.
    pub session: SessionId,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
    pub pass_env: Vec<String>,
    /// The environment agentsup itself was started with.
    pub parent_env: Vec<(OsString, OsString)>,
    /// `--agent`: profile name instead of the command's base name.
    pub agent: Option<String>,
    pub prompt: Option<String>,
    pub continue_args: Vec<String>,
    pub allowed_dirs: Vec<String>,
    /// `$AGENTSUP_SOCKET` for the agent.
    pub socket: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId {
    pub id: String,
    pub source: &'static str,
}

/// How the next spawn treats the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Fresh,
    Continue,
}

/// A usable state dir: it exists, it is ours, it can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    pub path: PathBuf,
    pub source: &'static str,
}
