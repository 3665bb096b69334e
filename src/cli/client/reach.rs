//! Which socket is meant: `--socket`, else SESSION, else `$AGENTSUP_SOCKET`, else `$AGENTSUP_SESSION`, else
//! the only live one.

use std::path::PathBuf;

use super::sessions::{self, Life};
use crate::cli::Failure;
use crate::cli::world::World;
use crate::session::{StateDir, id};

#[derive(Debug, Default)]
pub struct Reach {
    pub socket: Option<PathBuf>,
    pub session: Option<String>,
    pub dir: Option<PathBuf>,
}

/// More than this many would push the message off the screen.
const LISTED: usize = 20;

fn nobody(message: String) -> Failure {
    Failure { code: 69, message }
}

pub fn find(reach: &Reach, world: &World) -> Result<PathBuf, Failure> {
    match (&reach.socket, &reach.session) {
        (Some(_), Some(session)) => {
            Err(Failure::usage(format!("--socket and session {session} both name a supervisor; give one")))
        }
        (Some(_), None) if reach.dir.is_some() => {
            Err(Failure::usage("--socket needs no --dir; give one of them"))
        }
        (Some(socket), None) => Ok(world.started_in.join(socket)),
        (None, Some(session)) => {
            id::check(session).map_err(Failure::usage)?;
            named(session, &sessions::dirs(reach.dir.as_deref(), world))
        }
        // A directory that was asked for by name comes before what the surroundings say.
        (None, None) if reach.dir.is_some() => only_one(&sessions::dirs(reach.dir.as_deref(), world)),
        (None, None) => match (world.var("AGENTSUP_SOCKET"), world.var("AGENTSUP_SESSION")) {
            (Some(socket), _) => Ok(world.started_in.join(socket)),
            (None, Some(session)) => {
                let session = session.to_string_lossy();
                id::check(&session).map_err(|why| Failure::usage(format!("$AGENTSUP_SESSION: {why}")))?;
                named(&session, &sessions::dirs(None, world))
            }
            (None, None) => only_one(&sessions::dirs(None, world)),
        },
    }
}

fn named(session: &str, dirs: &[StateDir]) -> Result<PathBuf, Failure> {
    let holding: Vec<&StateDir> = dirs.iter().filter(|dir| sessions::holds(dir, session)).collect();
    for dir in &holding {
        match sessions::life(dir, session) {
            Life::Dead => {}
            Life::Live | Life::Unknown if dir.socket(session).exists() => return Ok(dir.socket(session)),
            Life::Live | Life::Unknown => {
                let dir = dir.path.display();
                return Err(nobody(format!("session {session} in {dir} lives, but has no control socket")));
            }
        }
    }
    match holding.first() {
        Some(dir) => Err(nobody(format!(
            "no supervisor answers: session {session} in {} has ended; its log is {}",
            dir.path.display(),
            dir.log(session).display()
        ))),
        None => by_first_group(session, dirs),
    }
}

/// A UUID by its first eight characters, as `ls` shows it. No other name may be shortened: a script
/// that stops `agent-1` must not stop `agent-10`.
fn by_first_group(session: &str, dirs: &[StateDir]) -> Result<PathBuf, Failure> {
    let mut meant = vec![];
    for dir in dirs {
        let live = sessions::live(dir).into_iter().filter(|id| is_uuid(id) && first_group(id) == session);
        meant.extend(live.map(|id| dir.socket(&id)));
    }
    match &meant[..] {
        [] => Err(nobody(format!("no supervisor answers: there is no session {session} in {}", list(dirs)))),
        [socket] => Ok(socket.clone()),
        [_, _, ..] => {
            Err(Failure::usage(format!("{session} could be {} sessions; give one whole", meant.len())))
        }
    }
}

pub fn first_group(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

pub fn is_uuid(id: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let groups: Vec<&str> = id.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(|group| is_hex(group))
}

/// The first directory that holds a live session decides: a project's own comes before the user's.
fn only_one(dirs: &[StateDir]) -> Result<PathBuf, Failure> {
    for dir in dirs {
        match &sessions::live(dir)[..] {
            [] => {}
            [session] => return Ok(dir.socket(session)),
            many => {
                let mut message =
                    format!("{} sessions live in {}; choose one of them:", many.len(), dir.path.display());
                for session in many.iter().take(LISTED) {
                    message += &format!("\n  {session}");
                }
                if many.len() > LISTED {
                    message += &format!("\n  and {} more: agentsup ls", many.len() - LISTED);
                }
                return Err(Failure::usage(message));
            }
        }
    }
    Err(nobody(format!(
        "no supervisor answers: no session lives in {}; name another place with --dir or --socket",
        list(dirs)
    )))
}

fn list(dirs: &[StateDir]) -> String {
    dirs.iter().map(|dir| dir.path.display().to_string()).collect::<Vec<_>>().join(", ")
}
