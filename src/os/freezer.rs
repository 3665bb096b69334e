//! The cgroup freezer: a whole tree stands still in one moment, unseen by its members and without a
//! signal that any of them could miss or undo. Version 2 only: what version 1 has frozen cannot even be
//! killed, and would outlive a supervisor that was.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::procfs;

/// How long a cgroup is emptied: who dies in it keeps it busy for a moment.
const EMPTIED: Duration = Duration::from_millis(100);
const PREFIX: &str = "agentsup-";

/// A cgroup of our own below the one we are in: we must not stand still ourselves. Given up with all
/// that is in it when it is dropped.
#[derive(Debug)]
pub struct Freezer {
    dir: PathBuf,
}

impl Freezer {
    /// `None` where cgroups are not ours to make.
    pub fn make(session: &str) -> Option<Freezer> {
        let dir = own()?.join(format!("{PREFIX}{session}-{}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
        let freezer = Freezer { dir };
        // While it is empty: whoever comes in stands still at once, and nobody is asked to wait for the
        // kernel's word. Kernels before 5.2 have no such file.
        fs::write(freezer.dir.join("cgroup.freeze"), "1").is_ok().then_some(freezer)
    }

    /// Only out of our own cgroup: where it would have to go back to is not noted.
    pub fn take(&self, pid: i32) -> bool {
        self.dir.parent().is_some() && of(pid).as_deref() == self.dir.parent() && put(&self.dir, pid)
    }

    /// Also a child of somebody inside.
    pub fn holds(&self, pid: i32) -> bool {
        of(pid).as_ref() == Some(&self.dir)
    }
}

impl Freezer {
    /// Back to where we are.
    fn empty(&self) {
        let members = fs::read_to_string(self.dir.join("cgroup.procs"));
        if let (Some(parent), Ok(members)) = (self.dir.parent(), members) {
            for pid in members.lines().filter_map(|line| line.parse().ok()) {
                put(parent, pid);
            }
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // Each goes on as it leaves. As long as they stand still nobody is born in it.
        self.empty();
        let _ = fs::write(self.dir.join("cgroup.freeze"), "0");
        let until = Instant::now() + EMPTIED;
        while Instant::now() < until {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            self.empty();
            std::thread::yield_now();
        }
    }
}

/// Lets go on what a supervisor left frozen when it was killed.
pub fn release(pid: i32) {
    let dir = of(pid);
    let is_ours =
        |dir: &PathBuf| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    drop(dir.filter(is_ours).map(|dir| Freezer { dir }));
}

/// Removes the cgroups that dead supervisors of this session left; one with members stays.
pub fn remove_empty(session: &str) {
    let Some(own) = own() else { return };
    let prefix = format!("{PREFIX}{session}-");
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse().ok());
        if owner.is_some_and(|pid| procfs::process(pid).is_none()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn put(dir: &Path, pid: i32) -> bool {
    fs::write(dir.join("cgroup.procs"), pid.to_string()).is_ok()
}

fn own() -> Option<PathBuf> {
    of(std::process::id().cast_signed())
}

/// The directory of its cgroup, if it can be seen from here.
fn of(pid: i32) -> Option<PathBuf> {
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let dir = directory(&membership, &mounts)?;
    // What is mounted may be another part of the hierarchy than /proc speaks of.
    let members = fs::read_to_string(dir.join("cgroup.procs")).ok()?;
    members.lines().any(|line| line.parse() == Ok(pid)).then_some(dir)
}

fn directory(membership: &str, mounts: &str) -> Option<PathBuf> {
    let path = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ").then(|| Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_below_where_its_hierarchy_is_mounted() {
        let line = |root: &str, at: &str| {
            format!(
                "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 42 32 0:31 {root} {at} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
            )
        };
        let found = |membership: &str, mounts: &str| directory(membership, mounts);
        let whole = line("/", "/sys/fs/cgroup");
        assert_eq!(found("0::/a.slice/x\n", &whole), Some("/sys/fs/cgroup/a.slice/x".into()));
        assert_eq!(found("4:memory:/y\n0::/\n", &whole), Some("/sys/fs/cgroup/".into()));
        let part = line("/docker/1", "/sys/fs/cgroup/unified");
        assert_eq!(found("0::/docker/1/x\n", &part), Some("/sys/fs/cgroup/unified/x".into()));
        assert_eq!(found("0::/elsewhere\n", &part), None);
        assert_eq!(found("4:freezer:/y\n", &whole), None);
    }
}
