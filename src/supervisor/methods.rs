//! What each method does. Each phase has one defined answer to it; `docs/protocol.md` lists them.

use std::time::{Duration, Instant};

use super::calls::{Answer, Answered, refuse};
use super::streams::Stream;
use super::viewers::Wish;
use super::waits::ForWhat;
use super::{Charge, Supervisor};
use crate::control::protocol::{
    self, Ack, Body, Call, Code, Error, Id, Injected, Mode, Pid, Pong, Stopped, WaitFor,
};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::life::{Event, Next, Phase};
use crate::session::Profile;

impl Supervisor {
    pub(super) fn call(&mut self, call: Call, caller: CallerId, id: &Option<Id>, peer: Peer) -> Answered {
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
            Call::Send { text, submit, force } => self.send(&text, submit, force, peer),
            Call::Hook { event, prompt } => self.hook(event, prompt.as_deref(), peer),
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

    pub(super) fn tell_action(&mut self, action: &str, peer: Peer) {
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
            (Some(agent), Phase::Running { .. }) => agent.group(),
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
                Ok(Answer::AndThen(body, Event::StopCalled))
            }
            (false, _) => {
                self.tell_action("kill", peer);
                Ok(Answer::AndThen(body, Event::KillAsked))
            }
        }
    }
}
