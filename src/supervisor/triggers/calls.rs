//! What callers ask of triggers.

use std::time::Instant;

use super::super::calls::{Answer, Answered, refuse};
use super::super::denials::Kind;
use super::super::settings::Io;
use super::super::waits::ForWhat;
use super::super::{Supervisor, now};
use super::file::{self, Line};
use super::telling::{blocked, body, shown};
use crate::control::access::Role;
use crate::control::protocol::{Ack, Body, Call, Code, Error, TriggerList};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::random;
use crate::os::socket::Peer;
use crate::policy::activity::Word;
use crate::policy::life::Phase;
use crate::policy::trigger::{Asked, By, For, Refusal, envelope};

/// The longest reason for a force, and the longest finding: both are a sentence.
const LONGEST_SENTENCE: usize = 1024;
/// Of those that have ended so many are listed.
const LISTED: usize = 200;

impl Supervisor {
    pub(in crate::supervisor) fn trigger(&mut self, call: Call, caller: CallerId, peer: Peer) -> Answered {
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
            let line = line.map(|(asked, status)| file::asked(asked, status.accepted_at));
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
        let most = self.bridge.triggers.numbers().max_bytes;
        let asked = Asked::new(id, thread, reason, text, force, most);
        let is_new = asked.as_ref().is_ok_and(|asked| self.bridge.triggers.status(&asked.id).is_none());
        if is_new && self.is_leaving() {
            return self.stopping();
        }
        if let (true, Phase::Asking | Phase::Halted) = (is_new, self.life.phase()) {
            let message =
                format!("no agent is running, and none will by itself; the phase is `{}`", self.shown_phase);
            return Err(Error::new(Code::NotRunning, message));
        }
        let triggers = &mut self.bridge.triggers;
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

    pub(in crate::supervisor) fn show_trigger(&self, id: &str) -> Answered {
        match self.bridge.triggers.status(id) {
            Some(status) => Ok(Answer::Now(body(status))),
            None => refuse(Code::NotFound, "no such trigger is known"),
        }
    }

    pub(in crate::supervisor) fn list_triggers(&self) -> Answered {
        let triggers = &self.bridge.triggers;
        let ended = triggers.all().filter(|status| status.state.is_final()).count();
        let shown = triggers.all().skip(ended.saturating_sub(LISTED)).map(shown).collect();
        let blocked = triggers.blocked().map(str::to_owned).collect();
        Ok(Answer::Now(Body::TriggerList(TriggerList { triggers: shown, blocked })))
    }

    pub(in crate::supervisor) fn cancel_trigger(&mut self, id: &str) -> Answered {
        if self.bridge.triggers.status(id).is_none() {
            return self.show_trigger(id);
        }
        let Some(effects) = self.bridge.triggers.cancel(id, now()) else {
            return refuse(Code::TooLate, "it was typed or carried already, or has ended");
        };
        self.perform_triggers(effects);
        self.show_trigger(id)
    }

    pub(in crate::supervisor) fn ack_trigger(&mut self, id: Option<&str>, thread: Option<&str>) -> Answered {
        let whom = whom("ack", id, thread)?;
        self.note_heartbeat();
        let of_thread = thread.and_then(|thread| self.bridge.triggers.under_way(thread)).map(str::to_owned);
        let Some(effects) = self.bridge.triggers.acked(whom, By::Ack, now()) else {
            return refuse(Code::NotFound, "no such trigger waits to be acknowledged");
        };
        self.perform_triggers(effects);
        self.show_trigger(id.or(of_thread.as_deref()).unwrap_or_default())
    }

    pub(in crate::supervisor) fn progress(
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

    pub(in crate::supervisor) fn heartbeat(&mut self) -> Answered {
        self.note_heartbeat();
        self.activity.says(Word::Heartbeat, Instant::now());
        let effects = self.bridge.triggers.acked_in_flight(By::Heartbeat, now());
        self.perform_triggers(effects);
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    pub(in crate::supervisor) fn unblock_thread(&mut self, thread: &str, peer: Peer) -> Answered {
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
