//! DESIGN §5: what an exit means, how long to wait, when to give up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Now;

/// When an ended agent is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    OnFailure,
    Always,
    No,
}

/// What a clean exit leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClean {
    Exit,
    Prompt,
    Restart,
}

/// What a halted supervisor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHalt {
    Exit,
    Wait,
}

/// The `[policy]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub window: Duration,
    pub flapping_after: u32,
    pub transient_wait: Duration,
    pub flapping_wait: Duration,
    pub halt_after: u32,
    /// Of the failures in a row those within this time count; without it all do.
    pub halt_within: Option<Duration>,
    pub stable_after: Duration,
    pub no_retry: Vec<u8>,
    pub backoff: Backoff,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// `transient_wait`, then `flapping_wait`.
    Fixed,
    /// `base · factor^(n − 1)`, moved by up to `jitter` of itself, at most `max`; n is the failures in
    /// a row, or the exits in the window if those are more (of which `flapping_after` are counted).
    Exponential { base: Duration, factor: f64, max: Duration, jitter: f64 },
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            window: Duration::from_secs(60),
            flapping_after: 3,
            transient_wait: Duration::from_secs(2),
            flapping_wait: Duration::from_secs(30),
            halt_after: 5,
            halt_within: None,
            stable_after: Duration::from_secs(120),
            no_retry: Vec::new(),
            backoff: Backoff::Fixed,
        }
    }
}

/// How an agent ended, or that it could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its code, or 128+n.
    pub code: u8,
    pub signal: Option<i32>,
    pub oom: bool,
    /// The operator typed the key that ended it.
    pub asked: bool,
    /// It had said something in this run, so it had come up.
    pub spoke: bool,
    /// The last it said was that it may not go on for a while.
    pub limit: Option<Limit>,
}

/// A rate limit, as the agent told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// When it ends, in seconds since 1970, if the agent said so.
    pub reset: Option<u64>,
}

/// However far away the reset is: another look costs little, and clocks may be wrong.
const LONGEST_LIMIT: Duration = Duration::from_secs(3600);

impl Limit {
    /// How long from now; `unknown` when nobody said, or when the time that was named has passed.
    pub fn wait(self, unknown: Duration, now_epoch: u64) -> Duration {
        let left = self.reset.map(|reset| reset.saturating_sub(now_epoch)).filter(|left| *left > 0);
        left.map_or(unknown, Duration::from_secs).min(LONGEST_LIMIT)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Clean,
    Transient,
    Flapping,
    /// The failure that used up the patience.
    Fatal,
    /// The operator asked for it; it counts as none.
    Asked,
    /// The agent may not go on for a while; it counts as none.
    RateLimited,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Clean => "clean",
            Class::Transient => "transient",
            Class::Flapping => "flapping",
            Class::Fatal => "fatal",
            Class::Asked => "asked",
            Class::RateLimited => "rate_limited",
        }
    }
}

/// One of the last ten exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub epoch: u64,
    pub end: End,
    pub ran: Duration,
    pub class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Clean, after a run long enough to need no wait.
    Fine,
    Wait(Duration),
    Halt(HaltReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltReason {
    FailuresInARow(u32),
    NoRetry(u8),
    /// 125, 126, 127 or 78 before anything ever ran.
    CannotStart(u8),
    /// A rule's `reap`, by its name.
    Rule(&'static str),
}

impl std::fmt::Display for HaltReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HaltReason::FailuresInARow(1) => write!(f, "a failure"),
            HaltReason::FailuresInARow(n) => write!(f, "{n} failures in a row"),
            HaltReason::NoRetry(code) => write!(f, "exit code {code} is listed in no_retry"),
            HaltReason::CannotStart(code) => write!(f, "the agent cannot be started (code {code})"),
            HaltReason::Rule(name) => write!(f, "rule {name}"),
        }
    }
}

const KEPT: usize = 10;

/// What has happened so far, as far as it matters for the next exit.
#[derive(Clone, Debug)]
pub struct History {
    numbers: Numbers,
    exits: VecDeque<Exit>,
    /// When the exits happened that count towards the frequency, newest last.
    recent: VecDeque<Instant>,
    in_a_row: u32,
    /// When those happened, with `halt_within`.
    row: VecDeque<Instant>,
    /// For jitter: spreads many supervisors without asking for randomness at each step.
    seed: u64,
    /// Exits judged so far; moves the jitter from one to the next.
    judged: u64,
}

impl History {
    pub fn new(numbers: Numbers, seed: u64) -> History {
        let (exits, recent, row) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        History { numbers, exits, recent, in_a_row: 0, row, seed, judged: 0 }
    }

    pub fn exits(&self) -> impl DoubleEndedIterator<Item = &Exit> {
        self.exits.iter()
    }

    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// After a halt the operator's retry starts with a clean slate: otherwise the next failure
    /// would halt again at once.
    pub fn forgive(&mut self) {
        self.in_a_row = 0;
        self.row.clear();
        self.recent.clear();
    }

    /// An exit that somebody asked for.
    pub fn note_asked(&mut self, end: End, ran: Duration, now: Now) {
        self.keep(end, ran, now, Class::Asked);
    }

    /// What could not be started and will not be tried again.
    pub fn note_fatal(&mut self, end: End, now: Now) {
        self.keep(end, Duration::ZERO, now, Class::Fatal);
    }

    /// How long an agent waits that a rule has ended, and whether that happens too often; `None` after a run
    /// long enough to need no wait.
    pub fn wait_for_rule(&mut self, ran: Duration, now: Now) -> Option<(Duration, bool)> {
        if ran > self.numbers.stable_after {
            return None;
        }
        self.judged = self.judged.wrapping_add(1);
        self.note_frequency(now.at);
        Some((self.wait(), self.is_flapping()))
    }

    pub fn judge(&mut self, end: End, ran: Duration, now: Now) -> (Class, Verdict) {
        if end.asked {
            self.note_asked(end, ran, now);
            return (Class::Asked, Verdict::Fine);
        }
        let stable = ran > self.numbers.stable_after;
        let clean = end.code == 0;
        if let Some(limit) = end.limit.filter(|_| !clean && !end.oom) {
            if stable {
                (self.in_a_row, self.row) = (0, VecDeque::new());
            }
            self.keep(end, ran, now, Class::RateLimited);
            return (Class::RateLimited, Verdict::Wait(limit.wait(self.numbers.flapping_wait, now.epoch)));
        }
        self.judged = self.judged.wrapping_add(1);
        if clean || stable {
            (self.in_a_row, self.row) = (0, VecDeque::new());
        }
        if !clean {
            self.count_failure(now.at);
        }
        let (class, verdict) = if clean && stable {
            (Class::Clean, Verdict::Fine)
        } else {
            // An early clean exit counts too: a loop of clean exits is as busy as one of failures.
            self.note_frequency(now.at);
            if clean {
                (Class::Clean, Verdict::Wait(self.wait()))
            } else if self.numbers.no_retry.contains(&end.code) {
                (Class::Fatal, Verdict::Halt(HaltReason::NoRetry(end.code)))
            } else if self.in_a_row >= self.numbers.halt_after {
                (Class::Fatal, Verdict::Halt(HaltReason::FailuresInARow(self.in_a_row)))
            } else if self.is_flapping() {
                (Class::Flapping, Verdict::Wait(self.wait()))
            } else {
                (Class::Transient, Verdict::Wait(self.wait()))
            }
        };
        self.keep(end, ran, now, class);
        (class, verdict)
    }

    fn count_failure(&mut self, at: Instant) {
        let Some(within) = self.numbers.halt_within else {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return;
        };
        self.row.retain(|&then| at.saturating_duration_since(then) < within);
        self.row.push_back(at);
        // A halt is due: more than this many never matter.
        while self.row.len() > self.numbers.halt_after.max(1) as usize {
            self.row.pop_front();
        }
        self.in_a_row = self.row.len() as u32;
    }

    fn note_frequency(&mut self, at: Instant) {
        let window = self.numbers.window;
        self.recent.retain(|&then| at.saturating_duration_since(then) < window);
        self.recent.push_back(at);
        // More than this many never matter, and memory stays bounded with a long window.
        while self.recent.len() > self.numbers.flapping_after.max(1) as usize {
            self.recent.pop_front();
        }
    }

    fn is_flapping(&self) -> bool {
        self.recent.len() >= self.numbers.flapping_after as usize
    }

    fn wait(&self) -> Duration {
        match self.numbers.backoff {
            Backoff::Fixed if self.is_flapping() => self.numbers.flapping_wait,
            Backoff::Fixed => self.numbers.transient_wait,
            Backoff::Exponential { base, factor, max, jitter } => {
                let step = self.in_a_row.max(self.recent.len() as u32).saturating_sub(1);
                let spread = 1.0 + jitter * (2.0 * self.roll() - 1.0);
                let wait = base.as_secs_f64() * factor.powi(step.min(1_000).cast_signed()) * spread;
                Duration::try_from_secs_f64(wait).unwrap_or(max).min(max)
            }
        }
    }

    /// A number in 0..1 that differs from exit to exit and from supervisor to supervisor.
    fn roll(&self) -> f64 {
        let mut x = self.seed ^ self.judged;
        x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (x >> 11) as f64 / (1u64 << 53) as f64
    }

    fn keep(&mut self, end: End, ran: Duration, now: Now, class: Class) {
        if self.exits.len() == KEPT {
            self.exits.pop_front();
        }
        self.exits.push_back(Exit { epoch: now.epoch, end, ran, class });
    }
}
