//! What must hold after every turn of the loop, whatever happened. Each invariant has a name, by which a
//! failure is told and by which `ci/mutate` knows that the right one has failed.

use std::time::Duration;

use serde_json::Value;

use crate::clock;
use crate::coverage::{Coverage, PHASES};
use crate::mood::Mood;
use crate::policy::life::Why;
use crate::symbols;
use crate::witness::Belief;
use crate::world::{Said, World};

pub const ONE_AGENT: &str = "one agent at most";
pub const ANSWERED_ONCE: &str = "every accepted request is answered once";
pub const NO_RESTART: &str = "no restart when halted or stopping";
pub const WAITS_ARE_BOUNDED: &str = "waits are within bounds";
pub const NO_BUSY_LOOP: &str = "no busy loop";
pub const LOG_AND_STATE_AGREE: &str = "log and state agree";
pub const ENDS_AFTER_STOP: &str = "everything ends after a stop";
pub const STRAYS_ARE_IGNORED: &str = "what has nothing to do with a phase changes nothing";
pub const CALLERS_ARE_BOUNDED: &str = "callers are bounded";
pub const NO_PANIC: &str = "no panic";

/// What survives KILL has this long.
const AFTER_KILL: Duration = Duration::from_secs(1);
/// For unread output, for last answers, and for the turns themselves.
const LAST_WORDS: Duration = Duration::from_millis(1_000);
/// Turns in one second in which nothing moved.
const IDLE_TURNS: u32 = 400;
/// How long `before_spawn` and what notifies may take.
const HELPERS: Duration = Duration::from_secs(60);
const CALLERS_MOST: usize = 256;

#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

/// What the invariants are judged by, gathered as it happens.
pub struct Facts {
    pub coverage: Coverage,
    /// Whatever moved anything: bytes, processes, signals, events.
    pub moved: u64,
    moved_before: u64,
    idle: (u64, u32),
    phase: usize,
    entered: u64,
    wake: Option<(u64, Why)>,
    asked: Option<u64>,
    /// How much of the time since is the machine's own fault, or somebody's who stopped us.
    late: Duration,
    /// The same for the whole life.
    all_late: Duration,
    halted: bool,
    /// An operator pressed Enter, or a caller asked for another start, and it may not have been read.
    is_wished: bool,
    turn: u64,
    asked_in_turn: u64,
    states: Vec<Said>,
    /// When this agent was last told to be stuck.
    pub stuck: Option<u64>,
    longest_wait: Duration,
    grace: Duration,
}

impl Facts {
    pub fn new(mood: &Mood) -> Facts {
        Facts {
            coverage: Coverage::default(),
            moved: 0,
            moved_before: 0,
            idle: (0, 0),
            phase: 0,
            entered: 0,
            wake: None,
            asked: None,
            late: Duration::ZERO,
            all_late: Duration::ZERO,
            halted: false,
            is_wished: false,
            turn: 0,
            asked_in_turn: 0,
            states: Vec::new(),
            stuck: None,
            longest_wait: mood.longest_wait(),
            grace: mood.grace,
        }
    }

    pub fn phase(&self) -> usize {
        self.phase
    }

    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The machine as it is after an event.
    pub fn shown(&mut self, phase: usize, wake: Option<(u64, Why)>, now: u64) {
        if phase != self.phase || self.entered == 0 {
            (self.phase, self.entered) = (phase, now);
        }
        self.wake = wake;
    }

    pub fn asked_to_stop(&mut self, now: u64) {
        if self.asked.is_none() {
            (self.asked, self.late, self.asked_in_turn) = (Some(now), Duration::ZERO, self.turn);
        }
    }

    pub fn late(&mut self, by: Duration) {
        self.late += by;
        self.all_late += by;
    }

    pub fn all_late(&self) -> Duration {
        self.all_late
    }

    /// What was wished before, and was heard, was no wish to try again.
    pub fn halted(&mut self, is_unheard: bool) {
        self.halted = true;
        self.is_wished &= is_unheard;
    }

    pub fn may_start_again(&mut self) {
        self.is_wished = true;
    }

    pub fn phase_name(&self) -> &'static str {
        PHASES[self.phase]
    }

    /// The same by the word that log and state use.
    fn shown_phase(&self) -> &'static str {
        match self.phase_name() {
            "Clearing" => "clearing",
            "Preparing" => "preparing",
            "Starting" => "starting",
            "Running" => "running",
            "Waiting" => "backoff",
            "Asking" => "asking",
            "Halted" | "Telling" => "halted",
            "Restarting" | "Away" => "restarting",
            "Stopping" => "stopping",
            _ => "ended",
        }
    }
}

impl World {
    /// Before the supervisor sleeps.
    pub fn judge(&mut self, deadline: Option<u64>) {
        self.facts.turn += 1;
        if self.facts.phase_name() != "Ended" {
            self.judge_waits(deadline);
        }
        self.judge_idling();
        self.judge_end();
        if !self.mood.is_init {
            self.judge_answers();
            self.judge_log();
        }
        self.witness.turn_over();
    }

    /// Whoever is about to be started must be the only one, and wanted.
    pub fn judge_spawn(&mut self) {
        let alive = self.processes.living_agents();
        if !alive.is_empty() {
            self.fail(ONE_AGENT, format!("another is started while {alive:?} lives"));
        }
        if self.taken.is_some() && !self.has_no_descriptors() {
            self.fail(ONE_AGENT, "an agent is started in a session that is another's by now".to_owned());
        }
        self.read_the_log();
        let facts = &self.facts;
        if facts.asked.is_some() && facts.asked_in_turn < facts.turn {
            self.fail(NO_RESTART, "an agent is started after a stop was asked for".to_owned());
        } else if facts.halted && !facts.is_wished {
            self.fail(NO_RESTART, "an agent is started after a halt, and nobody asked for it".to_owned());
        }
        self.facts.halted = false;
    }

    fn judge_waits(&mut self, deadline: Option<u64>) {
        let facts = &self.facts;
        let grace = facts.grace.max(AFTER_KILL);
        let (must_wake, bound) = match facts.phase_name() {
            "Clearing" | "Stopping" => (true, grace),
            "Preparing" => (true, HELPERS),
            "Telling" => (true, HELPERS / 6),
            "Waiting" => (true, facts.longest_wait),
            "Restarting" => (false, grace),
            _ => (false, Duration::MAX),
        };
        let complaint = match (facts.wake, deadline) {
            (None, _) if must_wake => Some("nothing will ever wake it".to_owned()),
            (Some((at, why)), _)
                if why != Why::Timeout && at > clock::now() + clock::nanos(bound) + 1_000 =>
            {
                Some(format!("it waits for {why:?} in {} s", (at - clock::now()) / 1_000_000_000))
            }
            (Some((_, why)), None) => Some(format!("it waits for {why:?}, and the loop sleeps for ever")),
            (Some((at, why)), Some(deadline)) if deadline > at => {
                Some(format!("it waits for {why:?}, and the loop sleeps {} ns too long", deadline - at))
            }
            _ => None,
        };
        if let Some(complaint) = complaint {
            self.fail(WAITS_ARE_BOUNDED, format!("{}: {complaint}", self.facts.phase_name()));
        }
    }

    /// What the log says will be waited.
    pub fn judge_scheduled(&mut self, wait_ms: i64) {
        let most = self.facts.longest_wait.as_millis() as i64;
        if !(0..=most).contains(&wait_ms) {
            self.fail(
                WAITS_ARE_BOUNDED,
                format!("a restart is scheduled in {wait_ms} ms, {most} are the most"),
            );
        }
    }

    /// Nobody is killed who was not told before, and had its time.
    pub fn judge_stuck(&mut self) {
        let Some(watch) = &self.mood.watch else { return };
        // A judgement may come late, and counts as in time.
        let late = Duration::from_secs(1).max(watch.continue_after / 4) + Duration::from_secs(1);
        let least = (watch.kill_after - watch.continue_after).saturating_sub(late);
        let after = self.facts.stuck.map(|at| Duration::from_nanos(clock::now() - at));
        if !self.witness.has_hole && after.is_none_or(|after| after < least) {
            self.fail(
                WAITS_ARE_BOUNDED,
                format!("an agent is killed as stuck {after:?} after that was told"),
            );
        }
    }

    fn judge_idling(&mut self) {
        let now = clock::now();
        let facts = &mut self.facts;
        let has_moved = facts.moved != facts.moved_before;
        facts.moved_before = facts.moved;
        if facts.idle.0 + 1_000_000_000 < now {
            facts.idle = (now, 0);
        }
        facts.idle.1 += u32::from(!has_moved);
        if facts.idle.1 > IDLE_TURNS {
            let text =
                format!("{IDLE_TURNS} turns within a second, and nothing moved in {}", facts.phase_name());
            self.fail(NO_BUSY_LOOP, text);
        }
    }

    fn judge_end(&mut self) {
        let Some(asked) = self.facts.asked else { return };
        let within = self.facts.grace + AFTER_KILL + LAST_WORDS + self.facts.late;
        let taken = clock::now() - asked;
        if taken > clock::nanos(within) {
            let text = format!("it goes on {} ms after a stop was asked for", taken / 1_000_000);
            self.fail(ENDS_AFTER_STOP, text);
        }
    }

    fn judge_answers(&mut self) {
        let inside = self.callers.inside();
        if inside > CALLERS_MOST {
            self.fail(CALLERS_ARE_BOUNDED, format!("{inside} callers are let in"));
        }
        let late = self.callers.overdue(clock::now(), self.facts.all_late);
        if let Some((number, method)) = late {
            let text = format!("{method} of caller {number} was to be answered by now");
            self.fail(WAITS_ARE_BOUNDED, text);
        }
    }

    /// A state that somebody was told, to be compared with the log at the end of the turn.
    pub fn judge_state(&mut self, state: Said) {
        self.facts.states.push(state);
    }

    fn judge_log(&mut self) {
        let beliefs = std::mem::take(&mut self.witness.beliefs);
        let facts = &mut self.facts;
        let is_ended = facts.phase_name() == "Ended";
        let mut complaint = None;
        for state in std::mem::take(&mut facts.states) {
            let told = |belief: &Belief| {
                belief.phase.as_ref().is_none_or(|phase| *phase == state.phase)
                    && belief.health.as_ref().is_none_or(|health| *health == state.health)
                    && belief.pid.is_none_or(|pid| state.pid == pid)
            };
            if state.phase != "ended" && !beliefs.iter().any(told) {
                let Said { phase, health, pid, .. } = state;
                complaint =
                    Some(format!("state says {phase}, {health}, pid {pid:?}; the log says {beliefs:?}"));
            }
        }
        let last = beliefs.last().cloned().unwrap_or_default();
        if !is_ended && last.phase.as_ref().is_some_and(|phase| phase != facts.shown_phase()) {
            complaint = Some(format!("it is {}, and the log says {last:?}", facts.phase_name()));
        }
        if let Some(record) = symbols::seen(|seen| seen.record.take())
            && let Ok(record) = serde_json::from_slice::<Value>(&record)
        {
            let same = |belief: &Belief| {
                belief.phase.as_ref().is_none_or(|phase| record["phase"].as_str() == Some(phase))
            };
            if record["phase"] != "ended" && !beliefs.iter().any(same) {
                complaint = Some(format!("the record says {}, the log {beliefs:?}", record["phase"]));
            }
        }
        self.witness.beliefs = beliefs;
        if let Some(complaint) = complaint {
            self.fail(LOG_AND_STATE_AGREE, complaint);
        }
    }

    /// When the supervisor has ended, with this code.
    pub fn judge_the_end(&mut self, code: u8) {
        self.read_the_log();
        // Where nothing can be seen nobody can be counted, either.
        let left =
            if self.mood.has_proc { self.processes.living_below(self.facts.entered) } else { Vec::new() };
        let killable: Vec<i32> = left.iter().filter(|(_, can_end)| *can_end).map(|(pid, _)| *pid).collect();
        if !killable.is_empty() {
            self.fail(ENDS_AFTER_STOP, format!("it has ended, and {killable:?} live on"));
        }
        if self.mood.is_init {
            return;
        }
        if !self.witness.has_hole && self.witness.shutdown != Some(code) {
            let text = format!("it ended with {code}, and the log says {:?}", self.witness.shutdown);
            self.fail(LOG_AND_STATE_AGREE, text);
        }
        if !self.witness.has_hole && self.witness.survivors < left.len() {
            let text = format!("{} survived, and the log knows {}", left.len(), self.witness.survivors);
            self.fail(LOG_AND_STATE_AGREE, text);
        }
        if let Some((number, id, method)) = self.callers.unanswered().first() {
            let text = format!("{method} ({id}) of caller {number} was read and never answered");
            self.fail(ANSWERED_ONCE, text);
        }
    }
}
