//! An agent that is stuck is told to go on, and killed when that has not helped. `policy` says when; what
//! happens then is an end like any other.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::story::in_words;
use super::{Charge, Supervisor, figures};
use crate::control::protocol::{Error, Receipt};
use crate::log::{Event as LogEvent, Name};
use crate::os::procfs::{self, Process};
use crate::os::wait;
use crate::policy::activity::Doing;
use crate::policy::life::Phase;
use crate::policy::typing::Job;
use crate::policy::watch::{Evidence, Numbers, Step, Task, Watch as Machine, World};

/// What an agent reads that has stopped in the middle of its work.
const URGE: &str = "continue";

/// `None`: nobody asked for it.
#[derive(Default)]
pub(super) struct Watch {
    machine: Option<Machine>,
    /// What is typed now.
    ticket: Option<u64>,
    /// What it said about prompts of ours: that it took them proves nothing.
    own_words: u64,
    /// The agent's end will be our doing.
    has_killed: bool,
    /// How often it was continued.
    continued: u64,
    /// What ran below us before it was started: what that uses is no sign of it.
    others: HashSet<(i32, u64)>,
}

impl Watch {
    pub(super) fn over(charge: &Charge) -> Watch {
        let numbers = match charge {
            Charge::Run(session) => session.settings.watch.clone(),
            Charge::Init(_) => None,
        };
        Watch { machine: numbers.map(Machine::new), ..Watch::default() }
    }

    /// The agent is about to be started.
    pub(super) fn begins(&mut self) {
        self.others.clear();
        if self.machine.is_some() && wait::has_children() {
            let all = procfs::processes().unwrap_or_default();
            let below = procfs::descendants(&all, std::process::id().cast_signed());
            self.others.extend(below.iter().map(|p| (p.pid, p.started)));
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.machine.as_ref().and_then(Machine::wake)
    }

    /// Since when, and by what it was known.
    pub(super) fn stuck(&self) -> Option<(Instant, Evidence)> {
        self.machine.as_ref().and_then(Machine::stuck)
    }

    /// The agent has said, in so many words, which prompt it was given.
    pub(super) fn note_prompt(&mut self, prompt: &str, words: u64) {
        if self.stuck().is_some() && prompt.trim() == URGE {
            self.own_words += words;
        }
    }

    /// Somebody had stopped the agent, and has continued it.
    pub(super) fn note_continued(&mut self) {
        self.continued += 1;
    }

    /// Whether the agent that has ended was killed for it.
    pub(super) fn take_killed(&mut self) -> bool {
        std::mem::take(&mut self.has_killed)
    }

    /// For `state --why`.
    pub(super) fn reasons(&self, waits_for_limit: bool) -> Vec<String> {
        let Some(machine) = &self.machine else { return Vec::new() };
        let Some((began, due)) = machine.silence() else { return Vec::new() };
        let left = in_words(due.saturating_duration_since(Instant::now()));
        let Numbers { continue_after, kill_after, tool_after, start_after } = machine.numbers();
        match machine.stuck() {
            Some((_, evidence)) => vec![
                format!("watch: {}", told(&evidence)),
                format!("watch: it is killed in {left} unless there is a sign of it"),
            ],
            None if waits_for_limit => {
                vec!["watch: no sign of it is owed as long as it counts the time to a rate limit".to_owned()]
            }
            None => vec![format!(
                "watch: no sign of it for {}; it counts as stuck in {left} (continue_after {}, kill_after {}, \
                 tool_after {}, start_after {})",
                in_words(began.elapsed()),
                in_words(*continue_after),
                in_words(*kill_after),
                in_words(*tool_after),
                in_words(*start_after),
            )],
        }
    }
}

impl Supervisor {
    /// In every turn, when all that happened in it is known.
    pub(super) fn keep_watch(&mut self) {
        let task = self.owed_task();
        let (screen, pid) = (&self.screen, self.running_pid());
        let own_words = self.watch.own_words;
        let Watch { machine, others, continued, .. } = &mut self.watch;
        let world = World {
            task,
            run: self.tally.spawned,
            words: self.activity.words() - own_words,
            keys: self.desk.keys(),
            typed: self.desk.typed(),
            drawn: self.tally.output_bytes,
            face: &|| screen.face().unwrap_or_default(),
            used: &|| figures::used_by_tree(others),
            is_stopped: &|| pid.is_some_and(stands_still),
            continued: *continued,
            limit: &|| screen.limit().map(|says| number_of(&says)),
        };
        let Some(machine) = machine else { return };
        match machine.turn(&world, Instant::now()) {
            Some(Step::Stuck { evidence, speak }) => {
                self.tell_stuck(&evidence, if speak { URGE } else { "wait" });
                if speak {
                    self.urge();
                }
            }
            Some(Step::Kill(evidence)) => self.kill_stuck(&evidence),
            None => {}
        }
    }

    /// What the agent does that must come to an end.
    pub(super) fn owed_task(&self) -> Option<Task> {
        let runs = matches!(self.life.phase(), Phase::Running { .. });
        if !runs || self.sweep.is_frozen() || self.is_leaving() {
            return None;
        }
        match self.activity.doing() {
            Doing::Starting => Some(Task::Start),
            Doing::Working => Some(Task::Work),
            Doing::Tool => Some(Task::Tool),
            Doing::Idle | Doing::WaitingPermission | Doing::WaitingAnswer | Doing::Unknown => None,
        }
    }

    fn tell_stuck(&mut self, evidence: &Evidence, action: &str) {
        let event = LogEvent::new(Name::Stuck)
            .with("action", action)
            .with("from", evidence.task.name())
            .with("why", told(evidence));
        self.log.record(event);
    }

    fn urge(&mut self) {
        let ticket = self.desk.next_ticket();
        let confirms = self.agent_confirms;
        let job = Job { ticket, text: URGE.to_owned(), submit: true, force: false, confirms };
        self.watch.ticket = Some(ticket);
        if let Err(refusal) = self.desk.ask(job) {
            let error = self.refusal(refusal);
            self.watch_typed(ticket, &Err(error));
        }
    }

    /// True when it was ours.
    pub(super) fn watch_typed(&mut self, ticket: u64, typed: &Result<Receipt, Error>) -> bool {
        if self.watch.ticket.take_if(|of| *of == ticket).is_none() {
            return false;
        }
        let event = LogEvent::new(Name::Send).with("by", "watch");
        self.log.record(match typed {
            Ok(receipt) => event.with("receipt", receipt.name()),
            Err(error) => event.with("error", &error.message),
        });
        true
    }

    fn kill_stuck(&mut self, evidence: &Evidence) {
        self.tell_stuck(evidence, "kill");
        self.console.tell(&format!("the agent is stuck and is killed: {}", told(evidence)));
        let helpers = self.helper_pids();
        let Some(agent) = &mut self.agent else { return };
        self.watch.has_killed = true;
        self.sweep.kill_all_but(&helpers, agent.group());
        agent.kill();
    }
}

/// Somebody has stopped the agent, or what it is the wrapper of. A job that the agent has stopped is its own affair.
fn stands_still(agent: i32) -> bool {
    let Some(agent) = procfs::process(agent) else { return false };
    agent.stopped || procfs::processes().is_some_and(|all| wrapped(&all, agent).stopped)
}

/// A wrapper has one child, in its own group, and nothing to do but wait for it.
fn wrapped(all: &[Process], wrapper: Process) -> Process {
    let mut inner = wrapper;
    // As deep as there are processes: a torn snapshot may go round in a circle.
    for _ in all {
        let mut children = all.iter().filter(|p| p.parent == inner.pid && !p.zombie);
        match (children.next(), children.next()) {
            (Some(only), None) if only.group == inner.group => inner = *only,
            _ => break,
        }
    }
    inner
}

fn number_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn told(evidence: &Evidence) -> String {
    let Evidence { task, silent, drew, used, over } = evidence;
    let task = match task {
        Task::Start => "while it was starting",
        Task::Work => "while at work",
        Task::Tool => "while it used a tool",
    };
    let drew = if *drew { "only a spinner or a clock on its screen" } else { "no output" };
    let share = used.cpu.as_secs_f64() / over.as_secs_f64().max(0.001) * 100.0;
    format!("no sign of it for {} {task}: no hook, {drew}, {share:.0} % of a core", in_words(*silent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_behind_wrappers_does_another_process_stand_for_the_agent() {
        let p =
            |pid, parent, group| Process { pid, parent, group, started: 0, zombie: false, stopped: false };
        let agent = p(10, 1, 10);
        let inner = |others: &[Process]| wrapped(&[&[p(1, 0, 1), agent], others].concat(), agent).pid;
        assert_eq!(inner(&[]), 10);
        assert_eq!(inner(&[p(11, 10, 10), p(12, 11, 10)]), 12);
        assert_eq!(inner(&[p(11, 10, 10), Process { zombie: true, ..p(12, 10, 10) }]), 11);
        assert_eq!(inner(&[p(11, 10, 10), p(12, 10, 10)]), 10, "a job beside others");
        assert_eq!(inner(&[p(11, 10, 11)]), 10, "a job of its own, or what a debugger looks at");
        assert_eq!(inner(&[p(11, 10, 10), p(12, 11, 10), p(13, 11, 10)]), 11);
        let circle = [p(11, 12, 1), p(12, 11, 1)];
        assert!([11, 12].contains(&wrapped(&circle, circle[0]).pid));
    }
}
