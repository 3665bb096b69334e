//! The file lock that decides who owns a session. Never a pid: pids mean nothing across the
//! containers that share the directory.
//!
//! An owner holds it exclusively, for life. A client that looks whether it is held shares it for an
//! instant, and one that clears up after the dead owns it for a moment; a supervisor that starts
//! just then waits for both.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// What stands in the lock while its holder is no supervisor and will be gone in a moment.
const PASSING: &str = "cleared";
/// How often, and for how long each time, such a holder is waited for.
const PATIENCE: (u32, Duration) = (250, Duration::from_millis(2));

pub struct Lock {
    /// The lock is held for as long as this is open.
    file: Flock<File>,
    path: PathBuf,
}

pub enum Taken {
    Ours(Lock),
    /// Somebody else holds it; what they wrote into it.
    Theirs(String),
}

/// What became of an attempt to hold a lock for a moment.
pub enum Passing {
    Held(Lock),
    /// A supervisor holds it.
    Owned,
    /// Somebody looks at it or holds it in passing too: in a moment that is over.
    Contended,
}

impl Lock {
    /// Takes the lock and writes `holder` into it. `is_gone`: whether whoever a text speaks of is known
    /// to have ended. Then the lock is about to be free (a child of theirs that has not begun its
    /// program yet holds it on), or has a new owner that is about to say so: both are waited for.
    pub fn take(path: &Path, holder: &str, is_gone: impl Fn(&str) -> bool) -> io::Result<Taken> {
        let mut tries = 0;
        loop {
            let mut file = match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((file, Errno::EWOULDBLOCK)) => {
                    let holder = owner(file)?;
                    tries += 1;
                    // Empty: between its lock and its first write.
                    let passes = |it: &String| it.is_empty() || it.starts_with(PASSING) || is_gone(it);
                    if tries < PATIENCE.0 && holder.as_ref().is_none_or(passes) {
                        std::thread::sleep(PATIENCE.1);
                        continue;
                    }
                    let holder = holder.unwrap_or_default();
                    let holder = match holder.trim() {
                        // Its disk is full.
                        "" => "by one that could not say who it is",
                        holder => holder,
                    };
                    return Ok(Taken::Theirs(holder.to_owned()));
                }
                Err((_, errno)) => return Err(errno.into()),
            };
            if !is_at(&file, path) {
                continue;
            }
            write(&mut file, holder);
            return Ok(Taken::Ours(Lock { file, path: path.to_owned() }));
        }
    }

    /// Whether its name still leads to it. If not, somebody else can take what they find there.
    pub fn stands(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Takes the lock of a session that nobody supervises, to change what it has left behind.
    pub fn take_in_passing(path: &Path) -> io::Result<Passing> {
        let mut file = match Flock::lock(open(path)?, FlockArg::LockSharedNonblock) {
            Ok(file) => file,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder)?;
                let passes = holder.is_empty() || holder.starts_with(PASSING);
                return Ok(if passes { Passing::Contended } else { Passing::Owned });
            }
            Err((_, errno)) => return Err(errno.into()),
        };
        // Written while it is only shared: who finds it held exclusively by us can read why.
        write(&mut file, PASSING);
        match file.relock(FlockArg::LockExclusiveNonblock) {
            Ok(()) if is_at(&file, path) => Ok(Passing::Held(Lock { file, path: path.to_owned() })),
            Ok(()) | Err(Errno::EWOULDBLOCK) => Ok(Passing::Contended),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Removes a file that no lock protects if it is what `is_junk` says, and never another one that took
/// its place meanwhile: whoever removes it holds a lock on the file itself.
pub fn remove_junk(path: &Path, is_junk: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((_, Errno::EWOULDBLOCK)) => return Ok(false),
        Err((_, errno)) => return Err(errno.into()),
    };
    let mut text = Vec::new();
    (&mut *file).take(1 << 16).read_to_end(&mut text)?;
    if !is_junk(&text) || !is_at(&file, path) {
        return Ok(false);
    }
    std::fs::remove_file(path).map(|()| true)
}

#[cfg(test)]
impl Lock {
    /// As a kill leaves it: free, and its file still there.
    pub fn killed(mut self) {
        self.path.clear();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Its last owner may have unlinked it between our open and our lock: then the name leads to
/// another file by now, and this lock protects nothing.
fn is_at(file: &File, path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|m| file.metadata().is_ok_and(|f| (m.ino(), m.dev()) == (f.ino(), f.dev())))
}

/// Over the old text and never through an empty one, which would say that its owner just starts. A
/// full disk must not keep an agent from starting: the lock holds without the text.
fn write(file: &mut File, holder: &str) {
    let length = holder.len() as u64;
    let written = file.rewind().and_then(|()| file.write_all(holder.as_bytes()));
    let _ = written.and_then(|()| file.set_len(length));
}

/// What the one who holds it exclusively wrote. `None` when it was only looked at, which shares it,
/// or is free again. Read after that is known: what was read before could be another's.
fn owner(file: File) -> io::Result<Option<String>> {
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(None),
        Err((mut file, _)) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            Ok(Some(holder))
        }
    }
}

/// Whether somebody holds the lock at `path`. Changes nothing; no file is no lock.
pub fn is_held(path: &Path) -> io::Result<bool> {
    // A fifo of that name must not hold up who looks.
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(false),
        Err((_, Errno::EWOULDBLOCK)) => Ok(true),
        Err((_, errno)) => Err(errno.into()),
    }
}

impl Drop for Lock {
    /// Unlinked while it is still held, so that nobody locks a file that is about to go. Another's file,
    /// in a directory that was put in place of ours, is not ours to unlink.
    fn drop(&mut self) {
        if self.stands() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, holder: &str) -> Taken {
        Lock::take(path, holder, |_| false).unwrap()
    }

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("agentsup-lock-{}-{name}.lock", std::process::id()))
    }

    #[test]
    fn held_is_seen_from_outside_and_over_when_dropped() {
        let path = place("held");
        assert!(!is_held(&path).unwrap());
        let Taken::Ours(lock) = take(&path, "me") else { panic!("nobody else is there") };
        assert!(is_held(&path).unwrap());
        assert!(matches!(take(&path, "you"), Taken::Theirs(holder) if holder == "me"));
        assert!(matches!(Lock::take_in_passing(&path).unwrap(), Passing::Owned));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "me");
        drop(lock);
        assert!(!path.exists() && !is_held(&path).unwrap());
    }

    #[test]
    fn who_only_looks_or_is_passing_keeps_no_supervisor_from_starting() {
        let path = place("passing");
        std::fs::write(&path, "left behind").unwrap();
        let looking = Flock::lock(File::open(&path).unwrap(), FlockArg::LockSharedNonblock).unwrap();
        let later = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE.1 * 5);
            drop(looking);
        });
        let Taken::Ours(lock) = take(&path, "me") else { panic!("looking is no owning") };
        later.join().unwrap();
        drop(lock);

        let looking = Flock::lock(open(&path).unwrap(), FlockArg::LockSharedNonblock).unwrap();
        assert!(matches!(Lock::take_in_passing(&path).unwrap(), Passing::Contended));
        drop(looking);
        let Passing::Held(lock) = Lock::take_in_passing(&path).unwrap() else { panic!("it is free") };
        assert!(matches!(Lock::take_in_passing(&path).unwrap(), Passing::Contended));
        let later = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE.1 * 5);
            drop(lock);
        });
        assert!(matches!(take(&path, "me"), Taken::Ours(_)));
        later.join().unwrap();
    }

    #[test]
    fn junk_goes_unless_it_is_none_any_more_or_somebody_is_at_it() {
        let path = place("junk");
        std::fs::write(&path, "junk").unwrap();
        assert!(!remove_junk(&path, |text| text != b"junk").unwrap());
        let at_it = Flock::lock(File::open(&path).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
        assert!(!remove_junk(&path, |_| true).unwrap());
        drop(at_it);
        // Replaced between the look and the removal.
        let replace = |_: &[u8]| {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "good").is_ok()
        };
        assert!(!remove_junk(&path, replace).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "good");
        assert!(remove_junk(&path, |_| true).unwrap() && !remove_junk(&path, |_| true).unwrap());
    }

    #[test]
    fn an_owner_that_has_ended_is_neither_believed_nor_named() {
        let path = place("gone");
        let is_gone = |holder: &str| holder == "dead";
        // Held on by a child of the dead one.
        let Taken::Ours(lock) = take(&path, "dead") else { panic!("nobody else is there") };
        let later = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE.1 * 5);
            lock.killed();
        });
        let Taken::Ours(lock) = Lock::take(&path, "me", is_gone).unwrap() else {
            panic!("the owner is dead")
        };
        later.join().unwrap();
        lock.killed();
        // Taken by a new one that has not said so yet.
        std::fs::write(&path, "dead").unwrap();
        let mut file = Flock::lock(open(&path).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
        let later = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE.1 * 5);
            write(&mut file, "new");
            file
        });
        assert!(
            matches!(Lock::take(&path, "me", is_gone).unwrap(), Taken::Theirs(holder) if holder == "new")
        );
        drop(later.join().unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
