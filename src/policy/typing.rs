//! One queue types. A text goes into the agent's line as a whole, its Enter follows by itself and
//! later, because agents take an Enter that comes with a paste for a part of it, and until then
//! nobody else types. Pure: what the terminal is like, and the time, come in as arguments.
//!
//! ```text
//! queued → writing → pausing → (Enter) → submitted → confirmed
//!             └ without an Enter: written
//! ```

pub mod text;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between the last byte of a text, or the agent's first sign of having seen it, and its Enter.
pub const PAUSE: Duration = Duration::from_millis(150);
/// How long an agent may take to show what was typed; one that never does gets its Enter then.
const ECHOES_WITHIN: Duration = Duration::from_secs(1);
/// How long the line of input of an agent that has one may take to show the text.
const SHOWS_WITHIN: Duration = Duration::from_secs(3);
/// Between an Enter and the next text, unless the agent has confirmed: a busy one may not have come
/// to the Enter yet, and takes all that it finds for one paste.
const SETTLES_WITHIN: Duration = Duration::from_millis(300);
const CONFIRMS_SOON: Duration = Duration::from_secs(1);
/// How long an agent may take to let a text in, and then to read it, before the Enter comes all the
/// same: until then others wait, a human with a Ctrl-C too.
const READS_WITHIN: Duration = Duration::from_secs(5);
/// How long an agent that is known to show a line of input may take to show it.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long an agent that says what it does, and shows no line of input, is left to settle.
pub const SETTLED: Duration = Duration::from_secs(1);
/// How long an agent that confirms what it was told may take to do so.
pub const CONFIRMS_WITHIN: Duration = Duration::from_secs(8);
/// More that wait to be typed are a mistake of whoever sends them.
const MOST_QUEUED: usize = 64;

/// A text that is to be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whom to tell.
    pub ticket: u64,
    /// Cleaned. Empty: only the Enter is pressed, for a text that stands in the line.
    pub text: String,
    pub submit: bool,
    /// Whatever stands in the line.
    pub force: bool,
    /// The agent tells by itself which prompt it was given.
    pub confirms: bool,
}

/// What the agent and its terminal are like at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    pub is_running: bool,
    /// It has its line of input on the screen, or nobody knows how that would show.
    pub is_ready: bool,
    /// It has spoken, and no line of input was ever seen of it: in the end it is typed to all the same.
    pub is_plain: bool,
    /// Somebody's draft stands in the line.
    pub has_draft: bool,
    /// A key of somebody's has come in half; the rest of it comes before then.
    pub half_typed: Option<Instant>,
    /// The agent wants to be told what was pasted.
    pub bracketed: bool,
    /// The terminal edits lines itself, and keeps only so much of each.
    pub canonical: bool,
    /// How many bytes can be taken for it.
    pub room: usize,
    /// Some of what was typed waits for room in the terminal.
    pub unwritten: bool,
    /// The agent has not read all of what was typed.
    pub unread: bool,
    /// How much it has written so far.
    pub output: u64,
    /// Whether its line of input shows the text that is typed; `None` when nobody can tell.
    pub shows: Option<bool>,
}

/// How far a text has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    Written,
    Submitted,
    /// The agent itself said so.
    Confirmed,
}

/// Why a text was not typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotRunning,
    NotReady,
    OperatorBusy,
    LineTooLong {
        line: usize,
    },
    /// The agent does not read.
    InputFull,
    /// The agent's line does not show the text: something else may have the keys, a dialog for one.
    NotShown,
    /// Some of it may have been read.
    EndedMeanwhile,
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Write(Vec<u8>),
    /// All that stood in the line is sent.
    LineSent,
    /// The text stands in the line now.
    LineTaken,
    /// This text was typed, and where it is, nobody knows.
    Strayed(String),
    Done {
        ticket: u64,
        result: Result<Receipt, Refusal>,
    },
}

#[derive(Debug, Default)]
pub struct Typing {
    queue: VecDeque<(Job, Instant)>,
    doing: Option<Doing>,
    /// Submitted, and not confirmed yet.
    awaiting: Vec<Awaiting>,
    settles: Option<Settles>,
    /// Somebody is in the middle of a key until then.
    half_typed: Option<Instant>,
}

/// Before `until` the last Enter may not have been seen, and nothing is typed; unless the agent says
/// that it was.
#[derive(Debug)]
struct Settles {
    until: Instant,
    sent: Sent,
}

/// A text by which the agent's own word about a prompt is known.
#[derive(Clone, Debug)]
struct Sent {
    gist: String,
    /// Other text may stand around it.
    within: bool,
}

impl Sent {
    fn is_it(&self, prompt: &str) -> bool {
        self.gist == prompt || self.within && !self.gist.is_empty() && prompt.contains(&self.gist)
    }
}

#[derive(Debug)]
struct Doing {
    job: Job,
    step: Step,
    /// What the agent had written before it was typed.
    output: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Not all of it is in the terminal.
    Writing { since: Instant },
    /// All of it is, since then; the Enter is due.
    Pausing { since: Instant, until: Instant, echoed: bool },
}

#[derive(Debug)]
struct Awaiting {
    ticket: u64,
    sent: Sent,
    until: Instant,
}

impl Typing {
    /// Whoever else wants to type waits.
    pub fn is_typing(&self) -> bool {
        self.doing.is_some()
    }

    /// What is typed now.
    pub fn text(&self) -> Option<&str> {
        self.doing.as_ref().map(|doing| doing.job.text.as_str())
    }

    /// Whether [`turn`](Typing::turn) could do something.
    pub fn has_work(&self) -> bool {
        self.doing.is_some() || !self.queue.is_empty() || !self.awaiting.is_empty()
    }

    pub fn wake(&self) -> Option<Instant> {
        let doing = self.doing.as_ref().map(|doing| match doing.step {
            // The terminal tells when it has room, unless nobody ever reads.
            Step::Writing { since } => since + READS_WITHIN,
            Step::Pausing { until, .. } => until,
        });
        let queued = self.queue.front().filter(|_| self.doing.is_none());
        let held = self.settles.as_ref().map(|settles| settles.until).max(self.half_typed);
        let queued = queued.map(|(_, until)| held.unwrap_or(*until));
        doing.into_iter().chain(queued).chain(self.awaiting.iter().map(|a| a.until)).min()
    }

    pub fn ask(&mut self, job: Job, now: Instant) -> Result<(), Refusal> {
        if self.queue.len() == MOST_QUEUED {
            return Err(Refusal::TooMany);
        }
        self.queue.push_back((job, now + READY_WITHIN));
        Ok(())
    }

    /// Goes as far as it can. Call it whenever something may have changed; once too often is harmless.
    pub fn turn(&mut self, ground: &Ground, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let late = |awaiting: &Awaiting| now >= awaiting.until || !ground.is_running;
        for Awaiting { ticket, .. } in self.awaiting.extract_if(.., |awaiting| late(awaiting)) {
            effects.push(Effect::Done { ticket, result: Ok(Receipt::Submitted) });
        }
        match self.doing.take() {
            Some(doing) => self.go_on(doing, ground, now, &mut effects),
            None => self.begin(ground, now, &mut effects),
        }
        effects
    }

    fn begin(&mut self, ground: &Ground, now: Instant, effects: &mut Vec<Effect>) {
        if ground.is_running && self.settles.as_ref().is_some_and(|settles| now < settles.until) {
            return;
        }
        self.settles = None;
        self.half_typed = ground.half_typed.filter(|at| ground.is_running && now < *at);
        if self.half_typed.is_some() {
            return;
        }
        while let Some((job, until)) = self.queue.pop_front() {
            if ground.is_running && !ground.is_ready && now < until {
                return self.queue.push_front((job, until));
            }
            match typed(&job, ground) {
                Ok(_) if job.text.is_empty() => return self.submit(job, now, effects),
                Ok(bytes) => {
                    effects.push(Effect::Write(bytes));
                    self.doing =
                        Some(Doing { job, step: Step::Writing { since: now }, output: ground.output });
                    return;
                }
                Err(refusal) => effects.push(Effect::Done { ticket: job.ticket, result: Err(refusal) }),
            }
        }
    }

    fn go_on(&mut self, doing: Doing, ground: &Ground, now: Instant, effects: &mut Vec<Effect>) {
        let Doing { job, step, output } = doing;
        if !ground.is_running {
            let result = Err(Refusal::EndedMeanwhile);
            effects.push(Effect::Done { ticket: job.ticket, result });
            return;
        }
        let has_echoed = ground.output > output;
        let pause = |since| Step::Pausing { since, until: now + PAUSE, echoed: has_echoed };
        let step = match step {
            Step::Writing { since } if ground.unwritten && now < since + READS_WITHIN => step,
            Step::Writing { .. } if !job.submit => {
                effects.push(Effect::LineTaken);
                effects.push(Effect::Done { ticket: job.ticket, result: Ok(Receipt::Written) });
                return;
            }
            Step::Writing { since } if ground.unwritten => pause(since),
            Step::Writing { .. } => pause(now),
            // Seen in one go with the text, the Enter would be a part of it.
            Step::Pausing { since, echoed: false, .. } if has_echoed => pause(since),
            Step::Pausing { until, .. } if now < until => step,
            Step::Pausing { since, .. } if !has_echoed && now < since + ECHOES_WITHIN => pause(since),
            Step::Pausing { since, .. } if ground.unread && now < since + READS_WITHIN => pause(since),
            Step::Pausing { since, .. } if ground.shows == Some(false) && now < since + SHOWS_WITHIN => {
                pause(since)
            }
            // Whoever has the keys instead would take the Enter for an answer. Where the text is, is not
            // known, so nobody types behind it.
            Step::Pausing { .. } if ground.shows == Some(false) => {
                effects.push(Effect::Strayed(job.text));
                effects.push(Effect::Done { ticket: job.ticket, result: Err(Refusal::NotShown) });
                return;
            }
            Step::Pausing { .. } => return self.submit(job, now, effects),
        };
        self.doing = Some(Doing { job, step, output });
    }

    fn submit(&mut self, job: Job, now: Instant, effects: &mut Vec<Effect>) {
        effects.push(Effect::Write(b"\r".to_vec()));
        effects.push(Effect::LineSent);
        let sent = Sent { gist: text::gist(&job.text), within: job.force };
        let within = if job.confirms { CONFIRMS_SOON } else { SETTLES_WITHIN };
        self.settles = Some(Settles { until: now + within, sent: sent.clone() });
        if !job.confirms {
            effects.push(Effect::Done { ticket: job.ticket, result: Ok(Receipt::Submitted) });
            return;
        }
        self.awaiting.push(Awaiting { ticket: job.ticket, sent, until: now + CONFIRMS_WITHIN });
    }

    /// The agent says which prompt it was given.
    pub fn prompt_taken(&mut self, prompt: &str) -> Vec<Effect> {
        let gist = text::gist(prompt);
        self.settles.take_if(|settles| settles.sent.is_it(&gist));
        let is_it = |awaiting: &Awaiting| awaiting.sent.is_it(&gist);
        let Some(at) = self.awaiting.iter().position(is_it) else { return Vec::new() };
        let Awaiting { ticket, .. } = self.awaiting.remove(at);
        vec![Effect::Done { ticket, result: Ok(Receipt::Confirmed) }]
    }
}

/// What to write for it now, or why nothing is.
fn typed(job: &Job, ground: &Ground) -> Result<Vec<u8>, Refusal> {
    let bytes = text::bytes(&job.text, ground.bracketed);
    match text::line_too_long(&job.text) {
        _ if !ground.is_running => Err(Refusal::NotRunning),
        _ if !ground.is_ready && !ground.is_plain => Err(Refusal::NotReady),
        _ if ground.has_draft && !job.force => Err(Refusal::OperatorBusy),
        Some(line) if ground.canonical => Err(Refusal::LineTooLong { line }),
        _ if bytes.len() > ground.room => Err(Refusal::InputFull),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
