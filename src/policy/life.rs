//! The life of a supervised agent: which phase it is in, and what each event leads to.

use std::time::{Duration, Instant};

use super::Now;
use super::crash::{Class, End, HaltReason, History, Numbers, OnClean, OnHalt, Restart, Verdict};
use super::stop::{Agent, Order, Stop};

/// A continue that fails sooner than this makes the next spawn fresh.
const CONTINUE_PROOF: Duration = Duration::from_secs(10);
/// How long the command that tells somebody about a halt may hold up the exit.
const NOTIFY_PATIENCE: Duration = Duration::from_secs(10);
/// How long `before_spawn` may think.
const PREPARE_PATIENCE: Duration = Duration::from_secs(60);
/// `timeout`, a shell's `kill %1` and others signal the process and then its group: two signals of
/// one sender within this time are one request.
const SAME_REQUEST: Duration = Duration::from_millis(20);

/// How the next spawn treats the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Fresh,
    Continue,
}

pub struct Rules {
    pub numbers: Numbers,
    pub restart: Restart,
    pub on_clean: OnClean,
    pub on_halt: OnHalt,
    pub grace: Duration,
    pub timeout: Option<Duration>,
    pub first: Next,
    /// There is a command to ask before each spawn.
    pub asks_before_spawn: bool,
    /// There is a command to tell about a halt.
    pub notifies: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before anything: what an earlier supervisor of this session left behind is ended.
    Clearing {
        stop: Stop,
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
    },
    /// A clean exit: the operator decides.
    Asking,
    Halted,
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

/// Who asked for a stop, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    sender: i32,
    at: Instant,
}

impl Request {
    fn is_repeated_by(self, other: Request) -> bool {
        self.sender == other.sender && other.at.saturating_duration_since(self.at) < SAME_REQUEST
    }
}

/// Where the exit code of a stop comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Fixed(u8),
    /// The agent's last one.
    OfAgent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    LeftoversGone,
    /// `before_spawn` agreed, or refused.
    Prepared {
        agreed: bool,
    },
    ExecDone,
    /// It could not be started, with the code that says so.
    SpawnFailed {
        code: u8,
    },
    Exited(End),
    /// By a signal (its sender, 0 if unknown) or a key.
    StopAsked {
        sender: i32,
    },
    /// The operator wants it started again.
    Retry,
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
    /// The same orders, for what an earlier supervisor left behind.
    Leftovers(Order),
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
    GraceOver,
    Timeout,
    HelperTooSlow,
}

pub struct Life {
    rules: Rules,
    history: History,
    phase: Phase,
    health: Health,
    timeout_at: Option<Instant>,
    ever_ran: bool,
    restarts: u64,
    last_code: u8,
}

impl Life {
    pub fn begin(rules: Rules, seed: u64, now: Now) -> (Life, Vec<Effect>) {
        let (stop, orders) = Stop::begin(Agent::Gone, rules.grace, now.at);
        let life = Life {
            history: History::new(rules.numbers.clone(), seed),
            timeout_at: rules.timeout.map(|t| now.at + t),
            rules,
            phase: Phase::Clearing { stop },
            health: Health::Healthy,
            ever_ran: false,
            restarts: 0,
            last_code: 0,
        };
        (life, orders.into_iter().map(Effect::Leftovers).collect())
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    pub fn health(&self) -> Health {
        self.health
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    pub fn last_code(&self) -> u8 {
        self.last_code
    }

    /// When the loop must wake although nothing happens, and why.
    pub fn wake(&self) -> Option<(Instant, Why)> {
        let own = match &self.phase {
            Phase::Waiting { until, .. } => Some((*until, Why::Restart)),
            Phase::Preparing { until, .. } | Phase::Telling { until } => Some((*until, Why::HelperTooSlow)),
            Phase::Clearing { stop } => Some((stop.deadline(), Why::GraceOver)),
            Phase::Stopping { stop, .. } => return Some((stop.deadline(), Why::GraceOver)),
            Phase::Ended => return None,
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Asking | Phase::Halted => None,
        };
        own.into_iter().chain(self.timeout_at.map(|at| (at, Why::Timeout))).min_by_key(|(at, _)| *at)
    }

    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        use Phase::*;
        if event == Event::Due && self.timeout_is_over(now) {
            return self.time_out(now);
        }
        match (self.phase.clone(), event) {
            (Clearing { .. }, Event::LeftoversGone) => self.prepare(self.rules.first, now),
            (Clearing { mut stop }, Event::Due) => {
                let orders = stop.due(now.at);
                let gives_up = orders.contains(&Order::GiveUp);
                self.phase = Clearing { stop };
                let mut effects: Vec<Effect> = orders.into_iter().map(Effect::Leftovers).collect();
                if gives_up {
                    effects.extend(self.prepare(self.rules.first, now));
                }
                effects
            }

            (Preparing { next, .. }, Event::Prepared { agreed: true }) => self.spawn(next, now),
            (Preparing { .. }, Event::Prepared { agreed: false }) => self.after_failed_spawn(78, now),
            (Preparing { until, .. }, Event::Due) if now.at >= until => {
                let mut effects = vec![Effect::AbandonHelper];
                effects.extend(self.after_failed_spawn(78, now));
                effects
            }

            (Starting { next, since }, Event::ExecDone) => {
                self.ever_ran = true;
                self.phase = Running { next, since };
                vec![]
            }
            (Starting { .. }, Event::SpawnFailed { code }) => self.after_failed_spawn(code, now),

            (Running { next, since } | Starting { next, since }, Event::Exited(end)) => {
                self.after_exit(next, end, now.at.saturating_duration_since(since), now)
            }
            (Running { since, .. } | Starting { since, .. }, Event::StopAsked { sender }) => {
                self.stop(Agent::Alive, Ending::OfAgent, Some(Request { sender, at: now.at }), since, now)
            }

            (Waiting { next, until }, Event::Due) if now.at >= until => {
                self.restarts += 1;
                self.prepare(next, now)
            }
            // The operator does not want to wait.
            (Waiting { next, .. }, Event::Retry) => {
                self.restarts += 1;
                self.prepare(next, now)
            }
            (Asking, Event::Retry) => {
                self.restarts += 1;
                self.prepare(Next::Continue, now)
            }
            (Halted, Event::Retry) => {
                self.history.forgive();
                self.health = Health::Healthy;
                self.restarts += 1;
                let mut effects = vec![Effect::TellResumed];
                effects.extend(self.prepare(Next::Continue, now));
                effects
            }
            (Telling { .. }, Event::Notified) => self.finish(now),
            (Telling { until }, Event::Due) if now.at >= until => {
                let mut effects = vec![Effect::AbandonHelper];
                effects.extend(self.finish(now));
                effects
            }

            (
                Clearing { .. } | Preparing { .. } | Waiting { .. } | Asking | Halted | Telling { .. },
                Event::StopAsked { sender },
            ) => self.stop(Agent::Gone, Ending::OfAgent, Some(Request { sender, at: now.at }), now.at, now),
            (Waiting { .. } | Asking | Halted, Event::Quit) => self.finish(now),

            (Stopping { mut stop, code, mut asked, since }, event) => {
                let effects = self.while_stopping(&mut stop, &mut asked, since, event, now);
                if self.phase != Ended {
                    self.phase = Stopping { stop, code, asked, since };
                }
                effects
            }

            // Too early, or no longer of interest.
            (Clearing { .. }, Event::Prepared { .. } | Event::Exited(_) | Event::Retry | Event::Quit)
            | (
                Preparing { .. } | Waiting { .. } | Asking | Halted | Telling { .. },
                Event::LeftoversGone | Event::Exited(_),
            )
            | (Preparing { .. } | Telling { .. }, Event::Retry | Event::Quit)
            | (Waiting { .. } | Asking | Halted | Telling { .. }, Event::Prepared { .. })
            | (
                Starting { .. } | Running { .. },
                Event::LeftoversGone | Event::Prepared { .. } | Event::Retry | Event::Quit,
            )
            | (Running { .. }, Event::ExecDone | Event::SpawnFailed { .. })
            | (
                Clearing { .. } | Preparing { .. } | Waiting { .. } | Asking | Halted | Telling { .. },
                Event::ExecDone | Event::SpawnFailed { .. },
            )
            | (Clearing { .. }, Event::Notified | Event::TreeGone)
            | (
                Preparing { .. } | Starting { .. } | Running { .. } | Waiting { .. } | Asking | Halted,
                Event::Notified | Event::TreeGone | Event::Due,
            )
            | (Telling { .. }, Event::TreeGone | Event::Due)
            | (Ended, _) => vec![],
        }
    }

    fn timeout_is_over(&self, now: Now) -> bool {
        let live = !matches!(self.phase, Phase::Stopping { .. } | Phase::Ended);
        live && self.timeout_at.is_some_and(|at| now.at >= at)
    }

    fn time_out(&mut self, now: Now) -> Vec<Effect> {
        match self.phase.clone() {
            Phase::Running { since, .. } | Phase::Starting { since, .. } => {
                self.stop(Agent::Alive, Ending::Fixed(124), None, since, now)
            }
            _ => self.stop(Agent::Gone, Ending::Fixed(124), None, now.at, now),
        }
    }

    fn prepare(&mut self, next: Next, now: Now) -> Vec<Effect> {
        if !self.rules.asks_before_spawn {
            return self.spawn(next, now);
        }
        self.phase = Phase::Preparing { next, until: now.at + PREPARE_PATIENCE };
        vec![Effect::AskBeforeSpawn(next)]
    }

    fn spawn(&mut self, next: Next, now: Now) -> Vec<Effect> {
        self.phase = Phase::Starting { next, since: now.at };
        vec![Effect::Spawn(next)]
    }

    fn after_failed_spawn(&mut self, code: u8, now: Now) -> Vec<Effect> {
        self.last_code = code;
        let end = End { code, signal: None, oom: false };
        if !self.ever_ran && matches!(code, 126 | 127 | 78) {
            // Nothing that ever ran can be kept alive by waiting, so `--on-halt` is not asked.
            self.history.note_asked(end, Duration::ZERO, now);
            self.health = Health::Halted;
            let mut effects = vec![Effect::TellHalt(HaltReason::CannotStart(code))];
            effects.extend(self.tell_and_end(HaltReason::CannotStart(code), now));
            return effects;
        }
        self.after_end(Next::Continue, end, Duration::ZERO, now)
    }

    fn after_exit(&mut self, ran_as: Next, end: End, ran: Duration, now: Now) -> Vec<Effect> {
        self.last_code = end.code;
        if ran_as == Next::Continue && end.code != 0 && ran < CONTINUE_PROOF {
            let mut effects = self.after_end(Next::Fresh, end, ran, now);
            if matches!(self.phase, Phase::Waiting { .. }) {
                let tell = effects.len() - 1;
                effects.insert(tell, Effect::TellContinueFailed);
            }
            return effects;
        }
        self.after_end(Next::Continue, end, ran, now)
    }

    /// The one place that decides a restart.
    fn after_end(&mut self, next: Next, end: End, ran: Duration, now: Now) -> Vec<Effect> {
        let (class, verdict) = self.history.judge(end, ran, now);
        let mut effects = vec![Effect::TellExit { class, end, ran }];
        let restarts = match (class, self.rules.restart) {
            (_, Restart::No) => false,
            (Class::Clean, Restart::OnFailure | Restart::Always) => match self.rules.on_clean {
                OnClean::Exit => false,
                OnClean::Restart => true,
                OnClean::Prompt => {
                    self.health = Health::Healthy;
                    self.phase = Phase::Asking;
                    effects.push(Effect::Ask);
                    return effects;
                }
            },
            (_, Restart::OnFailure | Restart::Always) => true,
        };
        if !restarts {
            effects.extend(self.finish(now));
            return effects;
        }
        let wait = match verdict {
            Verdict::Fine => Duration::ZERO,
            Verdict::Wait(wait) => wait,
            Verdict::Halt(reason) => {
                effects.extend(self.halt(reason, now));
                return effects;
            }
        };
        self.health = if class == Class::Flapping { Health::Degraded } else { Health::Healthy };
        self.phase = Phase::Waiting { next, until: now.at + wait };
        effects.push(Effect::TellRestart { class, wait, next });
        effects
    }

    fn halt(&mut self, reason: HaltReason, now: Now) -> Vec<Effect> {
        self.health = Health::Halted;
        let mut effects = vec![Effect::TellHalt(reason)];
        match self.rules.on_halt {
            OnHalt::Exit => effects.extend(self.tell_and_end(reason, now)),
            OnHalt::Wait => {
                self.phase = Phase::Halted;
                effects.push(Effect::Notify(reason));
            }
        }
        effects
    }

    fn tell_and_end(&mut self, reason: HaltReason, now: Now) -> Vec<Effect> {
        if !self.rules.notifies {
            return self.finish(now);
        }
        self.phase = Phase::Telling { until: now.at + NOTIFY_PATIENCE };
        vec![Effect::Notify(reason)]
    }

    /// The agent is gone for good: end what it left behind, then end with its code.
    fn finish(&mut self, now: Now) -> Vec<Effect> {
        let (stop, orders) = Stop::begin(Agent::Gone, self.rules.grace, now.at);
        self.phase = Phase::Stopping { stop, code: Ending::OfAgent, asked: None, since: now.at };
        orders.into_iter().map(Effect::Tree).collect()
    }

    fn stop(
        &mut self,
        agent: Agent,
        code: Ending,
        asked: Option<Request>,
        since: Instant,
        now: Now,
    ) -> Vec<Effect> {
        let (stop, orders) = Stop::begin(agent, self.rules.grace, now.at);
        self.phase = Phase::Stopping { stop, code, asked, since };
        let mut effects = vec![Effect::TellStopping { timed_out: code == Ending::Fixed(124) }];
        effects.extend(orders.into_iter().map(Effect::Tree));
        effects
    }

    fn while_stopping(
        &mut self,
        stop: &mut Stop,
        asked: &mut Option<Request>,
        since: Instant,
        event: Event,
        now: Now,
    ) -> Vec<Effect> {
        let orders = match event {
            Event::Due => stop.due(now.at),
            Event::StopAsked { sender } => {
                let request = Request { sender, at: now.at };
                match asked {
                    // The agent had ended by itself, or its time was up: TERM has gone out, the
                    // grace runs, and this is the first that anybody asked.
                    None => {
                        *asked = Some(request);
                        vec![]
                    }
                    Some(first) if first.is_repeated_by(request) => vec![],
                    Some(_) => stop.hurry(now.at),
                }
            }
            Event::Exited(end) if stop.agent() == Agent::Alive => {
                self.last_code = end.code;
                let ran = now.at.saturating_duration_since(since);
                self.history.note_asked(end, ran, now);
                let mut effects = vec![Effect::TellExit { class: Class::Asked, end, ran }];
                effects.extend(stop.agent_gone().into_iter().map(Effect::Tree));
                return effects;
            }
            Event::SpawnFailed { code } if stop.agent() == Agent::Alive => {
                self.last_code = code;
                stop.agent_gone()
            }
            Event::TreeGone => return vec![self.end()],
            Event::LeftoversGone
            | Event::Prepared { .. }
            | Event::ExecDone
            | Event::SpawnFailed { .. }
            | Event::Exited(_)
            | Event::Retry
            | Event::Quit
            | Event::Notified => vec![],
        };
        let gives_up = orders.contains(&Order::GiveUp);
        let mut effects: Vec<Effect> = orders.into_iter().map(Effect::Tree).collect();
        if gives_up {
            effects.push(self.end());
        }
        effects
    }

    fn end(&mut self) -> Effect {
        let code = match self.phase {
            Phase::Stopping { code: Ending::Fixed(code), .. } => code,
            _ => self.last_code,
        };
        self.phase = Phase::Ended;
        Effect::End(code)
    }
}
