//! `transcript`: the conversation from the agent's own file, for whoever reads or follows it. A
//! reader is two numbers and the open file; what it is told is read from the file while it takes it,
//! a piece in a turn of the loop, so that neither a huge file nor a slow reader is felt by others.

mod counting;
mod reading;
mod told;
mod watched;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::errno::Errno;

use super::calls::{Answer, Answered, Calls, refuse};
use super::{Charge, Supervisor};
use crate::control::protocol::{Code, Error, Id, Reply};
use crate::control::server::{CallerId, Server};
use crate::session::Profile;
use crate::session::transcript::Place;
pub(super) use counting::Counting;
use reading::Fed;
pub(super) use reading::Reading;
use watched::Watched;

#[derive(Default)]
pub(super) struct Transcripts {
    /// Whose turn it is comes first.
    readings: VecDeque<Reading>,
    /// While somebody follows.
    watched: Option<Watched>,
}

fn cannot_watch(error: &io::Error) -> Error {
    let error = error.raw_os_error().map_or("unknown error", |errno| Errno::from_raw(errno).desc());
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
