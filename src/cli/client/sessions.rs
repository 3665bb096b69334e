//! What lies in the state dir, and what of it lives. Looks only.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::cli::ground;
use crate::cli::world::World;
use crate::os::{lock, socket};
use crate::session::{StateDir, id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its lock is held.
    Live,
    Dead,
    /// Neither the lock nor the socket is ours to look at.
    Unknown,
}

/// To find out whether anybody listens, where the lock cannot be read.
const TO_KNOCK: Duration = Duration::from_millis(50);

/// Where sessions may be, best first.
pub fn dirs(flag: Option<&Path>, world: &World) -> Vec<StateDir> {
    let mut dirs = ground::dirs(flag, &world.started_in, world);
    dirs.retain(|dir| !is_trap(dir, world.uid));
    dirs
}

/// Anybody can make a directory in /tmp with our uid in its name, and a socket in it.
fn is_trap(dir: &StateDir, uid: u32) -> bool {
    dir.path.starts_with("/tmp/")
        && dir.source == "/tmp"
        && fs::symlink_metadata(&dir.path).is_ok_and(|meta| !meta.is_dir() || meta.uid() != uid)
}

pub fn holds(dir: &StateDir, session: &str) -> bool {
    [dir.lock(session), dir.socket(session), dir.record(session)].iter().any(|path| path.exists())
}

/// All sessions that have left a file, in the order of their names.
pub fn all(dir: &StateDir) -> io::Result<Vec<String>> {
    let mut ids = BTreeSet::new();
    let entries = match fs::read_dir(dir.path.join("supervisor")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| {
            [".lock", ".sock", ".json", ".json.new", ".triggers"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
        });
        ids.extend(id.filter(|id| id::check(id).is_ok()).map(str::to_owned));
    }
    Ok(ids.into_iter().collect())
}

/// Those that can be asked.
pub fn live(dir: &StateDir) -> Vec<String> {
    let mut ids = all(dir).unwrap_or_default();
    ids.retain(|id| life(dir, id) == Life::Live && dir.socket(id).exists());
    ids
}

pub fn life(dir: &StateDir, session: &str) -> Life {
    match lock::is_held(&dir.lock(session)) {
        Ok(true) => Life::Live,
        Ok(false) => Life::Dead,
        // Another user's lock, behind a socket that lets us in.
        Err(_) => match socket::connect_to(&dir.socket(session), TO_KNOCK) {
            Ok(_) => Life::Live,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Life::Dead,
                _ => Life::Unknown,
            },
        },
    }
}
