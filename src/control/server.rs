//! The callers: their connections, what they have sent and what is still to be sent to them. Called
//! by `supervisor` when a descriptor is ready; hands requests on and takes replies. Knows nothing of
//! agents. No caller can block, slow or grow it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::access::Role;
use super::frame::{Decoder, Frame, FrameError, Framing};
use super::protocol::{Error, Reply, Request};
use crate::os::poll::{Ready, Want};
use crate::os::socket::{Listener, Moved, Peer, Stream};

pub const MOST_CALLERS: usize = 256;
/// Of one caller: a reply is at most 1 MiB, and one more may be waiting behind it.
const OUT_MOST: usize = 2 * 1024 * 1024;
/// Of all callers together.
const MEMORY_MOST: usize = 8 * 1024 * 1024;
/// Below this a stream is fed: enough to keep a reader busy.
const STREAM_ROOM: usize = 32 * 1024;
/// A frame that was begun must be finished by then.
const HALF_SENT: Duration = Duration::from_secs(10);
/// Accepted, or answered, in one go before the other sources have their turn.
const BATCH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerId(u64);

pub struct Server {
    listener: Listener,
    /// Out of descriptors: rests until one is closed.
    resting: bool,
    callers: BTreeMap<CallerId, Caller>,
    next: u64,
    pub most: u64,
    pub dropped: u64,
}

struct Caller {
    stream: Stream,
    peer: Peer,
    role: Role,
    decoder: Decoder,
    out: VecDeque<u8>,
    heard: Instant,
    /// Since when a frame stands half sent.
    partial: Option<Instant>,
    /// Requests handed on whose answer is still to come, or a stream.
    pending: usize,
    /// No more is read; it ends when `out` is empty.
    closing: bool,
    /// More whole frames may stand in the decoder than were handed on.
    more: bool,
}

/// What a caller said.
pub enum Heard {
    Request(Request),
    /// To be answered and counted, nothing more.
    Refused(Reply),
    /// It has closed its side, or broke off.
    Gone,
}

impl Server {
    pub fn new(listener: Listener) -> Server {
        Server { listener, resting: false, callers: BTreeMap::new(), next: 0, most: 0, dropped: 0 }
    }

    pub fn len(&self) -> usize {
        self.callers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        (!self.resting).then(|| self.listener.as_fd())
    }

    pub fn sources(&self) -> impl Iterator<Item = (CallerId, BorrowedFd<'_>, Want)> {
        self.callers.iter().filter_map(|(id, caller)| {
            // A caller with a lot to read is not listened to: it would only ask for more.
            let reads = !caller.closing && caller.out.len() < OUT_MOST / 2;
            let want = match (reads, caller.out.is_empty()) {
                (true, true) => Want::Read,
                (true, false) => Want::Both,
                (false, false) => Want::Write,
                (false, true) => return None,
            };
            Some((*id, caller.stream.as_fd(), want))
        })
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.callers.values().filter_map(|c| c.partial).min().map(|since| since + HALF_SENT)
    }

    /// Callers that wait at the door. At the limit the longest-silent one without a request goes.
    pub fn accept(&mut self, now: Instant, role: impl Fn(Peer) -> Role) {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok(Some((stream, peer))) => {
                    if self.callers.len() >= MOST_CALLERS {
                        self.close_most_silent();
                    }
                    self.next += 1;
                    let caller = Caller {
                        role: role(peer),
                        stream,
                        peer,
                        decoder: Decoder::for_requests(),
                        out: VecDeque::new(),
                        heard: now,
                        partial: None,
                        pending: 0,
                        closing: false,
                        more: false,
                    };
                    self.callers.insert(CallerId(self.next), caller);
                    self.most = self.most.max(self.callers.len() as u64);
                }
                Ok(None) => return,
                Err(_) => {
                    // EMFILE, ENFILE, ENOMEM: somebody silent makes room, else the listener rests.
                    self.resting = !self.close_most_silent();
                    return;
                }
            }
        }
    }

    fn close_most_silent(&mut self) -> bool {
        let silent = self.callers.iter().filter(|(_, c)| c.pending == 0).min_by_key(|(_, c)| c.heard);
        let busiest = || self.callers.iter().min_by_key(|(_, c)| c.heard);
        match silent.or_else(busiest).map(|(id, _)| *id) {
            Some(id) => {
                self.drop_caller(id);
                true
            }
            None => false,
        }
    }

    fn drop_caller(&mut self, id: CallerId) {
        self.dropped += 1;
        self.remove(id);
    }

    fn remove(&mut self, id: CallerId) {
        self.callers.remove(&id);
        self.resting = false;
    }

    /// What a ready caller has said. Call it again while `has_more`.
    pub fn on_ready(&mut self, id: CallerId, ready: Ready, now: Instant) -> Vec<Heard> {
        if ready.write {
            self.flush(id);
        }
        let Some(caller) = self.callers.get_mut(&id) else { return vec![Heard::Gone] };
        let mut ended = false;
        if ready.read && !caller.closing {
            let mut buffer = [0u8; 16 * 1024];
            match caller.stream.read(&mut buffer) {
                Moved::Bytes(n) => {
                    caller.decoder.push(&buffer[..n]);
                    caller.heard = now;
                }
                Moved::Nothing => {}
                Moved::Closed => ended = true,
            }
        }
        let mut heard = caller.take_frames(ended, now);
        if ended {
            heard.push(Heard::Gone);
        }
        heard
    }

    /// Frames that were left for another turn.
    pub fn with_more(&self) -> Vec<CallerId> {
        self.callers.iter().filter(|(_, c)| c.more).map(|(id, _)| *id).collect()
    }

    pub fn take_more(&mut self, id: CallerId, now: Instant) -> Vec<Heard> {
        self.callers.get_mut(&id).map(|c| c.take_frames(false, now)).unwrap_or_default()
    }

    pub fn role(&self, id: CallerId) -> Option<(Role, Peer)> {
        self.callers.get(&id).map(|c| (c.role, c.peer))
    }

    /// An answer will come later, so the caller does not count as silent.
    pub fn hold(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.pending += 1;
        }
    }

    pub fn release(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.pending = caller.pending.saturating_sub(1);
        }
    }

    pub fn is_here(&self, id: CallerId) -> bool {
        self.callers.contains_key(&id)
    }

    /// Whether a stream may be fed.
    pub fn has_room(&self, id: CallerId) -> bool {
        self.callers.get(&id).is_some_and(|c| c.out.len() < STREAM_ROOM && !c.closing)
    }

    pub fn reply(&mut self, id: CallerId, reply: &Reply) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        let framing = caller.decoder.framing().unwrap_or(Framing::Lines);
        caller.out.extend(reply.to_frame(framing));
        if caller.out.len() > OUT_MOST {
            // It asks and does not read.
            self.drop_caller(id);
            return;
        }
        self.flush(id);
        if self.memory() > MEMORY_MOST
            && let Some(largest) = self.callers.iter().max_by_key(|(_, c)| c.out.len()).map(|(id, _)| *id)
        {
            self.drop_caller(largest);
        }
    }

    fn memory(&self) -> usize {
        self.callers.values().map(|c| c.out.len() + c.decoder.memory()).sum()
    }

    /// The stream can no longer be trusted, or the caller has gone.
    pub fn close_when_told(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.closing = true;
            if caller.out.is_empty() {
                self.remove(id);
            }
        }
    }

    fn flush(&mut self, id: CallerId) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        while !caller.out.is_empty() {
            let (front, _) = caller.out.as_slices();
            match caller.stream.write(front) {
                Moved::Bytes(n) => drop(caller.out.drain(..n)),
                Moved::Nothing => return,
                Moved::Closed => return self.remove(id),
            }
        }
        caller.out.shrink_to(4096);
        if caller.closing {
            self.remove(id);
        }
    }

    /// Frames that were begun too long ago.
    pub fn overdue(&self, now: Instant) -> Vec<CallerId> {
        let late = |c: &Caller| c.partial.is_some_and(|since| now >= since + HALF_SENT);
        self.callers.iter().filter(|(_, c)| late(c)).map(|(id, _)| *id).collect()
    }

    pub fn is_flushed(&self) -> bool {
        self.callers.values().all(|c| c.out.is_empty())
    }
}

impl Caller {
    fn take_frames(&mut self, ended: bool, now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        self.more = false;
        loop {
            if heard.len() == BATCH && !ended {
                self.more = true;
                break;
            }
            let frame = if ended { self.decoder.finish() } else { self.decoder.next() };
            match frame {
                Ok(Some(Frame::Json(json))) => heard.push(match Request::parse(&json) {
                    Ok(request) => Heard::Request(request),
                    Err(refusal) => Heard::Refused(Reply::from(refusal)),
                }),
                Ok(Some(Frame::Raw(_))) => heard.push(Heard::Refused(Reply::error(
                    None,
                    super::protocol::Code::Unsupported,
                    "terminal bytes are for `attach`, which is not built yet",
                ))),
                Ok(None) => break,
                Err(error) => {
                    heard.push(Heard::Refused(refusal(error)));
                    self.closing = true;
                    break;
                }
            }
        }
        self.partial = match (self.decoder.is_partial() && !self.more, self.partial) {
            (true, None) => Some(now),
            (true, since) => since,
            (false, _) => None,
        };
        heard
    }
}

fn refusal(error: FrameError) -> Reply {
    Reply { id: None, result: Err(Error::new(error.code(), error.to_string())) }
}
