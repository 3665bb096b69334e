//! What happened, for the log and for stderr. `docker logs` tells the story: without a terminal
//! every restart, halt and stop has its line.

use std::time::{Duration, Instant};

use super::helper::Helper;
use super::manager::is_child;
use super::perform::start_name;
use super::record::{self, RecordedExit};
use super::settings::Io;
use super::{Charge, Supervisor, now};
use crate::log::{Event, Name};
use crate::os::procfs::Process;
use crate::os::wait::How;
use crate::os::{procfs, signals};
use crate::policy::crash::{Class, End, HaltReason};
use crate::policy::life::{Health, Next, Phase};
use crate::session::Start;

/// How much of the agent's last screen a halt shows.
const LAST_LINES: usize = 10;

impl Supervisor {
    pub(super) fn tell_spawned(&mut self) {
        let Some(agent) = &self.agent else { return };
        self.tally.count_spawn(agent.pid);
        let Charge::Run(session) = &mut self.charge else { return };
        if let Some(facts) = session.next.take() {
            session.record.facts = facts;
        }
        let event = Event::new(Name::ClaudeSpawn)
            .with("pid", agent.pid)
            .with("start", if self.spawned_as == Start::Fresh { "fresh" } else { "continue" })
            .maybe("why", self.why_fresh)
            .maybe("conversation", session.record.facts.conversation.id.as_deref());
        self.log.record(event);
        self.begin_run();
        self.recovery_after_spawn();
        if self.tally.spawned == 1 {
            self.manager.ready();
        }
    }

    pub(super) fn tell_spawn_failed(&mut self, code: u8, step: &'static str, why: &str) {
        let event = Event::new(Name::SpawnFailed).with("step", step).with("code", code).with("error", why);
        self.log.record(event);
        let command = match &self.charge {
            Charge::Run(session) => &session.settings.wish.command,
            Charge::Init(settings) => &settings.command,
        };
        let name = command.first().map_or(String::new(), |c| c.to_string_lossy().into_owned());
        self.console.tell(&format!("cannot start `{name}`: {step}: {why}"));
    }

    pub(super) fn tell_exit(&mut self, class: Class, end: End, ran: Duration) {
        if self.node.is_some() {
            // Each child's end has been told; all of them together are no agent.
            return;
        }
        if std::mem::take(&mut self.never_ran) {
            // A spawn that failed has been told as such; it is no exit of the agent.
            self.last_end = None;
            return;
        }
        let event = Event::new(Name::ClaudeExit)
            .with("pid", self.ended_pid)
            .with("code", end.code)
            .maybe("signal", end.signal.map(signals::name))
            .with("class", class.name())
            .with("run_ms", ran.as_millis());
        self.log.record(event);
        if end.oom {
            self.log.record(Event::new(Name::OomKill).with("pid", self.ended_pid));
        }
        self.tally.count_exit(class, ran);
        self.last_end = Some((end, ran));
        self.record_marker(&format!("agent {}", self.last_end_in_words()));
    }

    pub(super) fn tell_restart(&mut self, class: Class, wait: Duration, next: Next) {
        let event = Event::new(Name::RestartScheduled)
            .with("class", class.name())
            .with("wait_ms", wait.as_millis())
            .with("start", start_name(next))
            .with("restarts", self.life.restarts() + 1);
        self.log.record(event);
        let keys = match self.io() {
            Io::Pty if self.console.has_terminal() => " (Enter: now, Ctrl-C: quit)",
            Io::Pty if self.viewers.can_type() => " (Enter: now)",
            Io::Pty | Io::Inherit => "",
        };
        let how = self.last_end_in_words();
        let why = match class {
            Class::RateLimited => {
                format!(
                    " at a rate limit, which is waited for until {} UTC",
                    time_of_day(now().epoch + wait.as_secs())
                )
            }
            Class::Clean | Class::Transient | Class::Flapping | Class::Fatal | Class::Asked => String::new(),
        };
        self.console.tell(&format!("agent {how}{why}; it starts again in {}{keys}", in_words(wait)));
    }

    fn last_end_in_words(&self) -> String {
        let Some((end, ran)) = self.last_end else { return "could not be started".to_owned() };
        let how = match (end.signal, end.oom) {
            (_, true) => "was killed by the kernel: out of memory".to_owned(),
            (Some(signal), _) => format!("was ended by signal {}", signals::name(signal)),
            (None, _) => format!("exited with code {}", end.code),
        };
        format!("{how} after {}", in_words(ran))
    }

    pub(super) fn tell_ask(&mut self) {
        self.ask_for_keys();
        let how = self.last_end_in_words();
        self.console.tell(&format!("agent {how} — Enter: start again, q: quit"));
    }

    pub(super) fn tell_halt(&mut self, reason: HaltReason) {
        let Charge::Run(session) = &self.charge else { return };
        if let Some(node) = &self.node {
            let reason = node.reason();
            self.log.record(Event::new(Name::Halted).with("reason", &reason));
            self.console.tell(&format!("the node ends with code {}: {reason}", self.life.last_code()));
            self.manager.refused(&reason);
            return;
        }
        if let HaltReason::CannotStart(_) = reason {
            // The step that failed has been told, and nothing is left to resume.
            self.log.record(Event::new(Name::Halted).with("reason", reason));
            self.manager.refused(&self.tally.spawn_failure);
            return;
        }
        let id = &session.settings.wish.session.id;
        // Of a node's child nobody is left to resume; what can be done then, its node knows and says.
        let hint = (!is_child()).then(|| format!("supervisor halted — run 'agentsup resume {id}' to retry"));
        let lines = self.last_lines(LAST_LINES).join("\n");
        let event = Event::new(Name::Halted)
            .with("reason", reason)
            .maybe("hint", hint.as_ref())
            .maybe("lines", (!lines.is_empty()).then_some(&lines));
        self.log.record(event);
        let how = self.last_end_in_words();
        match hint {
            Some(hint) => {
                self.console.tell(&hint);
                self.console.tell(&format!("{reason}; agent {how}"));
            }
            None => self.console.tell(&format!("supervisor halted: {reason}; agent {how}")),
        }
        for line in lines.lines() {
            self.console.tell(&format!("| {line}"));
        }
        if matches!(self.life.phase(), Phase::Halted) {
            self.ask_for_keys();
            self.console.tell("Enter: try again, q: quit");
        }
    }

    pub(super) fn tell_stopping(&mut self, timed_out: bool) {
        self.stop_asked.get_or_insert_with(Instant::now);
        // A stop leaves nobody to hand the terminal to.
        self.suspending = None;
        // What stands still does not act on TERM.
        self.sweep.thaw();
        if let Charge::Init(_) = self.charge {
            return;
        }
        self.timed_out = timed_out;
        let grace = in_words(self.grace());
        let why = if timed_out { "the time given by --timeout is over: " } else { "" };
        if timed_out || !self.console.has_terminal() {
            self.console.tell(&format!("{why}stopping, at most {grace}"));
        }
    }

    pub(super) fn tell_survivors(&mut self, survivors: Vec<Process>) {
        for process in survivors {
            let what = self.log.mask(&procfs::command_line(process.pid));
            let event = Event::new(Name::KillSurvived).with("pid", process.pid).with("program", &what);
            self.log.record(event);
            self.console.tell(&format!("left running, KILL did not end it: pid {} {what}", process.pid));
        }
    }

    /// The kernel says that somebody is left, and nothing says who.
    pub(super) fn tell_unseen_survivors(&mut self) {
        self.log.record(Event::new(Name::KillSurvived));
        self.console.tell("left running: processes that cannot be found without /proc");
    }

    pub(super) fn tell_helper_failed(&mut self, what: &str, helper: &Helper, how: How) {
        let why = match helper.spawning.outcome() {
            Err(error) => format!("it could not be run: {error}"),
            Ok(()) => format!("exit code {}", how.exit_code()),
        };
        self.console.tell(&format!("{what} ({why})"));
    }

    /// The last words, with what could not be written where it belonged.
    pub(super) fn tell_end(&mut self, code: u8) {
        let (bytes, lines) = self.console.unwritten();
        if bytes > 0 || lines > 0 {
            self.log.record(Event::new(Name::OutputLost).with("lost", bytes).with("lines", lines));
        }
        self.log.record(Event::new(Name::Shutdown).with("code", code).with("orphans", self.orphans));
        let lost = self.log.close();
        if lost.file > 0 {
            self.console.tell(&format!("the log file lacks {} lines: they could not be written", lost.file));
        }
        if lost.journald > 0 {
            self.console.tell(&format!("journald lacks {} events: it did not take them", lost.journald));
        }
    }

    /// After every step: a new phase is logged. The record follows once all that is to happen now has happened:
    /// each time it is replaced the disk has work.
    pub(super) fn show_phase(&mut self) {
        let (phase, health) = (phase_name(self.life.phase()), self.health());
        // An agent that stays away gets well under the name of the phase before.
        if (phase, health) == (self.shown_phase, self.shown_health) {
            return;
        }
        let event = Event::new(Name::StateChanged)
            .with("from", self.shown_phase)
            .with("to", phase)
            .maybe("why", (phase == "stopping" && self.timed_out).then_some("timeout"))
            .with("health", health_name(health));
        // `shutdown` is the last line of a run.
        if phase != record::ENDED {
            self.log.record(event);
        }
        (self.shown_phase, self.shown_health) = (phase, health);
        self.footing.look();
        self.keep_footing();
        self.record_due = true;
        if phase == "stopping" {
            self.manager.stopping();
        }
        self.manager.status(self.status());
        // Now: a phase that is over within this turn was one all the same.
        self.tell_manager();
    }

    /// One line for people, as `systemctl status` shows it.
    fn status(&self) -> String {
        let phase = self.shown_phase;
        let status = match (self.life.phase(), self.running_pid()) {
            (Phase::Running { .. }, Some(pid)) => match self.life.restarts() {
                0 => format!("{phase}, pid {pid}"),
                restarts => format!("{phase}, pid {pid}, restarts {restarts}"),
            },
            (Phase::Starting { .. } | Phase::Running { .. }, None) if self.node.is_some() => {
                let (ready, all) = self.node.as_ref().map_or((0, 0), |node| node.ready());
                format!("{phase}, {ready} of {all} children ready")
            }
            (Phase::Waiting { .. } | Phase::Halted | Phase::Telling { .. }, _) => {
                format!("{phase}: agent {}", self.last_end_in_words())
            }
            _ => phase.to_owned(),
        };
        match self.health() {
            Health::Degraded => format!("{status} (degraded)"),
            Health::Healthy | Health::Halted => status,
        }
    }

    /// After every turn.
    pub(super) fn tell_manager(&mut self) {
        if let Some(trouble) = self.manager.tell(Instant::now()) {
            self.console.tell(&trouble);
        }
    }

    pub(super) fn write_record(&mut self) {
        self.record_due = false;
        let (health, restarts) = (self.health(), self.restarts());
        let Charge::Run(session) = &mut self.charge else { return };
        if self.footing.is_lost() {
            // Another supervisor may have put its own there.
            return;
        }
        let record = &mut session.record;
        record.pid = self.agent.as_ref().map(|a| a.pid);
        record.phase = self.shown_phase.to_owned();
        record.health = health_name(health).to_owned();
        record.restart_count = restarts;
        record.orphans_reaped = self.orphans;
        record.exits = self
            .life
            .history()
            .exits()
            .map(|exit| RecordedExit {
                at: exit.epoch,
                code: exit.end.code,
                signal: exit.end.signal.map(signals::name),
                run_ms: u64::try_from(exit.ran.as_millis()).unwrap_or(u64::MAX),
                class: exit.class.name().to_owned(),
            })
            .collect();
        record.last_exit = record.exits.last().map(|e| e.code);
        record.updated = now().epoch;
        let path = session.settings.state_dir.record(&session.settings.wish.session.id);
        let failed = record::write(&path, record).err();
        if let (Some(error), false) = (&failed, session.record_failed) {
            self.console.tell(&format!("cannot write `{}`: {error}", path.display()));
            self.tally.registry_drift += 1;
        }
        session.record_failed = failed.is_some();
    }
}

pub(super) fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Clearing { .. } => "clearing",
        Phase::Preparing { .. } => "preparing",
        Phase::Starting { .. } => "starting",
        Phase::Running { .. } => "running",
        Phase::Waiting { .. } => "backoff",
        Phase::Asking => "asking",
        Phase::Halted => "halted",
        Phase::Telling { .. } => "halted",
        Phase::Restarting { .. } | Phase::Away { .. } => "restarting",
        Phase::Stopping { .. } => "stopping",
        Phase::Ended => record::ENDED,
    }
}

fn health_name(health: Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Degraded => "degraded",
        Health::Halted => "halted",
    }
}

/// `15:04:05`
fn time_of_day(epoch: u64) -> String {
    let (hours, minutes) = (epoch / 3600 % 24, epoch / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", epoch % 60)
}

/// `350ms`, `2s`, `1.5s`, `3m 20s`.
pub(super) fn in_words(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 if ms % 1000 < 100 => format!("{}s", ms / 1000),
        1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        _ => format!("{}m {}s", ms / 60_000, ms % 60_000 / 1000),
    }
}
