//! Ending a process tree: who gets TERM, and who has had it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::os::freezer::{self, Freezer};
use crate::os::pidfd::PidFd;
use crate::os::procfs::{self, Process};
use crate::os::{signals, wait};

/// Rounds of "look, kill" against something that forks as fast as it dies.
const ROUNDS: usize = 50;
/// How often strangers are looked for whose end the kernel will not tell.
const LOOK: Duration = Duration::from_millis(20);

/// Who is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The agent's process group: what a signal to `init` reaches.
    Group(i32),
    /// One process and what descends from it.
    Under(i32),
    /// Every descendant but these, and what descends from them.
    AllBut(&'a [i32]),
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
    /// When those are looked for that cannot be watched.
    next_look: Option<Instant>,
    /// What entered from outside has its turn.
    outsiders_too: bool,
    /// Whom a pause has stopped.
    frozen: Option<Frozen>,
}

struct Frozen {
    since: Instant,
    freezer: Option<Freezer>,
    /// In the freezer.
    inside: HashSet<(i32, u64)>,
    /// By a signal, because the freezer could not take them.
    processes: HashSet<(i32, u64)>,
    /// Where nothing can be seen.
    group: Option<i32>,
}

impl Frozen {
    fn begin() -> Frozen {
        Frozen {
            since: Instant::now(),
            freezer: None,
            inside: HashSet::new(),
            processes: HashSet::new(),
            group: None,
        }
    }

    fn how(&self) -> &'static str {
        match self.freezer {
            Some(_) => "freezer",
            None => "signal",
        }
    }
}

struct Stranger {
    process: Process,
    /// `None` on an old kernel, under a filter, or out of descriptors.
    watch: Option<PidFd>,
}

impl Sweep {
    pub fn new() -> Sweep {
        let me = std::process::id().cast_signed();
        Sweep {
            me,
            keeps_orphans: me == 1 || wait::is_subreaper(),
            had_term: HashSet::new(),
            strangers: Vec::new(),
            next_look: None,
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
        if self.keeps_orphans && !wait::has_children() {
            // Looking through all of /proc would be most of what a short life costs.
            return;
        }
        let Some(all) = procfs::processes() else { return self.term_blindly(scope, agent) };
        let own = procfs::descendants(&all, self.me);
        let mut targets: Vec<Process> = match scope {
            Scope::Group(group) => own.into_iter().filter(|p| p.group == group).collect(),
            Scope::Under(root) => {
                let below: HashSet<i32> = procfs::descendants(&all, root).iter().map(|p| p.pid).collect();
                own.into_iter().filter(|p| p.pid == root || below.contains(&p.pid)).collect()
            }
            Scope::AllBut(spared) => without(own, &all, spared),
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
        if !matches!(scope, Scope::Under(_) | Scope::AllBut(_)) && !self.had_term.insert((0, 0)) {
            return;
        }
        let _ = match scope {
            Scope::Group(group) => signals::send_group(group, libc::SIGTERM),
            Scope::Under(root) => signals::send(root, libc::SIGTERM),
            Scope::One(pid) => signals::send(pid, libc::SIGTERM),
            Scope::Tree if self.is_init() => signals::send_everyone(libc::SIGTERM),
            Scope::Tree | Scope::AllBut(_) => {
                agent.map_or(Ok(()), |group| signals::send_group(group, libc::SIGTERM))
            }
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

    /// Whatever descends from us, but not through `spared`.
    pub fn below_us_but(&self, spared: &[i32]) -> Vec<Process> {
        if !wait::has_children() {
            return vec![];
        }
        let all = procfs::processes().unwrap_or_default();
        let mut below = without(procfs::descendants(&all, self.me), &all, spared);
        below.retain(|p| !p.zombie);
        below
    }

    /// Not our children, or to be waited for all the same; our own ancestors left out.
    pub fn adopt(&mut self, found: Vec<Process>) -> usize {
        if found.is_empty() {
            // At nearly every start. A look at all that stands above us would be a tenth of its system calls.
            return self.strangers.len();
        }
        let mut ancestors = HashSet::new();
        let mut pid = self.me;
        while let Some(parent) = procfs::parent_of(pid).filter(|&p| p > 0 && ancestors.insert(p)) {
            pid = parent;
        }
        let left: Vec<Process> = found.into_iter().filter(|p| !ancestors.contains(&p.pid)).collect();
        for process in &left {
            // It acts on TERM only when it runs.
            freezer::release(process.pid);
        }
        self.watch(left);
        self.strangers.len()
    }

    fn watch(&mut self, processes: Vec<Process>) {
        for process in processes {
            let is_it = |s: &Stranger| (s.process.pid, s.process.started) == (process.pid, process.started);
            if self.strangers.iter().any(is_it) {
                continue;
            }
            let watch = PidFd::open(process.pid);
            if watch.is_none() {
                if !lives(&process) {
                    continue;
                }
                self.next_look.get_or_insert_with(|| Instant::now() + LOOK);
            }
            self.strangers.push(Stranger { process, watch });
        }
    }

    pub fn strangers(&self) -> impl Iterator<Item = &PidFd> {
        self.strangers.iter().filter_map(|s| s.watch.as_ref())
    }

    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    pub fn term_strangers(&mut self) {
        let all: Vec<Process> = self.strangers.iter().map(|s| s.process).collect();
        self.term_each(all.iter());
    }

    /// Whoever has had TERM from `other` is not told again.
    pub fn knows_what(&mut self, other: &Sweep) {
        self.had_term.extend(&other.had_term);
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

    /// The same, and to whoever `look` finds beside them: what forks as fast as it dies.
    pub fn kill_whoever(&mut self, look: impl Fn() -> Vec<Process>) {
        kill_until_none_is_new(|| {
            self.adopt(look());
            self.strangers.iter().map(|stranger| stranger.process).collect()
        });
    }

    /// Forgets the strangers that have ended; says whether any is left.
    pub fn strangers_left(&mut self) -> bool {
        self.strangers.retain(|s| lives(&s.process));
        let is_unwatched = self.strangers.iter().any(|s| s.watch.is_none());
        self.next_look = is_unwatched.then(|| Instant::now() + LOOK);
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
        kill_until_none_is_new(|| self.alive());
    }

    /// The agent's group and every descendant but these, and what descends from them.
    pub fn kill_all_but(&self, spared: &[i32], agent: Option<i32>) {
        if let Some(group) = agent {
            let _ = signals::send_group(group, libc::SIGKILL);
        }
        kill_until_none_is_new(|| self.below_us_but(spared));
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

    /// Freezes every descendant in a cgroup of its own, or stops it where that is refused; where
    /// nothing can be seen, `agent`'s group. Whom somebody else has stopped is left to them.
    /// `spared` go on with all below them.
    pub fn freeze(&mut self, agent: Option<i32>, session: &str, spared: &[i32]) -> &'static str {
        let mut frozen = self.frozen.take().unwrap_or_else(Frozen::begin);
        if frozen.freezer.is_none() {
            frozen.freezer = Freezer::make(session);
        }
        let mut refused = HashSet::new();
        for _ in 0..ROUNDS {
            let Some(all) = procfs::processes() else {
                if let Some(group) = agent {
                    let _ = signals::send_group(group, libc::SIGSTOP);
                }
                frozen.group = agent;
                break;
            };
            let tree = without(procfs::descendants(&all, self.me), &all, spared);
            let mut moving: Vec<&Process> = tree.iter().filter(|p| !p.zombie).collect();
            let mut is_new = false;
            if let Some(freezer) = &frozen.freezer {
                // A child is born where its parent is: whoever is inside has none outside.
                moving.retain(|p| !frozen.inside.contains(&(p.pid, p.started)));
                moving.retain(|p| {
                    let taken = freezer.take(p.pid);
                    is_new |= taken && frozen.inside.insert((p.pid, p.started));
                    if taken || freezer.holds(p.pid) {
                        return false;
                    }
                    // It may have been on its way in while we looked. Who cannot be taken is so twice.
                    let is_first_time = refused.insert((p.pid, p.started));
                    is_new |= is_first_time;
                    !is_first_time
                });
            }
            // A pending signal makes a fork start over, so nobody is born behind our back.
            for process in moving.into_iter().filter(|p| !p.stopped) {
                if frozen.processes.insert((process.pid, process.started)) {
                    is_new = true;
                    let _ = signals::send(process.pid, libc::SIGSTOP);
                }
            }
            if !is_new {
                break;
            }
        }
        if frozen.inside.is_empty() {
            frozen.freezer = None;
        }
        let how = frozen.how();
        self.frozen = Some(frozen);
        how
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

    pub fn frozen_since(&self) -> Option<Instant> {
        self.frozen.as_ref().map(|frozen| frozen.since)
    }

    /// By what, if they are.
    pub fn frozen_by(&self) -> Option<&'static str> {
        self.frozen.as_ref().map(Frozen::how)
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

/// Of `tree`, who neither is one of `spared` nor descends from one.
fn without(mut tree: Vec<Process>, all: &[Process], spared: &[i32]) -> Vec<Process> {
    let below = |root: &i32| procfs::descendants(all, *root);
    let goes_on: HashSet<i32> =
        spared.iter().flat_map(below).map(|p| p.pid).chain(spared.iter().copied()).collect();
    tree.retain(|p| !goes_on.contains(&p.pid));
    tree
}

fn kill_until_none_is_new(mut alive: impl FnMut() -> Vec<Process>) {
    let mut killed = HashSet::new();
    for _ in 0..ROUNDS {
        let alive = alive();
        let new: Vec<_> = alive.iter().filter(|p| killed.insert((p.pid, p.started))).collect();
        if new.is_empty() {
            return;
        }
        for process in new {
            let _ = signals::send(process.pid, libc::SIGKILL);
        }
    }
}

fn lives(process: &Process) -> bool {
    procfs::process(process.pid).is_some_and(|p| p.started == process.started && !p.zombie)
}
