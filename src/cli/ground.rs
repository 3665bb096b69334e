//! From words to everything a supervisor must know but its state dir, which `run` makes and
//! `explain` only looks for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Group;

use super::Failure;
use super::args::Run;
use super::asked;
use super::config;
use super::prompt;
use super::settings::{Choices, Origins, SocketChoices, settle};
use super::words::{Cut, Word, through_argh};
use super::world::World;
use crate::session::{Document, HookWish, Refusal, SessionId, StateDir, Wish, id, state_dir};
use crate::supervisor::recorder;
use crate::supervisor::settings::{ManagerSettings, NodeSettings, Settings, SocketSettings};

#[derive(Debug)]
pub struct Ground {
    pub choices: Choices,
    pub session: SessionId,
    /// Where the state dir may be, best first.
    pub dirs: Vec<StateDir>,
    prompt: Option<String>,
    socket: Option<SocketSettings>,
    node: Option<NodeSettings>,
}

pub fn ground(verb: &str, cut: &Cut, world: &World, origins: Origins) -> Result<Ground, Failure> {
    let mut run: Run = through_argh(verb, cut)?;
    let command: Vec<OsString> =
        std::mem::take(&mut run.command).into_iter().map(|Word(word)| word).collect();
    let config = config_path(run.config.take(), world)?;
    let flags = asked::from_flags(run)?;
    let config = config.map(|path| config::read(&path)).transpose()?;
    let mut choices = settle(command, flags, config, world.stdin, origins)?;

    let document = choices.document.as_ref().map(|path| Document::read(&world.started_in.join(path)));
    let document = document.transpose().map_err(refused)?;
    let session = session(&choices, document.as_ref(), world)?;
    let beside = document.as_ref().and_then(|document| document.path.parent()).unwrap_or(&world.started_in);
    let dirs = dirs(choices.dir.as_deref(), beside, world);
    let socket = choices.socket.as_ref().map(socket).transpose()?;
    if let Some(record) = &mut choices.record {
        record.file = place_for_recording(&record.file, world)?;
    }
    let prompt =
        choices.prompt.as_ref().map(|written| prompt::read(written, &world.started_in)).transpose()?;
    Ok(Ground { choices, session, dirs, prompt, socket, node: None })
}

fn config_path(flag: Option<Word>, world: &World) -> Result<Option<PathBuf>, Failure> {
    match flag {
        Some(word) => asked::path("--config", word).map(Some),
        None => Ok(world.var("AGENTSUP_CONFIG").map(PathBuf::from)),
    }
}

fn session(choices: &Choices, document: Option<&Document>, world: &World) -> Result<SessionId, Failure> {
    if let (Some(id), Some(file)) = (&choices.session, choices.said_in_file("session")) {
        id::check(id).map_err(|why| Failure::refused(format!("session ({file}): {why}")))?;
        return Ok(SessionId { id: id.clone(), source: "config" });
    }
    let fresh = crate::os::random::uuid_v4().map_err(|error| Failure {
        code: 125,
        message: format!("no random bytes for a new session id: {error}"),
    })?;
    // Lossy is enough: what is lost could not be part of an id, and the refusal names the source.
    let from_env = world.var("AGENTSUP_SESSION").map(|id| id.to_string_lossy());
    id::settle(choices.session.as_deref(), document, from_env.as_deref(), &fresh).map_err(refused)
}

/// Where the state dir may be, best first; the project's is looked for from `beside` upwards.
pub fn dirs(flag: Option<&Path>, beside: &Path, world: &World) -> Vec<StateDir> {
    // A relative path would move with the process.
    let flag = flag.map(|dir| world.started_in.join(dir));
    let from_env = world.var("AGENTSUP_DIR").map(|dir| world.started_in.join(dir));
    state_dir::candidates(
        flag.as_deref(),
        from_env.as_deref(),
        state_dir::project_root(beside).as_deref(),
        world.var("XDG_RUNTIME_DIR").map(Path::new),
        world.uid,
    )
}

fn socket(choices: &SocketChoices) -> Result<SocketSettings, Failure> {
    let group = choices.group.as_deref().map(|group| match group.parse::<u32>() {
        Ok(gid) => Ok(gid),
        Err(_) => match Group::from_name(group) {
            Ok(Some(found)) => Ok(found.gid.as_raw()),
            Ok(None) => Err(Failure::refused(format!(
                "socket_group: there is no group `{group}` here; give its number"
            ))),
            Err(errno) => Err(Failure::refused(format!(
                "socket_group: `{group}` cannot be looked up: {}; give its number",
                errno.desc()
            ))),
        },
    });
    Ok(SocketSettings {
        mode: choices.mode,
        group: group.transpose()?,
        access_group: choices.access_group,
        access_outside: choices.access_outside,
    })
}

/// Refused as early as can be, and by `explain` too.
fn place_for_recording(file: &Path, world: &World) -> Result<PathBuf, Failure> {
    let file = world.started_in.join(file);
    match recorder::unusable(&file) {
        Some((why, now)) => Err(Failure::refused(format!("record: `{}` {why}; {now}", file.display()))),
        None => Ok(file),
    }
}

/// As systemd leaves word of itself. A watchdog that is set for another process is none of ours.
fn manager(ready_fd: Option<i32>, world: &World) -> ManagerSettings {
    let number = |name| world.var(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
    let is_ours =
        world.var("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(std::process::id().into());
    let watchdog = number("WATCHDOG_USEC").filter(|&usec| usec > 0 && is_ours).map(Duration::from_micros);
    ManagerSettings { notify_socket: world.var("NOTIFY_SOCKET").map(OsString::from), watchdog, ready_fd }
}

pub fn refused(Refusal(why): Refusal) -> Failure {
    Failure::refused(why)
}

impl Ground {
    /// With children in the place of an agent.
    pub fn of_node(
        choices: Choices,
        session: SessionId,
        node: NodeSettings,
        world: &World,
    ) -> Result<Ground, Failure> {
        let dirs = dirs(choices.dir.as_deref(), &world.started_in, world);
        let socket = choices.socket.as_ref().map(socket).transpose()?;
        Ok(Ground { choices, session, dirs, prompt: None, socket, node: Some(node) })
    }

    pub fn settings(self, state_dir: StateDir, world: World) -> Settings {
        let choices = self.choices;
        let manager = manager(choices.ready_fd, &world);
        Settings {
            wish: Wish {
                started_in: world.started_in,
                command: choices.command,
                document: choices.document,
                socket: state_dir.socket(&self.session.id),
                session: self.session,
                cwd: choices.cwd,
                env: choices.env,
                pass_env: choices.pass_env,
                parent_env: world.env,
                agent: choices.agent,
                prompt: self.prompt,
                continue_args: choices.continue_args,
                allowed_dirs: choices.allowed_dirs,
                uid: world.uid,
                // Without a socket there is nobody to tell.
                hooks: world
                    .own_binary
                    .filter(|_| choices.hooks && self.socket.is_some())
                    .map(|agentsup| HookWish { agentsup, permission_timeout: choices.permission_timeout }),
            },
            state_dir,
            start: choices.start,
            io: choices.io,
            size: choices.size,
            record: choices.record,
            restart: choices.restart,
            on_clean: choices.on_clean,
            on_halt: choices.on_halt,
            grace: choices.grace,
            timeout: choices.timeout,
            socket: self.socket,
            manager,
            crash: choices.crash,
            trigger: choices.trigger,
            rules: choices.rules,
            watch: choices.watch,
            recovery: choices.recovery,
            permission_timeout: choices.permission_timeout,
            before_spawn: choices.before_spawn,
            halt_notify: choices.halt_notify,
            labels: choices.labels,
            scrollback: choices.scrollback,
            detach_key: choices.detach_key,
            log_max_bytes: choices.log_max_bytes,
            journald: choices.journald,
            config: choices.config,
            node: self.node,
        }
    }
}
