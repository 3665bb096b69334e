//! What somebody asks of one child: `child.add`, `remove`, `start`, `stop`, `restart`. None of it counts as a
//! restart of the node's own.

use std::time::Instant;

use super::{Effect, Event, Key, Kid, Refusal, Rest, Spec, State, Strategy, Then, Tree, tell_to_stop};

impl Tree {
    /// One more in a pool.
    pub fn add(&mut self, spec: Spec, now: Instant) -> Result<(Key, Vec<Effect>), Refusal> {
        self.working()?;
        if self.rules().strategy != Strategy::Pool {
            return Err(Refusal::NoPool);
        }
        if self.named(&spec.id).is_some() {
            return Err(Refusal::Duplicate);
        }
        // Who was refused does nothing, and is there only to be asked why.
        let is_refused = |kid: &Kid| matches!(kid.state, State::Resting(Rest::Refused { .. }));
        let most = self.rules().max_children;
        if self.kids().iter().filter(|kid| !is_refused(kid)).count() >= most {
            return Err(Refusal::TooMany);
        }
        let mut effects = Vec::new();
        // Not for ever: of more than all there may be, the first has been there long enough.
        if self.kids().len() >= most.saturating_mul(2)
            && let Some(first) = self.kids().iter().position(is_refused)
        {
            effects.extend(self.forget(first));
        }
        let key = self.join(spec);
        effects.extend(self.step(Event::Due, now));
        Ok((key, effects))
    }

    /// Ended, and not a child of the pool any more.
    pub fn remove(&mut self, id: &str, now: Instant) -> Result<Vec<Effect>, Refusal> {
        if self.rules().strategy != Strategy::Pool {
            return Err(Refusal::NoPool);
        }
        self.ends(id, Then::Leave, now)
    }

    /// It stays away until it is started.
    pub fn stop(&mut self, id: &str, now: Instant) -> Result<Vec<Effect>, Refusal> {
        self.ends(id, Then::Rest(Rest::Stopped), now)
    }

    /// Now, whatever it waits for but what it needs; nothing when it runs.
    pub fn start(&mut self, id: &str, now: Instant) -> Result<Vec<Effect>, Refusal> {
        let at = self.asked(id)?;
        match &mut self.kids[at].state {
            State::Queued | State::Starting { .. } | State::Running { .. } => {}
            State::Stopping { then, .. } | State::Clearing { then, .. } => *then = Then::WaitUntil(now),
            state @ (State::Waiting { .. } | State::Resting(_)) => *state = State::Waiting { until: now },
        }
        Ok(self.step(Event::Due, now))
    }

    pub fn restart(&mut self, id: &str, now: Instant) -> Result<Vec<Effect>, Refusal> {
        let at = self.asked(id)?;
        match self.kids[at].state {
            State::Starting { .. } | State::Running { .. } => self.ends(id, Then::WaitUntil(now), now),
            _ => self.start(id, now),
        }
    }

    fn ends(&mut self, id: &str, so: Then, now: Instant) -> Result<Vec<Effect>, Refusal> {
        let at = self.asked(id)?;
        let kid = &mut self.kids[at];
        let mut effects = Vec::new();
        match &mut kid.state {
            State::Starting { .. } | State::Running { .. } => effects.extend(tell_to_stop(kid, so, now)),
            State::Stopping { then, .. } | State::Clearing { then, .. } => *then = so,
            State::Queued | State::Waiting { .. } | State::Resting(_) if so == Then::Leave => {
                effects.extend(self.forget(at));
            }
            // What has ended or was refused says more than that it was stopped.
            State::Resting(_) => {}
            state @ (State::Queued | State::Waiting { .. }) => *state = State::Resting(Rest::Stopped),
        }
        effects.extend(self.step(Event::Due, now));
        Ok(effects)
    }

    fn asked(&self, id: &str) -> Result<usize, Refusal> {
        self.working()?;
        self.kids().iter().position(|kid| kid.spec.id == id).ok_or(Refusal::Unknown)
    }

    fn working(&self) -> Result<(), Refusal> {
        if self.is_leaving() { Err(Refusal::Leaving) } else { Ok(()) }
    }
}
