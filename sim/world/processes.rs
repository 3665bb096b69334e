//! Processes: born, signalled, stopped, ended, orphaned and reaped as a kernel does it.

mod births;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Deed, World};
use crate::clock;
use crate::mood::Mood;
use crate::os::procfs;
use crate::os::signals::Arrived;
use crate::os::spawn::SpawnError;
use crate::os::wait::{How, Next, Reaped};
use crate::rng::Rng;

/// The shell of whoever is no part of the supervised tree.
pub const OUTSIDE: i32 = 77;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Agent,
    /// `before_spawn`, what notifies, a call that carries a trigger.
    Helper,
    /// Of the agent, of its children, of anybody.
    Child,
    /// Of an earlier supervisor of the session.
    Leftover,
    /// Entered from outside.
    Outsider,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Stopped,
    Zombie(How),
}

/// What it does about TERM and KILL; settled at its birth, so that no order of signals draws on chance.
#[derive(Clone, Copy, Debug)]
struct Temper {
    /// `None`: it ignores TERM.
    ends_within: Option<Duration>,
    code_on_term: Option<u8>,
    /// It uses a core, and does not only wait.
    is_busy: bool,
    /// In the kernel, where KILL does not reach it.
    is_stuck: bool,
}

#[derive(Clone, Debug)]
pub struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    started: u64,
    pub role: Role,
    state: State,
    temper: Temper,
    /// That it was stopped or continued, as long as nobody was told; the later is the news.
    news: Option<How>,
    /// What the exec came to, once it is known.
    exec: Option<Result<(), SpawnError>>,
    is_ending: bool,
    /// Stuck, and to die when it comes out of the kernel: until then it does nothing.
    is_doomed: bool,
    /// It says nothing more, whatever it was about to do.
    hangs: bool,
    born: u64,
    /// Of its children that have ended, in milliseconds.
    reaped_cpu: u64,
    /// The supervisor started it, or something that it started.
    is_ours: bool,
}

impl Process {
    fn is_alive(&self) -> bool {
        !matches!(self.state, State::Zombie(_))
    }

    fn acts(&self) -> bool {
        self.state == State::Runs && !self.is_doomed
    }

    fn cpu(&self) -> u64 {
        if self.temper.is_busy { (clock::now() - self.born) / 1_000_000 } else { 1 }
    }

    fn shown(&self) -> procfs::Process {
        procfs::Process {
            pid: self.pid,
            parent: self.parent,
            group: self.group,
            started: self.started,
            zombie: !self.is_alive(),
            stopped: self.state == State::Stopped,
        }
    }
}

pub struct Processes {
    me: i32,
    table: BTreeMap<i32, Process>,
    last_pid: i32,
}

impl Processes {
    pub fn new(mood: &Mood) -> Processes {
        Processes { me: if mood.is_pid_1 { 1 } else { 100 }, table: BTreeMap::new(), last_pid: 1000 }
    }

    pub fn me(&self) -> i32 {
        self.me
    }

    fn born(&mut self, role: Role, parent: i32, rng: &mut Rng, is_stubborn: bool) -> i32 {
        self.last_pid += 1 + rng.below(3) as i32;
        let pid = self.last_pid;
        let group = match role {
            Role::Child => self.table.get(&parent).map_or(pid, |parent| parent.group),
            Role::Agent | Role::Helper | Role::Leftover | Role::Outsider => pid,
        };
        let patience = if is_stubborn { Duration::from_secs(30) } else { Duration::from_millis(300) };
        let temper = Temper {
            ends_within: (!is_stubborn || !rng.once_in(3)).then(|| rng.span(patience)),
            code_on_term: rng.once_in(2).then(|| *rng.pick(&[0, 1, 143])),
            is_busy: rng.once_in(6),
            is_stuck: is_stubborn && role == Role::Child && rng.once_in(40),
        };
        let process = Process {
            pid,
            parent,
            group,
            started: clock::now() / 10_000_000,
            role,
            state: State::Runs,
            temper,
            news: None,
            exec: None,
            is_ending: false,
            is_doomed: false,
            hangs: false,
            born: clock::now(),
            reaped_cpu: 0,
            is_ours: match role {
                Role::Agent | Role::Helper => true,
                Role::Child => self.table.get(&parent).is_some_and(|parent| parent.is_ours),
                Role::Leftover | Role::Outsider => false,
            },
        };
        self.table.insert(pid, process);
        pid
    }

    pub fn is_exec_known(&self, pid: i32) -> bool {
        self.table.get(&pid).is_none_or(|process| process.exec.is_some() || !process.is_alive())
    }

    pub fn has_ended(&self, pid: i32) -> bool {
        self.table.get(&pid).is_none_or(|process| !process.is_alive())
    }

    /// Runs, and has come through its exec.
    pub fn is_at_work(&self, pid: i32) -> bool {
        let is_past_exec = |process: &Process| process.exec.is_none_or(|exec| exec.is_ok());
        self.table.get(&pid).is_some_and(|process| process.acts() && is_past_exec(process))
    }

    pub fn is_stopped(&self, pid: i32) -> bool {
        self.table.get(&pid).is_some_and(|process| process.state == State::Stopped)
    }

    pub fn living_agents(&self) -> Vec<i32> {
        self.table.values().filter(|p| p.role == Role::Agent && p.is_alive()).map(|p| p.pid).collect()
    }

    /// Its own, and of its children that have ended.
    pub fn cpu(&self, pid: i32) -> (u64, u64) {
        self.table.get(&pid).map_or((0, 0), |process| (process.cpu(), process.reaped_cpu))
    }

    pub fn hangs(&self, pid: i32) -> bool {
        self.table.get(&pid).is_some_and(|process| process.hangs)
    }

    pub fn set_hangs(&mut self, pid: i32, hangs: bool) {
        if let Some(process) = self.table.get_mut(&pid) {
            process.hangs = hangs;
        }
    }

    pub fn role(&self, pid: i32) -> Option<Role> {
        self.table.get(&pid).map(|process| process.role)
    }

    /// As /proc shows them: ourselves and the rest.
    pub fn all(&self) -> Vec<procfs::Process> {
        std::iter::once(always_there(self.me)).chain(self.table.values().map(Process::shown)).collect()
    }

    pub fn look_at(&self, pid: i32) -> Option<procfs::Process> {
        if pid == self.me || pid == OUTSIDE {
            return Some(always_there(pid));
        }
        self.table.get(&pid).map(Process::shown)
    }

    /// Those whose environment names the session.
    pub fn marked(&self) -> Vec<procfs::Process> {
        let marked = |p: &&Process| p.is_alive() && p.role != Role::Outsider && p.role != Role::Helper;
        self.table.values().filter(marked).map(Process::shown).collect()
    }

    /// What the supervisor has started, by itself or by others, and what was born before then and lives
    /// below it; and whether each could be ended at all.
    pub fn living_below(&self, before: u64) -> Vec<(i32, bool)> {
        let below = procfs::descendants(&self.all(), self.me);
        let below = below.iter().filter_map(|process| self.table.get(&process.pid));
        let counted = below.filter(|process| process.is_alive() && process.is_ours && process.born < before);
        counted.map(|process| (process.pid, !process.temper.is_stuck)).collect()
    }

    fn children(&self, of: i32) -> Vec<i32> {
        self.table.values().filter(|process| process.parent == of).map(|process| process.pid).collect()
    }

    pub fn any_child(&self, rng: &mut Rng) -> Option<i32> {
        let alive: Vec<i32> = self.table.values().filter(|p| p.acts()).map(|p| p.pid).collect();
        (!alive.is_empty()).then(|| *rng.pick(&alive))
    }
}

impl World {
    pub fn process_ends(&mut self, pid: i32, how: How) {
        let me = self.processes.me;
        let Some(process) = self.processes.table.get_mut(&pid).filter(|process| process.is_alive()) else {
            return;
        };
        if process.state == State::Stopped && how != How::Signal(libc::SIGKILL) {
            // It acts when it runs again.
            let again = Duration::from_millis(50);
            return self.agenda.after(again, Deed::Ends(pid, how));
        }
        process.state = State::Zombie(how);
        let (parent, role) = (process.parent, process.role);
        self.story.event("ended", role_name(role), i64::from(pid));
        let heir = if self.mood.keeps_orphans { me } else { 0 };
        for child in self.processes.children(pid) {
            if let Some(child) = self.processes.table.get_mut(&child) {
                child.parent = if child.role == Role::Outsider { 0 } else { heir };
            }
        }
        if parent == me {
            self.inbox.push(Arrived { signal: libc::SIGCHLD, sent: false, sender: 0 });
        } else {
            // Its own parent reaps it.
            let used = self.processes.table.remove(&pid).map_or(0, |gone| gone.cpu() + gone.reaped_cpu);
            if let Some(parent) = self.processes.table.get_mut(&parent) {
                parent.reaped_cpu += used;
            }
        }
        if role == Role::Agent {
            self.agent_is_gone(pid);
        }
    }

    pub fn has_children(&self) -> bool {
        !self.processes.children(self.processes.me).is_empty()
    }

    pub fn reap(&mut self) -> Next {
        let me = self.processes.me;
        let ours: Vec<i32> = self.processes.children(me);
        if ours.is_empty() {
            return Next::NoneLeft;
        }
        for pid in ours {
            let Some(process) = self.processes.table.get_mut(&pid) else { continue };
            if let State::Zombie(how) = process.state {
                self.processes.table.remove(&pid);
                self.facts.moved += 1;
                return Next::Child(Reaped { pid, how });
            }
            if let Some(how) = process.news.take() {
                self.facts.moved += 1;
                return Next::Child(Reaped { pid, how });
            }
        }
        Next::NoNews
    }

    pub fn kill(&mut self, pid: i32, signal: i32) {
        let me = self.processes.me;
        let Some(process) = self.processes.table.get_mut(&pid).filter(|process| process.is_alive()) else {
            return;
        };
        self.facts.moved += 1;
        let temper = process.temper;
        let mut news = None;
        process.is_doomed |= signal == libc::SIGKILL;
        let ends = match signal {
            libc::SIGKILL if !temper.is_stuck => Some((Duration::ZERO, How::Signal(libc::SIGKILL))),
            libc::SIGTERM if !process.is_ending => temper.ends_within.map(|within| {
                process.is_ending = true;
                (within, temper.code_on_term.map_or(How::Signal(libc::SIGTERM), How::Code))
            }),
            libc::SIGSTOP | libc::SIGTSTP if process.state == State::Runs && !temper.is_stuck => {
                process.state = State::Stopped;
                news = Some(How::Stopped(signal));
                None
            }
            libc::SIGCONT if process.state == State::Stopped => {
                process.state = State::Runs;
                news = Some(How::Continued);
                None
            }
            // Most programs do not expect these.
            libc::SIGHUP | libc::SIGUSR1 | libc::SIGUSR2 if pid % 3 == 0 => {
                Some((Duration::from_millis(1), How::Signal(signal)))
            }
            _ => None,
        };
        if news.is_some() && process.parent == me {
            process.news = news;
            self.inbox.push(Arrived { signal: libc::SIGCHLD, sent: false, sender: 0 });
        }
        self.story.note("kill", "", i64::from(pid), &signal.to_string());
        match ends {
            Some((Duration::ZERO, how)) => self.process_ends(pid, how),
            Some((within, how)) => self.agenda.after(within, Deed::Ends(pid, how)),
            None => {}
        }
    }

    pub fn kill_group(&mut self, group: i32, signal: i32) {
        let members: Vec<i32> = self
            .processes
            .table
            .values()
            .filter(|p| p.group == group && p.is_alive())
            .map(|p| p.pid)
            .collect();
        for pid in members {
            self.kill(pid, signal);
        }
    }

    pub fn kill_everyone(&mut self, signal: i32) {
        let all: Vec<i32> = self.processes.table.keys().copied().collect();
        for pid in all {
            self.kill(pid, signal);
        }
    }

    /// What somebody's child does: it has children, ends, or is stopped and continued by a stranger.
    pub fn process_acts(&mut self, pid: i32) {
        if !self.processes.is_at_work(pid) {
            if self.processes.is_stopped(pid) {
                self.agenda.after(Duration::from_millis(200), Deed::Acts(pid));
            }
            return;
        }
        match self.processes.role(pid) {
            Some(Role::Agent) => {
                let pause = self.rng.span(Duration::from_secs(30));
                self.agenda.after(pause, Deed::Acts(pid));
                self.agent_acts(pid);
            }
            Some(Role::Helper) if self.rng.once_in(2) => self.helper_speaks(pid),
            Some(Role::Child) => match self.rng.below(4) {
                0 => {
                    self.born_below(pid);
                }
                1 | 2 => {
                    let code = self.rng.below(3) as u8;
                    self.process_ends(pid, How::Code(code));
                }
                _ => self.kill(pid, libc::SIGSTOP),
            },
            Some(Role::Helper | Role::Leftover | Role::Outsider) | None => {}
        }
    }

    /// A child that will do something by itself.
    pub fn born_below(&mut self, parent: i32) -> i32 {
        let pid = self.born(Role::Child, parent);
        let soon = self.rng.span(Duration::from_secs(20));
        self.agenda.after(soon, Deed::Acts(pid));
        pid
    }
}

fn always_there(pid: i32) -> procfs::Process {
    procfs::Process { pid, parent: 0, group: pid, started: 1, zombie: false, stopped: false }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Agent => "agent",
        Role::Helper => "helper",
        Role::Child => "child",
        Role::Leftover => "leftover",
        Role::Outsider => "outsider",
    }
}
