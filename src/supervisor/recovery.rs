//! An agent that was restarted is told why: the words, and who types them.

use std::time::Instant;

use super::settings::Io;
use super::{Charge, Supervisor};
use crate::log::{Event as LogEvent, Name};
use crate::os::signals;
use crate::policy::crash::{Class, End};
use crate::policy::life::Phase;
use crate::policy::recovery::Recovery as Machine;
use crate::policy::recovery::{Line, Reason, Step};
use crate::policy::typing::{Job, Receipt, Refusal};
use crate::session::Start;

/// What the supervisor itself says to the agent.
#[derive(Default)]
pub(super) struct Recovery {
    machine: Machine,
    /// What is typed now.
    typing: Option<(u64, Reason)>,
}

impl Recovery {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.machine.wake()
    }

    pub(super) fn comes_first(&self) -> bool {
        self.machine.comes_first()
    }

    pub(super) fn limit_over(&mut self) {
        self.machine.limit_over();
    }

    pub(super) fn forget(&mut self) {
        self.machine.forget();
    }
}

impl Supervisor {
    pub(super) fn recovery_after_end(&mut self, class: Class, end: End) {
        let was_stuck = self.watch.take_killed();
        let reason = Reason::of(class, end).map(|reason| if was_stuck { Reason::Stuck } else { reason });
        if let Some(reason) = self.recovery.machine.ended(reason) {
            self.tell_recovery_failed(reason, "the agent ended before it was told");
        }
    }

    pub(super) fn recovery_after_spawn(&mut self) {
        // A plain command would take it for input.
        self.limits = Default::default();
        let continued = self.spawned_as == Start::Continue;
        let can_be_told = self.can_be_told();
        self.recovery.machine.spawned(continued && can_be_told);
    }

    pub(super) fn can_be_told(&self) -> bool {
        let Charge::Run(session) = &self.charge else { return false };
        let wanted = session.settings.recovery && session.settings.io == Io::Pty;
        wanted && self.profile().is_known()
    }

    /// After every turn of the loop.
    pub(super) fn see_to_recovery(&mut self) {
        self.see_to_limit();
        if !self.recovery.comes_first() || self.is_leaving() {
            return;
        }
        let ground = self.ground();
        let takes_keys = matches!(self.life.phase(), Phase::Running { .. }) && !self.sweep.is_frozen();
        let line = match () {
            _ if !takes_keys || ground.has_draft => Line::Taken,
            _ if !ground.is_ready => Line::NotReady,
            _ => Line::Free,
        };
        match self.recovery.machine.turn(line, Instant::now()) {
            Some(Step::Type(reason)) => self.type_recovery(reason),
            Some(Step::GiveUp(reason)) => {
                self.tell_recovery_failed(reason, "the agent did not show its line of input in time");
            }
            None => {}
        }
    }

    fn type_recovery(&mut self, reason: Reason) {
        let ticket = self.desk.next_ticket();
        self.recovery.typing = Some((ticket, reason));
        let text = match reason {
            Reason::LimitOver => "continue".to_owned(),
            Reason::OutOfMemory | Reason::Signal(_) | Reason::Code(_) | Reason::Stuck => format!(
                "You were restarted because {}. What was under way then may be half done.",
                in_words(reason)
            ),
        };
        let job = Job { ticket, text, submit: true, force: false, confirms: self.agent_confirms };
        if let Err(refusal) = self.desk.ask(job) {
            self.recovery_typed(ticket, Err(refusal));
        }
    }

    /// True when it was ours.
    pub(super) fn recovery_typed(&mut self, ticket: u64, result: Result<Receipt, Refusal>) -> bool {
        let Some((_, reason)) = self.recovery.typing.take_if(|(typing, _)| *typing == ticket) else {
            return false;
        };
        // Whoever had to wait for it goes on.
        self.bridge.stir();
        let receipt = match result {
            Ok(Receipt::Confirmed) => "confirmed",
            Ok(Receipt::Submitted | Receipt::Written) => "submitted",
            Err(Refusal::OperatorBusy) => {
                self.recovery.machine.put_off();
                return true;
            }
            Err(refusal) => {
                self.recovery.machine.settled();
                let error = self.refusal(refusal);
                self.tell_recovery_failed(reason, &error.message);
                return true;
            }
        };
        self.recovery.machine.settled();
        let event =
            LogEvent::new(Name::RecoverySent).with("reason", in_words(reason)).with("receipt", receipt);
        self.log.record(event);
        true
    }

    fn tell_recovery_failed(&mut self, reason: Reason, error: &str) {
        let event = LogEvent::new(Name::RecoveryFailed).with("reason", in_words(reason)).with("error", error);
        self.log.record(event);
    }
}

fn in_words(reason: Reason) -> String {
    match reason {
        Reason::LimitOver => "the rate limit is over".to_owned(),
        Reason::OutOfMemory => "the process was killed by the kernel: out of memory".to_owned(),
        Reason::Stuck => "it was stuck: for too long there was no sign of it".to_owned(),
        Reason::Signal(signal) => format!("the process was ended by signal {}", signals::name(signal)),
        Reason::Code(code) => format!("the process exited with code {code}"),
    }
}
