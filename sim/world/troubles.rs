//! What goes wrong with the machine, for a while: a full disk, no descriptors, no processes, readers that
//! rest, clocks that jump.

use std::fs;
use std::io::Write;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use super::{Deed, Trouble, World};
use crate::clock;
use crate::symbols::{self, Disk};

impl World {
    pub fn has_no_descriptors(&self) -> bool {
        symbols::disk().no_descriptors
    }

    pub fn trouble(&mut self) {
        let which = *self.rng.pick(&[
            Trouble::Disk,
            Trouble::Descriptors,
            Trouble::Processes,
            Trouble::Stdout,
            Trouble::Stderr,
        ]);
        let lasts = self.rng.span(Duration::from_secs(120));
        self.story.event("trouble", name(which), lasts.as_millis() as i64);
        self.set(which, true);
        self.agenda.after(lasts, Deed::Recovers(which));
    }

    pub fn recover(&mut self, trouble: Trouble) {
        self.story.event("recovered", name(trouble), 0);
        self.set(trouble, false);
    }

    fn set(&mut self, trouble: Trouble, is_on: bool) {
        let disk = symbols::disk();
        match trouble {
            Trouble::Disk if is_on && self.rng.once_in(2) => symbols::set_disk(Disk { short: 3, ..disk }),
            Trouble::Disk => symbols::set_disk(Disk { is_full: is_on, short: 0, ..disk }),
            Trouble::Descriptors => {
                self.callers.note_famine();
                symbols::set_disk(Disk { no_descriptors: is_on, ..disk });
            }
            Trouble::Processes => self.no_processes = is_on,
            Trouble::Stdout | Trouble::Stderr => {
                let fd = if trouble == Trouble::Stdout { 1 } else { 2 };
                if is_on { self.console.rest(fd) } else { self.console.read_on(fd) }
            }
        }
    }

    /// `git clean`, or an agent that likes empty directories.
    pub fn somebody_tidies(&mut self) {
        if !self.rng.once_in(4) || self.taken.is_some() {
            return;
        }
        let what = *self.rng.pick(&[
            "supervisor/simulated.lock",
            "supervisor/simulated.sock",
            "supervisor/simulated.json",
            "logs/simulated.log",
            "supervisor",
            "logs",
            "",
        ]);
        let path = self.dir.join("state").join(what);
        // What is gone already stays so.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        self.has_tidied = true;
        self.story.event("removed", what, 0);
        if self.rng.once_in(20) {
            self.another_comes();
        }
    }

    /// Another supervisor finds nothing that keeps it away, or is not kept away by what it finds.
    fn another_comes(&mut self) {
        let place = self.dir.join("state/supervisor");
        let lock = place.join("simulated.lock");
        let _ = fs::create_dir_all(&place);
        let _ = fs::remove_file(&lock);
        let Ok(mut file) = fs::File::create_new(&lock) else { return };
        if file.write_all(b"pid=78 host=elsewhere since=1\n").is_err() {
            // One that cannot say who it is would be waited for, by the machine's own clock.
            return;
        }
        self.taken = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
        self.story.event("another", "comes", 0);
    }

    pub fn clock_jumps(&mut self) {
        if self.rng.once_in(2) {
            let seconds = self.rng.below(200_000) as i64 - 100_000;
            clock::set_wall_off_by(seconds);
            self.story.event("clock", "set", seconds);
        } else if self.mood.is_late {
            let jump = self.rng.span(Duration::from_secs(7200));
            clock::advance(jump);
            self.facts.late(jump);
            self.story.event("clock", "jumped", jump.as_millis() as i64);
        }
    }
}

fn name(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Disk => "disk",
        Trouble::Descriptors => "descriptors",
        Trouble::Processes => "processes",
        Trouble::Stdout => "stdout",
        Trouble::Stderr => "stderr",
    }
}
