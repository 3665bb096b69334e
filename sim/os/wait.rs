//! Children that have ended or stopped.

pub use agentsup::os::wait::{How, Next, Reaped};

use crate::world;

pub fn next() -> Next {
    world::with(|world| world.reap())
}

pub fn has_children() -> bool {
    world::with(|world| world.has_children())
}

pub fn become_subreaper() -> std::io::Result<()> {
    Ok(())
}

pub fn is_subreaper() -> bool {
    world::with(|world| world.mood.keeps_orphans)
}
