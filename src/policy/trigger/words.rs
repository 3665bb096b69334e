//! The words of the machine: what a trigger is, what becomes of it, what it depends on.

use std::time::{Duration, Instant};

use super::fallback::Way;
use crate::policy::typing;

/// `[trigger]` of the config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// So long after an operator's last key nobody else types.
    pub quiet: Duration,
    /// How long a trigger is held back before it is given up.
    pub max_defer: Duration,
    pub ack_timeout: Duration,
    /// One retry for each, after so long.
    pub retry_waits: Vec<Duration>,
    pub max_bytes: usize,
    /// For one thread; for all together ten times as many.
    pub rate_per_minute: u32,
    pub no_progress_turns: u32,
    pub identical_findings: u32,
    /// Calls for one trigger that typing did not deliver; 0: none, and no fresh start either.
    pub resume_attempts: u32,
    /// A conversation whose agent was not heard of for so long is not resumed.
    pub stale_after: Duration,
    /// Nor is one after so many failures within that time; 0: however many.
    pub crash_shortcut: (u32, Duration),
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            quiet: Duration::from_secs(20),
            max_defer: Duration::from_secs(60),
            ack_timeout: Duration::from_secs(8),
            retry_waits: vec![Duration::from_secs(2), Duration::from_secs(4)],
            max_bytes: 16 * 1024,
            rate_per_minute: 6,
            no_progress_turns: 20,
            identical_findings: 3,
            resume_attempts: 2,
            stale_after: Duration::from_secs(12 * 60 * 60),
            crash_shortcut: (3, Duration::from_secs(15 * 60)),
        }
    }
}

/// What a caller wants to be delivered. Made by [`Asked::new`](super::envelope), so it is fit to be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub id: String,
    pub thread: String,
    pub reason: Option<String>,
    /// Cleaned.
    pub text: String,
    /// Typed whatever the operator does.
    pub force: bool,
}

/// Why a trigger was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The words of the trigger itself; which, and what is wrong with them.
    Bad(String),
    TooLarge {
        bytes: usize,
    },
    /// The id was given to another trigger.
    DuplicateId,
    RateLimited {
        wait: Duration,
    },
    ThreadBlocked,
    QueueFull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Queued,
    /// An operator is at work.
    Deferred,
    /// Being typed.
    Triggering,
    AwaitingAck,
    /// Not by typing any more.
    FallingBack,
    Delivered(By),
    Failed(Failure),
}

/// How a trigger can end, each by the name that is kept and told.
const ENDS: [(&str, State); 19] = [
    ("ack", State::Delivered(By::Ack)),
    ("progress", State::Delivered(By::Progress)),
    ("hook", State::Delivered(By::Hook)),
    ("heartbeat", State::Delivered(By::Heartbeat)),
    ("marker", State::Delivered(By::Marker)),
    ("resume", State::Delivered(By::Resume)),
    ("fork", State::Delivered(By::Fork)),
    ("spawn", State::Delivered(By::Spawn)),
    ("defer_timeout", State::Failed(Failure::DeferTimeout)),
    ("ack_timeout", State::Failed(Failure::AckTimeout)),
    ("not_running", State::Failed(Failure::NotRunning)),
    ("not_ready", State::Failed(Failure::NotReady)),
    ("not_shown", State::Failed(Failure::NotShown)),
    ("line_too_long", State::Failed(Failure::LineTooLong)),
    ("write_failed", State::Failed(Failure::WriteFailed)),
    ("thread_blocked", State::Failed(Failure::ThreadBlocked)),
    ("cancelled", State::Failed(Failure::Cancelled)),
    ("resume_failed", State::Failed(Failure::ResumeFailed)),
    ("spawn_failed", State::Failed(Failure::SpawnFailed)),
];

impl State {
    /// `None` while it has not ended.
    pub fn end_name(self) -> Option<&'static str> {
        ENDS.iter().find(|(_, state)| *state == self).map(|(name, _)| *name)
    }

    pub fn of_end(name: &str) -> Option<State> {
        ENDS.iter().find(|(known, _)| *known == name).map(|(_, state)| *state)
    }

    pub fn is_final(self) -> bool {
        matches!(self, State::Delivered(_) | State::Failed(_))
    }
}

/// Who says that it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Ack,
    Progress,
    Hook,
    Heartbeat,
    Marker,
    /// It went into the conversation by a call of its own.
    Resume,
    /// Into a fork of the conversation.
    Fork,
    /// The agent began anew with it.
    Spawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An operator was at work all the time.
    DeferTimeout,
    AckTimeout,
    /// No agent ran, or it ended before it acknowledged.
    NotRunning,
    NotReady,
    /// Typed, but the agent's line does not show it; Enter was not pressed.
    NotShown,
    LineTooLong,
    WriteFailed,
    ThreadBlocked,
    Cancelled,
    /// Neither typing nor a call delivered it.
    ResumeFailed,
    /// The agent that was to begin anew with it did not come up.
    SpawnFailed,
}

/// What is known of one trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub id: String,
    pub thread: String,
    pub reason: Option<String>,
    pub force: bool,
    /// How the text begins.
    pub subject: String,
    /// Of the text, to know another one by.
    pub gist: u64,
    pub state: State,
    /// How often Enter was pressed for it, and how often it was carried otherwise.
    pub attempts: u32,
    /// Seconds since 1970.
    pub accepted_at: u64,
    pub ended_at: Option<u64>,
    /// It was acknowledged when it had failed already.
    pub acked_late: bool,
}

impl Status {
    /// Of one that was just accepted.
    pub(super) fn of(asked: &Asked, accepted_at: u64) -> Status {
        Status {
            id: asked.id.clone(),
            thread: asked.thread.clone(),
            reason: asked.reason.clone(),
            force: asked.force,
            subject: asked.subject(),
            gist: asked.gist(),
            state: State::Queued,
            attempts: 0,
            accepted_at,
            ended_at: None,
            acked_late: false,
        }
    }
}

/// What an earlier supervisor of the session left, each with when it was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// In the order in which they came.
    pub waiting: Vec<(Asked, u64)>,
    /// Was being typed, or waited to be acknowledged.
    pub under_way: Vec<(Asked, u64)>,
    pub ended: Vec<Status>,
    /// Threads.
    pub blocked: Vec<String>,
}

/// What the agent and its terminal are like at this moment.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub agent: Agent,
    /// It has its line of input on the screen, or nobody knows how that would show.
    pub is_ready: bool,
    /// Somebody's draft stands in the line.
    pub has_draft: bool,
    /// It is paused, or about to end.
    pub is_held: bool,
    /// It says that it is in the middle of a turn.
    pub is_working: bool,
    /// It tells by itself which prompt it was given.
    pub confirms: bool,
    /// When it was last heard of, in seconds since 1970.
    pub heard_at: u64,
    pub last_key: Option<Instant>,
    /// Whether what was typed last stands in the line still, as far as the screen shows. Dear to find.
    pub stands: &'a dyn Fn() -> bool,
    /// What can be done for its conversation. Dear to find.
    pub can: &'a dyn Fn() -> Can,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Up,
    /// Being started.
    Coming,
    /// It made room, and waits to be called back.
    Away,
    Down,
}

/// What an agent's own commands can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Can {
    /// A call in its conversation.
    pub resume: bool,
    /// A call in a fork of it.
    pub fork: bool,
    /// A fresh start with a prompt.
    pub spawn: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Into the agent's line, with an Enter; [`typed`](super::Triggers::typed) tells of the end of it.
    Type {
        text: String,
        force: bool,
    },
    /// An Enter alone; the same tells of its end.
    PressEnter,
    /// The agent is to end and to stay away; that is asked for, and counts as none.
    MakeRoom,
    /// A call carries the text; [`call_ended`](super::Triggers::call_ended) tells of its end.
    Call {
        text: String,
        fork: bool,
    },
    /// The call takes too long.
    EndCall,
    /// The agent that made room returns to its conversation.
    ComeBack,
    /// The agent that made room begins anew, with [`prompt`](super::Triggers::prompt).
    BeginAnew,
    Tell(News),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    Answered,
    Failed,
    /// It could not even be started, and could not a moment later.
    NotMade,
    /// Together with the supervisor that made it.
    CutShort,
}

/// For the log, and for whoever waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Deferred(String),
    /// Enter was pressed, for the nth time.
    Sent(String, u32),
    Acked {
        id: String,
        by: By,
        late: bool,
    },
    FallsBack(String, Way),
    Ended(String),
    Blocked {
        thread: String,
        why: Guard,
    },
}

/// What the loop guard saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    NoProgress,
    IdenticalFindings,
}

/// Whom an acknowledgement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For<'a> {
    Id(&'a str),
    /// The trigger of that thread that is under way.
    Thread(&'a str),
}

/// Counted since the supervisor started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub attempts: u64,
    pub delivered: u64,
    pub failed: u64,
    pub retries: u64,
    pub timeouts: u64,
    pub deferred: u64,
    pub refused: u64,
}

/// How typing ended, as far as it matters here.
pub type Typed = Result<(), typing::Refusal>;
