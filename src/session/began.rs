//! When and where a session began: what `agentsup commits` counts from.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Far more than the refs of any repository.
const LONGEST: u64 = 256 << 20;

/// In the session's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// Seconds since 1970.
    pub at: u64,
    /// The agent's directory then.
    pub dir: String,
    pub refs: Refs,
    /// Why they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What is known of the commits that were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refs {
    /// Git is being asked.
    #[default]
    Noting,
    /// They stand in `<session>.refs`.
    Noted,
    /// There was none: whatever is committed is new.
    NoRepository,
    Failed,
}

impl Began {
    /// Whether a later supervisor in that directory can count from it too.
    pub fn holds_for(&self, dir: &str) -> bool {
        self.dir == dir && matches!(self.refs, Refs::Noted | Refs::NoRepository)
    }
}

/// Whether git would find a repository here: one above it, a linked worktree, a bare one.
pub fn is_in_repository(dir: &Path) -> bool {
    let is_bare =
        |dir: &Path| dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir();
    dir.ancestors().any(|dir| dir.join(".git").exists() || is_bare(dir))
}

pub fn read_refs(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Scratch;

    #[test]
    fn repositories_are_found_from_within() {
        let s = Scratch::new();
        s.dir("plain/.git");
        s.file("linked/.git", "gitdir: /elsewhere");
        s.file("bare/HEAD", "ref: refs/heads/main");
        s.dir("bare/objects");
        s.dir("bare/refs");
        for dir in ["plain", "plain/a/b", "linked", "bare", "bare/objects"] {
            assert!(is_in_repository(&s.dir(dir)), "{dir}");
        }
        s.file("none/HEAD", "");
        assert!(!is_in_repository(&s.dir("none")));
    }
}
