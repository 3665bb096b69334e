//! The product's `Life`, looked at from both sides: which event met which phase, and what it would wake
//! for. In chaotic lives it is told of things that have nothing to do with it, and must not care.

use std::time::{Duration, Instant};

use agentsup::policy::life as real;

use crate::coverage::{EVENTS, event_index, is_stray, phase_index, stray};
use crate::policy::Now;
use crate::policy::crash::History;
use crate::policy::life::{Effect, Event, Health, Next, Phase, Rules, Why};
use crate::{clock, invariants, world};

/// What survives KILL has this long.
const AFTER_KILL: Duration = Duration::from_secs(1);

pub struct Life(real::Life);

impl Life {
    pub fn begin(rules: Rules, seed: u64, now: Now) -> (Life, Vec<Effect>) {
        let (life, effects) = real::Life::begin(rules, seed, now);
        let life = Life(life);
        life.show();
        (life, effects)
    }

    pub fn phase(&self) -> &Phase {
        self.0.phase()
    }

    pub fn health(&self) -> Health {
        self.0.health()
    }

    pub fn history(&self) -> &History {
        self.0.history()
    }

    pub fn restarts(&self) -> u64 {
        self.0.restarts()
    }

    pub fn timeout_at(&self) -> Option<Instant> {
        self.0.timeout_at()
    }

    pub fn last_code(&self) -> u8 {
        self.0.last_code()
    }

    pub fn wake(&self) -> Option<(Instant, Why)> {
        self.0.wake()
    }

    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        self.disturb(now);
        let event = match event {
            // One more is harmless, and so is one less.
            Event::Due => self.wish().unwrap_or(event),
            _ => event,
        };
        let (phase, which) = (phase_index(self.phase()), event_index(&event));
        world::with(|world| world.life_event(phase, which));
        let effects = self.0.step(event, now);
        if effects.iter().any(|effect| matches!(effect, Effect::TellStopping { .. })) {
            world::with(|world| world.facts.asked_to_stop(clock::now()));
        }
        self.show();
        effects
    }

    /// What has nothing to do with the phase, which must not care.
    fn disturb(&mut self, now: Now) {
        let phase = phase_index(self.phase());
        let Some(which) = world::with(|world| world.stray_event(phase)) else { return };
        if !is_stray(phase, which) {
            return self.ask_twin(which, now);
        }
        let before = self.phase().clone();
        let effects = self.0.step(stray(which), now);
        if *self.phase() != before || !effects.is_empty() {
            let what = format!("{} in {before:?} led to {:?} and {effects:?}", EVENTS[which], self.phase());
            world::with(|world| world.fail(invariants::STRAYS_ARE_IGNORED, what));
        }
    }

    /// What would matter, and has not happened: a twin is told of it, and then asked to end, with nobody
    /// left to tell it anything but the time.
    fn ask_twin(&self, which: usize, now: Now) {
        let mut twin = self.0.clone();
        let told = twin.step(stray(which), now);
        let spawns = told.iter().filter(|effect| matches!(effect, Effect::Spawn(_))).count();
        let mut now = now;
        twin.step(Event::StopCalled, now);
        let began = now.at;
        for _ in 0..8 {
            let Some((at, _)) = twin.wake() else { break };
            now = Now { at: at.max(now.at), ..now };
            twin.step(Event::Due, now);
        }
        let took = now.at - began;
        world::with(|world| match twin.phase() {
            _ if spawns > 1 => {
                world.fail(invariants::ONE_AGENT, format!("{} spawns {spawns}", EVENTS[which]))
            }
            Phase::Ended if took <= world.mood.grace + AFTER_KILL => {}
            phase => {
                let what = format!("a twin that was told {} is {phase:?} after {took:?}", EVENTS[which]);
                world.fail(invariants::ENDS_AFTER_STOP, what);
            }
        });
    }

    /// What somebody may want at any time; only that it is not known who.
    fn wish(&self) -> Option<Event> {
        let is_leaving =
            matches!(self.phase(), Phase::Telling { .. } | Phase::Stopping { .. } | Phase::Ended);
        world::with(|world| world.wish().filter(|_| !is_leaving))
    }

    /// To the invariants.
    fn show(&self) {
        let wake = self.wake().map(|(at, why)| (clock::of(at), why));
        let phase = phase_index(self.phase());
        world::with(|world| world.facts.shown(phase, wake, clock::now()));
    }
}

impl world::World {
    fn life_event(&mut self, phase: usize, event: usize) {
        self.facts.coverage.see(phase, event, true);
        if EVENTS[event] != "Due" {
            self.facts.moved += 1;
            self.story.event("life", EVENTS[event], phase as i64);
        }
    }

    /// Now and then, in lives that are like that.
    fn stray_event(&mut self, phase: usize) -> Option<usize> {
        if !self.mood.is_chaotic || !self.rng.once_in(6) {
            return None;
        }
        let event = self.rng.index(EVENTS.len());
        self.facts.coverage.see(phase, event, false);
        self.story.event("stray", EVENTS[event], phase as i64);
        Some(event)
    }

    fn wish(&mut self) -> Option<Event> {
        if !self.mood.is_chaotic || !self.rng.once_in(100) {
            return None;
        }
        let wish = match self.rng.below(6) {
            0 => Event::AwayAsked,
            4 => Event::RuleRestarts,
            1 => Event::BackAsked { next: Next::Continue },
            2 => Event::ReapAsked { rule: "a wish" },
            3 => Event::RestartAsked { next: Next::Fresh },
            _ => Event::Retry,
        };
        if matches!(wish, Event::RestartAsked { .. } | Event::Retry) {
            // Behind what was said before it.
            self.read_the_log();
            self.facts.may_start_again();
        }
        Some(wish)
    }
}
