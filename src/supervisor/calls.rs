//! What callers ask for on the control socket, and when they get their answer. Each phase has one
//! defined answer to each method; `docs/protocol.md` lists them.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::settings::{CannotStart, Io, Settings, SocketSettings};
use super::streams::Stream;
use super::{Charge, Supervisor, record};
use crate::control::access::{self, Ground, Role};
use crate::control::protocol::{
    self, Ack, Body, Call, Code, Error, Id, Injected, Mode, Pid, Pong, Reply, Request, Stopped, WaitFor,
    Waited,
};
use crate::control::server::{CallerId, Heard, Server};
use crate::log::{Event as LogEvent, Name};
use crate::os::poll::{Ready, Sources};
use crate::os::procfs;
use crate::os::socket::{Listener, Peer};
use crate::policy::life::{Event, Health, Next, Phase};
use crate::policy::stop::Agent;
use crate::session::Profile;

/// How long callers may hold up the end by not reading their last answers.
pub(super) const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// Requests that were none.
const INVALID: &str = "invalid";

pub(super) struct Calls {
    pub(super) server: Server,
    pub(super) streams: Vec<Stream>,
    waiting: Vec<Waiting>,
    pub(super) counts: BTreeMap<&'static str, protocol::Calls>,
}

/// A request whose answer is still to come.
struct Waiting {
    caller: CallerId,
    id: Option<Id>,
    method: &'static str,
    for_what: ForWhat,
    until: Option<Instant>,
}

#[derive(Clone, Copy)]
enum ForWhat {
    /// The next spawn, whether it works or not, after so many of each.
    Spawn {
        succeeded: u64,
        failed: u64,
    },
    State(WaitFor),
}

/// What a request leads to.
enum Answer {
    Now(Body),
    Later(ForWhat, Option<Instant>),
    Stream(Stream),
    /// The caller is answered before anything stops.
    AndThen(Body, Event),
}

type Answered = Result<Answer, Error>;

fn refuse(code: Code, message: impl Into<String>) -> Answered {
    Err(Error::new(code, message))
}

impl Calls {
    /// Call it as the owner of the session's lock: a socket that lies there is nobody's.
    pub(super) fn open(settings: &Settings, socket: &SocketSettings) -> Result<Calls, CannotStart> {
        let path = settings.state_dir.socket(&settings.wish.session.id);
        let refused = |what: &str, error: std::io::Error| CannotStart {
            code: 78,
            message: format!("{what}: `{}`: {error}; choose another with --dir", path.display()),
        };
        let listener = Listener::bind(&path, socket.mode, socket.group)
            .map_err(|error| refused("the state dir is a place that cannot hold a socket", error))?;
        if let Some(group) = socket.group {
            let_group_in(&path, group)
                .map_err(|error| refused("the state dir cannot be opened to the socket's group", error))?;
        }
        let descriptors = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        let descriptors = descriptors.map_or(1024, |(soft, _)| soft);
        Ok(Calls {
            server: Server::new(listener, descriptors),
            streams: Vec::new(),
            waiting: Vec::new(),
            counts: BTreeMap::new(),
        })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.server.with_more().next().is_some() {
            return Some(Instant::now());
        }
        let waits = self.waiting.iter().filter_map(|w| w.until);
        waits.chain(self.server.deadline()).min()
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
        self.server.forget(caller);
    }
}

impl Supervisor {
    pub(super) fn on_listener(&mut self) {
        let (Some(calls), Charge::Run(session)) = (&mut self.calls, &self.charge) else { return };
        calls.server.accept(Instant::now(), |peer| role_of(peer, &session.settings));
    }

    pub(super) fn on_caller(&mut self, caller: CallerId, ready: Ready) {
        let Some(calls) = &mut self.calls else { return };
        let heard = calls.server.on_ready(caller, ready, Instant::now());
        self.on_heard(caller, heard);
    }

    /// What no readiness tells: frames that were left over, frames that never got finished.
    pub(super) fn serve_callers(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        let now = Instant::now();
        if calls.server.is_rested(now) {
            calls.server.stop_resting();
        }
        for caller in calls.server.overdue(now) {
            let error = Error::new(Code::BadFrame, "the frame was begun and not finished within 10 seconds");
            calls.counts.entry(INVALID).or_default().error += 1;
            calls.server.refuse(caller, &Reply { id: None, result: Err(error) });
        }
        let with_more: Vec<CallerId> = calls.server.with_more().collect();
        for caller in with_more {
            let Some(calls) = &mut self.calls else { return };
            let heard = calls.server.take_more(caller, now);
            self.on_heard(caller, heard);
        }
    }

    fn on_heard(&mut self, caller: CallerId, heard: Vec<Heard>) {
        for heard in heard {
            match (heard, &mut self.calls) {
                (Heard::Request(request), _) => self.on_request(caller, request),
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
        let Some((role, peer)) = self.calls.as_ref().and_then(|c| c.server.role(caller)) else { return };
        let method = call.method();
        let answered =
            if role.may(method) { self.call(call, caller, &id, peer) } else { self.deny(method, role, peer) };
        let Some(calls) = &mut self.calls else { return };
        match answered {
            Ok(Answer::Now(body)) => calls.answer(caller, id, method, Ok(body)),
            Ok(Answer::AndThen(body, event)) => {
                calls.answer(caller, id, method, Ok(body));
                self.events.push_back(event);
            }
            Ok(Answer::Later(..) | Answer::Stream(_)) if !calls.server.hold(caller) => {
                let error =
                    Error::new(Code::TooMany, "too many answers are still to come for this connection");
                calls.answer(caller, id, method, Err(error));
            }
            Ok(Answer::Later(for_what, until)) => {
                calls.waiting.push(Waiting { caller, id, method, for_what, until });
            }
            Ok(Answer::Stream(stream)) => {
                let start = stream.start(&self.log, self.tally.started_epoch);
                calls.answer(caller, id, method, Ok(Body::Stream(start)));
                calls.streams.push(stream);
            }
            Err(error) => calls.answer(caller, id, method, Err(error)),
        }
    }

    fn deny(&mut self, method: &'static str, role: Role, peer: Peer) -> Answered {
        let event = LogEvent::new(Name::ControlDenied)
            .with("method", method)
            .with("role", role.name())
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
        refuse(Code::Forbidden, format!("a caller with the role `{}` may not `{method}`", role.name()))
    }

    fn call(&mut self, call: Call, caller: CallerId, id: &Option<Id>, peer: Peer) -> Answered {
        let now = Instant::now();
        match call {
            Call::Ping => Ok(Answer::Now(Body::Pong(Pong {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: protocol::PROTOCOL,
                session: self.session_id().to_owned(),
            }))),
            Call::State { why, deep } => Ok(Answer::Now(Body::State(Box::new(self.state(why, deep))))),
            Call::Pid => match self.running_pid() {
                Some(pid) => Ok(Answer::Now(Body::Pid(Pid { pid }))),
                None => self.not_running(),
            },
            Call::Restart { mode } => self.restart(mode, peer),
            Call::Interrupt => self.interrupt(peer),
            Call::Pause => self.pause(peer),
            Call::Resume => self.resume(peer),
            Call::Inject { bytes } => self.inject(&bytes, peer),
            Call::Stop { graceful } => self.stop(graceful, peer),
            Call::Events { since, follow } => {
                Ok(Answer::Stream(Stream::of_events(caller, id.clone(), since, follow, &self.log)))
            }
            Call::Logs { lines, follow } => {
                let Charge::Run(session) = &self.charge else { return refuse(Code::Internal, "no session") };
                let file = session.settings.state_dir.log(&session.settings.wish.session.id);
                Ok(Answer::Stream(Stream::of_lines(caller, id.clone(), &file, lines, follow, &self.log)))
            }
            Call::Wait { until: WaitFor::Idle, .. } => {
                refuse(Code::Unsupported, "`wait` for `idle` is not built yet")
            }
            Call::Wait { until, timeout_ms } => {
                // A time-out beyond what a clock can hold is none.
                let deadline = timeout_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms)));
                // Looked at when this turn's events are settled, and only then: the agent may be gone
                // and its code not known yet.
                Ok(Answer::Later(ForWhat::State(until), deadline))
            }
            Call::Stats => Ok(Answer::Now(Body::Stats(Box::new(self.stats())))),
            Call::Metrics => Ok(Answer::Now(Body::Metrics(protocol::Metrics { text: self.metrics() }))),
        }
    }

    fn session_id(&self) -> &str {
        match &self.charge {
            Charge::Run(session) => &session.settings.wish.session.id,
            Charge::Init(_) => "",
        }
    }

    /// Of an agent whose exec has succeeded.
    pub(super) fn running_pid(&self) -> Option<i32> {
        self.agent.as_ref().filter(|a| a.spawning.is_none()).map(|a| a.pid)
    }

    fn not_running(&self) -> Answered {
        refuse(Code::NotRunning, format!("no agent is running; the phase is `{}`", self.shown_phase))
    }

    /// Nothing will be started any more.
    fn is_leaving(&self) -> bool {
        matches!(self.life.phase(), Phase::Telling { .. } | Phase::Stopping { .. } | Phase::Ended)
    }

    fn stopping<T>(&self) -> Result<T, Error> {
        Err(Error::new(Code::Stopping, "the supervisor is on its way out and starts nothing any more"))
    }

    fn tell_action(&mut self, action: &str, peer: Peer) {
        let event = LogEvent::new(Name::UserAction)
            .with("action", action)
            .with("by", "caller")
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
    }

    fn next_spawn(&self) -> Answer {
        let (succeeded, failed) = (self.tally.spawned, self.tally.spawn_failures);
        Answer::Later(ForWhat::Spawn { succeeded, failed }, None)
    }

    fn restart(&mut self, mode: Mode, peer: Peer) -> Answered {
        if self.is_leaving() {
            return self.stopping();
        }
        self.tell_action("restart", peer);
        self.sweep.thaw();
        let next = match mode {
            Mode::Fresh => Next::Fresh,
            Mode::Continue => Next::Continue,
        };
        self.events.push_back(Event::RestartAsked { next });
        Ok(self.next_spawn())
    }

    fn resume(&mut self, peer: Peer) -> Answered {
        match self.life.phase() {
            Phase::Telling { .. } | Phase::Stopping { .. } | Phase::Ended => self.stopping(),
            Phase::Halted => {
                self.tell_action("resume", peer);
                self.events.push_back(Event::Retry);
                Ok(self.next_spawn())
            }
            _ if self.sweep.is_frozen() => {
                self.tell_action("resume", peer);
                self.sweep.thaw();
                match self.agent.as_ref().map(|a| a.pid) {
                    Some(pid) => Ok(Answer::Now(Body::Pid(Pid { pid }))),
                    None => self.not_running(),
                }
            }
            _ => refuse(
                Code::NotHalted,
                format!("neither halted nor paused; the phase is `{}`", self.shown_phase),
            ),
        }
    }

    fn pause(&mut self, peer: Peer) -> Answered {
        if self.is_leaving() {
            return self.stopping();
        }
        let group = match (&self.agent, self.life.phase()) {
            (Some(agent), Phase::Starting { .. } | Phase::Running { .. }) => agent.group(),
            _ => return self.not_running(),
        };
        self.tell_action("pause", peer);
        self.suspending = None;
        self.sweep.freeze(group);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    fn interrupt(&mut self, peer: Peer) -> Answered {
        let key: &[u8] = match self.profile() {
            Profile::Claude | Profile::Codex => b"\x1b",
            Profile::Other => b"\x03",
        };
        self.type_for_caller(key)?;
        self.tell_action("interrupt", peer);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    fn inject(&mut self, bytes: &[u8], peer: Peer) -> Answered {
        self.type_for_caller(bytes)?;
        let event = LogEvent::new(Name::Inject)
            .with("count", bytes.len())
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
        Ok(Answer::Now(Body::Injected(Injected { n: bytes.len() as u64 })))
    }

    /// All of it or nothing.
    fn type_for_caller(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.io() == Io::Inherit {
            let message = "the agent has no terminal of its own (--io inherit), so nothing can be typed";
            return Err(Error::new(Code::NoPty, message));
        }
        let Some(terminal) = self.agent.as_mut().and_then(|a| a.terminal.as_mut()) else {
            return Err(Error::new(
                Code::NotRunning,
                format!("no agent is running; the phase is `{}`", self.shown_phase),
            ));
        };
        if !terminal.input.fits(bytes.len()) {
            let message = "the agent does not read its terminal; nothing of this was written";
            return Err(Error::new(Code::InputFull, message));
        }
        self.note_interrupt(bytes);
        self.type_into_agent(bytes);
        Ok(())
    }

    pub(super) fn profile(&self) -> Profile {
        let Charge::Run(session) = &self.charge else { return Profile::Other };
        let wish = &session.settings.wish;
        let known = wish.command.first().map(|command0| Profile::of(command0, wish.agent.as_deref()));
        known.and_then(Result::ok).unwrap_or(Profile::Other)
    }

    fn stop(&mut self, graceful: bool, peer: Peer) -> Answered {
        let already = matches!(self.life.phase(), Phase::Stopping { .. } | Phase::Ended);
        let body = Body::Stopped(Stopped { already });
        // From now on an unread output is not waited for without a limit.
        self.stop_asked.get_or_insert_with(Instant::now);
        if self.ending.as_ref().is_some_and(|e| !graceful || e.flush_until.is_none()) {
            self.hurry_the_end();
        }
        match (graceful, already) {
            (true, true) => Ok(Answer::Now(body)),
            (true, false) => {
                self.tell_action("stop", peer);
                Ok(Answer::AndThen(body, Event::StopAsked { sender: peer.pid }))
            }
            (false, _) => {
                self.tell_action("kill", peer);
                Ok(Answer::AndThen(body, Event::KillAsked))
            }
        }
    }

    /// Whoever had asked before the end is answered: once through the door, once for what was said.
    pub(super) fn hear_last_calls(&mut self) {
        let mut sources = Sources::new();
        for _ in 0..2 {
            sources.clear();
            self.register_callers(&mut sources);
            for (source, ready) in sources.wait(Some(Instant::now())) {
                self.react(source, ready);
            }
            self.serve_callers();
            self.answer_waiting();
        }
    }

    /// After every turn: whoever waits for what has come gets an answer.
    pub(super) fn answer_waiting(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        if calls.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let (mut still, mut come) = (Vec::new(), Vec::new());
        for waiting in std::mem::take(&mut calls.waiting) {
            match self.has_come(waiting.for_what) {
                Some(result) => come.push((waiting, result)),
                None if waiting.until.is_some_and(|at| now >= at) => {
                    let error = Error::new(Code::Timeout, "it did not happen within `timeout_ms`");
                    come.push((waiting, Err(error)));
                }
                None => still.push(waiting),
            }
        }
        let Some(calls) = &mut self.calls else { return };
        calls.waiting = still;
        calls.waiting.retain(|w| calls.server.is_here(w.caller));
        for (waiting, result) in come {
            calls.answer(waiting.caller, waiting.id, waiting.method, result);
            calls.server.release(waiting.caller);
        }
    }

    /// The answer, once there is one.
    fn has_come(&self, for_what: ForWhat) -> Option<Result<Body, Error>> {
        let waited = |reason, code, pid| Some(Ok(Body::Waited(Waited { reason, code, pid })));
        let code = Some(self.life.last_code());
        match for_what {
            ForWhat::Spawn { succeeded, .. } if self.tally.spawned > succeeded => {
                Some(Ok(Body::Pid(Pid { pid: self.running_pid().unwrap_or(self.tally.spawned_pid) })))
            }
            ForWhat::Spawn { failed, .. } if self.tally.spawn_failures > failed => {
                Some(Err(Error::new(Code::SpawnFailed, &self.tally.spawn_failure)))
            }
            ForWhat::Spawn { .. } if self.is_leaving() => Some(self.stopping()),
            ForWhat::Spawn { .. } => None,
            ForWhat::State(WaitFor::Ready) => match (self.life.phase(), self.running_pid()) {
                (Phase::Running { .. }, pid @ Some(_)) => waited(WaitFor::Ready, None, pid),
                _ if self.is_leaving() => Some(self.stopping()),
                _ => None,
            },
            ForWhat::State(WaitFor::Exit) => match self.life.phase() {
                Phase::Asking | Phase::Halted | Phase::Telling { .. } | Phase::Ended => {
                    waited(WaitFor::Exit, code, None)
                }
                Phase::Stopping { stop, .. } if stop.agent() == Agent::Gone => {
                    waited(WaitFor::Exit, code, None)
                }
                Phase::Stopping { .. }
                | Phase::Clearing { .. }
                | Phase::Preparing { .. }
                | Phase::Starting { .. }
                | Phase::Running { .. }
                | Phase::Restarting { .. }
                | Phase::Waiting { .. } => None,
            },
            ForWhat::State(WaitFor::Halted) => match self.life.health() {
                Health::Halted => waited(WaitFor::Halted, code, None),
                Health::Healthy | Health::Degraded if self.is_leaving() => Some(self.stopping()),
                Health::Healthy | Health::Degraded => None,
            },
            ForWhat::State(WaitFor::Idle) => {
                Some(Err(Error::new(Code::Unsupported, "`wait` for `idle` is not built yet")))
            }
        }
    }
}

fn role_of(peer: Peer, settings: &Settings) -> Role {
    let Some(socket) = &settings.socket else { return Role::Agent };
    let ground = Ground {
        own_pid: std::process::id().cast_signed(),
        own_uid: nix::unistd::geteuid().as_raw(),
        is_supervisor: &|pid| is_supervisor(pid, settings),
        outside: socket.access_outside,
        group: socket.access_group,
        parent: &procfs::parent_of,
    };
    access::role(access::Caller { pid: peer.pid, uid: peer.uid }, &ground)
}

/// Whether a live process is another supervisor of the state dir. Its name comes first: reading two
/// hundred locks for each caller would be felt.
fn is_supervisor(pid: i32, settings: &Settings) -> bool {
    static OWN: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let own = OWN.get_or_init(|| procfs::name(std::process::id().cast_signed()));
    let like_us = procfs::name(pid).is_some_and(|n| Some(&n) == own.as_ref() || n.starts_with(b"agentsup"));
    if !like_us {
        return false;
    }
    let lock = settings.state_dir.lock(&settings.wish.session.id);
    let Some(Ok(entries)) = lock.parent().map(std::fs::read_dir) else { return false };
    let holder = format!("pid={pid} host={} ", super::start::host_name());
    let others = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "lock"));
    others.filter(|path| *path != lock).filter_map(|path| record::open_plain(&path)).any(|file| {
        let mut text = Vec::new();
        file.take(holder.len() as u64).read_to_end(&mut text).is_ok() && text == holder.as_bytes()
    })
}

/// Who may use the socket must be able to reach it. What is in the directories stays ours alone.
fn let_group_in(socket: &Path, group: u32) -> std::io::Result<()> {
    for dir in socket.ancestors().skip(1).take(2) {
        let meta = std::fs::metadata(dir)?;
        // A directory of somebody else's, a volume of root's for one, is theirs to open.
        if meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o077 == 0 {
            chown(dir, None, Some(group))?;
            std::fs::set_permissions(dir, Permissions::from_mode(0o750))?;
        }
    }
    Ok(())
}
