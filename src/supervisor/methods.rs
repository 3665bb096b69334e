//! What each method does. Each phase has one defined answer to it; `docs/protocol.md` lists them.

use std::time::{Duration, Instant};

use super::calls::{Answer, Answered, refuse};
use super::helper::Kind;
use super::keys;
use super::knowing::PutBack;
use super::streams::Stream;
use super::viewers::Wish;
use super::waits::ForWhat;
use super::{Charge, Supervisor};
use crate::control::protocol::{
    self, Ack, Body, Call, Code, Error, Id, Injected, Interrupted, Key, Mode, Pid, Pong, Stopped, WaitFor,
};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::activity::Cancel;
use crate::policy::life::{Event, Next, Phase};
use crate::session::Profile;

impl Supervisor {
    pub(super) fn call(&mut self, call: Call, caller: CallerId, id: &Option<Id>, peer: Peer) -> Answered {
        let now = Instant::now();
        if let Some(refused) = self.lacks(call.method()) {
            return refused;
        }
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
            Call::Send { text, submit, force } => self.send(&text, submit, force, peer),
            Call::Hook(hook) => self.hook(&hook, peer),
            Call::PermissionRequest { tool, input, key } => self.ask_permission(&tool, &input, key),
            Call::PermissionRespond { request_id, allow, reason } => {
                self.respond_permission(request_id.as_deref(), allow, reason, peer)
            }
            Call::PermissionList => self.list_permissions(),
            Call::QuestionRequest { text, choices, key } => self.ask_question(&text, &choices, key),
            Call::QuestionRespond { request_id, answer } => {
                self.respond_question(request_id.as_deref(), &answer, peer)
            }
            Call::QuestionList => self.list_questions(),
            Call::Idle => self.says_idle(),
            Call::Done { text } => self.says_done(text.as_deref()),
            Call::Describe { text } => self.describe(&text),
            Call::Claim { ticket, release } => self.claim(&ticket, release, peer),
            call @ Call::Trigger { .. } => self.trigger(call, caller, peer),
            Call::TriggerStatus { trigger_id } => self.show_trigger(&trigger_id),
            Call::TriggerList => self.list_triggers(),
            Call::TriggerCancel { trigger_id } => self.cancel_trigger(&trigger_id),
            Call::Ack { trigger_id, thread } => self.ack_trigger(trigger_id.as_deref(), thread.as_deref()),
            Call::Progress { trigger_id, thread, finding } => {
                self.progress(trigger_id.as_deref(), thread.as_deref(), finding.as_deref())
            }
            Call::Heartbeat => self.heartbeat(),
            Call::ThreadUnblock { thread } => self.unblock_thread(&thread, peer),
            Call::Stop { graceful } => self.stop(graceful, peer),
            Call::Screen { lines, ansi } => self.show_screen(lines, ansi),
            Call::Attach { rows, cols, readonly, hint, suspend } => {
                let wish = Wish { size: (cols, rows), readonly, hint, suspend };
                self.attach(wish, caller, id, peer)
            }
            Call::Resize { rows, cols } => self.resize_viewer(caller, (cols, rows)),
            Call::Detach => self.detach(caller),
            Call::Events { since, follow } => {
                Ok(Answer::Stream(Stream::of_events(caller, id.clone(), since, follow, &self.log)))
            }
            Call::Logs { lines, follow } => {
                let Charge::Run(session) = &self.charge else { return refuse(Code::Internal, "no session") };
                let file = session.settings.state_dir.log(&session.settings.wish.session.id);
                let Some(calls) = &mut self.calls else { return refuse(Code::Internal, "no socket") };
                let files = (&self.log, &mut calls.files);
                Ok(Answer::Stream(Stream::of_lines(caller, id.clone(), &file, lines, follow, files)))
            }
            Call::Transcript { lines, follow } => self.read_transcript(caller, id, lines, follow),
            Call::Wait { until: WaitFor::Idle, .. } if self.node.is_some() => {
                refuse(Code::NoAgent, "`wait`: a node is never idle; wait for one of its children")
            }
            Call::Wait { until, timeout_ms } => {
                // A time-out beyond what a clock can hold is none.
                let deadline = timeout_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms)));
                // Looked at when this turn's events are settled, and only then: the agent may be gone
                // and its code not known yet.
                Ok(Answer::Later(ForWhat::State(until), deadline))
            }
            Call::Stats => {
                self.counting.ask();
                Ok(Answer::Later(ForWhat::Stats, None))
            }
            call @ (Call::Tree
            | Call::ChildAdd { .. }
            | Call::ChildRemove { .. }
            | Call::ChildStart { .. }
            | Call::ChildStop { .. }
            | Call::ChildRestart { .. }) => self.ask_node(call, peer),
            Call::Metrics => Ok(Answer::Now(Body::Metrics(protocol::Metrics { text: self.metrics() }))),
        }
    }

    pub(super) fn session_id(&self) -> &str {
        match &self.charge {
            Charge::Run(session) => &session.settings.wish.session.id,
            Charge::Init(_) => "",
        }
    }

    /// Of an agent whose exec has succeeded.
    pub(super) fn running_pid(&self) -> Option<i32> {
        self.agent.as_ref().filter(|a| a.spawning.is_none()).map(|a| a.pid)
    }

    pub(super) fn not_running(&self) -> Answered {
        refuse(Code::NotRunning, format!("no agent is running; the phase is `{}`", self.shown_phase))
    }

    /// Nothing will be started any more.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.life.phase(), Phase::Telling { .. } | Phase::Stopping { .. } | Phase::Ended)
    }

    pub(super) fn stopping<T>(&self) -> Result<T, Error> {
        Err(Error::new(Code::Stopping, "the supervisor is on its way out and starts nothing any more"))
    }

    pub(super) fn tell_action(&mut self, what: &str, peer: Peer) {
        self.log.record(action(what, peer));
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
        self.recovery.forget();
        self.call_back();
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
                self.activity.delayed(Instant::now());
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
        let Some(how) = self.freeze() else { return self.not_running() };
        self.log.record(action("pause", peer).with("how", how));
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    /// In which way; `None` when none runs that could stand still.
    pub(super) fn freeze(&mut self) -> Option<&'static str> {
        let group = match (&self.agent, self.life.phase()) {
            (Some(agent), Phase::Running { .. }) => agent.group(),
            _ => return None,
        };
        self.suspending = None;
        // Who tells of it does not stand still with it.
        let spared: Vec<i32> =
            self.helpers.iter().filter(|helper| helper.kind != Kind::Call).map(|helper| helper.pid).collect();
        let session = self.session_id().to_owned();
        Some(self.sweep.freeze(group, &session, &spared))
    }

    fn interrupt(&mut self, peer: Peer) -> Answered {
        let key = self.cancel_turn()?;
        let told = match key {
            Key::Pressed => "pressed",
            Key::Idle => "idle",
            Key::Already => "already",
        };
        self.log.record(action("interrupt", peer).with("how", told));
        Ok(Answer::Now(Body::Interrupted(Interrupted { key })))
    }

    fn cancel_turn(&mut self) -> Result<Key, Error> {
        let key: &[u8] = match self.profile() {
            Profile::Claude | Profile::Codex => b"\x1b",
            Profile::Other => b"\x03",
        };
        self.can_be_typed(key)?;
        match self.cancel() {
            Cancel::Idle => return Ok(Key::Idle),
            Cancel::Already => return Ok(Key::Already),
            Cancel::Press => {}
        }
        self.type_for_caller(key)?;
        // Where a human's draft stands, the line is theirs.
        let put_back = if self.desk.has_draft() { PutBack::Note } else { PutBack::Remove };
        self.note_cancel(put_back);
        Ok(Key::Pressed)
    }

    fn inject(&mut self, bytes: &[u8], peer: Peer) -> Answered {
        self.type_for_caller(bytes)?;
        if keys::may_cancel(bytes) || self.activity.waits_for_human() {
            self.note_cancel(PutBack::Leave);
        }
        let event = LogEvent::new(Name::Inject)
            .with("count", bytes.len())
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
        Ok(Answer::Now(Body::Injected(Injected { n: bytes.len() as u64 })))
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
        if self.ending.as_ref().is_some_and(|ending| !graceful || ending.has_no_limit()) {
            self.hurry_the_end();
        }
        if let (Charge::Run(session), false) = (&mut self.charge, already) {
            session.record.stop_asked = true;
        }
        match (graceful, already) {
            (true, true) => Ok(Answer::Now(body)),
            (true, false) => {
                self.tell_action("stop", peer);
                Ok(Answer::AndThen(body, Event::StopCalled))
            }
            (false, _) => {
                self.tell_action("kill", peer);
                Ok(Answer::AndThen(body, Event::KillAsked))
            }
        }
    }
}

pub(super) fn action(what: &str, peer: Peer) -> LogEvent {
    LogEvent::new(Name::UserAction)
        .with("action", what)
        .with("by", "caller")
        .with("uid", peer.uid)
        .with("pid", peer.pid)
}
