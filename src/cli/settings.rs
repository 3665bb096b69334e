//! Flags over the config file over defaults. Pure: what the defaults depend on comes in with them.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Failure;
use super::asked::Asked;
use super::config::Config;
use super::duration;
use super::names::Named;
use super::world::Stdin;
use crate::control::access::Role;
use crate::policy::crash::{Backoff, Numbers, OnClean, OnHalt, Restart};
use crate::policy::rules::Rule;
use crate::policy::trigger;
use crate::policy::watch::Numbers as WatchNumbers;
use crate::screen::chord::Chord;
use crate::session::{Profile, Start};
use crate::supervisor::settings::{Io, RecordSettings, Size};

mod record;
mod rules;
mod socket;
mod watch;

/// Below the 10 s after which Docker kills.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(8);
/// Long enough for a human who is told by their phone.
const DEFAULT_PERMISSION_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_SIZE: Size = Size { cols: 120, rows: 40 };
const DEFAULT_SCROLLBACK: usize = 2000;
const DEFAULT_LOG_BYTES: u64 = 32 << 20;

/// Every choice made, none of it looked up on disk yet.
#[derive(Debug)]
pub struct Choices {
    pub command: Vec<OsString>,
    pub document: Option<PathBuf>,
    pub session: Option<String>,
    pub labels: Vec<(String, String)>,
    pub cwd: Option<PathBuf>,
    pub dir: Option<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
    pub pass_env: Vec<String>,
    pub agent: Option<String>,
    /// As written: `@FILE` is not read yet.
    pub prompt: Option<OsString>,
    pub start: Start,
    pub io: Io,
    pub size: Size,
    /// None: the agent's terminal is not recorded.
    pub record: Option<RecordSettings>,
    pub restart: Restart,
    pub on_clean: OnClean,
    pub on_halt: OnHalt,
    pub grace: Duration,
    pub timeout: Option<Duration>,
    /// None: no callers are answered.
    pub socket: Option<SocketChoices>,
    pub ready_fd: Option<i32>,
    /// The agent is made to tell of itself.
    pub hooks: bool,
    pub allowed_dirs: Vec<String>,
    pub continue_args: Vec<String>,
    pub before_spawn: Vec<String>,
    pub crash: Numbers,
    pub trigger: trigger::Numbers,
    pub rules: Vec<Rule>,
    pub watch: Option<WatchNumbers>,
    pub recovery: bool,
    pub permission_timeout: Duration,
    pub halt_notify: Vec<String>,
    /// None: the agent's output is not followed.
    pub scrollback: Option<usize>,
    pub detach_key: Chord,
    pub log_max_bytes: u64,
    pub journald: bool,
    pub config: Option<PathBuf>,
    /// For `explain`: each setting once, in the order in which it is shown. Else what a file gave by itself.
    pub origins: Vec<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketChoices {
    pub mode: u32,
    /// As written: not looked up yet.
    pub group: Option<String>,
    pub access_group: Role,
    pub access_outside: Role,
}

/// Of which settings it is kept where they come from. Half of what settling takes is to show them, and a start
/// waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origins {
    OfAll,
    OfFiles,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub name: String,
    pub value: String,
    pub source: String,
}

impl Choices {
    /// The file that gave this setting, if a file did: `config FILE`.
    pub fn said_in_file(&self, name: &str) -> Option<&str> {
        let origin = self.origins.iter().find(|origin| origin.name == name)?;
        origin.source.starts_with("config ").then_some(origin.source.as_str())
    }
}

pub fn settle(
    command: Vec<OsString>,
    flags: Asked,
    config: Option<Config>,
    stdin: Stdin,
    origins: Origins,
) -> Result<Choices, Failure> {
    let mut pick = Picker::new(config.as_ref(), origins);
    let config = config.unwrap_or_default();
    let (file, policy) = (config.run, config.policy);
    let both_flags = (flags.io, flags.size);

    // Text and paths: where they lead is settled by `session`, which names its own sources.
    let document =
        pick.optional("document", flags.document, file.document, |path| path.display().to_string());
    let session = pick.optional("session", flags.session, file.session, String::clone);
    let cwd = pick.optional("cwd", flags.cwd, file.cwd, |path| path.display().to_string());
    let dir = pick.optional("dir", flags.dir, file.dir, |path| path.display().to_string());
    let agent = pick.optional("agent", flags.agent, file.agent, String::clone);
    let prompt = pick.optional("prompt", flags.prompt, file.prompt, |text| text.display().to_string());
    let labels = pick.by_name("label", flags.label, file.label, |key, value| (key.clone(), value.clone()));
    let env = pick.by_name("env", flags.env, file.env, |name, value| {
        (name.display().to_string(), value.display().to_string())
    });
    let pass_env = pick.all("pass_env", flags.pass_env, file.pass_env);
    for (name, list) in [
        ("allowed_dirs", &file.allowed_dirs),
        ("continue_args", &file.continue_args),
        ("before_spawn", &file.before_spawn),
        ("halt.notify", &config.halt_notify),
    ] {
        pick.file_list(name, list);
    }

    let profile =
        Profile::of(&command[0], agent.as_deref()).map_err(|refusal| Failure::refused(refusal.0))?;
    let one_shot = profile.is_one_shot(&command[1..]);

    let start = pick.choice("start", flags.start, file.start, (Start::Fresh, "default"));
    let io_default = match stdin {
        _ if one_shot => (Io::Inherit, "default (one-shot call)"),
        Stdin::Data if !profile.is_known() => (Io::Inherit, "default (data on stdin)"),
        Stdin::Data | Stdin::Terminal | Stdin::Null => (Io::Pty, "default"),
    };
    let io = pick.choice("io", flags.io, file.io, io_default);
    let show_size = |size: &Size| format!("{}x{}", size.cols, size.rows);
    let size = pick.one("size", flags.size, file.size, (DEFAULT_SIZE, "default"), show_size);
    let wants = ((flags.record, flags.record_input), (file.record, file.record_input));
    let record = record::settle(&mut pick, wants, &io)?;
    let restart_default = match one_shot {
        true => (Restart::No, "default (one-shot call)"),
        false => (Restart::OnFailure, "default"),
    };
    let restart = pick.choice("restart", flags.restart, file.restart, restart_default);
    let on_clean_default = match (restart.value, stdin) {
        (Restart::Always, _) => (OnClean::Restart, "default (restart always)"),
        (Restart::No, _) => (OnClean::Exit, "default (restart no)"),
        (Restart::OnFailure, Stdin::Terminal) => (OnClean::Prompt, "default (terminal on stdin)"),
        (Restart::OnFailure, Stdin::Null | Stdin::Data) => (OnClean::Exit, "default (no terminal on stdin)"),
    };
    let on_clean = pick.choice("on_clean", flags.on_clean, file.on_clean, on_clean_default);
    let on_halt_default = match stdin {
        Stdin::Terminal => (OnHalt::Wait, "default (terminal on stdin)"),
        Stdin::Null | Stdin::Data => (OnHalt::Exit, "default (no terminal on stdin)"),
    };
    let on_halt = pick.choice("on_halt", flags.on_halt, file.on_halt, on_halt_default);
    let wants = (
        (flags.socket_mode, flags.socket_group, flags.no_socket),
        (file.socket_mode, file.socket_group, file.no_socket),
    );
    let socket = socket::settle(&mut pick, wants, &config.access)?;
    contradictions(both_flags, &restart, &on_clean, (&on_halt, socket.is_some()), stdin)?;

    let show = |time: &Duration| duration::show(*time);
    let grace = pick.one("grace", flags.grace, file.grace, (DEFAULT_GRACE, "default"), show);
    let timeout = pick.optional("timeout", flags.timeout, file.timeout, show);
    let ready_fd = pick.optional("ready_fd", flags.ready_fd, file.ready_fd, i32::to_string);
    let no_hooks = pick.one("no_hooks", flags.no_hooks, file.no_hooks, (false, "default"), bool::to_string);
    let crash = policy.numbers();
    pick.policy(&crash, |key| policy.says(key));
    let permission_timeout = pick.one(
        "permission.timeout",
        None,
        config.permission_timeout,
        (DEFAULT_PERMISSION_TIMEOUT, "default"),
        |timeout| duration::show(*timeout),
    );
    let trigger = config.trigger.numbers();
    if pick.shows_all() {
        for (key, value) in config.trigger.shown() {
            pick.note_part(("trigger", key), value, config.trigger.says(key));
        }
    }
    let recovery = pick.one("recovery.prompt", None, config.recovery, (true, "default"), bool::to_string);
    let screen = pick.one("screen.enabled", None, config.screen.enabled, (true, "default"), bool::to_string);
    let scrollback = (DEFAULT_SCROLLBACK, "default");
    let scrollback =
        pick.one("screen.scrollback", None, config.screen.scrollback, scrollback, usize::to_string);
    let detach_key = (Chord::BACKSLASH, "default");
    let detach_key =
        pick.one("screen.detach_key", None, config.screen.detach_key, detach_key, Chord::to_string);
    rules::settle(&mut pick, &config.rules, profile, &io, screen.value)?;
    let watch = watch::settle(&mut pick, (flags.watch, file.watch), &config.watch, &io, screen.value)?;
    let max_bytes = (DEFAULT_LOG_BYTES, "default");
    let max_bytes = pick.one("log.max_bytes", None, config.log_max_bytes, max_bytes, u64::to_string);
    let journald = pick.one("log.journald", None, config.journald, (true, "default"), bool::to_string);

    Ok(Choices {
        command,
        document,
        session,
        labels,
        cwd,
        dir,
        env,
        pass_env,
        agent,
        prompt,
        start: start.value,
        io: io.value,
        size: size.value,
        record,
        restart: restart.value,
        on_clean: on_clean.value,
        on_halt: on_halt.value,
        grace: grace.value,
        timeout,
        socket,
        ready_fd,
        hooks: !no_hooks.value,
        allowed_dirs: file.allowed_dirs,
        continue_args: file.continue_args,
        before_spawn: file.before_spawn,
        crash,
        trigger,
        rules: config.rules,
        watch,
        recovery: recovery.value,
        permission_timeout: permission_timeout.value,
        halt_notify: config.halt_notify,
        scrollback: screen.value.then_some(scrollback.value),
        detach_key: detach_key.value,
        log_max_bytes: max_bytes.value,
        journald: journald.value,
        config: pick.config,
        origins: pick.origins,
    })
}

/// Pairs that cannot both be meant, and what the place agentsup runs in cannot give. On a
/// terminal, asking works under `--io inherit` too: the agent has ended by then and its terminal
/// is free.
fn contradictions(
    (io_flag, size_flag): (Option<Io>, Option<Size>),
    restart: &Chosen<Restart>,
    on_clean: &Chosen<OnClean>,
    (on_halt, has_socket): (&Chosen<OnHalt>, bool),
    stdin: Stdin,
) -> Result<(), Failure> {
    let clash = |why: &str| {
        Err(Failure::refused(format!(
            "restart {} ({}) contradicts on_clean {} ({}): {why}",
            restart.value.name(),
            restart.source,
            on_clean.value.name(),
            on_clean.source
        )))
    };
    match (restart.value, on_clean.value) {
        (Restart::No, OnClean::Restart | OnClean::Prompt) => {
            return clash("with restart no an ended agent is never started again; use --restart on-failure");
        }
        (Restart::Always, OnClean::Exit | OnClean::Prompt) => {
            return clash("with restart always a clean exit restarts too; use --restart on-failure");
        }
        (Restart::No, OnClean::Exit)
        | (Restart::Always, OnClean::Restart)
        | (Restart::OnFailure, OnClean::Exit | OnClean::Prompt | OnClean::Restart) => {}
    }
    if stdin != Stdin::Terminal {
        if on_clean.value == OnClean::Prompt {
            return Err(Failure::refused(format!(
                "on_clean prompt ({}): there is no terminal on stdin to ask at; use --on-clean exit or restart",
                on_clean.source
            )));
        }
        if on_halt.value == OnHalt::Wait && !has_socket {
            return Err(Failure::refused(format!(
                "on_halt wait ({}): there is no terminal on stdin and no socket, so nothing could end the \
                 wait; use --on-halt exit, or leave out --no-socket",
                on_halt.source
            )));
        }
    }
    if io_flag == Some(Io::Inherit) && size_flag.is_some() {
        return Err(Failure::refused(
            "--io inherit contradicts --size: there is no pty to give a size to; leave one out",
        ));
    }
    Ok(())
}

pub(super) struct Chosen<T> {
    pub(super) value: T,
    pub(super) source: Source,
}

/// `flag`, `default` and why, or `config FILE`.
type Source = Cow<'static, str>;

/// Takes the flag, else the file, else the default, and writes down which.
pub(super) struct Picker {
    config: Option<PathBuf>,
    keeps: Origins,
    origins: Vec<Origin>,
}

impl Picker {
    fn new(config: Option<&Config>, keeps: Origins) -> Picker {
        Picker { config: config.map(|config| config.path.clone()), keeps, origins: Vec::new() }
    }

    fn file(&self) -> Source {
        let path = self.config.as_deref();
        path.map_or(Cow::Borrowed(""), |path| Cow::Owned(format!("config {}", path.display())))
    }

    fn shows_all(&self) -> bool {
        self.keeps == Origins::OfAll
    }

    fn note(&mut self, name: &str, source: &Source, show: impl FnOnce() -> String) {
        if self.shows_all() || matches!(source, Cow::Owned(_)) {
            let source = source.to_string();
            self.origins.push(Origin { name: name.to_string(), value: show(), source });
        }
    }

    /// Of a table that only a file has.
    fn note_part(&mut self, (table, key): (&str, &str), value: String, is_said: bool) {
        let source = if is_said { self.file() } else { Cow::Borrowed("default") };
        self.note(&format!("{table}.{key}"), &source, || value);
    }

    pub(super) fn one<T>(
        &mut self,
        name: &str,
        flag: Option<T>,
        file: Option<T>,
        default: (T, &'static str),
        show: impl Fn(&T) -> String,
    ) -> Chosen<T> {
        let (value, source) = match (flag, file) {
            (Some(value), _) => (value, Cow::Borrowed("flag")),
            (None, Some(value)) => (value, self.file()),
            (None, None) => (default.0, Cow::Borrowed(default.1)),
        };
        self.note(name, &source, || show(&value));
        Chosen { value, source }
    }

    pub(super) fn choice<T: Named>(
        &mut self,
        name: &str,
        flag: Option<T>,
        file: Option<T>,
        default: (T, &'static str),
    ) -> Chosen<T> {
        self.one(name, flag, file, default, |value| value.name().to_string())
    }

    /// A setting that may stay unset.
    fn optional<T>(
        &mut self,
        name: &str,
        flag: Option<T>,
        file: Option<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let shown = |value: &Option<T>| value.as_ref().map_or_else(|| "none".to_string(), &show);
        self.one(name, flag.map(Some), file.map(Some), (None, "default"), shown).value
    }

    /// Pairs from both; for a name in both the flag wins.
    fn by_name<K: PartialEq, V>(
        &mut self,
        name: &str,
        flags: Vec<(K, V)>,
        file: Vec<(K, V)>,
        show: impl Fn(&K, &V) -> (String, String),
    ) -> Vec<(K, V)> {
        let mut pairs = file;
        pairs.retain(|(key, _)| !flags.iter().any(|(flag, _)| flag == key));
        let from_file = pairs.len();
        pairs.extend(flags);
        for (n, (key, value)) in pairs.iter().enumerate() {
            if self.shows_all() {
                let (key, value) = show(key, value);
                let source = if n < from_file { self.file() } else { Cow::Borrowed("flag") };
                self.note(&format!("{name} {key}"), &source, || value);
            }
        }
        pairs
    }

    /// Values from both: patterns add up.
    fn all(&mut self, name: &str, flags: Vec<String>, file: Vec<String>) -> Vec<String> {
        for (values, source) in [(&file, self.file()), (&flags, Cow::Borrowed("flag"))] {
            for value in values {
                self.note(name, &source, || value.clone());
            }
        }
        [file, flags].concat()
    }

    /// A list that only the file can give.
    fn file_list(&mut self, name: &str, list: &[String]) {
        if !list.is_empty() {
            self.note(name, &self.file(), || format!("{list:?}"));
        }
    }

    fn policy(&mut self, numbers: &Numbers, says: impl Fn(&str) -> bool) {
        if !self.shows_all() {
            return;
        }
        let mut values = vec![
            ("window", duration::show(numbers.window)),
            ("flapping_after", numbers.flapping_after.to_string()),
            ("transient_wait", duration::show(numbers.transient_wait)),
            ("flapping_wait", duration::show(numbers.flapping_wait)),
            ("halt_after", numbers.halt_after.to_string()),
            ("halt_within", numbers.halt_within.map_or_else(|| "none".to_owned(), duration::show)),
            ("stable_after", duration::show(numbers.stable_after)),
            ("no_retry", format!("{:?}", numbers.no_retry)),
        ];
        match numbers.backoff {
            Backoff::Fixed => values.push(("backoff", "fixed".to_string())),
            Backoff::Exponential { base, factor, max, jitter } => values.extend([
                ("backoff", "exponential".to_string()),
                ("base", duration::show(base)),
                ("factor", factor.to_string()),
                ("max", duration::show(max)),
                ("jitter", jitter.to_string()),
            ]),
        }
        for (key, value) in values {
            self.note_part(("policy", key), value, says(key));
        }
    }
}

#[cfg(test)]
mod tests;
