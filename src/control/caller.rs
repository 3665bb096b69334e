//! One caller: its connection, what it has sent and what is still to be sent to it.

use std::collections::VecDeque;
use std::time::Instant;

use super::access::Role;
use super::frame::{Decoder, Frame};
use super::protocol::{Code, Reply, Request};
use crate::os::poll::{Ready, Want};
use crate::os::socket::{Moved, Peer, Stream};

/// Below this a caller is listened to: one that does not read its answers would only ask for more. But
/// one that is attached has not asked for what waits for it, and may want to stop it.
const ASK_ROOM: usize = 64 * 1024;
/// Heard in one go before the others have their turn.
const BATCH: usize = 1;
/// So many frames in a row that are no JSON come from no client: an answer to each would be the
/// sender's way of keeping us busy.
const NONSENSE_MOST: usize = 8;

pub(super) struct Caller {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    /// Looked up when it first asks for something that not everybody may: most callers never do, and
    /// it takes longer than most answers.
    pub(super) role: Option<Role>,
    pub(super) decoder: Decoder,
    pub(super) out: VecDeque<u8>,
    /// It has made a request.
    pub(super) is_known: bool,
    /// Frames in a row that were no JSON.
    nonsense: usize,
    pub(super) heard: Instant,
    /// Since when a frame stands half sent.
    pub(super) partial: Option<Instant>,
    /// Requests handed on whose answer is still to come, and streams.
    pub(super) held: usize,
    /// Terminal bytes go both ways.
    pub(super) attached: bool,
    /// Attached, and what it types finds no room now.
    pub(super) is_put_off: bool,
    /// Bytes that it has ever taken.
    pub(super) taken: u64,
    /// More whole frames may stand in the decoder than were handed on.
    pub(super) more: bool,
    /// It will send nothing any more; it may still read, as `nc -N` does.
    pub(super) ended: bool,
    /// Nobody is at the other end.
    hung_up: bool,
    /// Its stream can no longer be trusted: it is closed when it has read why.
    pub(super) refused: bool,
    /// Its part of the memory that the server counts.
    pub(super) counted: usize,
}

/// What a caller said.
pub enum Heard {
    Request(Request),
    /// Terminal bytes of one that is attached.
    Typed(Vec<u8>),
    /// To be answered and counted, nothing more.
    Refused(Reply),
    /// Nobody is there to be answered.
    Gone,
}

/// How much of what was to be sent is.
pub(super) enum Written {
    All,
    Part,
    /// Nobody will ever read it.
    Never,
}

impl Caller {
    pub(super) fn new(stream: Stream, peer: Peer, now: Instant) -> Caller {
        Caller {
            stream,
            peer,
            role: None,
            decoder: Decoder::for_requests(),
            out: VecDeque::new(),
            is_known: false,
            nonsense: 0,
            heard: now,
            partial: None,
            held: 0,
            attached: false,
            is_put_off: false,
            taken: 0,
            more: false,
            ended: false,
            hung_up: false,
            refused: false,
            counted: 0,
        }
    }

    fn is_listened_to(&self) -> bool {
        let has_room = if self.attached { !self.is_put_off } else { self.out.len() < ASK_ROOM };
        !self.ended && !self.refused && !self.more && has_room
    }

    pub(super) fn wants(&self) -> Want {
        match (self.is_listened_to(), self.out.is_empty()) {
            (true, true) => Want::Read,
            (true, false) => Want::Both,
            (false, false) => Want::Write,
            (false, true) => Want::HangUp,
        }
    }

    pub(super) fn read(&mut self, ready: Ready, now: Instant) {
        self.hung_up |= ready.hung_up;
        if ready.read && self.is_listened_to() {
            let mut buffer = [0u8; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Moved::Bytes(n) => {
                    self.decoder.push(&buffer[..n]);
                    self.heard = now;
                }
                Moved::Nothing => {}
                Moved::Closed => self.ended = true,
            }
        } else if self.hung_up {
            // What it may have sent beside is not worth a busy loop.
            self.ended = true;
        }
    }

    pub(super) fn write(&mut self) -> Written {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match self.stream.write(front) {
                Moved::Bytes(n) => {
                    self.out.drain(..n);
                    self.taken += n as u64;
                }
                Moved::Nothing => return Written::Part,
                Moved::Closed => return Written::Never,
            }
        }
        self.out.shrink_to(4096);
        Written::All
    }

    pub(super) fn memory(&self) -> usize {
        self.out.capacity() + self.decoder.memory()
    }

    pub(super) fn take_frames(&mut self, now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        self.more = false;
        while !self.refused {
            if heard.len() == BATCH {
                self.more = true;
                break;
            }
            match if self.ended { self.decoder.finish() } else { self.decoder.next() } {
                Ok(Some(Frame::Json(json))) => heard.push(self.understand(&json)),
                Ok(Some(Frame::Raw(bytes))) if self.attached => heard.push(Heard::Typed(bytes)),
                Ok(Some(Frame::Raw(_))) => heard.push(Heard::Refused(Reply::error(
                    None,
                    Code::NotAttached,
                    "terminal bytes, but this connection is not attached; `attach` comes first",
                ))),
                Ok(None) => break,
                Err(error) => {
                    heard.push(Heard::Refused(Reply { id: None, result: Err(error.into()) }));
                    self.refused = true;
                }
            }
        }
        self.partial = match (self.decoder.is_partial() && !self.more && !self.ended, self.partial) {
            // Each frame has its own time: one that was finished meanwhile gives no credit, takes none.
            (true, Some(since)) if heard.is_empty() => Some(since),
            (true, _) => Some(now),
            (false, _) => None,
        };
        if self.hung_up && self.ended && !self.more {
            heard.push(Heard::Gone);
        }
        heard
    }

    fn understand(&mut self, json: &[u8]) -> Heard {
        let refusal = match Request::parse(json) {
            Ok(request) => {
                self.nonsense = 0;
                self.is_known = true;
                return Heard::Request(request);
            }
            Err(refusal) => Reply::from(refusal),
        };
        let is_nonsense = matches!(&refusal.result, Err(error) if error.code == Code::BadJson);
        self.nonsense = if is_nonsense { self.nonsense + 1 } else { 0 };
        self.refused = self.nonsense == NONSENSE_MOST;
        Heard::Refused(refusal)
    }
}
