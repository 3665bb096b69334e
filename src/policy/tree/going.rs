//! What can be done next: the last of those that are to go is told so, then those that may are started, and
//! when nobody is left the node ends.

use std::time::{Duration, Instant};

use super::{Effect, Key, Kid, Phase, REFUSED, Rest, Round, State, Strategy, Then, Tree, tell_to_stop};

/// Who comes next waits so long for one that is on its way up: what hangs there is not to hold up all others.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// So many of a pool come up beside one another: until it is ready each holds descriptors of ours, and
/// of a thousand none would be up sooner.
pub(super) const AT_ONCE: usize = 50;

impl Tree {
    /// What can be done now.
    pub(super) fn go_on(&mut self, now: Instant) -> Vec<Effect> {
        match self.phase {
            Phase::Working => {}
            Phase::Leaving { code } => return self.go_on_leaving(code, now),
            Phase::Over => return vec![],
        }
        let mut effects = self.go_on_restarting(now);
        effects.extend(self.start_those_who_can(now));
        if self.has_nothing_to_do() {
            effects.extend(self.leave(self.outcome()));
            effects.extend(self.go_on_leaving(self.outcome(), now));
        } else if !self.is_up && self.round.is_none() && !self.is_coming_up() {
            self.is_up = true;
            effects.push(Effect::Up);
        }
        effects
    }

    fn go_on_leaving(&mut self, code: u8, now: Instant) -> Vec<Effect> {
        let effects = self.stop_from(0, Then::Rest(Rest::Stopped), now);
        if effects.is_empty() && !self.kids.iter().any(|kid| kid.state.lives()) {
            self.phase = Phase::Over;
            return vec![Effect::End(code)];
        }
        effects
    }

    /// The last of those that live, from this one on, unless it has been told already; all of a pool.
    fn stop_from(&mut self, from: usize, then: Then, now: Instant) -> Vec<Effect> {
        let one_by_one = self.rules.strategy != Strategy::Pool;
        let mut effects = Vec::new();
        for kid in self.kids[from..].iter_mut().rev().filter(|kid| kid.state.lives()) {
            if let State::Starting { .. } | State::Running { .. } = kid.state {
                effects.extend(tell_to_stop(kid, then, now));
            }
            if one_by_one {
                break;
            }
        }
        effects
    }

    fn go_on_restarting(&mut self, now: Instant) -> Vec<Effect> {
        let Some(Round { from, until }) = self.round else { return vec![] };
        for kid in &mut self.kids[from..] {
            match &mut kid.state {
                State::Waiting { .. } => kid.state = State::Queued,
                State::Clearing { then: then @ Then::WaitUntil(_), .. } => *then = Then::Start,
                _ => {}
            }
        }
        let effects = self.stop_from(from, Then::Start, now);
        if effects.is_empty() && !self.is_busy_from(from) && now >= until {
            self.round = None;
        }
        effects
    }

    /// Somebody is still to go, or leaves something behind.
    pub(super) fn is_busy_from(&self, from: usize) -> bool {
        let busy = |kid: &Kid| kid.state.lives() || matches!(kid.state, State::Clearing { .. });
        self.kids[from..].iter().any(busy)
    }

    fn start_those_who_can(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut is_its_turn = true;
        let mut places = self.places(now);
        for at in 0..self.startable() {
            // Whoever comes back by itself has had its turn, and waits for those alone that it needs.
            let comes_back = matches!(self.kids[at].state, State::Waiting { until } if now >= until);
            if comes_back {
                self.kids[at].state = State::Queued;
            }
            let may = comes_back || is_its_turn || self.rules.strategy == Strategy::Pool;
            if self.kids[at].state == State::Queued && may && places > 0 && self.needs_are(at, is_satisfied) {
                places -= 1;
                let kid = &mut self.kids[at];
                let is_again = u64::from(std::mem::replace(&mut kid.was_started, true));
                kid.restarts += is_again;
                self.restarted += is_again;
                kid.state = State::Starting { since: now };
                effects.push(Effect::Spawn(kid.key));
            }
            if let State::Starting { since } = self.kids[at].state {
                is_its_turn &= now >= since + PATIENCE;
            }
        }
        effects
    }

    /// Nobody from here on is started now.
    fn startable(&self) -> usize {
        self.round.map_or(self.kids.len(), |round| round.from)
    }

    /// How many more can be on their way up. Who is not up in time makes room for others.
    fn places(&self, now: Instant) -> usize {
        match self.rules.strategy {
            Strategy::Pool => AT_ONCE.saturating_sub(self.turns_over().filter(|until| *until > now).count()),
            Strategy::OneForOne | Strategy::OneForAll | Strategy::RestForOne => usize::MAX,
        }
    }

    /// Until when those that are on their way up are waited for.
    fn turns_over(&self) -> impl Iterator<Item = Instant> {
        self.kids.iter().filter_map(|kid| match kid.state {
            State::Starting { since } => Some(since + PATIENCE),
            _ => None,
        })
    }

    /// When whoever is next in turn has waited long enough.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        if self.rules.strategy == Strategy::Pool {
            self.kids.iter().find(|kid| kid.state == State::Queued)?;
            let mut over: Vec<Instant> = self.turns_over().collect();
            over.sort_unstable_by(|a, b| b.cmp(a));
            // The places are held by the newest.
            return over.get(AT_ONCE - 1).copied();
        }
        let is_next = |at: &usize| self.kids[*at].state == State::Queued && self.needs_are(*at, is_satisfied);
        let next = (0..self.startable()).find(is_next)?;
        let until = |kid: &Kid| match kid.state {
            State::Starting { since } => Some(since + PATIENCE),
            _ => None,
        };
        self.kids[..next].iter().filter_map(until).max()
    }

    pub(super) fn needs_are(&self, at: usize, like: impl Fn(&State) -> bool) -> bool {
        let needs = &self.kids[at].spec.needs;
        needs.iter().all(|need| self.named(need).is_some_and(|kid| like(&kid.state)))
    }

    /// It waits for somebody who will never be ready unless somebody asks.
    pub fn is_blocked(&self, at: usize) -> bool {
        // Each is looked at once, however many need it: ways through forty that need the two before them
        // are more than can be walked.
        let mut seen = vec![false; self.kids.len()];
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if self.kids[at].state != State::Queued || std::mem::replace(&mut seen[at], true) {
                continue;
            }
            for need in &self.kids[at].spec.needs {
                let Some(needed) = self.kids.iter().position(|kid| kid.spec.id == *need) else {
                    return true;
                };
                let state = &self.kids[needed].state;
                if matches!(state, State::Resting(_)) && !is_satisfied(state) {
                    return true;
                }
                open.push(needed);
            }
        }
        false
    }

    fn is_coming_up(&self) -> bool {
        (0..self.kids.len()).any(|at| match self.kids[at].state {
            State::Running { .. } | State::Resting(_) => false,
            State::Queued => !self.is_blocked(at),
            State::Starting { .. }
            | State::Stopping { .. }
            | State::Clearing { .. }
            | State::Waiting { .. } => true,
        })
    }

    /// All have ended for good, and nobody is expected to start one again: a pool waits for more, and one
    /// that was stopped may be called back.
    fn has_nothing_to_do(&self) -> bool {
        self.rules.strategy != Strategy::Pool
            && (0..self.kids.len()).all(|at| match self.kids[at].state {
                State::Resting(Rest::Ended { .. } | Rest::Refused { .. }) => true,
                State::Queued => self.is_blocked(at),
                _ => false,
            })
    }

    /// Whether somebody may start this one again that has ended now and not been asked to: a pool forgets
    /// whoever has ended, and a node without anything else to do ends with the last.
    pub fn can_be_called_back(&self, key: Key) -> bool {
        if self.is_leaving() {
            return false;
        }
        let is_refused =
            |kid: &Kid| matches!(kid.state, State::Clearing { then: Then::Rest(Rest::Refused { .. }), .. });
        match self.rules.strategy {
            Strategy::Pool => self.kid(key).is_some_and(is_refused),
            Strategy::OneForOne | Strategy::OneForAll | Strategy::RestForOne => {
                (0..self.kids.len()).any(|at| self.kids[at].key != key && self.goes_on(at))
            }
        }
    }

    /// It will not end with what has ended so far.
    fn goes_on(&self, at: usize) -> bool {
        match self.kids[at].state {
            // It may need the one that has just ended.
            State::Queued => self.needs_are(at, is_satisfied),
            State::Clearing { then: Then::Rest(rest), .. } | State::Resting(rest) => rest == Rest::Stopped,
            State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Clearing { .. }
            | State::Waiting { .. } => true,
        }
    }

    fn outcome(&self) -> u8 {
        let refused = |kid: &Kid| matches!(kid.state, State::Resting(Rest::Refused { .. }));
        match self.kids.iter().any(refused) {
            true => REFUSED,
            false => self.failed_with,
        }
    }
}

/// What one needs is there, or has been and did its work.
pub(super) fn is_satisfied(state: &State) -> bool {
    matches!(state, State::Running { .. } | State::Resting(Rest::Ended { code: 0 }))
}
