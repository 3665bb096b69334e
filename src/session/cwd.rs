//! Where the agent works: the first rule that applies, looked at again before every spawn.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::{Document, Refusal, Sourced, Wish, glob, state_dir};

/// A named path that is no directory is an error of its source; it never falls through to the
/// next rule, because an agent at work in an unexpected directory is worse than none.
pub(super) fn resolve(
    started_in: &Path,
    flag: Option<&Path>,
    document: Option<&Document>,
) -> Result<Sourced<PathBuf>, Refusal> {
    let found = |value, source| Ok(Sourced { value, source });
    if let Some(path) = flag {
        return found(directory("--cwd flag", &started_in.join(path))?, "cli_flag");
    }
    let Some(document) = document else {
        return found(directory("start directory", started_in)?, "invocation");
    };
    // The path is that of a file, so it has a parent; `/` only keeps the types honest.
    let parent = document.path.parent().unwrap_or(Path::new("/"));
    if let Some(path) = &document.cwd {
        let path = directory("agent_doc_cwd frontmatter", &parent.join(path))?;
        return found(path, "frontmatter");
    }
    match state_dir::project_root(parent) {
        Some(root) => found(directory("project root", &root)?, "project_root"),
        None => found(directory("document's directory", parent)?, "document_parent"),
    }
}

fn directory(source: &str, path: &Path) -> Result<PathBuf, Refusal> {
    let refuse = |what: &str, now: &str| Refusal(format!("{source}: {what}: {}; {now}", path.display()));
    let another = "give a directory with --cwd";
    let canonical = match fs::canonicalize(path) {
        Ok(canonical) => canonical,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(refuse("path does not exist", "make it, or give another with --cwd"));
        }
        // A file in the middle: something is there, and it is no directory.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(refuse("path is not a directory", another));
        }
        Err(e) => return Err(refuse(&format!("path cannot be resolved ({e})"), another)),
    };
    match fs::metadata(&canonical) {
        Ok(meta) if meta.is_dir() => match eaccess(&canonical, AccessFlags::X_OK) {
            Ok(()) => Ok(canonical),
            Err(e) => Err(refuse(
                &format!("directory may not be entered ({})", e.desc()),
                "chmod u+x it, or give another with --cwd",
            )),
        },
        Ok(_) => Err(refuse("path is not a directory", another)),
        Err(e) => Err(refuse(&format!("path cannot be looked at ({e})"), another)),
    }
}

/// With `allowed_dirs` set the cwd must match one of the globs, or lie below a directory that does.
pub(super) fn check_allowed(wish: &Wish, cwd: &Path) -> Result<(), Refusal> {
    if wish.allowed_dirs.is_empty() {
        return Ok(());
    }
    let home = wish.parent_env.iter().find(|(name, _)| name == "HOME").map(|(_, v)| v.as_os_str());
    let allowed = wish.allowed_dirs.iter().any(|pattern| {
        let pattern = anchor(pattern, &wish.started_in, home);
        let pattern = pattern.as_os_str().as_bytes();
        cwd.ancestors().any(|dir| glob::matches_path(pattern, dir.as_os_str().as_bytes()))
    });
    if allowed {
        return Ok(());
    }
    Err(Refusal(format!(
        "cwd {} is outside allowed_dirs [{}]: start it elsewhere or add the directory there",
        cwd.display(),
        wish.allowed_dirs.join(", ")
    )))
}

/// The pattern as an absolute one. What stands before its first wildcard is resolved like the cwd
/// was: who allows `/work` means the place, also when `/work` is a symlink.
fn anchor(pattern: &str, started_in: &Path, home: Option<&OsStr>) -> PathBuf {
    let absolute = match (pattern.strip_prefix('~'), home) {
        (Some(""), Some(home)) => PathBuf::from(home),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            Path::new(home).join(rest.trim_start_matches('/'))
        }
        _ => started_in.join(pattern),
    };
    let is_wild = |part: &Component| part.as_os_str().as_bytes().iter().any(|b| b"*?".contains(b));
    let literal: PathBuf = absolute.components().take_while(|part| !is_wild(part)).collect();
    let wild: PathBuf = absolute.components().skip_while(|part| !is_wild(part)).collect();
    fs::canonicalize(&literal).unwrap_or(literal).join(wild)
}
