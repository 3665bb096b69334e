//! The agent's line of input: whether it takes a text now, and what of ours stands in it.

use std::time::Instant;

use super::super::Supervisor;
use crate::policy::activity::Doing;
use crate::policy::typing::{self, Ground};
use crate::screen::Sight;
use crate::screen::input::Input;
use crate::session::Profile;

/// A text of ours that the agent's line did not show in time: it may come to stand there, or have gone to a dialog.
pub(super) struct Stray {
    pub(super) text: String,
    /// Who has pressed a key since has made the line their own.
    pub(super) keys: u64,
    pub(super) output: u64,
}

impl Supervisor {
    /// No line of input was ever seen of this agent, and it speaks: it reads what it is given, a script for one.
    fn is_plain(&self) -> bool {
        !self.screen.knows_bracketed_paste() && self.activity.spoke()
    }

    /// From when such an agent may be typed to, as far as its own words tell.
    fn plain_opens_at(&self) -> Option<Instant> {
        let reads = match self.activity.doing() {
            Doing::Idle | Doing::Working | Doing::Tool => true,
            // Of a dialog any key may be the answer.
            Doing::Starting | Doing::Unknown | Doing::WaitingPermission | Doing::WaitingAnswer => false,
        };
        let is_known = self.profile() != Profile::Other;
        (reads && is_known && self.is_plain()).then(|| self.activity.since() + typing::SETTLED)
    }

    /// Looked at before anything is typed: what is too early by then is woken up for.
    pub(in crate::supervisor) fn note_when_line_opens(&mut self, is_waited_for: bool) {
        let now = Instant::now();
        self.desk.opens_at = self.plain_opens_at().filter(|at| is_waited_for && now < *at);
    }

    /// Somebody wants to type, and what stands in their way is a text of ours. Never where a key would mean
    /// something else: in a turn, in a dialog.
    pub(in crate::supervisor) fn see_to_stray(&mut self) {
        let Some(Stray { text, keys, output }) = &self.desk.stray else { return };
        if *keys != self.desk.keys {
            self.desk.stray = None;
            return;
        }
        let terminal = self.agent.as_ref().and_then(|a| a.terminal.as_ref());
        let is_read = terminal.is_some_and(|t| t.input.is_empty() && !t.has_unread());
        let has_drawn = self.tally.output_bytes != *output;
        let is_at_rest = self.profile() == Profile::Claude && self.screen.sight() == Some(Sight::Line);
        if self.desk.is_typing() || !is_read || !has_drawn || !is_at_rest {
            return;
        }
        if self.screen.holds_draft(text) {
            // In a line with text Ctrl-C empties it, and does no more.
            self.type_into_agent(b"\x03");
        } else if self.screen.line_shows(text) == Some(true) {
            return;
        }
        self.desk.stray = None;
        self.desk.draft.end();
    }

    pub(in crate::supervisor) fn ground(&self) -> Ground {
        let terminal = self.agent.as_ref().filter(|a| a.spawning.is_none()).and_then(|a| a.terminal.as_ref());
        let bracketed = self.screen.wants_bracketed_paste();
        Ground {
            is_running: terminal.is_some(),
            // Those that are known have one, and switch this on with it. Until then the terminal is
            // not theirs yet, and what is typed may be thrown away; unless they have spoken, which comes
            // later, and are not what they are called.
            // And behind the key that cancels a turn it may put a prompt back into its line.
            is_ready: bracketed && self.activity.wake().is_none()
                || self.plain_opens_at().is_some_and(|at| Instant::now() >= at)
                || self.profile() == Profile::Other,
            is_plain: self.is_plain(),
            has_draft: self.desk.has_draft(),
            half_typed: self.desk.inputs.values().filter_map(Input::half_typed).max(),
            bracketed,
            canonical: terminal.is_some_and(|t| t.pty.is_canonical()),
            room: terminal.map_or(0, |t| t.input.room()),
            unwritten: terminal.is_some_and(|t| !t.input.is_empty()),
            unread: terminal.is_some_and(|t| t.has_unread()),
            output: self.tally.output_bytes,
            shows: match (self.profile(), self.desk.typing.text()) {
                (Profile::Claude | Profile::Codex, Some(text)) if bracketed => self.screen.line_shows(text),
                (Profile::Claude | Profile::Codex | Profile::Other, _) => None,
            },
        }
    }
}
