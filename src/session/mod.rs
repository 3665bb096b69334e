//! Who the agent is: document, cwd, environment and profile become a `SpawnPlan`, each value with
//! its source. Called by `supervisor` before every spawn and by `explain`. Reads files; never
//! spawns, logs or remembers anything between two calls.
#![forbid(unsafe_code)]

pub mod began;
mod bypass;
pub mod claims;
mod cwd;
pub mod document;
pub mod env;
mod frontmatter;
mod glob;
pub mod id;
pub mod profile;
pub mod program;
pub mod state_dir;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod transcript;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use bypass::{CallPlan, How, Ways, call, is_runnable, plan_anew, ways};
pub use document::Document;
pub use env::{EnvVar, Environment};
pub use profile::hooks::Hooked;
pub use profile::limit;
use profile::settings::Settings;
pub use profile::{NOTIFY, Profile};

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
    /// Whose process the agent will be.
    pub uid: u32,
    /// For an agent that can tell of itself; `None`: it is not to.
    pub hooks: Option<HookWish>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookWish {
    /// Our own binary, which the agent calls.
    pub agentsup: PathBuf,
    /// How long a permission may wait for its answer.
    pub permission_timeout: Duration,
}

impl Wish {
    /// The command as the agent gets it wherever it is started.
    fn hooked(&self, profile: Profile, cwd: &Path, env: &Environment, settings: &Settings) -> Hooked {
        let file = self.socket.with_extension("settings");
        let off = settings.hooks_off(&self.command[1..], env);
        let off = off.as_deref();
        let wanted =
            self.hooks.as_ref().map(|wish| profile::hooks::Wanted { wish, file: &file, cwd, off, env });
        profile.with_hooks(&self.command, wanted)
    }

    /// claude would end with 1, which says nothing to who restarts it. A wrapper (`--agent`) may become
    /// another user or set what is missing.
    fn refuse_bypass_as_root(&self, settings: &Settings, env: &Environment) -> Result<(), Refusal> {
        if self.uid != 0 || Profile::of(&self.command[0], None)? != Profile::Claude {
            return Ok(());
        }
        match settings.forbidden_to_root(&self.command[1..], env) {
            Some(word) => Err(Refusal(format!(
                "claude refuses {word} as root: run it as another user, \
                 or, in a container of its own, add --env IS_SANDBOX=1"
            ))),
            None => Ok(()),
        }
    }
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

/// Why a spawn will not happen, in words for the user. `run` exits 78 with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// A value and the rule that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: &'static str,
}

/// What is remembered of the agent's own conversation between two spawns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    pub id: Option<String>,
}

/// Everything a spawn needs, settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnPlan {
    /// The final command line; `argv[0]` as the user wrote it.
    pub argv: Vec<OsString>,
    /// What this spawn really is: a continue that has nothing to continue is fresh.
    pub start: Start,
    /// Why a continue became fresh.
    pub why_fresh: Option<&'static str>,
    /// To be kept after a successful spawn.
    pub conversation: Conversation,
    /// Where the agent writes it down; `None` when that is not known.
    pub transcripts: Option<transcript::Place>,
    /// Canonical.
    pub cwd: Sourced<PathBuf>,
    pub env: Environment,
    pub profile: Profile,
    pub hooks: Hooked,
    /// Canonical.
    pub document: Option<PathBuf>,
}

/// Settles one spawn from scratch: the document is read again and every path looked at again,
/// because a restart may come hours after the start.
pub fn plan(
    wish: &Wish,
    start: Start,
    conversation: &Conversation,
    new_conversation_id: &str,
) -> Result<SpawnPlan, Refusal> {
    let settled = Settled::of(wish)?;
    let line = settled.profile.command_line(&profile::Ask {
        command: &settled.hooks.command,
        prompt: wish.prompt.as_deref(),
        continue_args: &wish.continue_args,
        start,
        conversation,
        new_id: new_conversation_id,
        has_transcript: &|id| settled.has_transcript(id),
    })?;
    Ok(settled.plan(line))
}

/// What is the same whichever way the agent is started.
struct Settled {
    cwd: Sourced<PathBuf>,
    env: Environment,
    profile: Profile,
    hooks: Hooked,
    document: Option<PathBuf>,
}

impl Settled {
    fn of(wish: &Wish) -> Result<Settled, Refusal> {
        let document =
            wish.document.as_ref().map(|path| Document::read(&wish.started_in.join(path))).transpose()?;
        let cwd = cwd::resolve(&wish.started_in, wish.cwd.as_deref(), document.as_ref())?;
        cwd::check_allowed(wish, &cwd.value)?;
        let env = env::build(wish, document.as_ref(), &cwd.value)?;
        let command0 = wish.command.first().ok_or_else(|| {
            Refusal("no command given: write it after `--`, as in `agentsup run -- claude`".into())
        })?;
        let profile = Profile::of(command0, wish.agent.as_deref())?;
        let settings = match profile {
            Profile::Claude => Settings::read(&wish.command[1..], &env, &cwd.value),
            Profile::Codex | Profile::Other => Settings::default(),
        };
        wish.refuse_bypass_as_root(&settings, &env)?;
        let hooks = wish.hooked(profile, &cwd.value, &env, &settings);
        Ok(Settled { cwd, env, profile, hooks, document: document.map(|d| d.path) })
    }

    fn has_transcript(&self, id: &str) -> bool {
        self.profile.has_transcript(id, &self.env, &self.cwd.value)
    }

    fn plan(self, line: profile::Line) -> SpawnPlan {
        SpawnPlan {
            argv: line.argv,
            start: line.start,
            why_fresh: line.why_fresh,
            conversation: line.conversation,
            transcripts: self.profile.transcripts(&self.env, &self.cwd.value),
            cwd: self.cwd,
            env: self.env,
            profile: self.profile,
            hooks: self.hooks,
            document: self.document,
        }
    }
}
