//! What lies in the state dir, and what of it lives. Looks only.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Far more than a record or a lock ever holds.
const LONGEST: u64 = 1 << 20;

/// What a file of a session says. A fifo in its place holds nobody up.
pub fn read_plain(path: &Path) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = Vec::new();
    file.metadata().ok().filter(|meta| meta.is_file())?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The pid that stands in a lock, as its own namespace counts.
pub fn holder(dir: &StateDir, session: &str) -> Option<u32> {
    let text = String::from_utf8(read_plain(&dir.lock(session))?).ok()?;
    text.split_whitespace().find_map(|word| word.strip_prefix("pid=")?.parse().ok())
}

/// Whether there is a socket, and nobody behind it.
pub fn nobody_listens(dir: &StateDir, session: &str) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    socket::connect_to(&dir.socket(session), TO_KNOCK).is_err_and(refused)
}

pub fn holds(dir: &StateDir, session: &str) -> bool {
    [dir.lock(session), dir.socket(session), dir.record(session)].iter().any(|path| path.exists())
}

/// All sessions that have left a file, in the order of their names.
pub fn all(dir: &StateDir) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
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
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
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
