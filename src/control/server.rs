//! The callers: their connections, what they have sent and what is still to be sent to them. Called
//! by `supervisor` when a descriptor is ready; hands requests on and takes replies. Knows nothing of
//! agents. No caller can block, slow or grow it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::access::Role;
pub use super::caller::Heard;
use super::caller::{Caller, Written};
use super::door::Door;
use super::frame::Framing;
use super::protocol::{Code, Reply};
use super::{BUFFERS_MAX, CALLERS_MAX, HALF_SENT_MAX, PENDING_MAX, STREAM_MAX, UNREAD_MAX};
use crate::os::poll::{Ready, Want};
use crate::os::socket::{Listener, Peer, PeerLife};
use crate::sorted::Sorted;

/// Out of descriptors with nobody to close: the machine may have run out of them, and no event tells
/// that it has some again.
const REST: Duration = Duration::from_secs(1);
/// Answers of one turn are gathered up to here and sent together.
const GATHERED: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerId(u64);

pub struct Server {
    listener: Listener,
    most_callers: usize,
    /// Out of descriptors: until then, or until one is closed.
    resting: Option<Instant>,
    door: Door,
    callers: Sorted<CallerId, Caller>,
    /// Callers with answers that [`send_gathered`](Server::send_gathered) is to send.
    answered: Vec<CallerId>,
    /// What all callers' buffers hold.
    memory: usize,
    /// Who has its turn first.
    first: CallerId,
    next: u64,
    most: u64,
    dropped: u64,
}

impl Server {
    /// `descriptors`: how many the process may have open. Some are left for the agent.
    pub fn new(listener: Listener, descriptors: u64) -> Server {
        let spare = usize::try_from(descriptors.saturating_sub(32)).unwrap_or(CALLERS_MAX);
        Server {
            listener,
            most_callers: spare.clamp(4, CALLERS_MAX),
            resting: None,
            door: Door::new(),
            callers: Sorted::new(),
            answered: Vec::new(),
            memory: 0,
            first: CallerId(0),
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
        let is_open = self.resting.is_none() && self.serves_strangers();
        is_open.then(|| self.listener.as_fd())
    }

    /// Whether those who look for it find it.
    pub fn stands(&self) -> bool {
        self.listener.stands()
    }

    /// Whoever is in already stays.
    pub fn listen_on(&mut self, listener: Listener) {
        self.listener = listener;
    }

    pub fn sources(&self) -> impl Iterator<Item = (CallerId, BorrowedFd<'_>, Want)> {
        // Not even for their hang-ups, which would be told at once, again and again.
        let are_served = |caller: &Caller| caller.is_known || self.serves_strangers();
        self.callers
            .iter_from(&self.first)
            .filter(move |(_, caller)| are_served(caller))
            .map(|(id, caller)| (*id, caller.stream.as_fd(), caller.wants()))
    }

    pub fn deadline(&self) -> Option<Instant> {
        let half_sent =
            self.callers.values().filter_map(|c| c.partial).min().map(|since| since + HALF_SENT_MAX);
        half_sent.into_iter().chain(self.resting).chain(self.door.opens_at()).min()
    }

    /// Something in the process may have closed a descriptor, or enough time has passed.
    pub fn stop_resting(&mut self) {
        self.resting = None;
    }

    /// The time has come to listen for new callers again.
    pub fn open_if_due(&mut self, now: Instant) {
        self.door.open_if_due(now);
        if self.resting.is_some_and(|until| now >= until) {
            self.stop_resting();
        }
    }

    /// One that has made no request yet: serving it is a stranger's time.
    pub fn is_stranger(&self, id: CallerId) -> bool {
        self.callers.get(&id).is_none_or(|caller| !caller.is_known)
    }

    pub fn serves_strangers(&self) -> bool {
        self.door.opens_at().is_none()
    }

    /// A stranger was served, and that took so much of the processor's time.
    pub fn spend(&mut self, taken: Duration, now: Instant) {
        self.door.spend(taken, now);
    }

    /// The next caller that waits at the door. At the limit the longest-silent one without a request
    /// goes.
    pub fn accept(&mut self, now: Instant) -> Option<CallerId> {
        match self.listener.accept() {
            Ok(Some((stream, peer))) => {
                if self.callers.len() >= self.most_callers {
                    self.close_most_silent();
                }
                self.next += 1;
                let id = CallerId(self.next);
                self.callers.insert(id, Caller::new(stream, peer, now));
                self.most = self.most.max(self.callers());
                Some(id)
            }
            Ok(None) => None,
            Err(_) => {
                // EMFILE, ENFILE, ENOMEM: somebody silent makes room, else the listener rests.
                if !self.close_most_silent() {
                    self.resting = Some(now + REST);
                }
                None
            }
        }
    }

    /// One that has made no request goes before one that has, one that does not read before one that
    /// does, one that waits for an answer after those; and last somebody who is attached, however long
    /// the keys were left alone.
    fn close_most_silent(&mut self) -> bool {
        let worth = |c: &Caller| (c.is_known, c.attached, c.out.is_empty(), c.held > 0, c.heard);
        let most_silent = self.callers.iter().min_by_key(|(_, c)| worth(c)).map(|(id, _)| *id);
        if let Some(id) = most_silent {
            // As far as it can be told without waiting.
            self.reply(id, &Reply::error(None, Code::TooMany, "there are too many callers"));
            self.flush(id);
            self.drop_caller(id);
        }
        most_silent.is_some()
    }

    /// One that does not read, or holds too much.
    pub fn drop_caller(&mut self, id: CallerId) {
        self.dropped += 1;
        self.forget(id);
    }

    pub fn forget(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.remove(&id) {
            self.memory -= caller.counted;
        }
        self.stop_resting();
    }

    /// The time of this turn is over: it is as ready in the next one, and comes first there.
    pub fn put_off(&mut self, id: CallerId) {
        self.first = id;
    }

    /// What a ready caller has said.
    pub fn on_ready(&mut self, id: CallerId, ready: Ready, now: Instant) -> Vec<Heard> {
        if ready.write {
            self.flush(id);
        }
        let Some(caller) = self.callers.get_mut(&id) else { return vec![Heard::Gone] };
        caller.read(ready, now);
        let heard = caller.take_frames(now);
        self.count(id);
        heard
    }

    /// Callers with frames that were left for another turn.
    pub fn with_more(&self) -> impl Iterator<Item = CallerId> {
        self.callers.iter().filter(|(_, c)| c.more).map(|(id, _)| *id)
    }

    pub fn take_more(&mut self, id: CallerId, now: Instant) -> Vec<Heard> {
        self.callers.get_mut(&id).map(|c| c.take_frames(now)).unwrap_or_default()
    }

    pub fn peer(&self, id: CallerId) -> Option<Peer> {
        self.callers.get(&id).map(|c| c.peer)
    }

    /// Once it is known.
    pub fn role(&self, id: CallerId) -> Option<Role> {
        self.callers.get(&id)?.role
    }

    pub fn find_role(&mut self, id: CallerId, find: impl FnOnce(Peer, PeerLife) -> Role) -> Option<Role> {
        let caller = self.callers.get_mut(&id)?;
        caller.role = Some(find(caller.peer, caller.stream.peer_life()));
        caller.role
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

    pub fn framing(&self, id: CallerId) -> Option<Framing> {
        self.callers.get(&id)?.decoder.framing()
    }

    /// Terminal bytes go both ways from here on. False: it waits for too much already.
    pub fn attach(&mut self, id: CallerId) -> bool {
        let is_held = self.hold(id);
        if let Some(caller) = self.callers.get_mut(&id).filter(|_| is_held) {
            caller.attached = true;
        }
        is_held
    }

    pub fn detach(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            (caller.attached, caller.is_put_off) = (false, false);
        }
        self.release(id);
    }

    /// Whether what an attached caller types is left where it is for now.
    pub fn put_typing_off(&mut self, id: CallerId, is_put_off: bool) {
        if let Some(caller) = self.callers.get_mut(&id) {
            caller.is_put_off = is_put_off && caller.attached;
            if caller.is_put_off {
                // A frame that stands half sent does so because of us.
                caller.partial = None;
            }
        }
    }

    /// Bytes that wait for it, and bytes that it has ever taken.
    pub fn queue(&self, id: CallerId) -> (usize, u64) {
        self.callers.get(&id).map_or((0, 0), |caller| (caller.out.len(), caller.taken))
    }

    /// Frames of terminal bytes, sent with the turn's answers. How many may wait is the caller's affair
    /// that makes them.
    pub fn send_raw(&mut self, id: CallerId, frames: &[u8]) {
        let Some(caller) = self.callers.get_mut(&id).filter(|caller| !caller.refused) else { return };
        if caller.out.is_empty() {
            self.answered.push(id);
        }
        caller.out.extend(frames);
        if caller.out.len() >= GATHERED {
            self.flush(id);
        }
        self.count(id);
    }

    pub fn is_here(&self, id: CallerId) -> bool {
        self.callers.contains_key(&id)
    }

    /// Whether a stream may be fed.
    pub fn has_room(&self, id: CallerId) -> bool {
        self.callers.get(&id).is_some_and(|c| c.out.len() < STREAM_MAX && !c.refused)
    }

    /// Sent with the turn's other answers by [`send_gathered`](Server::send_gathered).
    pub fn reply(&mut self, id: CallerId, reply: &Reply) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        if caller.out.is_empty() {
            self.answered.push(id);
        }
        let framing = caller.decoder.framing().unwrap_or_default();
        caller.out.extend(reply.to_frame(framing));
        if caller.out.len() >= GATHERED {
            self.flush(id);
        }
        if self.callers.get(&id).is_some_and(|caller| caller.out.len() > UNREAD_MAX) {
            // It asks and does not read.
            self.drop_caller(id);
        }
        self.count(id);
    }

    pub fn send_gathered(&mut self) {
        for id in std::mem::take(&mut self.answered) {
            self.flush(id);
            self.count(id);
        }
    }

    /// Call it whenever a caller's buffers may have grown: whoever holds most goes when all hold too
    /// much.
    fn count(&mut self, id: CallerId) {
        if let Some(caller) = self.callers.get_mut(&id) {
            self.memory -= caller.counted;
            caller.counted = caller.memory();
            self.memory += caller.counted;
        }
        while self.memory > BUFFERS_MAX
            && let Some(largest) = self.callers.iter().max_by_key(|(_, c)| c.counted).map(|(id, _)| *id)
        {
            self.drop_caller(largest);
        }
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
        match caller.write() {
            Written::All => self.close_if_done(id),
            Written::Part => {}
            Written::Never => self.forget(id),
        }
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
