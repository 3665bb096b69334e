//! One caller's way through the conversation: from the last entries that it asked for to the end,
//! and on with what comes.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use super::told::{Meaning, meaning, told};
use super::watched::Watched;
use crate::control::protocol::{
    Body, Conversation, ConversationFrame, End, Id, LINES_BY_DEFAULT, News, Reply, Skipped, SkippedFrame,
    SkippedWhy, StreamFrame,
};
use crate::control::server::{CallerId, Server};
use crate::log::Log;
use crate::session::transcript::lines::{Backward, Bytes, Forward, Line};

pub struct Reading {
    pub caller: CallerId,
    pub id: Option<Id>,
    lines: u64,
    pub follow: bool,
    /// To be told before anything else.
    news: VecDeque<StreamFrame>,
    conversation: String,
    file: Option<Rc<File>>,
    /// How far the file is looked at now.
    end: u64,
    stage: Stage,
    /// Entries that are more than were asked for, to be passed over.
    surplus: u64,
    /// [`Watched::changes`] when it was last looked at.
    pub seen: u64,
}

enum Stage {
    /// Looking for the begin of the last lines.
    Back(Backward),
    On(Forward),
}

/// What a turn came to.
pub enum Fed {
    /// The reader has no room, or there is nothing new.
    Waits,
    /// There is more to be read.
    More,
    Over,
}

impl Reading {
    pub fn new(
        caller: CallerId,
        id: Option<Id>,
        lines: u32,
        conversation: &str,
        file: Option<Rc<File>>,
    ) -> Reading {
        let mut reading = Reading {
            caller,
            id,
            lines: u64::from(lines),
            follow: false,
            news: VecDeque::new(),
            conversation: conversation.to_owned(),
            file: None,
            end: 0,
            stage: Stage::On(Forward::default()),
            surplus: 0,
            seen: 0,
        };
        reading.begin(file, News::Current);
        reading
    }

    /// The last entries of a file that is new to the reader.
    fn begin(&mut self, file: Option<Rc<File>>, news: News) {
        self.end = file.as_ref().map_or(0, |file| length(file));
        self.surplus = 0;
        self.news.push_back(StreamFrame::Conversation(ConversationFrame {
            conversation: Conversation { id: self.conversation.clone(), news, empty: self.end == 0 },
        }));
        let lines = match news {
            News::Current => self.lines,
            // All in it is new to the reader, unless there is a lot.
            _ => self.lines.max(u64::from(LINES_BY_DEFAULT)),
        };
        self.stage = match &file {
            Some(_) => Stage::Back(Backward::from(self.end, lines)),
            None => Stage::On(Forward::default()),
        };
        self.file = file;
    }

    /// Something may be different: the conversation, its file, or what is in it.
    fn look_again(&mut self, watched: &Watched) {
        if self.conversation != watched.id() {
            // What was said last in the old one comes before anything of the new.
            self.end = self.file.as_ref().map_or(0, |file| length(file));
            if self.is_through() {
                self.seen = watched.changes();
                self.conversation = watched.id().to_owned();
                self.begin(watched.file().cloned(), News::Changed);
            }
            return;
        }
        self.seen = watched.changes();
        // Removed: what is still to be read of it can be.
        let Some(file) = watched.file().or(self.file.as_ref()).cloned() else { return };
        let length = length(&file);
        let fits = match &mut self.stage {
            Stage::On(forward) => {
                forward.look_again(length);
                forward.fits(&*file, length)
            }
            Stage::Back(_) => self.file.as_ref().is_some_and(|old| is_same(old, &file)) && length >= self.end,
        };
        match (fits, &self.stage) {
            (true, Stage::Back(_)) => {}
            (true, Stage::On(_)) => {
                self.end = length;
                self.file = Some(file);
            }
            (false, _) => self.begin(Some(file), News::Rewritten),
        }
        if watched.file().is_none() && self.is_through() {
            // Kept open it would keep its room on the disk.
            self.file = None;
            self.end = 0;
        }
    }

    /// All there is of the file has been told.
    fn is_through(&self) -> bool {
        matches!(&self.stage, Stage::On(forward) if forward.is_through(self.end))
    }

    fn is_behind(&self, watched: Option<&Watched>) -> bool {
        self.follow && watched.is_some_and(|watched| watched.changes() != self.seen)
    }

    pub fn is_due(&self, watched: Option<&Watched>) -> bool {
        !self.follow || !self.is_through() || self.is_behind(watched) || !self.news.is_empty()
    }

    /// One piece of the file, or what is to be told before.
    pub fn feed(&mut self, server: &mut Server, log: &Log, watched: Option<&Watched>) -> Fed {
        if !server.has_room(self.caller) {
            return Fed::Waits;
        }
        if let Some(frame) = self.news.pop_front() {
            self.tell(server, frame);
            return Fed::More;
        }
        if let Some(watched) = watched.filter(|watched| self.is_behind(Some(watched))) {
            self.look_again(watched);
            if self.is_through() || !self.news.is_empty() {
                return Fed::More;
            }
        }
        match (&mut self.stage, self.file.clone()) {
            (Stage::Back(backward), Some(file)) => {
                if let Some(start) = backward.step(&*file, |line| meaning(line).worth()) {
                    self.surplus = start.surplus;
                    if self.follow {
                        // It may have grown meanwhile.
                        self.end = length(&file);
                    }
                    self.stage = Stage::On(Forward::from(start.at, &*file));
                    if start.cut_off {
                        self.news.push_back(skipped(SkippedWhy::TooFarBack, start.at));
                    }
                }
                Fed::More
            }
            (Stage::On(forward), Some(file)) if !forward.is_through(self.end) => {
                let mut forward = forward.clone();
                let went = self.read_on(&mut forward, &*file, server, log);
                self.stage = Stage::On(forward);
                if !went {
                    // Cut meanwhile, or not to be read at all. Whoever follows will be told of a change.
                    self.file = None;
                    self.end = 0;
                }
                Fed::More
            }
            _ if self.follow => Fed::Waits,
            _ => {
                self.tell(server, StreamFrame::End(End { end: true }));
                Fed::Over
            }
        }
    }

    fn read_on(&mut self, forward: &mut Forward, file: &impl Bytes, server: &mut Server, log: &Log) -> bool {
        let end = self.end;
        // Garbage may have a line in every other byte: told together.
        let mut passed_over: Option<Skipped> = None;
        let went = forward.step(file, end, |line: Line| {
            match meaning(line) {
                Meaning::Skipped(_) if self.surplus > 0 => self.surplus -= 1,
                Meaning::Skipped(next) => match &mut passed_over {
                    Some(Skipped { why, bytes })
                        if *why == next.why && next.why == SkippedWhy::Unreadable =>
                    {
                        *bytes += next.bytes + 1;
                    }
                    other => {
                        if let Some(before) = other.replace(next) {
                            self.tell(server, skipped(before.why, before.bytes));
                        }
                    }
                },
                Meaning::Entries(entries) => {
                    for entry in entries {
                        if self.surplus > 0 {
                            self.surplus -= 1;
                            continue;
                        }
                        if let Some(before) = passed_over.take() {
                            self.tell(server, skipped(before.why, before.bytes));
                        }
                        self.tell(server, StreamFrame::Entry(Box::new(told(entry, log))));
                    }
                }
            }
            if server.has_room(self.caller) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Some(before) = passed_over {
            self.tell(server, skipped(before.why, before.bytes));
        }
        went
    }

    fn tell(&self, server: &mut Server, frame: StreamFrame) {
        server.reply(self.caller, &Reply::ok(self.id.clone(), Body::Stream(frame)));
    }
}

fn is_same(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    identity(one) == identity(other)
}

pub fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |meta| meta.len())
}

fn skipped(why: SkippedWhy, bytes: u64) -> StreamFrame {
    StreamFrame::Skipped(SkippedFrame { skipped: Skipped { why, bytes } })
}
