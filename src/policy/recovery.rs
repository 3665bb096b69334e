//! An agent that was restarted is told why, once, in the conversation that goes on. Pure: what the
//! agent is like, and the time, come in as arguments.
//!
//! ```text
//! (a failure) → owed → (continued) → due → (its line is free) → typing → told
//! ```
//! A later failure takes the place of an earlier one that was not told. Whatever else ends or starts
//! the agent leaves nothing to tell.

use std::time::{Duration, Instant};

use super::crash::{Class, End};

/// How long an agent may take to show its line of input. A long conversation takes its time.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// Why it was restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    OutOfMemory,
    Signal(i32),
    Code(u8),
    /// It was stuck, and killed for it.
    Stuck,
    /// It was not: it lives, and may go on.
    LimitOver,
}

impl Reason {
    /// `None`: it was no failure.
    pub fn of(class: Class, end: End) -> Option<Reason> {
        match class {
            Class::Transient | Class::Flapping | Class::Fatal => Some(match end.signal {
                _ if end.oom => Reason::OutOfMemory,
                Some(signal) => Reason::Signal(signal),
                None => Reason::Code(end.code),
            }),
            Class::Clean | Class::Asked | Class::RateLimited => None,
        }
    }
}

/// What the agent's line is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    NotReady,
    /// Somebody's draft stands in it, or nobody may type now.
    Taken,
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Type(Reason),
    GiveUp(Reason),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Nothing,
    /// Until it is known how the next start treats the conversation.
    Owed(Reason),
    /// `until`: while nothing but the agent itself is waited for.
    Due {
        reason: Reason,
        until: Option<Instant>,
    },
    Typing(Reason),
}

impl Recovery {
    /// Nobody else talks to the agent before it has been told.
    pub fn comes_first(&self) -> bool {
        matches!(self.state, State::Due { .. } | State::Typing(_))
    }

    pub fn wake(&self) -> Option<Instant> {
        match self.state {
            State::Due { until, .. } => until,
            State::Nothing | State::Owed(_) | State::Typing(_) => None,
        }
    }

    /// The agent ended, with a reason that it should know. Hands back what it will never be told.
    pub fn ended(&mut self, reason: Option<Reason>) -> Option<Reason> {
        let lost = match self.state {
            State::Due { reason, .. } | State::Owed(reason) => Some(reason),
            State::Nothing | State::Typing(_) => None,
        };
        self.state = reason.map_or(State::Nothing, State::Owed);
        lost.filter(|_| reason.is_none())
    }

    /// It runs again; `continued`: in the same conversation, and it can be talked to.
    pub fn spawned(&mut self, continued: bool) {
        self.state = match self.state {
            State::Owed(reason) if continued => State::Due { reason, until: None },
            State::Nothing | State::Owed(_) | State::Due { .. } | State::Typing(_) => State::Nothing,
        };
    }

    /// The limit that it met is over, and it waits.
    pub fn limit_over(&mut self) {
        if self.state == State::Nothing {
            self.state = State::Due { reason: Reason::LimitOver, until: None };
        }
    }

    /// An operator starts it: they know why.
    pub fn forget(&mut self) {
        self.state = State::Nothing;
    }

    /// Call it whenever something may have changed; once too often is harmless.
    pub fn turn(&mut self, line: Line, now: Instant) -> Option<Step> {
        let State::Due { reason, until } = self.state else { return None };
        match line {
            Line::Free => {
                self.state = State::Typing(reason);
                Some(Step::Type(reason))
            }
            Line::Taken => {
                self.state = State::Due { reason, until: None };
                None
            }
            Line::NotReady if until.is_some_and(|until| now >= until) => {
                self.state = State::Nothing;
                Some(Step::GiveUp(reason))
            }
            Line::NotReady => {
                let until = until.or(now.checked_add(READY_WITHIN));
                self.state = State::Due { reason, until };
                None
            }
        }
    }

    /// Somebody was quicker: it is tried again when the line is free.
    pub fn put_off(&mut self) {
        if let State::Typing(reason) = self.state {
            self.state = State::Due { reason, until: None };
        }
    }

    /// Told, or given up by whoever types.
    pub fn settled(&mut self) {
        if let State::Typing(_) = self.state {
            self.state = State::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::crash::Limit;

    fn end(code: u8) -> End {
        let signal = code.checked_sub(128).map(i32::from);
        End { code, signal, oom: false, asked: false, spoke: false, limit: None }
    }

    fn crashed(code: u8) -> Recovery {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.ended(Reason::of(Class::Transient, end(code))), None);
        recovery
    }

    #[test]
    fn only_a_failure_is_told_and_by_its_cause() {
        let oom = End { oom: true, ..end(137) };
        for class in [Class::Transient, Class::Flapping, Class::Fatal] {
            assert_eq!(Reason::of(class, end(3)), Some(Reason::Code(3)));
            assert_eq!(Reason::of(class, end(137)), Some(Reason::Signal(9)));
            assert_eq!(Reason::of(class, oom), Some(Reason::OutOfMemory));
        }
        let limited = End { limit: Some(Limit { reset: None }), ..end(1) };
        for (class, end) in [(Class::Clean, end(0)), (Class::Asked, end(137)), (Class::RateLimited, limited)]
        {
            assert_eq!(Reason::of(class, end), None);
        }
    }

    #[test]
    fn it_is_told_once_when_its_line_is_free() {
        let now = Instant::now();
        let mut recovery = crashed(3);
        assert_eq!((recovery.turn(Line::Free, now), recovery.comes_first()), (None, false));
        recovery.spawned(true);
        assert_eq!((recovery.turn(Line::NotReady, now), recovery.comes_first()), (None, true));
        assert_eq!(recovery.turn(Line::Free, now), Some(Step::Type(Reason::Code(3))));
        assert_eq!((recovery.turn(Line::Free, now), recovery.comes_first()), (None, true));
        recovery.settled();
        assert_eq!((recovery.turn(Line::Free, now), recovery.comes_first()), (None, false));
        assert_eq!(recovery.wake(), None);
    }

    #[test]
    fn the_last_of_two_failures_is_told() {
        let mut recovery = crashed(3);
        recovery.spawned(true);
        assert_eq!(recovery.ended(Reason::of(Class::Flapping, end(137))), None);
        recovery.spawned(true);
        assert_eq!(recovery.turn(Line::Free, Instant::now()), Some(Step::Type(Reason::Signal(9))));
    }

    #[test]
    fn a_fresh_start_an_operator_and_any_other_end_leave_nothing_to_tell() {
        let now = Instant::now();
        let mut fresh = crashed(3);
        fresh.spawned(false);
        let mut asked = crashed(3);
        asked.forget();
        asked.spawned(true);
        let mut clean = crashed(3);
        clean.spawned(true);
        assert_eq!(clean.ended(Reason::of(Class::Clean, end(0))), Some(Reason::Code(3)));
        clean.spawned(true);
        for mut recovery in [fresh, asked, clean, Recovery::default()] {
            assert_eq!((recovery.turn(Line::Free, now), recovery.wake()), (None, None));
        }
    }

    #[test]
    fn an_agent_that_is_never_ready_is_given_up_and_a_draft_is_waited_for() {
        let mut now = Instant::now();
        let mut recovery = crashed(3);
        recovery.spawned(true);
        assert_eq!(recovery.turn(Line::NotReady, now), None);
        assert_eq!(recovery.wake(), Some(now + READY_WITHIN));
        now += READY_WITHIN / 2;
        assert_eq!((recovery.turn(Line::Taken, now), recovery.wake()), (None, None));
        now += READY_WITHIN * 100;
        assert_eq!(recovery.turn(Line::Taken, now), None);
        assert_eq!(recovery.turn(Line::NotReady, now), None);
        now += READY_WITHIN;
        assert_eq!(recovery.turn(Line::NotReady, now), Some(Step::GiveUp(Reason::Code(3))));
        assert_eq!((recovery.turn(Line::Free, now), recovery.wake()), (None, None));
    }

    #[test]
    fn a_limit_that_is_over_is_told_unless_there_is_more_to_tell() {
        let now = Instant::now();
        let mut recovery = Recovery::default();
        recovery.limit_over();
        assert_eq!(recovery.turn(Line::Free, now), Some(Step::Type(Reason::LimitOver)));
        let mut recovery = crashed(3);
        recovery.limit_over();
        recovery.spawned(true);
        recovery.limit_over();
        assert_eq!(recovery.turn(Line::Free, now), Some(Step::Type(Reason::Code(3))));
    }

    #[test]
    fn who_was_quicker_only_puts_it_off() {
        let mut recovery = crashed(3);
        recovery.spawned(true);
        assert!(recovery.turn(Line::Free, Instant::now()).is_some());
        recovery.put_off();
        assert_eq!(recovery.turn(Line::Taken, Instant::now()), None);
        assert_eq!(recovery.turn(Line::Free, Instant::now()), Some(Step::Type(Reason::Code(3))));
    }
}
