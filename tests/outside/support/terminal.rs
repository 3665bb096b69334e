//! A terminal of the test's own: what an operator would see and type.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::termios::{self, Termios};

use super::stream::Stream;
use super::{LIMIT, procfs, sys};

pub struct Terminal {
    /// None after a hang-up.
    master: Option<Master>,
    /// Kept open, so that the terminal outlives what runs on it and can be looked at afterwards.
    slave: OwnedFd,
    pub screen: Stream,
    /// How far the screen has been read.
    at: usize,
    child: Option<Child>,
}

/// Everything that keeps the operator's side open.
struct Master {
    fd: OwnedFd,
    keys: File,
    _reader: OwnedFd,
}

impl Terminal {
    pub fn new(cols: u16, rows: u16) -> Terminal {
        let size = nix::pty::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = nix::pty::openpty(Some(&size), None).expect("a pty");
        let copy = || pair.master.try_clone().expect("dup");
        for fd in [&pair.master, &pair.slave] {
            let flag = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
            nix::fcntl::fcntl(fd, flag).expect("close on exec");
        }
        let keys = File::from(copy());
        let (screen, reader) = Stream::until_dropped(copy());
        let master = Some(Master { fd: pair.master, keys, _reader: reader });
        Terminal { master, slave: pair.slave, screen, at: 0, child: None }
    }

    fn master(&mut self) -> &mut Master {
        self.master.as_mut().expect("no hang-up yet")
    }

    /// The operator closes the window.
    pub fn hang_up(&mut self) {
        self.master = None;
    }

    /// Runs it as the leader of a session on this terminal.
    pub fn start(&mut self, mut command: Command) -> i32 {
        let end = || self.slave.try_clone().expect("dup");
        command.stdin(end()).stdout(end()).stderr(end());
        sys::on_terminal(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = child.id() as i32;
        self.child = Some(child);
        pid
    }

    /// An interactive shell with job control and a prompt of its own.
    pub fn shell(&mut self) -> i32 {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "--noediting", "-i"]);
        bash.env("PS1", "PROMPT> ").env("TERM", "xterm-256color").env_remove("PROMPT_COMMAND");
        let pid = self.start(bash);
        self.expect("PROMPT> ");
        pid
    }

    pub fn type_in(&mut self, keys: impl AsRef<[u8]>) {
        self.master().keys.write_all(keys.as_ref()).expect("the terminal takes keys");
    }

    /// Waits for `text` after everything that was expected before.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        match self.screen.position_after(self.at, text, LIMIT) {
            Some(position) => self.at = position,
            None => panic!("no {text:?} on the screen:\n{}", self.screen.text().escape_debug()),
        }
    }

    /// What was shown since the start, up to the last expected text.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.bytes()[..self.at]).into_owned()
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        sys::set_size(&self.master().fd, cols, rows);
    }

    pub fn modes(&self) -> Termios {
        termios::tcgetattr(&self.slave).expect("a terminal")
    }

    pub fn is_raw(&self) -> bool {
        !self.modes().local_flags.contains(termios::LocalFlags::ICANON)
    }

    pub fn child_pid(&self) -> i32 {
        self.child.as_ref().expect("started").id() as i32
    }

    #[track_caller]
    pub fn end(&mut self) -> std::process::ExitStatus {
        let pid = self.child_pid();
        let ended = sys::Pidfd::open(pid).is_none_or(|handle| handle.ended_within(LIMIT));
        assert!(ended, "{pid} is still running; the screen:\n{}", self.screen.text().escape_debug());
        let status = self.child.take().expect("started").wait().expect("our child");
        // Everything written before the end is on its way to our reader: let it arrive.
        self.drain();
        status
    }

    /// A mark of our own goes through the terminal's output, behind whatever was written before.
    pub fn drain(&mut self) {
        if self.master.is_none() {
            return;
        }
        let mark = "\u{1}drained\u{2}";
        let mut slave = File::from(self.slave.try_clone().expect("dup"));
        slave.write_all(mark.as_bytes()).expect("the terminal takes output");
        let before = self.at;
        let _ = self.screen.position_after(before, mark, Duration::from_secs(2));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let below = procfs::descendants(child.id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        for process in below {
            sys::kill(process.pid, libc::SIGKILL);
        }
    }
}
