//! Commands that agentsup runs beside the agent: `before_spawn` and `[halt] notify`. They get JSON
//! on stdin, our stderr for what they print, and a session of their own.

use std::ffi::OsString;
use std::path::Path;

use crate::os::sink;
use crate::os::spawn::{self, Env, Fds, Place, Signals, Spawning, Spec};
use crate::session::program;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BeforeSpawn,
    Notify,
}

pub struct Helper {
    pub pid: i32,
    pub kind: Kind,
    /// Whether it could be run at all; asked when it has ended.
    pub spawning: Spawning,
}

pub fn start(kind: Kind, command: &[String], told: &serde_json::Value, cwd: &Path) -> Result<Helper, String> {
    let argv: Vec<OsString> = command.iter().map(OsString::from).collect();
    let Some(command0) = argv.first() else { return Err("the command is empty".to_owned()) };
    let path = std::env::var_os("PATH");
    let program = program::find(command0, path.as_deref(), cwd).map_err(|e| e.to_string())?;
    let stdin = spawn::pipe_holding(format!("{told}\n").as_bytes()).map_err(|e| format!("pipe: {e}"))?;
    let spec = Spec {
        program: &program,
        argv: &argv,
        env: Env::Inherit,
        cwd: Some(cwd),
        place: Place::Detached { stdin: std::os::fd::AsFd::as_fd(&stdin), output: sink::stderr() },
        signals: Signals::AllDefault,
        fds: Fds::OnlyStdio,
        oom_score_adj: None,
    };
    let started = spawn::spawn(&spec).map_err(|e| e.to_string())?;
    Ok(Helper { pid: started.pid, kind, spawning: started })
}
