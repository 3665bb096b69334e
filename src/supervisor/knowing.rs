//! What the agent says of itself: its hooks, and the verbs for agents that have none.

use std::time::Instant;

use super::calls::{Answer, Answered, refuse};
use super::{Charge, Supervisor, figures, watch};
use crate::control::protocol::{Ack, Activity as Shown, Body, Code, Done, Heard, Hook, HookEvent};
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::activity::{Cancel, Doing, Seen, Word};
use crate::screen::Sight;
use crate::session::{Profile, id};
use crate::sorted::Sorted;

/// A description and an outcome are a sentence or two.
const LONGEST: usize = 1024;
/// Tools that are counted by name; the rest together.
const TOOLS: usize = 200;
/// Characters of a prompt that are kept.
const PROMPT_END: usize = 100;
const OTHER_TOOLS: &str = "other";

/// What the agent has said, beside what it does.
#[derive(Default)]
pub(super) struct OwnWords {
    pub(super) description: Option<String>,
    pub(super) done: Option<Done>,
    /// How often it used each tool.
    pub(super) tools: Sorted<String, u64>,
    /// As the log last said.
    told: Option<Shown>,
    /// The end of the last prompt it took.
    pub(super) prompt: Option<String>,
    put_back: PutBack,
}

/// What is done with a prompt that the agent puts back into its line when its turn is cancelled.
#[derive(Clone, Copy, Default)]
pub(super) enum PutBack {
    /// It is the draft of whoever pressed the key.
    Note,
    /// Nobody is there to edit it.
    Remove,
    /// Who types raw bytes looks after the line.
    #[default]
    Leave,
}

impl Supervisor {
    pub(super) fn hook(&mut self, hook: &Hook, peer: Peer) -> Answered {
        let said_before = self.activity.words();
        self.note_sign();
        let prompt = hook.prompt.as_deref();
        if self.is_of_call(peer) {
            self.call_says(hook.event, prompt);
            return Ok(Answer::Now(Body::Heard(self.heard(hook))));
        }
        if let Some(word) = word(hook) {
            self.activity.says(word, Instant::now());
        }
        self.note_conversation(hook);
        match hook.event {
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure if hook.key.is_some() => {
                self.overtake_requests(hook.key.as_deref());
            }
            HookEvent::UserPromptSubmit | HookEvent::Stop | HookEvent::StopFailure => {
                self.overtake_requests(None);
            }
            _ => {}
        }
        match hook.event {
            HookEvent::UserPromptSubmit => {
                self.limits.prompted();
                self.watch.note_prompt(prompt.unwrap_or_default(), self.activity.words() - said_before);
                self.own_words.prompt = prompt.map(end_of);
                self.prompt_confirmed(prompt.unwrap_or_default());
                self.trigger_prompted(prompt);
            }
            HookEvent::Stop => {
                self.limits.turn_ended();
                self.trigger_turn_ended();
            }
            HookEvent::StopFailure => {
                if hook.error.as_deref() == Some("rate_limit") {
                    self.limit_met(hook.text.as_deref().unwrap_or_default());
                }
                self.bridge.in_turn = false;
                self.agent_at_work();
            }
            HookEvent::PreToolUse => {
                self.count_tool(hook.tool.as_deref());
                self.agent_at_work();
            }
            HookEvent::SessionStart
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::Notification
            | HookEvent::Other => self.agent_at_work(),
        }
        Ok(Answer::Now(Body::Heard(self.heard(hook))))
    }

    /// Whoever asks next knows how long to wait for us.
    fn heard(&self, hook: &Hook) -> Heard {
        let asks = hook.event == HookEvent::PermissionRequest;
        Heard { answer_within_ms: asks.then(|| self.requests.timeout().as_millis() as u64) }
    }

    /// codex chooses its own, and a human may have claude begin or take up another one: that is what a continue
    /// goes on with, and what is read and counted.
    fn note_conversation(&mut self, hook: &Hook) {
        let is_told = match self.profile() {
            Profile::Codex => true,
            Profile::Claude => matches!(hook.event, HookEvent::SessionStart | HookEvent::UserPromptSubmit),
            Profile::Other => false,
        };
        // It becomes an argument and a part of a file's name.
        let is_one = |id: &&str| id::check(id).is_ok() && !id.starts_with('-');
        let Some(id) = hook.conversation.as_deref().filter(|_| is_told).filter(is_one) else { return };
        let Charge::Run(session) = &mut self.charge else { return };
        let known = &mut session.record.facts.conversation.id;
        if known.as_deref() == Some(id) {
            return;
        }
        *known = Some(id.to_owned());
        let event = LogEvent::new(Name::ConversationChanged)
            .with("conversation", id)
            .maybe("source", hook.kind.as_deref().filter(|_| hook.event == HookEvent::SessionStart));
        self.log.record(event);
        self.write_record();
        let is_new = hook.event == HookEvent::SessionStart
            && matches!(hook.kind.as_deref(), Some("startup" | "clear"));
        self.conversation_changed(!is_new);
    }

    /// A line went to an agent that tells only of the end of its turns: nobody knows what it does until then.
    pub(super) fn note_line_sent(&mut self) {
        if self.profile() == Profile::Codex {
            self.activity.line_sent(Instant::now());
        }
    }

    fn count_tool(&mut self, tool: Option<&str>) {
        let tools = &mut self.own_words.tools;
        let tool = tool.filter(|tool| tools.len() < TOOLS || tools.contains_key(*tool));
        *tools.entry(tool.unwrap_or(OTHER_TOOLS).to_owned()).or_default() += 1;
    }

    pub(super) fn says_idle(&mut self) -> Answered {
        self.note_heartbeat();
        self.bridge.in_turn = false;
        self.activity.says(Word::Idle, Instant::now());
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    pub(super) fn says_done(&mut self, text: Option<&str>) -> Answered {
        let text = text.map(|text| sentence("done", text)).transpose()?;
        let event = LogEvent::new(Name::Done).maybe("text", text.as_deref());
        self.log.record(event);
        let text = text.map(|text| self.log.mask(&text));
        self.own_words.done = Some(Done { at: figures::epoch(), text });
        self.says_idle()
    }

    pub(super) fn describe(&mut self, text: &str) -> Answered {
        let text = self.log.mask(&sentence("describe", text)?);
        self.note_heartbeat();
        self.own_words.description = Some(text).filter(|text| !text.is_empty());
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    /// Whether the key that cancels a turn is to be pressed.
    pub(super) fn cancel(&self) -> Cancel {
        let seen = match (self.profile(), self.screen.sight()) {
            // To a program it is Ctrl-C, as often as it is asked for.
            (Profile::Other, _) => return Cancel::Press,
            (Profile::Codex, _) | (Profile::Claude, Some(Sight::Other) | None) => Seen::Unclear,
            (Profile::Claude, Some(Sight::Turn)) => Seen::Turn,
            (Profile::Claude, Some(Sight::Dialog)) => Seen::Dialog,
            (Profile::Claude, Some(Sight::Line)) => Seen::Rest,
        };
        self.activity.cancel(seen, Instant::now())
    }

    /// The key that cancels a turn has gone to the agent.
    pub(super) fn note_cancel(&mut self, put_back: PutBack) {
        if self.profile().is_known() {
            self.own_words.put_back = put_back;
            self.activity.cancelled(Instant::now());
        }
    }

    /// Whether the key did cancel the turn, once that can be seen.
    pub(super) fn look_when_due(&mut self) {
        let now = Instant::now();
        if self.look_due().is_none_or(|at| now < at) {
            return;
        }
        let sight = match self.screen.sight() {
            Some(sight) if self.profile() == Profile::Claude => sight,
            // Of others nobody knows what their screen would say.
            _ => return self.activity.looked(true, now),
        };
        let works = matches!(sight, Sight::Turn | Sight::Dialog);
        self.activity.looked(works, now);
        if sight == Sight::Turn && self.activity.waits_for_human() {
            self.activity.went_on(now);
            self.overtake_requests(None);
        }
        if !works {
            self.overtake_requests(None);
            self.see_to_prompt_put_back();
        }
        self.bridge.in_turn = self.bridge.in_turn && works;
    }

    /// A prompt that claude had not begun to answer stands in its line again, where the next text would
    /// be added to it.
    fn see_to_prompt_put_back(&mut self) {
        let Some(prompt) = self.own_words.prompt.take() else { return };
        if self.desk.has_draft() || !self.screen.holds_draft(&prompt) {
            return;
        }
        match self.own_words.put_back {
            // In a line with text Ctrl-C empties it, and claude keeps it in its history.
            PutBack::Remove => self.type_into_agent(b"\x03"),
            PutBack::Note => self.desk.take_line(),
            PutBack::Leave => {}
        }
    }

    /// What stands still has not read its keys.
    pub(super) fn look_due(&self) -> Option<Instant> {
        self.activity.wake().filter(|_| !self.sweep.is_frozen())
    }

    /// After every turn: what it does now is known, and told if it is something else.
    pub(super) fn follow_activity(&mut self) {
        let shown = self.shown_activity();
        let before = self.own_words.told.replace(shown);
        if before != Some(shown) && before.is_some() {
            let event = LogEvent::new(Name::ActivityChanged)
                .maybe("from", before.map(Shown::name))
                .with("to", shown.name())
                .with("why", self.why_doing());
            self.log.record(event);
        }
    }

    /// What the conclusion rests on.
    fn why_doing(&self) -> String {
        match self.sweep.frozen_by() {
            Some("freezer") => return "the tree is paused, by the cgroup freezer".to_owned(),
            Some(_) => return "the tree is paused, by SIGSTOP".to_owned(),
            None => {}
        }
        self.watch.stuck().map_or_else(|| self.activity.because(), |(_, evidence)| watch::told(&evidence))
    }

    pub(super) fn activity_since(&self) -> Instant {
        let stuck = || self.watch.stuck().map(|(since, _)| since);
        self.sweep.frozen_since().or_else(stuck).unwrap_or_else(|| self.activity.since())
    }

    pub(super) fn shown_activity(&self) -> Shown {
        if self.sweep.is_frozen() {
            return Shown::Paused;
        }
        if self.watch.stuck().is_some() {
            return Shown::Stuck;
        }
        match self.activity.doing() {
            Doing::Starting => Shown::Starting,
            Doing::Working => Shown::Working,
            Doing::Tool => Shown::Tool,
            Doing::Idle => Shown::Idle,
            Doing::WaitingPermission => Shown::WaitingPermission,
            Doing::WaitingAnswer => Shown::WaitingAnswer,
            Doing::Unknown => Shown::Unknown,
        }
    }

    /// For `state --why`.
    pub(super) fn why_activity(&self) -> Vec<String> {
        if self.sweep.is_frozen() {
            return vec![format!("activity: {}", self.why_doing())];
        }
        let for_ms = self.activity_since().elapsed().as_millis();
        let mut lines = vec![format!(
            "activity: `{}` for {for_ms} ms: {}",
            self.shown_activity().name(),
            self.why_doing()
        )];
        lines.push(match self.activity.heard() {
            Some(at) => format!("activity: last heard of it {} ms ago", at.elapsed().as_millis()),
            None => "activity: it has said nothing since it was started".to_owned(),
        });
        lines
    }
}

/// `None` is no word of the agent's: another of its calls follows and says more.
fn word(hook: &Hook) -> Option<Word<'_>> {
    let id = hook.tool_use_id.as_deref();
    Some(match hook.event {
        HookEvent::SessionStart => Word::SessionStart,
        HookEvent::UserPromptSubmit => Word::PromptTaken,
        HookEvent::PreToolUse if hook.tool.as_deref() == Some(QUESTION_TOOL) => Word::AsksQuestion,
        HookEvent::PreToolUse => {
            let tool = hook.tool.as_deref().unwrap_or("a tool without a name");
            Word::ToolBegins { tool, id, key: hook.key.as_deref() }
        }
        HookEvent::PostToolUse | HookEvent::PostToolUseFailure => Word::ToolEnded { id },
        HookEvent::Notification => match hook.kind.as_deref() {
            Some("permission_prompt") => Word::AsksPermission,
            Some("elicitation_dialog") => Word::AsksQuestion,
            Some("idle_prompt") => Word::Idle,
            _ => Word::Sign,
        },
        HookEvent::Stop => Word::TurnEnded,
        HookEvent::StopFailure => Word::TurnFailed,
        HookEvent::PermissionRequest => return None,
        HookEvent::Other => Word::Sign,
    })
}

/// claude's own dialog with questions: nobody but a human at its terminal can answer it.
pub(super) const QUESTION_TOOL: &str = "AskUserQuestion";

/// Enough of a prompt to know it by.
pub(super) fn end_of(prompt: &str) -> String {
    let start = prompt.char_indices().rev().nth(PROMPT_END).map_or(0, |(at, _)| at);
    prompt[start..].to_owned()
}

fn sentence(method: &str, text: &str) -> Result<String, crate::control::protocol::Error> {
    if text.len() > LONGEST {
        let message = format!("`{method}`: param `text`: it is over 1 KiB");
        return refuse(Code::BadParams, message).map(|_| String::new());
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
