//! What there is to know about a supervisor: `state`, `stats` and `metrics`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::settings::Io;
use super::story::phase_name;
use super::{Charge, Supervisor};
use crate::control::protocol::{Exit, Health, Operator, Phase, State, Stats, Tokens, Tree, Wake};
use crate::os::procfs;
use crate::os::signals;
use crate::policy::crash::Class;
use crate::policy::life::{self, Why};
use crate::policy::watch::Used;
use crate::sorted::Sorted;

/// Counted since the supervisor started.
pub(super) struct Tally {
    pub started: Instant,
    pub started_epoch: f64,
    pub output_bytes: u64,
    pub input_bytes: u64,
    exits: Sorted<&'static str, u64>,
    /// Agents whose exec succeeded, and the last one's pid and time.
    pub spawned: u64,
    pub spawned_pid: i32,
    pub spawned_epoch: f64,
    spawned_at: Instant,
    /// Of those that have ended.
    run_time: Duration,
    /// Spawns that came to nothing, and why the last one did.
    pub spawn_failures: u64,
    pub spawn_failure: String,
    pub last_key_epoch: Option<f64>,
    /// Times that the session's record was not true.
    pub registry_drift: u64,
}

impl Tally {
    pub fn new() -> Tally {
        Tally {
            started: Instant::now(),
            started_epoch: epoch(),
            output_bytes: 0,
            input_bytes: 0,
            exits: Sorted::new(),
            spawned: 0,
            spawned_pid: 0,
            spawned_epoch: 0.0,
            spawned_at: Instant::now(),
            run_time: Duration::ZERO,
            spawn_failures: 0,
            spawn_failure: String::new(),
            last_key_epoch: None,
            registry_drift: 0,
        }
    }

    pub fn count_exit(&mut self, class: Class, ran: Duration) {
        self.run_time += ran;
        *self.exits.entry(class.name()).or_default() += 1;
    }

    pub fn count_spawn(&mut self, pid: i32) {
        self.spawned += 1;
        self.spawned_pid = pid;
        self.spawned_epoch = epoch();
        self.spawned_at = Instant::now();
    }

    pub fn count_spawn_failure(&mut self, why: impl Into<String>) {
        self.spawn_failures += 1;
        self.spawn_failure = why.into();
    }
}

pub(super) fn epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> Sorted<String, u64> {
    counts.map(|(name, n)| (name.to_owned(), n)).into()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Supervisor {
    /// Cheap, unless `deep`: that looks through /proc once.
    pub(super) fn state(&self, why: bool, deep: bool) -> State {
        let Charge::Run(session) = &self.charge else { return State::default() };
        let (settings, facts) = (&session.settings, &session.record.facts);
        // A node spawns no agent that could have a place.
        let spawned = self.tally.spawned > 0 && self.node.is_none();
        let pid = self.running_pid();
        let (zombies, tree) = if deep { self.dear.tree.get(look_at_tree) } else { (None, None) };
        State {
            session: settings.wish.session.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            supervisor_pid: std::process::id(),
            running: pid.is_some() || self.node_lives(),
            pid,
            phase: phase(self.life.phase()),
            health: health(self.health()),
            activity: self.shown_activity(),
            activity_since: pid.map(|_| epoch() - self.activity_since().elapsed().as_secs_f64()),
            permissions: self.requests.pending().permissions as u64,
            questions: self.requests.pending().questions as u64,
            description: self.own_words.description.clone(),
            done: self.own_words.done.clone(),
            cwd: spawned.then(|| facts.cwd.clone()),
            cwd_source: spawned.then(|| facts.cwd_source.clone()),
            restart_count: self.restarts(),
            last_exit: self.life.history().exits().next_back().map(|exit| exit.end.code),
            exits: self
                .life
                .history()
                .exits()
                .map(|exit| Exit {
                    at: exit.epoch as f64,
                    code: exit.end.code,
                    signal: exit.end.signal.map(signals::name),
                    run_ms: millis(exit.ran),
                    class: exit.class.name().to_owned(),
                })
                .collect(),
            wake: self.life.wake().map(|(at, why)| {
                let left = at.saturating_duration_since(Instant::now());
                Wake { at: epoch() + left.as_secs_f64(), in_ms: millis(left), why: why_name(why).to_owned() }
            }),
            env_fingerprint: spawned.then(|| facts.env_fingerprint.clone()),
            orphans_reaped: self.orphans,
            operator: Operator {
                terminal: self.console.has_terminal(),
                attached: self.viewers.count(),
                last_key_at: self.tally.last_key_epoch,
                draft: self.desk.has_draft(),
            },
            labels: session.record.labels.clone(),
            last_heartbeat_at: self.bridge.heartbeat,
            last_trigger_id: self.bridge.triggers.last().map(str::to_owned),
            document: facts.document.clone(),
            conversation: facts.conversation.id.clone(),
            started_at: self.tally.started_epoch,
            agent_started_at: pid.map(|_| self.tally.spawned_epoch),
            uptime_ms: millis(self.tally.started.elapsed()),
            io: if settings.io == Io::Pty { "pty" } else { "inherit" }.to_owned(),
            profile: self.profile().name().to_owned(),
            zombies,
            tree,
            node: self.node_in_short(),
            why: why.then(|| self.reasons()),
        }
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = vec![
            format!("health: {} failures in a row", self.life.history().in_a_row()),
            format!("phase: `{}`", phase_name(self.life.phase())),
        ];
        reasons.extend(self.node.as_ref().and_then(|node| node.trouble()));
        reasons.extend(self.why_activity());
        let limit = self.owed_task().and_then(|_| self.screen.limit());
        reasons.extend(self.watch.reasons(limit.is_some()));
        reasons.extend(self.limits.reason());
        reasons.extend(
            limit.map(|says| format!("rate limit: the agent waits for one: {}", self.log.mask(&says))),
        );
        if let Some((at, why)) = self.life.wake() {
            let left = millis(at.saturating_duration_since(Instant::now()));
            reasons.push(format!("wake: `{}` in {left} ms", why_name(why)));
        }
        let fired = self.rules.book.times().filter(|(_, times)| *times > 0);
        reasons.extend(fired.map(|(rule, times)| {
            format!(
                "rule {}: {} was met {times} times, then {}",
                rule.name,
                rule.when.name(),
                rule.then.name()
            )
        }));
        if self.tally.spawn_failures > 0 {
            reasons.push(format!("the last spawn that failed: {}", self.tally.spawn_failure));
        }
        reasons
    }

    /// As far as they are counted.
    fn tokens(&self) -> Tokens {
        let spent = self.counting.spent.tokens;
        Tokens {
            input: spent.input,
            output: spent.output,
            cache_read: spent.cache_read,
            cache_created: spent.cache_created,
            total: spent.total(),
        }
    }

    /// Of all agents so far.
    fn run_time(&self) -> Duration {
        let now = self.running_pid().map(|_| self.tally.spawned_at.elapsed());
        self.tally.run_time + now.unwrap_or_default()
    }

    /// From the transcript; where there is none, from hooks.
    fn tools(&self) -> Sorted<String, u64> {
        match &self.counting.spent.tools {
            none if none.is_empty() => self.own_words.tools.clone(),
            tools => tools.clone(),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let (own, open_files) = self.dear.own.get(look_at_self);
        let losses = self.log.losses();
        let triggers = self.bridge.triggers.counts;
        let Some(calls) = &self.calls else { return Stats::default() };
        Stats {
            uptime_ms: millis(self.tally.started.elapsed()),
            restarts: self.restarts(),
            exits: self.tally.exits.iter().map(|(class, n)| ((*class).to_owned(), *n)).collect(),
            orphans_reaped: self.orphans,
            run_ms: millis(self.run_time()),
            prompts: self.activity.counts.prompts,
            turns: self.activity.counts.turns,
            failed_turns: self.activity.counts.failed_turns,
            permissions: named([
                ("asked", self.requests.counts.asked),
                ("allowed", self.requests.counts.allowed),
                ("denied", self.requests.counts.denied),
                ("expired", self.requests.counts.expired),
            ]),
            questions: named([
                ("asked", self.requests.counts.questions),
                ("answered", self.requests.counts.answered),
            ]),
            triggers: named([
                ("attempts", triggers.attempts),
                ("delivered", triggers.delivered),
                ("failed", triggers.failed),
                ("deferred", triggers.deferred),
                ("refused", triggers.refused),
            ]),
            tree: self.dear.tree.get(look_at_tree).1,
            output_bytes: self.tally.output_bytes,
            input_bytes: self.tally.input_bytes,
            callers: calls.server.callers(),
            callers_most: calls.server.most(),
            callers_dropped: calls.server.dropped(),
            attached: self.viewers.count(),
            calls: calls.counts.iter().map(|(method, n)| ((*method).to_owned(), *n)).collect(),
            events: self.log.recent().newest(),
            log_lost: losses.file + losses.journald,
            tokens: self.tokens(),
            tools: self.tools(),
            resident_bytes: own.rss_bytes,
            cpu_ms: own.cpu_ms,
            open_files,
        }
    }

    pub(super) fn metrics(&self) -> String {
        let stats = self.stats();
        let mut page = Page::default();
        let one = |value: u64| [(String::new(), value as f64)];
        page.counter("restarts_total", "Starts of the agent after the first.", one(stats.restarts));
        let classes = ["clean", "transient", "flapping", "fatal", "asked", "rate_limited"];
        page.counter(
            "exits_total",
            "Ends of the agent, by class.",
            classes.map(|c| {
                (format!("{{class=\"{c}\"}}"), self.tally.exits.get(c).copied().unwrap_or(0) as f64)
            }),
        );
        page.counter("spawns_total", "Agents that were started.", one(self.tally.spawned));
        page.counter("spawn_failures_total", "Starts that came to nothing.", one(self.tally.spawn_failures));
        page.counter(
            "orphans_reaped_total",
            "Processes reaped that nobody else would have waited for.",
            one(stats.orphans_reaped),
        );
        if let (Some(zombies), Some(tree)) = self.dear.tree.get(look_at_tree) {
            page.gauge("zombies", "Processes below the supervisor that nobody has reaped.", one(zombies));
            page.gauge("tree_processes", "Processes below the supervisor.", one(tree.processes));
            page.gauge("tree_resident_bytes", "Memory of the processes below.", one(tree.rss_bytes));
        }
        let health = match self.health() {
            life::Health::Healthy => 0,
            life::Health::Degraded => 1,
            life::Health::Halted => 2,
        };
        page.gauge("health", "0 healthy, 1 degraded, 2 halted.", one(health));
        page.gauge("running", "1 while an agent runs.", one(u64::from(self.running_pid().is_some())));
        page.gauge("paused", "1 while the agent's tree is frozen.", one(u64::from(self.sweep.is_frozen())));
        if let Some(node) = self.node_in_short() {
            page.gauge("children", "Children of the node.", one(node.children));
            page.gauge("children_ready", "Those of them that are ready.", one(node.ready));
        }
        page.gauge(
            "phase_info",
            "The phase, as a label.",
            [(format!("{{phase=\"{}\"}}", phase_name(self.life.phase())), 1.0)],
        );
        page.gauge(
            "start_time_seconds",
            "When the supervisor started, since 1970.",
            [(String::new(), self.tally.started_epoch)],
        );
        page.counter("output_bytes_total", "What the agent wrote to its terminal.", one(stats.output_bytes));
        page.counter("input_bytes_total", "What was typed into it.", one(stats.input_bytes));
        let triggers = self.bridge.triggers.counts;
        for (name, help, value) in [
            ("attempt", "Triggers that were begun.", triggers.attempts),
            ("delivered", "Triggers that the agent acknowledged.", triggers.delivered),
            ("failed", "Triggers that were given up.", triggers.failed),
            ("retry", "Retries of triggers that nobody acknowledged.", triggers.retries),
            ("timeout", "Times that an acknowledgement did not come.", triggers.timeouts),
            ("deferred", "Triggers that an operator at work held back.", triggers.deferred),
            ("refused", "Triggers that were not accepted.", triggers.refused),
        ] {
            page.counter(&format!("trigger_{name}_total"), help, one(value));
        }
        page.counter(
            "rules_fired_total",
            "Times that a rule was met, by what it does.",
            self.rules.counts().map(|(then, n)| (format!("{{then=\"{then}\"}}"), n as f64)),
        );
        page.counter("turns_total", "Turns that the agent ended.", one(stats.turns));
        page.counter("turns_failed_total", "Turns that ended with an error.", one(stats.failed_turns));
        let answers = [("allow", "allowed"), ("deny", "denied"), ("expired", "expired")];
        page.counter(
            "permissions_total",
            "Permissions that the agent asked for, by answer.",
            answers.map(|(label, key)| (format!("{{answer=\"{label}\"}}"), stats.permissions[key] as f64)),
        );
        page.gauge(
            "activity_info",
            "What the agent does, as a label.",
            [(format!("{{activity=\"{}\"}}", self.shown_activity().name()), 1.0)],
        );
        page.counter(
            "registry_drift_total",
            "Times that the session's record was not true of what lived: left by a kill, or not writable.",
            one(self.tally.registry_drift),
        );
        page.gauge("callers", "Connections to the control socket.", one(stats.callers));
        page.counter(
            "callers_dropped_total",
            "Connections that the supervisor closed.",
            one(stats.callers_dropped),
        );
        page.gauge("attached", "Terminals that are attached.", one(stats.attached));
        let calls = stats.calls.iter().flat_map(|(method, n)| {
            [("ok", n.ok), ("error", n.error)]
                .map(|(result, n)| (format!("{{method=\"{method}\",result=\"{result}\"}}"), n as f64))
        });
        page.counter("control_calls_total", "Requests answered, by method and result.", calls);
        page.counter("events_total", "Events recorded.", one(stats.events));
        page.counter("log_lost_total", "Events that the file or journald lacks.", one(stats.log_lost));
        page.gauge("process_resident_bytes", "Memory of the supervisor alone.", one(stats.resident_bytes));
        page.counter(
            "process_cpu_seconds_total",
            "Processor time of the supervisor alone.",
            [(String::new(), stats.cpu_ms as f64 / 1000.0)],
        );
        page.gauge("process_open_fds", "Descriptors of the supervisor.", one(stats.open_files));
        page.gauge(
            "build_info",
            "The version, as a label.",
            [(format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0)],
        );
        page.0
    }
}

/// Prometheus text, version 0.0.4. All label values are words of our own, so nothing needs escaping.
#[derive(Default)]
struct Page(String);

impl Page {
    fn counter(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
        self.add("counter", name, help, values);
    }

    fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
        self.add("gauge", name, help, values);
    }

    fn add(&mut self, kind: &str, name: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
        let mut text = format!("# HELP agentsup_{name} {help}\n# TYPE agentsup_{name} {kind}\n");
        for (labels, value) in values {
            writeln!(text, "agentsup_{name}{labels} {value}").expect("a String takes everything");
        }
        self.0.push_str(&text);
    }
}

/// Figures that are dear to find.
#[derive(Default)]
pub(super) struct Dear {
    tree: Kept<(Option<u64>, Option<Tree>)>,
    own: Kept<(procfs::Usage, u64)>,
}

/// Kept for twenty times as long as it took to find: asked for in a flood, it costs a twentieth of our
/// time.
#[derive(Default)]
struct Kept<T>(RefCell<Option<(Instant, T)>>);

impl<T: Clone> Kept<T> {
    fn get(&self, find: impl FnOnce() -> T) -> T {
        let now = Instant::now();
        if let Some((until, value)) = &*self.0.borrow()
            && now < *until
        {
            return value.clone();
        }
        let value = find();
        let found = Instant::now();
        *self.0.borrow_mut() = Some((found + (found - now) * 20, value.clone()));
        value
    }
}

fn look_at_self() -> (procfs::Usage, u64) {
    (procfs::usage(std::process::id().cast_signed()).unwrap_or_default(), procfs::open_files())
}

/// Zombies and totals of everything below us; nothing without a usable /proc.
fn look_at_tree() -> (Option<u64>, Option<Tree>) {
    let Some(all) = procfs::processes() else { return (None, None) };
    let below = procfs::descendants(&all, std::process::id().cast_signed());
    let zombies = below.iter().filter(|p| p.zombie).count() as u64;
    let living = below.iter().filter(|p| !p.zombie);
    let usages: Vec<procfs::Usage> = living.filter_map(|p| procfs::usage(p.pid)).collect();
    let tree = Tree {
        processes: usages.len() as u64,
        cpu_ms: used_by(&below).as_millis() as u64,
        rss_bytes: usages.iter().map(|usage| usage.rss_bytes).sum(),
    };
    (Some(zombies), Some(tree))
}

/// What these have used so far, with what was used by those that are gone: an agent may work by orphans that live
/// for a moment, and they have been reaped by us.
fn used_by(below: &[procfs::Process]) -> Duration {
    let gone = procfs::usage(std::process::id().cast_signed()).map_or(0, |own| own.reaped_cpu_ms);
    let usages = below.iter().filter_map(|p| procfs::usage(p.pid));
    Duration::from_millis(gone + usages.map(|usage| usage.cpu_ms + usage.reaped_cpu_ms).sum::<u64>())
}

/// What the agent's tree has used so far. Of those in `others` it is nobody's sign, nor of what they start.
pub(super) fn used_by_tree(others: &HashSet<(i32, u64)>) -> Option<Used> {
    let all = procfs::processes()?;
    let mut below = procfs::descendants(&all, std::process::id().cast_signed());
    if !others.is_empty() {
        let theirs = below.iter().filter(|p| others.contains(&(p.pid, p.started)));
        let with_what_is_below =
            theirs.flat_map(|p| procfs::descendants(&all, p.pid).into_iter().chain([*p]));
        let left_out: HashSet<i32> = with_what_is_below.map(|p| p.pid).collect();
        below.retain(|p| !left_out.contains(&p.pid));
    }
    let living = below.iter().filter(|p| !p.zombie);
    let waited = living.map(|p| procfs::waited_for_cpu(p.pid)).sum();
    Some(Used { cpu: used_by(&below), waited })
}

fn phase(phase: &life::Phase) -> Phase {
    match phase {
        life::Phase::Clearing { .. } => Phase::Clearing,
        life::Phase::Preparing { .. } => Phase::Preparing,
        life::Phase::Starting { .. } => Phase::Starting,
        life::Phase::Running { .. } => Phase::Running,
        life::Phase::Restarting { .. } | life::Phase::Away { .. } => Phase::Restarting,
        life::Phase::Waiting { .. } => Phase::Backoff,
        life::Phase::Asking => Phase::Asking,
        life::Phase::Halted | life::Phase::Telling { .. } => Phase::Halted,
        life::Phase::Stopping { .. } => Phase::Stopping,
        life::Phase::Ended => Phase::Ended,
    }
}

fn health(health: life::Health) -> Health {
    match health {
        life::Health::Healthy => Health::Healthy,
        life::Health::Degraded => Health::Degraded,
        life::Health::Halted => Health::Halted,
    }
}

fn why_name(why: Why) -> &'static str {
    match why {
        Why::Restart => "restart",
        Why::RateLimit => "rate_limit",
        Why::GraceOver => "grace_over",
        Why::Timeout => "timeout",
        Why::HelperTooSlow => "helper_too_slow",
    }
}
