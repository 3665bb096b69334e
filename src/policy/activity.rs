//! What the agent is doing, concluded from its own words: hooks, and the verbs for agents without them.
//! Each conclusion keeps what it rests on.

use std::time::{Duration, Instant};

use crate::sorted::Sorted;

/// How long after the key that cancels a turn the screen tells whether it did: nothing else will.
const CANCELLED: Duration = Duration::from_millis(500);
/// More tools at once than any agent runs: what is lost then is one that never said it had ended.
const TOOLS: usize = 64;

const ALLOWED: &str = "what it wanted to do was allowed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Starting,
    Working,
    Tool,
    Idle,
    WaitingPermission,
    WaitingAnswer,
    /// Nobody has said.
    Unknown,
}

impl Doing {
    pub fn name(self) -> &'static str {
        match self {
            Doing::Starting => "starting",
            Doing::Working => "working",
            Doing::Tool => "tool",
            Doing::Idle => "idle",
            Doing::WaitingPermission => "waiting_permission",
            Doing::WaitingAnswer => "waiting_answer",
            Doing::Unknown => "unknown",
        }
    }
}

/// What the agent says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    SessionStart,
    PromptTaken,
    ToolBegins {
        tool: &'a str,
        id: Option<&'a str>,
        /// A permission for it is asked for under the same one.
        key: Option<&'a str>,
    },
    ToolEnded {
        id: Option<&'a str>,
    },
    /// It shows a dialog and waits for a human: may it?
    AsksPermission,
    /// It shows a dialog with a question.
    AsksQuestion,
    TurnEnded,
    TurnFailed,
    /// By its own verb: it has nothing to do.
    Idle,
    /// By its own verb, from one without hooks: it is at work.
    Heartbeat,
    /// It lives, and that is all.
    Sign,
}

/// Requests of the agent that somebody else has to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub permissions: usize,
    pub questions: usize,
}

/// What the agent's screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Turn,
    Dialog,
    /// A line of input, and nothing that is under way.
    Rest,
    /// Nobody can tell.
    Unclear,
}

/// What becomes of the wish to cancel its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    Press,
    /// There is no turn. The key would mean something else then, and a second one opens menus.
    Idle,
    /// The key was pressed, and what it did is not known yet.
    Already,
}

#[derive(Clone, Debug)]
pub struct Activity {
    /// What it does when nobody has to answer it.
    own: Doing,
    pending: Pending,
    since: Instant,
    heard: Option<Instant>,
    words: u64,
    /// This agent has said more than that something of it lives.
    spoke: bool,
    /// It reports by hooks.
    hooked: bool,
    /// Those in use by their ids, each with the key of its permission.
    tools: Sorted<String, String>,
    last_tool: String,
    because: &'static str,
    /// The key that cancels a turn was pressed: when to look whether it did.
    look_at: Option<Instant>,
    /// No second one before that.
    pressed_until: Option<Instant>,
    pub counts: Counts,
}

/// Since the supervisor started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub prompts: u64,
    pub turns: u64,
    pub failed_turns: u64,
    pub tools: u64,
}

impl Activity {
    pub fn new(now: Instant) -> Activity {
        Activity {
            own: Doing::Unknown,
            pending: Pending::default(),
            since: now,
            heard: None,
            words: 0,
            spoke: false,
            hooked: false,
            tools: Sorted::new(),
            last_tool: String::new(),
            because: "no agent has been started",
            look_at: None,
            pressed_until: None,
            counts: Counts::default(),
        }
    }

    pub fn doing(&self) -> Doing {
        match self.pending {
            Pending { permissions: 1.., .. } => Doing::WaitingPermission,
            Pending { questions: 1.., .. } => Doing::WaitingAnswer,
            Pending { .. } => self.own,
        }
    }

    /// When it began to do that.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// The last word of this agent.
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// It has come up: whoever fails to says nothing but, at most, that it ends.
    pub fn spoke(&self) -> bool {
        self.spoke
    }

    /// By a verb that tells nothing of what it does.
    pub fn note_spoke(&mut self) {
        self.spoke = true;
    }

    /// How often one of them has said something.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// What the conclusion rests on.
    pub fn because(&self) -> String {
        match self.doing() {
            Doing::WaitingPermission if self.pending.permissions > 0 => {
                format!("{} to be answered with `agentsup permission`", self.pending.permissions)
            }
            Doing::WaitingAnswer if self.pending.questions > 0 => {
                format!("{} to be answered with `agentsup question`", self.pending.questions)
            }
            Doing::Tool if self.because == ALLOWED => format!("it was allowed to use {}", self.last_tool),
            Doing::Tool => format!("it said that it uses {}", self.last_tool),
            _ => self.because.to_owned(),
        }
    }

    /// It shows a dialog of its own: any key may be the answer.
    pub fn waits_for_human(&self) -> bool {
        matches!(self.doing(), Doing::WaitingPermission | Doing::WaitingAnswer)
    }

    /// When somebody has to look at the screen.
    pub fn wake(&self) -> Option<Instant> {
        self.look_at
    }

    pub fn began(&mut self, hooked: bool, now: Instant) {
        self.hooked = hooked;
        self.heard = None;
        self.spoke = false;
        self.forget_turn();
        let (doing, because) = match hooked {
            true => (Doing::Starting, "it was started, and its hooks have said nothing yet"),
            false => (Doing::Unknown, "it has no hooks, and has said nothing by itself"),
        };
        self.turn_to(doing, because, now);
    }

    pub fn ended(&mut self, now: Instant) {
        self.heard = None;
        self.spoke = false;
        self.forget_turn();
        self.turn_to(Doing::Unknown, "no agent is running", now);
    }

    fn forget_turn(&mut self) {
        self.tools.clear();
        self.look_at = None;
        self.pressed_until = None;
    }

    pub fn says(&mut self, word: Word, now: Instant) {
        self.heard = Some(now);
        self.words += 1;
        self.spoke |= word != Word::Sign;
        if !matches!(word, Word::Sign | Word::Heartbeat) {
            self.look_at = None;
        }
        match word {
            // Within a turn it is told when the conversation was compacted.
            Word::SessionStart if matches!(self.own, Doing::Working | Doing::Tool) => {}
            Word::SessionStart => {
                self.turn_to(Doing::Idle, "its SessionStart hook, and no prompt since", now)
            }
            Word::PromptTaken => {
                self.counts.prompts += 1;
                self.tools.clear();
                self.turn_to(Doing::Working, "its UserPromptSubmit hook", now);
            }
            Word::ToolBegins { tool, id, key } => self.tool_begins(tool, id, key, now),
            Word::ToolEnded { id } => {
                if let Some(id) = id {
                    self.tools.remove(id);
                } else {
                    self.tools.clear();
                }
                if self.tools.is_empty() {
                    self.turn_to(Doing::Working, "its PostToolUse hook: the tool has ended", now);
                }
            }
            Word::AsksPermission => {
                self.turn_to(Doing::WaitingPermission, "it shows a dialog that asks for a permission", now);
            }
            Word::AsksQuestion => {
                self.turn_to(Doing::WaitingAnswer, "it shows a dialog with a question", now)
            }
            Word::TurnEnded => {
                self.counts.turns += 1;
                self.rest("its Stop hook: the turn has ended", now);
            }
            Word::TurnFailed => {
                self.counts.failed_turns += 1;
                self.rest("its StopFailure hook: the turn has failed", now);
            }
            Word::Idle => self.rest("it said so itself", now),
            Word::Heartbeat if self.hooked => {}
            Word::Heartbeat => {
                self.turn_to(Doing::Working, "its heartbeat, and no `agentsup idle` since", now)
            }
            Word::Sign => {}
        }
    }

    fn tool_begins(&mut self, tool: &str, id: Option<&str>, key: Option<&str>, now: Instant) {
        self.counts.tools += 1;
        tool.clone_into(&mut self.last_tool);
        if let Some(id) = id
            && self.tools.len() < TOOLS
        {
            self.tools.insert(id.to_owned(), key.unwrap_or_default().to_owned());
        }
        self.turn_to(Doing::Tool, "its PreToolUse hook", now);
    }

    fn rest(&mut self, because: &'static str, now: Instant) {
        self.tools.clear();
        self.turn_to(Doing::Idle, because, now);
    }

    /// Somebody typed a line into an agent that does not say when its turns begin.
    pub fn line_sent(&mut self, now: Instant) {
        if self.own == Doing::Idle {
            self.turn_to(Doing::Unknown, "a line was typed since its last turn ended", now);
        }
    }

    /// A permission for `tool` was answered: what the agent does with a no is to go on thinking, unless it
    /// uses other tools beside the one that was denied.
    pub fn permitted(&mut self, yes: bool, tool: &str, key: Option<&str>, now: Instant) {
        match self.own {
            // At work it asked without saying before that it uses one.
            Doing::Tool | Doing::WaitingPermission | Doing::Working => {}
            Doing::Starting | Doing::Idle | Doing::WaitingAnswer | Doing::Unknown => return,
        }
        if yes {
            tool.clone_into(&mut self.last_tool);
            return self.turn_to(Doing::Tool, ALLOWED, now);
        }
        match key {
            Some(key) => self.tools.retain(|_, of| of != key),
            None => self.tools.clear(),
        }
        let doing = if self.tools.is_empty() { Doing::Working } else { Doing::Tool };
        self.turn_to(doing, "what it wanted to do was denied", now);
    }

    pub fn pending(&mut self, pending: Pending, now: Instant) {
        let before = self.doing();
        self.pending = pending;
        if self.doing() != before {
            self.since = now;
        }
    }

    /// Somebody wants its turn cancelled. Its own words come first; a screen that shows a turn knows of
    /// those that no hook tells of, like a command that its user runs.
    pub fn cancel(&self, seen: Seen, now: Instant) -> Cancel {
        if self.look_at.is_some() || self.pressed_until.is_some_and(|until| now < until) {
            return Cancel::Already;
        }
        match (self.doing(), seen) {
            (Doing::Working | Doing::Tool | Doing::WaitingPermission | Doing::WaitingAnswer, _) => {
                Cancel::Press
            }
            (Doing::Starting | Doing::Idle | Doing::Unknown, Seen::Turn) => Cancel::Press,
            // A dialog of the start would take it for a no, and the agent end; an idle one has opened its own.
            (Doing::Starting | Doing::Idle, Seen::Dialog | Seen::Rest | Seen::Unclear) => Cancel::Idle,
            (Doing::Unknown, Seen::Rest) => Cancel::Idle,
            (Doing::Unknown, Seen::Dialog | Seen::Unclear) => Cancel::Press,
        }
    }

    /// The key that cancels a turn was pressed. An agent's hooks do not tell of that.
    pub fn cancelled(&mut self, now: Instant) {
        self.look_at = Some(now + CANCELLED);
        self.pressed_until = self.look_at;
    }

    /// What was pressed is read only now: the agent stood still, or others were typing.
    pub fn delayed(&mut self, now: Instant) {
        if self.look_at.is_some() {
            self.cancelled(now);
        }
    }

    /// The dialog that it waited in is gone, and its turn is not: a human has said yes, and what that
    /// allowed may take its time.
    pub fn went_on(&mut self, now: Instant) {
        match self.own {
            Doing::Tool | Doing::WaitingPermission => {
                self.turn_to(Doing::Tool, "a key answered its dialog, and the turn goes on", now);
            }
            Doing::WaitingAnswer => self.turn_to(Doing::Working, "a key answered its question", now),
            Doing::Starting | Doing::Working | Doing::Idle | Doing::Unknown => {}
        }
    }

    /// Somebody has looked: `works` if the screen still shows a turn.
    pub fn looked(&mut self, works: bool, now: Instant) {
        self.look_at = None;
        let in_turn = matches!(
            self.own,
            Doing::Working | Doing::Tool | Doing::WaitingPermission | Doing::WaitingAnswer
        );
        if in_turn && !works {
            self.rest("its turn was cancelled by a key", now);
        }
    }

    fn turn_to(&mut self, doing: Doing, because: &'static str, now: Instant) {
        let before = self.doing();
        self.own = doing;
        self.because = because;
        if self.doing() != before {
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests;
