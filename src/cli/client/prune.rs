//! `agentsup prune`: removes what dead sessions left behind. It owns a session's lock while it
//! removes what is the session's, so nothing that lives, or begins to, is ever touched.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::ls::dirs_for;
use super::sessions::{self, Life};
use super::{args, print_json};
use crate::cli::args::options;
use crate::cli::explain::text::visible;
use crate::cli::words;
use crate::cli::{Failure, print, show_help};
use crate::os::lock::Lock;
use crate::session::{StateDir, id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub logs: bool,
    pub dry_run: bool,
}

/// What became of one dead session.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Pruned {
    session: String,
    dir: PathBuf,
    /// Or would be, in a dry run.
    removed: Vec<PathBuf>,
    error: Option<String>,
}

pub fn prune(argv: &[OsString]) -> Result<u8, Failure> {
    let cut = words::cut_plain("prune", &options::<args::Prune>(), argv)?;
    if cut.help {
        return show_help(Some("prune"));
    }
    let verb: args::Prune = words::through_argh("prune", &cut)?;
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
    let mut ids: BTreeSet<String> = sessions::all(dir).unwrap_or_default().into_iter().collect();
    if wanted.logs {
        ids.extend(logged(dir));
    }
    ids.into_iter().filter_map(|id| prune_session(dir, id, wanted)).collect()
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

/// `None`: it lives, or has nothing to remove.
fn prune_session(dir: &StateDir, session: String, wanted: Wanted) -> Option<Pruned> {
    // Looked at first, so that of what lives not even the lock is touched.
    if sessions::life(dir, &session) != Life::Dead {
        return None;
    }
    let lock = dir.lock(&session);
    let mut pruned = Pruned { session, dir: dir.path.clone(), ..Pruned::default() };
    if wanted.dry_run {
        let files = files(dir, &pruned.session, wanted).into_iter().chain([lock]);
        pruned.removed = files.filter(|path| path.symlink_metadata().is_ok()).collect();
        return (!pruned.removed.is_empty()).then_some(pruned);
    }
    let had_lock = lock.symlink_metadata().is_ok();
    match Lock::take_in_passing(&lock) {
        Ok(Some(held)) => {
            for path in files(dir, &pruned.session, wanted) {
                pruned.remove(&path);
            }
            // Last, and while it is held: the next owner makes a new one.
            drop(held);
            if had_lock {
                pruned.removed.push(lock);
            }
        }
        // Somebody came first: a supervisor that begins, or another prune.
        Ok(None) => return None,
        Err(error) => pruned.error = Some(format!("{}: {error}", lock.display())),
    }
    (!pruned.removed.is_empty() || pruned.error.is_some()).then_some(pruned)
}

fn files(dir: &StateDir, session: &str, wanted: Wanted) -> Vec<PathBuf> {
    let record = dir.record(session);
    let socket = dir.socket(session);
    let triggers = dir.triggers(session);
    let mut files = vec![
        triggers.with_extension("triggers.new"),
        triggers,
        dir.call(session),
        socket.with_extension("settings"),
        socket.with_extension("settings.new"),
        socket,
        record.with_extension("json.new"),
        record,
    ];
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
