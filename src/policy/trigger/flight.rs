//! The one that is under way: typed, waited for, tried again.

use std::time::Duration;

use super::words::*;
use super::{BREATH, Flight, MOST_TRIES, Now, Step, Triggers, Waiting};
use crate::policy::typing;

/// How long the turn that an agent is in, or a pause, may hold an acknowledgement up.
pub(super) const BUSY_WITHIN: Duration = Duration::from_secs(30 * 60);

impl Triggers {
    pub(super) fn go_on(&mut self, mut flight: Flight, world: &World, now: Now, effects: &mut Vec<Effect>) {
        if world.agent != Agent::Up && flight.sent.is_some() && flight.step.is_in_terminal() {
            // It may or may not have taken it; a second copy could be one too many.
            return self.end(flight.status, State::Failed(Failure::NotRunning), now, effects);
        }
        match flight.step {
            // The typing tells of its end.
            Step::Typing => {}
            Step::Awaiting { until } if now.at < until => self.wake = Some(until),
            Step::Awaiting { .. } => {
                self.counts.timeouts += 1;
                let Some(wait) = self.numbers.retry_waits.get(flight.retries) else {
                    return self.give_up_waiting(flight, world, now, effects);
                };
                flight.step = Step::Resting { until: now.at + *wait };
                flight.retries += 1;
                return self.go_on(flight, world, now, effects);
            }
            Step::Resting { until } if now.at < until => self.wake = Some(until),
            Step::Resting { .. } => {
                self.counts.retries += 1;
                let touched = world.last_key.max(flight.sent) != flight.sent;
                if !world.has_draft && !touched && (world.stands)() {
                    flight.step = Step::Typing;
                    effects.push(Effect::PressEnter);
                } else {
                    let until = now.at + self.numbers.ack_timeout;
                    flight.step = Step::Awaiting { until };
                    self.wake = Some(until);
                }
            }
            Step::Ending { .. } | Step::Calling { .. } | Step::Spawning { .. } => {
                return self.keep_falling_back(flight, world, now, effects);
            }
        }
        self.flight = Some(flight);
    }

    /// Nobody acknowledged. An agent that is in the middle of a turn, or held, has not come to it yet:
    /// it is not ended for that.
    fn give_up_waiting(&mut self, mut flight: Flight, world: &World, now: Now, effects: &mut Vec<Effect>) {
        let late = flight.sent.map(|sent| sent + BUSY_WITHIN).filter(|late| now.at < *late);
        let until = match late {
            // Nobody tells when the hold is over, and an `ack_timeout` of nothing must not look all the time.
            Some(late) if world.is_held => late.min(now.at + self.numbers.ack_timeout.max(BREATH)),
            Some(late) if world.is_working && !(world.stands)() => late,
            // Whoever holds it wants it as it is.
            None if world.is_held => {
                return self.end(flight.status, State::Failed(Failure::AckTimeout), now, effects);
            }
            _ => return self.fall_back(flight, world, now, effects),
        };
        flight.step = Step::Awaiting { until };
        self.wake = Some(until);
        self.flight = Some(flight);
    }

    /// What was to be typed has been, or not.
    pub fn typed(&mut self, typed: Typed, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(mut flight) = self.flight.take_if(|flight| flight.step == Step::Typing) else {
            // Acknowledged in the meantime.
            return effects;
        };
        let refusal = match typed {
            Ok(()) => {
                flight.status.attempts += 1;
                flight.status.state = State::AwaitingAck;
                flight.sent = Some(now.at);
                flight.step = Step::Awaiting { until: now.at + self.numbers.ack_timeout };
                let news = News::Sent(flight.status.id.clone(), flight.status.attempts);
                effects.push(Effect::Tell(news));
                self.flight = Some(flight);
                return effects;
            }
            Err(refusal) => refusal,
        };
        if flight.sent.is_some() {
            // Another Enter that could not be pressed: the first one may still be answered.
            flight.step = Step::Awaiting { until: now.at + self.numbers.ack_timeout };
            self.flight = Some(flight);
            return effects;
        }
        let failure = match refusal {
            typing::Refusal::NotRunning
            | typing::Refusal::NotReady
            | typing::Refusal::OperatorBusy
            | typing::Refusal::TooMany
                if flight.tries < MOST_TRIES =>
            {
                // Nothing of it was typed: back to its place.
                let Flight { asked, mut status, tries, .. } = flight;
                status.state = State::Queued;
                self.not_before = Some(now.at + BREATH);
                self.queue.push_front(Waiting { asked, status, since: now.at, tries });
                return effects;
            }
            typing::Refusal::LineTooLong { .. } => Failure::LineTooLong,
            typing::Refusal::NotShown => Failure::NotShown,
            typing::Refusal::OperatorBusy => Failure::DeferTimeout,
            typing::Refusal::NotReady => Failure::NotReady,
            typing::Refusal::NotRunning | typing::Refusal::EndedMeanwhile => Failure::NotRunning,
            typing::Refusal::InputFull | typing::Refusal::TooMany => Failure::WriteFailed,
        };
        self.end(flight.status, State::Failed(failure), now, &mut effects);
        effects
    }
}
