//! This end's terminal: raw while it shows the agent's, and always given back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::sys::termios::Termios;

use crate::os::poll::{Sources, Want};
use crate::os::sink::{self, Sink, Wrote};
use crate::os::{rescue, tty};
use crate::screen::canvas;

/// Above this nothing more is read for it, so that a slow line is felt where it can be helped.
const FULL: usize = 32 * 1024;
/// How long a terminal that takes nothing may hold up the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The window's title, kept by the terminal and put back.
const KEEP_TITLE: &str = "\x1b[22;2t";
/// And the cursor below all that was shown.
const PUT_BACK: &str = "\x1b[23;2t\x1b[9999;1H\r\n";

pub struct Terminal {
    original: Termios,
    sink: Sink,
    out: VecDeque<u8>,
}

impl Terminal {
    pub fn take() -> io::Result<Terminal> {
        let original = tty::modes(tty::stdin())?;
        let mut terminal = Terminal { sink: Sink::on(sink::stdout())?, out: VecDeque::new(), original };
        rescue::remember(&terminal.original, &off());
        tty::set_modes(tty::stdin(), &tty::raw(&terminal.original))?;
        terminal.show(KEEP_TITLE.as_bytes());
        Ok(terminal)
    }

    pub fn show(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
        self.flush();
    }

    /// False when nobody will ever see it.
    pub fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match self.sink.write(front) {
                Wrote::Bytes(n) => drop(self.out.drain(..n)),
                Wrote::Full => return true,
                Wrote::Broken => {
                    self.out.clear();
                    return false;
                }
            }
        }
        true
    }

    pub fn has_room(&self) -> bool {
        self.out.len() < FULL
    }

    pub fn has_unsaid(&self) -> bool {
        !self.out.is_empty()
    }

    pub fn forget_unsaid(&mut self) {
        self.out.clear();
    }

    /// As it was before, with one line on what happened.
    pub fn give_back(mut self, line: &str) {
        self.out.extend(format!("{}{line}\r\n", off()).as_bytes());
        let until = Instant::now() + LAST_WORDS;
        while self.flush() && self.has_unsaid() && Instant::now() < until {
            let mut sources = Sources::new();
            sources.add((), self.sink.as_fd(), Want::Write);
            sources.wait(Some(until));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = tty::set_modes(tty::stdin(), &self.original);
        rescue::forget();
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }
}

fn off() -> String {
    canvas::off() + PUT_BACK
}
