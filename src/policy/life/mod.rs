//! The life of a supervised agent: which phase it is in, and what each event leads to.
//!
//! `words` says what can be, `stopping` is the way out; what keeps an agent alive is here.

mod stopping;
#[cfg(test)]
mod tests;
mod words;

use std::time::{Duration, Instant};

pub use stopping::{Ending, Request};
pub use words::{Effect, Event, Health, Next, Phase, Rules, Then, Whose, Why};

use super::Now;
use super::crash::{Class, End, HaltReason, History, OnClean, OnHalt, Restart, Verdict};
use super::stop::{Agent, Order, Stop};

/// A continue that fails sooner than this, and without a word, makes the next spawn fresh.
const CONTINUE_PROOF: Duration = Duration::from_secs(10);
/// How long the command that tells somebody about a halt may hold up the exit.
const NOTIFY_PATIENCE: Duration = Duration::from_secs(10);
/// How long `before_spawn` may think.
const PREPARE_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Life {
    rules: Rules,
    history: History,
    phase: Phase,
    health: Health,
    timeout_at: Option<Instant>,
    ever_ran: bool,
    /// How a retry treats the conversation; only `Halted` reads it.
    after_halt: Next,
    restarts: u64,
    last_code: u8,
    last_failure: Option<u8>,
    /// A rule has halted it: what it ends with is not the code of that end.
    is_reaped: bool,
}

impl Life {
    pub fn begin(rules: Rules, seed: u64, now: Now) -> (Life, Vec<Effect>) {
        let first = rules.first;
        let mut life = Life {
            history: History::new(rules.numbers.clone(), seed),
            timeout_at: rules.timeout.map(|t| now.at + t),
            rules,
            phase: Phase::Ended,
            health: Health::Healthy,
            ever_ran: false,
            after_halt: Next::Continue,
            restarts: 0,
            last_code: 0,
            last_failure: None,
            is_reaped: false,
        };
        let effects = life.clear(Whose::EarlierSupervisor, first, now);
        (life, effects)
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

    /// When `--timeout` is over.
    pub fn timeout_at(&self) -> Option<Instant> {
        self.timeout_at
    }

    pub fn last_code(&self) -> u8 {
        self.last_code
    }

    /// When the loop must wake although nothing happens, and why.
    pub fn wake(&self) -> Option<(Instant, Why)> {
        let own = match &self.phase {
            Phase::Waiting { until, why, .. } => Some((*until, *why)),
            Phase::Preparing { until, .. } | Phase::Telling { until } => Some((*until, Why::HelperTooSlow)),
            Phase::Restarting { kill_at, .. } => kill_at.map(|at| (at, Why::GraceOver)),
            Phase::Clearing { stop, .. } => Some((stop.deadline(), Why::GraceOver)),
            Phase::Stopping { stop, .. } => return Some((stop.deadline(), Why::GraceOver)),
            Phase::Ended => return None,
            Phase::Starting { .. } | Phase::Running { .. } => None,
            Phase::Asking | Phase::Halted | Phase::Away { .. } => None,
        };
        own.into_iter().chain(self.timeout_at.map(|at| (at, Why::Timeout))).min_by_key(|(at, _)| *at)
    }

    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        use Event::*;
        use Phase::*;
        if event == Due && self.timeout_is_over(now) {
            return self.time_out(now);
        }
        match (self.phase.clone(), event) {
            (Clearing { next, .. }, LeftoversGone) => self.prepare(next, now),
            (Clearing { stop, whose, next }, Due) => self.keep_clearing(stop, whose, next, now),

            (Preparing { next, .. }, Prepared { agreed: true }) => self.spawn(next, now),
            (Preparing { next, .. }, Prepared { agreed: false }) => self.after_failed_spawn(next, 78, now),
            (Preparing { next, until }, Due) if now.at >= until => {
                let refused = self.after_failed_spawn(next, 78, now);
                [vec![Effect::AbandonHelper], refused].concat()
            }

            (Starting { since, .. }, ExecDone { ran_as }) => {
                self.ever_ran = true;
                self.phase = Running { next: ran_as, since };
                vec![]
            }
            (Starting { next, .. }, SpawnFailed { code }) => self.after_failed_spawn(next, code, now),
            (Starting { next, since } | Running { next, since }, Exited(end)) => {
                self.after_exit(next, end, now.at.saturating_duration_since(since), now)
            }

            (Waiting { next, until, .. }, Due) if now.at >= until => self.restart(next, now),
            // The operator does not want to wait.
            (Waiting { next, .. }, Retry) => self.restart(next, now),
            (Asking, Retry) => self.restart(Next::Continue, now),
            (Halted, Retry) => self.resume(now),
            (Waiting { .. } | Asking | Halted, Quit) => self.finish(now),

            (Waiting { .. } | Asking, RestartAsked { next }) => self.restart(next, now),
            (Halted, RestartAsked { next }) => {
                self.after_halt = next;
                self.resume(now)
            }
            (Running { since, .. }, RestartAsked { next }) => self.end_agent(Then::Start(next), since, now),
            (Running { since, .. }, RuleRestarts) => self.end_agent(Then::Again, since, now),
            // Somebody does not want to wait.
            (Restarting { then: Then::Again, since, kill_at }, RestartAsked { next }) => {
                self.phase = Restarting { then: Then::Start(next), since, kill_at };
                vec![]
            }
            (Running { since, .. }, AwayAsked) => self.end_agent(Then::StayAway(None), since, now),
            (Waiting { .. }, AwayAsked) => {
                self.phase = Away { asked: None };
                vec![]
            }
            (Restarting { then: Then::Start(next), since, kill_at }, AwayAsked) => {
                self.phase = Restarting { then: Then::StayAway(Some(next)), since, kill_at };
                vec![]
            }
            (Restarting { then: Then::Again, since, kill_at }, AwayAsked) => {
                self.phase = Restarting { then: Then::StayAway(None), since, kill_at };
                vec![]
            }
            (Restarting { then: Then::StayAway(_), since, kill_at }, RestartAsked { next }) => {
                self.phase = Restarting { then: Then::StayAway(Some(next)), since, kill_at };
                vec![]
            }
            (Away { .. }, RestartAsked { next }) => {
                self.phase = Away { asked: Some(next) };
                vec![]
            }
            (Running { since, .. }, ReapAsked { rule }) => self.end_agent(Then::Halt(rule), since, now),
            (Waiting { next, .. }, ReapAsked { rule }) => self.halt(next, HaltReason::Rule(rule), now),
            // Whoever asked for another start did not know of the rule.
            (Restarting { then: Then::Start(_) | Then::Again, since, kill_at }, ReapAsked { rule }) => {
                self.phase = Restarting { then: Then::Halt(rule), since, kill_at };
                vec![]
            }
            (Away { asked }, BackAsked { next: Next::Continue }) => {
                self.restart(asked.unwrap_or(Next::Continue), now)
            }
            (Away { .. }, BackAsked { next }) => self.restart(next, now),
            (Restarting { then, since, kill_at: Some(at) }, Due) if now.at >= at => {
                self.phase = Restarting { then, since, kill_at: None };
                vec![Effect::EndAgent(Order::KillAgent)]
            }
            (Restarting { then, since, .. }, Exited(end)) => {
                let ran = now.at.saturating_duration_since(since);
                self.last_code = end.code;
                self.history.note_asked(end, ran, now);
                self.health = Health::Healthy;
                let mut effects = vec![Effect::TellExit { class: Class::Asked, end, ran }];
                match then {
                    Then::Start(next) => effects.extend(self.restart(next, now)),
                    Then::Again => effects.extend(self.after_rule(ran, now)),
                    Then::StayAway(asked) => self.phase = Away { asked },
                    Then::Halt(rule) => {
                        effects.extend(self.halt(Next::Continue, HaltReason::Rule(rule), now));
                    }
                }
                effects
            }

            (Telling { .. }, Notified) => self.finish(now),
            (Telling { until }, Due) if now.at >= until => {
                [vec![Effect::AbandonHelper], self.finish(now)].concat()
            }

            (Clearing { .. } | Preparing { .. } | Starting { .. } | Running { .. }, StopAsked { sender })
            | (
                Restarting { .. } | Waiting { .. } | Asking | Halted | Away { .. } | Telling { .. },
                StopAsked { sender },
            ) => self.stop(sender, now),
            (Clearing { .. } | Preparing { .. } | Starting { .. } | Running { .. }, KillAsked)
            | (
                Restarting { .. } | Waiting { .. } | Asking | Halted | Away { .. } | Telling { .. },
                KillAsked,
            ) => self.kill(now),
            (Clearing { .. } | Preparing { .. } | Starting { .. }, TerminalGone | StopCalled)
            | (Running { .. } | Restarting { .. } | Waiting { .. }, TerminalGone | StopCalled)
            | (Asking | Halted | Away { .. } | Telling { .. }, TerminalGone | StopCalled) => {
                self.stop_patiently(now)
            }
            (Stopping { .. }, event) => self.while_stopping(event, now),

            // Too early, too late, or not of interest; one row a phase.
            #[rustfmt::skip]
            (Clearing { .. }, Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Exited(_) | Retry | RestartAsked { .. } | Quit | Notified | TreeGone)
            | (Preparing { .. }, LeftoversGone | ExecDone { .. } | SpawnFailed { .. } | Exited(_) | Retry | RestartAsked { .. } | Quit | Notified | TreeGone | Due)
            | (Starting { .. }, LeftoversGone | Prepared { .. } | Retry | RestartAsked { .. } | Quit | Notified | TreeGone | Due)
            | (Running { .. }, LeftoversGone | Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Retry | Quit | Notified | TreeGone | Due)
            | (Waiting { .. } | Asking | Halted, LeftoversGone | Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Exited(_) | Notified | TreeGone | Due)
            | (Clearing { .. } | Preparing { .. } | Starting { .. } | Asking | Halted | Restarting { .. } | Away { .. } | Telling { .. }, AwayAsked)
            // Whoever waits is started again anyway, and who is halted waits for a human.
            | (Clearing { .. } | Preparing { .. } | Starting { .. } | Waiting { .. } | Asking | Halted | Restarting { .. } | Away { .. } | Telling { .. }, RuleRestarts)
            | (Clearing { .. } | Preparing { .. } | Starting { .. } | Running { .. } | Waiting { .. } | Asking | Halted | Restarting { .. } | Telling { .. }, BackAsked { .. })
            | (Clearing { .. } | Preparing { .. } | Starting { .. } | Asking | Halted | Away { .. } | Telling { .. } | Restarting { then: Then::StayAway(_) | Then::Halt(_), .. }, ReapAsked { .. })
            // Whoever called for its place brings it back.
            | (Away { .. }, LeftoversGone | Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Exited(_) | Retry | Quit | Notified | TreeGone | Due)
            | (Restarting { .. }, LeftoversGone | Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Retry | RestartAsked { .. } | Quit | Notified | TreeGone | Due)
            | (Telling { .. }, LeftoversGone | Prepared { .. } | ExecDone { .. } | SpawnFailed { .. } | Exited(_) | Retry | RestartAsked { .. } | Quit | TreeGone | Due)
            | (Ended, _) => vec![],
        }
    }

    fn end_agent(&mut self, then: Then, since: Instant, now: Now) -> Vec<Effect> {
        self.phase = Phase::Restarting { then, since, kill_at: Some(now.at + self.rules.grace * 3 / 4) };
        vec![Effect::EndAgent(Order::Term)]
    }

    fn clear(&mut self, whose: Whose, next: Next, now: Now) -> Vec<Effect> {
        let (stop, orders) = Stop::begin(Agent::Gone, self.rules.grace, self.rules.leftovers, now.at);
        self.phase = Phase::Clearing { stop, whose, next };
        orders.into_iter().map(|order| Effect::Leftovers(whose, order)).collect()
    }

    /// A run that a rule has ended is no failure; as often as failures are, it waits like one.
    fn after_rule(&mut self, ran: Duration, now: Now) -> Vec<Effect> {
        let (class, next) = (Class::Asked, Next::Continue);
        let Some((wait, is_flapping)) = self.history.wait_for_rule(ran, now) else {
            return self.restart(next, now);
        };
        self.health = if is_flapping { Health::Degraded } else { Health::Healthy };
        self.phase = Phase::Waiting { next, until: now.at + wait, why: Why::Restart };
        vec![Effect::TellRestart { class, wait, next }]
    }

    fn keep_clearing(&mut self, mut stop: Stop, whose: Whose, next: Next, now: Now) -> Vec<Effect> {
        let orders = stop.due(now.at);
        let gives_up = orders.contains(&Order::GiveUp);
        self.phase = Phase::Clearing { stop, whose, next };
        let mut effects: Vec<Effect> =
            orders.into_iter().map(|order| Effect::Leftovers(whose, order)).collect();
        if gives_up {
            effects.extend(self.prepare(next, now));
        }
        effects
    }

    fn resume(&mut self, now: Now) -> Vec<Effect> {
        self.history.forgive();
        self.health = Health::Healthy;
        [vec![Effect::TellResumed], self.restart(self.after_halt, now)].concat()
    }

    fn restart(&mut self, next: Next, now: Now) -> Vec<Effect> {
        self.restarts += 1;
        self.is_reaped = false;
        match self.rules.ends_leftovers {
            true => self.clear(Whose::Agent, next, now),
            false => self.prepare(next, now),
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

    fn after_failed_spawn(&mut self, next: Next, code: u8, now: Now) -> Vec<Effect> {
        self.last_code = code;
        let end = End { code, signal: None, oom: false, asked: false, spoke: false, limit: None };
        if !self.ever_ran {
            // Nothing that ever ran can be kept alive by waiting, so `--on-halt` is not asked. That
            // goes for 125 too: whoever started us learns at once that there are no ptys here.
            let reason = HaltReason::CannotStart(code);
            self.history.note_fatal(end, now);
            self.health = Health::Halted;
            return [vec![Effect::TellHalt(reason)], self.tell_and_end(reason, now)].concat();
        }
        // What never ran says nothing about the conversation: the next spawn is this one again.
        let again = if next == Next::Anew { Next::Continue } else { next };
        self.after_end(next, again, end, Duration::ZERO, now)
    }

    fn after_exit(&mut self, ran_as: Next, end: End, ran: Duration, now: Now) -> Vec<Effect> {
        self.last_code = end.code;
        // A limit says nothing about the conversation.
        let failed = end.code != 0 && !end.asked && end.limit.is_none();
        let next = match ran_as {
            Next::Continue if failed && !end.spoke && ran < CONTINUE_PROOF => Next::Fresh,
            Next::Continue | Next::Fresh | Next::Anew => Next::Continue,
        };
        self.after_end(ran_as, next, end, ran, now)
    }

    /// The one place that decides a restart.
    fn after_end(&mut self, was: Next, next: Next, end: End, ran: Duration, now: Now) -> Vec<Effect> {
        let (class, verdict) = self.history.judge(end, ran, now);
        if matches!(class, Class::Transient | Class::Flapping | Class::Fatal) {
            self.last_failure = Some(end.code);
        }
        let mut effects = vec![Effect::TellExit { class, end, ran }];
        match (class, self.rules.restart, self.rules.on_clean) {
            (_, Restart::No, _)
            | (Class::Clean | Class::Asked, Restart::OnFailure | Restart::Always, OnClean::Exit) => {
                effects.extend(self.finish(now));
                return effects;
            }
            (Class::Clean | Class::Asked, Restart::OnFailure | Restart::Always, OnClean::Prompt) => {
                self.health = Health::Healthy;
                self.phase = Phase::Asking;
                effects.push(Effect::Ask);
                return effects;
            }
            (Class::Clean | Class::Asked, Restart::OnFailure | Restart::Always, OnClean::Restart)
            | (
                Class::Transient | Class::Flapping | Class::Fatal | Class::RateLimited,
                Restart::OnFailure | Restart::Always,
                OnClean::Exit | OnClean::Prompt | OnClean::Restart,
            ) => {}
        }
        if (was, next) == (Next::Continue, Next::Fresh) {
            effects.push(Effect::TellContinueFailed);
        }
        let wait = match verdict {
            Verdict::Fine => Duration::ZERO,
            Verdict::Wait(wait) => wait,
            Verdict::Halt(reason) => {
                effects.extend(self.halt(next, reason, now));
                return effects;
            }
        };
        self.health = if class == Class::Flapping { Health::Degraded } else { Health::Healthy };
        let why = if class == Class::RateLimited { Why::RateLimit } else { Why::Restart };
        self.phase = Phase::Waiting { next, until: now.at + wait, why };
        effects.push(Effect::TellRestart { class, wait, next });
        effects
    }

    fn halt(&mut self, next: Next, reason: HaltReason, now: Now) -> Vec<Effect> {
        self.health = Health::Halted;
        self.is_reaped = matches!(reason, HaltReason::Rule(_));
        let mut effects = vec![Effect::TellHalt(reason)];
        match self.rules.on_halt {
            OnHalt::Exit => effects.extend(self.tell_and_end(reason, now)),
            OnHalt::Wait => {
                self.phase = Phase::Halted;
                self.after_halt = next;
                if self.rules.notifies {
                    effects.push(Effect::Notify(reason));
                }
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
}
