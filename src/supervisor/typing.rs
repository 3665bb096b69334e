//! Whatever is typed into the agent: by the operator, by callers, and by `send`. While a text is
//! typed all others wait, so that nothing ever comes between it and its Enter.

mod line;

use std::time::{Duration, Instant};

use super::calls::{Answer, Answered, refuse};
use super::keys;
use super::knowing::{PutBack, end_of};
use super::settings::Io;
use super::waits::ForWhat;
use super::{Supervisor, figures};
use crate::control::protocol::{Body, Code, Error, Receipt, Sent};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::typing::{self, Effect, Job, Refusal, Typing, text};
use crate::screen::input::{Draft, Input};
use crate::session::Profile;
use crate::sorted::Sorted;
use line::Stray;

/// The longest text that is sent.
pub const LONGEST: usize = 16 * 1024;
/// A key after so long a silence is a human stepping in.
const SILENCE: Duration = Duration::from_secs(20);

/// What is known of the agent's line and of whom it belongs to.
#[derive(Default)]
pub(super) struct Desk {
    typing: Typing,
    /// What follows each operator's keys. The line is one, and so is the draft.
    inputs: Sorted<Hand, Input>,
    draft: Draft,
    last_key: Option<Instant>,
    /// How often an operator has pressed one, and how often anything was typed.
    keys: u64,
    typed: u64,
    senders: Sorted<u64, Sender>,
    last_ticket: u64,
    /// Texts that came to their end in this turn.
    done: Vec<(u64, Result<Receipt, Error>)>,
    /// What others typed meanwhile, in order.
    held: Vec<Held>,
    /// When an agent that is typed to for what it says may be, if anything waits for that.
    opens_at: Option<Instant>,
    /// What we typed and could not submit.
    stray: Option<Stray>,
    /// A text was asked for when all that could be typed in this turn had been: nothing else would wake us.
    is_asked: bool,
}

/// Whose keys they are: a sequence that one terminal has begun is not ended by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hand {
    Stdin,
    Viewer(CallerId),
}

/// Who sent a text, and how long it is.
struct Sender {
    peer: Peer,
    bytes: usize,
}

enum Held {
    Operator(Hand, Vec<u8>),
    Caller(Vec<u8>),
}

impl Desk {
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.is_asked {
            return Some(Instant::now());
        }
        self.typing.wake().into_iter().chain(self.opens_at).min()
    }

    pub(super) fn has_work(&self) -> bool {
        self.typing.has_work()
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typing.is_typing()
    }

    pub(super) fn last_key(&self) -> Option<Instant> {
        self.last_key
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    pub(super) fn typed(&self) -> u64 {
        self.typed
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(super) fn ask(&mut self, job: Job) -> Result<(), Refusal> {
        self.is_asked = true;
        self.typing.ask(job, Instant::now())
    }

    /// What stands in the line is somebody's.
    pub(super) fn take_line(&mut self) {
        self.draft.begin();
    }

    pub(super) fn has_draft(&self) -> bool {
        self.draft.stands()
    }

    /// The answer to who sent the text with this ticket, once there is one.
    pub(super) fn answer(&self, ticket: u64) -> Option<Result<Body, Error>> {
        let (_, result) = self.done.iter().find(|(done, _)| *done == ticket)?;
        Some(result.clone().map(|receipt| Body::Sent(Sent { receipt })))
    }

    /// Whoever was still waiting has been told.
    pub(super) fn forget_answers(&mut self) {
        self.done.clear();
    }

    pub(super) fn forget_viewer(&mut self, caller: CallerId) {
        self.inputs.remove(&Hand::Viewer(caller));
    }

    /// Of a terminal that is gone nothing stands any more.
    pub(super) fn agent_ended(&mut self) {
        self.draft.end();
        self.stray = None;
        self.held.clear();
    }

    fn held_bytes(&self) -> usize {
        self.held
            .iter()
            .map(|held| match held {
                Held::Operator(_, bytes) | Held::Caller(bytes) => bytes.len(),
            })
            .sum()
    }
}

impl Supervisor {
    pub(super) fn send(&mut self, given: &str, submit: bool, force: bool, peer: Peer) -> Answered {
        if self.io() == Io::Inherit {
            return refuse(
                Code::NoPty,
                "the agent has no terminal of its own (--io inherit), so nothing can be typed",
            );
        }
        if given.len() > LONGEST {
            let message = format!("the text is {} bytes long, {LONGEST} are allowed", given.len());
            return refuse(Code::TooLarge, message);
        }
        let mut text = text::clean(given);
        if text.trim().is_empty() {
            return refuse(Code::BadParams, "`send`: param `text`: there is nothing to type in it");
        }
        if self.running_pid().is_none() {
            return self.not_running();
        }
        if self.sweep.is_frozen() {
            return refuse(Code::NotRunning, "the agent is paused; `agentsup resume` comes first");
        }
        if submit && self.profile() != Profile::Other {
            text::end_for_enter(&mut text);
        }
        let ticket = self.desk.next_ticket();
        let bytes = text.len();
        let job = Job { ticket, text, submit, force, confirms: self.agent_confirms };
        if self.desk.ask(job).is_err() {
            return refuse(Code::TooMany, "too many texts wait to be typed");
        }
        self.desk.senders.insert(ticket, Sender { peer, bytes });
        Ok(Answer::Later(ForWhat::Sent { ticket }, None))
    }

    /// The agent says which prompt it was given.
    pub(super) fn prompt_confirmed(&mut self, prompt: &str) {
        let effects = self.desk.typing.prompt_taken(prompt);
        self.perform_typing(effects);
    }

    /// As far as it can go now.
    pub(super) fn type_on(&mut self) {
        self.desk.is_asked = false;
        while self.desk.typing.has_work() {
            let text = self.desk.typing.text().map(end_of);
            let effects = self.desk.typing.turn(&self.ground(), Instant::now());
            if effects.contains(&Effect::LineSent) {
                // Its hook may say so too; without hooks nobody will.
                self.own_words.prompt = text;
            }
            if effects.is_empty() {
                break;
            }
            self.perform_typing(effects);
        }
        if !self.desk.is_typing() && !self.desk.held.is_empty() {
            for held in std::mem::take(&mut self.desk.held) {
                match held {
                    Held::Operator(hand, bytes) => self.on_operator(hand, &bytes),
                    Held::Caller(bytes) => {
                        self.type_into_agent(&bytes);
                        // Only now can it do anything.
                        self.activity.delayed(Instant::now());
                    }
                }
            }
        }
    }

    fn perform_typing(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(bytes) => self.type_into_agent(&bytes),
                Effect::LineSent => self.desk.draft.end(),
                Effect::LineTaken => self.desk.draft.begin(),
                Effect::Strayed(text) => {
                    let (keys, output) = (self.desk.keys, self.tally.output_bytes);
                    // With a draft before it, that is what stands in the line.
                    let is_all = !self.desk.has_draft();
                    self.desk.stray = is_all.then_some(Stray { text, keys, output });
                    self.desk.draft.begin();
                }
                Effect::Done { ticket, result } => self.tell_sent(ticket, result),
            }
        }
    }

    fn tell_sent(&mut self, ticket: u64, result: Result<typing::Receipt, Refusal>) {
        let is_ours = self.trigger_typed(ticket, result.map(|_| ())) || self.recovery_typed(ticket, result);
        if is_ours {
            return;
        }
        let result = match result {
            Ok(typing::Receipt::Written) => Ok(Receipt::Written),
            Ok(typing::Receipt::Submitted) => Ok(Receipt::Submitted),
            Ok(typing::Receipt::Confirmed) => Ok(Receipt::Confirmed),
            Err(refusal) => Err(self.refusal(refusal)),
        };
        if self.rule_typed(ticket, &result) || self.watch_typed(ticket, &result) {
            return;
        }
        if let Some(Sender { peer, bytes }) = self.desk.senders.remove(&ticket) {
            let event =
                LogEvent::new(Name::Send).with("count", bytes).with("uid", peer.uid).with("pid", peer.pid);
            self.log.record(match &result {
                Ok(receipt) => event.with("receipt", receipt.name()),
                Err(error) => event.with("error", error.code),
            });
        }
        self.desk.done.push((ticket, result));
    }

    pub(super) fn refusal(&self, refusal: Refusal) -> Error {
        let (code, message) = match refusal {
            Refusal::NotRunning => {
                (Code::NotRunning, format!("no agent is running; the phase is `{}`", self.shown_phase))
            }
            Refusal::NotReady => (
                Code::NotReady,
                "the agent has not shown its line of input; `agentsup screen` shows what it does".to_owned(),
            ),
            Refusal::OperatorBusy => {
                let since = self
                    .desk
                    .last_key
                    .map(|at| format!(", the last key came {} s ago", at.elapsed().as_secs()));
                let since = since.unwrap_or_default();
                (
                    Code::OperatorBusy,
                    format!("a draft stands in the agent's line{since}; `force` types all the same"),
                )
            }
            Refusal::LineTooLong { line } => (
                Code::LineTooLong,
                format!(
                    "line {line} is longer than {} bytes, and the agent's terminal would cut it off",
                    text::LONGEST_LINE
                ),
            ),
            Refusal::InputFull => (
                Code::InputFull,
                "the agent does not read its terminal; nothing of this was written".to_owned(),
            ),
            Refusal::NotShown => (
                Code::NotReady,
                "the agent's line does not show the text, so Enter was not pressed: a dialog may be open; \
                 `agentsup screen` shows it"
                    .to_owned(),
            ),
            Refusal::EndedMeanwhile => (
                Code::NotRunning,
                "the agent ended while the text was typed; it was not submitted".to_owned(),
            ),
            Refusal::TooMany => (Code::TooMany, "too many texts wait to be typed".to_owned()),
        };
        Error::new(code, message)
    }

    /// The one place that all a human types to the running agent goes through.
    pub(super) fn on_operator(&mut self, hand: Hand, bytes: &[u8]) {
        if self.desk.is_typing() {
            self.desk.held.push(Held::Operator(hand, bytes.to_vec()));
            return;
        }
        let now = Instant::now();
        let Desk { inputs, draft, .. } = &mut self.desk;
        if inputs.entry(hand).or_default().feed(bytes, now, draft) {
            self.desk.keys += 1;
            let silence = self.desk.last_key.replace(now).map(|last| now - last);
            if silence.is_none_or(|silence| silence >= SILENCE) {
                self.log.record(LogEvent::new(Name::OperatorInput));
            }
            self.tally.last_key_epoch = Some(figures::epoch());
        }
        self.note_interrupt(bytes);
        if keys::may_cancel(bytes) || self.activity.waits_for_human() {
            self.note_cancel(PutBack::Note);
        }
        self.type_into_agent(bytes);
    }

    /// All of it or nothing.
    pub(super) fn type_for_caller(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.can_be_typed(bytes)?;
        match self.desk.is_typing() {
            true => self.desk.held.push(Held::Caller(bytes.to_vec())),
            false => self.type_into_agent(bytes),
        }
        Ok(())
    }

    pub(super) fn can_be_typed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.io() == Io::Inherit {
            let message = "the agent has no terminal of its own (--io inherit), so nothing can be typed";
            return Err(Error::new(Code::NoPty, message));
        }
        let running = self.agent.as_mut().filter(|a| a.spawning.is_none());
        let Some(terminal) = running.and_then(|a| a.terminal.as_mut()) else {
            return Err(self.refusal(Refusal::NotRunning));
        };
        if terminal.input.room() < bytes.len() + self.desk.held_bytes() {
            return Err(self.refusal(Refusal::InputFull));
        }
        Ok(())
    }

    /// By the operator, or by a caller.
    pub(super) fn type_into_agent(&mut self, bytes: &[u8]) {
        self.record_input(bytes);
        self.desk.typed += 1;
        if bytes.contains(&b'\r') {
            self.note_line_sent();
        }
        self.write_to_agent(bytes);
    }

    /// What is typed, or a terminal's answer.
    pub(super) fn write_to_agent(&mut self, bytes: &[u8]) {
        let Some(terminal) = self.agent.as_mut().and_then(|a| a.terminal.as_mut()) else { return };
        terminal.input.push(bytes);
        let written = terminal.pty.write(terminal.input.pending());
        terminal.input.consume(written);
        self.tally.input_bytes += bytes.len() as u64;
    }
}
