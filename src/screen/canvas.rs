//! What one terminal elsewhere has been told to show, so that the next frame says only what is new.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::emulator::paint::{self, BASE, BEGIN, END, Lacks};
use super::{Queries, Screen, width};

/// A terminal that somebody watches the agent's through.
pub struct Canvas {
    lacks: Lacks,
    /// Frames have been drawn and nothing else since.
    drawn: bool,
    /// Each row as it was drawn last.
    rows: Vec<u64>,
    /// Title and modes, as they were told last.
    told: String,
}

/// Sequences that put a terminal back from whatever it was told to show.
pub fn off() -> String {
    format!("{END}{BASE}")
}

impl Canvas {
    /// A terminal that shows something of its own.
    pub fn new() -> Canvas {
        Canvas {
            lacks: Lacks { room: true, titles: true },
            drawn: false,
            rows: Vec::new(),
            told: String::new(),
        }
    }

    /// A terminal that the agent has been shown on all along.
    pub fn at_hand() -> Canvas {
        Canvas { lacks: Lacks { room: false, titles: false }, ..Canvas::new() }
    }

    /// Another agent: what its predecessor left is not painted over.
    pub fn begin(&mut self) {
        self.lacks.room = true;
        self.drawn = false;
    }

    /// All there is, for a terminal of the same size: from here on it may be told the agent's output.
    pub fn whole(&mut self, screen: &Screen) -> Vec<u8> {
        let Some(emulator) = &screen.follower.emulator else { return Vec::new() };
        let painted = emulator.paint(&screen.follower.modes, self.lacks);
        self.lacks = Lacks { room: false, titles: false };
        self.drawn = false;
        painted.into_bytes()
    }

    /// As much as fits into so many columns and rows, with `note` over the last row.
    pub fn frame(&mut self, screen: &Screen, (cols, rows): (usize, usize), note: Option<&str>) -> Vec<u8> {
        let Some(emulator) = &screen.follower.emulator else { return Vec::new() };
        let mut view = emulator.view(cols, rows);
        if let (Some(last), Some(note)) = (view.rows.last_mut(), note) {
            *last = format!("\x1b[K\x1b[0;7m{}\x1b[0m", fitting(note, cols));
        }
        let mut told = screen.follower.modes.painted();
        if !emulator.title().is_empty() {
            told = format!("\x1b]2;{}\x1b\\{told}", emulator.title());
        }
        let mut out = BEGIN.to_owned();
        if !self.drawn || told != self.told {
            out.push_str(BASE);
            out.push_str(&told);
            self.told = told;
        }
        if !self.drawn {
            self.rows.clear();
        }
        if std::mem::take(&mut self.lacks.room) {
            paint::scroll_off(rows, &mut out);
        }
        self.drawn = true;
        self.rows.resize(rows, 0);
        for (n, (row, known)) in view.rows.iter().zip(&mut self.rows).enumerate() {
            let drawn = fingerprint(row);
            if std::mem::replace(known, drawn) != drawn {
                out.push_str(&format!("\x1b[{};1H{row}", n + 1));
            }
        }
        out.push_str(&view.cursor);
        out.push_str(END);
        out.into_bytes()
    }

    /// The terminal has another size, and nobody knows what became of what it showed.
    pub fn resized(&mut self) {
        self.drawn = false;
    }
}

impl Default for Canvas {
    fn default() -> Self {
        Canvas::new()
    }
}

impl Screen {
    /// What a terminal would show that has seen the agent end: its last screen, the modes switched off
    /// again by `off`, and `lines` below.
    pub fn after_the_agent(&self, (cols, rows): (u16, u16), off: &[u8], lines: &[String]) -> Screen {
        let mut after = Screen::new(Queries::Terminal, Some(0));
        after.begin(cols, rows);
        if self.size() == after.size() {
            after.feed(&Canvas::new().whole(self));
        }
        after.feed(off);
        for line in lines {
            let is_at_start = after.follower.emulator.as_ref().is_none_or(|e| e.cursor().col == 0);
            after.feed(if is_at_start { b"" } else { b"\r\n" });
            after.feed(line.as_bytes());
            after.feed(b"\r\n");
        }
        after
    }
}

/// Never 0, which stands for a row that was not drawn.
fn fingerprint(row: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish() | 1
}

fn fitting(text: &str, cols: usize) -> String {
    let mut room = cols;
    let fits = |c: &char| match room.checked_sub(width(*c)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    text.chars().take_while(fits).collect()
}
