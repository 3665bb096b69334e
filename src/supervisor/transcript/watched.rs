//! Where the conversation's file is now, and that it has changed: one for all callers that follow
//! it, and only while one does. It may not be there yet, nor the directories that it will be in; it
//! may be replaced, moved to another project, or removed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::os::inotify::{Change, Watch};
use crate::session::transcript::Place;
use crate::supervisor::record::open_plain;

/// Projects that are watched for a file which is not there yet, the likely one among them.
const PROJECTS_MOST: usize = 256;
/// What comes and goes while it is looked for: the next change tells again.
const TRIES: usize = 3;

pub struct Watched {
    watch: Watch,
    place: Place,
    id: String,
    file: Option<Rc<File>>,
    changes: u64,
}

impl Watched {
    pub fn open(place: &Place, id: &str) -> io::Result<Watched> {
        let (place, id) = (place.clone(), id.to_owned());
        let mut watched = Watched { watch: Watch::new()?, place, id, file: None, changes: 0 };
        watched.look()?;
        Ok(watched)
    }

    /// The conversation that is followed.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `None` while there is none.
    pub fn file(&self) -> Option<&Rc<File>> {
        self.file.as_ref()
    }

    /// Another number means that something is different.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The same, or another conversation from now on.
    pub fn aim(&mut self, place: &Place, id: &str) -> io::Result<()> {
        if (&self.place, self.id.as_str()) == (place, id) {
            return Ok(());
        }
        (self.place, self.id) = (place.clone(), id.to_owned());
        self.look()
    }

    pub fn on_ready(&mut self) -> io::Result<()> {
        let mut is_elsewhere = false;
        for change in self.watch.changes() {
            is_elsewhere |= match change {
                Change::Content => {
                    self.changes += 1;
                    false
                }
                Change::Lost => true,
                Change::Name { name, .. } if Place::file_name(&self.id).is_some_and(|it| name == *it) => true,
                // While it is looked for: a project, or a part of the way to them.
                Change::Name { name, is_dir } => {
                    self.file.is_none() && (is_dir || self.place.projects.iter().any(|part| part == name))
                }
            };
        }
        if is_elsewhere { self.look() } else { Ok(()) }
    }

    fn find(&self) -> Option<PathBuf> {
        self.place.candidates(&self.id).find(|path| open_plain(path).is_some())
    }

    /// All is watched before it is looked at, so that nothing falls in between.
    fn look(&mut self) -> io::Result<()> {
        self.changes += 1;
        self.file = None;
        for _ in 0..TRIES {
            self.watch.clear();
            if let Some((path, dir)) =
                self.find().and_then(|path| Some((path.clone(), path.parent()?.to_owned())))
            {
                self.watch.add_dir(&dir)?;
                self.watch.add_file(&path)?;
                self.file = open_plain(&path).map(Rc::new);
                if self.file.is_some() {
                    break;
                }
                continue;
            }
            self.watch_the_way()?;
            for (nth, dir) in self.place.directories().take(PROJECTS_MOST).enumerate() {
                match self.watch.add_dir(&dir) {
                    Err(error) if nth == 0 => return Err(error),
                    Err(_) => break,
                    Ok(_) => {}
                }
            }
            if self.find().is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The directory of all projects and the two above it, or what there is of the way to them. Two,
    /// because a removed directory tells nothing of its end as long as a slow reader keeps a file of
    /// it open; from the top, so that nothing is made or removed unseen in between.
    fn watch_the_way(&mut self) -> io::Result<()> {
        let way: Vec<&Path> = self.place.projects.ancestors().collect();
        let top = (2..way.len()).find(|nth| way[*nth].is_dir()).unwrap_or(way.len() - 1);
        for dir in way[..=top].iter().rev() {
            self.watch.add_dir(dir)?;
        }
        Ok(())
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
