//! What is told of triggers: to the log, and to callers.

use super::super::Supervisor;
use super::file::Line;
use crate::control::protocol::{Body, Code, Error, Trigger, TriggerState};
use crate::log::{Event as LogEvent, Name};
use crate::policy::trigger::{By, Failure, Guard, News, State, Status, Way, envelope};
use crate::screen::marker::Watch;

impl Supervisor {
    pub(super) fn tell_trigger(&mut self, news: News) {
        match &news {
            News::Ended(id) | News::Acked { id, late: true, .. } => self.keep_end(id),
            News::Blocked { thread, .. } => self.keep(Some(Line::Blocked(thread.clone()))),
            News::Deferred(_) | News::Sent(..) | News::FallsBack(..) | News::Acked { .. } => {}
        }
        let thread = |id: &str| self.bridge.triggers.status(id).map(|status| status.thread.clone());
        let of = |name, id: &str| LogEvent::new(name).with("trigger_id", id).maybe("thread", thread(id));
        let event = match news {
            News::Deferred(id) => of(Name::TriggerDeferred, &id).with("error", Code::OperatorBusy),
            News::Sent(id, attempt) => {
                let event = of(Name::TriggerSent, &id).with("attempt", attempt);
                self.bridge.watch = Some(Watch::new(format!("{}{id}", envelope::MARKER)));
                event
            }
            News::Acked { id, by, late } => of(Name::AckReceived, &id)
                .maybe("by", State::Delivered(by).end_name())
                .maybe("late", late.then_some("yes")),
            News::FallsBack(id, way) => {
                let (name, way) = match way {
                    Way::Resume => (Name::FallbackResumeStarted, "resume"),
                    Way::Fork => (Name::FallbackResumeStarted, "fork"),
                    Way::Spawn => (Name::FallbackSpawnStarted, "spawn"),
                };
                of(name, &id).with("way", way)
            }
            News::Ended(id) => {
                let state = self.bridge.triggers.status(&id).map(|status| status.state);
                let event = match state {
                    Some(State::Failed(failure)) => {
                        of(Name::TriggerFailed, &id).with("error", said(failure).0)
                    }
                    _ => of(Name::TriggerDelivered, &id),
                };
                // Only what was typed is looked for, and that is one at a time.
                if self.bridge.triggers.awaits().is_none() {
                    self.bridge.watch = None;
                }
                event
            }
            News::Blocked { thread, why } => {
                let why = match why {
                    Guard::NoProgress => "turns without progress",
                    Guard::IdenticalFindings => "identical findings",
                };
                LogEvent::new(Name::ThreadBlocked).with("thread", thread).with("why", why)
            }
        };
        self.log.record(event);
    }
}

pub(super) fn blocked(thread: &str) -> Error {
    let message =
        format!("the thread {thread} is blocked by the loop guard; `agentsup unblock {thread}` frees it");
    Error::new(Code::ThreadAutoBlocked, message)
}

pub(super) fn body(status: &Status) -> Body {
    Body::Trigger(Box::new(shown(status)))
}

pub(super) fn shown(status: &Status) -> Trigger {
    let (state, code, by) = match status.state {
        State::Queued => (TriggerState::Queued, None, None),
        State::Deferred => (TriggerState::Deferred, Some(Code::OperatorBusy), None),
        State::Triggering => (TriggerState::Triggering, None, None),
        State::AwaitingAck => (TriggerState::AwaitingAck, None, None),
        State::FallingBack => (TriggerState::Fallback, None, None),
        State::Delivered(_) => (TriggerState::Delivered, None, status.state.end_name().map(str::to_owned)),
        State::Failed(failure) => (TriggerState::Failed, Some(said(failure).0), None),
    };
    Trigger {
        trigger_id: status.id.clone(),
        thread: status.thread.clone(),
        reason: status.reason.clone(),
        state,
        code,
        by,
        attempts: status.attempts,
        forced: status.force,
        forked: status.state == State::Delivered(By::Fork),
        acked_late: status.acked_late,
        accepted_at: status.accepted_at as f64,
        ended_at: status.ended_at.map(|at| at as f64),
    }
}

pub(super) fn said(failure: Failure) -> (Code, &'static str) {
    match failure {
        Failure::DeferTimeout => {
            (Code::DeferTimeout, "an operator was at work all the time; nothing was typed")
        }
        Failure::AckTimeout => (Code::AckTimeout, "it was typed, and the agent has not acknowledged it"),
        Failure::NotRunning => (Code::NotRunning, "no agent ran, or it ended before it acknowledged"),
        Failure::NotReady => (Code::NotReady, "the agent has not shown its line of input; nothing was typed"),
        Failure::NotShown => (
            Code::NotReady,
            "the agent's line does not show the text, so Enter was not pressed: a dialog may be open; \
             `agentsup screen` shows it",
        ),
        Failure::LineTooLong => {
            (Code::LineTooLong, "a line is longer than the agent's terminal takes; nothing was typed")
        }
        Failure::WriteFailed => {
            (Code::WriteFailed, "the agent does not read its terminal; nothing was typed")
        }
        Failure::ThreadBlocked => {
            (Code::ThreadAutoBlocked, "the loop guard blocked its thread; nothing was typed")
        }
        Failure::ResumeFailed => (
            Code::ResumeFailed,
            "the agent has not acknowledged it, and the call that was to bring it into the conversation failed; \
             `agentsup logs` has its last words",
        ),
        Failure::SpawnFailed => (
            Code::SpawnFailed,
            "the agent was to begin anew with it, and did not take it; `agentsup logs` has more",
        ),
        Failure::Cancelled => (Code::Cancelled, "it was cancelled; nothing was typed"),
    }
}
