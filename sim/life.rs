//! One life, from its seed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::coverage::Coverage;
use crate::invariants::{self, Violation};
use crate::mood::{self, Mood};
use crate::rng::Rng;
use crate::world::{self, World};
use crate::{Stopped, clock, supervisor, symbols};

/// What became of it.
pub struct Lived {
    pub seed: u64,
    pub events: u64,
    pub faults: u64,
    pub answers: u64,
    pub digest: u64,
    pub coverage: Coverage,
    pub violation: Option<Violation>,
    pub last: Vec<String>,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic in a life is a finding, to be told once and with its place.
pub fn keep_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match clock::is_simulated() {
        true if info.payload().is::<Stopped>() => {}
        true => PANIC.set(Some(info.to_string().replace('\n', " "))),
        false => usual(info),
    }));
}

/// On a thread of its own: clocks, world and the keys of hash maps belong to a thread.
pub fn live(seed: u64, dir: &Path, is_traced: bool) -> std::io::Result<Lived> {
    mood::make_place(dir)?;
    let mut rng = Rng::new(seed);
    let mood = Mood::new(&mut rng);
    let settings = mood.settings(&mut rng, dir);
    let init = mood.is_init.then(|| mood.init_settings(dir));
    let symbols_seed = rng.next();
    let mut world = World::new(mood, rng, dir.to_owned(), is_traced);
    clock::begin();
    symbols::begin(symbols_seed, world.processes.me());
    world.settle_strangers();
    world::begin(world);
    let ended = catch_unwind(AssertUnwindSafe(|| match init {
        Some(init) => supervisor::init(init),
        None => supervisor::run(settings),
    }));
    let mut world = world::end();
    world.is_over();
    match ended {
        Ok(Ok(code)) => world.judge_the_end(code),
        // Refused before anything ran.
        Ok(Err(_)) => {}
        Err(payload) if payload.is::<Stopped>() => {}
        Err(_) => {
            let what = PANIC.take().unwrap_or_default();
            world.fail(invariants::NO_PANIC, what);
        }
    }
    clock::end();
    symbols::end();
    Ok(Lived {
        seed,
        events: world.story.events,
        faults: symbols::seen(|seen| seen.faults),
        answers: world.callers.answers,
        digest: world.story.digest,
        last: world.story.last(),
        coverage: world.facts.coverage,
        violation: world.violation,
    })
}
