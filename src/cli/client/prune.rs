//! `agentsup prune`: removes what dead sessions left behind. It owns a session's lock while it
//! removes what is the session's, so nothing that lives, or begins to, is ever touched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::ls::dirs_for;
use super::sessions::{self, Life};
use super::{args, print_json};
use crate::cli::explain::text::visible;
use crate::cli::given::{FromGiven, Given};
use crate::cli::{Failure, print, show_help};
use crate::os::lock::{Lock, Passing, remove_junk};
use crate::session::claims::{self, Found};
use crate::session::{StateDir, id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub logs: bool,
    pub dry_run: bool,
}

/// What became of one dead session.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Pruned {
    /// None: what lay among the claims and was nobody's.
    session: Option<String>,
    dir: PathBuf,
    /// Or would be, in a dry run.
    removed: Vec<PathBuf>,
    error: Option<String>,
}

pub fn prune(argv: &[OsString]) -> Result<u8, Failure> {
    let Some(mut given) = Given::read("prune", argv)? else {
        return show_help(Some("prune"));
    };
    let verb = args::Prune::from_given(&mut given);
    let wanted = Wanted { logs: verb.logs, dry_run: verb.dry_run };
    let dirs = dirs_for(verb.dir, verb.words)?;
    let pruned: Vec<Pruned> = dirs.iter().flat_map(|dir| prune_dir(dir, wanted)).collect();
    match verb.json {
        true => print_json(&json!(pruned))?,
        false => print(&text(&pruned, wanted))?,
    }
    Ok(u8::from(pruned.iter().any(|one| one.error.is_some())))
}

pub fn prune_dir(dir: &StateDir, wanted: Wanted) -> Vec<Pruned> {
    let mut ids = sessions::all(dir).unwrap_or_default();
    ids.extend(claiming(dir));
    if wanted.logs {
        ids.extend(logged(dir));
    }
    ids.sort_unstable();
    ids.dedup();
    let junk = prune_junk(dir, wanted);
    let carved = carved(dir).into_iter().filter_map(|id| prune_carved(dir, id, wanted));
    ids.into_iter().filter_map(|id| prune_session(dir, id, wanted)).chain(carved).chain(junk).collect()
}

/// Sessions that have left nothing but a log.
fn logged(dir: &StateDir) -> Vec<String> {
    let names = fs::read_dir(dir.path.join("logs")).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let id = name.strip_suffix(".log").or(name.strip_suffix(".log.1"))?;
            id::check(id).is_ok().then(|| id.to_owned())
        })
        .collect()
}

/// Sessions that have left a claim, or one that was being written.
fn claiming(dir: &StateDir) -> Vec<String> {
    let owners = claims::all(dir).unwrap_or_default().into_iter().filter_map(|(_, found)| match found {
        Found::Claim(claim) => Some(claim.session),
        Found::Junk | Found::Nothing => None,
    });
    let names = fs::read_dir(dir.claims()).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let new = names.filter_map(|name| Some(name.strip_prefix('.')?.strip_suffix(".new")?.to_owned()));
    owners.chain(new.filter(|id| id::check(id).is_ok())).collect()
}

/// Sessions for which a node has left a config file.
fn carved(dir: &StateDir) -> Vec<String> {
    let names = fs::read_dir(dir.path.join("supervisor")).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names
        .filter_map(|name| Some(name.strip_suffix(".toml").or(name.strip_suffix(".toml.new"))?.to_owned()));
    let mut ids: Vec<String> = ids.filter(|id| id::check(id).is_ok()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A child that its node is about to start again: what waits for it, and its conversation, are not those of
/// the dead. Its config file is there for as long as it is a child; its node may be about to come back, too.
fn is_between_lives(dir: &StateDir, session: &str) -> bool {
    let above = |id: &str| id.rsplit_once('.').map(|(node, _)| node.to_owned());
    dir.socket(session).with_extension("toml").symlink_metadata().is_ok()
        && std::iter::successors(above(session), |node| above(node))
            .any(|node| sessions::life(dir, &node) != Life::Dead)
}

/// The config file of a node's child. The node writes it before the child takes its lock: only whoever owns
/// the node's lock knows that nobody is about to read it.
fn prune_carved(dir: &StateDir, session: String, wanted: Wanted) -> Option<Pruned> {
    let (node, _) = session.rsplit_once('.')?;
    if is_between_lives(dir, &session)
        || sessions::life(dir, node) != Life::Dead
        || sessions::life(dir, &session) != Life::Dead
    {
        return None;
    }
    let config = dir.socket(&session).with_extension("toml");
    let files = [config.with_extension("toml.new"), config];
    let mut pruned = Pruned { dir: dir.path.clone(), ..Pruned::default() };
    if wanted.dry_run {
        pruned.removed.extend(files.into_iter().filter(|path| path.symlink_metadata().is_ok()));
    } else {
        match Lock::take_in_passing(&dir.lock(node)) {
            Ok(Passing::Held(_held)) => files.iter().for_each(|path| pruned.remove(path)),
            Ok(Passing::Owned | Passing::Contended) => return None,
            Err(error) => pruned.error = Some(format!("{}: {error}", dir.lock(node).display())),
        }
    }
    pruned.session = Some(session);
    (!pruned.removed.is_empty() || pruned.error.is_some()).then_some(pruned)
}

/// What lies among the claims and is none.
fn prune_junk(dir: &StateDir, wanted: Wanted) -> Option<Pruned> {
    let mut pruned = Pruned { dir: dir.path.clone(), ..Pruned::default() };
    for (path, found) in claims::all(dir).unwrap_or_default() {
        if found != Found::Junk {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match wanted.dry_run {
            true => pruned.removed.push(path),
            false => match remove_junk(&path, |text| claims::parse(name, text).is_none()) {
                Ok(true) => pruned.removed.push(path),
                Ok(false) => {}
                Err(error) => pruned.error = Some(format!("{}: {error}", path.display())),
            },
        }
    }
    (!pruned.removed.is_empty() || pruned.error.is_some()).then_some(pruned)
}

/// `None`: it lives, or has nothing to remove.
fn prune_session(dir: &StateDir, session: String, wanted: Wanted) -> Option<Pruned> {
    // Looked at first, so that of what lives not even the lock is touched.
    if sessions::life(dir, &session) != Life::Dead || is_between_lives(dir, &session) {
        return None;
    }
    let lock = dir.lock(&session);
    let mut pruned = Pruned { session: Some(session.clone()), dir: dir.path.clone(), ..Pruned::default() };
    if wanted.dry_run {
        let files = files(dir, &session, wanted).into_iter().chain([lock]);
        pruned.removed = files.filter(|path| path.symlink_metadata().is_ok()).collect();
        return (!pruned.removed.is_empty()).then_some(pruned);
    }
    let had_lock = lock.symlink_metadata().is_ok();
    match Lock::take_in_passing(&lock) {
        Ok(Passing::Held(held)) => {
            for path in files(dir, &session, wanted) {
                pruned.remove(&path);
            }
            // Last, and while it is held: the next owner makes a new one.
            drop(held);
            if had_lock {
                pruned.removed.push(lock);
            }
        }
        // Somebody came first: a supervisor that begins, or another prune.
        Ok(Passing::Owned | Passing::Contended) => return None,
        Err(error) => pruned.error = Some(format!("{}: {error}", lock.display())),
    }
    (!pruned.removed.is_empty() || pruned.error.is_some()).then_some(pruned)
}

/// In an order that can be left at any point: the record goes before what it speaks of, so that no start
/// in between goes on with half of a session and loses what waits for it. The lock is the caller's, and
/// the last: by it the next prune finds what is left. The claims are those that name the session while
/// its lock is held: nobody else can change them.
fn files(dir: &StateDir, session: &str, wanted: Wanted) -> Vec<PathBuf> {
    let record = dir.record(session);
    let socket = dir.socket(session);
    let triggers = dir.triggers(session);
    let refs = dir.refs(session);
    let mut files = vec![
        socket.with_extension("settings"),
        socket.with_extension("settings.new"),
        socket,
        record.with_extension("json.new"),
        record,
        refs.with_extension("refs.new"),
        refs,
        triggers.with_extension("triggers.new"),
        triggers,
        dir.call(session),
        dir.claim_new(session),
    ];
    let is_its = |found: &Found| matches!(found, Found::Claim(claim) if claim.session == session);
    let claims = claims::all(dir).unwrap_or_default().into_iter().filter(|(_, found)| is_its(found));
    files.extend(claims.map(|(path, _)| path));
    if wanted.logs {
        let log = dir.log(session);
        files.extend([log.with_extension("log.1"), log]);
    }
    files
}

impl Pruned {
    fn remove(&mut self, path: &Path) {
        match fs::remove_file(path) {
            Ok(()) => self.removed.push(path.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.error = Some(format!("{}: {error}", path.display())),
        }
    }
}

fn text(pruned: &[Pruned], wanted: Wanted) -> String {
    if pruned.is_empty() {
        return "nothing to remove\n".to_owned();
    }
    let verb = if wanted.dry_run { "would remove" } else { "removed" };
    let mut text = String::new();
    for one in pruned {
        for path in &one.removed {
            text += &format!("{verb} {}\n", visible(&path.display().to_string()));
        }
        if let Some(error) = &one.error {
            text += &format!("could not remove {}\n", visible(error));
        }
    }
    text
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
