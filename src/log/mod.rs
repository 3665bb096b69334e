//! The story of a run, to file and journald. Called by `supervisor`, from the loop's thread only;
//! hands on counts of what was lost, never an error. Never touches a process or the terminal, and
//! never waits for anything but a write to a regular file.
#![forbid(unsafe_code)]

pub mod event;
mod file;
mod journald;
pub mod line;
pub mod recent;
pub mod redact;
mod ring;

#[cfg(test)]
pub(crate) mod sandbox;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use event::{Event, Name, Severity};
pub use redact::Redactor;

use file::FileSink;
use journald::Journald;
use line::line;
use recent::Recent;
use ring::Ring;

/// How long a slow journald may hold up the end.
const LAST_WORDS: Duration = Duration::from_millis(200);

pub struct Opening<'a> {
    /// None: no file.
    pub path: Option<PathBuf>,
    pub session: &'a str,
    /// The size at which the file is put aside.
    pub max_bytes: u64,
    /// Whether to talk to journald if there is one.
    pub journald: bool,
    pub redactor: Redactor,
}

pub struct Log {
    file: Option<FileSink>,
    journald: Option<Ring>,
    redactor: Redactor,
    recent: Recent,
    /// journald's ended losses that the file could not take yet.
    for_the_file: Option<Loss>,
}

/// How many events did not reach a sink since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub file: u64,
    pub journald: u64,
}

impl Log {
    /// Fails when there cannot be a log file where one was asked for. Journald's absence is no
    /// failure; neither is a full disk.
    pub fn open(opening: Opening) -> Result<Log, String> {
        let file = match &opening.path {
            Some(path) => match FileSink::open(path, opening.max_bytes) {
                Ok(file) => Some(file),
                Err(error) => {
                    return Err(format!(
                        "log file: cannot open `{}`: {error}; choose another place with --dir",
                        path.display()
                    ));
                }
            },
            None => None,
        };
        let wanted = opening.journald && journald::exists();
        let journald = wanted.then(|| Ring::start(Sink::Journald, Journald::new(opening.session)));
        Ok(Log { file, journald, redactor: opening.redactor, recent: Recent::default(), for_the_file: None })
    }

    /// For `init`, which keeps no log.
    pub fn none() -> Log {
        Log {
            file: None,
            journald: None,
            redactor: Redactor::default(),
            recent: Recent::default(),
            for_the_file: None,
        }
    }

    /// Secrets change with the environment, which is built anew for every spawn.
    pub fn set_redactor(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// For text that goes elsewhere, under the same secrets.
    pub fn mask(&self, text: &str) -> String {
        self.redactor.mask(text).into_owned()
    }

    /// For text that cannot be masked as it is: the stretches that must not be shown.
    pub fn hidden(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        self.redactor.hidden(bytes)
    }

    /// Whether anybody hears what is recorded.
    pub fn is_kept(&self) -> bool {
        self.file.is_some() || self.journald.is_some()
    }

    pub fn record(&mut self, event: Event) {
        if !self.is_kept() {
            return;
        }
        let at = seconds();
        let epoch = at as u64;
        let event = event.masked(&self.redactor);
        let text = line(&event, epoch);
        self.recent.keep(event.clone(), at, text.clone());
        if let Some(ring) = &mut self.journald
            && let Some(loss) = ring.ended_loss()
        {
            self.for_the_file = Some(loss.after(self.for_the_file.take()));
        }
        if let Some(file) = &mut self.file {
            let about_journald =
                self.for_the_file.as_ref().map(|loss| line(&loss.event(Sink::Journald), epoch));
            let lines: Vec<String> = about_journald.into_iter().chain([text]).collect();
            if let Ok(ended) = file.write(&lines, epoch) {
                self.for_the_file = None;
                if let (Some(loss), Some(ring)) = (ended, &self.journald) {
                    ring.push(loss.event(Sink::File));
                }
            }
        }
        if let Some(ring) = &self.journald {
            ring.push(event);
        }
    }

    /// The last events, for callers.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    pub fn losses(&self) -> Losses {
        Losses {
            file: self.file.as_ref().map_or(0, FileSink::lost),
            journald: self.journald.as_ref().map_or(0, Ring::lost),
        }
    }

    /// The end of the log, after at most a moment. Each sink still hears of the other's losses;
    /// the totals are for whoever can tell the user. Nothing is recorded afterwards.
    pub fn close(&mut self) -> Losses {
        if let Some(ring) = &mut self.journald
            && let Some(loss) = ring.close(LAST_WORDS)
        {
            self.for_the_file = Some(loss.after(self.for_the_file.take()));
        }
        let losses = self.losses();
        if let Some(mut file) = self.file.take() {
            let epoch = epoch();
            let loss = self.for_the_file.take();
            let lines: Vec<String> =
                loss.iter().map(|loss| line(&loss.event(Sink::Journald), epoch)).collect();
            file.finish(&lines, epoch);
        }
        self.journald = None;
        losses
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    File,
    Journald,
}

impl Sink {
    fn as_str(self) -> &'static str {
        match self {
            Sink::File => "file",
            Sink::Journald => "journald",
        }
    }
}

/// Events that did not reach a sink, and what was said about the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loss {
    lost: u64,
    error: String,
}

impl Loss {
    fn event(&self, sink: Sink) -> Event {
        Event::new(Name::LogLost)
            .with("sink", sink.as_str())
            .with("lost", self.lost)
            .with("error", &self.error)
    }

    fn after(mut self, earlier: Option<Loss>) -> Loss {
        self.lost += earlier.map_or(0, |loss| loss.lost);
        self
    }
}

/// A clock before 1970 is not worth failing for.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn epoch() -> u64 {
    seconds() as u64
}
