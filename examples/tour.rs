//! A tour of agentsup in a few seconds: `cargo run --example tour`.
//!
//! Drives the real binary with agents that are shell one-liners, shows what it prints, and checks
//! every claim it makes: it ends with 0 only when each step happened as told.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long one step may take. Never a pause: each wait ends with what it waits for.
const LIMIT: Duration = Duration::from_secs(10);

/// The defaults wait 2 s and 30 s between restarts: right for an agent, long for a tour.
const CONFIG: &str = r#"[run]
dir = "state"
grace = "2s"

[policy]
transient_wait = "200ms"
flapping_wait = "400ms"

[log]
journald = false
"#;

// No single quotes in these: what is shown can be pasted into a shell.

const HELLO: &str = r#"echo "agent: I see ${LEFTOVER-nothing} in LEFTOVER"; exit 3"#;

const STORY: &str = r#"
if mkdir crashed-once 2>/dev/null; then
    echo "agent: first start, and I crash"
    kill -SEGV $$
fi
echo "agent: second start, now I work"
trap "echo agent: TERM came, I save my work; exit 0" TERM
setsid sleep 600 &                       # leaves the terminal and the process group
echo $! >escaped
for n in 1 2 3; do (sleep 0.1 &); done   # their parent is gone at once
sleep 600 & wait
"#;

const HOPELESS: &str = r#"echo "agent: no API key"; exit 7"#;

const STUBBORN: &str = r#"trap "" TERM; echo "agent: I ignore TERM"; while :; do sleep 1; done"#;

const NEXT: &str =
    "  cargo run -- run -- bash       bash under agentsup, in this terminal: try `exit 1`, then `exit`
  cargo run -- explain -- bash   what run would do, and where every value comes from
  cargo run -- help run          all options, exit codes and examples";

type Step = Result<(), String>;

fn main() -> ExitCode {
    let page = Page::new();
    match tour(&page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            page.line("");
            eprintln!("tour: {what}");
            ExitCode::FAILURE
        }
    }
}

fn tour(page: &Page) -> Step {
    let agentsup = build(page)?;
    let room = Room::make()?;
    let stage = Stage { page, agentsup, room: &room };
    stage.one_run()?;
    stage.crash_restart_orphans_stop()?;
    stage.halt()?;
    stage.stubborn()?;
    page.title("What next");
    page.line(NEXT);
    Ok(())
}

/// The binary beside this example, built the way the example was.
fn build(page: &Page) -> Result<PathBuf, String> {
    let example = std::env::current_exe().map_err(|e| format!("cannot tell where the example is: {e}"))?;
    let up = |n: usize| example.ancestors().nth(n).map(Path::to_owned);
    let (Some(profile_dir), Some(target_dir)) = (up(2), up(3)) else {
        return Err(format!("{} is not in a target directory", example.display()));
    };
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    page.line("Building agentsup (the first time this takes a while) …");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&cargo)
        // With the example named too, cargo settles on the same features and does not build the library twice.
        .args(["build", "-q", "--bin", "agentsup", "--example", "tour", "--profile", profile])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("cannot run {}: {e}", cargo.display()))?;
    let agentsup = profile_dir.join("agentsup");
    match status.success() && agentsup.is_file() {
        true => Ok(agentsup),
        false => Err(format!("cargo build ended with {status}; {} is needed", agentsup.display())),
    }
}

struct Stage<'a> {
    page: &'a Page,
    agentsup: PathBuf,
    room: &'a Room,
}

impl Stage<'_> {
    fn one_run(&self) -> Step {
        self.page.title("1. One agent, one run");
        self.page.line(
            "The agent gets a terminal, a working directory and an environment made from a list;
\
             what is not on the list stays outside, like LEFTOVER=1 here. Its exit code comes out.",
        );
        let mut run = self.start(&["--session", "hello", "--restart", "no"], HELLO, &[("LEFTOVER", "1")])?;
        run.until("not passed to the agent (--pass-env NAME passes one): LEFTOVER")?;
        run.until("agent: I see nothing in LEFTOVER")?;
        run.ends_with(3)
    }

    fn crash_restart_orphans_stop(&self) -> Step {
        self.page.title("2. Crash, restart, orphans, stop");
        self.page.line(
            "This one crashes at its first start. At its second it leaves processes behind, as the
\
             shells of agents do, and works until it is told to stop. The waits are shortened:",
        );
        self.page.command("cat fast.toml");
        CONFIG.lines().for_each(|line| self.page.quote(line));
        let mut run = self.start(&["--session", "story"], STORY, &[])?;
        run.until("first start")?;
        run.until("agent was ended by signal SEGV")?;
        run.until("second start")?;
        let log = Log(self.room.path("state/logs/story.log"));
        run.until_log("three orphans are reaped", || log.count_of("orphan_reaped", "count") >= 3)?;
        self.page.line("The three orphans have been reaped. Now agentsup gets TERM, as from `docker stop`:");
        run.signal(Signal::SIGTERM)?;
        run.until("TERM came")?;
        run.ends_with(0)?;

        let escaped = fs::read_to_string(self.room.path("escaped")).map_err(|e| format!("escaped: {e}"))?;
        let escaped = escaped.trim();
        if escaped.is_empty() || Path::new("/proc").join(escaped).exists() {
            return Err(format!("process {escaped:?} outlived agentsup"));
        }
        self.page.line(&format!("Process {escaped}, in a session of its own, was found and ended too."));

        self.page.title("3. The log of it all");
        self.page.line("One line an event, in state/logs/story.log. `claude_` is said of any agent.");
        let text = log.read();
        text.lines().for_each(|line| self.page.quote(line));
        in_this_order(
            &text,
            &[
                "session_start file=- session=story",
                "cwd_resolved",
                "env_built",
                "pty_allocated",
                "claude_spawn",
                "signal=SEGV class=transient",
                "restart_scheduled class=transient wait_ms=200",
                "claude_spawn",
                "orphan_reaped",
                "signal_received signal=TERM",
                "code=0 class=asked",
                "shutdown code=0",
            ],
        )
    }

    fn halt(&self) -> Step {
        self.page.title("4. An agent that cannot work");
        self.page.line(
            "Restarting for ever helps nobody: the waits grow, and 5 failures in a row are the end.
\
             agentsup repeats the agent's last words and ends with its last code.",
        );
        let mut run = self.start(&["--session", "hopeless"], HOPELESS, &[])?;
        run.until("supervisor halted")?;
        run.until("5 failures in a row")?;
        run.until("| agent: no API key")?;
        run.ends_with(7)
    }

    fn stubborn(&self) -> Step {
        self.page.title("5. An agent that will not stop");
        self.page.line("TERM first; KILL at three quarters of the grace (here 2 s, 8 s by default).");
        let mut run = self.start(&["--session", "stubborn"], STUBBORN, &[])?;
        run.until("I ignore TERM")?;
        let asked = Instant::now();
        run.signal(Signal::SIGTERM)?;
        run.ends_with(128 + 9)?;
        let took = asked.elapsed();
        self.page.line(&format!("It took {:.1} s; 137 is 128 + 9, KILL.", took.as_secs_f32()));
        match took < Duration::from_secs(4) {
            true => Ok(()),
            false => Err(format!("the stop took {took:?} with a grace of 2 s")),
        }
    }

    fn start(&self, options: &[&str], script: &str, env: &[(&str, &str)]) -> Result<Run<'_>, String> {
        let words = options.join(" ");
        self.page.command(&format!("agentsup run --config fast.toml {words} -- sh -c '{script}'"));
        // One pipe for both streams keeps the lines in the order in which they were written.
        let (read, write) = std::io::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
        let stderr = write.try_clone().map_err(|e| format!("cannot copy a pipe: {e}"))?;
        let child = Command::new(&self.agentsup)
            .args(["run", "--config", "fast.toml"])
            .args(options)
            .args(["--", "sh", "-c", script])
            .current_dir(&self.room.0)
            // A small environment of its own, so that the tour tells the same story everywhere.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(write)
            .stderr(stderr)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.agentsup.display()))?;
        Ok(Run { page: self.page, child, lines: follow(read) })
    }
}

/// The lines of a stream as they come; disconnected when it ends.
fn follow(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

/// One agentsup and the lines that it and its agent print, shown as they come.
struct Run<'a> {
    page: &'a Page,
    child: Child,
    lines: Receiver<String>,
}

impl Run<'_> {
    /// Shows lines up to the first that holds `text`.
    fn until(&mut self, text: &str) -> Step {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.page.quote(&line);
                    if line.contains(text) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(format!("no line with {text:?} in {LIMIT:?}")),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("agentsup ended without a line with {text:?}"));
                }
            }
        }
    }

    /// The same for something that only the log tells.
    fn until_log(&mut self, what: &str, holds: impl Fn() -> bool) -> Step {
        let deadline = Instant::now() + LIMIT;
        while !holds() {
            if Instant::now() > deadline {
                return Err(format!("not in the log within {LIMIT:?}: {what}"));
            }
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => self.page.quote(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(format!("agentsup ended before {what}")),
            }
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Step {
        kill(self.pid(), signal).map_err(|e| format!("cannot send {signal}: {e}"))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Shows the rest, waits for the end and compares the exit code.
    fn ends_with(mut self, code: i32) -> Step {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.page.quote(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(format!("agentsup did not end in {LIMIT:?}")),
            }
        }
        let status: ExitStatus = self.child.wait().map_err(|e| format!("waiting for agentsup: {e}"))?;
        match status.code() == Some(code) {
            true => {
                self.page.line(&format!("exit code {code}"));
                Ok(())
            }
            false => Err(format!("agentsup ended with {status}, not with code {code}")),
        }
    }
}

impl Drop for Run<'_> {
    /// Only a step that went wrong leaves one running: it is asked to stop, then killed.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = kill(self.pid(), Signal::SIGTERM);
        let deadline = Instant::now() + LIMIT;
        // Both streams end with the process.
        while self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Log(PathBuf);

impl Log {
    fn read(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// The sum of `key=N` over all lines of one event.
    fn count_of(&self, event: &str, key: &str) -> u64 {
        let key = format!("{key}=");
        let text = self.read();
        let lines = text.lines().filter(|line| line.split(' ').any(|word| word == event));
        let values = lines.flat_map(|line| line.split(' ').filter_map(|word| word.strip_prefix(&key)));
        values.filter_map(|value| value.parse::<u64>().ok()).sum()
    }
}

fn in_this_order(text: &str, parts: &[&str]) -> Step {
    let mut lines = text.lines();
    for part in parts {
        if !lines.any(|line| line.contains(part)) {
            return Err(format!("the log has no line with {part:?} in its place"));
        }
    }
    Ok(())
}

/// A directory of its own, gone when the tour is over.
struct Room(PathBuf);

impl Room {
    fn make() -> Result<Room, String> {
        let path = std::env::temp_dir().join(format!("agentsup-tour-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        let room = Room(path);
        let config = room.path("fast.toml");
        fs::write(&config, CONFIG).map_err(|e| format!("cannot write {}: {e}", config.display()))?;
        Ok(room)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where the tour is told. A reader that has gone (`| head`) is no failure.
struct Page {
    colours: bool,
}

impl Page {
    fn new() -> Page {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Page { colours: wanted && std::io::stdout().is_terminal() }
    }

    fn line(&self, text: &str) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn title(&self, text: &str) {
        self.line("");
        self.line(&self.painted("1", text));
    }

    /// May hold line breaks: a script.
    fn command(&self, text: &str) {
        for (n, line) in text.trim_end().lines().enumerate() {
            let mark = if n == 0 { "$ " } else { "" };
            self.line(&self.painted("36", &format!("  {mark}{line}")));
        }
    }

    /// What a file holds or a program prints.
    fn quote(&self, line: &str) {
        let line = if line.contains("[supervisor]") { self.painted("33", line) } else { line.to_owned() };
        self.line(format!("{} {line}", self.painted("2", "  |")).trim_end());
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
