//! The loop and what it owns; the only place where things happen. Called by `cli` with settings,
//! hands back an exit code. Never decides: `policy` does.
//!
//! ```text
//! wait → react (readiness becomes life::Event) → life.step → perform (its effects) → wait …
//! ```
//!
//! | file      | what it does                                                           |
//! |-----------|------------------------------------------------------------------------|
//! | `start`   | everything before the loop: refusals, lock, log                        |
//! | `beginning` | where the repository stood when the session began                    |
//! | `react`   | signals, children, bytes and keys become events                        |
//! | `perform` | effects become processes, signals and waits                            |
//! | `calls`   | callers: let in, heard, answered                                       |
//! | `denials` | refusals, told without filling the log                                 |
//! | `ending`  | the last moments: who is still waited for                              |
//! | `kin`     | who a caller is                                                        |
//! | `knowing` | what the agent says of itself                                          |
//! | `asking`  | what it asks, and who answers                                          |
//! | `methods` | what each method does                                                  |
//! | `claims`  | tickets that are one session's own                                     |
//! | `waits`   | answers that come later                                                |
//! | `own_view`| the terminal on stdin while the agent's has another size               |
//! | `viewers` | those who are attached                                                 |
//! | `streams` | events and lines that callers follow                                   |
//! | `transcript` | the conversation, from the agent's own file                          |
//! | `watch`   | agents that are stuck                                                  |
//! | `rules`   | what the user's rules are met by, and what they do                     |
//! | `footing` | lock and socket, put back when somebody takes them away                 |
//! | `figures` | state, stats and metrics                                               |
//! | `story`   | what happened, for the log and for stderr                              |
//! | `views`   | the agent's screen, for callers and for the report of a halt            |
//! | `typing`  | whatever is typed into the agent, and who has to wait                  |
//! | `triggers`| messages for the agent that must arrive                                |
//! | `suspend` | Ctrl-Z and back                                                        |
//! | `agent`   | the agent and its terminal                                             |
//! | `console` | the operator's terminal, stdout and stderr                             |
//! | `sweep`   | who gets TERM and who gets KILL                                        |
//! | `leftovers` | what is ended before the next agent is started                       |
//! | `below`   | what the child of a node, or a node that is no more, left behind        |
//! | `manager` | systemd and its kin: ready, status, watchdog                           |
//! | `recovery`| telling a restarted agent why                                         |
//! | `limits`  | agents that may not go on for a while                                  |
//! | `node`    | children in the place of an agent                                      |
//! | `helper`  | `before_spawn`, `[halt] notify` and calls for triggers                 |
//! | `record`  | `<session>.json`                                                       |
//! | `recorder`| the recording of the agent's terminal                                  |
#![forbid(unsafe_code)]

mod agent;
mod asking;
mod beginning;
mod below;
mod buffer;
mod calls;
mod claims;
mod console;
mod denials;
mod ending;
mod figures;
mod footing;
mod helper;
mod keys;
mod kin;
mod knowing;
mod leftovers;
mod limits;
mod manager;
mod methods;
mod node;
mod own_view;
mod perform;
mod react;
mod record;
pub mod recorder;
mod recovery;
mod rules;
pub mod settings;
mod start;
mod story;
mod streams;
mod suspend;
mod sweep;
mod transcript;
mod triggers;
mod typing;
mod viewers;
mod views;
mod waits;
mod watch;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use manager::refused_at;
pub use start::{already_supervised, init, run};
pub use typing::LONGEST as LONGEST_TEXT;

use crate::control::server::CallerId;
use crate::log::Log;
use crate::os::code;
use crate::os::lock::Lock;
use crate::os::poll::{Ready, Sources, Want};
use crate::os::signals::Inbox;
use crate::os::tty;
use crate::policy::Now;
use crate::policy::activity::Activity;
use crate::policy::crash::End;
use crate::policy::life::{self, Health, Life, Next, Phase};
use crate::policy::requests::Requests;
use crate::policy::tree::Key;
use crate::screen::Screen;
use crate::session::{SpawnPlan, Start};
use agent::Agent;
use beginning::Noting;
use calls::Calls;
use console::Console;
use ending::Ending;
use figures::{Dear, Tally};
use footing::Footing;
use helper::Helper;
use knowing::OwnWords;
use limits::Limits;
use manager::Manager;
use node::Node;
use own_view::OwnView;
use recorder::Recorder;
use recovery::Recovery;
use rules::Rules;
use settings::{InitSettings, Io, Settings, Size};
use suspend::Suspending;
use sweep::Sweep;
use transcript::Counting;
use triggers::Bridge;
use typing::Desk;
use viewers::Viewers;
use watch::Watch;

/// Whom this supervisor serves.
enum Charge {
    Run(Box<Session>),
    Init(InitSettings),
}

impl Charge {
    /// How many lines above the agent's screen are kept; `None` when it is not followed.
    fn scrollback(&self) -> Option<usize> {
        match self {
            Charge::Run(session) => session.settings.scrollback,
            Charge::Init(_) => None,
        }
    }

    /// Of the first agent's terminal.
    fn size(&self, console: &Console) -> Size {
        match self {
            Charge::Run(session) => console.size(session.settings.size),
            Charge::Init(_) => Size { cols: 0, rows: 0 },
        }
    }
}

/// What only `run` has.
struct Session {
    settings: Settings,
    record: record::Record,
    noting: Noting,
    /// Earlier supervisors of it may have left something running.
    has_past: bool,
    /// Settled a moment ago, for the first start.
    first: Option<SpawnPlan>,
    /// What the record will say once the spawn under way has succeeded.
    next: Option<record::Facts>,
    record_failed: bool,
    /// Held for as long as we live.
    lock: Lock,
}

struct Supervisor {
    /// First, so that the socket goes before the lock does: whoever has the lock next binds its own.
    calls: Option<Calls>,
    charge: Charge,
    manager: Manager,
    footing: Footing,
    tally: Tally,
    dear: Dear,
    life: Life,
    /// Events that effects have caused, in order.
    events: VecDeque<life::Event>,
    log: Log,
    inbox: Inbox,
    console: Console,
    agent: Option<Agent>,
    /// Children, where there is no agent.
    node: Option<Box<Node>>,
    helpers: Vec<Helper>,
    sweep: Sweep,
    /// What the agent's terminal shows.
    screen: Screen,
    /// Who types into it.
    desk: Desk,
    /// What must be told to the agent.
    bridge: Bridge,
    /// What we owe to it.
    recovery: Recovery,
    limits: Limits,
    /// What it does, as far as it says so.
    activity: Activity,
    /// What it asks of others.
    requests: Requests,
    own_words: OwnWords,
    watch: Watch,
    /// The agent tells by itself which prompts it was given.
    agent_confirms: bool,
    rules: Rules,
    /// What it uses up.
    counting: Counting,
    recorder: Option<Recorder>,
    /// Of the agent's terminal, or of the next one.
    size: Size,
    viewers: Viewers,
    /// While our own terminal has another size than the agent's.
    own_view: Option<OwnView>,
    orphans: u64,
    /// Children that failed before exec: their end is no orphan's.
    failed_children: Vec<i32>,
    /// More children may have news than were looked at.
    more_children: bool,
    /// Ctrl-Z was typed.
    suspending: Option<Suspending>,
    /// When Ctrl-C was last typed to the running agent.
    interrupt_typed: Option<Instant>,
    /// As log and record say it.
    shown_phase: &'static str,
    shown_health: Health,
    /// What is in the record is no longer true.
    record_due: bool,
    /// Of the agent that ended last.
    ended_pid: i32,
    last_end: Option<(End, Duration)>,
    /// The spawn failed: what the policy says next is not about an agent that ran.
    never_ran: bool,
    /// What the running agent was started as.
    spawned_as: Start,
    /// Why a continue became fresh.
    why_fresh: Option<&'static str>,
    /// The same, as far as the policy is concerned.
    ran_as: Next,
    /// The names of variables that the log has already said were dropped.
    told_dropped: String,
    /// Why there are no hooks, as the operator was last told.
    told_hooks: Option<String>,
    /// The stop is `--timeout`'s.
    timed_out: bool,
    /// When somebody asked for the end, or the time was up.
    stop_asked: Option<Instant>,
    /// How it ends, and until when unread output is waited for.
    ending: Option<Ending>,
    /// When callers that are still to be served have to wait for the next turn.
    turn_ends: Instant,
}

/// How long callers may keep the loop from signals, children and the agent's output.
const TURN: Duration = Duration::from_millis(2);

/// With an agent that has run for so long, all is done that is done once. Whoever ends sooner is not worth it.
const SETTLES: Duration = Duration::from_millis(30);

/// The pages of our own code that only the start needed, which are given back once.
#[derive(Clone, Copy)]
enum StartPages {
    InUse,
    DueBack(Instant),
    GivenBack,
}

impl StartPages {
    fn deadline(self) -> Option<Instant> {
        match self {
            StartPages::DueBack(at) => Some(at),
            StartPages::InUse | StartPages::GivenBack => None,
        }
    }

    fn next(self, agent_runs: bool) -> StartPages {
        match self {
            StartPages::InUse if agent_runs => StartPages::DueBack(Instant::now() + SETTLES),
            StartPages::DueBack(at) if Instant::now() >= at => {
                code::give_back();
                StartPages::GivenBack
            }
            StartPages::InUse | StartPages::DueBack(_) | StartPages::GivenBack => self,
        }
    }
}

/// Where a wake-up came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Exec,
    Stdin,
    Stdout,
    Stderr,
    Pty,
    Stranger,
    Listener,
    Caller(CallerId),
    Transcript,
    Counts,
    Manager,
    /// A child of a node is ready.
    Kid(Key),
    /// Of what a child left behind.
    Leftover(Key),
}

fn now() -> Now {
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Now { at: Instant::now(), epoch }
}

impl Supervisor {
    fn live(mut self: Box<Self>, first: Vec<life::Effect>) -> u8 {
        for effect in first {
            self.perform(effect);
        }
        self.settle();
        let mut sources = Sources::new();
        let mut start_pages = StartPages::InUse;
        loop {
            if self.leaves_at().is_some_and(|at| Instant::now() >= at) {
                return self.close();
            }
            self.register(&mut sources);
            start_pages = start_pages.next(matches!(self.life.phase(), Phase::Running { .. }));
            let ready = sources.wait(self.deadline().into_iter().chain(start_pages.deadline()).min());
            self.turn_ends = Instant::now() + TURN;
            for (source, ready) in ready {
                self.react(source, ready);
            }
            if self.more_children {
                self.reap();
            }
            if self.suspending.is_some_and(|s| Instant::now() >= s.deadline()) {
                self.on_suspend_due();
            }
            if self.next_look().is_some_and(|at| Instant::now() >= at) {
                self.on_stranger();
            }
            self.write_due_recording();
            self.keep_footing();
            self.serve_callers();
            // Before anything ends: who asked for a stop has its answer.
            self.send_answers();
            self.events.push_back(life::Event::Due);
            self.node_is_due();
            self.settle();
            self.keep_rules();
            // Texts and waiting callers depend on what is seen.
            self.look_when_due();
            self.deliver_and_type();
            self.keep_watch();
            self.answer_waiting();
            self.follow_activity();
            self.feed_streams();
            self.serve_viewers();
            self.serve_own_view();
            self.send_answers();
            self.tell_manager();
        }
    }

    /// Every event that is waiting, and every event that these lead to.
    fn settle(&mut self) {
        loop {
            if let Some(event) = self.events.pop_front() {
                for effect in self.life.step(event, now()) {
                    self.perform(effect);
                }
                self.show_phase();
            } else if self.settle_tree() {
                self.show_phase();
            } else {
                break;
            }
        }
        if self.record_due {
            self.write_record();
        }
        self.console.flush();
    }

    fn deadline(&self) -> Option<Instant> {
        if self.more_children {
            return Some(Instant::now());
        }
        let life = self.life.wake().map(|(at, _)| at);
        let leave = self.leaves_at();
        let suspend = self.suspending.map(Suspending::deadline);
        let calls = self.calls.as_ref().and_then(Calls::deadline);
        let recording = self.recorder.as_ref().and_then(Recorder::deadline);
        let (viewers, own_view) = (self.viewers_deadline(), self.own_view_deadline());
        let triggers = self.bridge.deadline().filter(|_| !self.is_leaving());
        let rules = [self.rules_deadline(), self.counting.deadline()];
        let cared = [self.recovery.deadline(), self.limits.deadline(), self.watch.deadline()];
        let cared = cared.into_iter().flatten().min().filter(|_| !self.is_leaving());
        let asked = self.requests.wake().into_iter().chain(self.look_due()).min();
        let shown = [viewers, own_view, recording, triggers, asked, cared];
        let others = [
            life,
            suspend,
            leave,
            calls,
            self.desk.deadline(),
            self.manager.deadline(),
            self.node_deadline(),
        ];
        others.into_iter().chain(shown).chain(rules).chain([self.next_look()]).flatten().min()
    }

    /// While the end of strangers is waited for that cannot be watched.
    fn next_look(&self) -> Option<Instant> {
        self.sweep.next_look().filter(|_| self.waits_for_strangers())
    }

    fn waits_for_strangers(&self) -> bool {
        matches!(self.life.phase(), Phase::Clearing { .. } | Phase::Stopping { .. })
    }

    fn register(&self, sources: &mut Sources<Source>) {
        sources.clear();
        sources.add(Source::Signals, self.inbox.as_fd(), Want::Read);
        if let Some(spawning) = self.agent.as_ref().and_then(|a| a.spawning.as_ref()) {
            sources.add(Source::Exec, spawning.as_fd(), Want::Read);
        }
        if self.listens_to_stdin() {
            sources.add(Source::Stdin, tty::stdin(), Want::Read);
        }
        if let Some(fd) = self.console.wants_stdout() {
            sources.add(Source::Stdout, fd, Want::Write);
        }
        if let Some(fd) = self.console.wants_stderr() {
            sources.add(Source::Stderr, fd, Want::Write);
        }
        if let Some(terminal) = self.agent.as_ref().and_then(|a| a.terminal.as_ref()) {
            match (self.console.has_room(), !terminal.input.is_empty()) {
                (true, true) => sources.add(Source::Pty, terminal.pty.as_fd(), Want::Both),
                (true, false) => sources.add(Source::Pty, terminal.pty.as_fd(), Want::Read),
                (false, true) => sources.add(Source::Pty, terminal.pty.as_fd(), Want::Write),
                (false, false) => {}
            }
        }
        if self.waits_for_strangers() {
            for watch in self.sweep.strangers() {
                sources.add(Source::Stranger, watch.as_fd(), Want::Read);
            }
        }
        self.register_kids(sources);
        if let Some(fd) = self.manager.waits_for() {
            sources.add(Source::Manager, fd, Want::Write);
        }
        if let Some(fd) = self.counting.waits_for() {
            sources.add(Source::Counts, fd, Want::Read);
        }
        self.register_callers(sources);
    }

    fn register_callers(&self, sources: &mut Sources<Source>) {
        let Some(calls) = &self.calls else { return };
        for (caller, fd, want) in calls.server.sources() {
            sources.add(Source::Caller(caller), fd, want);
        }
        if let Some(fd) = calls.transcripts.waits_for() {
            sources.add(Source::Transcript, fd, Want::Read);
        }
        // Last: whoever is in already goes before a storm at the door.
        if let Some(fd) = calls.server.listener() {
            sources.add(Source::Listener, fd, Want::Read);
        }
    }

    /// Keys are always heard; a stream is left alone while there is nobody to type it to.
    fn listens_to_stdin(&self) -> bool {
        if !self.console.reads_stdin() || self.ending.is_some() {
            return false;
        }
        let stopping = matches!(self.life.phase(), Phase::Stopping { .. });
        let terminal = self.agent.as_ref().map(|a| a.terminal.as_ref());
        match terminal {
            // A Ctrl-C that has had enough of a stop is for us, whoever types to an agent meanwhile.
            Some(Some(_)) if self.console.has_terminal() && stopping => true,
            Some(Some(terminal)) => terminal.input.has_room() && !self.desk.is_typing(),
            Some(None) => false,
            None => self.console.has_terminal() && self.hears_keys(),
        }
    }

    /// While no agent runs: the operator's answer, or a Ctrl-C that has had enough.
    fn hears_keys(&self) -> bool {
        match self.life.phase() {
            Phase::Asking | Phase::Halted => true,
            Phase::Waiting { .. } | Phase::Preparing { .. } | Phase::Stopping { .. } | Phase::Away { .. } => {
                self.io() == Io::Pty
            }
            Phase::Clearing { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Restarting { .. }
            | Phase::Telling { .. }
            | Phase::Ended => false,
        }
    }

    fn react(&mut self, source: Source, ready: Ready) {
        match source {
            Source::Signals => self.on_signals(),
            Source::Exec => self.on_exec(),
            Source::Stdin => self.on_stdin(),
            Source::Stdout => self.console.stdout_takes_more(),
            Source::Stderr => self.console.stderr_takes_more(),
            Source::Pty => self.on_pty(ready),
            Source::Stranger => self.on_stranger(),
            Source::Listener => self.on_listener(),
            Source::Caller(caller) if Instant::now() >= self.turn_ends => self.put_off(caller),
            Source::Caller(caller) => self.on_caller(caller, ready),
            Source::Transcript => self.on_transcript(),
            Source::Counts => self.on_counts(),
            // Told again after every turn.
            Source::Manager => {}
            Source::Kid(key) => self.on_kid_ready(key),
            Source::Leftover(key) => self.on_leftover(key),
        }
    }

    fn io(&self) -> Io {
        match &self.charge {
            Charge::Run(session) => session.settings.io,
            Charge::Init(_) => Io::Inherit,
        }
    }

    fn grace(&self) -> Duration {
        match &self.charge {
            Charge::Run(session) => session.settings.grace,
            Charge::Init(settings) => settings.grace,
        }
    }
}
