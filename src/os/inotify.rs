//! Being told when files change, instead of asking again and again.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

/// Reads of the queue in one go; what is left comes with the next readiness.
const READS: usize = 4;

/// Readable when something that is watched has changed.
pub struct Watch {
    inotify: Inotify,
    watched: Vec<WatchDescriptor>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// A watched file holds something else.
    Content,
    /// Something of that name has come to, or gone from, a watched directory.
    Name { name: OsString, is_dir: bool },
    /// What was watched is gone or elsewhere, or more happened than the kernel could keep.
    Lost,
}

impl Watch {
    pub fn new() -> io::Result<Watch> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        Ok(Watch { inotify, watched: Vec::new() })
    }

    /// What comes and goes in it. False when there is no such directory.
    pub fn add_dir(&mut self, path: &Path) -> io::Result<bool> {
        let names = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE;
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        self.add(path, names | itself | AddWatchFlags::IN_ONLYDIR)
    }

    /// What is written to it. False when there is no such file.
    pub fn add_file(&mut self, path: &Path) -> io::Result<bool> {
        self.add(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DONT_FOLLOW)
    }

    fn add(&mut self, path: &Path, what: AddWatchFlags) -> io::Result<bool> {
        match self.inotify.add_watch(path, what) {
            Ok(watch) => {
                self.watched.push(watch);
                Ok(true)
            }
            Err(errno @ (Errno::ENOSPC | Errno::ENOMEM)) => Err(errno.into()),
            // Not there, not ours to see, not what it should be: nothing to be told about.
            Err(_) => Ok(false),
        }
    }

    /// From now on nothing is watched; what happened before may still be told.
    pub fn clear(&mut self) {
        for watch in self.watched.drain(..) {
            let _ = self.inotify.rm_watch(watch);
        }
    }

    pub fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..READS {
            let Ok(events) = self.inotify.read_events() else { break };
            for event in events {
                changes.push(match event.name {
                    // The end of a watch, which is told beside its reason.
                    _ if event.mask.contains(AddWatchFlags::IN_IGNORED) => continue,
                    Some(name) => Change::Name { name, is_dir: event.mask.contains(AddWatchFlags::IN_ISDIR) },
                    None if event.mask.contains(AddWatchFlags::IN_MODIFY) => Change::Content,
                    None => Change::Lost,
                });
            }
        }
        changes
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_only_of_what_is_watched() {
        let dir = std::env::temp_dir().join(format!("agentsup-inotify-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("d")).unwrap();
        let name = |name: &str, is_dir| Change::Name { name: name.into(), is_dir };
        let mut watch = Watch::new().unwrap();
        assert!(!watch.add_dir(&dir.join("none")).unwrap());
        assert!(watch.add_dir(&dir).unwrap());
        std::fs::write(dir.join("f"), "x").unwrap();
        assert_eq!(watch.changes(), [name("f", false)], "what is written to it is not watched");
        assert!(!watch.add_dir(&dir.join("f")).unwrap() && watch.add_file(&dir.join("f")).unwrap());
        std::fs::write(dir.join("f"), "yy").unwrap();
        assert!(watch.changes().iter().all(|change| *change == Change::Content));
        std::fs::remove_dir(dir.join("d")).unwrap();
        assert_eq!(watch.changes(), [name("d", true)]);
        std::os::unix::fs::symlink("f", dir.join("l")).unwrap();
        watch.clear();
        std::fs::remove_file(dir.join("l")).unwrap();
        assert_eq!(watch.changes(), [name("l", false)], "what happened before");
        assert!(watch.add_dir(&dir).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(watch.changes().contains(&Change::Lost));
    }
}
