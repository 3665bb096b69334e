//! Everything before the loop. Here a refusal still ends the process; after `live` nothing does
//! but the policy.

use std::collections::VecDeque;

use super::beginning::Noting;
use super::calls::Calls;
use super::console::{self, Console, Reads};
use super::figures::{Dear, Tally};
use super::knowing::OwnWords;
use super::manager::Manager;
use super::node::Node;
use super::record::{self, Facts, Record};
use super::recorder::{self, Recorder};
use super::settings::{CannotStart, InitSettings, Io, Settings};
use super::sweep::Sweep;
use super::triggers::Bridge;
use super::typing::Desk;
use super::viewers::Viewers;
use super::watch::Watch;
use super::{Charge, Session, Supervisor, beginning, below, leftovers, now, views};
use crate::log::{Event, Log, Name, Opening, Redactor};
use crate::os::lock::{self, Lock, Taken};
use crate::os::wait::How;
use crate::os::{front, procfs, random, rescue, sched, signals, sink, socket, wait};
use crate::policy::activity::Activity;
use crate::policy::crash::{Numbers, OnClean, OnHalt, Restart};
use crate::policy::life::{Effect, Life, Next, Rules};
use crate::policy::requests::Requests;
use crate::screen::Screen;
use crate::session::began::{Began, Refs};
use crate::session::{self, SpawnPlan, Start};

pub fn run(settings: Settings) -> Result<u8, CannotStart> {
    // First of all: a descriptor that nobody left open for us must not turn out to be one of our own.
    let mut manager = Manager::open(&settings.manager)?;
    match prepare(settings, &mut manager) {
        Ok((supervisor, first)) => Ok(supervisor.live(first)),
        // Its node says it, with its name.
        Err(refusal) if manager.refused(&refusal.message) => {
            Err(CannotStart { message: String::new(), ..refusal })
        }
        Err(refusal) => Err(refusal),
    }
}

fn prepare(settings: Settings, manager: &mut Manager) -> Result<(Box<Supervisor>, Vec<Effect>), CannotStart> {
    let own =
        |what: &str, error: std::io::Error| CannotStart { code: 125, message: format!("{what}: {error}") };
    let inbox = prepare_process()?;
    let id = &settings.wish.session.id;

    refuse_beside_one_without_lock(&settings)?;
    // Before the record is read: until then its last owner may still write to it.
    let lock = take_session(&settings)?;
    let record_path = settings.state_dir.record(id);
    let found = record::read(&record_path);
    let is_drift = found.is_drift();
    // Looking through every process of the machine is dear, and a session that is new has left nothing.
    let has_past = settings.wish.session.source != session::id::NEW && !found.was_orderly();
    let new_id = random::uuid_v4().map_err(|e| own("random", e))?;
    // A node has nothing to spawn but supervisors, which plan for themselves.
    let plan = match &settings.node {
        Some(_) => None,
        None => Some(
            session::plan(&settings.wish, settings.start, &found.conversation, &new_id)
                .map_err(|refusal| CannotStart { code: 78, message: refusal.to_string() })?,
        ),
    };
    let calls = settings.socket.as_ref().map(|socket| Calls::open(&settings, socket)).transpose()?;
    let mut log = Log::open(Opening {
        path: Some(settings.state_dir.log(id)),
        session: id,
        max_bytes: settings.log_max_bytes,
        journald: settings.journald,
        redactor: Redactor::new(match &plan {
            Some(plan) => plan.env.secrets(),
            None => session::env::secrets_of(&settings.wish.parent_env),
        }),
    })
    .map_err(|message| CannotStart { code: 78, message })?;
    // Behind all that may refuse for other reasons: it puts an earlier recording aside.
    let record = |(record, plan)| {
        Recorder::open(record, console::size(settings.size), recorder::header(plan, id, &log))
    };
    let recorder = settings.record.as_ref().zip(plan.as_ref()).map(record).transpose()?;
    log.record(session_start(&settings, plan.as_ref()));

    // Of what comes between now and the first start nothing may change what is settled.
    let mut is_at_once = !has_past && settings.before_spawn.is_empty();
    if settings.io == Io::Pty && !front::is_in_front() {
        is_at_once = false;
        // Started in the background: wait to be brought to the front, as any terminal program does.
        // Before that the line settings are the shell's own, not those of its jobs.
        let arrived = front::stop_until_in_front(&inbox);
        if let Some(end) = arrived.iter().find(|a| front::asks_to_end(a)) {
            let message = format!("ended by {} while waiting for the terminal", signals::name(end.signal));
            return Err(CannotStart { code: How::Signal(end.signal).exit_code(), message });
        }
    }
    let reads = if settings.io == Io::Pty { Reads::Us } else { Reads::Agent };
    let mut console = Console::open(reads);
    console.open_outputs();
    if below::is_marked(&settings.wish.parent_env) {
        console.sign_with(id);
    }
    if let Some(plan) = plan.as_ref().filter(|plan| !console.has_terminal() && !plan.env.dropped.is_empty()) {
        let names = plan.env.dropped.join(" ");
        console.tell(&format!("not passed to the agent (--pass-env NAME passes one): {names}"));
    }
    if !procfs::is_ours() {
        log.record(Event::new(Name::ProcUnusable));
        console.tell(without_proc());
    }
    rescue::give_back_on_panic();

    let rules = Rules {
        numbers: settings.crash.clone(),
        restart: settings.restart,
        on_clean: settings.on_clean,
        on_halt: settings.on_halt,
        grace: settings.grace,
        leftovers: settings.leftovers(),
        timeout: settings.timeout,
        first: if settings.start == Start::Fresh { Next::Fresh } else { Next::Continue },
        asks_before_spawn: !settings.before_spawn.is_empty(),
        notifies: !settings.halt_notify.is_empty(),
        // A child of a node: whoever comes next is to meet nothing of whoever was.
        ends_leftovers: below::is_marked(&settings.wish.parent_env),
    };
    let (began, noting) = match &plan {
        Some(plan) => beginning::begin(&settings, plan, &found),
        None => (began_without_agent(), Noting::Over),
    };
    let record = Record {
        session: id.clone(),
        supervisor_pid: std::process::id(),
        facts: Facts {
            conversation: found.conversation,
            transcripts: plan.as_ref().and_then(|plan| plan.transcripts.clone()),
            ..Facts::default()
        },
        labels: settings.labels.iter().cloned().collect(),
        began,
        ..Record::default()
    };
    let node = settings.node.clone();
    let first = plan.filter(|_| is_at_once);
    let session =
        Session { settings, record, noting, has_past, first, next: None, record_failed: false, lock };
    let (mut supervisor, first) = Supervisor::new(Charge::Run(Box::new(session)), rules, log, console, inbox);
    supervisor.calls = calls;
    supervisor.recorder = recorder;
    supervisor.manager = std::mem::take(manager);
    match node {
        Some(node) => supervisor.node = Some(Box::new(Node::new(node))),
        None => supervisor.take_over_triggers(),
    }
    supervisor.tally.registry_drift = u64::from(is_drift);
    sched::take_short_turns();
    Ok((supervisor, first))
}

pub fn init(settings: InitSettings) -> Result<u8, CannotStart> {
    let inbox = prepare_process()?;
    let console = Console::open(Reads::Agent);
    let rules = Rules {
        numbers: Numbers::default(),
        restart: Restart::No,
        on_clean: OnClean::Exit,
        on_halt: OnHalt::Exit,
        grace: settings.grace,
        leftovers: settings.grace,
        timeout: None,
        first: Next::Fresh,
        asks_before_spawn: false,
        notifies: false,
        ends_leftovers: false,
    };
    let (supervisor, first) = Supervisor::new(Charge::Init(settings), rules, Log::none(), console, inbox);
    Ok(supervisor.live(first))
}

/// From here on signals arrive as events, and orphans come to us.
fn prepare_process() -> Result<signals::Inbox, CannotStart> {
    sink::ensure_stdio();
    let inbox = signals::catch_all()
        .map_err(|e| CannotStart { code: 125, message: format!("cannot catch signals: {e}") })?;
    if std::process::id() != 1 {
        // Without it orphans go to somebody else; the agent is supervised all the same.
        let _ = wait::become_subreaper();
    }
    Ok(inbox)
}

/// A node has no directory in which anything could be committed.
fn began_without_agent() -> Began {
    let why = Some("it is a node; ask for one of its children".to_owned());
    Began { at: now().epoch, refs: Refs::Failed, why, ..Began::default() }
}

/// PID 1 reaches everybody by one call, and a namespace ends with it.
fn without_proc() -> &'static str {
    match std::process::id() {
        1 => "no usable /proc: every caller inside of this pid namespace counts as the agent",
        _ => {
            "no usable /proc: every caller of this pid namespace counts as the agent, and what leaves the \
             agent's process group is not found when it is to be ended"
        }
    }
}

pub(super) fn take_session(settings: &Settings) -> Result<Lock, CannotStart> {
    let id = &settings.wish.session.id;
    let path = settings.state_dir.lock(id);
    let holder = format!("pid={} host={} since={}\n", std::process::id(), host_name(), now().epoch);
    match Lock::take(&path, &holder, has_ended) {
        Ok(Taken::Ours(lock)) => Ok(lock),
        Ok(Taken::Theirs(holder)) => Err(already_supervised(id, &holder)),
        // No place would do.
        Err(error) if socket::is_out_of_descriptors(&error) => {
            Err(CannotStart { code: 125, message: format!("cannot lock `{}`: {error}", path.display()) })
        }
        Err(error) => Err(CannotStart {
            code: 78,
            message: format!("cannot lock `{}`: {error}; choose another place with --dir", path.display()),
        }),
    }
}

/// Somebody tidied the state dir, and whoever supervises the session has not noticed yet. Found out before the lock
/// is taken: to that one a lock of ours would be the end.
fn refuse_beside_one_without_lock(settings: &Settings) -> Result<(), CannotStart> {
    let session = &settings.wish.session;
    let (lock, socket) = (settings.state_dir.lock(&session.id), settings.state_dir.socket(&session.id));
    if lock::is_held(&lock).unwrap_or(true) {
        return Ok(());
    }
    if socket.exists() && socket::is_answered(&socket) {
        let holder = format!("without a lock, but somebody answers at {}", socket.display());
        return Err(already_supervised(&session.id, &holder));
    }
    // One that was killed leaves its lock, one that has ended its record.
    let is_tidied = session.source != session::id::NEW && !lock.exists();
    if is_tidied
        && !record::read(&settings.state_dir.record(&session.id)).was_orderly()
        && let Some(pid) = leftovers::living_supervisor(settings)
    {
        return Err(already_supervised(
            &session.id,
            &format!("pid={pid}, whose files are not here any more"),
        ));
    }
    Ok(())
}

pub fn already_supervised(id: &str, holder: &str) -> CannotStart {
    let what_to_do = "stop that one first, or choose another --session";
    CannotStart { code: 78, message: format!("session {id} is already supervised ({holder}); {what_to_do}") }
}

/// Whether the holder that a lock speaks of was a process of this host and pid namespace, and is none
/// any more. Only a reason to wait a moment: elsewhere a pid means nothing.
fn has_ended(holder: &str) -> bool {
    holder_here(holder).is_some_and(|pid| procfs::process(pid).is_none_or(|p| p.zombie))
}

/// The pid that a lock speaks of, if it is one of this host.
pub(super) fn holder_here(holder: &str) -> Option<i32> {
    let field = |name| holder.split_whitespace().find_map(|word| word.strip_prefix(name));
    field("pid=").filter(|_| field("host=") == Some(&host_name()))?.parse().ok()
}

pub(super) fn host_name() -> String {
    nix::unistd::gethostname().map_or_else(|_| "?".into(), |h| h.to_string_lossy().into_owned())
}

fn session_start(settings: &Settings, plan: Option<&SpawnPlan>) -> Event {
    let document = plan.and_then(|plan| plan.document.as_ref());
    let file = document.or(settings.node.as_ref().map(|node| &node.file));
    let file = file.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
    let labels: Vec<String> = settings.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    Event::new(Name::SessionStart)
        .with("file", file)
        .maybe("pane", std::env::var("TMUX_PANE").ok().filter(|p| !p.is_empty()))
        .with("session", &settings.wish.session.id)
        .maybe("label", (!labels.is_empty()).then(|| labels.join(",")))
        .maybe("record", settings.record.as_ref().map(|r| r.file.display()))
        .maybe("config", settings.config.as_ref().map(|c| c.display().to_string()))
}

impl Supervisor {
    fn new(
        charge: Charge,
        rules: Rules,
        log: Log,
        console: Console,
        inbox: signals::Inbox,
    ) -> (Box<Supervisor>, Vec<Effect>) {
        let now = now();
        let seed = now.epoch ^ u64::from(std::process::id()) << 32;
        let (life, first) = Life::begin(rules, seed, now);
        let screen = Screen::new(views::queries(&console), charge.scrollback());
        let size = charge.size(&console);
        let bridge = Bridge::new(match &charge {
            Charge::Run(session) => session.settings.trigger.clone(),
            Charge::Init(_) => Default::default(),
        });
        let rules_of = match &charge {
            Charge::Run(session) => session.settings.rules.clone(),
            Charge::Init(_) => vec![],
        };
        let patience = match &charge {
            Charge::Run(session) => session.settings.permission_timeout,
            Charge::Init(_) => Default::default(),
        };
        let watch = Watch::over(&charge);
        // Large, and handed from room to room: only its address is.
        let supervisor = Box::new(Supervisor {
            calls: None,
            charge,
            manager: Manager::default(),
            footing: super::Footing::default(),
            tally: Tally::new(),
            dear: Dear::default(),
            shown_phase: super::story::phase_name(life.phase()),
            shown_health: life.health(),
            // Until then it speaks of an earlier supervisor.
            record_due: true,
            life,
            events: VecDeque::new(),
            log,
            inbox,
            console,
            agent: None,
            node: None,
            helpers: Vec::new(),
            sweep: Sweep::new(),
            screen,
            desk: Desk::default(),
            bridge,
            recovery: Default::default(),
            limits: Default::default(),
            activity: Activity::new(now.at),
            requests: Requests::new(patience),
            own_words: OwnWords::default(),
            watch,
            agent_confirms: false,
            rules: super::Rules::new(rules_of),
            counting: super::Counting::default(),
            recorder: None,
            size,
            viewers: Viewers::default(),
            own_view: None,
            orphans: 0,
            failed_children: Vec::new(),
            more_children: false,
            suspending: None,
            interrupt_typed: None,
            ended_pid: 0,
            spawned_as: Start::Fresh,
            why_fresh: None,
            ran_as: Next::Fresh,
            last_end: None,
            never_ran: false,
            told_dropped: String::new(),
            told_hooks: None,
            timed_out: false,
            stop_asked: None,
            ending: None,
            turn_ends: now.at,
        });
        (supervisor, first)
    }
}
