//! `agentsup tree FILE`: the file of a node becomes `Settings` with children in the place of an agent.
//! Called by `cli` with the words behind the verb. Never starts anything itself: the supervisor does.
//!
//! words → `file` (with `child`, `preset`) → `settings` → supervisor
//!          `source` reads TOML with its lines, `carve` makes a child's config file of its part

mod carve;
mod child;
mod file;
mod preset;
mod settings;
mod show;
mod source;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use super::args;
use super::ground::refused;
use super::words::{self, Word};
use super::world::World;
use super::{Failure, asked, print, show_help, told_to_node};
use crate::session::state_dir;
use crate::supervisor::{self, settings::Settings};

pub use child::check_id;

#[inline(never)]
pub fn tree(argv: &[OsString]) -> Result<u8, Failure> {
    let cut = words::cut_plain("tree", &args::options::<args::Tree>(), argv)?;
    if cut.help {
        return show_help(Some("tree"));
    }
    match asked(&cut).map_err(|failure| told_to_node(argv, failure))? {
        Asked::Check(text) => print(&text).map(|()| 0),
        Asked::Start(settings) => Ok(supervisor::run(*settings)?),
    }
}

enum Asked {
    Check(String),
    Start(Box<Settings>),
}

fn asked(cut: &words::Cut) -> Result<Asked, Failure> {
    let mut verb: args::Tree = words::through_argh("tree", cut)?;
    let mut plain = std::mem::take(&mut verb.words).into_iter().map(|Word(word)| word);
    let file = match (plain.next(), plain.next()) {
        (Some(file), None) => PathBuf::from(file),
        (Some(_), Some(word)) => {
            return Err(Failure::usage(format!("one word too many: `{}`", word.display())));
        }
        (None, _) => return Err(Failure::usage("FILE is missing: agentsup tree team.toml")),
    };
    let check = verb.check;
    let world = World::look()?;
    let flags = settings::flags(verb)?;
    let origin = file::Origin::root(flags.session.clone()).or_env(settings::session_from(&world));
    let plan = file::load(&file, &origin)?;
    if check {
        return Ok(Asked::Check(show::text(&plan)));
    }
    let ground = settings::ground(plan, flags, &world)?;
    let state_dir = state_dir::make(&ground.dirs).map_err(refused)?;
    Ok(Asked::Start(Box::new(ground.settings(state_dir, world))))
}

/// A flag whose value is a duration, a word or a number, as `run` reads it.
fn word(flag: &str, word: Option<Word>) -> Result<Option<String>, Failure> {
    word.map(|word| asked::text(flag, word)).transpose()
}
