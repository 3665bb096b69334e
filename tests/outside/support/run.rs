//! Starting the real binary, and waiting for its end.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::log::Log;
use super::stream::Stream;
use super::sys::{self, Dispositions, Pidfd};
use super::{AGENTSUP, LIMIT, Lab, Place, SESSION, procfs};

/// How agentsup is to be started; `start` does it.
pub struct Launch {
    place: Place,
    verb: Vec<OsString>,
    command: Vec<OsString>,
    stdin: Stdio,
    stdout: Out,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    dispositions: Option<Dispositions>,
    wrapper: Vec<OsString>,
    state_dir: PathBuf,
}

#[derive(PartialEq, Eq)]
enum Out {
    Read,
    /// A pipe that nobody reads until the test says so.
    Unread,
}

fn words<I: IntoIterator<Item: AsRef<OsStr>>>(list: I) -> Vec<OsString> {
    list.into_iter().map(|word| word.as_ref().to_owned()).collect()
}

impl Launch {
    /// `agentsup init -- COMMAND`
    pub fn init<I: IntoIterator<Item: AsRef<OsStr>>>(command: I) -> Launch {
        Launch::new(words(["init"]), words(command), PathBuf::new())
    }

    /// `agentsup run` with a state directory in the lab, behind a pty, without a terminal.
    pub fn run<I: IntoIterator<Item: AsRef<OsStr>>>(lab: &Lab, command: I) -> Launch {
        Launch::session(lab, SESSION, command)
    }

    pub fn session<I: IntoIterator<Item: AsRef<OsStr>>>(lab: &Lab, session: &str, command: I) -> Launch {
        let state_dir = lab.state_dir();
        let mut verb = words(["run", "--session", session, "--dir"]);
        verb.push(state_dir.clone().into_os_string());
        Launch::new(verb, words(command), state_dir)
    }

    /// `agentsup tree FILE`, its node the lab's session.
    pub fn tree(lab: &Lab, file: &str) -> Launch {
        Launch::team(lab, SESSION, file)
    }

    pub fn team(lab: &Lab, session: &str, file: &str) -> Launch {
        let state_dir = lab.state_dir();
        let mut verb = words(["tree", "--session", session, "--dir"]);
        verb.push(state_dir.clone().into_os_string());
        Launch::new(verb, words([file]), state_dir)
    }

    fn new(verb: Vec<OsString>, command: Vec<OsString>, state_dir: PathBuf) -> Launch {
        Launch {
            place: Place::Plain,
            verb,
            command,
            stdin: Stdio::null(),
            stdout: Out::Read,
            env: vec![],
            cwd: None,
            dispositions: None,
            wrapper: vec![],
            state_dir,
        }
    }

    pub fn with<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, options: I) -> Launch {
        self.verb.extend(words(options));
        self
    }

    /// Another state directory than the lab's own.
    pub fn with_state_in(mut self, dir: &str) -> Launch {
        let at = self.verb.iter().position(|word| word == "--dir").expect("only for `run`");
        self.verb[at + 1] = dir.into();
        self.state_dir = dir.into();
        self
    }

    pub fn at(mut self, place: Place) -> Launch {
        self.place = place;
        self
    }

    pub fn stdin(mut self, stdin: Stdio) -> Launch {
        self.stdin = stdin;
        self
    }

    pub fn stdout_unread(mut self) -> Launch {
        self.stdout = Out::Unread;
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub fn in_dir(mut self, dir: impl Into<PathBuf>) -> Launch {
        self.cwd = Some(dir.into());
        self
    }

    pub fn called_with(mut self, sets: Dispositions) -> Launch {
        self.dispositions = Some(sets);
        self
    }

    /// Words in front of everything; the last one must hand on to what follows.
    pub fn wrapped_in(mut self, wrapper: Vec<OsString>) -> Launch {
        self.wrapper = wrapper;
        self
    }

    /// The whole command line, for a shell or a terminal.
    pub fn line(&self) -> Vec<OsString> {
        let mut line = self.wrapper.clone();
        line.extend(self.place.prefix());
        line.push(AGENTSUP.into());
        line.extend(self.verb.iter().cloned());
        line.push("--".into());
        line.extend(self.command.iter().cloned());
        line
    }

    /// Without stdio, which `start` or a terminal adds.
    pub fn to_command(&self) -> Command {
        let line = self.line();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        // What the caller's own session would add must not decide a test.
        for name in ["AGENTSUP_SESSION", "AGENTSUP_DIR", "AGENTSUP_CONFIG", "AGENT_DOC_SESSION", "TMUX_PANE"]
        {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        if let Some(sets) = self.dispositions {
            sys::start_with(&mut command, sets);
        }
        command
    }

    pub fn start(self) -> Running {
        let mut command = self.to_command();
        sys::own_session(&mut command);
        command.stdin(self.stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pipe = child.stdout.take().expect("piped");
        let (stdout, unread) = match self.stdout {
            Out::Read => (Stream::of(pipe), None),
            Out::Unread => (Stream::default(), Some(pipe)),
        };
        let stderr = Stream::of(child.stderr.take().expect("piped"));
        let pidfd = Pidfd::open(child.id() as i32).expect("pidfd of our own child");
        let log = Log::of(&self.state_dir);
        let line = format!("{command:?}");
        Running { child, pidfd, place: self.place, stdout, unread, stderr, log, line, status: None }
    }

    /// Starts it and waits for its end.
    pub fn end(self) -> Ended {
        self.start().end()
    }
}

pub struct Running {
    pub child: Child,
    pidfd: Pidfd,
    place: Place,
    pub stdout: Stream,
    pub unread: Option<std::process::ChildStdout>,
    pub stderr: Stream,
    pub log: Log,
    line: String,
    status: Option<ExitStatus>,
}

#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub log: String,
    pub line: String,
}

impl Ended {
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Ended {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ended { status, stdout, stderr, log, line } = self;
        let stdout = String::from_utf8_lossy(&stdout[..stdout.len().min(4000)]);
        write!(f, "{line}\n{status}\nstdout:\n{stdout}\nstderr:\n{stderr}\nlog:\n{log}")
    }
}

impl Running {
    /// The pid, seen from here, of the agentsup that supervises the agent.
    pub fn pid(&self) -> i32 {
        let mut pid = self.child.id() as i32;
        let is_agentsup = |pid: i32| procfs::exe(pid).is_some_and(|exe| exe == super::Path::new(AGENTSUP));
        let only_child = |of: i32, line: &str| {
            let mut found = None;
            let seen = super::holds_within(LIMIT, || {
                found = procfs::children(of).into_iter().find(|child| is_agentsup(*child));
                found.is_some()
            });
            assert!(seen, "no agentsup below {of}: {line}");
            found.expect("just seen")
        };
        let layers = match self.place {
            Place::Plain | Place::PlainWithoutProc => 0,
            Place::Pid1 | Place::Nested | Place::Pid1WithoutProc => 1,
            Place::NestedInPid1 => 2,
        };
        for _ in 0..layers {
            pid = only_child(pid, &self.line);
        }
        // A plain process may still be a wrapper that is about to exec.
        super::eventually("agentsup is executed", || is_agentsup(pid) || !procfs::alive(pid));
        pid
    }

    pub fn signal(&self, signal: i32) {
        sys::kill(self.pid(), signal);
    }

    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        if self.stdout.position_after(0, text, LIMIT).is_none() {
            panic!("no {text:?} on stdout\n{}", self.so_far());
        }
    }

    #[track_caller]
    pub fn wait_for_stderr(&self, text: &str) {
        if self.stderr.position_after(0, text, LIMIT).is_none() {
            panic!("no {text:?} on stderr\n{}", self.so_far());
        }
    }

    pub fn wait_for(&self, event: &str) -> String {
        self.log.wait_for(event)
    }

    pub fn so_far(&self) -> String {
        let (stdout, stderr, log) = (self.stdout.text(), self.stderr.text(), self.log.text());
        format!("{}\nstdout:\n{stdout}\nstderr:\n{stderr}\nlog:\n{log}", self.line)
    }

    pub fn is_running(&self) -> bool {
        !self.pidfd.ended_within(Duration::ZERO)
    }

    #[track_caller]
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    #[track_caller]
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        if !self.pidfd.ended_within(limit) {
            panic!("still running after {:?}\n{}", began.elapsed(), self.so_far());
        }
        let status = self.child.wait().expect("our child");
        self.status = Some(status);
        // Somebody who outlived it may hold the pipes: what is there is enough then.
        self.stdout.ended_within(Duration::from_millis(500));
        self.stderr.ended_within(Duration::from_millis(500));
        Ended {
            status,
            stdout: self.stdout.bytes(),
            stderr: self.stderr.text(),
            log: self.log.text(),
            line: self.line.clone(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_some() {
            return;
        }
        // A failed test: what it started ends with it, by pid, children first known.
        let root = self.child.id() as i32;
        let below = procfs::descendants(root);
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in below {
            sys::kill(process.pid, libc::SIGKILL);
        }
    }
}

pub fn ended_by(ended: &Ended) -> Option<i32> {
    ended.status.signal()
}
