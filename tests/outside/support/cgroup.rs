//! A cgroup of a test's own with one limit, in whichever hierarchy has the controller.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::sys;

pub struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// At most so many processes at once.
    pub fn of_pids(most: u32) -> Option<Cgroup> {
        Cgroup::make("pids", &[("pids.max", most.to_string())])
    }

    /// At most so much memory, and no swap.
    pub fn of_memory(bytes: u64) -> Option<Cgroup> {
        let bytes = bytes.to_string();
        let v2 = [("memory.max", bytes.clone()), ("memory.swap.max", "0".to_owned())];
        Cgroup::make("memory", &v2).or_else(|| Cgroup::make("memory", &[("memory.limit_in_bytes", bytes)]))
    }

    /// `None`, and said aloud, where none may be made.
    fn make(controller: &str, limits: &[(&str, String)]) -> Option<Cgroup> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("agentsup-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let roots = ["/sys/fs/cgroup".to_owned(), format!("/sys/fs/cgroup/{controller}")];
        for root in roots {
            let dir = Path::new(&root).join(&name);
            if !Path::new(&root).join("cgroup.procs").exists() || fs::create_dir(&dir).is_err() {
                continue;
            }
            let made = Cgroup { dir };
            let must = &limits[0];
            if made.write(must.0, &must.1) {
                limits[1..].iter().for_each(|(file, value)| _ = made.write(file, value));
                return Some(made);
            }
        }
        None
    }

    fn write(&self, file: &str, value: &str) -> bool {
        // Not created where there is none: cgroupfs has only its own files.
        let file = fs::OpenOptions::new().write(true).open(self.dir.join(file));
        file.is_ok_and(|mut file| file.write_all(value.as_bytes()).is_ok())
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap_or_default()
    }

    /// Words in front of a command that is to be in it, with all that it starts.
    pub fn entrance(&self) -> Vec<OsString> {
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.dir.display());
        ["sh", "-c", &script, "sh"].map(OsString::from).to_vec()
    }
}

impl Drop for Cgroup {
    /// A test that failed must not leave a fork bomb behind. Busy for a moment longer than its last process.
    fn drop(&mut self) {
        super::holds_within(super::LIMIT, || {
            let inside = self.read("cgroup.procs");
            inside.lines().filter_map(|pid| pid.parse().ok()).for_each(|pid| sys::kill(pid, libc::SIGKILL));
            fs::remove_dir(&self.dir).is_ok()
        });
    }
}

/// Past the test harness, which would keep it for itself.
pub fn tell_skipped(controller: &str) {
    let _ = fs::OpenOptions::new().write(true).open("/proc/self/fd/2").and_then(|mut e| {
        writeln!(
            e,
            "\n*** {} CASES SKIPPED: no cgroup with that limit may be made here ***\n",
            controller.to_uppercase()
        )
    });
}
