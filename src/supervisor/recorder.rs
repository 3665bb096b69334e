//! The recording's file. It may fail at any time (full disk, file or directory gone) and goes on:
//! what could not be written is counted, and said when it begins and when it is over.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::Supervisor;
use super::settings::{CannotStart, RecordSettings, Size};
use crate::log::{Event as LogEvent, Log, Name};
use crate::screen::asciicast::{Header, Kind, Lines};
use crate::screen::recording::{Recording, Take};
use crate::session::{SpawnPlan, Start};

pub struct Recorder {
    path: PathBuf,
    /// Where the file before goes; the one before that is replaced.
    old: PathBuf,
    takes_input: bool,
    header: Header,
    /// The terminal's, as the recording knows it.
    size: Size,
    recording: Recording,
    open: Option<Open>,
    /// Events that could not be written since the last that could, and why.
    lost: Option<(u64, String)>,
    total: u64,
}

struct Open {
    /// Locked for as long as it is open: a second recording to the same place is refused.
    file: Flock<File>,
    id: (u64, u64),
    size: u64,
    begun: Instant,
}

/// What a write has changed.
pub enum News {
    Fails(String),
    GoesOn { lost: u64 },
}

impl Recorder {
    /// Fails on whatever keeps the recording from being written, a full disk too: who asks for one
    /// must not find out afterwards that there is none.
    pub fn open(settings: &RecordSettings, size: Size, header: Header) -> Result<Recorder, CannotStart> {
        let mut recorder = Recorder {
            path: settings.file.clone(),
            old: old(&settings.file),
            takes_input: settings.input,
            header,
            size,
            recording: Recording::default(),
            open: None,
            lost: None,
            total: 0,
        };
        match recorder.settle(Instant::now()) {
            Ok(_) => Ok(recorder),
            Err(error) => Err(CannotStart {
                code: 78,
                message: format!(
                    "record: cannot write to `{}`: {error}; choose another file with --record",
                    settings.file.display()
                ),
            }),
        }
    }

    /// A new agent, with secrets of its own.
    pub fn begin(&mut self, secrets: Vec<String>, size: Size, start: Start) {
        let now = Instant::now();
        self.recording.hide(secrets);
        self.resize(size, now);
        let how = if start == Start::Fresh { "fresh" } else { "continue" };
        self.recording.marker(&format!("agent started ({how})"), now);
    }

    fn resize(&mut self, size: Size, now: Instant) {
        if self.size != size {
            self.size = size;
            self.recording.resize(size.cols, size.rows, now);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.recording.deadline()
    }

    /// Writes what can be written.
    pub fn flush(&mut self, take: Take, now: Instant) -> Option<News> {
        let oldest = self.recording.oldest()?;
        let (settled, mut lines) = match self.settle(now) {
            Ok(lines) => (Ok(()), lines),
            Err(error) => (Err(error), Lines::new(0, now)),
        };
        if let Some((lost, error)) = &self.lost {
            lines.event(oldest, Kind::Marker, format!("{lost} events are missing here: {error}").as_bytes());
            lines.events -= 1;
        }
        self.recording.take(take, now, &mut lines);
        if lines.events == 0 {
            return None;
        }
        match settled.and_then(|()| self.put(&lines.bytes)) {
            Ok(()) => self.lost.take().map(|(lost, _)| News::GoesOn { lost }),
            Err(error) => {
                self.total += lines.events;
                let before = self.lost.take();
                let lost = before.as_ref().map_or(0, |(lost, _)| *lost) + lines.events;
                self.lost = Some((lost, error.to_string()));
                before.is_none().then(|| News::Fails(error.to_string()))
            }
        }
    }

    /// Makes sure that what is open is what stands at the path and ends where we ended it. A
    /// recording that was moved, deleted or changed from outside is begun anew.
    fn settle(&mut self, now: Instant) -> io::Result<Lines> {
        if let Some(open) = &self.open {
            match fs::symlink_metadata(&self.path) {
                Ok(there) if id(&there) == open.id && there.len() != open.size => {}
                Ok(there) if id(&there) != open.id => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // Ours; or the path cannot be looked at, which says nothing against the open file.
                Ok(_) | Err(_) => return Ok(Lines::new(open.size, open.begun)),
            }
            self.open = None;
        }
        let file = create(&self.path, &self.old)?;
        let id = id(&file.metadata()?);
        self.open = Some(Open { file, id, size: 0, begun: now });
        let mut lines = Lines::new(0, now);
        lines.header(&self.header, (self.size.cols, self.size.rows), epoch());
        self.put(&lines.bytes)?;
        Ok(Lines::new(lines.bytes.len() as u64, now))
    }

    /// One write, unless the disk is full: then the kernel takes what fits, and tells the reason only
    /// to those who try again. That part is cut off again, so that the file can be replayed.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Err(ErrorKind::NotFound.into()) };
        let Err(error) = open.file.write_all(bytes) else {
            open.size += bytes.len() as u64;
            return Ok(());
        };
        if open.size == 0 {
            // Not even the header: no recording yet.
            let _ = fs::remove_file(&self.path);
            self.open = None;
        } else if open.file.set_len(open.size).is_err() {
            // It ends in half a line; the next write begins another one.
            self.open = None;
        }
        Err(error)
    }
}

/// The name under which an earlier recording is kept.
fn old(path: &Path) -> PathBuf {
    let mut old = path.as_os_str().to_owned();
    old.push(".1");
    old.into()
}

/// Why nothing can be recorded there, as far as can be told without touching anything, and what now.
pub fn unusable(path: &Path) -> Option<(&'static str, &'static str)> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => None,
        Ok(there) if there.is_symlink() => Some(("is a symbolic link", "name the file that it leads to")),
        Ok(there) if there.is_dir() => Some(("is a directory", "name a file in it")),
        Ok(_) => Some(("is no regular file", "name another one")),
        Err(_) if path.parent().is_some_and(Path::is_dir) && path.file_name().is_some() => None,
        Err(_) => Some(("lies in no directory that exists", "make it, or name another file")),
    }
}

/// A new file, ours alone. One that is there becomes `old`, unless somebody is recording to it.
fn create(path: &Path, old: &Path) -> io::Result<Flock<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    loop {
        if let Some((why, _)) = unusable(path) {
            return Err(io::Error::other(format!("it {why}")));
        }
        match OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(path) {
            Ok(there) => {
                // Held until it is out of the way, so that two who start at once do not both move it.
                let there = lock(there)?;
                let meta = there.metadata()?;
                if fs::symlink_metadata(path).is_ok_and(|at| id(&at) == id(&meta)) {
                    set_aside(path, old, meta.len())?;
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let made =
            OpenOptions::new().append(true).create_new(true).mode(0o600).custom_flags(flags).open(path);
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return lock(made?),
        }
    }
}

fn set_aside(path: &Path, old: &Path, size: u64) -> io::Result<()> {
    // Nothing in it is worth the recording that it would replace.
    if size == 0 {
        return fs::remove_file(path);
    }
    fs::rename(path, old).map_err(|error| {
        io::Error::new(error.kind(), format!("what is there cannot be kept as `{}`: {error}", old.display()))
    })
}

fn lock(file: File) -> io::Result<Flock<File>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(file),
        Err((_, Errno::EWOULDBLOCK)) => Err(io::Error::other("another agentsup is recording to it")),
        Err((_, errno)) => Err(errno.into()),
    }
}

fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What stands at the head of the recording; a secret could be in any of it.
pub fn header(plan: &SpawnPlan, session: &str, log: &Log) -> Header {
    let program = plan.argv.first().map(PathBuf::from).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let variable = |name| plan.env.get(name).map(|value| log.mask(&value.to_string_lossy()));
    let title = log.mask(&format!("{program}, session {session}"));
    Header::new(&title, variable("TERM").as_deref(), variable("SHELL").as_deref())
}

impl Supervisor {
    pub(super) fn record_output(&mut self, bytes: &[u8]) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.recording.output(bytes, Instant::now());
        self.write_full_recording();
    }

    /// What was typed: by the operator, or by a caller.
    pub(super) fn record_input(&mut self, bytes: &[u8]) {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.takes_input) else { return };
        recorder.recording.input(bytes, Instant::now());
        self.write_full_recording();
    }

    pub(super) fn record_size(&mut self, size: Size) {
        if let Some(recorder) = &mut self.recorder {
            recorder.resize(size, Instant::now());
        }
    }

    pub(super) fn record_marker(&mut self, label: &str) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.recording.marker(&self.log.mask(label), Instant::now());
    }

    /// The agent is gone: its last words have been said, and the terminal is put in order.
    pub(super) fn record_end(&mut self, modes_off: &[u8]) {
        let Some(recorder) = &mut self.recorder else { return };
        let now = Instant::now();
        recorder.recording.end_streams(now);
        recorder.recording.output(modes_off, now);
    }

    fn write_full_recording(&mut self) {
        if self.recorder.as_ref().is_some_and(|recorder| recorder.recording.is_full()) {
            self.write_recording(Take::Settled);
        }
    }

    /// What has waited long enough.
    pub(super) fn write_due_recording(&mut self) {
        let deadline = self.recorder.as_ref().and_then(Recorder::deadline);
        if deadline.is_some_and(|at| Instant::now() >= at) {
            self.write_recording(Take::Settled);
        }
    }

    pub(super) fn write_recording(&mut self, take: Take) {
        let Some(recorder) = &mut self.recorder else { return };
        let news = recorder.flush(take, Instant::now());
        let file = recorder.path.display().to_string();
        match news {
            Some(News::Fails(error)) => {
                let first = recorder.total == recorder.lost.as_ref().map_or(0, |(lost, _)| *lost);
                self.log.record(LogEvent::new(Name::RecordLost).with("file", &file).with("error", &error));
                if first {
                    self.console.tell(&format!(
                        "cannot record to `{file}`: {error}; what is missing is counted, and it goes on when it can"
                    ));
                }
            }
            Some(News::GoesOn { lost }) => {
                self.log.record(LogEvent::new(Name::RecordResumed).with("file", &file).with("lost", lost));
            }
            None => {}
        }
    }

    /// The last of it, and what it lacks.
    pub(super) fn close_recording(&mut self) {
        self.write_recording(Take::All);
        let Some(recorder) = self.recorder.take() else { return };
        if recorder.total > 0 {
            let (file, lost) = (recorder.path.display(), recorder.total);
            self.console
                .tell(&format!("the recording `{file}` lacks {lost} events: they could not be written"));
        }
        if let Some((lost, error)) = recorder.lost {
            let event = LogEvent::new(Name::RecordLost).with("file", recorder.path.display());
            self.log.record(event.with("lost", lost).with("error", error));
        }
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
