//! Rate limits, by the agent's own word: its hook while it lives; when it has ended its last words, in
//! the transcript of its conversation or, where there is none, on its screen.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::knowing::PutBack;
use super::record;
use super::{Charge, Supervisor};
use crate::log::{Event as LogEvent, Name};
use crate::os::clock;
use crate::policy::crash::Limit;
use crate::screen::Sight;
use crate::session::Profile;
use crate::session::limit::{self, Said};
use crate::session::transcript::lines::{Backward, Line};
use crate::session::transcript::{LastWord, last_word};

/// Lines of the screen that may hold it, and the agent's own below it.
const SCREEN_LINES: usize = 12;
/// Pieces of the transcript that are looked through, from its end on.
const PIECES: usize = 16;

/// The limit that the running agent has met, until it is given another prompt.
#[derive(Default)]
pub(super) struct Limits {
    met: Option<Met>,
    /// Without a good turn since.
    in_a_row: u32,
}

#[derive(Clone, Copy)]
struct Met {
    limit: Limit,
    /// When it may go on; `None`: it has been seen to.
    until: Option<Instant>,
    since: Instant,
}

impl Limits {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.met.and_then(|met| met.until)
    }

    /// A turn begins: whether the limit holds will be told.
    pub(super) fn prompted(&mut self) {
        self.met = None;
    }

    pub(super) fn turn_ended(&mut self) {
        *self = Limits::default();
    }

    /// For `state --why`.
    pub(super) fn reason(&self) -> Option<String> {
        let met = self.met?;
        Some(match met.until.map(|until| until.saturating_duration_since(Instant::now())) {
            Some(left) => format!("rate limit: the agent has met one; another look in {} s", left.as_secs()),
            None => "rate limit: the agent has met one, and has not been given a prompt since".to_owned(),
        })
    }
}

/// A limit, and who told it.
struct Found {
    limit: Limit,
    text: String,
    by: &'static str,
}

impl Supervisor {
    /// The limit that kept the agent which has just ended from going on.
    pub(super) fn limit_at_end(&mut self) -> Option<Limit> {
        if let Some(met) = self.limits.met.take() {
            // It was told when it came.
            return Some(met.limit);
        }
        let found = self.limit_in_transcript().unwrap_or_else(|| self.limit_on_screen())?;
        self.tell_limit(&found);
        Some(found.limit)
    }

    /// The agent's turn came to nothing.
    pub(super) fn limit_met(&mut self, text: &str) {
        let found = found(epoch(), text.to_owned(), "hook");
        self.tell_limit(&found);
        let Charge::Run(session) = &self.charge else { return };
        // Each try costs a turn of the conversation: without a time to go by they come more and more rarely.
        let unknown = session.settings.crash.flapping_wait.saturating_mul(1 << self.limits.in_a_row.min(12));
        let since = Instant::now();
        let until = since + found.limit.wait(unknown, epoch());
        let until = self.can_be_told().then_some(until);
        let in_a_row = self.limits.in_a_row.saturating_add(1);
        self.limits = Limits { met: Some(Met { limit: found.limit, until, since }), in_a_row };
    }

    /// A living agent does not look again by itself; an operator who has typed since sees to it.
    pub(super) fn see_to_limit(&mut self) {
        let Some(met) = &mut self.limits.met else { return };
        if met.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        met.until = None;
        let since = met.since;
        if self.desk.last_key().is_none_or(|key| key < since) {
            self.leave_limit_menu();
            self.recovery.limit_over();
        }
    }

    /// claude asks a subscriber what to do, and takes no text until that is answered or left.
    fn leave_limit_menu(&mut self) {
        let asks = self.screen.sight() == Some(Sight::Dialog);
        let is_it = asks && limit::MENU.iter().any(|words| self.screen.shows(words));
        if is_it && self.profile() == Profile::Claude {
            self.type_into_agent(b"\x1b");
            self.note_cancel(PutBack::Leave);
        }
    }

    fn tell_limit(&mut self, found: &Found) {
        let event = LogEvent::new(Name::RateLimited)
            .with("by", found.by)
            .maybe("until", found.limit.reset)
            .with("error", found.text.lines().next().unwrap_or_default());
        self.log.record(event);
    }

    /// `None`: there is no transcript to tell. What an earlier run left there is not this one's word.
    fn limit_in_transcript(&self) -> Option<Option<Found>> {
        let Charge::Run(session) = &self.charge else { return None };
        let facts = &session.record.facts;
        let (place, id) = (facts.transcripts.as_ref()?, facts.conversation.id.as_deref()?);
        let file = place.candidates(id).find_map(|path| record::open_plain(&path))?;
        let length = file.metadata().ok()?.len();
        let mut last = None;
        let mut back = Backward::from(length, 1);
        for _ in 0..PIECES {
            let worth = |line: Line| {
                if let Line::Whole(bytes) = line {
                    last = std::str::from_utf8(bytes).ok().and_then(last_word);
                }
                u64::from(last.is_some())
            };
            if back.step(&file, worth).is_some() {
                break;
            }
        }
        let Some(LastWord { at, limit: Some(text) }) = last else { return Some(None) };
        let since = self.tally.spawned_epoch.floor();
        Some(at.filter(|at| *at >= since).map(|at| found(at as u64, text, "transcript")))
    }

    fn limit_on_screen(&self) -> Option<Found> {
        if self.profile() == Profile::Other {
            return None;
        }
        let text = self.last_lines(SCREEN_LINES).into_iter().rev().find(|line| limit::tells(line))?;
        Some(found(epoch(), text, "screen"))
    }
}

fn found(at: u64, text: String, by: &'static str) -> Found {
    let said = Said { epoch: at, offset: clock::utc_offset(at) };
    Found { limit: Limit { reset: limit::reset(&text, said) }, text, by }
}

fn epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs)
}
