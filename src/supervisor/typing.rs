//! Whatever is typed into the agent: by the operator, by callers, and by `send`. While a text is
//! typed all others wait, so that nothing ever comes between it and its Enter.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::calls::{Answer, Answered, refuse};
use super::settings::Io;
use super::waits::ForWhat;
use super::{Supervisor, figures};
use crate::control::protocol::{Ack, Body, Code, Error, HookEvent, Receipt, Sent};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::typing::{self, Effect, Ground, Job, Refusal, Typing, text};
use crate::screen::input::{Draft, Input};
use crate::session::Profile;

/// The longest text that is sent.
pub const LONGEST: usize = 16 * 1024;
/// A key after so long a silence is a human stepping in.
const SILENCE: Duration = Duration::from_secs(20);

/// What is known of the agent's line and of whom it belongs to.
#[derive(Default)]
pub(super) struct Desk {
    typing: Typing,
    /// What follows each operator's keys. The line is one, and so is the draft.
    inputs: BTreeMap<Hand, Input>,
    draft: Draft,
    last_key: Option<Instant>,
    senders: BTreeMap<u64, Sender>,
    last_ticket: u64,
    /// Texts that came to their end in this turn.
    done: Vec<(u64, Result<Receipt, Error>)>,
    /// What others typed meanwhile, in order.
    held: Vec<Held>,
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
        self.typing.wake()
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typing.is_typing()
    }

    pub(super) fn last_key(&self) -> Option<Instant> {
        self.last_key
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(super) fn ask(&mut self, job: Job) -> Result<(), Refusal> {
        self.typing.ask(job, Instant::now())
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

    /// What the agent tells of itself.
    pub(super) fn hook(&mut self, event: HookEvent, prompt: Option<&str>, peer: Peer) -> Answered {
        self.note_heartbeat();
        if self.is_of_call(peer) {
            self.call_says(event, prompt);
            return Ok(Answer::Now(Body::Ack(Ack {})));
        }
        match event {
            HookEvent::UserPromptSubmit => {
                let effects = self.desk.typing.prompt_taken(prompt.unwrap_or_default());
                self.perform_typing(effects);
                self.trigger_prompted(prompt);
            }
            HookEvent::Stop => self.trigger_turn_ended(),
            HookEvent::Other => self.agent_at_work(),
        }
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    /// As far as it can go now.
    pub(super) fn type_on(&mut self) {
        while self.desk.typing.has_work() {
            let effects = self.desk.typing.turn(&self.ground(), Instant::now());
            if effects.is_empty() {
                break;
            }
            self.perform_typing(effects);
        }
        if !self.desk.is_typing() && !self.desk.held.is_empty() {
            for held in std::mem::take(&mut self.desk.held) {
                match held {
                    Held::Operator(hand, bytes) => self.on_operator(hand, &bytes),
                    Held::Caller(bytes) => self.type_into_agent(&bytes),
                }
            }
        }
    }

    pub(super) fn ground(&self) -> Ground {
        let terminal = self.agent.as_ref().filter(|a| a.spawning.is_none()).and_then(|a| a.terminal.as_ref());
        let bracketed = self.screen.wants_bracketed_paste();
        Ground {
            is_running: terminal.is_some(),
            // Those that are known have one, and switch this on with it. Until then the terminal is
            // not theirs yet, and what is typed may be thrown away.
            is_ready: bracketed || self.profile() == Profile::Other,
            has_draft: self.desk.has_draft(),
            half_typed: self.desk.inputs.values().filter_map(Input::half_typed).max(),
            bracketed,
            canonical: terminal.is_some_and(|t| t.pty.is_canonical()),
            room: terminal.map_or(0, |t| t.input.room()),
            unwritten: terminal.is_some_and(|t| !t.input.is_empty()),
            unread: terminal.is_some_and(|t| t.has_unread()),
            output: self.tally.output_bytes,
            shows: match (self.profile(), self.desk.typing.text()) {
                (Profile::Claude | Profile::Codex, Some(text)) => self.screen.line_shows(text),
                (Profile::Claude | Profile::Codex | Profile::Other, _) => None,
            },
        }
    }

    fn perform_typing(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(bytes) => self.type_into_agent(&bytes),
                Effect::LineSent => self.desk.draft.end(),
                Effect::LineTaken => self.desk.draft.begin(),
                Effect::Done { ticket, result } => self.tell_sent(ticket, result),
            }
        }
    }

    fn tell_sent(&mut self, ticket: u64, result: Result<typing::Receipt, Refusal>) {
        if self.trigger_typed(ticket, result.map(|_| ())) {
            return;
        }
        let result = match result {
            Ok(typing::Receipt::Written) => Ok(Receipt::Written),
            Ok(typing::Receipt::Submitted) => Ok(Receipt::Submitted),
            Ok(typing::Receipt::Confirmed) => Ok(Receipt::Confirmed),
            Err(refusal) => Err(self.refusal(refusal)),
        };
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

    fn refusal(&self, refusal: Refusal) -> Error {
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
            let silence = self.desk.last_key.replace(now).map(|last| now - last);
            if silence.is_none_or(|silence| silence >= SILENCE) {
                self.log.record(LogEvent::new(Name::OperatorInput));
            }
            self.tally.last_key_epoch = Some(figures::epoch());
        }
        self.note_interrupt(bytes);
        self.type_into_agent(bytes);
    }

    /// All of it or nothing.
    pub(super) fn type_for_caller(&mut self, bytes: &[u8]) -> Result<(), Error> {
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
        match self.desk.is_typing() {
            true => self.desk.held.push(Held::Caller(bytes.to_vec())),
            false => self.type_into_agent(bytes),
        }
        Ok(())
    }

    /// By the operator, or by a caller.
    pub(super) fn type_into_agent(&mut self, bytes: &[u8]) {
        self.record_input(bytes);
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
