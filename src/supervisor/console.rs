//! The operator's side: the terminal on stdin, the agent's output on stdout, our own lines on
//! stderr. Nothing here blocks: what cannot be written now waits in a buffer.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::termios::Termios;

use super::buffer::{Buffer, FULL};
use super::settings::Size;
use crate::log::line::visible;
use crate::os::sink::{self, Sink, Wrote};
use crate::os::{front, rescue, tty};

pub struct Console {
    stdin: Stdin,
    stdout: Channel,
    stderr: Channel,
    stdout_is_terminal: bool,
    /// The agent's last output ended a line, as far as can be told.
    at_line_start: bool,
    /// Lines of our own that found no room.
    lost_lines: u64,
    /// Those since the last agent began, for whoever is attached.
    told: Vec<String>,
    /// How many there ever were.
    told_in_all: u64,
    /// Who says so, before each line of our own.
    tag: String,
}

/// What agents switch on most, for a panic that has no time to ask.
const PANIC: &str =
    "\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[0m\r\n";
/// Of them so many are kept.
const TOLD: usize = 50;

enum Stdin {
    /// The operator's terminal, with the line settings it had before us.
    Terminal { original: Termios, raw: bool },
    /// A pipe or a file: its bytes are typed, its end is not.
    Stream,
    /// At its end, or not ours to read.
    Closed,
}

struct Channel {
    fd: BorrowedFd<'static>,
    /// From the first write on: `init` needs none.
    sink: OnceCell<Sink<'static>>,
    buffer: Buffer,
    /// It has taken all that it can, and poll will tell when it takes more.
    is_full: bool,
    broken: bool,
    /// Bytes that found nobody to take them.
    lost: u64,
}

impl Channel {
    fn on(fd: BorrowedFd<'static>) -> Channel {
        let buffer = Buffer::default();
        Channel { fd, sink: OnceCell::new(), buffer, is_full: false, broken: false, lost: 0 }
    }

    fn sink(&self) -> &Sink<'static> {
        self.sink.get_or_init(|| Sink::on(self.fd))
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.broken {
            self.lost += bytes.len() as u64;
        } else {
            self.buffer.push(bytes);
        }
    }

    /// Poll says that it takes more.
    fn takes_more(&mut self) {
        self.is_full = false;
    }

    fn flush(&mut self) {
        while !self.is_full && !self.buffer.is_empty() {
            match self.sink().write(self.buffer.pending()) {
                Wrote::Bytes(n) => self.buffer.consume(n),
                Wrote::Full => self.is_full = true,
                Wrote::Broken => {
                    self.broken = true;
                    self.lost += self.buffer.len() as u64;
                    self.buffer.clear();
                }
            }
        }
    }
}

/// Who reads stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Agentsup, for the agent's pty and for keys.
    Us,
    /// The agent itself; a terminal is looked at only while no agent runs.
    Agent,
}

/// What came from stdin.
pub enum Typed {
    Bytes(Vec<u8>),
    /// The end of a stream.
    End,
    /// The terminal is gone.
    HungUp,
}

impl Console {
    pub fn open(reads: Reads) -> Console {
        let stdin = match tty::modes(tty::stdin()) {
            Ok(original) => Stdin::Terminal { original, raw: false },
            Err(_) if reads == Reads::Us => Stdin::Stream,
            Err(_) => Stdin::Closed,
        };
        Console {
            stdin,
            stdout: Channel::on(sink::stdout()),
            stderr: Channel::on(sink::stderr()),
            stdout_is_terminal: tty::stdout_is_terminal(),
            at_line_start: true,
            lost_lines: 0,
            told: Vec::new(),
            told_in_all: 0,
            tag: "supervisor".to_owned(),
        }
    }

    /// At once, so that a growing number of descriptors means that somebody loses them.
    pub fn open_outputs(&self) {
        self.stdout.sink();
        self.stderr.sink();
    }

    /// Beside others of its kind, on the same stderr.
    pub fn sign_with(&mut self, session: &str) {
        self.tag = format!("supervisor {session}");
    }

    /// What is written to stderr lands in the middle of what an agent draws.
    pub fn shows_agent(&self) -> bool {
        self.has_terminal() && self.stdout_is_terminal && tty::stderr_is_terminal()
    }

    pub fn has_terminal(&self) -> bool {
        matches!(self.stdin, Stdin::Terminal { .. })
    }

    /// The line settings that the agent's pty should have.
    pub fn original_modes(&self) -> Option<&Termios> {
        match &self.stdin {
            Stdin::Terminal { original, .. } => Some(original),
            Stdin::Stream | Stdin::Closed => None,
        }
    }

    pub fn has_sized_terminal(&self) -> bool {
        self.has_terminal() && tty::size(tty::stdin()).is_some()
    }

    /// The terminal's size, or `fallback` where there is none or it does not know.
    pub fn size(&self, fallback: Size) -> Size {
        if self.has_terminal() { size(fallback) } else { fallback }
    }

    /// Columns and rows of a terminal that shows what we write; `None` where there is none, or it does
    /// not know.
    pub fn shown_size(&self) -> Option<(u16, u16)> {
        let shows = self.has_terminal() && self.stdout_is_terminal;
        shows.then(|| tty::size(tty::stdin())).flatten()
    }

    /// Every key goes to us as it is typed.
    pub fn take_keys(&mut self) {
        if let Stdin::Terminal { original, raw } = &mut self.stdin {
            rescue::remember(original, PANIC);
            *raw = tty::set_modes(tty::stdin(), &tty::raw(original)).is_ok();
        }
    }

    /// The terminal as it was before us: line settings, and the modes that the agent left on, which
    /// `off` switches off.
    pub fn give_back(&mut self, off: &[u8]) {
        if let Stdin::Terminal { original, raw } = &mut self.stdin
            && *raw
        {
            if self.stdout_is_terminal {
                self.stdout.push(off);
            }
            self.stdout.flush();
            *raw = tty::set_modes(tty::stdin(), original).is_err();
        }
    }

    /// After a Ctrl-Z: what `give_back` took away.
    pub fn take_again(&mut self, on: &[u8]) {
        self.take_keys();
        if self.stdout_is_terminal {
            self.stdout.push(on);
        }
        self.stdout.flush();
    }

    /// The agent has ended: the modes it left on must not garble what comes next, and after a
    /// failure neither must the rest of a screen that it could not clear any more.
    pub fn tidy_screen(&mut self, off: &[u8], failed: bool) {
        if self.has_terminal() && self.stdout_is_terminal {
            self.stdout.push(off);
            if failed {
                self.stdout.push(b"\x1b[J");
            }
        }
    }

    /// An agent on our own stdio has failed: it may have left the line settings in any state.
    pub fn restore_line_settings(&mut self) {
        if let Stdin::Terminal { original, raw: false } = &self.stdin {
            let _ = tty::set_modes(tty::stdin(), original);
        }
    }

    pub fn terminal_is_gone(&self) -> bool {
        self.has_terminal() && tty::is_gone(tty::stdin())
    }

    /// The agent's: on its way before anybody looks at it.
    pub fn output(&mut self, bytes: &[u8]) {
        self.at_line_start = bytes.last().is_none_or(|&b| b == b'\n');
        self.paint(bytes);
    }

    /// Not the agent's output, but what it looks like.
    pub fn paint(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        self.stdout.flush();
    }

    /// What stdout has not taken yet.
    pub fn unread(&self) -> usize {
        self.stdout.buffer.len()
    }

    pub fn has_room(&self) -> bool {
        self.stdout.buffer.has_room()
    }

    /// One line of our own on stderr. A reader that does not read loses lines, not the supervisor.
    pub fn tell(&mut self, line: &str) {
        // The names of commands and files are in it, and those may hold anything.
        let line = &visible(line);
        if self.told.len() == TOLD {
            self.told.remove(0);
        }
        let tag = self.tag.clone();
        self.told.push(format!("[{tag}] {line}"));
        self.told_in_all += 1;
        if self.stderr.buffer.len() + line.len() > FULL {
            self.lost_lines += 1;
            return;
        }
        let raw = matches!(self.stdin, Stdin::Terminal { raw: true, .. });
        let text = match (raw, std::mem::replace(&mut self.at_line_start, true)) {
            (true, true) => format!("\r[{tag}] {line}\r\n"),
            (true, false) => format!("\r\n[{tag}] {line}\r\n"),
            (false, _) => format!("[{tag}] {line}\n"),
        };
        // What the agent wrote before comes first, where both lead to the same place.
        self.stdout.flush();
        self.stderr.push(text.as_bytes());
        self.flush_stderr();
    }

    /// What was told since the last agent began.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    pub fn told_in_all(&self) -> u64 {
        self.told_in_all
    }

    pub fn forget_told(&mut self) {
        self.told.clear();
    }

    pub fn flush(&mut self) {
        self.stdout.flush();
        self.flush_stderr();
    }

    pub fn stdout_takes_more(&mut self) {
        self.stdout.takes_more();
        self.flush();
    }

    pub fn stderr_takes_more(&mut self) {
        self.stderr.takes_more();
        self.flush();
    }

    /// While an agent on our own stdio is in front, we speak from the background.
    fn flush_stderr(&mut self) {
        if self.stderr.buffer.is_empty() {
            return;
        }
        let spoken = tty::from_the_background(|| {
            self.stderr.flush();
            Ok(())
        });
        debug_assert!(spoken.is_ok(), "blocking TTOU cannot fail");
    }

    pub fn wants_stdout(&self) -> Option<BorrowedFd<'_>> {
        (!self.stdout.buffer.is_empty()).then(|| self.stdout.sink().as_fd())
    }

    pub fn wants_stderr(&self) -> Option<BorrowedFd<'_>> {
        (!self.stderr.buffer.is_empty()).then(|| self.stderr.sink().as_fd())
    }

    pub fn is_flushed(&self) -> bool {
        self.output_is_flushed() && self.stderr.buffer.is_empty()
    }

    pub fn output_is_flushed(&self) -> bool {
        self.stdout.buffer.is_empty()
    }

    /// Bytes and lines that nobody took.
    pub fn unwritten(&self) -> (u64, u64) {
        (self.stdout.lost + self.stdout.buffer.len() as u64, self.lost_lines)
    }

    pub fn reads_stdin(&self) -> bool {
        !matches!(self.stdin, Stdin::Closed)
    }

    /// Call when stdin is readable.
    pub fn read(&mut self) -> Typed {
        let mut buffer = [0u8; 4096];
        match tty::read_stdin(&mut buffer) {
            Ok(n @ 1..) => Typed::Bytes(buffer[..n].to_vec()),
            Err(Errno::EAGAIN | Errno::EINTR) => Typed::Bytes(Vec::new()),
            // Moved to the background between the look and the read, as the next look will see.
            Err(Errno::EIO) if !front::is_in_front() => Typed::Bytes(Vec::new()),
            Ok(_) | Err(_) => {
                let hung_up = self.terminal_is_gone();
                self.stdin = Stdin::Closed;
                if hung_up { Typed::HungUp } else { Typed::End }
            }
        }
    }
}

/// Of the terminal on stdin, or `fallback` where there is none or it does not know.
pub fn size(fallback: Size) -> Size {
    tty::size(tty::stdin()).map_or(fallback, |(cols, rows)| Size { cols, rows })
}
