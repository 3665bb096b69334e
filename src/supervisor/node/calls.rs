//! `tree` and `child.*`: what callers ask of a node.

use std::os::fd::AsFd;
use std::time::Instant;

use super::super::calls::{Answer, Answered, refuse};
use super::super::settings::ChildKind;
use super::super::{Source, Supervisor};
use super::child::{Extra, Kid};
use crate::control::protocol::{self, Body, Call, Code};
use crate::os::poll::{Sources, Want};
use crate::os::socket::Peer;
use crate::policy::tree::{Effect, Refusal, Rest, State, Tree};
use crate::session::Profile;

/// What a node answers beside its own methods; the others need an agent.
const OF_EVERY_SUPERVISOR: [&str; 8] =
    ["ping", "state", "stop", "events", "logs", "wait", "stats", "metrics"];
const OF_A_NODE: [&str; 6] =
    ["tree", "child.add", "child.remove", "child.start", "child.stop", "child.restart"];

/// The id of a child that callers name, too.
fn is_id(id: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    (1..=40).contains(&id.len()) && id.bytes().all(fine)
}

impl Supervisor {
    /// A method that this supervisor, with or without an agent, has not got.
    pub(in super::super) fn lacks(&self, method: &str) -> Option<Answered> {
        match (&self.node, OF_A_NODE.contains(&method)) {
            (None, true) => Some(refuse(
                Code::NotANode,
                format!("`{method}`: this supervisor has an agent, and no children"),
            )),
            (Some(_), false) if !OF_EVERY_SUPERVISOR.contains(&method) => Some(refuse(
                Code::NoAgent,
                format!(
                    "`{method}`: this supervisor is a node; ask one of its children, `agentsup ls --tree` shows them"
                ),
            )),
            _ => None,
        }
    }

    pub(in super::super) fn ask_node(&mut self, call: Call, peer: Peer) -> Answered {
        let now = Instant::now();
        let method = call.method();
        let (id, asked) = match call {
            Call::Tree => return Ok(Answer::Now(Body::Node(Box::new(self.show_node())))),
            Call::ChildAdd { id, prompt, env, args } => {
                return self.add_child(id, Extra { prompt, env: env.into_iter().collect(), args }, peer);
            }
            Call::ChildRemove { id } => {
                (id, Tree::remove as fn(&mut Tree, &str, Instant) -> Result<Vec<Effect>, Refusal>)
            }
            Call::ChildStart { id } => (id, Tree::start as _),
            Call::ChildStop { id } => (id, Tree::stop as _),
            Call::ChildRestart { id } => (id, Tree::restart as _),
            _ => return refuse(Code::Internal, "not a node's method"),
        };
        let tree = self.node.as_mut().and_then(|node| node.tree.as_mut());
        let Some(tree) = tree else { return refuse(Code::NotFound, "no child has been started yet") };
        match asked(tree, &id, now) {
            Ok(effects) => {
                let shown = self.show_child(&id);
                self.tell_child_action(method, &id, peer);
                self.perform_tree(effects);
                // What it has come to; of one that is gone already, what it was.
                let child = self.show_child(&id).or(shown);
                child.map_or_else(
                    || refuse(Code::NotFound, format!("there is no child `{id}`")),
                    |child| Ok(Answer::Now(Body::Child(Box::new(child)))),
                )
            }
            Err(refusal) => refused(refusal, &id),
        }
    }

    fn add_child(&mut self, id: Option<String>, extra: Extra, peer: Peer) -> Answered {
        if id.as_ref().is_some_and(|id| !is_id(id)) {
            return refuse(Code::BadParams, "`id`: expected 1 to 40 of A-Z a-z 0-9 _ -");
        }
        if extra.env.iter().any(|(name, value)| {
            name.is_empty() || name.contains('=') || name.contains('\0') || value.contains('\0')
        }) || extra.args.iter().chain(&extra.prompt).any(|text| text.contains('\0'))
        {
            return refuse(Code::BadParams, "a name of `env` is none, or something holds a NUL");
        }
        let session = self.session_id().to_owned();
        let Some(node) = &mut self.node else { return refuse(Code::NotANode, "no node") };
        let Some(settings) = node.of_template(id) else { return refused(Refusal::NoPool, "") };
        let id = settings.spec.id.clone();
        if let Err(why) = crate::session::id::check(&format!("{session}.{id}")) {
            return refuse(Code::BadParams, format!("`id`: {why}"));
        }
        if let (ChildKind::Agent { command, agent, .. }, Some(prompt)) = (&settings.kind, &extra.prompt)
            && let Some(first) = command.first()
        {
            let words = command.iter().cloned().chain(extra.args.iter().map(Into::into)).collect::<Vec<_>>();
            let profile = Profile::of(first, agent.as_deref());
            if let Err(why) = profile.and_then(|profile| profile.check_prompt(&words, prompt)) {
                return refuse(Code::BadParams, why.to_string());
            }
        }
        let spec = settings.spec.clone();
        let Some(tree) = &mut node.tree else {
            return refuse(Code::NotFound, "no child has been started yet");
        };
        match tree.add(spec, Instant::now()) {
            Ok((key, effects)) => {
                node.kids.insert(key, Kid::new(settings, &session, extra));
                self.tell_child_action("child.add", &id, peer);
                self.perform_tree(effects);
                match self.show_child(&id) {
                    Some(child) => Ok(Answer::Now(Body::Child(Box::new(child)))),
                    None => refuse(Code::Internal, "it is gone already"),
                }
            }
            Err(refusal) => refused(refusal, &id),
        }
    }

    fn show_node(&self) -> protocol::Node {
        let now = Instant::now();
        let Some(node) = &self.node else { return protocol::Node::default() };
        let rules = &node.settings.rules;
        let tree = node.tree.as_ref();
        let ids: Vec<String> =
            tree.map_or(vec![], |tree| tree.kids().iter().map(|kid| kid.spec.id.clone()).collect());
        protocol::Node {
            session: self.session_id().to_owned(),
            strategy: rules.strategy.name().to_owned(),
            max_restarts: rules.max_restarts,
            max_seconds: rules.max_seconds.as_secs(),
            recent_restarts: tree.map_or(0, |tree| tree.recent(now) as u64),
            up: tree.is_some_and(Tree::is_up),
            done: tree.map_or(0, |tree| tree.done),
            failed: tree.map_or(0, |tree| tree.failed),
            children: ids.iter().filter_map(|id| self.show_child(id)).collect(),
        }
    }

    fn show_child(&self, id: &str) -> Option<protocol::Child> {
        let node = self.node.as_ref()?;
        let tree = node.tree.as_ref()?;
        let at = tree.kids().iter().position(|kid| kid.spec.id == id)?;
        let kid = &tree.kids()[at];
        let own = node.kids.get(&kid.key)?;
        let wait = match kid.state {
            State::Waiting { until } => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        };
        Some(protocol::Child {
            child: id.to_owned(),
            session: own.session.clone(),
            kind: match own.settings.kind {
                ChildKind::Agent { .. } => "agent",
                ChildKind::Node { .. } => "node",
            }
            .to_owned(),
            state: if tree.is_blocked(at) { "blocked" } else { kid.state.name() }.to_owned(),
            restart: kid.spec.keep.name().to_owned(),
            needs: kid.spec.needs.clone(),
            pid: own.process.as_ref().map(|process| process.pid),
            restarts: kid.restarts,
            last_exit: kid.last_exit,
            why: matches!(kid.state, State::Resting(Rest::Refused { .. }))
                .then(|| self.log.mask(&node.why_refused(kid.key))),
            in_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    fn tell_child_action(&mut self, action: &str, id: &str, peer: Peer) {
        self.log.record(super::super::methods::action(action, peer).with("child", id));
    }

    /// What children may say next: that they are ready, or that something of theirs is gone.
    pub(in super::super) fn register_kids(&self, sources: &mut Sources<Source>) {
        let Some(node) = &self.node else { return };
        for (key, kid) in node.kids.iter() {
            if let Some(ready) = kid.process.as_ref().and_then(|process| process.ready.as_ref()) {
                sources.add(Source::Kid(*key), ready.as_fd(), Want::Read);
            }
            for watch in kid.leftovers.iter().flat_map(|left| left.strangers()) {
                sources.add(Source::Leftover(*key), watch.as_fd(), Want::Read);
            }
        }
    }

    /// For `state`.
    pub(in super::super) fn node_in_short(&self) -> Option<protocol::NodeInShort> {
        let node = self.node.as_ref()?;
        let (ready, children) = node.ready();
        let strategy = node.settings.rules.strategy.name().to_owned();
        let trouble = node.trouble().map(|trouble| self.log.mask(&trouble));
        Some(protocol::NodeInShort { strategy, children: children as u64, ready: ready as u64, trouble })
    }
}

fn refused(refusal: Refusal, id: &str) -> Answered {
    match refusal {
        Refusal::Unknown => refuse(Code::NotFound, format!("there is no child `{id}`")),
        Refusal::NoPool => refuse(Code::NotAPool, "only a pool takes in children and lets them go"),
        Refusal::Duplicate => refuse(Code::DuplicateId, format!("there is a child `{id}` already")),
        Refusal::TooMany => refuse(Code::TooMany, "the pool has as many children as max_children allows"),
        Refusal::Leaving => refuse(Code::Stopping, "the node is on its way out and starts nothing any more"),
    }
}
