//! What a life is like: which machine, which settings, how much goes wrong. All of it from the seed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::control::access::Role;
use crate::coverage::PHASES;
use crate::policy::crash::{Backoff, Numbers, OnClean, OnHalt, Restart};
use crate::policy::rules::{Rule, Then, When};
use crate::policy::{trigger, watch};
use crate::rng::Rng;
use crate::screen::chord::Chord;
use crate::session::{HookWish, SessionId, Start, StateDir, Wish};
use crate::supervisor::settings::{
    InitSettings, Io, ManagerSettings, RecordSettings, Settings, Size, SocketSettings,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    Terminal,
    Stream,
    Closed,
}

#[derive(Clone, Debug)]
pub struct Mood {
    pub is_init: bool,
    pub is_pid_1: bool,
    pub keeps_orphans: bool,
    pub has_proc: bool,
    /// No filter denies `pidfd_open`.
    pub can_watch: bool,
    pub is_pty: bool,
    pub is_claude: bool,
    pub stdin: Stdin,
    /// What an earlier supervisor left behind.
    pub leftovers: usize,
    /// The longest that the world rests.
    pub pace: Duration,
    /// Things fail.
    pub is_faulty: bool,
    pub is_late: bool,
    /// Callers that mean no good come, too.
    pub is_hostile: bool,
    /// Events come that the phase has nothing to do with.
    pub is_chaotic: bool,
    /// Agents and their children take long to end, or never do.
    pub is_stubborn: bool,
    pub grace: Duration,
    pub timeout: Option<Duration>,
    pub crash: Numbers,
    pub asks_before_spawn: bool,
    pub notifies: bool,
    pub restart: Restart,
    pub permission_timeout: Duration,
    /// Triggers come, and nobody is at the terminal: the agent makes room, and comes back.
    pub is_bridged: bool,
    /// Agents that are stuck are told to go on, and killed.
    pub watch: Option<watch::Numbers>,
    /// Somebody wants an end as soon as the supervisor is in that phase.
    pub end: Option<(usize, Stop)>,
}

/// How somebody asks for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Signal,
    Call,
    Kill,
    Terminal,
}

impl Mood {
    pub fn new(rng: &mut Rng) -> Mood {
        let is_init = rng.once_in(25);
        let is_pid_1 = rng.once_in(3);
        let second = Duration::from_secs(1);
        let is_bridged = !is_init && rng.once_in(4);
        let is_pty = is_bridged || !is_init && !rng.once_in(6);
        let stops = [Stop::Signal, Stop::Call, Stop::Kill, Stop::Terminal];
        let end = rng.once_in(3).then(|| (rng.index(PHASES.len()), *rng.pick(&stops)));
        let stdin = match end {
            Some((_, Stop::Terminal)) => Stdin::Terminal,
            _ if is_bridged => Stdin::Closed,
            _ => *rng.pick(&[Stdin::Terminal, Stdin::Terminal, Stdin::Stream, Stdin::Closed]),
        };
        Mood {
            is_init,
            is_pid_1,
            keeps_orphans: is_pid_1 || !rng.once_in(8),
            has_proc: !rng.once_in(10),
            can_watch: !rng.once_in(6),
            is_pty,
            is_claude: is_bridged || is_pty && !rng.once_in(4),
            stdin,
            leftovers: if rng.once_in(4) { 1 + rng.index(4) } else { 0 },
            pace: *rng.pick(&[second / 100, second, second * 10, second * 120]),
            is_faulty: rng.once_in(2),
            is_late: rng.once_in(3),
            is_hostile: rng.once_in(2),
            is_chaotic: rng.once_in(3),
            is_stubborn: rng.once_in(3),
            grace: *rng.pick(&[Duration::ZERO, second / 5, second * 8, second * 8, second * 60]),
            timeout: rng.once_in(8).then(|| rng.span(second * 3600)),
            crash: numbers(rng),
            asks_before_spawn: !is_init && rng.once_in(4),
            notifies: !is_init && rng.once_in(3),
            restart: *rng.pick(&[Restart::OnFailure, Restart::OnFailure, Restart::Always, Restart::No]),
            permission_timeout: rng.span(second * 600),
            is_bridged,
            watch: (is_pty && rng.once_in(3)).then(|| watched(rng)),
            end,
        }
    }

    /// A node's, which is never PID 1. By what is settled anyhow: another draw would make other lives of all seeds.
    pub fn is_child(&self) -> bool {
        self.is_late && self.is_stubborn && !self.is_pid_1 && !self.is_init
    }

    /// The longest wait that the policy may come to.
    pub fn longest_wait(&self) -> Duration {
        let own = self.crash.transient_wait.max(self.crash.flapping_wait);
        let own = match self.crash.backoff {
            Backoff::Fixed => own,
            Backoff::Exponential { max, .. } => max.max(self.crash.flapping_wait),
        };
        // A rate limit is waited for, an hour at most.
        own.max(Duration::from_secs(3600))
    }

    pub fn init_settings(&self, dir: &Path) -> InitSettings {
        InitSettings { command: vec![dir.join("agent").into()], grace: self.grace }
    }

    pub fn settings(&self, rng: &mut Rng, dir: &Path) -> Settings {
        let state_dir = StateDir { path: dir.join("state"), source: "--dir" };
        let session = SessionId { id: "simulated".to_owned(), source: "--session" };
        let on_clean = match self.restart {
            Restart::Always => OnClean::Restart,
            Restart::No => OnClean::Exit,
            Restart::OnFailure => *rng.pick(&[OnClean::Exit, OnClean::Prompt, OnClean::Restart]),
        };
        let var = |name: &str, value: OsString| (OsString::from(name), value);
        let helper = || vec![dir.join("agent").to_string_lossy().into_owned()];
        let hooks = HookWish { agentsup: dir.join("agent"), permission_timeout: Duration::from_secs(300) };
        Settings {
            wish: Wish {
                started_in: dir.to_owned(),
                command: vec![dir.join("agent").into()],
                document: None,
                session,
                cwd: None,
                env: vec![],
                pass_env: vec![],
                parent_env: [
                    var("CLAUDE_CONFIG_DIR", dir.join("claude").into()),
                    var("PATH", "/usr/bin:/bin".into()),
                    var("SIMULATED_TOKEN", "a-secret-of-the-simulation".into()),
                ]
                .into_iter()
                .chain(self.is_child().then(|| var("AGENTSUP_CHILD", "a-node-s".into())))
                .collect(),
                agent: self.is_claude.then(|| "claude".to_owned()),
                prompt: None,
                continue_args: if !self.is_claude && rng.once_in(2) {
                    vec!["--again".to_owned()]
                } else {
                    vec![]
                },
                allowed_dirs: vec![],
                socket: state_dir.path.join("supervisor/simulated.sock"),
                uid: 1000,
                hooks: (self.is_claude && !rng.once_in(4)).then_some(hooks),
            },
            state_dir,
            start: if rng.once_in(3) { Start::Continue } else { Start::Fresh },
            io: if self.is_pty { Io::Pty } else { Io::Inherit },
            size: Size { cols: 80, rows: 24 },
            record: (self.is_pty && rng.once_in(6))
                .then(|| RecordSettings { file: dir.join("cast"), input: true }),
            restart: self.restart,
            on_clean,
            on_halt: *rng.pick(&[OnHalt::Exit, OnHalt::Wait, OnHalt::Wait]),
            grace: self.grace,
            timeout: self.timeout,
            socket: Some(SocketSettings {
                mode: 0o660,
                group: None,
                access_group: Role::Observer,
                access_outside: *rng.pick(&[Role::Operator, Role::Observer]),
            }),
            manager: ManagerSettings::default(),
            crash: self.crash.clone(),
            trigger: if self.is_bridged { bridged(rng) } else { triggers(rng) },
            rules: rules(rng, dir),
            watch: self.watch.clone(),
            recovery: !rng.once_in(4),
            permission_timeout: self.permission_timeout,
            before_spawn: if self.asks_before_spawn { helper() } else { vec![] },
            halt_notify: if self.notifies { helper() } else { vec![] },
            labels: vec![],
            node: None,
            // To watch means to look at the screen.
            scrollback: if rng.once_in(5) && self.watch.is_none() { None } else { Some(50) },
            detach_key: Chord::BACKSLASH,
            log_max_bytes: if rng.once_in(3) { 4096 } else { 1 << 20 },
            journald: false,
            config: None,
        }
    }
}

fn numbers(rng: &mut Rng) -> Numbers {
    let second = Duration::from_secs(1);
    let usual = Numbers::default();
    if rng.once_in(2) {
        return usual;
    }
    let exponential = Backoff::Exponential {
        base: rng.span(second * 10),
        factor: 1.0 + rng.below(40) as f64 / 10.0,
        max: second * 60,
        jitter: rng.below(10) as f64 / 10.0,
    };
    Numbers {
        window: rng.span(second * 600),
        flapping_after: 1 + rng.below(5) as u32,
        transient_wait: rng.span(second * 5),
        flapping_wait: rng.span(second * 60),
        halt_after: 1 + rng.below(8) as u32,
        halt_within: None,
        stable_after: rng.span(second * 300),
        no_retry: if rng.once_in(2) { vec![3] } else { vec![] },
        backoff: if rng.once_in(2) { Backoff::Fixed } else { exponential },
    }
}

fn triggers(rng: &mut Rng) -> trigger::Numbers {
    let usual = trigger::Numbers::default();
    if rng.once_in(3) {
        return usual;
    }
    let second = Duration::from_secs(1);
    trigger::Numbers {
        quiet: rng.span(second * 20),
        max_defer: rng.span(second * 60),
        ack_timeout: rng.span(second * 8),
        retry_waits: vec![second; rng.index(3)],
        rate_per_minute: 1 + rng.below(60) as u32,
        no_progress_turns: 1 + rng.below(5) as u32,
        resume_attempts: rng.below(3) as u32,
        ..usual
    }
}

/// A trigger that is not acknowledged soon is carried by a call.
fn bridged(rng: &mut Rng) -> trigger::Numbers {
    trigger::Numbers {
        quiet: Duration::ZERO,
        ack_timeout: rng.span(Duration::from_secs(2)),
        retry_waits: vec![],
        rate_per_minute: 1000,
        no_progress_turns: 1000,
        crash_shortcut: (0, Duration::ZERO),
        ..trigger::Numbers::default()
    }
}

fn watched(rng: &mut Rng) -> watch::Numbers {
    let (least, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let most = *rng.pick(&[second, second * 30, second * 300]);
    let continue_after = least + rng.span(most);
    watch::Numbers {
        continue_after,
        kill_after: continue_after + least + rng.span(most),
        tool_after: least + rng.span(most * 2),
        start_after: least + rng.span(most),
    }
}

fn rules(rng: &mut Rng, dir: &Path) -> Vec<Rule> {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let count = if rng.once_in(2) { rng.index(4) } else { 0 };
    let span = |rng: &mut Rng| Duration::from_millis(100) + rng.span(Duration::from_secs(600));
    let rule = |name: &'static str| Rule {
        name,
        when: match rng.below(5) {
            0 => When::MaxRuntime(span(rng)),
            1 => When::MaxRestarts(rng.below(6)),
            2 => When::SilentFor(span(rng)),
            3 => When::IdleFor(span(rng)),
            _ => When::ScreenContains("working".to_owned()),
        },
        then: match rng.below(6) {
            0 => Then::Log,
            1 => Then::Notify(vec![dir.join("agent").to_string_lossy().into_owned()]),
            2 => Then::Warn("be quick".to_owned()),
            3 => Then::Pause,
            4 => Then::Restart,
            _ => Then::Reap,
        },
    };
    NAMES.into_iter().take(count).map(rule).collect()
}

/// A place for one life, empty.
pub fn make_place(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::remove_dir_all(dir);
    for inside in ["state/supervisor", "state/logs", "claude/projects/here"] {
        fs::create_dir_all(dir.join(inside))?;
    }
    let agent = dir.join("agent");
    fs::write(&agent, "#!/bin/sh\n")?;
    fs::set_permissions(agent, fs::Permissions::from_mode(0o755))
}
