//! The agent: how it is launched, and what belongs to it while it lives.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::termios::Termios;

use super::buffer::Buffer;
use super::settings::Size;
use crate::os::pty::{self, Pty, Read};
use crate::os::spawn::{self, Env, Fds, Place, Signals, SpawnError, Spawning, Spec};
use crate::os::{cgroup, procfs, signals, tty};

/// How much of a dead agent's last words is read, although an orphan may go on talking.
const LAST_WORDS: usize = 256 * 1024;
/// Above our own score: when memory runs out the agent goes first.
const OOM_SCORE_ABOVE: i32 = 100;

pub struct Agent {
    pub pid: i32,
    /// Signals go here; `None` when it shares our own process group.
    group: Option<i32>,
    pub terminal: Option<AgentTerminal>,
    /// The controlling terminal that it was put in front of.
    in_front_of: Option<OwnedFd>,
    /// Until exec is known to have succeeded or failed.
    pub spawning: Option<Spawning>,
    oom_kills_before: Option<u64>,
    pub killed_by_us: bool,
}

pub struct AgentTerminal {
    pub pty: Pty,
    /// Held so that the master never reports a hang-up while the agent lives: it may close its
    /// terminal and open it again.
    slave: OwnedFd,
    pub input: Buffer,
}

impl AgentTerminal {
    /// Whether something that was typed waits for the agent to read it.
    pub fn has_unread(&self) -> bool {
        pty::unread(self.slave.as_fd()) > 0
    }
}

pub struct Launch<'a> {
    pub program: PathBuf,
    pub argv: &'a [OsString],
    pub env: Option<&'a [(OsString, OsString)]>,
    pub cwd: Option<PathBuf>,
}

impl Agent {
    /// On a pty of its own.
    pub fn on_pty(launch: &Launch, size: Size, like: Option<&Termios>) -> Result<Agent, LaunchError> {
        let (pty, slave) = Pty::open(size.cols, size.rows, like).map_err(LaunchError::Pty)?;
        let spec = Spec {
            signals: Signals::AllDefault,
            fds: Fds::OnlyStdio,
            ..launch.spec(Place::Terminal(slave.as_fd()))
        };
        let oom_kills_before = launch.oom_kills();
        let spawning = spawn::spawn(&spec)?;
        Ok(Agent {
            pid: spawning.pid,
            group: Some(spawning.pid),
            terminal: Some(AgentTerminal { pty, slave, input: Buffer::default() }),
            in_front_of: None,
            spawning: Some(spawning),
            oom_kills_before,
            killed_by_us: false,
        })
    }

    /// On our own stdin, stdout and stderr, placed as a shell would place it.
    pub fn on_stdio(launch: &Launch) -> Result<Agent, LaunchError> {
        let terminal = tty::controlling();
        let in_front =
            terminal.as_ref().is_some_and(|t| tty::foreground(t.as_fd()) == Some(tty::own_group()));
        // In a pipeline (`agentsup run -- claude -p … | less`) the terminal belongs to the whole
        // job: a group of its own in front would stop the pager.
        let alone = tty::stdin_is_terminal() && tty::stdout_is_terminal();
        let (place, own_group) = match &terminal {
            None => (Place::OwnGroup { terminal: None }, true),
            Some(t) if alone => (Place::OwnGroup { terminal: in_front.then(|| t.as_fd()) }, true),
            Some(_) => (Place::SameGroup, false),
        };
        let oom_kills_before = launch.oom_kills();
        let spawning = spawn::spawn(&launch.spec(place))?;
        Ok(Agent {
            pid: spawning.pid,
            group: own_group.then_some(spawning.pid),
            terminal: None,
            in_front_of: terminal.filter(|_| alone),
            spawning: Some(spawning),
            oom_kills_before,
            killed_by_us: false,
        })
    }

    pub fn group(&self) -> Option<i32> {
        self.group
    }

    /// To the group in front of its terminal, as a key would; else to its own; else to it alone.
    pub fn signal(&self, signal: i32) {
        let in_front = self.terminal.as_ref().and_then(|t| t.pty.foreground());
        let _ = match in_front.or(self.group) {
            Some(group) => signals::send_group(group, signal),
            None => signals::send(self.pid, signal),
        };
    }

    pub fn kill(&mut self) {
        self.killed_by_us = true;
        let _ = signals::send(self.pid, libc::SIGKILL);
    }

    /// Whether Ctrl-Z would stop the agent itself, and not a job that it runs in front.
    pub fn would_suspend(&self) -> bool {
        self.terminal.as_ref().and_then(|t| t.pty.foreground()) == self.group
            && !procfs::is_ignoring(self.pid, libc::SIGTSTP)
    }

    /// Puts its group in front if ours is; says whether it did.
    pub fn take_front(&self) -> bool {
        match (&self.in_front_of, self.group) {
            (Some(terminal), Some(group)) => {
                tty::foreground(terminal.as_fd()) == Some(tty::own_group())
                    && tty::set_foreground(terminal.as_fd(), group).is_ok()
            }
            _ => false,
        }
    }

    /// After a stop: in front again if our job is, and running.
    pub fn resume(&self) {
        self.take_front();
        match self.group {
            Some(group) => {
                let _ = signals::send_group(group, libc::SIGCONT);
            }
            None => {
                let _ = signals::send(self.pid, libc::SIGCONT);
            }
        }
    }

    /// The agent is gone: its controlling terminal comes back to our group.
    pub fn return_terminal(&self) {
        if let Some(terminal) = &self.in_front_of
            && tty::foreground(terminal.as_fd()) == self.group
        {
            let _ = tty::set_foreground(terminal.as_fd(), tty::own_group());
        }
    }

    /// What it wrote before it ended. An orphan may hold the terminal and go on: then only what is
    /// there by now counts.
    pub fn last_words(&self, mut take: impl FnMut(&[u8])) {
        let Some(terminal) = &self.terminal else { return };
        let mut buffer = [0u8; 4096];
        let mut total = 0;
        while total < LAST_WORDS
            && let Read::Bytes(n) = terminal.pty.read(&mut buffer)
        {
            take(&buffer[..n]);
            total += n;
        }
    }

    /// A KILL that was not ours, while the kernel's count of OOM kills rose.
    pub fn was_oom_killed(&self, signal: Option<i32>) -> bool {
        signal == Some(libc::SIGKILL)
            && !self.killed_by_us
            && matches!((self.oom_kills_before, cgroup::oom_kills()), (Some(a), Some(b)) if b > a)
    }
}

impl Launch<'_> {
    /// Not for `init`, which tells nobody.
    fn oom_kills(&self) -> Option<u64> {
        self.env?;
        cgroup::oom_kills()
    }

    /// Not for `init`, which changes nothing about its child.
    fn oom_score_adj(&self) -> Option<i32> {
        self.env?;
        procfs::own_oom_score_adj().map(|own| (own + OOM_SCORE_ABOVE).min(procfs::MOST_OOM_SCORE_ADJ))
    }

    fn spec<'b>(&'b self, place: Place<'b>) -> Spec<'b> {
        Spec {
            program: &self.program,
            argv: self.argv,
            env: self.env.map_or(Env::Inherit, Env::Exactly),
            cwd: self.cwd.as_deref(),
            place,
            signals: Signals::AsWeWere,
            fds: Fds::Inherit,
            oom_score_adj: self.oom_score_adj(),
        }
    }
}

/// Why there is no agent, before exec could say so itself.
pub enum LaunchError {
    Pty(std::io::Error),
    Spawn(SpawnError),
}

impl From<SpawnError> for LaunchError {
    fn from(error: SpawnError) -> LaunchError {
        LaunchError::Spawn(error)
    }
}
