//! The words of the machine: what it goes by, where it can be, what it hears and what it asks for.

use std::time::{Duration, Instant};

use super::stopping::{Ending, Request};
use crate::policy::crash::{Class, End, HaltReason, Numbers, OnClean, OnHalt, Restart};
use crate::policy::stop::{Order, Stop};

/// How the next spawn treats the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Fresh,
    Continue,
    /// Fresh, with somebody else's first words. They are said once: what comes after it is a continue.
    Anew,
}

/// What follows when an agent that was to end has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Start(Next),
    /// As soon as the policy lets whom a rule has ended start again.
    Again,
    /// It comes back when it is called, and as somebody asked for meanwhile.
    StayAway(Option<Next>),
    /// The rule of this name reaps it.
    Halt(&'static str),
}

#[derive(Clone, Debug)]
pub struct Rules {
    pub numbers: Numbers,
    pub restart: Restart,
    pub on_clean: OnClean,
    pub on_halt: OnHalt,
    pub grace: Duration,
    /// Of the grace, what an agent that is gone has left behind.
    pub leftovers: Duration,
    pub timeout: Option<Duration>,
    pub first: Next,
    /// There is a command to ask before each spawn.
    pub asks_before_spawn: bool,
    /// There is a command to tell about a halt.
    pub notifies: bool,
    /// What an agent left behind is ended before the next one is started.
    pub ends_leftovers: bool,
}

/// Who left behind what is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    EarlierSupervisor,
    /// The agent that ran last.
    Agent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// What an earlier supervisor of this session left behind is ended before anything, and where the rules say
    /// so what an agent left behind before the next one.
    Clearing {
        stop: Stop,
        whose: Whose,
        next: Next,
    },
    /// `before_spawn` is being asked.
    Preparing {
        next: Next,
        until: Instant,
    },
    /// Forked; whether the program runs is not known yet.
    Starting {
        next: Next,
        since: Instant,
    },
    Running {
        next: Next,
        since: Instant,
    },
    Waiting {
        next: Next,
        until: Instant,
        why: Why,
    },
    /// A clean exit: the operator decides.
    Asking,
    Halted,
    /// Somebody asked for another start or for its place, or a rule reaps it: the agent is being ended,
    /// and until `kill_at` kindly.
    Restarting {
        then: Then,
        since: Instant,
        kill_at: Option<Instant>,
    },
    /// It made room for somebody else in its conversation, who calls it back. Somebody may have asked
    /// for another start meanwhile.
    Away {
        asked: Option<Next>,
    },
    /// Halted and about to end, once somebody has been told.
    Telling {
        until: Instant,
    },
    Stopping {
        stop: Stop,
        code: Ending,
        asked: Option<Request>,
        since: Instant,
    },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    LeftoversGone,
    /// `before_spawn` agreed, or refused.
    Prepared {
        agreed: bool,
    },
    /// The program runs, and what it was really started as: a continue with nothing to continue is
    /// a fresh start.
    ExecDone {
        ran_as: Next,
    },
    /// It could not be started, with the code that says so.
    SpawnFailed {
        code: u8,
    },
    Exited(End),
    /// By a signal (its sender, 0 if unknown) or a key.
    StopAsked {
        sender: i32,
    },
    /// Nobody is at the terminal any more: a stop, but never impatience, because a closing window
    /// says so several times.
    TerminalGone,
    /// By a caller: asked twice it is no hurry, there is `KillAsked` for that.
    StopCalled,
    /// The operator wants it started again, now that nothing runs.
    Retry,
    /// A caller wants it started again, whether it runs or not.
    RestartAsked {
        next: Next,
    },
    /// A rule wants it started again: nobody watches that, so it may not go round and round.
    RuleRestarts,
    /// Somebody else needs its conversation: it is to end, and to stay away until it is called.
    AwayAsked,
    BackAsked {
        next: Next,
    },
    /// The rule of this name wants it ended, and nothing started until somebody resumes.
    ReapAsked {
        rule: &'static str,
    },
    /// A caller wants everything dead.
    KillAsked,
    /// The operator wants to leave, now that nothing runs.
    Quit,
    Notified,
    /// Nothing of the tree is left.
    TreeGone,
    /// A deadline may have passed; an extra one is harmless.
    Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same orders, for what these left behind.
    Leftovers(Whose, Order),
    AskBeforeSpawn(Next),
    AbandonHelper,
    Spawn(Next),
    /// Ask the operator: Enter or q.
    Ask,
    TellExit {
        class: Class,
        end: End,
        ran: Duration,
    },
    TellRestart {
        class: Class,
        wait: Duration,
        next: Next,
    },
    TellContinueFailed,
    TellHalt(HaltReason),
    TellResumed,
    /// TERM or KILL to the agent and all that runs below us but helpers; while it only makes room, to it and
    /// what it runs.
    EndAgent(Order),
    TellStopping {
        timed_out: bool,
    },
    Notify(HaltReason),
    Tree(Order),
    End(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Degraded,
    Halted,
}

/// Why the loop will wake by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Restart,
    /// The limit that the agent reported is over, as far as is known.
    RateLimit,
    GraceOver,
    Timeout,
    HelperTooSlow,
}
