//! A directory of its own for a test, gone when the test ends; an environment.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{EnvVar, Environment};

pub(super) fn env<V: AsRef<OsStr>>(vars: &[(&str, V)]) -> Environment {
    let var = |(name, value): &(&str, V)| EnvVar { name: name.into(), value: value.into(), source: "test" };
    let mut vars: Vec<EnvVar> = vars.iter().map(var).collect();
    vars.sort_by(|a, b| a.name.cmp(&b.name));
    Environment { vars, dropped: vec![] }
}

pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("agentsup-session-{}-{n}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("the temp dir is writable");
        // Canonical, so that tests can compare with what the resolvers return.
        Scratch(dir.canonicalize().expect("it was just made"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn dir(&self, name: &str) -> PathBuf {
        let dir = self.0.join(name);
        fs::create_dir_all(&dir).expect("scratch is writable");
        dir
    }

    pub(super) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.0.join(name);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).expect("scratch is writable");
        }
        fs::write(&file, bytes).expect("scratch is writable");
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
