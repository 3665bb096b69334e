//! Commands that agentsup runs beside the agent: `before_spawn` and what notifies, which get JSON on
//! stdin and our stderr for what they print, unless the agent is shown there; and calls into the agent's conversation, which get a
//! text and a file. Each has a session of its own.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::os::sink;
use crate::os::spawn::{self, Env, Fds, Place, Signals, Spawning, Spec};
use crate::session::{CallPlan, program};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BeforeSpawn,
    Notify,
    /// The `notify` of a rule.
    Rule,
    /// Carries a trigger.
    Call,
    /// Says where the repository stands.
    Refs,
}

pub struct Helper {
    pub pid: i32,
    pub kind: Kind,
    /// Whether it could be run at all; asked when it has ended.
    pub spawning: Spawning,
}

/// Where what it prints goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    OnStderr,
    /// The agent's screen is drawn there, and would be no longer what the agent thinks it is.
    ToNobody,
}

pub fn start(kind: Kind, command: &[String], told: &serde_json::Value, cwd: &Path) -> Result<Helper, String> {
    start_beside(kind, command, told, cwd, Speaks::OnStderr)
}

/// While an agent runs, too.
pub fn start_beside(
    kind: Kind,
    command: &[String],
    told: &serde_json::Value,
    cwd: &Path,
    speaks: Speaks,
) -> Result<Helper, String> {
    let argv: Vec<OsString> = command.iter().map(OsString::from).collect();
    let Some(command0) = argv.first() else { return Err("the command is empty".to_owned()) };
    let path = std::env::var_os("PATH");
    let program = program::find(command0, path.as_deref(), cwd).map_err(|e| e.to_string())?;
    let stdin = spawn::pipe_holding(format!("{told}\n").as_bytes()).map_err(|e| format!("pipe: {e}"))?;
    let nobody = match speaks {
        Speaks::OnStderr => None,
        Speaks::ToNobody => File::options().write(true).open("/dev/null").ok(),
    };
    let output = nobody.as_ref().map_or(sink::stderr(), File::as_fd);
    let spec = Spec {
        program: &program,
        argv: &argv,
        env: Env::Inherit,
        cwd: Some(cwd),
        place: Place::Detached { stdin: stdin.as_fd(), stdout: output, stderr: output },
        signals: Signals::AllDefault,
        fds: Fds::OnlyStdio,
        oom_score_adj: None,
    };
    let started = spawn::spawn(&spec).map_err(|e| e.to_string())?;
    Ok(Helper { pid: started.pid, kind, spawning: started })
}

/// In the agent's own place: its directory, its environment.
pub fn call(plan: &CallPlan, text: &str, output: &File) -> Result<Helper, String> {
    let cwd = &plan.cwd;
    let program = program::find(&plan.argv[0], plan.env.get("PATH"), cwd).map_err(|e| e.to_string())?;
    let stdin = spawn::pipe_holding(text.as_bytes()).map_err(|e| format!("pipe: {e}"))?;
    let env: Vec<(OsString, OsString)> =
        plan.env.vars.iter().map(|v| (v.name.clone(), v.value.clone())).collect();
    let spec = Spec {
        program: &program,
        argv: &plan.argv,
        env: Env::Exactly(&env),
        cwd: Some(cwd),
        place: Place::Detached { stdin: stdin.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
        signals: Signals::AllDefault,
        fds: Fds::OnlyStdio,
        oom_score_adj: None,
    };
    let started = spawn::spawn(&spec).map_err(|e| e.to_string())?;
    Ok(Helper { pid: started.pid, kind: Kind::Call, spawning: started })
}
