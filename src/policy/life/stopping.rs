//! The way out: who asked, with which code, and what is heard until nothing of the tree is left.

use std::time::{Duration, Instant};

use super::{Effect, Event, Life, Phase};
use crate::policy::Now;
use crate::policy::crash::Class;
use crate::policy::stop::{Agent, Order, Stop};

/// `timeout`, a shell's `kill %1` and others signal the process and then its group: two signals of
/// one sender within this time are one request.
const SAME_REQUEST: Duration = Duration::from_millis(20);
/// `--timeout` has passed.
const TIMED_OUT: u8 = 124;
/// 128 + SIGKILL.
const KILLED: u8 = 137;

/// Who asked for a stop, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    sender: i32,
    at: Instant,
}

impl Request {
    fn is_repeated_by(self, other: Request) -> bool {
        self.sender == other.sender && other.at.saturating_duration_since(self.at) < SAME_REQUEST
    }
}

/// Where the exit code of a stop comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Fixed(u8),
    /// The agent's last one; of one that a rule has reaped, that of its last failure, if it had any.
    OfAgent,
}

impl Life {
    /// The agent is gone for good: end what it left behind, then end with its code.
    pub(super) fn finish(&mut self, now: Now) -> Vec<Effect> {
        let (stop, orders) = Stop::begin(Agent::Gone, self.rules.grace, self.rules.leftovers, now.at);
        self.phase = Phase::Stopping { stop, code: Ending::OfAgent, asked: None, since: now.at };
        orders.into_iter().map(Effect::Tree).collect()
    }

    pub(super) fn stop(&mut self, sender: i32, now: Now) -> Vec<Effect> {
        self.begin_stop(Ending::OfAgent, Some(Request { sender, at: now.at }), now)
    }

    /// No grace: everything is dead at once, or never.
    pub(super) fn kill(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = self.begin_stop(Ending::OfAgent, None, now);
        effects.retain(|effect| !matches!(effect, Effect::Tree(Order::Term)));
        effects.extend(self.while_stopping(Event::KillAsked, now));
        effects
    }

    /// A signal that comes after this is the first one, and hurries nobody.
    pub(super) fn stop_patiently(&mut self, now: Now) -> Vec<Effect> {
        self.begin_stop(Ending::OfAgent, None, now)
    }

    pub(super) fn timeout_is_over(&self, now: Now) -> bool {
        let live = !matches!(self.phase, Phase::Stopping { .. } | Phase::Ended);
        live && self.timeout_at.is_some_and(|at| now.at >= at)
    }

    pub(super) fn time_out(&mut self, now: Now) -> Vec<Effect> {
        self.begin_stop(Ending::Fixed(TIMED_OUT), None, now)
    }

    fn begin_stop(&mut self, code: Ending, asked: Option<Request>, now: Now) -> Vec<Effect> {
        let (agent, since) = match self.phase {
            Phase::Starting { since, .. }
            | Phase::Running { since, .. }
            | Phase::Restarting { since, .. } => (Agent::Alive, since),
            Phase::Clearing { .. }
            | Phase::Preparing { .. }
            | Phase::Waiting { .. }
            | Phase::Asking
            | Phase::Halted
            | Phase::Away { .. }
            | Phase::Telling { .. }
            | Phase::Stopping { .. }
            | Phase::Ended => (Agent::Gone, now.at),
        };
        let (stop, orders) = Stop::begin(agent, self.rules.grace, self.rules.leftovers, now.at);
        self.phase = Phase::Stopping { stop, code, asked, since };
        let mut effects = vec![Effect::TellStopping { timed_out: code == Ending::Fixed(TIMED_OUT) }];
        effects.extend(orders.into_iter().map(Effect::Tree));
        effects
    }

    pub(super) fn while_stopping(&mut self, event: Event, now: Now) -> Vec<Effect> {
        let Phase::Stopping { stop, code, asked, since } = &mut self.phase else { return vec![] };
        let code = *code;
        let mut effects = Vec::new();
        let orders = match event {
            Event::Due => stop.due(now.at),
            Event::StopAsked { sender } => {
                let request = Request { sender, at: now.at };
                match asked {
                    // The agent had ended by itself, its time was up, or a caller asked (an
                    // orchestrator's hook before the orchestrator's own TERM): TERM has gone out, the
                    // grace runs, and this is the first signal.
                    None => {
                        *asked = Some(request);
                        vec![]
                    }
                    Some(first) if first.is_repeated_by(request) => vec![],
                    Some(_) => stop.hurry(now.at),
                }
            }
            Event::KillAsked => stop.hurry(now.at),
            Event::Exited(end) if stop.agent() == Agent::Alive => {
                let ran = now.at.saturating_duration_since(*since);
                self.last_code = end.code;
                self.history.note_asked(end, ran, now);
                effects.push(Effect::TellExit { class: Class::Asked, end, ran });
                stop.agent_gone(now.at)
            }
            Event::SpawnFailed { code } if stop.agent() == Agent::Alive => {
                self.last_code = code;
                stop.agent_gone(now.at)
            }
            Event::TreeGone => return vec![self.end(code)],
            Event::LeftoversGone
            | Event::Prepared { .. }
            | Event::ExecDone { .. }
            | Event::TerminalGone
            | Event::StopCalled
            | Event::SpawnFailed { .. }
            | Event::Exited(_)
            | Event::Retry
            | Event::RestartAsked { .. }
            | Event::RuleRestarts
            | Event::AwayAsked
            | Event::BackAsked { .. }
            | Event::Quit
            | Event::ReapAsked { .. }
            | Event::Notified => vec![],
        };
        let gives_up = orders.contains(&Order::GiveUp);
        effects.extend(orders.into_iter().map(Effect::Tree));
        if gives_up {
            if stop.agent() == Agent::Alive {
                // It has no code yet, and an earlier run's, or 0, would be a lie.
                self.last_code = KILLED;
            }
            effects.push(self.end(code));
        }
        effects
    }

    fn end(&mut self, code: Ending) -> Effect {
        self.phase = Phase::Ended;
        Effect::End(match code {
            Ending::Fixed(code) => code,
            Ending::OfAgent => self.last_failure.filter(|_| self.is_reaped).unwrap_or(self.last_code),
        })
    }
}
