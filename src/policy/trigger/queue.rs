//! Those that wait: which is next, what stands in its way, and for how long.

use std::time::Instant;

use super::words::*;
use super::{Flight, Now, Step, Triggers, Waiting, Way};

/// What stands in the way of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NotRunning,
    NotReady,
    /// Until then, if nothing else happens; a draft stays until somebody sends it.
    Operator(Option<Instant>),
}

impl Triggers {
    pub(super) fn begin(&mut self, world: &World, now: Now, effects: &mut Vec<Effect>) {
        if world.agent == Agent::Away || self.errand.is_some() {
            // However long the call takes that it made room for, it comes back for them.
            return;
        }
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
        self.give_up_late(obstacle, stalled, world, now, effects);
        if self.flight.is_some() {
            return;
        }
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
        match () {
            _ if world.agent != Agent::Up => Some(Obstacle::NotRunning),
            _ if !world.is_ready => Some(Obstacle::NotReady),
            _ if world.has_draft => Some(Obstacle::Operator(None)),
            _ => self.quiet_at(world, now).map(|at| Obstacle::Operator(Some(at))),
        }
    }

    /// When an operator who pressed a key a moment ago has been quiet for long enough.
    fn quiet_at(&self, world: &World, now: Instant) -> Option<Instant> {
        world.last_key.map(|key| key + self.numbers.quiet).filter(|at| now < *at)
    }

    pub(super) fn is_noisy(&self, world: &World, now: Instant) -> bool {
        self.quiet_at(world, now).is_some()
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
        self.flight = Some(Flight { tries: tries + 1, ..Flight::new(asked, status, Step::Typing) });
    }

    fn defer(&mut self, effects: &mut Vec<Effect>) {
        for waiting in self.queue.iter_mut().filter(|waiting| waiting.status.state == State::Queued) {
            waiting.status.state = State::Deferred;
            self.counts.deferred += 1;
            effects.push(Effect::Tell(News::Deferred(waiting.status.id.clone())));
        }
    }

    fn give_up_late(
        &mut self,
        obstacle: Obstacle,
        stalled: Instant,
        world: &World,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let failure = match obstacle {
            Obstacle::Operator(_) => Failure::DeferTimeout,
            Obstacle::NotRunning => Failure::NotRunning,
            Obstacle::NotReady => Failure::NotReady,
        };
        let max_defer = self.numbers.max_defer;
        let is_late = |waiting: &Waiting| now.at >= waiting.since.max(stalled) + max_defer;
        if let Obstacle::Operator(_) = obstacle
            && let Some(at) = self.queue.iter().position(is_late)
            && self.way(world, now) == Some(Way::Fork)
        {
            // The others that are late have their turn when this one has ended.
            let Waiting { asked, status, .. } = self.queue.remove(at).expect("it was just found");
            let flight = Flight::new(asked, status, Step::Calling { fork: true });
            return self.call(flight, true, now, effects);
        }
        let (late, rest): (Vec<Waiting>, Vec<Waiting>) = self.queue.drain(..).partition(is_late);
        self.queue = rest.into();
        for waiting in late {
            self.end(waiting.status, State::Failed(failure), now, effects);
        }
    }
}
