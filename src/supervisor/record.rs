//! `<session>.json`: the last state, for whoever looks while nobody answers, and the conversation,
//! for the next start.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::control::json;
use crate::session::Conversation;
use crate::session::began::Began;
use crate::session::transcript::Place;
use crate::sorted::Sorted;

/// Far more than a record ever holds.
const LONGEST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Record {
    pub session: String,
    pub supervisor_pid: u32,
    pub pid: Option<i32>,
    pub phase: String,
    pub health: String,
    pub restart_count: u64,
    pub last_exit: Option<u8>,
    pub exits: Vec<RecordedExit>,
    /// Of the last spawn that succeeded.
    #[serde(flatten)]
    pub facts: Facts,
    pub orphans_reaped: u64,
    pub labels: Sorted<String, String>,
    pub began: Began,
    /// A caller asked this supervisor to stop, which is how its node knows that it has not failed.
    pub stop_asked: bool,
    pub updated: u64,
}

/// What one spawn was made from. Paths are for people here, so odd bytes may be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    pub conversation: Conversation,
    pub cwd: String,
    pub cwd_source: String,
    pub document: Option<String>,
    pub env_fingerprint: String,
    /// Where the conversation is written down.
    #[serde(skip)]
    pub transcripts: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedExit {
    pub at: u64,
    pub code: u8,
    pub signal: Option<String>,
    pub run_ms: u64,
    pub class: String,
}

/// The phase in the last record of an orderly end.
pub const ENDED: &str = "ended";

/// All that a later supervisor takes over.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Kept {
    pub conversation: Conversation,
    /// Read by itself: an odd one must not cost the conversation.
    began: Option<serde_json::Value>,
    phase: Option<String>,
    supervisor_pid: Option<u32>,
    stop_asked: bool,
}

impl Kept {
    pub fn began(&self) -> Option<Began> {
        json::read(self.began.as_ref()?).ok()
    }

    /// It speaks of a supervisor as if that still lived. Read it as the owner of the session's lock.
    pub fn is_drift(&self) -> bool {
        self.phase.as_ref().is_some_and(|phase| phase != ENDED)
    }

    /// Whether somebody asked the supervisor with this pid to stop.
    pub fn was_asked_to_stop(&self, pid: i32) -> bool {
        self.stop_asked && self.supervisor_pid == u32::try_from(pid).ok()
    }

    /// Whether the last supervisor of this session came to its end, which is behind that of all it started.
    pub fn was_orderly(&self) -> bool {
        self.phase.as_deref() == Some(ENDED)
    }
}

/// What an earlier supervisor of this session knew; nothing when there was none.
pub fn read(path: &Path) -> Kept {
    let kept = read_plain(path).and_then(|text| json::read_bytes(&text).ok());
    kept.unwrap_or_default()
}

fn read_plain(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    open_plain(path)?.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(text)
}

/// A fifo in the place of a file must not hold us up.
pub fn open_plain(path: &Path) -> Option<fs::File> {
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path);
    file.ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))
}

pub fn write(path: &Path, record: &Record) -> std::io::Result<()> {
    replace(path, &serde_json::to_vec_pretty(record)?)
}

/// As a whole, so that a reader never sees half of it. A full disk keeps the old one.
pub fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // Whatever lies there, a fifo that the agent made for one, is not written to.
    let _ = fs::remove_file(&beside);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(text))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
