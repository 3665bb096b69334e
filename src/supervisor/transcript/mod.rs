//! `transcript`: the conversation from the agent's own file, for whoever reads or follows it. A
//! reader is two numbers and the open file; what it is told is read from the file while it takes it,
//! a piece in a turn of the loop, so that neither a huge file nor a slow reader is felt by others.

mod told;
mod watched;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Instant;

use super::calls::{Answer, Answered, Calls, refuse};
use super::{Charge, Supervisor};
use crate::control::protocol::{
    Body, Code, Conversation, ConversationFrame, End, Error, Id, LINES_BY_DEFAULT, News, Reply, Skipped,
    SkippedFrame, SkippedWhy, StreamFrame,
};
use crate::control::server::{CallerId, Server};
use crate::log::Log;
use crate::session::Profile;
use crate::session::transcript::Place;
use crate::session::transcript::lines::{Backward, Bytes, Forward, Line};
use told::{Meaning, meaning, told};
use watched::Watched;

#[derive(Default)]
pub(super) struct Transcripts {
    /// Whose turn it is comes first.
    readings: VecDeque<Reading>,
    /// While somebody follows.
    watched: Option<Watched>,
}

/// One caller's way through the conversation.
pub(super) struct Reading {
    caller: CallerId,
    id: Option<Id>,
    lines: u64,
    follow: bool,
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
    seen: u64,
}

enum Stage {
    /// Looking for the begin of the last lines.
    Back(Backward),
    On(Forward),
}

/// What a turn came to.
enum Fed {
    /// The reader has no room, or there is nothing new.
    Waits,
    /// There is more to be read.
    More,
    Over,
}

impl Reading {
    fn new(
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
        self.seen = watched.changes();
        if self.conversation != watched.id() {
            self.conversation = watched.id().to_owned();
            return self.begin(watched.file().cloned(), News::Changed);
        }
        // Removed: what is still to be read of it can be.
        let Some(file) = watched.file() else { return };
        let length = length(file);
        let fits = match &mut self.stage {
            Stage::On(forward) => {
                forward.look_again(length);
                forward.fits(&**file, length)
            }
            Stage::Back(_) => {
                self.file.as_ref().is_some_and(|old| Rc::ptr_eq(old, file)) && length >= self.end
            }
        };
        match fits {
            true => {
                if matches!(self.stage, Stage::On(_)) {
                    self.end = length;
                }
                self.file = Some(file.clone());
            }
            false => self.begin(Some(file.clone()), News::Rewritten),
        }
    }

    fn is_due(&self, watched: Option<&Watched>) -> bool {
        let is_through = match &self.stage {
            Stage::Back(_) => false,
            Stage::On(forward) => self.follow && forward.is_through(self.end),
        };
        let is_behind = self.follow && watched.is_some_and(|watched| watched.changes() != self.seen);
        !is_through || is_behind || !self.news.is_empty()
    }

    /// One piece of the file, or what is to be told before.
    fn feed(&mut self, server: &mut Server, log: &Log, watched: Option<&Watched>) -> Fed {
        if !server.has_room(self.caller) {
            return Fed::Waits;
        }
        if let Some(frame) = self.news.pop_front() {
            self.tell(server, frame);
            return Fed::More;
        }
        if let Some(watched) = watched.filter(|watched| self.follow && watched.changes() != self.seen) {
            self.look_again(watched);
            return Fed::More;
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
                match went {
                    true => Fed::More,
                    // It was cut meanwhile: whoever follows will be told.
                    false => {
                        self.end = 0;
                        Fed::More
                    }
                }
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

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |meta| meta.len())
}

fn skipped(why: SkippedWhy, bytes: u64) -> StreamFrame {
    StreamFrame::Skipped(SkippedFrame { skipped: Skipped { why, bytes } })
}

fn cannot_watch(error: &io::Error) -> Error {
    let message = format!(
        "the conversation's file cannot be watched: {error}; `fs.inotify` in /proc/sys says how many may be, \
         and without `follow` it can be read"
    );
    Error::new(Code::Internal, message)
}

impl Transcripts {
    pub(super) fn forget(&mut self, caller: CallerId) {
        self.readings.retain(|reading| reading.caller != caller);
    }

    pub(super) fn add(&mut self, reading: Reading) {
        self.readings.push_back(reading);
    }

    /// To be told of changes, when somebody waits for one.
    pub(super) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        let watched = self.watched.as_ref()?;
        let waits = |reading: &Reading| reading.follow && !reading.is_due(Some(watched));
        self.readings.iter().any(waits).then(|| watched.as_fd())
    }

    /// Somebody takes more, and there is more.
    pub(super) fn is_due(&self, server: &Server) -> bool {
        let is_due = |r: &Reading| server.has_room(r.caller) && r.is_due(self.watched.as_ref());
        self.readings.iter().any(is_due)
    }

    fn watch(&mut self, place: &Place, id: &str) -> io::Result<&Watched> {
        match &mut self.watched {
            Some(watched) => watched.aim(place, id)?,
            none => *none = Some(Watched::open(place, id)?),
        }
        self.watched.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Nobody who follows can be told anything any more.
    fn give_up(&mut self, server: &mut Server, error: &io::Error) {
        self.watched = None;
        self.readings.retain(|reading| {
            if reading.follow {
                let result = Err(cannot_watch(error));
                server.reply(reading.caller, &Reply { id: reading.id.clone(), result });
                server.release(reading.caller);
            }
            !reading.follow
        });
    }
}

impl Supervisor {
    pub(super) fn read_transcript(
        &mut self,
        caller: CallerId,
        id: &Option<Id>,
        lines: u32,
        follow: bool,
    ) -> Answered {
        let profile = self.profile();
        let (Charge::Run(session), Some(calls)) = (&self.charge, &mut self.calls) else {
            return refuse(Code::Internal, "no session");
        };
        let facts = &session.record.facts;
        let Some(place) = &facts.transcripts else {
            return refuse(Code::Unsupported, unknown_place(profile));
        };
        let Some(conversation) = facts.conversation.id.as_deref() else {
            let message = "which conversation the agent is in is not known: its own arguments pick it";
            return refuse(Code::Unsupported, message);
        };
        let file = match follow {
            false => place.candidates(conversation).find_map(|path| calls.files.open(&path)),
            true => match calls.transcripts.watch(place, conversation) {
                Ok(watched) => watched.file().cloned(),
                Err(error) => return Err(cannot_watch(&error)),
            },
        };
        let mut reading = Reading::new(caller, id.clone(), lines, conversation, file);
        reading.follow = follow;
        reading.seen = calls.transcripts.watched.as_ref().map_or(0, Watched::changes);
        Ok(Answer::Transcript(Box::new(reading)))
    }

    pub(super) fn on_transcript(&mut self) {
        let Some(Calls { transcripts, server, .. }) = &mut self.calls else { return };
        if let Some(Err(error)) = transcripts.watched.as_mut().map(Watched::on_ready) {
            transcripts.give_up(server, &error);
        }
    }

    /// After every turn: whatever is new, to whoever has room for it, until the time of the turn is
    /// over. Whoever did not come first now does in the next.
    pub(super) fn feed_transcripts(&mut self) {
        let (Charge::Run(session), Some(calls)) = (&self.charge, &mut self.calls) else { return };
        let Calls { transcripts, server, .. } = calls;
        transcripts.readings.retain(|reading| server.is_here(reading.caller));
        if !transcripts.readings.iter().any(|reading| reading.follow) {
            transcripts.watched = None;
        }
        let facts = &session.record.facts;
        if let (Some(watched), Some(place), Some(id)) =
            (&mut transcripts.watched, &facts.transcripts, facts.conversation.id.as_deref())
            && let Err(error) = watched.aim(place, id)
        {
            transcripts.give_up(server, &error);
        }
        for _ in 0..transcripts.readings.len() {
            let Some(mut reading) = transcripts.readings.pop_front() else { return };
            let fed = loop {
                match reading.feed(server, &self.log, transcripts.watched.as_ref()) {
                    Fed::More if Instant::now() < self.turn_ends => {}
                    fed => break fed,
                }
            };
            match fed {
                Fed::Over => server.release(reading.caller),
                Fed::Waits | Fed::More => transcripts.readings.push_back(reading),
            }
            if Instant::now() >= self.turn_ends {
                return;
            }
        }
    }

    /// At the end, when nobody waits for a change any more: what the agent wrote last.
    pub(super) fn look_at_transcript_again(&mut self) {
        if let Some(watched) = self.calls.as_mut().and_then(|calls| calls.transcripts.watched.as_mut()) {
            let _ = watched.on_ready();
        }
    }
}

fn unknown_place(profile: Profile) -> String {
    match profile {
        Profile::Claude => {
            "where claude keeps its conversations is not known: its environment has no HOME".to_owned()
        }
        Profile::Codex => "where codex keeps its conversations is not known; so far only claude's can be read".to_owned(),
        Profile::Other => {
            "the agent is none whose conversations can be read; --agent claude is for a claude of another name"
                .to_owned()
        }
    }
}
