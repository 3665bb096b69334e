//! What one supervisor has been told to do: settled by `cli`, never changed while it lives.

use std::ffi::OsString;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::control::access::Role;
use crate::policy::crash::{Numbers, OnClean, OnHalt, Restart};
use crate::policy::rules::Rule;
use crate::policy::tree::{Rules, Spec};
use crate::policy::trigger;
use crate::policy::watch;
use crate::screen::chord::Chord;
use crate::session::{Start, StateDir, Wish};

pub struct Settings {
    pub wish: Wish,
    /// Where sockets, logs and state live; chosen and made by `session::state_dir`.
    pub state_dir: StateDir,
    pub start: Start,
    pub io: Io,
    /// Used while no terminal says otherwise.
    pub size: Size,
    /// None: the agent's terminal is not recorded.
    pub record: Option<RecordSettings>,
    pub restart: Restart,
    pub on_clean: OnClean,
    pub on_halt: OnHalt,
    pub grace: Duration,
    pub timeout: Option<Duration>,
    /// None: no callers are answered.
    pub socket: Option<SocketSettings>,
    pub manager: ManagerSettings,
    pub crash: Numbers,
    pub trigger: trigger::Numbers,
    /// `[[rule]]`, in the order of the file.
    pub rules: Vec<Rule>,
    /// `[watch]`. None: nobody asked for it.
    pub watch: Option<watch::Numbers>,
    /// `[recovery] prompt`: a restarted agent is told why.
    pub recovery: bool,
    /// `[permission] timeout`: what nobody answers by then is denied.
    pub permission_timeout: Duration,
    /// `[run] before_spawn`: non-zero refuses the spawn. Empty: none.
    pub before_spawn: Vec<String>,
    /// `[halt] notify`: told about a halt. Empty: none.
    pub halt_notify: Vec<String>,
    pub labels: Vec<(String, String)>,
    /// `[screen]`: lines kept above the agent's screen. None: its output is not followed.
    pub scrollback: Option<usize>,
    /// `[screen]`: pressed twice, it leaves an `agentsup attach`.
    pub detach_key: Chord,
    pub log_max_bytes: u64,
    pub journald: bool,
    /// The config file, for the log.
    pub config: Option<PathBuf>,
    /// `agentsup tree`: children in the place of an agent.
    pub node: Option<NodeSettings>,
}

impl Settings {
    /// How long what the agent, or children, leave behind has when they are gone.
    pub fn leftovers(&self) -> Duration {
        self.node.as_ref().map_or(self.grace, |node| node.leftovers)
    }
}

/// Many supervisors in the place of an agent.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    pub rules: Rules,
    /// In the order of their start; none in a pool.
    pub children: Vec<ChildSettings>,
    /// What the children of a pool are like, and how many it begins with.
    pub template: Option<ChildSettings>,
    pub size: usize,
    /// How long what is left of them has when they are gone.
    pub leftovers: Duration,
    /// This binary.
    pub program: PathBuf,
    /// What children inherit.
    pub env: Vec<(OsString, OsString)>,
    /// For the log.
    pub file: PathBuf,
}

#[derive(Clone, Debug)]
pub struct ChildSettings {
    pub spec: Spec,
    pub kind: ChildKind,
    /// Where its stdout goes. None: nowhere, its screen can be looked at.
    pub output: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub enum ChildKind {
    /// `agentsup run` with this config file.
    Agent {
        command: Vec<OsString>,
        config: ChildConfig,
        /// `agent` and `start`, as the file has them.
        agent: Option<String>,
        says_start: bool,
    },
    /// `agentsup tree`.
    Node { file: PathBuf },
}

/// The config file of a child, into which more variables can be put: on its command line everybody would see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildConfig {
    pub text: String,
    /// What it says of `env` in `[run]`, or where that could stand; `None`: there is no `[run]`.
    pub env_at: Option<Range<usize>>,
    pub env: Vec<(OsString, OsString)>,
}

impl ChildConfig {
    /// Names that are given again have the new value.
    pub fn with_env(&self, more: &[(String, String)]) -> String {
        if more.is_empty() {
            return self.text.clone();
        }
        let is_again = |name: &OsString| more.iter().any(|(new, _)| name == new.as_str());
        let said = self.env.iter().filter(|(name, _)| !is_again(name));
        let said =
            said.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        let more = more.iter().map(|(name, value)| format!("{name}={value}"));
        let list: Vec<String> = said.chain(more).map(|variable| in_toml(&variable)).collect();
        let line = format!("env = [{}]\n", list.join(", "));
        let (at, header) = match &self.env_at {
            Some(at) => (at.clone(), ""),
            None => (self.text.len()..self.text.len(), "[run]\n"),
        };
        format!("{}{header}{line}{}", &self.text[..at.start], &self.text[at.end..])
    }
}

/// A basic string.
fn in_toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    pub file: PathBuf,
    /// Whether what is typed is recorded too.
    pub input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    pub mode: u32,
    pub group: Option<u32>,
    /// The role of another uid that mode and group let in.
    pub access_group: Role,
    /// The role of a caller from another pid namespace.
    pub access_outside: Role,
}

/// Who wants to know when the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerSettings {
    /// `$NOTIFY_SOCKET`.
    pub notify_socket: Option<OsString>,
    /// How long systemd waits for a sign of life, if it does.
    pub watchdog: Option<Duration>,
    pub ready_fd: Option<i32>,
}

/// `agentsup init`.
pub struct InitSettings {
    /// Never empty.
    pub command: Vec<OsString>,
    pub grace: Duration,
}

/// Refused before anything ran: the message for stderr and the code to end with.
#[derive(Debug)]
pub struct CannotStart {
    pub code: u8,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    Pty,
    Inherit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}
