//! Answers that come later: for an agent that is to run, for one that is to end.

use std::time::Instant;

use super::Supervisor;
use crate::control::protocol::{Body, Code, Error, Id, Pid, WaitFor, Waited};
use crate::control::server::CallerId;
use crate::policy::activity::Doing;
use crate::policy::life::{Health, Phase};
use crate::policy::requests::Kind;
use crate::policy::stop::Agent;

/// A request whose answer is still to come.
pub(super) struct Waiting {
    pub(super) caller: CallerId,
    pub(super) id: Option<Id>,
    pub(super) method: &'static str,
    pub(super) for_what: ForWhat,
    pub(super) until: Option<Instant>,
}

pub(super) enum ForWhat {
    /// The next spawn, whether it works or not, after so many of each.
    Spawn {
        succeeded: u64,
        failed: u64,
    },
    State(WaitFor),
    /// A text to be typed, and what became of it.
    Sent {
        ticket: u64,
    },
    /// All that the agent has used up by now is counted.
    Stats,
    /// Somebody's answer to what the agent asks.
    Answer {
        kind: Kind,
        id: String,
    },
    /// A trigger that is to end.
    Trigger {
        id: String,
    },
}

impl Supervisor {
    /// After every turn: whoever waits for what has come gets an answer.
    pub(super) fn answer_waiting(&mut self) {
        self.deny_overdue();
        self.answer_who_waits();
        self.desk.forget_answers();
        self.drop_unasked();
    }

    fn answer_who_waits(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        if calls.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let (mut still, mut come) = (Vec::new(), Vec::new());
        for waiting in std::mem::take(&mut calls.waiting) {
            match self.has_come(&waiting.for_what) {
                Some(result) => come.push((waiting, result)),
                None if waiting.until.is_some_and(|at| now >= at) => {
                    let error = Error::new(Code::Timeout, "it did not happen within `timeout_ms`");
                    come.push((waiting, Err(error)));
                }
                None => still.push(waiting),
            }
        }
        let Some(calls) = &mut self.calls else { return };
        calls.waiting = still;
        calls.waiting.retain(|w| calls.server.is_here(w.caller));
        for (waiting, result) in come {
            calls.answer(waiting.caller, waiting.id, waiting.method, result);
            calls.server.release(waiting.caller);
        }
    }

    /// The answer, once there is one.
    fn has_come(&self, for_what: &ForWhat) -> Option<Result<Body, Error>> {
        let waited = |reason, code, pid| Some(Ok(Body::Waited(Waited { reason, code, pid })));
        let code = Some(self.life.last_code());
        match *for_what {
            ForWhat::Spawn { succeeded, .. } if self.tally.spawned > succeeded => {
                Some(Ok(Body::Pid(Pid { pid: self.running_pid().unwrap_or(self.tally.spawned_pid) })))
            }
            // What a stop cut short did not fail.
            ForWhat::Spawn { .. } if self.is_leaving() && self.stop_asked.is_some() => Some(self.stopping()),
            ForWhat::Spawn { failed, .. } if self.tally.spawn_failures > failed => {
                Some(Err(Error::new(Code::SpawnFailed, &self.tally.spawn_failure)))
            }
            ForWhat::Spawn { .. } if self.is_leaving() => Some(self.stopping()),
            ForWhat::Spawn { .. } => None,
            // At the very end nobody counts any more: what is known is the answer.
            ForWhat::Stats if self.counting.is_due() && self.ending.is_none() => None,
            ForWhat::Stats => Some(Ok(Body::Stats(Box::new(self.stats())))),
            ForWhat::Sent { ticket } => self.desk.answer(ticket),
            ForWhat::Answer { kind, ref id } => self.answer_to_agent(kind, id),
            ForWhat::Trigger { ref id } => match self.bridge.answer(id) {
                None if self.is_leaving() && self.bridge.triggers.awaits() != Some(id) => {
                    Some(self.stopping())
                }
                answer => answer,
            },
            ForWhat::State(WaitFor::Ready) => match (self.life.phase(), self.running_pid()) {
                (Phase::Running { .. }, pid @ Some(_)) => waited(WaitFor::Ready, None, pid),
                (Phase::Running { .. }, None) if self.node.is_some() => waited(WaitFor::Ready, None, None),
                _ if self.is_leaving() => Some(self.stopping()),
                _ => None,
            },
            ForWhat::State(WaitFor::Exit) => match self.life.phase() {
                Phase::Asking | Phase::Halted | Phase::Telling { .. } | Phase::Ended => {
                    waited(WaitFor::Exit, code, None)
                }
                Phase::Stopping { stop, .. } if stop.agent() == Agent::Gone => {
                    waited(WaitFor::Exit, code, None)
                }
                Phase::Stopping { .. }
                | Phase::Clearing { .. }
                | Phase::Preparing { .. }
                | Phase::Starting { .. }
                | Phase::Running { .. }
                | Phase::Restarting { .. }
                | Phase::Away { .. }
                | Phase::Waiting { .. } => None,
            },
            ForWhat::State(WaitFor::Halted) => match self.life.health() {
                Health::Halted => waited(WaitFor::Halted, code, None),
                Health::Healthy | Health::Degraded if self.is_leaving() => Some(self.stopping()),
                Health::Healthy | Health::Degraded => None,
            },
            ForWhat::State(WaitFor::Idle) => match self.running_pid() {
                pid @ Some(_) if self.activity.doing() == Doing::Idle && !self.sweep.is_frozen() => {
                    waited(WaitFor::Idle, None, pid)
                }
                _ if self.is_leaving() => Some(self.stopping()),
                _ => None,
            },
        }
    }
}
