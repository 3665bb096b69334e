//! Callers: connections in memory, with pieces that arrive one by one, readers that are slow, and some
//! that mean no good. What each honest one is owed is counted. The supervisor's end is in `wire`.

mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::processes::OUTSIDE;
use super::{Deed, World};
use crate::clock;
use crate::control::frame::Decoder;
use crate::os::clock::ticks;
use crate::os::socket::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Speaks the protocol, and reads what it is told.
    Honest,
    /// The same, and reads a little now and then.
    Slow,
    /// Says anything, reads as it likes, goes when it likes.
    Hostile,
}

/// Turns, pieces of a request, and answers that wait for the next turn.
const SLACK: u64 = 500_000_000;

/// What a request was answered with so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Answer,
    /// As many frames as there are, behind the first.
    Frames,
    Nothing,
}

struct Asked {
    method: &'static str,
    owed: Owed,
    /// Where its last byte stands among all that the caller sent.
    ends_at: u64,
    /// When the supervisor had read all of it, and how late the machine was until then.
    heard: Option<(u64, u64)>,
    /// How long it may take.
    patience: Option<Duration>,
}

/// What is looked at of a reply.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    id: Option<u64>,
    error: Option<SaidError>,
    #[serde(default)]
    end: bool,
    /// Of a state.
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub health: String,
    pub pid: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
struct SaidError {
    code: String,
}

pub struct Caller {
    pub manner: Manner,
    is_prefixed: bool,
    peer: Peer,
    /// Not on the wire yet.
    to_send: VecDeque<u8>,
    wire: VecDeque<u8>,
    sent: u64,
    /// Bytes that the supervisor has read.
    heard: u64,
    /// Bytes that the supervisor may write before the reader reads on.
    room: usize,
    decoder: Decoder,
    asked: BTreeMap<u64, Asked>,
    is_let_in: bool,
    /// It will send nothing more.
    has_ended: bool,
    has_left: bool,
    pub is_closed: bool,
    /// It was told that there are too many.
    was_sent_away: bool,
    is_attached: bool,
    /// Something has waited for it to read, and comes in this turn if at all.
    is_behind: bool,
    stale_in: u64,
}

#[derive(Default)]
pub struct Callers {
    pub all: BTreeMap<i32, Caller>,
    door: VecDeque<i32>,
    next: i32,
    next_id: u64,
    /// Requests that have all that they will ever get.
    done: BTreeSet<u64>,
    /// Somebody may have been sent away for lack of descriptors, without a word.
    famine: bool,
    pub answers: u64,
}

impl Callers {
    pub fn is_anybody_at_the_door(&self) -> bool {
        !self.door.is_empty()
    }

    pub fn note_famine(&mut self) {
        self.famine = true;
    }

    pub fn inside(&self) -> usize {
        self.all.values().filter(|caller| caller.is_let_in && !caller.is_closed).count()
    }

    pub fn readiness(&self, number: i32) -> (bool, bool, bool) {
        let Some(caller) = self.all.get(&number) else { return (false, false, true) };
        let hung_up = caller.has_left;
        (!caller.wire.is_empty() || caller.has_ended || hung_up, caller.room > 0, hung_up)
    }

    /// Whoever speaks the protocol, reads, and was not sent away.
    fn good(&self) -> impl Iterator<Item = (&i32, &Caller)> {
        let is_good = |caller: &Caller| {
            caller.manner == Manner::Honest
                && !caller.has_left
                && !caller.was_sent_away
                && !caller.is_attached
        };
        self.all.iter().filter(move |(_, caller)| !self.famine && is_good(caller))
    }

    /// Requests that the supervisor has read and never answered, although it could have been.
    pub fn unanswered(&self) -> Vec<(i32, u64, &'static str)> {
        let mut found = Vec::new();
        for (number, caller) in self.good().filter(|(_, caller)| !caller.is_behind) {
            let owed =
                caller.asked.iter().filter(|(_, asked)| asked.owed == Owed::Answer && asked.heard.is_some());
            found.extend(owed.map(|(id, asked)| (*number, *id, asked.method)));
        }
        found
    }

    /// One that was to be answered before now.
    pub fn overdue(&self, now: u64, late: Duration) -> Option<(i32, &'static str)> {
        let is_late = |asked: &Asked| match (asked.heard, asked.patience) {
            (Some((at, late_then)), Some(patience)) if asked.owed == Owed::Answer => {
                let excuse = clock::nanos(late).saturating_sub(late_then) + SLACK;
                now > at + clock::nanos(patience) + excuse
            }
            _ => false,
        };
        let late =
            |caller: &Caller| caller.asked.values().find(|asked| is_late(asked)).map(|asked| asked.method);
        self.good().find_map(|(number, caller)| late(caller).map(|method| (*number, method)))
    }

    /// Somebody wants the agent to be started again, and has no answer.
    pub fn is_start_asked(&self) -> bool {
        let owed = |asked: &Asked| asked.owed == Owed::Answer && matches!(asked.method, "restart" | "resume");
        self.all.values().any(|caller| caller.asked.values().any(owed))
    }
}

impl World {
    /// Who comes to another supervisor does not come to this one.
    fn can_be_found(&self) -> bool {
        let socket = || self.dir.join("state/supervisor/simulated.sock");
        !self.has_tidied || self.taken.is_none() && socket().exists()
    }

    /// Whoever was not let in will not be.
    pub fn door_is_closed(&mut self) {
        for number in std::mem::take(&mut self.callers.door) {
            self.callers.all.remove(&number);
        }
    }

    fn connects(&mut self, manner: Manner, peer_pid: i32) -> i32 {
        self.callers.next += 1;
        let number = self.callers.next;
        if !self.can_be_found() {
            self.story.event("caller", "finds nobody", i64::from(number));
            return number;
        }
        let own_uid = nix::unistd::geteuid().as_raw();
        let uid = if manner != Manner::Honest && self.rng.once_in(8) { 4321 } else { own_uid };
        let caller = Caller {
            manner,
            is_prefixed: self.rng.once_in(2),
            peer: Peer { pid: peer_pid, uid, gid: uid, since: ticks() },
            to_send: VecDeque::new(),
            wire: VecDeque::new(),
            sent: 0,
            heard: 0,
            room: if manner == Manner::Honest { usize::MAX } else { 4096 },
            decoder: Decoder::for_replies(),
            asked: BTreeMap::new(),
            is_let_in: false,
            has_ended: false,
            has_left: false,
            is_closed: false,
            was_sent_away: false,
            is_attached: false,
            is_behind: false,
            stale_in: 0,
        };
        self.callers.all.insert(number, caller);
        self.callers.door.push_back(number);
        self.story.event("caller", "connects", i64::from(number));
        number
    }

    /// Somebody of the agent's tree says one thing, and goes when it has its answer.
    pub fn calls_once(&mut self, pid: i32, method: &'static str, params: Value) {
        if self.mood.is_init || self.callers.all.len() > 300 {
            return;
        }
        let number = self.connects(Manner::Honest, pid);
        self.asks(number, method, params);
        self.caller_acts(number);
    }

    pub fn somebody_calls(&mut self) {
        if self.mood.is_init {
            return;
        }
        let known: Vec<i32> =
            self.callers.all.iter().filter(|(_, c)| !c.is_closed && !c.has_left).map(|(n, _)| *n).collect();
        if known.len() < 2 || known.len() < 12 && self.rng.once_in(4) {
            let manner = match self.rng.below(6) {
                0 | 1 if self.mood.is_hostile => Manner::Hostile,
                2 => Manner::Slow,
                _ => Manner::Honest,
            };
            let pid = *self.rng.pick(&[OUTSIDE, OUTSIDE, OUTSIDE, 0, 4]);
            self.connects(manner, pid);
            if manner == Manner::Hostile && self.rng.once_in(60) {
                for _ in 0..300 {
                    self.connects(Manner::Hostile, pid);
                }
            }
            return;
        }
        let number = *self.rng.pick(&known);
        let is_attached = self.callers.all[&number].is_attached;
        match self.callers.all[&number].manner {
            _ if is_attached && self.rng.once_in(2) => self.types_elsewhere(number),
            Manner::Hostile if !self.rng.once_in(4) => self.says_anything(number),
            Manner::Honest | Manner::Slow | Manner::Hostile => {
                let (method, params) = self.callers_words();
                self.asks(number, method, params);
            }
        }
        self.caller_acts(number);
        if self.rng.once_in(30) {
            self.leaves(number);
        }
    }

    /// Somebody who is attached, or thinks so.
    fn types_elsewhere(&mut self, number: i32) {
        let keys = self.some_keys();
        let Some(caller) = self.callers.all.get_mut(&number).filter(|caller| caller.is_prefixed) else {
            return;
        };
        caller.to_send.extend((keys.len() as u32 + 1).to_be_bytes());
        caller.to_send.push_back(1);
        caller.to_send.extend(keys);
        self.story.event("caller", "types", i64::from(number));
    }

    pub fn somebody_triggers(&mut self) {
        let thread = format!("thread-{}", self.rng.below(20));
        let number = self.connects(Manner::Honest, OUTSIDE);
        self.asks(number, "trigger", json!({"thread": thread, "text": "look at this", "wait": true}));
        self.caller_acts(number);
    }

    pub fn asks_to_stop(&mut self, graceful: bool) {
        let number = self.connects(Manner::Honest, OUTSIDE);
        self.asks(number, "stop", json!({"graceful": graceful}));
        self.caller_acts(number);
    }

    fn asks(&mut self, number: i32, method: &'static str, params: Value) {
        self.callers.next_id += 1;
        let id = self.callers.next_id;
        let patience = match method {
            "wait" => params["timeout_ms"].as_u64().map(Duration::from_millis),
            "permission.request" | "question.request" => Some(self.mood.permission_timeout),
            "send" | "restart" | "resume" | "stats" | "trigger" => None,
            _ => Some(Duration::ZERO),
        };
        let text = json!({"id": id, "method": method, "params": params}).to_string();
        let Some(caller) = self.callers.all.get_mut(&number) else { return };
        if caller.has_ended || caller.is_closed {
            return;
        }
        match method {
            "attach" => caller.is_attached = true,
            "restart" | "resume" => self.facts.may_start_again(),
            _ => {}
        }
        if caller.is_prefixed {
            caller.to_send.extend((text.len() as u32).to_be_bytes());
            caller.to_send.extend(text.as_bytes());
        } else {
            caller.to_send.extend(text.as_bytes());
            caller.to_send.push_back(b'\n');
        }
        let ends_at = caller.sent + caller.to_send.len() as u64;
        caller.asked.insert(id, Asked { method, owed: Owed::Answer, ends_at, heard: None, patience });
        self.story.event("asks", method, i64::from(number));
    }

    fn says_anything(&mut self, number: i32) {
        let junk: [&[u8]; 9] = [
            b"\n\n\n",
            b"{\"id\":1,\"method\":\"state\",\"par",
            b"{\"id\":[],\"method\":1}\n",
            b"no json at all\n",
            b"\x00\x00\x00\x00",
            b"\x00\xff\xff\xff",
            b"\x00\x00\x00\x05\x01abcd",
            b"\x00\x00\x00\x02{}",
            b"{\"method\":\"send\",\"params\":{\"text\":7}}\n",
        ];
        let text = *self.rng.pick(&junk);
        let flood = if self.rng.once_in(50) { vec![b'['; 70_000] } else { Vec::new() };
        let Some(caller) = self.callers.all.get_mut(&number) else { return };
        caller.to_send.extend(text);
        caller.to_send.extend(flood);
        self.story.event("caller", "nonsense", i64::from(number));
    }

    fn leaves(&mut self, number: i32) {
        let is_half = self.rng.once_in(2);
        let Some(caller) = self.callers.all.get_mut(&number) else { return };
        caller.sent += caller.to_send.len() as u64;
        caller.wire.extend(caller.to_send.drain(..));
        if is_half {
            caller.has_ended = true;
        } else {
            caller.has_left = true;
        }
        self.story.event("caller", if is_half { "has said all" } else { "leaves" }, i64::from(number));
    }

    /// Puts a piece on the wire, reads a piece.
    pub fn caller_acts(&mut self, number: i32) {
        let (pieces, room) = (self.rng.once_in(4), 1 + self.rng.index(8192));
        let pause = self.rng.span(Duration::from_secs(3));
        let Some(caller) = self.callers.all.get_mut(&number).filter(|caller| !caller.is_closed) else {
            return;
        };
        let most = caller.to_send.len();
        let count = if pieces && most > 1 { 1 + self.rng.index(most) } else { most };
        caller.wire.extend(caller.to_send.drain(..count));
        caller.sent += count as u64;
        if caller.manner == Manner::Slow {
            caller.room = room;
        } else if caller.manner == Manner::Hostile && self.rng.once_in(4) {
            caller.room += room;
        }
        if !caller.to_send.is_empty() || caller.manner == Manner::Slow {
            self.agenda.after(pause + Duration::from_millis(1), Deed::Calls(number));
        }
    }
}
