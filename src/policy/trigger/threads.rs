//! What threads may not: more triggers than a minute should hold, and turns without an end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::words::{Guard, Numbers};
use crate::sorted::Sorted;

const MINUTE: Duration = Duration::from_secs(60);
/// All threads together may have so many times what one may.
const ALL: usize = 10;
/// More threads are not made by an agent that speaks of some that nobody has heard of.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub struct Threads {
    /// When the last minute's triggers were accepted, of all threads together.
    all: VecDeque<Instant>,
    each: Sorted<String, Thread>,
    /// Whose trigger was delivered last: a turn that ends is of this one.
    active: Option<String>,
}

#[derive(Debug, Default)]
struct Thread {
    accepted: VecDeque<Instant>,
    /// That ended since the last progress.
    turns: u32,
    finding: Option<String>,
    /// How often it was found in a row.
    found: u32,
    blocked: bool,
}

impl Thread {
    fn is_forgettable(&self) -> bool {
        self.accepted.is_empty() && self.turns == 0 && self.found == 0 && !self.blocked
    }
}

impl Threads {
    /// Counts one more, or says how long it is until there may be one.
    pub fn admit(&mut self, thread: &str, numbers: &Numbers, now: Instant) -> Result<(), Duration> {
        let rate = numbers.rate_per_minute as usize;
        let pass = |accepted: &mut VecDeque<Instant>| {
            while accepted.front().is_some_and(|at| now.saturating_duration_since(*at) >= MINUTE) {
                accepted.pop_front();
            }
        };
        pass(&mut self.all);
        self.each.retain(|_, thread| {
            pass(&mut thread.accepted);
            !thread.is_forgettable()
        });
        let wait = |accepted: &VecDeque<Instant>, most: usize| {
            let oldest = accepted.front().filter(|_| accepted.len() >= most)?;
            Some(MINUTE.saturating_sub(now.saturating_duration_since(*oldest)))
        };
        let own = self.each.get(thread).and_then(|thread| wait(&thread.accepted, rate));
        if let Some(wait) = own.max(wait(&self.all, rate * ALL)) {
            return Err(wait);
        }
        self.all.push_back(now);
        self.each.entry(thread.to_owned()).or_default().accepted.push_back(now);
        Ok(())
    }

    pub fn is_blocked(&self, thread: &str) -> bool {
        self.each.get(thread).is_some_and(|thread| thread.blocked)
    }

    pub fn blocked(&self) -> impl Iterator<Item = &str> {
        self.each.iter().filter(|(_, thread)| thread.blocked).map(|(name, _)| name.as_str())
    }

    pub fn block(&mut self, thread: String) {
        self.each.entry(thread).or_default().blocked = true;
    }

    /// False when it was not blocked, or nobody has ever heard of it.
    pub fn unblock(&mut self, thread: &str) -> bool {
        match self.each.get_mut(thread).filter(|thread| thread.blocked) {
            Some(thread) => {
                *thread = Thread { accepted: std::mem::take(&mut thread.accepted), ..Thread::default() };
                true
            }
            None => false,
        }
    }

    /// What was found last in a thread.
    pub fn finding(&self, thread: &str) -> Option<&str> {
        self.each.get(thread)?.finding.as_deref()
    }

    pub fn delivered(&mut self, thread: &str) {
        self.active = Some(thread.to_owned());
    }

    /// The agent turns to something else.
    pub fn leave(&mut self) {
        self.active = None;
    }

    /// The agent's turn has ended. The thread that is blocked by it, if one is.
    pub fn turn_ended(&mut self, numbers: &Numbers) -> Option<(String, Guard)> {
        let active = self.active.clone()?;
        let thread = self.spoken_of(&active)?;
        thread.turns = thread.turns.saturating_add(1);
        self.judge(active, numbers)
    }

    /// The same finding again is no progress.
    pub fn progress(
        &mut self,
        name: &str,
        finding: Option<&str>,
        numbers: &Numbers,
    ) -> Option<(String, Guard)> {
        let thread = self.spoken_of(name)?;
        match finding {
            Some(finding) if thread.finding.as_deref() == Some(finding) => thread.found += 1,
            Some(finding) => (thread.finding, thread.found, thread.turns) = (Some(finding.to_owned()), 1, 0),
            None => thread.turns = 0,
        }
        self.judge(name.to_owned(), numbers)
    }

    /// One that the agent speaks of; `None` when there are too many to remember another.
    fn spoken_of(&mut self, name: &str) -> Option<&mut Thread> {
        if !self.each.contains_key(name) && self.each.len() >= MOST {
            let is_idle = |thread: &Thread| thread.accepted.is_empty() && !thread.blocked;
            let idle = self.each.iter().find(|(_, thread)| is_idle(thread)).map(|(name, _)| name.clone());
            self.each.remove(&idle?);
        }
        Some(self.each.entry(name.to_owned()).or_default())
    }

    fn judge(&mut self, name: String, numbers: &Numbers) -> Option<(String, Guard)> {
        let thread = self.each.get_mut(&name).filter(|thread| !thread.blocked)?;
        let guard = match () {
            _ if thread.turns >= numbers.no_progress_turns => Guard::NoProgress,
            _ if thread.found >= numbers.identical_findings => Guard::IdenticalFindings,
            _ => return None,
        };
        thread.blocked = true;
        Some((name, guard))
    }
}
