//! Messages that must arrive, and the proof that they did. Pure: what the terminal is like, and the
//! time, come in as arguments; the typing itself is [`typing`](super::typing)'s.
//!
//! ```text
//! queued → (deferred) → triggering → awaiting_ack → delivered
//!    └──────────┴───────────┴─────────────┴───────→ failed
//! ```
//!
//! One trigger is under way at a time. A thread's triggers are served in the order in which they came.

pub mod envelope;
mod threads;
mod words;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use words::*;

use super::Now;
use super::typing;
use threads::Threads;

/// More that wait are a mistake of whoever sends them.
const MOST_QUEUED: usize = 1024;
const MOST_QUEUED_BYTES: usize = 4 << 20;
/// So many that have ended are remembered: the same id again is told what became of the first.
const MOST_ENDED: usize = 1024;
/// Before a trigger that could not be typed is tried again.
const BREATH: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 10;

#[derive(Debug)]
pub struct Triggers {
    numbers: Numbers,
    /// Those that wait, in the order in which they came.
    queue: VecDeque<Waiting>,
    flight: Option<Flight>,
    ended: VecDeque<Status>,
    threads: Threads,
    /// Since when nothing could be typed that was to be.
    stalled: Option<Instant>,
    not_before: Option<Instant>,
    wake: Option<Instant>,
    last: Option<String>,
    pub counts: Counts,
}

#[derive(Clone, Debug)]
struct Waiting {
    asked: Asked,
    status: Status,
    since: Instant,
    /// How often it was taken and could not be typed.
    tries: u32,
}

#[derive(Debug)]
struct Flight {
    asked: Asked,
    status: Status,
    tries: u32,
    step: Step,
    /// When Enter was last pressed.
    sent: Option<Instant>,
    /// Retries that are used up.
    retries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The text with its Enter, or another Enter, is being typed.
    Typing,
    Awaiting {
        until: Instant,
    },
    /// Nobody acknowledged; the next try is due then.
    Resting {
        until: Instant,
    },
}

/// What stands in the way of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NotRunning,
    NotReady,
    /// Until then, if nothing else happens; a draft stays until somebody sends it.
    Operator(Option<Instant>),
}

impl Triggers {
    pub fn new(numbers: Numbers) -> Triggers {
        Triggers {
            numbers,
            queue: VecDeque::new(),
            flight: None,
            ended: VecDeque::new(),
            threads: Threads::default(),
            stalled: None,
            not_before: None,
            wake: None,
            last: None,
            counts: Counts::default(),
        }
    }

    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub fn wake(&self) -> Option<Instant> {
        self.wake.filter(|_| self.has_work())
    }

    /// Whether [`turn`](Triggers::turn) could do something.
    pub fn has_work(&self) -> bool {
        self.flight.is_some() || !self.queue.is_empty()
    }

    /// Whose acknowledgement is waited for now, if one is: its id.
    pub fn awaits(&self) -> Option<&str> {
        let flight = self.flight.as_ref().filter(|flight| flight.sent.is_some())?;
        Some(&flight.status.id)
    }

    /// The one that was last typed.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    pub fn status(&self, id: &str) -> Option<&Status> {
        self.all().find(|status| status.id == id)
    }

    /// Those that have ended first, oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Status> {
        let flight = self.flight.iter().map(|flight| &flight.status);
        self.ended.iter().chain(flight).chain(self.queue.iter().map(|waiting| &waiting.status))
    }

    pub fn blocked(&self) -> impl Iterator<Item = &str> {
        self.threads.blocked()
    }

    /// All that have not ended, in the order in which they are served.
    pub fn kept(&self) -> impl Iterator<Item = (&Asked, &Status)> {
        let flight = self.flight.iter().map(|flight| (&flight.asked, &flight.status));
        flight.chain(self.queue.iter().map(|waiting| (&waiting.asked, &waiting.status)))
    }

    /// Goes on where an earlier supervisor of the session ended. What was under way then may have been
    /// read: it is told of, and not typed again.
    pub fn restore(&mut self, left: Left, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let known = left.ended.len().saturating_sub(MOST_ENDED);
        self.ended = left.ended.into_iter().skip(known).collect();
        for (asked, at) in left.under_way {
            let status = Status::of(&asked, at);
            self.end(status, State::Failed(Failure::NotRunning), now, &mut effects);
        }
        for (asked, at) in left.waiting {
            let status = Status::of(&asked, at);
            self.queue.push_back(Waiting { asked, status, since: now.at, tries: 0 });
        }
        for thread in left.blocked {
            self.threads.block(thread);
        }
        effects
    }

    /// True when it is new; false when the same was asked for before, and its status stands.
    pub fn ask(&mut self, asked: Asked, now: Now) -> Result<bool, Refusal> {
        let accepted = self.accept(asked, now);
        self.counts.refused += u64::from(accepted.is_err());
        accepted
    }

    fn accept(&mut self, asked: Asked, now: Now) -> Result<bool, Refusal> {
        let gist = asked.gist();
        match self.status(&asked.id) {
            Some(known) if known.gist == gist => return Ok(false),
            Some(_) => return Err(Refusal::DuplicateId),
            None => {}
        }
        if self.threads.is_blocked(&asked.thread) {
            return Err(Refusal::ThreadBlocked);
        }
        let bytes: usize = self.queue.iter().map(|waiting| waiting.asked.text.len()).sum();
        if self.queue.len() >= MOST_QUEUED || bytes + asked.text.len() > MOST_QUEUED_BYTES {
            return Err(Refusal::QueueFull);
        }
        self.threads
            .admit(&asked.thread, &self.numbers, now.at)
            .map_err(|wait| Refusal::RateLimited { wait })?;
        let status = Status::of(&asked, now.epoch);
        self.queue.push_back(Waiting { asked, status, since: now.at, tries: 0 });
        Ok(true)
    }

    /// Goes as far as it can. Call it whenever something may have changed; once too often is harmless.
    pub fn turn(&mut self, world: &World, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.wake = None;
        if let Some(flight) = self.flight.take() {
            self.go_on(flight, world, now, &mut effects);
        }
        if self.flight.is_none() {
            self.begin(world, now, &mut effects);
        }
        effects
    }

    fn begin(&mut self, world: &World, now: Now, effects: &mut Vec<Effect>) {
        if let Some(at) = self.not_before.filter(|at| now.at < *at) {
            self.wake = self.queue.front().map(|_| at);
            return;
        }
        self.not_before = None;
        let Some(obstacle) = self.obstacle(world, now.at) else {
            self.stalled = None;
            if let Some(next) = self.queue.pop_front() {
                self.launch(next, effects);
            }
            return;
        };
        if let Some(at) = self.next_forced(obstacle) {
            let next = self.queue.remove(at).expect("it was just found");
            return self.launch(next, effects);
        }
        if self.queue.is_empty() {
            self.stalled = None;
            return;
        }
        let stalled = *self.stalled.get_or_insert(now.at);
        self.give_up_late(obstacle, stalled, now, effects);
        if let Obstacle::Operator(_) = obstacle {
            self.defer(effects);
        }
        let free_at = match obstacle {
            Obstacle::Operator(at) => at,
            Obstacle::NotRunning | Obstacle::NotReady => None,
        };
        let max_defer = self.numbers.max_defer;
        let late = self.queue.iter().map(|waiting| waiting.since.max(stalled) + max_defer);
        self.wake = late.chain(free_at).min();
    }

    fn obstacle(&self, world: &World, now: Instant) -> Option<Obstacle> {
        let quiet_at = world.last_key.map(|key| key + self.numbers.quiet).filter(|at| now < *at);
        match () {
            _ if !world.is_running => Some(Obstacle::NotRunning),
            _ if !world.is_ready => Some(Obstacle::NotReady),
            _ if world.has_draft => Some(Obstacle::Operator(None)),
            _ => quiet_at.map(|at| Obstacle::Operator(Some(at))),
        }
    }

    /// The first that an operator at work does not hold back, and that overtakes nobody of its thread.
    fn next_forced(&self, obstacle: Obstacle) -> Option<usize> {
        let Obstacle::Operator(_) = obstacle else { return None };
        let is_first = |at: usize| {
            let thread = &self.queue[at].asked.thread;
            self.queue.iter().take(at).all(|before| before.asked.thread != *thread)
        };
        (0..self.queue.len()).find(|at| self.queue[*at].asked.force && is_first(*at))
    }

    fn launch(&mut self, next: Waiting, effects: &mut Vec<Effect>) {
        let Waiting { asked, mut status, tries, .. } = next;
        status.state = State::Triggering;
        self.last = Some(status.id.clone());
        self.counts.attempts += 1;
        effects.push(Effect::Type { text: asked.envelope(), force: asked.force });
        self.flight =
            Some(Flight { asked, status, tries: tries + 1, step: Step::Typing, sent: None, retries: 0 });
    }

    fn defer(&mut self, effects: &mut Vec<Effect>) {
        for waiting in self.queue.iter_mut().filter(|waiting| waiting.status.state == State::Queued) {
            waiting.status.state = State::Deferred;
            self.counts.deferred += 1;
            effects.push(Effect::Tell(News::Deferred(waiting.status.id.clone())));
        }
    }

    fn give_up_late(&mut self, obstacle: Obstacle, stalled: Instant, now: Now, effects: &mut Vec<Effect>) {
        let failure = match obstacle {
            Obstacle::Operator(_) => Failure::DeferTimeout,
            Obstacle::NotRunning => Failure::NotRunning,
            Obstacle::NotReady => Failure::NotReady,
        };
        let max_defer = self.numbers.max_defer;
        let is_late = |waiting: &Waiting| now.at >= waiting.since.max(stalled) + max_defer;
        let (late, rest): (Vec<Waiting>, Vec<Waiting>) = self.queue.drain(..).partition(is_late);
        self.queue = rest.into();
        for waiting in late {
            self.end(waiting.status, State::Failed(failure), now, effects);
        }
    }

    fn go_on(&mut self, mut flight: Flight, world: &World, now: Now, effects: &mut Vec<Effect>) {
        if !world.is_running && flight.sent.is_some() {
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
                    return self.end(flight.status, State::Failed(Failure::AckTimeout), now, effects);
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
        }
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
            typing::Refusal::InputFull
            | typing::Refusal::NotRunning
            | typing::Refusal::NotReady
            | typing::Refusal::OperatorBusy
            | typing::Refusal::TooMany => Failure::WriteFailed,
            typing::Refusal::EndedMeanwhile => Failure::NotRunning,
        };
        self.end(flight.status, State::Failed(failure), now, &mut effects);
        effects
    }

    /// The agent says that it has the trigger. `None` when there is none that it could mean.
    pub fn acked(&mut self, whom: For, by: By, now: Now) -> Option<Vec<Effect>> {
        let mut effects = Vec::new();
        let is_it = |flight: &mut Flight| match whom {
            For::Id(id) => flight.status.id == id,
            // Before the Enter it can only be the thread's last one that is meant.
            For::Thread(thread) => flight.status.thread == thread && flight.sent.is_some(),
        };
        if let Some(flight) = self.flight.take_if(is_it) {
            self.deliver(flight.status, by, now, &mut effects);
            return Some(effects);
        }
        let For::Id(id) = whom else { return None };
        // It was typed by a supervisor of before, or the agent knows of it from elsewhere.
        if let Some(at) = self.queue.iter().position(|waiting| waiting.status.id == id) {
            let waiting = self.queue.remove(at).expect("it was just found");
            self.deliver(waiting.status, by, now, &mut effects);
            return Some(effects);
        }
        let ended = self.ended.iter_mut().find(|status| status.id == id)?;
        if matches!(ended.state, State::Failed(_)) && !ended.acked_late {
            ended.acked_late = true;
            effects.push(Effect::Tell(News::Acked { id: id.to_owned(), by, late: true }));
        }
        Some(effects)
    }

    /// A sign of the agent itself, by a heartbeat or in its output, behind the Enter.
    pub fn acked_in_flight(&mut self, by: By, now: Now) -> Vec<Effect> {
        let id = self.awaits().map(str::to_owned);
        id.and_then(|id| self.acked(For::Id(&id), by, now)).unwrap_or_default()
    }

    /// The agent says which prompt it was given. Another one proves nothing; that of a trigger which
    /// was given up proves that it came late.
    pub fn prompt_taken(&mut self, prompt: Option<&str>, now: Now) -> Vec<Effect> {
        let Some(prompt) = prompt else { return self.acked_in_flight(By::Hook, now) };
        let is_in = |status: &&Status| envelope::is_in(prompt, &status.id, &status.thread);
        let typed = |status: &&Status| status.attempts > 0 && !matches!(status.state, State::Delivered(_));
        let id = self.all().rev().filter(typed).find(is_in).map(|status| status.id.clone());
        id.and_then(|id| self.acked(For::Id(&id), By::Hook, now)).unwrap_or_default()
    }

    /// The agent's turn has ended.
    pub fn turn_ended(&mut self, now: Now) -> Vec<Effect> {
        let blocked = self.threads.turn_ended(&self.numbers);
        self.after_guard(blocked, now)
    }

    /// The agent gets on with a thread. The thread of an id that is not known is none.
    pub fn progress(&mut self, whom: For, finding: Option<&str>, now: Now) -> Option<Vec<Effect>> {
        let thread = match whom {
            For::Id(id) => self.status(id)?.thread.clone(),
            For::Thread(thread) => thread.to_owned(),
        };
        let mut effects = self.acked(whom, By::Progress, now).unwrap_or_default();
        let blocked = self.threads.progress(&thread, finding, &self.numbers);
        effects.extend(self.after_guard(blocked, now));
        Some(effects)
    }

    fn after_guard(&mut self, blocked: Option<(String, Guard)>, now: Now) -> Vec<Effect> {
        let Some((thread, why)) = blocked else { return Vec::new() };
        let mut effects = vec![Effect::Tell(News::Blocked { thread: thread.clone(), why })];
        let is_of_it = |waiting: &Waiting| waiting.asked.thread == thread;
        let (out, rest): (Vec<Waiting>, Vec<Waiting>) = self.queue.drain(..).partition(is_of_it);
        self.queue = rest.into();
        for waiting in out {
            self.end(waiting.status, State::Failed(Failure::ThreadBlocked), now, &mut effects);
        }
        effects
    }

    /// False when the thread was not blocked.
    pub fn unblock(&mut self, thread: &str) -> bool {
        self.threads.unblock(thread)
    }

    /// One that waits is not held back any more. False when there is nothing to be forced.
    pub fn force(&mut self, id: &str) -> bool {
        let waiting = self.queue.iter_mut().find(|waiting| waiting.status.id == id && !waiting.asked.force);
        if let Some(waiting) = waiting {
            waiting.asked.force = true;
            waiting.status.force = true;
            return true;
        }
        false
    }

    /// `None` when it is too late: it was typed, or has ended.
    pub fn cancel(&mut self, id: &str, now: Now) -> Option<Vec<Effect>> {
        let at = self.queue.iter().position(|waiting| waiting.status.id == id)?;
        let waiting = self.queue.remove(at)?;
        let mut effects = Vec::new();
        self.end(waiting.status, State::Failed(Failure::Cancelled), now, &mut effects);
        Some(effects)
    }

    fn deliver(&mut self, status: Status, by: By, now: Now, effects: &mut Vec<Effect>) {
        effects.push(Effect::Tell(News::Acked { id: status.id.clone(), by, late: false }));
        self.threads.delivered(&status.thread);
        self.end(status, State::Delivered(by), now, effects);
    }

    fn end(&mut self, mut status: Status, state: State, now: Now, effects: &mut Vec<Effect>) {
        match state {
            State::Delivered(_) => self.counts.delivered += 1,
            _ => self.counts.failed += 1,
        }
        status.state = state;
        status.ended_at = Some(now.epoch);
        effects.push(Effect::Tell(News::Ended(status.id.clone())));
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(status);
    }
}

#[cfg(test)]
mod tests;
