//! The callers: their connections, what they have sent and what is still to be sent to them. Called
//! by `supervisor` when a descriptor is ready; hands requests on and takes replies. Knows nothing of
//! agents. No caller can block, slow or grow it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::access::Role;
use super::frame::{Decoder, Frame, FrameError};
use super::protocol::{Code, Reply, Request};
use super::{BUFFERS_MAX, CALLERS_MAX, HALF_SENT_MAX, PENDING_MAX, STREAM_MAX, UNREAD_MAX};
use crate::os::poll::{Ready, Want};
use crate::os::socket::{Listener, Moved, Peer, Stream};

/// Below this a caller is listened to: one that does not read its answers would only ask for more.
const ASK_ROOM: usize = 64 * 1024;
/// Out of descriptors with nobody to close: the machine may have run out of them, and no event tells
/// that it has some again.
const REST: Duration = Duration::from_secs(1);
/// Answered in one go before the other sources have their turn.
const BATCH: usize = 8;
/// Accepted in one go: to learn who a caller is takes longer than most answers.
const ACCEPTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerId(u64);

pub struct Server {
    listener: Listener,
    most_callers: usize,
    /// Out of descriptors: until then, or until one is closed.
    resting: Option<Instant>,
    callers: BTreeMap<CallerId, Caller>,
    next: u64,
    most: u64,
    dropped: u64,
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
    /// Requests handed on whose answer is still to come, and streams.
    held: usize,
    /// More whole frames may stand in the decoder than were handed on.
    more: bool,
    /// It will send nothing any more; it may still read, as `nc -N` does.
    ended: bool,
    /// Nobody is at the other end.
    hung_up: bool,
    /// Its stream can no longer be trusted: it is closed when it has read why.
    refused: bool,
}

/// What a caller said.
pub enum Heard {
    Request(Request),
    /// To be answered and counted, nothing more.
    Refused(Reply),
    /// Nobody is there to be answered.
    Gone,
}

impl Server {
    /// `descriptors`: how many the process may have open. Some are left for the agent.
    pub fn new(listener: Listener, descriptors: u64) -> Server {
        let spare = usize::try_from(descriptors.saturating_sub(32)).unwrap_or(CALLERS_MAX);
        Server {
            listener,
            most_callers: spare.clamp(4, CALLERS_MAX),
            resting: None,
            callers: BTreeMap::new(),
            next: 0,
            most: 0,
            dropped: 0,
        }
    }

    pub fn callers(&self) -> u64 {
        self.callers.len() as u64
    }

    /// The most there were at once.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Closed by us: slow readers, half-sent frames, the limit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.resting.is_none().then(|| self.listener.as_fd())
    }

    pub fn sources(&self) -> impl Iterator<Item = (CallerId, BorrowedFd<'_>, Want)> {
        self.callers.iter().map(|(id, caller)| {
            let want = match (caller.is_listened_to(), caller.out.is_empty()) {
                (true, true) => Want::Read,
                (true, false) => Want::Both,
                (false, false) => Want::Write,
                (false, true) => Want::HangUp,
            };
            (*id, caller.stream.as_fd(), want)
        })
    }

    pub fn deadline(&self) -> Option<Instant> {
        let half_sent =
            self.callers.values().filter_map(|c| c.partial).min().map(|since| since + HALF_SENT_MAX);
        half_sent.into_iter().chain(self.resting).min()
    }

    /// Something in the process may have closed a descriptor, or enough time has passed.
    pub fn stop_resting(&mut self) {
        self.resting = None;
    }

    pub fn is_rested(&self, now: Instant) -> bool {
        self.resting.is_some_and(|until| now >= until)
    }

    /// Callers that wait at the door. At the limit the longest-silent one without a request goes.
    pub fn accept(&mut self, now: Instant, role: impl Fn(Peer) -> Role) {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok(Some((stream, peer))) => {
                    if self.callers.len() >= self.most_callers {
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
                        held: 0,
                        more: false,
                        ended: false,
                        hung_up: false,
                        refused: false,
                    };
                    self.callers.insert(CallerId(self.next), caller);
                    self.most = self.most.max(self.callers());
                }
                Ok(None) => return,
                Err(_) => {
                    // EMFILE, ENFILE, ENOMEM: somebody silent makes room, else the listener rests.
                    if !self.close_most_silent() {
                        self.resting = Some(now + REST);
                    }
                    return;
                }
            }
        }
    }

    /// One that waits for an answer goes only when everybody does.
    fn close_most_silent(&mut self) -> bool {
        let most_silent = self.callers.iter().min_by_key(|(_, c)| (c.held > 0, c.heard)).map(|(id, _)| *id);
        if let Some(id) = most_silent {
            // As far as it can be told without waiting.
            self.reply(id, &Reply::error(None, Code::TooMany, "there are too many callers"));
            self.drop_caller(id);
        }
        most_silent.is_some()
    }

    fn drop_caller(&mut self, id: CallerId) {
        self.dropped += 1;
        self.forget(id);
    }

    pub fn forget(&mut self, id: CallerId) {
        self.callers.remove(&id);
        self.stop_resting();
    }

    /// What a ready caller has said.
    pub fn on_ready(&mut self, id: CallerId, ready: Ready, now: Instant) -> Vec<Heard> {
        if ready.write {
            self.flush(id);
        }
        let Some(caller) = self.callers.get_mut(&id) else { return vec![Heard::Gone] };
        caller.hung_up |= ready.hung_up;
        if ready.read && caller.is_listened_to() {
            let mut buffer = [0u8; 16 * 1024];
            match caller.stream.read(&mut buffer) {
                Moved::Bytes(n) => {
                    caller.decoder.push(&buffer[..n]);
                    caller.heard = now;
                }
                Moved::Nothing => {}
                Moved::Closed => caller.ended = true,
            }
        } else if caller.hung_up {
            // What it may have sent beside is not worth a busy loop.
            caller.ended = true;
        }
        caller.take_frames(now)
    }

    /// Callers with frames that were left for another turn.
    pub fn with_more(&self) -> impl Iterator<Item = CallerId> {
        self.callers.iter().filter(|(_, c)| c.more).map(|(id, _)| *id)
    }

    pub fn take_more(&mut self, id: CallerId, now: Instant) -> Vec<Heard> {
        self.callers.get_mut(&id).map(|c| c.take_frames(now)).unwrap_or_default()
    }

    pub fn role(&self, id: CallerId) -> Option<(Role, Peer)> {
        self.callers.get(&id).map(|c| (c.role, c.peer))
    }

    /// An answer will come later, so the caller does not count as silent. False: it waits for too
    /// much already.
    pub fn hold(&mut self, id: CallerId) -> bool {
        match self.callers.get_mut(&id) {
            Some(caller) if caller.held < PENDING_MAX => {
                caller.held += 1;
                true
            }
            _ => false,
        }
    }

    pub fn release(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.held = caller.held.saturating_sub(1);
        }
        self.close_if_done(id);
    }

    pub fn is_here(&self, id: CallerId) -> bool {
        self.callers.contains_key(&id)
    }

    /// Whether a stream may be fed.
    pub fn has_room(&self, id: CallerId) -> bool {
        self.callers.get(&id).is_some_and(|c| c.out.len() < STREAM_MAX && !c.refused)
    }

    pub fn reply(&mut self, id: CallerId, reply: &Reply) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        let framing = caller.decoder.framing().unwrap_or_default();
        caller.out.extend(reply.to_frame(framing));
        self.flush(id);
        if self.callers.get(&id).is_some_and(|caller| caller.out.len() > UNREAD_MAX) {
            // It asks and does not read.
            self.drop_caller(id);
        }
        while self.memory() > BUFFERS_MAX
            && let Some(largest) = self.callers.iter().max_by_key(|(_, c)| c.memory()).map(|(id, _)| *id)
        {
            self.drop_caller(largest);
        }
    }

    fn memory(&self) -> usize {
        self.callers.values().map(Caller::memory).sum()
    }

    /// A frame that was begun too long ago, and any other stream that cannot be trusted.
    pub fn refuse(&mut self, id: CallerId, reply: &Reply) {
        self.dropped += 1;
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.refused = true;
            caller.partial = None;
        }
        self.reply(id, reply);
        self.close_if_done(id);
    }

    /// Closes a caller that will not speak any more and has all its answers.
    pub fn close_if_done(&mut self, id: CallerId) {
        let done = |c: &Caller| c.out.is_empty() && !c.more && (c.refused || c.ended && c.held == 0);
        if self.callers.get(&id).is_some_and(done) {
            self.forget(id);
        }
    }

    fn flush(&mut self, id: CallerId) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        while !caller.out.is_empty() {
            let (front, _) = caller.out.as_slices();
            match caller.stream.write(front) {
                Moved::Bytes(n) => drop(caller.out.drain(..n)),
                Moved::Nothing => return,
                Moved::Closed => return self.forget(id),
            }
        }
        caller.out.shrink_to(4096);
        self.close_if_done(id);
    }

    /// Frames that were begun too long ago.
    pub fn overdue(&self, now: Instant) -> Vec<CallerId> {
        let late = |c: &Caller| c.partial.is_some_and(|since| now >= since + HALF_SENT_MAX);
        self.callers.iter().filter(|(_, c)| late(c)).map(|(id, _)| *id).collect()
    }

    pub fn is_flushed(&self) -> bool {
        self.callers.values().all(|c| c.out.is_empty())
    }
}

impl Caller {
    fn is_listened_to(&self) -> bool {
        !self.ended && !self.refused && !self.more && self.out.len() < ASK_ROOM
    }

    fn memory(&self) -> usize {
        self.out.capacity() + self.decoder.memory()
    }

    fn take_frames(&mut self, now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        self.more = false;
        while !self.refused {
            if heard.len() == BATCH {
                self.more = true;
                break;
            }
            match if self.ended { self.decoder.finish() } else { self.decoder.next() } {
                Ok(Some(Frame::Json(json))) => heard.push(match Request::parse(&json) {
                    Ok(request) => Heard::Request(request),
                    Err(refusal) => Heard::Refused(Reply::from(refusal)),
                }),
                Ok(Some(Frame::Raw(_))) => heard.push(Heard::Refused(Reply::error(
                    None,
                    Code::Unsupported,
                    "terminal bytes are for `attach`, which is not built yet",
                ))),
                Ok(None) => break,
                Err(error) => {
                    heard.push(Heard::Refused(refusal(error)));
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
}

pub fn refusal(error: FrameError) -> Reply {
    Reply { id: None, result: Err(error.into()) }
}
