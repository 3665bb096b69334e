//! Where sockets, logs and records live: the first place that can be used, and only one that
//! nobody else can tamper with.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, eaccess};

use super::{Refusal, StateDir};

const FLAG: &str = "--dir";
const ENV: &str = "$AGENTSUP_DIR";
const RUN: &str = "/run";
const INSIDE: [&str; 3] = ["supervisor", "logs", "claims"];

/// The places in their order. One that was named is the only one: state that silently lands
/// elsewhere is state that no client finds.
pub fn candidates(
    flag: Option<&Path>,
    env_dir: Option<&Path>,
    project_root: Option<&Path>,
    xdg_runtime_dir: Option<&Path>,
    uid: u32,
) -> Vec<StateDir> {
    let place = |path: PathBuf, source| StateDir { path, source };
    if let Some(path) = flag {
        return vec![place(path.to_owned(), FLAG)];
    }
    if let Some(path) = env_dir.filter(|path| !path.as_os_str().is_empty()) {
        return vec![place(path.to_owned(), ENV)];
    }
    let project = project_root.map(|root| place(root.join(".agent-doc"), "project_root"));
    let run = place("/run/agentsup".into(), RUN);
    // The specification says to ignore a relative one.
    let xdg = xdg_runtime_dir
        .filter(|dir| dir.is_absolute())
        .map(|dir| place(dir.join("agentsup"), "$XDG_RUNTIME_DIR"));
    let tmp = place(format!("/tmp/agentsup-{uid}").into(), "/tmp");
    project.into_iter().chain([run]).chain(xdg).chain([tmp]).collect()
}

/// Nearest ancestor, itself included, that holds a directory `.agent-doc`.
pub fn project_root(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|dir| dir.join(".agent-doc").is_dir()).map(Path::to_owned)
}

/// Makes the first usable candidate, 0700, with what belongs inside; returns it canonical.
/// Directories that exist keep their mode.
pub fn make(candidates: &[StateDir]) -> Result<StateDir, Refusal> {
    first_usable(candidates, |place| make_one(place, Uid::effective().as_raw()))
}

/// The one `make` would take, found by looking only.
pub fn choose(candidates: &[StateDir]) -> Result<StateDir, Refusal> {
    first_usable(candidates, |place| judge_one(place, Uid::effective().as_raw()))
}

/// Why a place is not used.
#[derive(Debug)]
enum Unfit {
    /// Somebody may be setting a trap, or it is somebody else's: never passed over in silence.
    Unsafe(String),
    /// It cannot be used here: another may do.
    Unusable(String),
}

fn first_usable(
    candidates: &[StateDir],
    try_one: impl Fn(&StateDir) -> Result<PathBuf, Unfit>,
) -> Result<StateDir, Refusal> {
    let mut tried = vec![];
    for place in candidates {
        match try_one(place) {
            Ok(path) => return Ok(StateDir { path, source: place.source }),
            Err(Unfit::Unsafe(why)) => {
                return Err(Refusal(format!(
                    "state dir ({}): {why}: choose another with --dir",
                    place.source
                )));
            }
            Err(Unfit::Unusable(why)) => tried.push(format!("{}: {why}", place.source)),
        }
    }
    let what_now = "give a writable directory with --dir";
    Err(Refusal(format!("no usable state dir ({}): {what_now}", tried.join("; "))))
}

fn make_one(place: &StateDir, uid: u32) -> Result<PathBuf, Unfit> {
    let path = absolute(&place.path)?;
    if let (Some(mode), Some(parent)) = (parents_mode(place), path.parent()) {
        let made = DirBuilder::new().recursive(true).mode(mode).create(parent);
        made.map_err(|e| unusable(parent, &e))?;
    }
    make_dir(&path)?;
    check_outer(&path, uid)?;
    for name in INSIDE {
        let inside = path.join(name);
        make_dir(&inside)?;
        check_own(&inside, uid, Root::IsForeign)?;
    }
    for dir in INSIDE.map(|name| path.join(name)) {
        check_writable(&dir)?;
    }
    // Parents may be symlinks; the agent gets the socket's path and another cwd.
    fs::canonicalize(&path).map_err(|e| unusable(&path, &e))
}

fn judge_one(place: &StateDir, uid: u32) -> Result<PathBuf, Unfit> {
    let path = absolute(&place.path)?;
    match fs::symlink_metadata(&path) {
        Ok(_) => {
            check_outer(&path, uid)?;
            for inside in INSIDE.map(|name| path.join(name)) {
                match fs::symlink_metadata(&inside) {
                    Ok(_) => {
                        check_own(&inside, uid, Root::IsForeign)?;
                        check_writable(&inside)?;
                    }
                    Err(_) => check_writable(&path)?,
                }
            }
            fs::canonicalize(&path).map_err(|e| unusable(&path, &e))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let depth = if parents_mode(place).is_some() { usize::MAX } else { 1 };
            let mut above = path.ancestors().skip(1).take(depth);
            let Some(parent) = above.find(|dir| fs::symlink_metadata(dir).is_ok()) else {
                return Err(unusable(&path, &e));
            };
            check_writable(parent)?;
            Ok(path)
        }
        Err(e) => Err(unusable(&path, &e)),
    }
}

/// The mode for missing parents, where they may be made. A named place may need them, and an
/// image from scratch has no /run; a missing $XDG_RUNTIME_DIR says that there is no session.
fn parents_mode(place: &StateDir) -> Option<u32> {
    match place.source {
        FLAG | ENV => Some(0o700),
        RUN => Some(0o755),
        _ => None,
    }
}

/// A trailing slash is dropped: with one, the kernel would follow a symlink at the end unseen.
fn absolute(path: &Path) -> Result<PathBuf, Unfit> {
    let path = std::path::absolute(path).map_err(|e| unusable(path, &e))?;
    Ok(path.components().collect())
}

fn make_dir(path: &Path) -> Result<(), Unfit> {
    match DirBuilder::new().mode(0o700).create(path) {
        // The umask may have taken bits away that the owner needs.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(|e| unusable(path, &e)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A read-only file system says so even when the directory is there.
        Err(_) if fs::symlink_metadata(path).is_ok() => Ok(()),
        Err(e) => Err(unusable(path, &e)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Root {
    /// Volumes, emptyDir and tmpfs mounts belong to root. What matters is inside, is made by us
    /// and is checked itself.
    IsFine,
    IsForeign,
}

/// Root's own is no trap, but no use either where we cannot write: then another place may do, and
/// what root keeps inside is not looked at.
fn check_outer(path: &Path, uid: u32) -> Result<(), Unfit> {
    match check_own(path, uid, Root::IsForeign) {
        Ok(()) => Ok(()),
        Err(_) => check_own(path, uid, Root::IsFine).and_then(|()| check_writable(path)),
    }
}

fn check_own(path: &Path, uid: u32, root: Root) -> Result<(), Unfit> {
    let meta: Metadata = fs::symlink_metadata(path).map_err(|e| unusable(path, &e))?;
    if meta.file_type().is_symlink() {
        return Err(Unfit::Unsafe(format!("{} is a symlink", path.display())));
    }
    if !meta.is_dir() {
        return Err(Unfit::Unusable(format!("{} is not a directory", path.display())));
    }
    if meta.uid() != uid && !(meta.uid() == 0 && root == Root::IsFine) {
        let owner = meta.uid();
        return Err(Unfit::Unsafe(format!("{} belongs to uid {owner}, not to uid {uid}", path.display())));
    }
    Ok(())
}

fn check_writable(path: &Path) -> Result<(), Unfit> {
    if !path.is_dir() {
        return Err(Unfit::Unusable(format!("{} is not a directory", path.display())));
    }
    eaccess(path, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|e| Unfit::Unusable(format!("{}: {}", path.display(), e.desc())))
}

fn unusable(path: &Path, e: &io::Error) -> Unfit {
    Unfit::Unusable(format!("{}: {e}", path.display()))
}

impl StateDir {
    pub fn socket(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.sock"))
    }

    pub fn lock(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.lock"))
    }

    /// The last state, replaced atomically.
    pub fn record(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.json"))
    }

    /// Triggers that wait, and those that have ended.
    pub fn triggers(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.triggers"))
    }

    /// What the last call for a trigger printed.
    pub fn call(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.call"))
    }

    /// What the refs of the repository led to when the session began.
    pub fn refs(&self, session: &str) -> PathBuf {
        self.path.join("supervisor").join(format!("{session}.refs"))
    }

    /// A file for each ticket that is claimed.
    pub fn claims(&self) -> PathBuf {
        self.path.join("claims")
    }

    /// A claim of that session that is being written. Never a ticket's file: it begins with a dot.
    pub fn claim_new(&self, session: &str) -> PathBuf {
        self.claims().join(format!(".{session}.new"))
    }

    pub fn log(&self, session: &str) -> PathBuf {
        self.path.join("logs").join(format!("{session}.log"))
    }
}

#[cfg(test)]
mod tests;
