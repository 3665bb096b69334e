//! The last moments: the tree is gone, and readers of our output and callers are still waited for.

use std::time::{Duration, Instant};

use super::calls::LAST_ANSWERS;
use super::{Charge, Supervisor, below};

/// In a stop unread output is waited for at least this long, also when the grace is used up.
const FLUSH_AT_LEAST: Duration = Duration::from_millis(200);

/// And lines of our own on stderr no longer than this.
const LINES: Duration = Duration::from_secs(1);

pub(super) struct Ending {
    code: u8,
    /// `None`: as long as it takes, as any program waits for the reader of its output.
    flush_until: Option<Instant>,
    /// The same for our own lines on stderr: what they say is in the log.
    lines_until: Instant,
    /// The code when nobody took the output in time.
    late_code: u8,
    /// How long callers are given to read their last answers.
    answers_until: Instant,
}

impl Ending {
    /// It waits for a reader for as long as that takes.
    pub(super) fn has_no_limit(&self) -> bool {
        self.flush_until.is_none()
    }
}

impl Supervisor {
    pub(super) fn end(&mut self, code: u8) {
        let (now, patience) = (Instant::now(), self.patience_with_readers());
        let within = |from: Instant| (from + patience).max(now + FLUSH_AT_LEAST);
        let asked = self.stop_asked.map(within);
        let timeout = self.life.timeout_at().map(|at| at.max(now + FLUSH_AT_LEAST));
        // A child is started again, and a node's end is heard of above it, only when it has gone.
        let in_tree = self.is_in_tree().then(|| within(now));
        let late_code = if asked.is_none() && timeout.is_some() { 124 } else { code };
        let answers_until = now + LAST_ANSWERS;
        let flush_until = asked.or(timeout).or(in_tree);
        let lines_until = now + patience.min(LINES).max(FLUSH_AT_LEAST);
        self.ending = Some(Ending { code, flush_until, lines_until, late_code, answers_until });
    }

    fn is_in_tree(&self) -> bool {
        let Charge::Run(session) = &self.charge else { return false };
        self.node.is_some() || below::is_marked(&session.settings.wish.parent_env)
    }

    /// The grace of a node is what all its children may take, one behind the other: no reader is worth that.
    fn patience_with_readers(&self) -> Duration {
        match &self.charge {
            Charge::Run(session) => session.settings.leftovers(),
            Charge::Init(settings) => settings.grace,
        }
    }

    /// Asked to stop while the end waits for a reader.
    pub(super) fn hurry_the_end(&mut self) {
        let patience = self.patience_with_readers();
        if let Some(ending) = &mut self.ending {
            let patience = if ending.has_no_limit() { patience } else { Duration::ZERO };
            ending.flush_until = Some(Instant::now() + patience);
            ending.late_code = ending.code;
        }
    }

    /// When the end has waited long enough: for the reader of our output, and for callers to take
    /// their last answers.
    pub(super) fn leaves_at(&self) -> Option<Instant> {
        let ending = self.ending.as_ref()?;
        let output = match (self.console.is_flushed(), self.console.output_is_flushed()) {
            (true, _) => Instant::now(),
            (false, true) => ending.flush_until.map_or(ending.lines_until, |at| at.min(ending.lines_until)),
            (false, false) => ending.flush_until?,
        };
        let answered = self.calls.as_ref().is_none_or(|calls| calls.server.is_flushed());
        Some(if answered { output } else { output.max(ending.answers_until) })
    }

    pub(super) fn close(mut self: Box<Self>) -> u8 {
        let code = match &self.ending {
            Some(ending) if self.console.is_flushed() => ending.code,
            Some(ending) => ending.late_code,
            None => 125,
        };
        self.console.give_back(&self.screen.modes_off());
        self.hear_last_calls();
        self.tell_denials();
        self.close_recording();
        self.tell_end(code);
        self.console.flush();
        // Followers see the last line too, as far as they have room for it now.
        self.look_at_transcript_again();
        self.feed_streams();
        self.send_answers();
        code
    }
}
