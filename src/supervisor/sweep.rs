//! Ending a process tree: who gets TERM, and who has had it.

use std::collections::HashSet;
use std::ffi::OsString;

use crate::os::pidfd::PidFd;
use crate::os::procfs::{self, Process};
use crate::os::{signals, wait};

/// Rounds of "look, kill" against something that forks as fast as it dies.
const ROUNDS: usize = 50;

/// Who is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The agent's process group: what a signal to `init` reaches.
    Group(i32),
    /// One process and what descends from it.
    Under(i32),
    /// One process alone.
    One(i32),
    /// As PID 1 the whole pid namespace, else every descendant.
    Tree,
}

pub struct Sweep {
    me: i32,
    /// Orphans come to us. Where that is refused they are gone from our tree, and live on.
    keeps_orphans: bool,
    had_term: HashSet<(i32, u64)>,
    /// Not our children, so their end has to be watched: what entered the namespace from outside,
    /// what an earlier supervisor left behind, or what may become an orphan that is not kept.
    strangers: Vec<Stranger>,
    /// What entered from outside has its turn.
    outsiders_too: bool,
    /// Whom a pause has stopped.
    frozen: Option<Frozen>,
}

#[derive(Default)]
struct Frozen {
    processes: HashSet<(i32, u64)>,
    /// Where nothing can be seen.
    group: Option<i32>,
}

struct Stranger {
    process: Process,
    watch: PidFd,
}

impl Sweep {
    pub fn new() -> Sweep {
        let me = std::process::id().cast_signed();
        Sweep {
            me,
            keeps_orphans: me == 1 || wait::is_subreaper(),
            had_term: HashSet::new(),
            strangers: Vec::new(),
            outsiders_too: false,
            frozen: None,
        }
    }

    fn is_init(&self) -> bool {
        self.me == 1
    }

    pub fn keeps_orphans(&self) -> bool {
        self.keeps_orphans
    }

    /// TERM to everything in scope that has not had it yet; where nothing can be seen, to `agent`'s
    /// group.
    pub fn term(&mut self, scope: Scope, agent: Option<i32>) {
        let Some(all) = procfs::processes() else { return self.term_blindly(scope, agent) };
        let own = procfs::descendants(&all, self.me);
        let mut targets: Vec<Process> = match scope {
            Scope::Group(group) => own.into_iter().filter(|p| p.group == group).collect(),
            Scope::Under(root) => {
                let below: HashSet<i32> = procfs::descendants(&all, root).iter().map(|p| p.pid).collect();
                own.into_iter().filter(|p| p.pid == root || below.contains(&p.pid)).collect()
            }
            Scope::One(pid) => own.into_iter().filter(|p| p.pid == pid).collect(),
            Scope::Tree => own,
        };
        if !self.keeps_orphans {
            // Perhaps the last look at whose they are: when their parent ends, they are nobody's.
            self.watch(targets.clone());
            if scope == Scope::Tree {
                targets.extend(self.living_strangers());
            }
        }
        let cleaning = self.cleaning_up(&all);
        self.term_each(targets.iter().filter(|p| !cleaning.contains(&p.pid)));
    }

    /// What has been started by somebody who had TERM and is still at it: the commands of its
    /// clean-up, which a TERM would cut short.
    fn cleaning_up(&self, all: &[Process]) -> HashSet<i32> {
        let at_it = all.iter().filter(|p| self.had_term.contains(&(p.pid, p.started)) && !p.zombie);
        at_it.flat_map(|p| procfs::descendants(all, p.pid)).map(|p| p.pid).collect()
    }

    fn term_each<'a>(&mut self, targets: impl Iterator<Item = &'a Process>) {
        for process in targets.filter(|p| !p.zombie) {
            if self.had_term.insert((process.pid, process.started)) {
                let _ = signals::send(process.pid, libc::SIGTERM);
                if process.stopped {
                    // It acts on TERM only when it runs.
                    let _ = signals::send(process.pid, libc::SIGCONT);
                }
            }
        }
    }

    /// Without /proc nobody can be counted, so TERM goes out once and to all.
    fn term_blindly(&mut self, scope: Scope, agent: Option<i32>) {
        if !matches!(scope, Scope::Under(_)) && !self.had_term.insert((0, 0)) {
            return;
        }
        let _ = match scope {
            Scope::Group(group) => signals::send_group(group, libc::SIGTERM),
            Scope::Under(root) => signals::send(root, libc::SIGTERM),
            Scope::One(pid) => signals::send(pid, libc::SIGTERM),
            Scope::Tree if self.is_init() => signals::send_everyone(libc::SIGTERM),
            Scope::Tree => agent.map_or(Ok(()), |group| signals::send_group(group, libc::SIGTERM)),
        };
    }

    /// From now on the turn of what entered from outside has come.
    pub fn include_outsiders(&mut self) {
        self.outsiders_too = true;
        if !self.is_init() {
            return;
        }
        let Some(all) = procfs::processes() else { return };
        let own: HashSet<i32> = procfs::descendants(&all, self.me).iter().map(|p| p.pid).collect();
        let outsiders: Vec<Process> =
            all.into_iter().filter(|p| p.pid != self.me && !own.contains(&p.pid) && !p.zombie).collect();
        let cleaning = self.cleaning_up(&outsiders);
        self.term_each(outsiders.iter().filter(|p| !cleaning.contains(&p.pid)));
        self.watch(outsiders);
    }

    /// What an earlier supervisor of this session left behind: found by the environment it gave
    /// them, our own ancestors left out.
    pub fn adopt_leftovers(&mut self, marks: &[OsString]) -> usize {
        let mut ancestors = HashSet::new();
        let mut pid = self.me;
        while let Some(parent) = procfs::parent_of(pid).filter(|&p| p > 0 && ancestors.insert(p)) {
            pid = parent;
        }
        let left: Vec<Process> =
            procfs::with_environment(marks).into_iter().filter(|p| !ancestors.contains(&p.pid)).collect();
        self.watch(left);
        self.strangers.len()
    }

    fn watch(&mut self, processes: Vec<Process>) {
        for process in processes {
            if self.strangers.iter().any(|s| s.process.pid == process.pid) {
                continue;
            }
            if let Some(watch) = PidFd::open(process.pid) {
                self.strangers.push(Stranger { process, watch });
            }
        }
    }

    pub fn strangers(&self) -> impl Iterator<Item = &PidFd> {
        self.strangers.iter().map(|s| &s.watch)
    }

    pub fn term_strangers(&mut self) {
        let all: Vec<Process> = self.strangers.iter().map(|s| s.process).collect();
        self.term_each(all.iter());
    }

    pub fn living_strangers(&mut self) -> Vec<Process> {
        self.strangers_left();
        self.strangers.iter().map(|s| s.process).collect()
    }

    pub fn kill_strangers(&self) {
        for stranger in &self.strangers {
            let _ = signals::send(stranger.process.pid, libc::SIGKILL);
        }
    }

    /// Forgets the strangers that have ended; says whether any is left.
    pub fn strangers_left(&mut self) -> bool {
        self.strangers.retain(|s| {
            procfs::process(s.process.pid).is_some_and(|p| p.started == s.process.started && !p.zombie)
        });
        !self.strangers.is_empty()
    }

    pub fn kill(&mut self, agent: Option<i32>) {
        if self.is_init() {
            let _ = signals::send_everyone(libc::SIGKILL);
            self.include_outsiders();
            return;
        }
        if let Some(group) = agent {
            let _ = signals::send_group(group, libc::SIGKILL);
        }
        if !self.keeps_orphans && self.strangers_left() {
            self.kill_strangers();
        }
        let mut killed = HashSet::new();
        for _ in 0..ROUNDS {
            let alive = self.alive();
            let new: Vec<_> = alive.iter().filter(|p| killed.insert((p.pid, p.started))).collect();
            if new.is_empty() {
                return;
            }
            for process in new {
                let _ = signals::send(process.pid, libc::SIGKILL);
            }
        }
    }

    /// One of our children, and what descends from it.
    pub fn kill_under(&self, root: i32) {
        let all = procfs::processes().unwrap_or_default();
        let below = procfs::descendants(&all, root);
        let _ = signals::send_group(root, libc::SIGKILL);
        for process in below.iter().filter(|p| !p.zombie) {
            let _ = signals::send(process.pid, libc::SIGKILL);
        }
    }

    /// Stops every descendant; where nothing can be seen, `agent`'s group. Whom somebody else has
    /// stopped is left to them.
    pub fn freeze(&mut self, agent: Option<i32>) {
        let mut frozen = self.frozen.take().unwrap_or_default();
        for _ in 0..ROUNDS {
            let Some(all) = procfs::processes() else {
                if let Some(group) = agent {
                    let _ = signals::send_group(group, libc::SIGSTOP);
                }
                frozen.group = agent;
                break;
            };
            // A pending signal makes a fork start over, so nobody is born behind our back.
            let tree = procfs::descendants(&all, self.me);
            let moving = tree.iter().filter(|p| !p.zombie && !p.stopped);
            let new: Vec<_> = moving.filter(|p| frozen.processes.insert((p.pid, p.started))).collect();
            if new.is_empty() {
                break;
            }
            for process in new {
                let _ = signals::send(process.pid, libc::SIGSTOP);
            }
        }
        self.frozen = Some(frozen);
    }

    /// Continues whom we stopped; says whether there was a pause to end.
    pub fn thaw(&mut self) -> bool {
        let Some(frozen) = self.frozen.take() else { return false };
        for (pid, started) in frozen.processes {
            if procfs::process(pid).is_some_and(|p| p.started == started) {
                let _ = signals::send(pid, libc::SIGCONT);
            }
        }
        if let Some(group) = frozen.group {
            let _ = signals::send_group(group, libc::SIGCONT);
        }
        true
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// What is still there, zombies left out.
    pub fn alive(&self) -> Vec<Process> {
        let all = procfs::processes().unwrap_or_default();
        let tree = if self.is_init() {
            all.into_iter().filter(|p| p.pid != self.me).collect()
        } else {
            procfs::descendants(&all, self.me)
        };
        tree.into_iter().filter(|p| !p.zombie).collect()
    }

    /// Our own tree is gone: now wait for what entered from outside. True when that is gone too.
    pub fn is_over(&mut self) -> bool {
        if !self.is_init() {
            return self.keeps_orphans || !self.strangers_left();
        }
        if !self.outsiders_too {
            self.include_outsiders();
        }
        !self.strangers_left()
    }
}
