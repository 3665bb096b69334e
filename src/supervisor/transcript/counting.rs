//! Tokens and tools, counted from the agent's own transcript since the supervisor started. What a
//! conversation held before that is not counted, and no line is counted twice, however often the
//! conversation is continued. Read only while somebody wants to know, a piece in a turn of the loop.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Instant;

use super::reading::length;
use super::watched::Watched;
use super::{Charge, Supervisor};
use crate::session::transcript::lines::{Forward, Line};
use crate::session::transcript::{Place, Spent};
use crate::sorted::Sorted;
use crate::supervisor::record::open_plain;

/// Conversations that nobody has counted to their end yet; of more the oldest is given up.
const PARTS_MOST: usize = 64;
/// Files of one conversation's subagents that are looked at.
const SUBAGENTS_MOST: usize = 1024;

#[derive(Default)]
pub(in crate::supervisor) struct Counting {
    pub(in crate::supervisor) spent: Spent,
    /// The last one is the conversation of now.
    parts: VecDeque<Part>,
    /// While a rule wants to know at once.
    watched: Option<Watched>,
    /// [`Watched::changes`] when it was last looked at.
    seen: u64,
    /// Somebody wants to know, and there may be more than was counted.
    is_due: bool,
}

/// One conversation, and how far it was counted: its own file first, then those of its subagents.
struct Part {
    place: Place,
    id: String,
    own: Pages,
    subagents: Sorted<PathBuf, Pages>,
    /// Which of the subagents' files are still to be read in this round; `None` while it is the own one.
    left: Option<Vec<PathBuf>>,
}

/// One file, and how far it was counted.
#[derive(Default)]
struct Pages {
    path: PathBuf,
    forward: Forward,
    /// While it is read: the file, and how far.
    open: Option<(File, u64)>,
}

impl Pages {
    fn of(path: PathBuf) -> Pages {
        Pages { path, ..Pages::default() }
    }

    /// One piece. True when there is no more now.
    fn step(&mut self, spent: &mut Spent) -> bool {
        let Some((file, end)) = self.open.take().or_else(|| self.find()) else { return true };
        let could_read = self.forward.step(&file, end, |line| {
            if let Line::Whole(line) = line {
                spent.add(line);
            }
            ControlFlow::Continue(())
        });
        let is_through = !could_read || self.forward.is_through(end);
        if !is_through {
            self.open = Some((file, end));
        }
        is_through
    }

    /// The file as it is now.
    fn find(&mut self) -> Option<(File, u64)> {
        let file = open_plain(&self.path)?;
        let end = length(&file);
        match self.forward.fits(&file, end) {
            true => self.forward.look_again(end),
            // Written anew: what stands in it now was counted as it came, or nobody knows.
            false => self.forward = Forward::from(end, &file),
        }
        Some((file, end))
    }

    /// What stands in it was said before our time.
    fn pass_over(&mut self) {
        if let Some((file, end)) = self.find() {
            self.forward = Forward::from(end, &file);
        }
    }
}

impl Part {
    fn new(place: &Place, id: &str) -> Part {
        let own = Pages::default();
        Part { place: place.clone(), id: id.to_owned(), own, subagents: Sorted::new(), left: None }
    }

    /// One piece. True when there is no more now.
    fn step(&mut self, spent: &mut Spent) -> bool {
        let Some(left) = &mut self.left else {
            if self.own.open.is_none() {
                self.look();
            }
            if self.own.step(spent) {
                self.left = Some(self.subagents.keys().cloned().collect());
            }
            return false;
        };
        let Some(pages) = left.last().and_then(|path| self.subagents.get_mut(path)) else {
            self.left = None;
            return true;
        };
        if pages.step(spent) {
            left.pop();
        }
        false
    }

    /// Where the files are now: claude moves a conversation with its directory, and subagents come.
    fn look(&mut self) {
        if open_plain(&self.own.path).is_none() {
            let found = self.place.candidates(&self.id).find(|path| open_plain(path).is_some());
            let Some(found) = found else { return };
            self.own.path = found;
        }
        // claude 2.1.197: `ID/subagents/agent-….jsonl` beside `ID.jsonl`.
        let dir = self.own.path.with_extension("").join("subagents");
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().take(SUBAGENTS_MOST);
        for path in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        {
            if self.subagents.len() < SUBAGENTS_MOST {
                self.subagents.entry(path).or_insert_with_key(|path| Pages::of(path.clone()));
            }
        }
    }
}

impl Counting {
    /// The agent runs in this conversation. `is_old`: what stands in it was said before our time.
    fn begin(&mut self, place: &Place, id: &str, is_old: bool) {
        let known = self.parts.iter().position(|part| part.id == id);
        if let Some(mut part) = known.and_then(|at| self.parts.remove(at)) {
            part.place = place.clone();
            self.parts.push_back(part);
            return;
        }
        let mut part = Part::new(place, id);
        if is_old {
            part.look();
            part.subagents.values_mut().chain([&mut part.own]).for_each(Pages::pass_over);
        }
        if self.parts.len() == PARTS_MOST {
            self.parts.pop_front();
        }
        self.parts.push_back(part);
    }

    /// Reads on until all that there is now is counted, or the turn is over.
    fn go_on(&mut self, turn_ends: Instant) {
        while let Some(part) = self.parts.front_mut() {
            if part.step(&mut self.spent) {
                if self.parts.len() == 1 {
                    break;
                }
                self.parts.pop_front();
            }
            if Instant::now() >= turn_ends {
                return;
            }
        }
        self.is_due = false;
    }

    /// Somebody asks: all that is written by now is to be counted.
    pub(in crate::supervisor) fn ask(&mut self) {
        self.is_due = !self.parts.is_empty();
    }

    pub(in crate::supervisor) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(in crate::supervisor) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.watched.as_ref().map(Watched::as_fd)
    }

    pub(in crate::supervisor) fn deadline(&self) -> Option<Instant> {
        self.is_due.then(Instant::now)
    }
}

impl Supervisor {
    /// At every start of the agent, and when it is in another conversation. The error is why a rule will not
    /// learn of tokens.
    pub(in crate::supervisor) fn count_from_here(
        &mut self,
        is_old: bool,
        follow: bool,
    ) -> Result<(), String> {
        let Charge::Run(session) = &self.charge else { return Ok(()) };
        let facts = &session.record.facts;
        if facts.conversation.id.is_none() && self.agent_confirms {
            // Its first hook tells.
            return Ok(());
        }
        let (Some(place), Some(id)) = (&facts.transcripts, facts.conversation.id.as_deref()) else {
            return Err(
                "which conversation the agent is in is not known: its own arguments pick it".to_owned()
            );
        };
        self.counting.begin(place, id, is_old);
        if !follow {
            return Ok(());
        }
        let watched = match &mut self.counting.watched {
            Some(watched) => watched.aim(place, id),
            none => Watched::open(place, id).map(|watched| *none = Some(watched)),
        };
        self.counting.ask();
        watched.map_err(|error| {
            self.counting.watched = None;
            format!("the conversation's file cannot be watched: {error}; `fs.inotify` in /proc/sys says how many may be")
        })
    }

    pub(in crate::supervisor) fn on_counted_file(&mut self) -> Result<(), String> {
        match self.counting.watched.as_mut().map(Watched::on_ready) {
            Some(Err(error)) => {
                self.counting.watched = None;
                Err(format!("the conversation's file cannot be watched any more: {error}"))
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// In every turn: what is new, if somebody wants to know.
    pub(in crate::supervisor) fn count_on(&mut self) {
        let counting = &mut self.counting;
        let changes = counting.watched.as_ref().map_or(counting.seen, Watched::changes);
        if std::mem::replace(&mut counting.seen, changes) != changes {
            counting.ask();
        }
        if counting.is_due {
            counting.go_on(self.turn_ends);
        }
    }
}
