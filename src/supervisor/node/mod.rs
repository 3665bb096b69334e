//! A node: children in the place of an agent, each a supervisor of its own. `policy::tree` decides; here its
//! effects become processes and signals, and what happens to those becomes its events. The loop, the reaping,
//! the log, the socket and the way out are those of every supervisor.
//!
//! `child` is one of them and how it is launched, `leftovers` what it left when it is dead, `calls` what callers ask.

mod calls;
mod child;
mod leftovers;

use std::collections::VecDeque;
use std::time::Instant;

use super::settings::{ChildSettings, NodeSettings};
use super::story::in_words;
use super::sweep::Sweep;
use super::{Supervisor, record};
use crate::log::{Event as LogEvent, Name};
use crate::os::signals;
use crate::os::wait::How;
use crate::policy::crash::End;
use crate::policy::life;
use crate::policy::tree::{self, Effect, Event, Key, Rest, Rules, Sequel, Spec, State, Tree};
use crate::sorted::Sorted;
use child::{Extra, Kid};

pub(super) struct Node {
    settings: NodeSettings,
    /// None: nothing has been started yet.
    tree: Option<Tree>,
    kids: Sorted<Key, Kid>,
    /// What has happened to children, in order.
    events: VecDeque<Event>,
    /// Of the next child of a pool that is not named.
    next_number: u64,
    /// Why it gave up.
    reason: String,
}

impl Node {
    pub(super) fn new(settings: NodeSettings) -> Node {
        let (kids, events) = (Sorted::new(), VecDeque::new());
        Node { settings, tree: None, kids, events, next_number: 1, reason: String::new() }
    }

    /// Its children are its own to end, one by one.
    fn lives(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| !tree.is_over())
    }

    fn wake(&self) -> Option<Instant> {
        match self.events.is_empty() {
            true => self.tree.as_ref().and_then(Tree::wake).into_iter().chain(self.next_looks()).min(),
            false => Some(Instant::now()),
        }
    }

    /// For what children left behind and cannot be watched.
    fn next_looks(&self) -> impl Iterator<Item = Instant> {
        self.kids.values().filter_map(|kid| kid.leftovers.as_ref()?.next_look())
    }

    pub(super) fn reason(&self) -> String {
        let kids = self.tree.as_ref().map_or(&[][..], Tree::kids);
        let refused = kids.iter().find(|kid| matches!(kid.state, State::Resting(Rest::Refused { .. })));
        match (self.reason.is_empty(), refused) {
            (false, _) => self.reason.clone(),
            (true, Some(kid)) => {
                format!("child {} cannot be started: {}", kid.spec.id, self.why_refused(kid.key))
            }
            (true, None) => "no child could be kept running".to_owned(),
        }
    }

    /// Starts of children after the first of each.
    pub(super) fn restarts(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.restarted)
    }

    /// Whom it could not start, and who waits for that in vain.
    fn stranded(&self) -> impl Iterator<Item = &tree::Kid> {
        let tree = self.tree.as_ref().filter(|tree| !tree.is_leaving());
        tree.into_iter().flat_map(|tree| {
            tree.kids().iter().enumerate().filter_map(|(at, kid)| match kid.state {
                State::Resting(Rest::Refused { .. }) => Some(kid),
                State::Queued if tree.is_blocked(at) => Some(kid),
                _ => None,
            })
        })
    }

    pub(super) fn trouble(&self) -> Option<String> {
        let all = self.stranded().map(|kid| match kid.state {
            State::Queued => format!("child {} waits for what will not be ready", kid.spec.id),
            _ => format!("child {} cannot be started: {}", kid.spec.id, self.why_refused(kid.key)),
        });
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn why_refused(&self, key: Key) -> String {
        match self.kids.get(&key).map(|kid| kid.refusal.as_str()) {
            None | Some("") => "it did not say why; its log may".to_owned(),
            Some(why) => why.to_owned(),
        }
    }

    /// How many of its children are ready, and how many there are.
    pub(super) fn ready(&self) -> (usize, usize) {
        let kids = self.tree.as_ref().map_or(&[][..], Tree::kids);
        (kids.iter().filter(|kid| kid.state.name() == "ready").count(), kids.len())
    }

    fn id(&self, key: Key) -> String {
        self.kids.get(&key).map_or_else(String::new, |kid| kid.settings.spec.id.clone())
    }

    /// A child of the pool, by the number behind its name or by a name of its own.
    fn of_template(&mut self, id: Option<String>) -> Option<ChildSettings> {
        let template = self.settings.template.as_ref()?;
        let id = id.unwrap_or_else(|| {
            let taken = |id: &str| self.tree.as_ref().is_some_and(|tree| tree.named(id).is_some());
            loop {
                let id = format!("{}-{}", template.spec.id, self.next_number);
                self.next_number += 1;
                if !taken(&id) {
                    return id;
                }
            }
        });
        Some(ChildSettings { spec: Spec { id, ..template.spec.clone() }, ..template.clone() })
    }
}

impl Supervisor {
    /// In the place of an agent's spawn.
    pub(super) fn begin_tree(&mut self) {
        let session = self.session_id().to_owned();
        self.remove_old_configs();
        let Some(node) = &mut self.node else { return };
        let mut children = node.settings.children.clone();
        for _ in 0..node.settings.size {
            children.extend(node.of_template(None));
        }
        let specs: Vec<Spec> = children.iter().map(|child| child.spec.clone()).collect();
        let rules: Rules = node.settings.rules.clone();
        let (tree, effects) = Tree::begin(rules, specs, Instant::now());
        for (kid, settings) in tree.kids().iter().zip(children) {
            node.kids.insert(kid.key, Kid::new(settings, &session, Extra::default()));
        }
        node.tree = Some(tree);
        self.perform_tree(effects);
    }

    /// Of a node it is worse while one of its children cannot run.
    pub(super) fn health(&self) -> life::Health {
        match (self.life.health(), &self.node) {
            (life::Health::Healthy, Some(node)) if node.stranded().next().is_some() => life::Health::Degraded,
            (health, _) => health,
        }
    }

    /// Of a node those of its children.
    pub(super) fn restarts(&self) -> u64 {
        self.node.as_ref().map_or(self.life.restarts(), |node| node.restarts())
    }

    pub(super) fn node_lives(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.lives())
    }

    pub(super) fn node_deadline(&self) -> Option<Instant> {
        self.node.as_ref().and_then(|node| node.wake())
    }

    /// A deadline may have passed.
    pub(super) fn node_is_due(&mut self) {
        let now = Instant::now();
        let is_due =
            |kid: &Kid| kid.leftovers.as_ref().and_then(Sweep::next_look).is_some_and(|at| now >= at);
        let kids = self.node.iter().flat_map(|node| node.kids.iter());
        let due: Vec<Key> = kids.filter(|(_, kid)| is_due(kid)).map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.on_leftover(key));
        self.tell_tree(Event::Due);
    }

    pub(super) fn tell_tree(&mut self, event: Event) {
        if let Some(node) = self.node.as_mut().filter(|node| node.tree.is_some()) {
            node.events.push_back(event);
        }
    }

    /// The next of what has happened to children; false when there is nothing.
    pub(super) fn settle_tree(&mut self) -> bool {
        let Some(node) = &mut self.node else { return false };
        let (Some(event), Some(tree)) = (node.events.pop_front(), &mut node.tree) else { return false };
        let effects = tree.step(event, Instant::now());
        self.perform_tree(effects);
        true
    }

    fn perform_tree(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Spawn(key) => self.spawn_kid(key),
                Effect::Term(key) => self.signal_kid(key, libc::SIGTERM),
                Effect::Kill(key) => self.signal_kid(key, libc::SIGKILL),
                Effect::Clear(key) => self.end_kids_leftovers(key),
                Effect::KillLeft(key) => self.kill_kids_leftovers(key),
                Effect::TellExit(key, code, sequel) => self.tell_kid_exit(key, code, sequel),
                Effect::Forget(key) => {
                    let kid = self.node.as_mut().and_then(|node| node.kids.remove(&key));
                    self.remove_config(kid);
                }
                Effect::Up => {
                    let (ready, all) = self.node.as_ref().map_or((0, 0), |node| node.ready());
                    self.console.tell(&format!("{ready} of {all} children are ready"));
                    self.tally.count_spawn(0);
                    self.manager.ready();
                    self.events.push_back(life::Event::ExecDone { ran_as: life::Next::Fresh });
                }
                Effect::TellGaveUp(key) => self.note_gave_up(key),
                Effect::End(code) => {
                    let end = End { code, signal: None, oom: false, asked: false, spoke: false, limit: None };
                    self.remove_configs();
                    self.events.push_back(life::Event::Exited(end));
                }
            }
        }
    }

    fn signal_kid(&mut self, key: Key, signal: i32) {
        let kid = self.node.as_ref().and_then(|node| node.kids.get(&key));
        let Some(process) = kid.and_then(|kid| kid.process.as_ref()) else { return };
        let event = LogEvent::new(Name::ChildStop)
            .with("child", self.node.as_ref().map(|node| node.id(key)).unwrap_or_default())
            .with("pid", process.pid)
            .with("signal", signals::name(signal));
        let _ = signals::send(process.pid, signal);
        self.log.record(event);
    }

    /// It has written to its descriptor, or closed it.
    pub(super) fn on_kid_ready(&mut self, key: Key) {
        let Some(node) = &mut self.node else { return };
        let Some(kid) = node.kids.get_mut(&key) else { return };
        if kid.take_ready() {
            let event = LogEvent::new(Name::ChildReady).with("child", &kid.settings.spec.id);
            node.events.push_back(Event::Ready(key));
            self.log.record(event);
        }
    }

    /// False when it is nobody's.
    pub(super) fn on_kid_end(&mut self, pid: i32, how: How) -> bool {
        let Some(node) = &self.node else { return false };
        let is_it = |(_, kid): &(&Key, &Kid)| kid.process.as_ref().is_some_and(|process| process.pid == pid);
        let Some(key) = node.kids.iter().find(is_it).map(|(key, _)| *key) else { return false };
        if let How::Stopped(_) | How::Continued = how {
            return true;
        }
        // Both may have come at once; whether it was ready comes first.
        self.on_kid_ready(key);
        let dir = self.state_dir();
        let Some(node) = &mut self.node else { return true };
        let Some(kid) = node.kids.get_mut(&key) else { return true };
        let Some(process) = kid.process.take() else { return true };
        let (mut code, mut why) = (how.exit_code(), None);
        if let Some(Err(error)) = process.spawning.map(|spawning| spawning.outcome()) {
            (code, why) = (error.exit_code(), Some(error.to_string()));
            kid.refusal = error.to_string();
        }
        let ran = process.since.elapsed();
        let state = node.tree.as_ref().and_then(|tree| tree.kid(key)).map(|kid| &kid.state);
        let is_ours = matches!(state, Some(State::Stopping { .. }));
        kid.was_killed = matches!(how, How::Signal(_)) && !is_ours;
        kid.last_end = Some((how, ran));
        let is_asked = dir.is_some_and(|dir| record::read(&dir.record(&kid.session)).was_asked_to_stop(pid));
        node.events.push_back(match is_asked {
            true => Event::Dismissed(key, code),
            false => Event::Exited(key, code),
        });
        let event = LogEvent::new(Name::ChildExit)
            .with("child", &kid.settings.spec.id)
            .with("pid", pid)
            .with("code", code)
            .maybe("by", is_asked.then_some("caller"))
            .maybe("signal", if let How::Signal(n) = how { Some(signals::name(n)) } else { None })
            .maybe("error", why)
            .with("run_ms", ran.as_millis());
        self.log.record(event);
        true
    }

    fn tell_kid_exit(&mut self, key: Key, code: u8, sequel: Sequel) {
        let Some(node) = &self.node else { return };
        let Some(kid) = node.kids.get(&key) else { return };
        let (id, session) = (kid.settings.spec.id.clone(), kid.session.clone());
        let how = kid.last_end_in_words(code);
        let start = format!("agentsup child start {id} --session {}", self.session_id());
        let again = node.tree.as_ref().is_some_and(|tree| tree.can_be_called_back(key)).then_some(&start);
        match sequel {
            Sequel::Restart { wait } => {
                let event = LogEvent::new(Name::RestartScheduled)
                    .with("child", &id)
                    .with("wait_ms", wait.as_millis())
                    .with("restarts", node.tree.as_ref().map_or(0, |tree| tree.recent(Instant::now())));
                self.log.record(event);
                let wait = in_words(wait);
                self.console.tell(&format!("child {id} {how}; it starts again in {wait}"));
            }
            Sequel::WithOthers => {
                self.console.tell(&format!("child {id} {how}; it starts again with the others"))
            }
            Sequel::Dismissed => self
                .console
                .tell(&format!("child {id} was stopped by a caller of its own; to start it again: {start}")),
            Sequel::Rest => {
                let again = again.filter(|_| code != 0).map(|again| format!("; to start it again: {again}"));
                self.console.tell(&format!("child {id} {how}{}", again.unwrap_or_default()));
            }
            Sequel::Refused => {
                let why = self.log.mask(&node.why_refused(key));
                let event = LogEvent::new(Name::ChildRefused)
                    .with("child", &id)
                    .with("session", session)
                    .with("code", code)
                    .with("error", &why)
                    .maybe("hint", again);
                self.log.record(event);
                let again = again.map_or(String::new(), |again| format!("; to try again: {again}"));
                self.console.tell(&format!("child {id} cannot be started (code {code}): {why}{again}"));
            }
            Sequel::GiveUp => self.console.tell(&format!("child {id} {how}")),
        }
    }

    fn note_gave_up(&mut self, key: Key) {
        let Some(node) = &mut self.node else { return };
        let rules = &node.settings.rules;
        let code = node.tree.as_ref().and_then(|tree| tree.kid(key)?.last_exit).unwrap_or_default();
        let kid = node.kids.get(&key).map_or_else(String::new, |kid| {
            format!("child {} {}", kid.settings.spec.id, kid.last_end_in_words(code))
        });
        node.reason = format!(
            "{kid}, and {} restarts in {} are all there may be",
            rules.max_restarts,
            in_words(rules.max_seconds)
        );
        let reason = node.reason.clone();
        self.log.record(
            LogEvent::new(Name::GaveUp)
                .with("child", self.node.as_ref().map(|n| n.id(key)).unwrap_or_default())
                .with("reason", &reason),
        );
        self.console.tell(&format!("the node gives up and stops its children: {reason}"));
    }
}
