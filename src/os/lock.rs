//! The file lock that decides who owns a session. Never a pid: pids mean nothing across the
//! containers that share the directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

pub struct Lock {
    /// The lock is held for as long as this is open.
    _file: Flock<File>,
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
                Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder)?;
                    let holder = match holder.trim() {
                        // Between its lock and its first write.
                        "" => "by one that is just starting",
                        holder => holder,
                    };
                    return Ok(Taken::Theirs(holder.to_owned()));
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
            return Ok(Taken::Ours(Lock { _file: file, path: path.to_owned() }));
        }
    }
}

impl Drop for Lock {
    /// Unlinked while it is still held, so that nobody locks a file that is about to go.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
