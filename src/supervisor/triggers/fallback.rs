//! What carries a trigger that typing did not deliver: a call into the agent's conversation, for which
//! the agent makes room, or an agent that begins anew with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::helper::{self, Kind};
use super::super::kin;
use super::super::record;
use super::super::{Charge, Supervisor, now};
use crate::control::protocol::HookEvent;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::os::wait::How;
use crate::policy::life::{Event, Next, Phase, Then};
use crate::policy::trigger::{Called, Can};
use crate::session::{self, Wish};

/// So much of a failed call's last words is looked at, and so much is told.
const LAST_WORDS: u64 = 2048;
const TOLD: usize = 200;

/// What can be done for the conversation that is known now.
pub(super) fn can(charge: &Charge) -> Can {
    let Charge::Run(session) = charge else { return Can::default() };
    // What is refused now would be refused to a spawn, too: nobody is ended for it.
    if !session::is_runnable(&session.settings.wish) {
        return Can::default();
    }
    let ways = session::ways(&session.settings.wish, &session.record.facts.conversation).unwrap_or_default();
    Can { resume: ways.resume, fork: ways.fork, spawn: ways.spawn }
}

impl Supervisor {
    pub(super) fn make_room(&mut self) {
        self.console.tell(
            "a trigger was not acknowledged: the agent is ended, and returns with the trigger in its conversation",
        );
        self.events.push_back(Event::AwayAsked);
    }

    pub(super) fn come_back(&mut self) {
        self.events.push_back(Event::BackAsked { next: Next::Continue });
    }

    /// Somebody wants the agent back at once, whatever it makes room for.
    pub(in crate::supervisor) fn call_back(&mut self) {
        if matches!(self.life.phase(), Phase::Away { .. } | Phase::Restarting { then: Then::StayAway(_), .. })
        {
            let effects = self.bridge.triggers.call_back(now());
            self.perform_triggers(effects);
        }
    }

    pub(super) fn begin_anew(&mut self) {
        self.events.push_back(Event::BackAsked { next: Next::Anew });
    }

    pub(super) fn carry(&mut self, text: &str, fork: bool) {
        if let Err(why) = self.start_call(text, fork) {
            self.call_over(Called::NotMade, None, &why);
        }
    }

    fn start_call(&mut self, text: &str, fork: bool) -> Result<(), String> {
        let Charge::Run(session) = &self.charge else { return Err("no session".into()) };
        let how = if fork { session::How::Fork } else { session::How::Resume };
        let plan = |wish: &Wish| {
            session::call(wish, &session.record.facts.conversation, how)
                .map_err(|refusal| refusal.to_string())
        };
        let wish = &session.settings.wish;
        let mut settled = plan(wish)?;
        if let Some((path, text)) = &settled.hooks.file
            && record::replace(path, text.as_bytes()).is_err()
        {
            settled = plan(&Wish { hooks: None, ..wish.clone() })?;
        }
        // A full disk does not keep it from being made.
        let output = open_output(&self.call_output())
            .or_else(|_| OpenOptions::new().write(true).open("/dev/null"))
            .map_err(|e| format!("its output: {e}"))?;
        let helper = helper::call(&settled, text, &output)?;
        self.helpers.push(helper);
        Ok(())
    }

    /// Whether it is the call that speaks, and not the agent.
    pub(in crate::supervisor) fn is_of_call(&self, peer: Peer) -> bool {
        let call = self.helpers.iter().find(|helper| helper.kind == Kind::Call);
        call.is_some_and(|call| kin::descends(peer.pid, call.pid))
    }

    /// Its turns are not the agent's: only what it says of the trigger counts.
    pub(in crate::supervisor) fn call_says(&mut self, event: HookEvent, prompt: Option<&str>) {
        match event {
            HookEvent::UserPromptSubmit => {
                let effects = self.bridge.triggers.prompt_taken(prompt, now());
                self.perform_triggers(effects);
            }
            HookEvent::SessionStart
            | HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::Notification
            | HookEvent::Stop
            | HookEvent::StopFailure
            | HookEvent::Other => self.agent_at_work(),
        }
    }

    pub(super) fn end_call(&mut self) {
        for helper in self.helpers.iter().filter(|helper| helper.kind == Kind::Call) {
            self.sweep.kill_under(helper.pid);
        }
    }

    pub(in crate::supervisor) fn on_call_ended(&mut self, pid: i32, how: How) {
        let called = match how {
            How::Code(0) => Called::Answered,
            // On the way out none is begun again.
            _ if self.is_leaving() => Called::CutShort,
            _ => Called::Failed,
        };
        let words = if called == Called::Answered { String::new() } else { last_words(&self.call_output()) };
        self.call_over(called, Some((pid, how)), &words);
    }

    fn call_over(&mut self, called: Called, ended: Option<(i32, How)>, words: &str) {
        let name = match called {
            Called::Answered => Name::FallbackResumeSucceeded,
            Called::Failed | Called::NotMade | Called::CutShort => Name::FallbackResumeFailed,
        };
        let event = LogEvent::new(name)
            .maybe("trigger_id", self.bridge.triggers.last())
            .maybe("pid", ended.map(|(pid, _)| pid))
            .maybe("code", ended.map(|(_, how)| how.exit_code()))
            .maybe("error", (!words.is_empty()).then_some(words));
        self.log.record(event);
        if called == Called::Answered {
            self.note_sign();
        }
        let effects = self.bridge.triggers.call_ended(called, now());
        self.perform_triggers(effects);
        // Whoever made room for it is to come back, also when it was over at once.
        self.bridge.moved = true;
    }

    /// What the last call printed.
    fn call_output(&self) -> PathBuf {
        match &self.charge {
            Charge::Run(session) => session.settings.state_dir.call(&session.settings.wish.session.id),
            Charge::Init(_) => PathBuf::from("/dev/null"),
        }
    }
}

fn open_output(path: &Path) -> io::Result<File> {
    // Whatever lies there, a fifo that the agent made for one, is not written to.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The last line that says something.
fn last_words(path: &Path) -> String {
    let mut end = Vec::new();
    if let Some(mut file) = record::open_plain(path) {
        let length = file.metadata().map_or(0, |meta| meta.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)));
        let _ = file.take(LAST_WORDS).read_to_end(&mut end);
    }
    let text = String::from_utf8_lossy(&end).into_owned();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(TOLD).collect()
}
