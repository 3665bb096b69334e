//! The file sink. It may fail at any time (full disk, file or directory gone) and goes on: what
//! could not be written is counted, and said as soon as something can be written again.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::event::{Event, Name};
use super::line::line;
use super::{Loss, Sink};

pub struct FileSink {
    path: PathBuf,
    /// Where the full file goes; the one before it is replaced.
    old: PathBuf,
    max_bytes: u64,
    open: Option<Open>,
    /// Size of the file that was put aside, until the new one says so.
    rotated: Option<u64>,
    untold: Option<Loss>,
    total: u64,
}

struct Open {
    file: File,
    id: (u64, u64),
    /// The file ends in half a line (a crash of the machine, or a cut that failed).
    torn: bool,
}

impl FileSink {
    /// Fails on what a user has to mend. A full disk is not that: it only starts the count.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<FileSink> {
        let open = match open(path) {
            Ok(open) => Some(open),
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => None,
            Err(e) => return Err(e),
        };
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        Ok(FileSink {
            path: path.to_owned(),
            old: old.into(),
            max_bytes,
            open,
            rotated: None,
            untold: None,
            total: 0,
        })
    }

    /// Writes the lines of one record, or counts it as lost. What comes back is a loss that ended
    /// with this write, for the other sinks to tell.
    pub fn write(&mut self, lines: &[String], epoch: u64) -> Result<Option<Loss>, ()> {
        self.append(lines, epoch).map_err(|error| {
            self.total += 1;
            let lost = self.untold.as_ref().map_or(0, |loss| loss.lost) + 1;
            self.untold = Some(Loss { lost, error: error.to_string() });
        })
    }

    /// The last word before agentsup ends: what is still untold, and nothing is counted any more.
    pub fn finish(&mut self, lines: &[String], epoch: u64) {
        if self.untold.is_some() || !lines.is_empty() {
            // Nobody is left to tell but the caller, who has the total.
            let _ = self.append(lines, epoch);
        }
    }

    pub fn lost(&self) -> u64 {
        self.total
    }

    fn append(&mut self, lines: &[String], epoch: u64) -> io::Result<Option<Loss>> {
        let mut size = self.settle()?;
        let coming: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
        if size > 0 && size + coming > self.max_bytes {
            size = self.rotate(size)?;
        }
        let Some(open) = &mut self.open else { return Err(ErrorKind::NotFound.into()) };

        let mut text = String::new();
        if open.torn {
            text.push('\n');
        }
        let rotated = self.rotated.map(|size| {
            let old = self.old.file_name().unwrap_or_default().to_string_lossy();
            line(&Event::new(Name::LogRotated).with("file", old).with("size", size), epoch)
        });
        let lost = self.untold.as_ref().map(|loss| line(&loss.event(Sink::File), epoch));
        for line in rotated.iter().chain(&lost).chain(lines) {
            text.push_str(line);
            text.push('\n');
        }
        open.put(text.as_bytes(), size)?;
        self.rotated = None;
        Ok(self.untold.take())
    }

    /// Makes sure that what is open is what stands at the path, and returns its size. A log that
    /// was moved or deleted from outside is begun anew: nobody reads a file without a name.
    fn settle(&mut self) -> io::Result<u64> {
        if let Some(open) = &self.open {
            match fs::symlink_metadata(&self.path) {
                Ok(there) if id(&there) == open.id => return Ok(there.len()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                // The path cannot be looked at; that says nothing against the open file, as long as it has a name.
                Err(_) => {
                    let meta = open.file.metadata()?;
                    if meta.nlink() > 0 {
                        return Ok(meta.len());
                    }
                }
            }
        }
        self.open = None;
        let open = open(&self.path)?;
        let size = open.file.metadata()?.len();
        self.open = Some(open);
        Ok(size)
    }

    /// Puts the full file aside and returns the size of the file that is written next. A file that
    /// cannot be put aside grows on: a log that is too long is better than none.
    fn rotate(&mut self, size: u64) -> io::Result<u64> {
        if fs::rename(&self.path, &self.old).is_err() {
            return Ok(size);
        }
        self.rotated = Some(size);
        self.settle()
    }
}

impl Open {
    /// One write for the whole record. On a full disk the kernel takes what fits: that part is cut
    /// off again, so that a reader who comes later finds whole lines only.
    fn put(&mut self, bytes: &[u8], size: u64) -> io::Result<()> {
        let written = loop {
            match self.file.write(bytes) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written == bytes.len() {
            self.torn = false;
            return Ok(());
        }
        if self.file.set_len(size).is_err() {
            self.torn = true;
        }
        // The kernel tells the reason of a short write only to those who try again.
        Err(ErrorKind::StorageFull.into())
    }
}

/// O_NONBLOCK only keeps a fifo at the path from holding us up before it is refused.
fn open(path: &Path) -> io::Result<Open> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut last = [b'\n'];
    if meta.len() > 0 {
        file.read_at(&mut last, meta.len() - 1)?;
    }
    Ok(Open { file, id: id(&meta), torn: last != [b'\n'] })
}

fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
