//! This end's terminal: raw while it shows the agent's, and always given back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::sys::termios::Termios;

use crate::os::poll::{Sources, Want};
use crate::os::sink::{self, Sink, Wrote};
use crate::os::{rescue, tty};
use crate::screen::{Queries, Screen, canvas};

/// Above this nothing more is read for it, so that a slow line is felt where it can be helped.
const FULL: usize = 32 * 1024;
/// How long a terminal that takes nothing may hold up the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The window's title, kept by the terminal and put back.
const KEEP_TITLE: &str = "\x1b[22;2t";
const PUT_TITLE_BACK: &str = "\x1b[23;2t";
/// Below all that may be shown.
const BELOW_ALL: &str = "\x1b[9999;1H\r\n";

pub struct Terminal {
    original: Termios,
    sink: Sink<'static>,
    out: VecDeque<u8>,
    /// What it shows, so that the last line can be put below that.
    screen: Screen,
    is_painted: bool,
}

impl Terminal {
    pub fn take() -> io::Result<Terminal> {
        let original = tty::modes(tty::stdin())?;
        let mut screen = Screen::new(Queries::Terminal, Some(0));
        let (cols, rows) = tty::size(tty::stdin()).unwrap_or((80, 24));
        screen.begin(cols, rows);
        let out = VecDeque::from(KEEP_TITLE.as_bytes().to_vec());
        let sink = Sink::on(sink::stdout());
        let mut terminal = Terminal { original, sink, out, screen, is_painted: false };
        rescue::remember(&terminal.original, &format!("{}{PUT_TITLE_BACK}{BELOW_ALL}", canvas::off()));
        tty::set_modes(tty::stdin(), &tty::raw(&terminal.original))?;
        terminal.flush();
        Ok(terminal)
    }

    /// Columns and rows of now; 0 where it does not know.
    pub fn resized(&mut self) -> (u16, u16) {
        let (cols, rows) = tty::size(tty::stdin()).unwrap_or((0, 0));
        if cols > 0 {
            self.screen.resize(cols, rows);
        }
        (cols, rows)
    }

    /// Line settings are what a shell puts back when its job is stopped. The size comes back.
    pub fn take_again(&mut self) -> (u16, u16) {
        let _ = tty::set_modes(tty::stdin(), &tty::raw(&self.original));
        self.resized()
    }

    pub fn show(&mut self, bytes: &[u8]) {
        self.is_painted |= !bytes.is_empty();
        self.out.extend(bytes);
        self.flush();
    }

    /// False when nobody will ever see it.
    pub fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match self.sink.write(front) {
                Wrote::Bytes(n) => {
                    self.screen.feed(&front[..n]);
                    self.out.drain(..n);
                }
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

    /// As it was before, with one line on what happened below all that is shown.
    pub fn give_back(mut self, line: &str) {
        let until = Instant::now() + LAST_WORDS;
        if !self.is_painted {
            // It still shows what it showed before, and the cursor is where it was.
            return self.say(&format!("{PUT_TITLE_BACK}{line}\r\n"), until);
        }
        self.say(&canvas::off(), until);
        let shown = self.screen.capture(None, |_| Vec::new()).map_or((0, 0), |it| (it.lines.len(), it.rows));
        let below = match shown {
            (used, rows) if used < rows => format!("\x1b[{};1H", used + 1),
            (_, _) => BELOW_ALL.to_owned(),
        };
        self.say(&format!("{PUT_TITLE_BACK}{below}{line}\r\n"), until);
    }

    fn say(&mut self, text: &str, until: Instant) {
        self.out.extend(text.as_bytes());
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
