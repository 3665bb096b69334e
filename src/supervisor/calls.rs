//! Callers on the control socket: who they are let in as, what they say, and who is answered when.
//! What a method does is in `methods`, what is waited for in `waits`.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use super::denials::{Denials, Kind};
use super::settings::{CannotStart, Settings, SocketSettings};
use super::streams::{Files, Stream};
use super::transcript::{Reading, Transcripts};
use super::waits::{ForWhat, Waiting};
use super::{Charge, Supervisor, kin, streams};
use crate::control::access::Role;
use crate::control::protocol::{self, Body, Code, Error, Id, Reply, Request};
use crate::control::server::{CallerId, Heard, Server};
use crate::os::clock;
use crate::os::poll::{Ready, Sources};
use crate::os::procfs;
use crate::os::socket::{Listener, Peer, is_out_of_descriptors};
use crate::policy::life::Event;
use crate::sorted::Sorted;

/// How long callers may hold up the end by not reading their last answers.
pub(super) const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// Let in at one go: whoever is in already does not wait for a storm at the door.
const ACCEPTS: usize = 16;
/// A directory on the way to the socket, as [`let_group_in`] leaves it.
const FOR_ONE_GROUP: u32 = 0o750;
const FOR_MORE_GROUPS: u32 = 0o751;
/// Requests that were none.
const INVALID: &str = "invalid";

pub(super) struct Calls {
    pub(super) server: Server,
    pub(super) streams: Vec<Stream>,
    pub(super) transcripts: Transcripts,
    pub(super) waiting: Vec<Waiting>,
    pub(super) counts: Sorted<&'static str, protocol::Calls>,
    denials: Denials,
    /// Somebody was put off in this turn.
    put_off: bool,
    /// The files that streams read from, each open once.
    pub(super) files: Files,
}

/// What a request leads to.
pub(super) enum Answer {
    Now(Body),
    Later(ForWhat, Option<Instant>),
    Stream(Stream),
    Transcript(Box<Reading>),
    /// The caller is answered before anything stops.
    AndThen(Body, Event),
}

pub(super) type Answered = Result<Answer, Error>;

pub(super) fn refuse(code: Code, message: impl Into<String>) -> Answered {
    Err(Error::new(code, message))
}

impl Calls {
    /// Call it as the owner of the session's lock: a socket that lies there is nobody's.
    pub(super) fn open(settings: &Settings, socket: &SocketSettings) -> Result<Calls, CannotStart> {
        let listener = listen(settings, socket)?;
        let descriptors = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        let descriptors = descriptors.map_or(1024, |(soft, _)| soft);
        Ok(Calls {
            server: Server::new(listener, descriptors),
            streams: Vec::new(),
            transcripts: Transcripts::default(),
            waiting: Vec::new(),
            counts: Sorted::new(),
            denials: Denials::default(),
            put_off: false,
            files: Files::default(),
        })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.server.with_more().next().is_some() || self.transcripts.is_due(&self.server) {
            return Some(Instant::now());
        }
        let waits = self.waiting.iter().filter_map(|w| w.until);
        waits.chain(self.server.deadline()).chain(self.denials.deadline()).min()
    }

    pub(super) fn answer(
        &mut self,
        caller: CallerId,
        id: Option<Id>,
        method: &'static str,
        result: Result<Body, Error>,
    ) {
        let count = self.counts.entry(method).or_default();
        match &result {
            Ok(_) => count.ok += 1,
            Err(_) => count.error += 1,
        }
        self.server.reply(caller, &Reply { id, result });
    }

    fn forget(&mut self, caller: CallerId) {
        self.waiting.retain(|w| w.caller != caller);
        self.streams.retain(|s| s.caller != caller);
        self.transcripts.forget(caller);
        self.server.forget(caller);
    }
}

impl Supervisor {
    pub(super) fn on_listener(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(calls) = &mut self.calls else { return };
            // Shut by what the last one cost.
            if calls.server.listener().is_none() {
                return;
            }
            let Some(caller) = calls.server.accept(Instant::now()) else { return };
            // One that has spoken already is heard, one that has gone already forgotten, at once.
            self.on_caller(caller, Ready { read: true, write: false, hung_up: false });
        }
    }

    pub(super) fn on_caller(&mut self, caller: CallerId, ready: Ready) {
        let Some(calls) = &mut self.calls else { return };
        let now = Instant::now();
        if !calls.server.is_stranger(caller) {
            let heard = calls.server.on_ready(caller, ready, now);
            return self.on_heard(caller, heard);
        }
        if !calls.server.serves_strangers() {
            // Others took the time of this turn. It is as ready when the door opens again.
            return;
        }
        let began = clock::own_cpu_time();
        let heard = calls.server.on_ready(caller, ready, now);
        calls.server.spend(clock::own_cpu_time().saturating_sub(began), now);
        self.on_heard(caller, heard);
    }

    /// The first that is put off in a turn has the first place in the next.
    pub(super) fn put_off(&mut self, caller: CallerId) {
        if let Some(calls) = self.calls.as_mut().filter(|calls| !calls.put_off) {
            calls.put_off = true;
            calls.server.put_off(caller);
        }
    }

    pub(super) fn send_answers(&mut self) {
        if let Some(calls) = &mut self.calls {
            calls.server.send_gathered();
        }
    }

    /// What no readiness tells: frames that were left over, frames that never got finished.
    pub(super) fn serve_callers(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        let now = Instant::now();
        calls.server.open_if_due(now);
        calls.put_off = false;
        for event in calls.denials.due(Some(now)) {
            self.log.record(event);
        }
        for caller in calls.server.overdue(now) {
            let error = Error::new(Code::BadFrame, "the frame was begun and not finished within 10 seconds");
            calls.counts.entry(INVALID).or_default().error += 1;
            calls.server.refuse(caller, &Reply { id: None, result: Err(error) });
        }
        let with_more: Vec<CallerId> = calls.server.with_more().collect();
        for caller in with_more {
            if Instant::now() >= self.turn_ends {
                return;
            }
            let Some(calls) = &mut self.calls else { return };
            let heard = calls.server.take_more(caller, now);
            self.on_heard(caller, heard);
        }
    }

    fn on_heard(&mut self, caller: CallerId, heard: Vec<Heard>) {
        for heard in heard {
            match (heard, &mut self.calls) {
                (Heard::Request(request), _) => self.on_request(caller, request),
                (Heard::Typed(bytes), _) => self.on_viewer_typed(caller, &bytes),
                (Heard::Refused(reply), Some(calls)) => {
                    calls.counts.entry(INVALID).or_default().error += 1;
                    calls.server.reply(caller, &reply);
                }
                (Heard::Gone, Some(calls)) => calls.forget(caller),
                (_, None) => {}
            }
        }
        if let Some(calls) = &mut self.calls {
            calls.server.close_if_done(caller);
        }
    }

    fn on_request(&mut self, caller: CallerId, Request { id, call }: Request) {
        let Some(peer) = self.calls.as_ref().and_then(|c| c.server.peer(caller)) else { return };
        if !self.events.is_empty() {
            // An answer is about what has happened, all of it: not that the agent has gone and still runs.
            self.settle();
        }
        let method = call.method();
        let answered = match self.denied_as(method, caller) {
            None => self.call(call, caller, &id, peer),
            Some(role) => self.deny(method, role, peer),
        };
        let Some(calls) = &mut self.calls else { return };
        match answered {
            Ok(Answer::Now(body)) => calls.answer(caller, id, method, Ok(body)),
            Ok(Answer::AndThen(body, event)) => {
                calls.answer(caller, id, method, Ok(body));
                self.events.push_back(event);
            }
            Ok(Answer::Later(..) | Answer::Stream(_) | Answer::Transcript(_))
                if !calls.server.hold(caller) =>
            {
                let error =
                    Error::new(Code::TooMany, "too many answers are still to come for this connection");
                calls.answer(caller, id, method, Err(error));
            }
            Ok(Answer::Later(for_what, until)) => {
                calls.waiting.push(Waiting { caller, id, method, for_what, until });
            }
            Ok(Answer::Stream(stream)) => {
                let start = streams::start(&self.log, self.tally.started_epoch);
                calls.answer(caller, id, method, Ok(Body::Stream(start)));
                calls.streams.push(stream);
            }
            Ok(Answer::Transcript(reading)) => {
                let start = streams::start(&self.log, self.tally.started_epoch);
                calls.answer(caller, id, method, Ok(Body::Stream(start)));
                calls.transcripts.add(*reading);
            }
            Err(error) => calls.answer(caller, id, method, Err(error)),
        }
    }

    /// The role of a caller that may not.
    fn denied_as(&mut self, method: &str, caller: CallerId) -> Option<Role> {
        if Role::all_may(method) {
            return None;
        }
        let (Some(calls), Charge::Run(session)) = (&mut self.calls, &self.charge) else { return None };
        let role = match calls.server.role(caller) {
            Some(role) => role,
            None => {
                let began = clock::own_cpu_time();
                let find = |peer, life| kin::role_of(peer, life, &session.settings);
                let role = calls.server.find_role(caller, find)?;
                calls.server.spend(clock::own_cpu_time().saturating_sub(began), Instant::now());
                role
            }
        };
        (!role.may(method)).then_some(role)
    }

    pub(super) fn deny(&mut self, method: &'static str, role: Role, peer: Peer) -> Answered {
        self.tell_refusal(Kind::method(method, role, peer), &[]);
        let why = match (method, role) {
            (_, Role::Agent) if !procfs::is_ours() => {
                "; without a usable /proc nobody can be told from the agent, so signal agentsup instead"
            }
            ("attach", Role::Agent) => {
                "; this is inside the agent's own process tree, and would show the terminal in itself: attach \
                 from another one"
            }
            ("attach", Role::Observer) => "; it shows all secrets that the terminal does, `screen` does not",
            _ => "",
        };
        refuse(Code::Forbidden, format!("a caller with the role `{}` may not `{method}`{why}", role.name()))
    }

    /// In the log, unless it is one of many.
    pub(super) fn tell_refusal(&mut self, kind: Kind, of: &[(&'static str, &str)]) {
        if self.calls.as_mut().is_some_and(|calls| calls.denials.is_news(kind, Instant::now())) {
            self.log.record(kind.event(of));
        }
    }

    /// Refusals that were counted and not told yet.
    pub(super) fn tell_denials(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        for event in calls.denials.due(None) {
            self.log.record(event);
        }
    }

    /// Whoever had asked before the end is answered: once through the door, once for what was said, and
    /// for all that was said in one go.
    pub(super) fn hear_last_calls(&mut self) {
        let mut sources = Sources::new();
        self.turn_ends = Instant::now() + LAST_ANSWERS;
        for _ in 0..2 {
            sources.clear();
            self.register_callers(&mut sources);
            for (source, ready) in sources.wait(Some(Instant::now())) {
                self.react(source, ready);
            }
            self.answer_the_last();
        }
        let has_more = |calls: &Calls| calls.server.with_more().next().is_some();
        while self.calls.as_ref().is_some_and(has_more) && Instant::now() < self.turn_ends {
            self.answer_the_last();
        }
    }

    fn answer_the_last(&mut self) {
        self.serve_callers();
        self.answer_waiting();
        self.send_answers();
    }
}

pub(super) fn listen(settings: &Settings, socket: &SocketSettings) -> Result<Listener, CannotStart> {
    let path = settings.state_dir.socket(&settings.wish.session.id);
    let refused = |what: &str, error: std::io::Error| CannotStart {
        code: 78,
        message: format!("{what}: `{}`: {error}; choose another with --dir", path.display()),
    };
    let listener = Listener::bind(&path, socket.mode, socket.group).map_err(|error| match socket.group {
        Some(group) if is_refused_group(&error, group) => CannotStart {
            code: 78,
            message: format!(
                "socket_group: the socket cannot be given to group {group}: {error}; run as one of its members, \
                 or choose another with --socket-group"
            ),
        },
        _ if is_out_of_descriptors(&error) => {
            CannotStart { code: 125, message: format!("no socket can be opened: {error}") }
        }
        _ => refused("the state dir is a place that cannot hold a socket", error),
    })?;
    if let Some(group) = socket.group {
        let_group_in(&path, group)
            .map_err(|error| refused("the state dir cannot be opened to the socket's group", error))?;
    }
    Ok(listener)
}

/// Only a member, or root, may give a file to a group; and in a user namespace it must have a number.
fn is_refused_group(error: &std::io::Error, group: u32) -> bool {
    let own = nix::unistd::getgroups().unwrap_or_default();
    let is_member = own.iter().chain([&nix::unistd::getegid()]).any(|own| own.as_raw() == group);
    !is_member && matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL))
}

/// Who may use the socket must be able to reach it. What is in the directories stays ours alone: each
/// file there is kept by its own mode, the socket by its mode and group.
fn let_group_in(socket: &Path, group: u32) -> std::io::Result<()> {
    for dir in socket.ancestors().skip(1).take(2) {
        let meta = std::fs::metadata(dir)?;
        // A directory of somebody else's, a volume of root's for one, is theirs to open.
        if meta.uid() != nix::unistd::geteuid().as_raw() {
            continue;
        }
        match meta.mode() & 0o777 {
            closed if closed & 0o077 == 0 => {
                chown(dir, None, Some(group))?;
                std::fs::set_permissions(dir, Permissions::from_mode(FOR_ONE_GROUP))?;
            }
            // Another session opened it to its own group. A directory has but one, so whoever knows
            // a name in it may get at that; the list of names stays the first group's.
            FOR_ONE_GROUP if meta.gid() != group => {
                std::fs::set_permissions(dir, Permissions::from_mode(FOR_MORE_GROUPS))?;
            }
            _ => {}
        }
    }
    Ok(())
}
