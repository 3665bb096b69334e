//! One child of a node, and how it is launched: this binary again, with a session, a config file and a
//! descriptor to say that it is ready.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::below;
use super::super::record;
use super::super::settings::{ChildKind, ChildSettings};
use super::super::story::in_words;
use super::super::sweep::Sweep;
use super::super::{Charge, Supervisor};
use crate::log::{Event as LogEvent, Name};
use crate::os::lock;
use crate::os::procfs;
use crate::os::signals;
use crate::os::sink;
use crate::os::spawn::{self, Env, Fds, Place, Signals, Spawning, Spec};
use crate::os::wait::How;
use crate::policy::tree::{Event, Key};
use crate::session::StateDir;

pub(super) struct Kid {
    pub settings: ChildSettings,
    pub session: String,
    pub extra: Extra,
    pub process: Option<Process>,
    /// What it left behind, while that is being ended.
    pub leftovers: Option<Sweep>,
    pub last_end: Option<(How, Duration)>,
    /// It has been started before, so that its session goes on.
    pub was_started: bool,
    /// Its supervisor was killed, and not by us: nobody has had enough of the conversation.
    pub was_killed: bool,
    /// Why it could not be started, in its own words.
    pub refusal: String,
    /// When its supervisor was started, in ticks since boot: nothing older is of it.
    pub started: Option<u64>,
}

/// What `child.add` gave this one beside what its template says.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub prompt: Option<String>,
    pub env: Vec<(String, String)>,
    pub args: Vec<String>,
}

pub(super) struct Process {
    pub pid: i32,
    /// Both until it is ready: a thousand children are not to cost as many descriptors.
    pub spawning: Option<Spawning>,
    pub ready: Option<OwnedFd>,
    pub since: Instant,
}

/// Of a refusal.
const LONGEST: usize = 1 << 14;

impl Kid {
    pub fn new(settings: ChildSettings, node: &str, extra: Extra) -> Kid {
        let session = format!("{node}.{}", settings.spec.id);
        Kid {
            settings,
            session,
            extra,
            process: None,
            leftovers: None,
            last_end: None,
            was_started: false,
            was_killed: false,
            refusal: String::new(),
            started: None,
        }
    }

    /// Whether it says now that it is ready: an empty line. Anything else is why it never will be. A descriptor
    /// that was closed without a word says nothing any more.
    pub fn take_ready(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        let mut bytes = [0u8; 1024];
        while let Some(ready) = &process.ready {
            match nix::unistd::read(ready, &mut bytes) {
                Ok(1..) if self.refusal.is_empty() && bytes[0] == b'\n' => {
                    (process.ready, process.spawning) = (None, None);
                    return true;
                }
                Ok(n @ 1..) if self.refusal.len() < LONGEST => {
                    self.refusal += &String::from_utf8_lossy(&bytes[..n]);
                }
                Err(nix::errno::Errno::EAGAIN) => return false,
                Ok(_) | Err(_) => process.ready = None,
            }
        }
        false
    }

    pub fn last_end_in_words(&self, code: u8) -> String {
        match self.last_end {
            Some((How::Signal(n), ran)) => {
                format!("was ended by signal {} after {}", signals::name(n), in_words(ran))
            }
            Some((how, ran)) => format!("exited with code {} after {}", how.exit_code(), in_words(ran)),
            None => format!("could not be started (code {code})"),
        }
    }

    fn argv(&self, dir: &Path, config: &Path, ready: i32) -> Vec<OsString> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let ready = ready.to_string();
        let verb = match &self.settings.kind {
            ChildKind::Agent { .. } => "run",
            ChildKind::Node { .. } => "tree",
        };
        let mut argv = words(&["agentsup", verb, "--session", &self.session, "--ready-fd", &ready, "--dir"]);
        argv.push(dir.into());
        match &self.settings.kind {
            ChildKind::Agent { command, says_start, .. } => {
                // It halts by ending, and only that end counts here.
                argv.extend(words(&["--on-halt", "exit", "--config"]));
                argv.push(config.into());
                argv.extend(self.extra.prompt.iter().map(|prompt| format!("--prompt={prompt}").into()));
                if self.was_killed && !says_start {
                    // With nothing to continue that is fresh all the same.
                    argv.extend(words(&["--start", "continue"]));
                }
                argv.push("--".into());
                argv.extend(command.iter().cloned());
                argv.extend(self.extra.args.iter().map(OsString::from));
            }
            ChildKind::Node { file } => {
                argv.push("--".into());
                argv.push(file.into());
            }
        }
        argv
    }

    fn output(&self) -> io::Result<File> {
        let path = self.settings.output.as_deref().unwrap_or(Path::new("/dev/null"));
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK).open(path)
    }

    fn launch(
        &mut self,
        program: &Path,
        env: &[(OsString, OsString)],
        dir: &StateDir,
    ) -> Result<i32, (u8, String)> {
        let own = |what: &str, error: io::Error| (125, format!("{what}: {error}"));
        self.started = None;
        let config = config_of(dir, &self.session);
        if let ChildKind::Agent { config: ours, .. } = &self.settings.kind {
            let text = ours.with_env(&self.extra.env);
            record::replace(&config, text.as_bytes()).map_err(|e| own(&config.display().to_string(), e))?;
        }
        let (ready, told) = spawn::ready_pipe().map_err(|e| own("pipe", e))?;
        let stdin = File::open("/dev/null").map_err(|e| own("/dev/null", e))?;
        let output =
            self.output().map_err(|e| (78, format!("output: {e}; expected a file that can be written")))?;
        let argv = self.argv(&dir.path, &config, told.as_raw_fd());
        let mut env = env.to_vec();
        env.push(below::mark(&dir.path, &self.session));
        if self.was_started {
            env.push(below::again());
        }
        // For agents that are to reach the others: `pass_env = ["AGENTSUP_DIR"]`.
        env.push(("AGENTSUP_DIR".into(), dir.path.clone().into()));
        let spec = Spec {
            program,
            argv: &argv,
            env: Env::Exactly(&env),
            cwd: None,
            place: Place::Detached { stdin: stdin.as_fd(), stdout: output.as_fd(), stderr: sink::stderr() },
            signals: Signals::AllDefault,
            fds: Fds::StdioAnd(told.as_fd()),
            oom_score_adj: None,
        };
        let spawning = spawn::spawn(&spec).map_err(|error| (error.exit_code(), error.to_string()))?;
        let pid = spawning.pid;
        self.started = procfs::process(pid).map(|process| process.started);
        (self.was_started, self.was_killed) = (true, false);
        self.process =
            Some(Process { pid, spawning: Some(spawning), ready: Some(ready), since: Instant::now() });
        Ok(pid)
    }
}

/// A child's config file, carved out of the node's.
fn config_of(dir: &StateDir, session: &str) -> PathBuf {
    dir.path.join("supervisor").join(format!("{session}.toml"))
}

impl Supervisor {
    pub(super) fn spawn_kid(&mut self, key: Key) {
        let Some(dir) = self.state_dir() else { return };
        // Its config file is to lie there, and a child that cannot be started for want of that is not to be
        // taken for one that fails.
        self.footing.look();
        self.keep_footing();
        let lost = self.taken_by_another().map(|why| (78, why.to_owned()));
        let Some(node) = &mut self.node else { return };
        let Some(kid) = node.kids.get_mut(&key) else { return };
        let id = kid.settings.spec.id.clone();
        (kid.last_end, kid.refusal) = (None, String::new());
        let launch = || kid.launch(&node.settings.program, &node.settings.env, &dir);
        match lost.map_or_else(launch, Err) {
            Ok(pid) => {
                let event = LogEvent::new(Name::ChildSpawn)
                    .with("child", &id)
                    .with("pid", pid)
                    .with("session", &kid.session);
                self.log.record(event);
            }
            Err((code, why)) => {
                kid.refusal.clone_from(&why);
                node.events.push_back(Event::Exited(key, code));
                let event = LogEvent::new(Name::SpawnFailed)
                    .with("child", &id)
                    .with("code", code)
                    .with("error", &why);
                self.log.record(event);
                self.console.tell(&format!("cannot start child {id}: {why}"));
            }
        }
    }

    pub(in super::super) fn state_dir(&self) -> Option<StateDir> {
        match &self.charge {
            Charge::Run(session) => Some(session.settings.state_dir.clone()),
            Charge::Init(_) => None,
        }
    }

    pub(super) fn remove_config(&mut self, kid: Option<Kid>) {
        if let (Some(dir), Some(kid)) = (self.state_dir(), kid) {
            let _ = std::fs::remove_file(config_of(&dir, &kid.session));
        }
    }

    /// Those of an earlier node of this session, which had no time for that.
    pub(super) fn remove_old_configs(&self) {
        let Some(dir) = self.state_dir() else { return };
        let own = self.session_id();
        let below = format!("{own}.");
        // Whoever likes may have a tree of their own under such a name.
        let is_anothers = |node: &str| node != own && lock::is_held(&dir.lock(node)).unwrap_or(true);
        let is_one = |name: &str| {
            let session = name.strip_suffix(".toml").filter(|id| id.starts_with(&below));
            session.and_then(|id| id.rsplit_once('.')).is_some_and(|(node, _)| !is_anothers(node))
        };
        let entries = std::fs::read_dir(dir.path.join("supervisor")).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }

    /// All of them have ended, and the next start writes its own.
    pub(super) fn remove_configs(&mut self) {
        let (Some(dir), Some(node)) = (self.state_dir(), &self.node) else { return };
        for kid in node.kids.values() {
            let _ = std::fs::remove_file(config_of(&dir, &kid.session));
        }
    }
}
