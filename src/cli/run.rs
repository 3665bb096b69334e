//! `agentsup run`: settle everything, make the state dir, hand over.

use std::ffi::OsString;

use super::args::{self, Run};
use super::ground::{ground, refused};
use super::words;
use super::world::World;
use super::{Failure, show_help};
use crate::session::state_dir;
use crate::supervisor;

pub fn run(argv: &[OsString]) -> Result<u8, Failure> {
    let cut = words::cut("run", &args::options::<Run>(), argv)?;
    if cut.help {
        return show_help(Some("run"));
    }
    let world = World::look()?;
    let ground = ground("run", &cut, &world)?;
    let state_dir = state_dir::make(&ground.dirs).map_err(refused)?;
    Ok(supervisor::run(ground.settings(state_dir, &world))?)
}
