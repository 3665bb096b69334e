//! The file lock that decides who owns a session. Never a pid: pids mean nothing across the
//! containers that share the directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// What a holder that is no supervisor, and will be gone in a moment, writes into the lock.
pub const PASSING: &str = "passing";
/// How often, and for how long each time, somebody who is passing is waited for.
const PATIENCE: (u32, Duration) = (100, Duration::from_millis(2));

pub struct Lock {
    file: Flock<File>,
    path: PathBuf,
}

pub enum Taken {
    Ours(Lock),
    /// Somebody else holds it; what they wrote into it.
    Theirs(String),
}

impl Lock {
    /// Takes the lock and writes `holder` into it.
    pub fn take(path: &Path, holder: &str) -> io::Result<Taken> {
        let mut tries = 0;
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(path)?;
            let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder)?;
                    tries += 1;
                    if tries < PATIENCE.0 && (holder.starts_with(PASSING) || is_only_looked_at(file)) {
                        std::thread::sleep(PATIENCE.1);
                        continue;
                    }
                    return Ok(Taken::Theirs(holder.trim().to_owned()));
                }
                Err((_, errno)) => return Err(errno.into()),
            };
            // Its last owner may have unlinked it between our open and our lock: then the name
            // leads to another file by now, and this lock protects nothing.
            let same = std::fs::metadata(path)
                .is_ok_and(|m| file.metadata().is_ok_and(|f| (m.ino(), m.dev()) == (f.ino(), f.dev())));
            if !same {
                continue;
            }
            file.set_len(0)?;
            file.rewind()?;
            // A full disk must not keep an agent from starting: the lock holds without the text.
            let _ = file.write_all(holder.as_bytes());
            return Ok(Taken::Ours(Lock { file, path: path.to_owned() }));
        }
    }
}

/// A client's `is_held` shares the lock for an instant; an owner never shares it.
fn is_only_looked_at(file: File) -> bool {
    Flock::lock(file, FlockArg::LockSharedNonblock).is_ok()
}

/// Whether somebody holds the lock at `path`. Changes nothing; no file is no lock.
pub fn is_held(path: &Path) -> io::Result<bool> {
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
    /// Unlinked while it is still held, so that nobody locks a file that is about to go.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = &self.file;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("agentsup-lock-{}-{name}.lock", std::process::id()))
    }

    #[test]
    fn held_is_seen_from_outside_and_over_when_dropped() {
        let path = place("held");
        assert!(!is_held(&path).unwrap());
        let Taken::Ours(lock) = Lock::take(&path, "me").unwrap() else { panic!("nobody else is there") };
        assert!(is_held(&path).unwrap());
        assert!(matches!(Lock::take(&path, "you").unwrap(), Taken::Theirs(holder) if holder == "me"));
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
        let Taken::Ours(lock) = Lock::take(&path, PASSING).unwrap() else { panic!("looking is no owning") };
        later.join().unwrap();
        let later = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE.1 * 5);
            drop(lock);
        });
        assert!(matches!(Lock::take(&path, "me").unwrap(), Taken::Ours(_)));
        later.join().unwrap();
    }
}
