//! Triggers: what callers ask for, what the agent says of them, and whatever the machine in `policy`
//! wants done about it.

use std::time::Instant;

use super::calls::{Answer, Answered, refuse};
use super::denials::Kind;
use super::settings::Io;
use super::trigger_file::{self, Kept, Line};
use super::waits::ForWhat;
use super::{Charge, Supervisor, figures, now};
use crate::control::access::Role;
use crate::control::protocol::{Ack, Body, Call, Code, Error, Trigger, TriggerList, TriggerState};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::random;
use crate::os::socket::Peer;
use crate::policy::life::Phase;
use crate::policy::trigger::{
    Asked, By, Effect, Failure, For, Guard, News, Numbers, Refusal, State, Status, Triggers, Typed, World,
    envelope,
};
use crate::policy::typing::Job;
use crate::screen::Screen;
use crate::screen::marker::Watch;

/// The longest reason for a force, and the longest finding: both are a sentence.
const LONGEST_SENTENCE: usize = 1024;
/// Of those that have ended so many are listed.
const LISTED: usize = 200;

/// What the supervisor knows of triggers.
pub(super) struct Bridge {
    pub(super) triggers: Triggers,
    /// What is typed for the one that is under way.
    ticket: Option<u64>,
    /// Looks for its acknowledgement in the agent's output.
    watch: Option<Watch>,
    /// Typing has told something that the machine has not acted on yet.
    moved: bool,
    /// When the agent itself last gave a sign.
    pub(super) heartbeat: Option<f64>,
    /// Where triggers are kept for the session's next supervisor.
    kept: Option<Kept>,
    /// The operator was told that they are not.
    told_unkept: bool,
}

impl Bridge {
    pub(super) fn new(numbers: Numbers) -> Bridge {
        Bridge {
            triggers: Triggers::new(numbers),
            ticket: None,
            watch: None,
            moved: false,
            heartbeat: None,
            kept: None,
            told_unkept: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.triggers.wake()
    }

    /// The answer to who waits for this trigger, once there is one.
    pub(super) fn answer(&self, id: &str) -> Option<Result<Body, Error>> {
        let Some(status) = self.triggers.status(id) else {
            return Some(Err(Error::new(Code::NotFound, "the trigger ended, and too many others since")));
        };
        match status.state {
            State::Delivered(_) => Some(Ok(body(status))),
            State::Failed(failure) => {
                let (code, message) = said(failure);
                Some(Err(Error::new(code, format!("trigger {id}: {message}"))))
            }
            State::Queued | State::Deferred | State::Triggering | State::AwaitingAck => None,
        }
    }
}

impl Supervisor {
    pub(super) fn trigger(&mut self, call: Call, caller: CallerId, peer: Peer) -> Answered {
        let Call::Trigger { thread, text, reason, trigger_id, force, why, wait } = call else {
            return refuse(Code::Internal, "no trigger");
        };
        if force {
            let role = self.calls.as_ref().and_then(|calls| calls.server.role(caller));
            if let Some(role) = role.filter(|role| *role != Role::Operator) {
                return self.deny("trigger", role, peer);
            }
        }
        let id = match trigger_id {
            Some(id) => id,
            None => {
                random::uuid_v4().map_err(|error| Error::new(Code::Internal, format!("no id: {error}")))?
            }
        };
        let accepted = self.accept(&id, &thread, reason.as_deref(), &text, (force, why.as_deref()));
        if let Ok(true) = accepted {
            let line = self.bridge.triggers.kept().find(|(asked, _)| asked.id == id);
            let line = line.map(|(asked, status)| trigger_file::asked(asked, status.accepted_at));
            self.keep(line);
        }
        // One that waits already may be forced by asking for it again.
        let is_forced_now = accepted == Ok(false) && force && self.bridge.triggers.force(&id);
        match &accepted {
            Ok(is_new) if *is_new || is_forced_now => {
                let event = LogEvent::new(Name::TriggerQueued)
                    .with("trigger_id", &id)
                    .with("thread", &thread)
                    .with("count", text.len())
                    .with("uid", peer.uid)
                    .with("pid", peer.pid)
                    .maybe("forced", force.then_some("yes"))
                    .maybe("why", why.filter(|_| force));
                self.log.record(event);
            }
            Ok(_) => {}
            Err(error) => {
                let of = [("trigger_id", shortened(&id)), ("thread", shortened(&thread))];
                let of = of.each_ref().map(|(key, value)| (*key, value.as_str()));
                self.tell_refusal(Kind::trigger(error.code, peer), &of);
            }
        }
        accepted?;
        match wait {
            true => Ok(Answer::Later(ForWhat::Trigger { id }, None)),
            false => {
                // What holds it back is known at once.
                self.see_to_triggers();
                self.show_trigger(&id)
            }
        }
    }

    fn accept(
        &mut self,
        id: &str,
        thread: &str,
        reason: Option<&str>,
        text: &str,
        (force, why): (bool, Option<&str>),
    ) -> Result<bool, Error> {
        let bad = |why: String| Err(Error::new(Code::BadParams, format!("`trigger`: param {why}")));
        match (force, why.map(str::trim)) {
            (true, None | Some("")) => return bad("`why`: `force` needs a reason, for the log".into()),
            (_, Some(why)) if why.len() > LONGEST_SENTENCE => return bad("`why`: it is over 1 KiB".into()),
            _ => {}
        }
        if self.io() == Io::Inherit {
            let message = "the agent has no terminal of its own (--io inherit), so nothing can be typed";
            return Err(Error::new(Code::NoPty, message));
        }
        if self.is_leaving() {
            return self.stopping();
        }
        if let Phase::Asking | Phase::Halted = self.life.phase() {
            let message =
                format!("no agent is running, and none will by itself; the phase is `{}`", self.shown_phase);
            return Err(Error::new(Code::NotRunning, message));
        }
        let triggers = &mut self.bridge.triggers;
        let most = triggers.numbers().max_bytes;
        let asked = Asked::new(id, thread, reason, text, force, most);
        asked.and_then(|asked| triggers.ask(asked, now())).map_err(|refusal| match refusal {
            Refusal::Bad(why) => Error::new(Code::BadParams, format!("`trigger`: param {why}")),
            Refusal::TooLarge { bytes } => {
                Error::new(Code::TooLarge, format!("the text is {bytes} bytes long, {most} are allowed"))
            }
            Refusal::DuplicateId => {
                let message =
                    format!("the id {id} was given to a trigger with another text, thread or reason");
                Error::new(Code::DuplicateId, message)
            }
            Refusal::RateLimited { wait } => {
                let seconds = wait.as_secs() + 1;
                let message = format!("too many triggers within a minute; the next may come in {seconds} s");
                Error::new(Code::TriggerRateLimited, message)
            }
            Refusal::ThreadBlocked => blocked(thread),
            Refusal::QueueFull => Error::new(Code::TooMany, "too many triggers wait to be delivered"),
        })
    }

    pub(super) fn show_trigger(&self, id: &str) -> Answered {
        match self.bridge.triggers.status(id) {
            Some(status) => Ok(Answer::Now(body(status))),
            None => refuse(Code::NotFound, "no such trigger is known"),
        }
    }

    pub(super) fn list_triggers(&self) -> Answered {
        let triggers = &self.bridge.triggers;
        let ended = triggers.all().filter(|status| status.state.is_final()).count();
        let shown = triggers.all().skip(ended.saturating_sub(LISTED)).map(shown).collect();
        let blocked = triggers.blocked().map(str::to_owned).collect();
        Ok(Answer::Now(Body::TriggerList(TriggerList { triggers: shown, blocked })))
    }

    pub(super) fn cancel_trigger(&mut self, id: &str) -> Answered {
        if self.bridge.triggers.status(id).is_none() {
            return self.show_trigger(id);
        }
        let Some(effects) = self.bridge.triggers.cancel(id, now()) else {
            return refuse(Code::TooLate, "it was typed already, or has ended");
        };
        self.perform_triggers(effects);
        self.show_trigger(id)
    }

    pub(super) fn ack_trigger(&mut self, id: Option<&str>, thread: Option<&str>) -> Answered {
        let whom = whom("ack", id, thread)?;
        self.note_heartbeat();
        let of_thread = self.bridge.triggers.awaits().map(str::to_owned);
        let Some(effects) = self.bridge.triggers.acked(whom, By::Ack, now()) else {
            return refuse(Code::NotFound, "no such trigger waits to be acknowledged");
        };
        self.perform_triggers(effects);
        self.show_trigger(id.or(of_thread.as_deref()).unwrap_or_default())
    }

    pub(super) fn progress(
        &mut self,
        id: Option<&str>,
        thread: Option<&str>,
        finding: Option<&str>,
    ) -> Answered {
        let whom = whom("progress", id, thread)?;
        if finding.is_some_and(|finding| finding.len() > LONGEST_SENTENCE) {
            return refuse(Code::BadParams, "`progress`: param `finding`: it is over 1 KiB");
        }
        self.note_heartbeat();
        let Some(effects) = self.bridge.triggers.progress(whom, finding, now()) else {
            return refuse(Code::NotFound, "no such trigger is known");
        };
        self.perform_triggers(effects);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    pub(super) fn heartbeat(&mut self) -> Answered {
        self.note_heartbeat();
        let effects = self.bridge.triggers.acked_in_flight(By::Heartbeat, now());
        self.perform_triggers(effects);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    pub(super) fn unblock_thread(&mut self, thread: &str, peer: Peer) -> Answered {
        if !self.bridge.triggers.unblock(thread) {
            return refuse(
                Code::NotFound,
                "no such thread is blocked; `agentsup triggers` lists those that are",
            );
        }
        self.keep(Some(Line::Unblocked(thread.to_owned())));
        let event = LogEvent::new(Name::ThreadUnblocked)
            .with("thread", thread)
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    pub(super) fn note_heartbeat(&mut self) {
        self.bridge.heartbeat = Some(figures::epoch());
    }

    /// The agent says which prompt it was given.
    pub(super) fn trigger_prompted(&mut self, prompt: Option<&str>) {
        let effects = self.bridge.triggers.prompt_taken(prompt, now());
        self.perform_triggers(effects);
    }

    pub(super) fn trigger_turn_ended(&mut self) {
        let effects = self.bridge.triggers.turn_ended(now());
        self.perform_triggers(effects);
    }

    pub(super) fn look_for_ack(&mut self, output: &[u8]) {
        if self.bridge.watch.as_mut().is_some_and(|watch| watch.feed(output)) {
            let effects = self.bridge.triggers.acked_in_flight(By::Marker, now());
            self.perform_triggers(effects);
        }
    }

    /// After every turn of the loop: triggers and all other typing, as far as they can go now.
    pub(super) fn deliver_and_type(&mut self) {
        loop {
            self.see_to_triggers();
            self.type_on();
            if !std::mem::take(&mut self.bridge.moved) {
                return;
            }
        }
    }

    fn see_to_triggers(&mut self) {
        // On the way out none is begun: they wait for the session's next supervisor.
        if !self.bridge.triggers.has_work() || self.is_leaving() && self.bridge.triggers.awaits().is_none() {
            return;
        }
        let ground = self.ground();
        let takes_keys = matches!(self.life.phase(), Phase::Running { .. }) && !self.sweep.is_frozen();
        let screen = &self.screen;
        let world = World {
            is_running: ground.is_running,
            is_ready: ground.is_ready && takes_keys,
            has_draft: ground.has_draft,
            last_key: self.desk.last_key(),
            stands: &|| ends_with_trigger(screen),
        };
        let effects = self.bridge.triggers.turn(&world, now());
        self.perform_triggers(effects);
    }

    fn perform_triggers(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Type { text, force } => {
                    self.keep(self.bridge.triggers.last().map(|id| Line::Typing(id.to_owned())));
                    self.type_trigger(text, force);
                }
                Effect::PressEnter => self.type_trigger(String::new(), false),
                Effect::Tell(news) => self.tell_trigger(news),
            }
        }
    }

    fn type_trigger(&mut self, text: String, force: bool) {
        let ticket = self.desk.next_ticket();
        self.bridge.ticket = Some(ticket);
        // Whether the agent confirms is this machine's business: here it is only typed.
        let job = Job { ticket, text, submit: true, force, confirms: false };
        if let Err(refusal) = self.desk.ask(job) {
            self.trigger_typed(ticket, Err(refusal));
        }
    }

    /// True when it was a trigger's.
    pub(super) fn trigger_typed(&mut self, ticket: u64, typed: Typed) -> bool {
        if self.bridge.ticket != Some(ticket) {
            return false;
        }
        self.bridge.ticket = None;
        self.bridge.moved = true;
        let effects = self.bridge.triggers.typed(typed, now());
        self.perform_triggers(effects);
        let last = self.bridge.triggers.last().and_then(|id| self.bridge.triggers.status(id));
        self.keep(last.filter(|last| last.state == State::Queued).map(|last| Line::Back(last.id.clone())));
        true
    }

    /// Whatever an earlier supervisor of this session left is ours now.
    pub(super) fn take_over_triggers(&mut self) {
        let Charge::Run(session) = &self.charge else { return };
        let (kept, left) = Kept::open(session.settings.state_dir.triggers(&session.settings.wish.session.id));
        let is_new = left == Default::default();
        self.bridge.kept = Some(kept);
        let effects = self.bridge.triggers.restore(left, now());
        self.perform_triggers(effects);
        if !is_new {
            self.keep_anew();
        }
    }

    /// One more line, if there is one.
    fn keep(&mut self, line: Option<Line>) {
        let (Some(kept), Some(line)) = (&mut self.bridge.kept, line) else { return };
        let written = kept.append(&line);
        let is_long = kept.is_long();
        self.tell_kept(written);
        if is_long {
            self.keep_anew();
        }
    }

    fn keep_anew(&mut self) {
        let Bridge { kept: Some(kept), triggers, .. } = &mut self.bridge else { return };
        let written = kept.write_anew(triggers);
        self.tell_kept(written);
    }

    /// What cannot be kept is delivered all the same, as long as this supervisor lives.
    fn tell_kept(&mut self, written: std::io::Result<()>) {
        match written {
            Ok(()) => self.bridge.told_unkept = false,
            Err(error) if !self.bridge.told_unkept => {
                self.bridge.told_unkept = true;
                self.console.tell(&format!("triggers cannot be kept for the next supervisor: {error}"));
            }
            Err(_) => {}
        }
    }

    fn keep_end(&mut self, id: &str) {
        self.keep(self.bridge.triggers.status(id).and_then(trigger_file::ended));
    }

    fn tell_trigger(&mut self, news: News) {
        match &news {
            News::Ended(id) | News::Acked { id, late: true, .. } => self.keep_end(id),
            News::Blocked { thread, .. } => self.keep(Some(Line::Blocked(thread.clone()))),
            News::Deferred(_) | News::Sent(..) | News::Acked { .. } => {}
        }
        let thread = |id: &str| self.bridge.triggers.status(id).map(|status| status.thread.clone());
        let of = |name, id: &str| LogEvent::new(name).with("trigger_id", id).maybe("thread", thread(id));
        let event = match news {
            News::Deferred(id) => of(Name::TriggerDeferred, &id).with("error", Code::OperatorBusy),
            News::Sent(id, attempt) => {
                let event = of(Name::TriggerSent, &id).with("attempt", attempt);
                self.bridge.watch = Some(Watch::new(format!("{}{id}", envelope::MARKER)));
                event
            }
            News::Acked { id, by, late } => {
                of(Name::AckReceived, &id).with("by", by_name(by)).maybe("late", late.then_some("yes"))
            }
            News::Ended(id) => {
                let state = self.bridge.triggers.status(&id).map(|status| status.state);
                let event = match state {
                    Some(State::Failed(failure)) => {
                        of(Name::TriggerFailed, &id).with("error", said(failure).0)
                    }
                    _ => of(Name::TriggerDelivered, &id),
                };
                // Only what was typed is looked for, and that is one at a time.
                if self.bridge.triggers.awaits().is_none() {
                    self.bridge.watch = None;
                }
                event
            }
            News::Blocked { thread, why } => {
                let why = match why {
                    Guard::NoProgress => "turns without progress",
                    Guard::IdenticalFindings => "identical findings",
                };
                LogEvent::new(Name::ThreadBlocked).with("thread", thread).with("why", why)
            }
        };
        self.log.record(event);
    }
}

/// Whether the text before the cursor is a trigger that was not sent. Without a screen nobody knows.
fn ends_with_trigger(screen: &Screen) -> bool {
    screen.before_cursor().is_some_and(|text| envelope::ends(&text))
}

fn whom<'a>(method: &str, id: Option<&'a str>, thread: Option<&'a str>) -> Result<For<'a>, Error> {
    match (id, thread) {
        (Some(id), None) => Ok(For::Id(id)),
        (None, Some(thread)) => {
            let checked = envelope::check_name("thread", thread);
            checked.map_err(|_| {
                Error::new(Code::BadParams, format!("`{method}`: param `thread`: it is no thread's name"))
            })?;
            Ok(For::Thread(thread))
        }
        (Some(_), Some(_)) | (None, None) => Err(Error::new(
            Code::BadParams,
            format!("`{method}`: expected `trigger_id` or `thread`, one of them"),
        )),
    }
}

/// A caller's own word, for the log: it may be anything.
fn shortened(word: &str) -> String {
    word.chars().take(64).collect()
}

fn blocked(thread: &str) -> Error {
    let message =
        format!("the thread {thread} is blocked by the loop guard; `agentsup unblock {thread}` frees it");
    Error::new(Code::ThreadAutoBlocked, message)
}

fn body(status: &Status) -> Body {
    Body::Trigger(Box::new(shown(status)))
}

fn shown(status: &Status) -> Trigger {
    let (state, code, by) = match status.state {
        State::Queued => (TriggerState::Queued, None, None),
        State::Deferred => (TriggerState::Deferred, Some(Code::OperatorBusy), None),
        State::Triggering => (TriggerState::Triggering, None, None),
        State::AwaitingAck => (TriggerState::AwaitingAck, None, None),
        State::Delivered(by) => (TriggerState::Delivered, None, Some(by_name(by).to_owned())),
        State::Failed(failure) => (TriggerState::Failed, Some(said(failure).0), None),
    };
    Trigger {
        trigger_id: status.id.clone(),
        thread: status.thread.clone(),
        reason: status.reason.clone(),
        state,
        code,
        by,
        attempts: status.attempts,
        forced: status.force,
        acked_late: status.acked_late,
        accepted_at: status.accepted_at as f64,
        ended_at: status.ended_at.map(|at| at as f64),
    }
}

fn by_name(by: By) -> &'static str {
    match by {
        By::Ack => "ack",
        By::Progress => "progress",
        By::Hook => "hook",
        By::Heartbeat => "heartbeat",
        By::Marker => "marker",
    }
}

fn said(failure: Failure) -> (Code, &'static str) {
    match failure {
        Failure::DeferTimeout => {
            (Code::DeferTimeout, "an operator was at work all the time; nothing was typed")
        }
        Failure::AckTimeout => (Code::AckTimeout, "it was typed, and the agent has not acknowledged it"),
        Failure::NotRunning => (Code::NotRunning, "no agent ran, or it ended before it acknowledged"),
        Failure::NotReady => (Code::NotReady, "the agent has not shown its line of input; nothing was typed"),
        Failure::NotShown => (
            Code::NotReady,
            "the agent's line does not show the text, so Enter was not pressed: a dialog may be open; \
             `agentsup screen` shows it",
        ),
        Failure::LineTooLong => {
            (Code::LineTooLong, "a line is longer than the agent's terminal takes; nothing was typed")
        }
        Failure::WriteFailed => {
            (Code::WriteFailed, "the agent does not read its terminal; nothing was typed")
        }
        Failure::ThreadBlocked => {
            (Code::ThreadAutoBlocked, "the loop guard blocked its thread; nothing was typed")
        }
        Failure::Cancelled => (Code::Cancelled, "it was cancelled; nothing was typed"),
    }
}
