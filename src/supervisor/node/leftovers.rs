//! What a dead child left behind: found, told to end, killed, and waited for before its successor is started.

use std::collections::HashSet;

use super::super::sweep::Sweep;
use super::super::{Supervisor, below};
use super::Node;
use crate::log::{Event as LogEvent, Name};
use crate::os::procfs::Process;
use crate::os::wait::How;
use crate::policy::tree::{Clearing, Event, Key, State};

impl Supervisor {
    /// What a dead child left behind and is still there. Its agent is dead with it; what that left in sessions of
    /// its own has come to us. Much of it says whose it is; a database that writes its title over its environment
    /// does not, and has come to us all the same.
    fn kids_leftovers(&self, key: Key) -> Vec<Process> {
        let (Some(dir), Some(node)) = (self.state_dir(), &self.node) else { return vec![] };
        let Some(kid) = node.kids.get(&key) else { return vec![] };
        let mut found = below::left(&dir, &kid.session);
        // One that ended by itself has ended its tree; what comes to us meanwhile is somebody else's.
        if let (Some(since), Some((How::Signal(_), _))) = (kid.started, kid.last_end) {
            let running = node.kids.values().filter_map(|kid| Some(kid.process.as_ref()?.pid));
            let ours: HashSet<i32> = running.chain(self.helpers.iter().map(|helper| helper.pid)).collect();
            found.extend(below::orphans(&dir, &kid.session, &ours, since));
        }
        found
    }

    pub(super) fn end_kids_leftovers(&mut self, key: Key) {
        let found = self.kids_leftovers(key);
        let Some(node) = &mut self.node else { return };
        let mut left = Sweep::new();
        // When two have died, what does not say whose it is may be of either.
        let others = node.kids.values().filter_map(|kid| kid.leftovers.as_ref());
        others.for_each(|other| left.knows_what(other));
        let Some(kid) = node.kids.get_mut(&key) else { return };
        kid.leftovers = Some(left);
        self.end_found(key, found);
    }

    /// They are told to end, or, when the time for that is over, killed; when there are none, nothing is left.
    fn end_found(&mut self, key: Key, found: Vec<Process>) {
        let Some(node) = &mut self.node else { return };
        let Some(kid) = node.kids.get_mut(&key) else { return };
        let Some(left) = &mut kid.leftovers else { return };
        let count = left.adopt(found);
        if count == 0 {
            kid.leftovers = None;
            node.events.push_back(Event::Cleared(key));
            return;
        }
        let state = node.tree.as_ref().and_then(|tree| tree.kid(key)).map(|kid| &kid.state);
        let signal = match state {
            Some(State::Clearing { stage: Clearing::Killed { .. }, .. }) => {
                left.kill_strangers();
                "KILL"
            }
            _ => {
                left.term_strangers();
                "TERM"
            }
        };
        let event = LogEvent::new(Name::LeftoversEnded)
            .with("child", &kid.settings.spec.id)
            .with("count", count)
            .with("signal", signal);
        self.log.record(event);
    }

    pub(super) fn kill_kids_leftovers(&mut self, key: Key) {
        let kid = |node: &mut Option<Box<Node>>| node.as_mut()?.kids.get_mut(&key)?.leftovers.take();
        let Some(mut left) = kid(&mut self.node) else { return };
        left.kill_whoever(|| self.kids_leftovers(key));
        if let Some(kid) = self.node.as_mut().and_then(|node| node.kids.get_mut(&key)) {
            kid.leftovers = Some(left);
        }
    }

    /// One of what a child left behind has ended.
    pub(in super::super) fn on_leftover(&mut self, key: Key) {
        let Some(node) = &mut self.node else { return };
        let Some(kid) = node.kids.get_mut(&key) else { return };
        if kid.leftovers.as_mut().is_none_or(Sweep::strangers_left) {
            return;
        }
        // Who has gone may have started somebody before: only a look that finds nobody says that nothing is
        // left. Once nobody waits for that any more, whoever is found may be of its successor.
        let state = node.tree.as_ref().and_then(|tree| tree.kid(key)).map(|kid| &kid.state);
        let found = match state {
            Some(State::Clearing { .. }) => self.kids_leftovers(key),
            _ => vec![],
        };
        self.end_found(key, found);
    }
}
