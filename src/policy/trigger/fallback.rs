//! When typing has not helped. A trigger that nobody acknowledged goes into the conversation by a call
//! of its own, for which the agent makes room: one writer per conversation. While a human types the
//! call gets a fork of the conversation. Where a resume promises nothing any more the agent begins
//! anew, with the trigger as its prompt.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::words::*;
use super::{Flight, Now, Step, Triggers, envelope};

/// How long a call may work, and how long an agent may take to make room for it or to come up anew.
const CALLS_WITHIN: Duration = Duration::from_secs(30 * 60);
const ENDS_WITHIN: Duration = Duration::from_secs(10 * 60);
const COMES_WITHIN: Duration = Duration::from_secs(2 * 60);
/// So many of a thread's earlier triggers are told to an agent that begins anew.
const TOLD: usize = 10;

/// What carries a trigger that typing did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Resume,
    Fork,
    Spawn,
}

/// A call that is under way. Its trigger may have been acknowledged meanwhile.
#[derive(Debug)]
pub(super) struct Errand {
    fork: bool,
    until: Instant,
    /// It was told to end.
    is_late: bool,
}

impl Triggers {
    /// The agent failed, and was not asked to.
    pub fn agent_failed(&mut self, now: Now) {
        self.note_failure(now.at);
    }

    fn note_failure(&mut self, now: Instant) {
        let (count, within) = self.numbers.crash_shortcut;
        self.failures.push_back(now);
        while self.failures.len() > count as usize
            || self.failures.front().is_some_and(|at| now.saturating_duration_since(*at) > within)
        {
            self.failures.pop_front();
        }
    }

    /// A resume would most likely fail, or meet a conversation that nobody remembers.
    fn promises_nothing(&self, world: &World, now: Now) -> bool {
        let (count, within) = self.numbers.crash_shortcut;
        let recent = self.failures.iter().filter(|at| now.at.saturating_duration_since(**at) <= within);
        let is_stale = now.epoch.saturating_sub(world.heard_at) > self.numbers.stale_after.as_secs();
        is_stale || count > 0 && recent.count() >= count as usize
    }

    pub(super) fn way(&self, world: &World, now: Now) -> Option<Way> {
        if self.numbers.resume_attempts == 0 {
            return None;
        }
        let can = (world.can)();
        let goes_on = !self.promises_nothing(world, now);
        match () {
            // Nobody takes a human's terminal away.
            _ if world.has_draft || self.is_noisy(world, now.at) => {
                (can.fork && goes_on).then_some(Way::Fork)
            }
            _ if can.resume && goes_on => Some(Way::Resume),
            _ => can.spawn.then_some(Way::Spawn),
        }
    }

    pub(super) fn fall_back(
        &mut self,
        mut flight: Flight,
        world: &World,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        match self.way(world, now) {
            None => self.end(flight.status, State::Failed(Failure::AckTimeout), now, effects),
            Some(Way::Fork) => self.call(flight, true, now, effects),
            Some(way @ (Way::Resume | Way::Spawn)) => {
                flight.status.state = State::FallingBack;
                let until = now.at + ENDS_WITHIN;
                flight.step = Step::Ending { until, fresh: way == Way::Spawn };
                self.wake = Some(until);
                self.flight = Some(flight);
                effects.push(Effect::MakeRoom);
            }
        }
    }

    pub(super) fn keep_falling_back(
        &mut self,
        flight: Flight,
        world: &World,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let failure = match (flight.step, world.agent) {
            (Step::Ending { fresh: false, .. }, Agent::Away) => {
                return self.call(flight, false, now, effects);
            }
            (Step::Ending { fresh: true, .. }, Agent::Away) => return self.spawn(flight, now, effects),
            (Step::Ending { .. }, Agent::Down) => Some(Failure::NotRunning),
            (Step::Ending { until, .. }, _) if now.at >= until => Some(Failure::AckTimeout),
            // Its own hook will say so, where it has one.
            (Step::Spawning { .. }, Agent::Up) if world.is_ready && !world.confirms => {
                return self.deliver(flight.status, By::Spawn, now, effects);
            }
            (Step::Spawning { .. }, Agent::Down) => Some(Failure::SpawnFailed),
            (Step::Spawning { until, .. }, _) if now.at >= until => Some(Failure::SpawnFailed),
            (Step::Ending { until, .. } | Step::Spawning { until }, _) => {
                self.wake = Some(until);
                None
            }
            (Step::Typing | Step::Awaiting { .. } | Step::Resting { .. } | Step::Calling { .. }, _) => None,
        };
        match failure {
            Some(failure) => {
                self.end(flight.status, State::Failed(failure), now, effects);
            }
            None => self.flight = Some(flight),
        }
    }

    pub(super) fn call(&mut self, mut flight: Flight, fork: bool, now: Now, effects: &mut Vec<Effect>) {
        flight.status.state = State::FallingBack;
        flight.status.attempts += 1;
        flight.calls += 1;
        flight.step = Step::Calling { fork };
        let until = now.at + CALLS_WITHIN;
        self.errand = Some(Errand { fork, until, is_late: false });
        self.last = Some(flight.status.id.clone());
        let id = flight.status.id.clone();
        effects.push(Effect::Tell(News::FallsBack(id, if fork { Way::Fork } else { Way::Resume })));
        effects.push(Effect::Call { text: flight.asked.envelope(), fork });
        self.flight = Some(flight);
    }

    fn spawn(&mut self, mut flight: Flight, now: Now, effects: &mut Vec<Effect>) {
        flight.status.attempts += 1;
        let until = now.at + COMES_WITHIN;
        flight.step = Step::Spawning { until };
        self.wake = Some(until);
        flight.sent = Some(now.at);
        effects.push(Effect::Tell(News::FallsBack(flight.status.id.clone(), Way::Spawn)));
        effects.push(Effect::BeginAnew);
        self.flight = Some(flight);
    }

    /// What an agent that begins anew is to be told, if one does.
    pub fn prompt(&self) -> Option<String> {
        let flight = self.flight.as_ref().filter(|flight| matches!(flight.step, Step::Spawning { .. }))?;
        Some(format!("{}{}", self.summary(&flight.status), flight.asked.envelope()))
    }

    /// The call has ended, or could not be made.
    pub fn call_ended(&mut self, called: Called, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(errand) = self.errand.take() else { return effects };
        if matches!(called, Called::Failed | Called::NotMade) {
            self.note_failure(now.at);
        }
        let Some(flight) = self.flight.take_if(|flight| matches!(flight.step, Step::Calling { .. })) else {
            // Acknowledged in the meantime.
            return effects;
        };
        let failure = match called {
            Called::Answered => {
                let by = if errand.fork { By::Fork } else { By::Resume };
                self.deliver(flight.status, by, now, &mut effects);
                return effects;
            }
            Called::Failed if !errand.is_late && flight.calls < self.numbers.resume_attempts => {
                self.call(flight, errand.fork, now, &mut effects);
                return effects;
            }
            Called::Failed | Called::NotMade => Failure::ResumeFailed,
            Called::CutShort => Failure::NotRunning,
        };
        self.end(flight.status, State::Failed(failure), now, &mut effects);
        effects
    }

    /// The agent is wanted back at once: whatever it makes room for is given up.
    pub fn call_back(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(flight) = self.flight.take_if(|flight| matches!(flight.step, Step::Ending { .. })) {
            self.end(flight.status, State::Failed(Failure::AckTimeout), now, &mut effects);
        }
        if let Some(errand) = self.errand.as_mut().filter(|errand| !errand.fork && !errand.is_late) {
            errand.is_late = true;
            effects.push(Effect::EndCall);
        }
        effects
    }

    /// Whether something is under way that the agent made room for.
    fn needs_room(&self) -> bool {
        let step = self.flight.as_ref().map(|flight| flight.step);
        self.errand.as_ref().is_some_and(|errand| !errand.fork)
            || matches!(step, Some(Step::Ending { .. } | Step::Spawning { .. }))
    }

    pub(super) fn see_to_errand(&mut self, world: &World, now: Now, effects: &mut Vec<Effect>) {
        if let Some(errand) = self.errand.as_mut().filter(|errand| !errand.is_late) {
            match now.at >= errand.until {
                true => {
                    errand.is_late = true;
                    effects.push(Effect::EndCall);
                }
                false => self.wake = Some(self.wake.map_or(errand.until, |wake| wake.min(errand.until))),
            }
        }
        if world.agent == Agent::Away && !self.needs_room() {
            effects.push(Effect::ComeBack);
        }
    }

    /// What an agent that remembers nothing is told of the thread.
    fn summary(&self, of: &Status) -> String {
        let mut text =
            String::from("You begin anew: the conversation before this one could not be resumed.\n");
        let earlier: Vec<&Status> =
            self.ended.iter().filter(|status| status.thread == of.thread).rev().take(TOLD).collect();
        match earlier.is_empty() {
            true => text.push_str("Nothing came before this message in its thread.\n"),
            false => text.push_str("Earlier messages of its thread, the oldest first:\n"),
        }
        for status in earlier.iter().rev() {
            let reason = status.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
            let outcome = match status.state {
                State::Delivered(_) => "delivered",
                _ => "not delivered",
            };
            let subject = envelope::plain(&status.subject).unwrap_or_default();
            let _ = writeln!(text, "- {}{reason}, {outcome}: {subject}", status.id);
        }
        if let Some(finding) = self.threads.finding(&of.thread).and_then(envelope::plain) {
            let _ = writeln!(text, "What was found last: {finding}");
        }
        text
    }
}
