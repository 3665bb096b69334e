//! Messages that must arrive, and the proof that they did. Pure: what the terminal is like, and the
//! time, come in as arguments; the typing itself is [`typing`](super::typing)'s.
//!
//! ```text
//! queued → (deferred) → triggering → awaiting_ack → delivered
//!               │                          ├──→ fallback ─┤
//!               └──────────────────────────┘              ↓
//!    (from anywhere) ─────────────────────────────────→ failed
//! ```
//!
//! One trigger is under way at a time. A thread's triggers are served in the order in which they came.

mod acks;
pub mod envelope;
mod fallback;
mod flight;
mod queue;
mod threads;
mod words;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use fallback::Way;
pub use words::*;

use super::Now;
use fallback::Errand;
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
    /// The call that is under way instead of typing.
    errand: Option<Errand>,
    /// When the agent or a call failed, as far back as it matters.
    failures: VecDeque<Instant>,
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
    /// Calls that were made for it.
    calls: u32,
}

impl Flight {
    fn new(asked: Asked, status: Status, step: Step) -> Flight {
        Flight { asked, status, tries: 0, step, sent: None, retries: 0, calls: 0 }
    }
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
    /// The agent makes room, for a call or for a fresh start.
    Ending {
        until: Instant,
        fresh: bool,
    },
    /// A call carries it.
    Calling {
        fork: bool,
    },
    /// The agent begins anew with it.
    Spawning {
        until: Instant,
    },
}

impl Step {
    /// It was typed, and the agent that has it in its terminal is the one that must answer.
    fn is_in_terminal(self) -> bool {
        matches!(self, Step::Typing | Step::Awaiting { .. } | Step::Resting { .. })
    }

    /// How it arrived, if it was not by the terminal.
    fn instead(self) -> Option<By> {
        match self {
            Step::Calling { fork: false } => Some(By::Resume),
            Step::Calling { fork: true } => Some(By::Fork),
            Step::Spawning { .. } => Some(By::Spawn),
            Step::Typing | Step::Awaiting { .. } | Step::Resting { .. } | Step::Ending { .. } => None,
        }
    }
}

impl Triggers {
    pub fn new(numbers: Numbers) -> Triggers {
        Triggers {
            numbers,
            queue: VecDeque::new(),
            flight: None,
            ended: VecDeque::new(),
            threads: Threads::default(),
            errand: None,
            failures: VecDeque::new(),
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
        self.flight.is_some() || self.errand.is_some() || !self.queue.is_empty()
    }

    /// Whose acknowledgement is waited for now, if one is: its id.
    pub fn awaits(&self) -> Option<&str> {
        let flight = self.flight.as_ref().filter(|flight| flight.sent.is_some())?;
        // A fork says nothing in the agent's own voice.
        (flight.step != Step::Calling { fork: true }).then_some(flight.status.id.as_str())
    }

    /// The one of a thread that is under way: its id.
    pub fn under_way(&self, thread: &str) -> Option<&str> {
        let flight = self.flight.as_ref().filter(|flight| flight.status.thread == thread)?;
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
        self.see_to_errand(world, now, &mut effects);
        effects
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
