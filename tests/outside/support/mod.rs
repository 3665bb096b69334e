//! What every test file builds on: the real binary started in each way it is used, its log followed
//! event by event, terminals of the test's own, and /proc. Every wait has a limit and tells on
//! failure what was seen; nothing sleeps to let time pass.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod bridge;
pub mod caller;
pub mod cgroup;
pub mod directed;
pub mod log;
pub mod node;
pub mod pattern;
pub mod place;
pub mod procfs;
pub mod run;
pub mod stream;
pub mod sys;
pub mod talk;
pub mod terminal;
pub mod verbs;
pub mod viewer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use caller::Caller;
pub use pattern::Pattern;
pub use place::Place;
pub use run::{Ended, Launch, Running};
pub use terminal::Terminal;
pub use viewer::{Viewer, Wire};

/// Longer than anything here takes on a busy machine, and shorter than anybody's patience.
pub const LIMIT: Duration = Duration::from_secs(20);
/// A file that `Lab` makes under every state directory it hands out.
pub const SESSION: &str = "t";

pub const AGENTSUP: &str = env!("CARGO_BIN_EXE_agentsup");
pub const FAKE: &str = env!("CARGO_BIN_EXE_fake-agent");

/// All of a count when the whole proof is asked for (`AGENTSUP_TEST_FULL=1`, as ci does), else a part
/// that fits into everyday work.
pub fn count(everyday: usize, full: usize) -> usize {
    if std::env::var_os("AGENTSUP_TEST_FULL").is_some_and(|v| v == "1") { full } else { everyday }
}

/// A directory of one test's own, kept only when the test fails.
pub struct Lab {
    root: PathBuf,
}

impl Lab {
    pub fn new() -> Lab {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("agentsup-test-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a temporary directory");
        // Canonical, so that tests can compare paths that the product has made canonical.
        Lab { root: root.canonicalize().expect("just made") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("plain names").to_owned()
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    pub fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("inside the lab")).expect("a directory");
        std::fs::write(&path, content).expect("a file");
        self.text(name)
    }

    pub fn dir(&self, name: &str) -> String {
        std::fs::create_dir_all(self.path(name)).expect("a directory");
        self.text(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Somebody may be in the middle of writing a line.
    pub fn whole_lines(&self, name: &str) -> String {
        let mut text = self.read(name);
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }

    /// Waits until `file` holds `text`, and returns all of it.
    pub fn wait_for_file(&self, file: &str, text: &str) -> String {
        log::wait_for_file(&self.path(file), LIMIT, |content| content.contains(text))
            .unwrap_or_else(|content| panic!("{file} never held {text:?}, it holds {content:?}"))
    }
}

/// Seconds since 1970.
pub fn epoch() -> f64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64()
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for a look: {}", self.root.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

/// For what the kernel announces to nobody (a state in /proc): asked again until it holds or the
/// limit has passed.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sys::pause(Duration::from_millis(1));
    }
}

pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(LIMIT, condition), "not within {LIMIT:?}: {what}");
}

/// Runs `job` for each number below `n`, on two threads.
pub fn in_parallel(n: usize, job: impl Fn(usize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < n) {
                    job(i);
                }
            });
        }
    });
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
