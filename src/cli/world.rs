//! The facts outside the command line on which defaults depend, read once.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::{SFlag, fstat, makedev};

use super::Failure;
use crate::os::program;

#[derive(Clone, Debug)]
pub struct World {
    pub stdin: Stdin,
    pub env: Vec<(OsString, OsString)>,
    /// Canonical.
    pub started_in: PathBuf,
    pub uid: u32,
    /// Absent where /proc is, and what we were started as leads nowhere.
    pub own_binary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    Terminal,
    /// /dev/null, or closed: nobody is there and nothing will come.
    Null,
    /// A pipe, a file or a socket: data for somebody.
    Data,
}

impl World {
    pub fn look() -> Result<World, Failure> {
        let started_in = std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(|error| {
            Failure::refused(format!(
                "the directory agentsup was started in cannot be found: {error}; start it in one that exists"
            ))
        })?;
        Ok(World {
            stdin: look_at_stdin(),
            env: std::env::vars_os().collect(),
            uid: nix::unistd::getuid().as_raw(),
            own_binary: std::env::current_exe().ok().or_else(|| started_as(&started_in)),
            started_in,
        })
    }

    /// An empty variable counts as unset: compose files and shells make those easily.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }
}

/// Without /proc; before anybody has changed the directory that it may begin in.
fn started_as(started_in: &Path) -> Option<PathBuf> {
    let path = started_in.join(program::started_as()?);
    path.is_file().then_some(path)
}

fn look_at_stdin() -> Stdin {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Stdin::Terminal;
    }
    // By device number, not by path: a container may bind its own /dev/null anywhere.
    let null = makedev(1, 3);
    match fstat(&stdin) {
        Ok(stat) if stat.st_mode & libc::S_IFMT == SFlag::S_IFCHR.bits() && stat.st_rdev == null => {
            Stdin::Null
        }
        Err(Errno::EBADF) => Stdin::Null,
        Ok(_) | Err(_) => Stdin::Data,
    }
}
