//! What one supervisor has been told to do: settled by `cli`, never changed while it lives.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::control::access::Role;
use crate::policy::crash::{Numbers, OnClean, OnHalt, Restart};
use crate::policy::trigger;
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
