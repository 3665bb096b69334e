//! The supervisor's end of each connection: short reads and writes, and what comes back to the callers.

use super::super::World;
use super::super::processes::OUTSIDE;
use super::{Manner, Owed, Said};
use crate::control::frame::Frame;
use crate::os::socket::{Moved, Peer, PeerLife};
use crate::{clock, invariants};

impl World {
    pub fn accept(&mut self) -> Result<Option<(i32, Peer)>, i32> {
        self.facts.moved += 1;
        if self.has_no_descriptors() {
            self.story.event("accept", "refused", 0);
            return Err(libc::EMFILE);
        }
        if self.mood.is_faulty && self.rng.once_in(40) {
            return Ok(None);
        }
        let Some(number) = self.callers.door.pop_front() else { return Ok(None) };
        let caller = self.callers.all.get_mut(&number).expect("who is at the door is known");
        caller.is_let_in = true;
        Ok(Some((number, caller.peer)))
    }

    pub fn peer_life(&mut self, number: i32) -> PeerLife {
        let Some(caller) = self.callers.all.get(&number) else { return PeerLife::Gone };
        match caller.peer.pid {
            0 | 4 | OUTSIDE => PeerLife::Lives,
            _ if self.has_no_descriptors() => PeerLife::Unknown,
            pid if self.processes.has_ended(pid) => PeerLife::Gone,
            _ => PeerLife::Lives,
        }
    }

    pub fn read_caller(&mut self, number: i32, buffer: &mut [u8]) -> Moved {
        let Some(caller) = self.callers.all.get_mut(&number) else { return Moved::Closed };
        self.facts.moved += 1;
        let most = caller.wire.len().min(buffer.len());
        if most == 0 {
            return if caller.has_ended || caller.has_left { Moved::Closed } else { Moved::Nothing };
        }
        if self.mood.is_faulty && self.rng.once_in(16) {
            self.story.event("read", "EAGAIN", i64::from(number));
            return Moved::Nothing;
        }
        let count = if self.rng.once_in(4) { 1 + self.rng.index(most) } else { most };
        if count < most {
            self.story.event("read", "short", count as i64);
        }
        for (to, byte) in buffer.iter_mut().zip(caller.wire.drain(..count)) {
            *to = byte;
        }
        caller.heard += count as u64;
        let moment = (clock::now(), clock::nanos(self.facts.all_late()));
        for asked in caller.asked.values_mut().filter(|asked| asked.ends_at <= caller.heard) {
            asked.heard.get_or_insert(moment);
        }
        Moved::Bytes(count)
    }

    pub fn write_caller(&mut self, number: i32, bytes: &[u8]) -> Moved {
        let is_faulty = self.mood.is_faulty;
        let Some(caller) = self.callers.all.get_mut(&number) else { return Moved::Closed };
        if caller.has_left {
            self.facts.moved += 1;
            return Moved::Closed;
        }
        if caller.room == 0 {
            caller.is_behind = true;
            return Moved::Nothing;
        }
        self.facts.moved += 1;
        if is_faulty && self.rng.once_in(32) {
            caller.is_behind = true;
            self.story.event("write", "EAGAIN", i64::from(number));
            return Moved::Nothing;
        }
        if std::mem::take(&mut caller.is_behind) {
            caller.stale_in = self.facts.turn();
        }
        let most = caller.room.min(bytes.len());
        let count = if self.rng.once_in(8) { 1 + self.rng.index(most) } else { most };
        if count < most {
            self.story.event("write", "short", count as i64);
        }
        if caller.room != usize::MAX {
            caller.room -= count;
        }
        caller.decoder.push(&bytes[..count]);
        self.hears(number);
        Moved::Bytes(count)
    }

    /// Whole frames that have come to a caller.
    fn hears(&mut self, number: i32) {
        loop {
            let Some(caller) = self.callers.all.get_mut(&number) else { return };
            match caller.decoder.next() {
                Ok(Some(Frame::Json(text))) => self.is_answered(number, &text),
                Ok(Some(Frame::Raw(_))) => {}
                Ok(None) => return,
                Err(error) => {
                    return self.fail(invariants::ANSWERED_ONCE, format!("a reply is no frame: {error}"));
                }
            }
        }
    }

    fn is_answered(&mut self, number: i32, text: &[u8]) {
        self.callers.answers += 1;
        let Ok(reply) = serde_json::from_slice::<Said>(text) else {
            return self.fail(invariants::ANSWERED_ONCE, "a reply is no JSON".to_owned());
        };
        let Some(caller) = self.callers.all.get_mut(&number) else { return };
        let code = reply.error.as_ref().map(|error| error.code.as_str());
        // There are too many, or it took too long over a request.
        caller.was_sent_away |= reply.id.is_none() && matches!(code, Some("TOO_MANY" | "BAD_FRAME"));
        let is_honest = caller.manner != Manner::Hostile;
        let asked = reply.id.and_then(|id| caller.asked.get_mut(&id).map(|asked| (id, asked)));
        let Some((id, asked)) = asked else {
            let is_done = reply.id.is_some_and(|id| self.callers.done.contains(&id));
            let what = if is_done { "a second answer" } else { "an answer to nobody" };
            // Whoever types without being attached is told so.
            if is_honest && !caller.was_sent_away && code != Some("NOT_ATTACHED") {
                let text = format!("{what}, to caller {number}: {}", String::from_utf8_lossy(text));
                self.fail(invariants::ANSWERED_ONCE, text);
            }
            return;
        };
        let method = asked.method;
        let goes_on = matches!(method, "events" | "logs" | "transcript" | "attach");
        asked.owed = match asked.owed {
            Owed::Answer if goes_on && code.is_none() => Owed::Frames,
            Owed::Frames if !reply.end && code.is_none() => Owed::Frames,
            Owed::Answer | Owed::Frames | Owed::Nothing => Owed::Nothing,
        };
        self.story.note("answered", method, i64::from(number), code.unwrap_or("ok"));
        let is_fresh = caller.stale_in != self.facts.turn();
        if asked.owed == Owed::Nothing {
            caller.asked.remove(&id);
            self.callers.done.insert(id);
        }
        if method == "state" && code.is_none() && is_fresh {
            self.judge_state(reply);
        }
    }

    /// The supervisor let go of the connection.
    pub fn closed_by_supervisor(&mut self, number: i32) {
        if std::thread::panicking() {
            return;
        }
        if let Some(caller) = self.callers.all.get_mut(&number) {
            caller.is_closed = true;
            self.story.note(
                "closed",
                "",
                i64::from(number),
                if caller.was_sent_away { "sent away" } else { "" },
            );
            if caller.has_left || caller.manner == Manner::Hostile {
                self.callers.all.remove(&number);
            }
        }
    }
}
