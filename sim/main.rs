//! A deterministic simulator of the whole supervisor.
//!
//! The seam is the one that the product has already: its `os` room, through which everything happens that
//! happens. Here the product's own `supervisor` and `control` are compiled once more, as they are, with a
//! fake `os` beside them; `policy`, `session`, `screen`, `log` and `sorted` are the library's. So what runs is
//! the product's own loop, wiring, machines, protocol and log, and nothing of it is copied: a copy would
//! have to be kept equal, and would prove only itself. Std's clocks and files, which the rooms use without
//! `os`, are met one level below (`symbols`).
//!
//! A life is one supervisor from start to end. All of it comes from one seed: the settings (`mood`), what
//! happens (`world`) and what fails. While the supervisor sleeps in the fake `poll`, time jumps to whatever
//! comes next, and before it sleeps the `invariants` are judged, by what the world saw and by what log,
//! `state` and record say. One thing is put between product and product: `probe`, which notes what `Life`
//! is told, and in chaotic lives tells it what it must ignore.
//!
//! ```text
//! cargo run --example simulate -- --seed 7 --trace     one life, told
//! cargo run --example simulate -- --events 5000000     seeds 1, 2, 3, … until so much has happened
//! ```

mod clock;
mod coverage;
mod invariants;
mod life;
mod mood;
mod os;
mod probe;
mod report;
mod rng;
mod story;
mod symbols;
mod witness;
mod world;

// The client's side is nobody's here; and what is public there is not here.
#[allow(dead_code, unused_imports, unfulfilled_lint_expectations)]
#[path = "../src/control/mod.rs"]
mod control;
#[allow(dead_code, unused_imports)]
#[path = "../src/supervisor/mod.rs"]
mod supervisor;

use agentsup::{log, screen, session, sorted};

/// The library's, with the probe in the place of `Life`.
mod policy {
    pub use agentsup::policy::*;

    pub mod life {
        pub use crate::probe::Life;
        pub use agentsup::policy::life::*;
    }
}

/// What a supervisor unwinds with when an invariant does not hold.
pub struct Stopped;

fn main() -> std::process::ExitCode {
    let asked = match report::Asked::from_words(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("simulate: {why}");
            return std::process::ExitCode::from(2);
        }
    };
    report::run(&asked)
}
