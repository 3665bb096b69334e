//! The words of a node: what it goes by, where a child can be, what is heard and what is asked for.

use std::time::{Duration, Instant};

/// Names a child for as long as the node lives; never given to another.
pub type Key = u64;

/// The code of a node that has given up: `EX_SOFTWARE`, which is how a failure climbs.
pub const GAVE_UP: u8 = 70;
/// The code of a node none of whose children could be started.
pub const REFUSED: u8 = 78;
/// What a supervisor ends with before its agent ran: a usage error, a configuration that is refused, a
/// command that cannot be run. Another try would end in the same way.
const REFUSALS: [u8; 4] = [2, REFUSED, 126, 127];

/// Who is started again when a child has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    OneForOne,
    OneForAll,
    /// It, and all that come behind it.
    RestForOne,
    /// Children of one template that come and go; each for itself.
    Pool,
}

impl Strategy {
    pub const ALL: [Strategy; 4] =
        [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Pool];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::OneForOne => "one_for_one",
            Strategy::OneForAll => "one_for_all",
            Strategy::RestForOne => "rest_for_one",
            Strategy::Pool => "pool",
        }
    }
}

/// Which ends of a child are followed by another start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All.
    Permanent,
    /// Failures.
    Transient,
    /// None.
    Temporary,
}

impl Keep {
    pub const ALL: [Keep; 3] = [Keep::Permanent, Keep::Transient, Keep::Temporary];

    pub fn name(self) -> &'static str {
        match self {
            Keep::Permanent => "permanent",
            Keep::Transient => "transient",
            Keep::Temporary => "temporary",
        }
    }

    pub(super) fn wants(self, code: u8) -> bool {
        match self {
            Keep::Permanent => true,
            Keep::Transient => code != 0,
            Keep::Temporary => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub strategy: Strategy,
    /// So many within `max_seconds`; the next one is one too many.
    pub max_restarts: u32,
    pub max_seconds: Duration,
    /// Before the first restart of a child within `max_seconds`; doubled with each further one.
    pub wait: Duration,
    pub max_wait: Duration,
    /// How many children a pool may have.
    pub max_children: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            strategy: Strategy::OneForOne,
            max_restarts: 3,
            max_seconds: Duration::from_secs(300),
            wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(60),
            max_children: 1000,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub id: String,
    pub keep: Keep,
    /// From TERM to KILL.
    pub shutdown: Duration,
    /// The same for what a dead one left behind, which is told all at once.
    pub leftovers: Duration,
    /// Those that must be ready before it is started.
    pub needs: Vec<String>,
}

/// Where a child is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is to run, as soon as its turn has come and what it needs is ready.
    Queued,
    Starting {
        since: Instant,
    },
    /// It has said that it is ready.
    Running {
        since: Instant,
    },
    /// It has had TERM, and gets KILL at `kill_at`; `None` when it has had that too.
    Stopping {
        kill_at: Option<Instant>,
        then: Then,
    },
    /// It is gone, and what it left behind is being ended: nobody is started beside that.
    Clearing {
        stage: Clearing,
        then: Then,
    },
    Waiting {
        until: Instant,
    },
    Resting(Rest),
}

impl State {
    pub fn name(&self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Starting { .. } => "starting",
            State::Running { .. } => "ready",
            State::Stopping { .. } => "stopping",
            State::Clearing { .. } => "clearing",
            State::Waiting { .. } => "backoff",
            State::Resting(Rest::Ended { .. }) => "ended",
            State::Resting(Rest::Refused { .. }) => "refused",
            State::Resting(Rest::Stopped) => "stopped",
        }
    }

    /// Whether there is a process.
    pub fn lives(&self) -> bool {
        matches!(self, State::Starting { .. } | State::Running { .. } | State::Stopping { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// TERM is out.
    Asked {
        kill_at: Instant,
    },
    Killed {
        until: Instant,
    },
}

/// What follows when a child is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Start,
    WaitUntil(Instant),
    Rest(Rest),
    /// It is not a child any more.
    Leave,
}

/// Nothing happens to it until somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Ended {
        code: u8,
    },
    /// It could not be started as it is, and would not be the next time.
    Refused {
        code: u8,
    },
    /// Somebody asked for it, or the node stops.
    Stopped,
}

impl Rest {
    pub(super) fn of_unready(code: u8) -> Option<Rest> {
        REFUSALS.contains(&code).then_some(Rest::Refused { code })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It runs, in its own words.
    Ready(Key),
    /// It has ended: its code, or 128+n.
    Exited(Key, u8),
    /// The same, and somebody had asked its own supervisor for that.
    Dismissed(Key, u8),
    /// Nothing that it started is left.
    Cleared(Key),
    /// All are to end.
    Stop,
    /// At once.
    Kill,
    /// A deadline may have passed; an extra one is harmless.
    Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Spawn(Key),
    Term(Key),
    Kill(Key),
    /// TERM to what it left behind; [`Event::Cleared`] when nothing is.
    Clear(Key),
    KillLeft(Key),
    /// An end that nobody asked for, and what follows: `None` when another failure is being seen to.
    TellExit(Key, u8, Sequel),
    /// It is not a child any more.
    Forget(Key),
    /// All that are to run are ready.
    Up,
    /// This one's end was one too many.
    TellGaveUp(Key),
    /// No child lives any more; the node ends with this code.
    End(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    Restart {
        wait: Duration,
    },
    /// With the others, as the restart that is under way has it.
    WithOthers,
    Rest,
    /// Somebody asked its own supervisor to stop: it rests as if we had been asked.
    Dismissed,
    Refused,
    GiveUp,
}

/// Why a child is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unknown,
    NoPool,
    Duplicate,
    TooMany,
    Leaving,
}
