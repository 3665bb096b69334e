//! Effects become processes, signals and waits.

use std::ffi::OsString;
use std::time::Instant;

use nix::errno::Errno;
use serde_json::json;

use super::agent::{Agent, Launch, LaunchError};
use super::helper::{self, Kind};
use super::record::{self, Facts};
use super::settings::Io;
use super::sweep::Scope;
use super::{Charge, Supervisor, leftovers, now};
use crate::log::{Event as LogEvent, Log, Name, Redactor};
use crate::os::random;
use crate::os::spawn::{SpawnError, SpawnStep};
use crate::os::{procfs, signals};
use crate::policy::crash::{Class, HaltReason};
use crate::policy::life::{Effect, Event, Next, Phase, Then};
use crate::policy::stop::Order;
use crate::policy::tree;
use crate::session::program::{self, NotRunnable};
use crate::session::{self, Profile, Refusal, Start, Wish};

impl Supervisor {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Leftovers(whose, order) => self.end_leftovers(whose, order),
            Effect::AskBeforeSpawn(next) => self.ask_before_spawn(next),
            Effect::AbandonHelper => self.abandon_helper(),
            Effect::Spawn(next) => self.spawn(next),
            Effect::Ask => self.tell_ask(),
            Effect::TellExit { class, end, ran } => {
                if matches!(class, Class::Transient | Class::Flapping | Class::Fatal) {
                    self.bridge.triggers.agent_failed(now());
                }
                // A start that came to nothing is no news about the one before.
                if !self.never_ran {
                    self.recovery_after_end(class, end);
                }
                self.tell_exit(class, end, ran);
            }
            Effect::TellRestart { class, wait, next } => self.tell_restart(class, wait, next),
            Effect::TellContinueFailed => self.log.record(LogEvent::new(Name::ContinueFailed)),
            Effect::TellHalt(reason) => self.tell_halt(reason),
            Effect::TellResumed => {
                self.log.record(LogEvent::new(Name::Resumed).with("by", "operator"));
                self.rules.book.begin_anew(self.life.restarts(), self.counting.spent.tokens.total());
            }
            Effect::EndAgent(order) => self.end_agent(order),
            Effect::TellStopping { timed_out } => self.tell_stopping(timed_out),
            Effect::Notify(reason) => self.notify(reason),
            Effect::Tree(order) => self.end_tree(order),
            Effect::End(code) => self.end(code),
        }
    }

    fn ask_before_spawn(&mut self, next: Next) {
        let Charge::Run(session) = &self.charge else { return };
        let settings = &session.settings;
        let told = json!({
            "event": "before_spawn",
            "session": settings.wish.session.id,
            "start": start_name(next),
            "restart_count": self.life.restarts(),
            "last_exit": self.life.history().exits().next_back().map(|e| e.end.code),
        });
        match helper::start(Kind::BeforeSpawn, &settings.before_spawn, &told, &settings.wish.started_in) {
            Ok(helper) => self.helpers.push(helper),
            Err(error) => {
                self.never_ran = true;
                self.tally.count_spawn_failure(format!("before_spawn could not be run: {error}"));
                self.console.tell(&format!("before_spawn `{}`: {error}", settings.before_spawn.join(" ")));
                self.events.push_back(Event::Prepared { agreed: false });
            }
        }
    }

    fn notify(&mut self, reason: HaltReason) {
        let Charge::Run(session) = &self.charge else { return };
        let settings = &session.settings;
        if settings.halt_notify.is_empty() {
            return;
        }
        let told = json!({
            "event": "halted",
            "session": settings.wish.session.id,
            "reason": self.node.as_ref().map_or_else(|| reason.to_string(), |node| node.reason()),
            "last_exit": self.life.last_code(),
            "restart_count": self.restarts(),
        });
        match helper::start(Kind::Notify, &settings.halt_notify, &told, &settings.wish.started_in) {
            Ok(helper) => self.helpers.push(helper),
            Err(error) => {
                self.console.tell(&format!("notify `{}`: {error}", settings.halt_notify.join(" ")));
                self.events.push_back(Event::Notified);
            }
        }
    }

    fn abandon_helper(&mut self) {
        for helper in
            self.helpers.extract_if(.., |helper| matches!(helper.kind, Kind::BeforeSpawn | Kind::Notify))
        {
            if helper.kind == Kind::BeforeSpawn {
                self.never_ran = true;
                self.tally.count_spawn_failure("before_spawn took too long");
            }
            self.console.tell("a helper command took too long and is ended");
            let _ = signals::send_group(helper.pid, libc::SIGKILL);
            self.failed_children.push(helper.pid);
        }
    }

    fn spawn(&mut self, next: Next) {
        if self.node.is_some() {
            return self.begin_tree();
        }
        let launched = match &self.charge {
            Charge::Run(_) => self.spawn_session(next),
            Charge::Init(settings) => launch_init(&settings.command),
        };
        match launched {
            Ok(agent) => {
                self.agent = Some(agent);
                if self.io() == Io::Pty {
                    self.console.take_keys();
                }
            }
            Err(failed) => self.spawn_failed(failed.code, failed.step, &failed.why),
        }
    }

    fn spawn_session(&mut self, next: Next) -> Result<Agent, Failed> {
        let size = self.wanted_size();
        // Whoever came since we last looked may have come in a wait that nothing interrupted.
        self.footing.look();
        self.keep_footing();
        if let Some(why) = self.taken_by_another() {
            return Err(Failed { code: 78, step: "session", why: why.to_owned() });
        }
        let first_words = self.bridge.triggers.prompt().filter(|_| next == Next::Anew);
        let Charge::Run(session) = &mut self.charge else { return Err(Failed::own("charge", "no session")) };
        let settings = &session.settings;
        let new_id = random::uuid_v4().map_err(|e| Failed::own("random", &e.to_string()))?;
        let start = match next {
            Next::Fresh | Next::Anew => Start::Fresh,
            Next::Continue => Start::Continue,
        };
        let conversation = &session.record.facts.conversation;
        let settle = |wish: &Wish| match &first_words {
            Some(words) => session::plan_anew(wish, words, &new_id),
            None => session::plan(wish, start, conversation, &new_id),
        };
        let mut plan = match session.first.take().filter(|_| first_words.is_none()) {
            Some(plan) => plan,
            None => settle(&settings.wish)?,
        };
        if let Some((path, text)) = &plan.hooks.file
            && let Err(error) = record::replace(path, text.as_bytes())
        {
            let why = format!("{} cannot be written: {error}", path.display());
            let without = Wish { hooks: None, ..settings.wish.clone() };
            plan = settle(&without)?;
            plan.hooks.warning = Some(why);
        }
        let program = program::find(&plan.argv[0], plan.env.get("PATH"), &plan.cwd.value)?;
        let secrets = plan.env.secrets();
        self.log.set_redactor(Redactor::new(secrets.clone()));
        // A long list: said again only when it is another one.
        let dropped = plan.env.dropped.join(",");
        let new = (dropped != self.told_dropped).then(|| dropped.clone());
        self.told_dropped = dropped;
        story_of_plan(&mut self.log, &plan, (settings.io == Io::Pty).then_some(size), new);

        let env: Vec<(OsString, OsString)> =
            plan.env.vars.iter().map(|v| (v.name.clone(), v.value.clone())).collect();
        let launch = Launch { program, argv: &plan.argv, env: Some(&env), cwd: Some(plan.cwd.value.clone()) };
        self.watch.begins();
        let agent = match settings.io {
            Io::Pty => Agent::on_pty(&launch, size, self.console.original_modes()),
            Io::Inherit => {
                self.console.give_back(&self.screen.modes_off());
                Agent::on_stdio(&launch)
            }
        }?;
        if settings.io == Io::Pty {
            self.size = size;
            self.screen.begin(size.cols, size.rows);
            self.console.forget_told();
            self.viewers.agent_began();
            if let Some(view) = &mut self.own_view {
                view.agent_began();
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(secrets, size, plan.start);
        }
        session.next = Some(Facts {
            conversation: plan.conversation,
            cwd: plan.cwd.value.to_string_lossy().into_owned(),
            cwd_source: plan.cwd.source.to_owned(),
            document: plan.document.map(|d| d.to_string_lossy().into_owned()),
            env_fingerprint: plan.env.fingerprint(),
            transcripts: plan.transcripts,
        });
        self.agent_confirms = plan.hooks.is_on;
        self.bridge.in_turn = false;
        self.activity.began(plan.hooks.is_on, Instant::now());
        if plan.hooks.warning != self.told_hooks {
            if let Some(why) = &plan.hooks.warning {
                self.console.tell(&format!("no hooks, so nothing that is sent will be confirmed: {why}"));
            }
            self.told_hooks = plan.hooks.warning;
        }
        self.spawned_as = plan.start;
        self.why_fresh = plan.why_fresh;
        // The same command again continues nothing, so it cannot fail at it.
        let same_again = plan.profile == Profile::Other && settings.wish.continue_args.is_empty();
        self.ran_as = if plan.start == Start::Fresh || same_again { Next::Fresh } else { Next::Continue };
        Ok(agent)
    }

    pub(super) fn spawn_failed(&mut self, code: u8, step: &'static str, why: &str) {
        self.tell_spawn_failed(code, step, why);
        self.record_marker(&format!("agent could not be started: {step}: {why}"));
        self.tally.count_spawn_failure(format!("{step}: {why}"));
        self.never_ran = true;
        self.events.push_back(Event::SpawnFailed { code });
    }

    fn end_tree(&mut self, order: Order) {
        if self.node_lives() {
            // It signals only its direct children; each ends its own tree.
            match order {
                Order::Term => return self.tell_tree(tree::Event::Stop),
                Order::KillAgent => return self.tell_tree(tree::Event::Kill),
                Order::KillAll => self.tell_tree(tree::Event::Kill),
                Order::GiveUp => {}
            }
        }
        if let (Charge::Run(session), false) = (&self.charge, self.sweep.keeps_orphans()) {
            // Those of before this stop can be told by their environment alone.
            let marked = leftovers::marked(&session.settings);
            self.sweep.adopt(marked);
        }
        match order {
            Order::Term => {
                self.end_notices();
                let urged = matches!(self.life.phase(), Phase::Stopping { stop, .. } if stop.is_urged());
                // Forwarding is all that `init` does while its child lives.
                let scope = match (&self.charge, &self.agent) {
                    (Charge::Init(_), Some(agent)) => {
                        agent.group().map_or(Scope::One(agent.pid), Scope::Group)
                    }
                    (Charge::Init(_), None) | (Charge::Run(_), _) => Scope::Tree,
                };
                let group = self.agent.as_ref().and_then(|a| a.group());
                self.sweep.term(scope, group);
                if urged {
                    self.sweep.include_outsiders();
                }
                self.reap();
            }
            Order::KillAgent => {
                if let Some(agent) = &mut self.agent {
                    agent.kill();
                }
            }
            Order::KillAll => {
                if let Some(agent) = &mut self.agent {
                    agent.kill();
                }
                let group = self.agent.as_ref().and_then(|a| a.group());
                self.sweep.kill(group);
                self.reap();
            }
            Order::GiveUp if !procfs::is_ours() => self.tell_unseen_survivors(),
            Order::GiveUp => {
                let survivors = self.sweep.alive();
                self.tell_survivors(survivors);
            }
        }
    }

    fn end_agent(&mut self, order: Order) {
        // What stands still does not act on TERM.
        self.sweep.thaw();
        let helpers = self.helper_pids();
        let Some(agent) = &mut self.agent else { return };
        // Who only makes room comes back to what it left running.
        let makes_room = matches!(self.life.phase(), Phase::Restarting { then: Then::StayAway(_), .. });
        let (pid, group) = (agent.pid, agent.group());
        match order {
            Order::Term if makes_room => self.sweep.term(Scope::Under(pid), group),
            Order::Term => self.sweep.term(Scope::AllBut(&helpers), group),
            Order::KillAgent | Order::KillAll => {
                if !makes_room {
                    self.sweep.kill_all_but(&helpers, group);
                }
                agent.kill();
            }
            Order::GiveUp => {}
        }
    }

    /// What agentsup itself runs beside the agent.
    pub(super) fn helper_pids(&self) -> Vec<i32> {
        self.helpers.iter().map(|helper| helper.pid).collect()
    }
}

/// An agent that could not be launched: the code, the step, and the reason in words.
struct Failed {
    code: u8,
    step: &'static str,
    why: String,
}

impl Failed {
    fn own(step: &'static str, why: &str) -> Failed {
        Failed { code: 125, step, why: why.to_owned() }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed { code: 78, step: "plan", why: refusal.to_string() }
    }
}

impl From<NotRunnable> for Failed {
    fn from(error: NotRunnable) -> Failed {
        let code = match error {
            NotRunnable::NotFound(_) => 127,
            NotRunnable::NotExecutable(_) => 126,
        };
        Failed { code, step: "exec", why: error.to_string() }
    }
}

impl From<LaunchError> for Failed {
    fn from(error: LaunchError) -> Failed {
        match error {
            LaunchError::Pty(error) => Failed::own(
                "pty",
                &format!("no terminal for the agent: {error} (is /dev/pts mounted? --io inherit needs none)"),
            ),
            LaunchError::Spawn(error) => {
                Failed { code: error.exit_code(), step: error.step.name(), why: in_words(&error) }
            }
        }
    }
}

/// What only the kernel finds out; and what to do about it, where its own words do not tell.
pub(super) fn in_words(error: &SpawnError) -> String {
    let why = error.errno.desc().to_lowercase();
    let what_now = match (error.step, error.errno) {
        // The program was there a moment ago.
        (SpawnStep::Exec, Errno::ENOENT) => {
            "the program is there, and its loader is not: install the C library that it was built for, or a \
             static build of it"
        }
        (SpawnStep::Exec, Errno::ENOEXEC) => {
            "no program of this machine's: install one that is, or begin a script with #! and its interpreter"
        }
        (SpawnStep::Exec, Errno::E2BIG) => "shorten the arguments, or drop some of the environment",
        _ => return why,
    };
    format!("{why}: {what_now}")
}

fn launch_init(command: &[OsString]) -> Result<Agent, Failed> {
    let path = std::env::var_os("PATH");
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let program = program::find(&command[0], path.as_deref(), &cwd)?;
    Ok(Agent::on_stdio(&Launch { program, argv: command, env: None, cwd: None })?)
}

pub(super) fn start_name(next: Next) -> &'static str {
    match next {
        Next::Fresh | Next::Anew => "fresh",
        Next::Continue => "continue",
    }
}

fn story_of_plan(
    log: &mut Log,
    plan: &session::SpawnPlan,
    size: Option<super::settings::Size>,
    dropped: Option<String>,
) {
    log.record(
        LogEvent::new(Name::CwdResolved)
            .with("cwd", plan.cwd.value.display())
            .with("source", plan.cwd.source),
    );
    log.record(
        LogEvent::new(Name::EnvBuilt)
            .with("vars", plan.env.vars.len())
            .with("fingerprint", plan.env.fingerprint())
            .maybe("dropped", dropped),
    );
    if let Some(size) = size {
        log.record(LogEvent::new(Name::PtyAllocated).with("size", format!("{}x{}", size.cols, size.rows)));
    }
}
