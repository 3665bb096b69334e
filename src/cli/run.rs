//! `agentsup run`: settle everything, make the state dir, hand over.

use std::ffi::OsString;

use super::args::{self, Run};
use super::ground::{ground, refused};
use super::settings::Origins;
use super::words;
use super::world::World;
use super::{Failure, show_help, told_to_node};
use crate::session::state_dir;
use crate::supervisor::{self, settings::Settings};

#[inline(never)]
pub fn run(argv: &[OsString]) -> Result<u8, Failure> {
    let refused = |failure| told_to_node(argv, failure);
    let cut = words::cut("run", &args::options::<Run>(), argv).map_err(refused)?;
    if cut.help {
        return show_help(Some("run"));
    }
    let settings = settings(&cut).map_err(refused)?;
    Ok(supervisor::run(settings)?)
}

fn settings(cut: &words::Cut) -> Result<Settings, Failure> {
    let world = World::look()?;
    let ground = ground("run", cut, &world, Origins::OfFiles)?;
    let state_dir = state_dir::make(&ground.dirs).map_err(refused)?;
    Ok(ground.settings(state_dir, world))
}
