//! What the agent's output means for a terminal. Called by `supervisor` with every byte that goes
//! by; hands back lines, escape sequences and answers to queries. Never touches a descriptor.
//!
//! ```text
//! bytes → parser → emulator (grid → row → cell; what leaves the grid → line)
//!                → modes    (what to switch off when the agent is gone)
//!                → answers  (where no terminal answers)
//!       → recording (whole characters → veil, which hides secrets → lines of asciicast)
//!        emulator → canvas   (what a terminal elsewhere is to show)
//! bytes → quiet              (the same without what makes terminals answer)
//! ```
#![forbid(unsafe_code)]

mod answers;
pub mod asciicast;
pub mod canvas;
pub mod chord;
mod emulator;
mod face;
mod grid;
pub mod input;
pub mod line;
pub mod marker;
mod modes;
mod parser;
mod prompt;
mod queries;
pub mod quiet;
pub mod recording;
mod row;
mod style;
mod veil;

use std::ops::Range;

use emulator::Emulator;
use line::Line;
use modes::Modes;
use parser::{Csi, End, Listener, Parser};
pub use prompt::Sight;
use unicode_width::UnicodeWidthChar;

/// Columns of a character; controls have none.
#[inline]
fn width(c: char) -> usize {
    match u32::from(c) {
        // What programs write most, so that Unicode's tables are seldom asked: Latin, frames, what stands
        // for a broken character; then Chinese characters and Hangul.
        0x20..=0x7e | 0xae..=0x2ff | 0x2500..=0x257f | 0xfffd => 1,
        0x4e00..=0x9fff | 0xac00..=0xd7a3 => 2,
        _ => c.width().unwrap_or(0),
    }
}

/// Lines above those asked for that are looked at too: a secret may begin there.
const CONTEXT: usize = 64;

/// Who answers when the agent asks its terminal something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queries {
    /// The terminal on stdin, which sees all that the agent writes.
    Terminal,
    /// Nobody else is there.
    Us,
}

/// The agent's terminal, as far as its output tells.
pub struct Screen {
    parser: Parser,
    follower: Follower,
    /// How many lines are kept; `None`: switched off, only modes are followed.
    scrollback: Option<usize>,
}

struct Follower {
    modes: Modes,
    /// From the first agent on, unless switched off.
    emulator: Option<Emulator>,
    queries: Queries,
    answers: Vec<u8>,
}

/// What is seen at one moment.
pub struct Capture {
    pub lines: Vec<Line>,
    pub row: usize,
    pub col: usize,
    pub cursor_is_visible: bool,
    pub rows: usize,
    pub cols: usize,
    pub title: String,
}

impl Screen {
    /// `scrollback` is how many lines are kept; `None` switches all but the modes off.
    pub fn new(queries: Queries, scrollback: Option<usize>) -> Screen {
        let follower = Follower { modes: Modes::default(), emulator: None, queries, answers: Vec::new() };
        Screen { parser: Parser::default(), follower, scrollback }
    }

    pub fn is_on(&self) -> bool {
        self.scrollback.is_some()
    }

    /// A new agent, on a new terminal.
    pub fn begin(&mut self, cols: u16, rows: u16) {
        self.forget_modes();
        self.follower.emulator = self.scrollback.map(|scrollback| Emulator::new(cols, rows, scrollback));
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.feed(bytes, &mut self.follower);
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        if let Some(emulator) = &mut self.follower.emulator {
            emulator.resize(cols, rows);
        }
    }

    /// Columns and rows; `None` before the first agent.
    pub fn size(&self) -> Option<(usize, usize)> {
        self.follower.emulator.as_ref().map(|emulator| (emulator.cols(), emulator.rows()))
    }

    /// The agent's output so far ends with a whole character or sequence.
    pub fn is_between(&self) -> bool {
        self.parser.is_between()
    }

    /// From now on, for what is asked from now on.
    pub fn answered_by(&mut self, queries: Queries) {
        self.follower.queries = queries;
    }

    /// What the agent is waiting to read, once.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.follower.answers)
    }

    /// Whether an agent with a line of input has this text in it; `None` when nobody can tell.
    pub fn line_shows(&self, text: &str) -> Option<bool> {
        let lines = self.follower.emulator.as_ref()?.lines(0);
        prompt::shows(lines.iter().map(Line::text), text)
    }

    /// Whether this piece of a line is on the screen now, wherever it is wrapped.
    pub fn shows(&self, text: &str) -> bool {
        let Some(emulator) = &self.follower.emulator else { return false };
        let mut shown = String::new();
        for line in emulator.lines(0) {
            shown.push_str(line.text());
            if !line.wrapped {
                shown.push('\n');
            }
        }
        shown.contains(text)
    }

    /// Another number means that it shows something new, spinners and clocks left out. `None` where the
    /// output is not followed.
    pub fn face(&self) -> Option<u64> {
        let lines = self.follower.emulator.as_ref()?.lines(0);
        Some(face::of(lines.iter().map(Line::text)))
    }

    /// What stands before the cursor, line by line. `None` where the output is not followed.
    pub fn before_cursor(&self) -> Option<String> {
        let emulator = self.follower.emulator.as_ref()?;
        let cursor = emulator.cursor();
        let lines = emulator.lines(0);
        let above = lines.iter().take(cursor.row).map(|line| line.text().to_owned());
        let at = lines.get(cursor.row).map(|line| line.text().chars().take(cursor.col).collect());
        Some(above.chain(at).collect::<Vec<String>>().join("\n"))
    }

    /// What claude's screen is about. `None` where the output is not followed.
    pub fn sight(&self) -> Option<Sight> {
        let lines = self.follower.emulator.as_ref()?.lines(0);
        Some(prompt::sight(lines.iter().map(Line::text)))
    }

    /// What claude's screen says of a rate limit that it waits for by itself.
    pub fn limit(&self) -> Option<String> {
        let lines = self.follower.emulator.as_ref()?.lines(0);
        prompt::limit(lines.iter().map(Line::text))
    }

    /// Whether this text stands in the line of input, up to the cursor: what an agent only suggests begins there.
    pub fn holds_draft(&self, text: &str) -> bool {
        self.before_cursor().is_some_and(|before| prompt::shows(before.lines(), text) == Some(true))
    }

    /// The agent wants to be told what of its input was pasted.
    pub fn wants_bracketed_paste(&self) -> bool {
        self.follower.modes.is_set(2004) == Some(true)
    }

    /// It has said that it does, or that it does not.
    pub fn knows_bracketed_paste(&self) -> bool {
        self.follower.modes.was_named(2004)
    }

    /// Sequences that put a terminal back; empty when the agent left it as it was.
    pub fn modes_off(&self) -> Vec<u8> {
        self.follower.modes.off()
    }

    /// Sequences that undo `modes_off`.
    pub fn modes_on(&self) -> Vec<u8> {
        self.follower.modes.on()
    }

    /// What stood on the alternate screen, which `modes_on` shows blank; nothing on the main one.
    pub fn alternate_again(&self) -> Vec<u8> {
        let emulator = self.follower.emulator.as_ref();
        emulator.and_then(Emulator::paint_again).unwrap_or_default().into_bytes()
    }

    /// The agent is gone, and what it had switched on is off.
    pub fn forget_modes(&mut self) {
        self.parser = Parser::default();
        self.follower.modes = Modes::default();
        self.follower.answers.clear();
    }

    /// The screen as it is or, with `last`, its last lines that hold something together with what
    /// scrolled off above. `find` names the stretches of a text that must not be shown.
    pub fn capture(&self, last: Option<usize>, find: impl Fn(&[u8]) -> Vec<Range<usize>>) -> Option<Capture> {
        let emulator = self.follower.emulator.as_ref()?;
        let above = last.unwrap_or(0).saturating_add(CONTEXT).min(emulator.scrollback());
        let mut lines = emulator.lines(above);
        line::mask(&mut lines, find);
        let kept = lines.iter().rposition(|line| !line.is_blank()).map_or(0, |at| at + 1);
        lines.truncate(kept);
        let surplus = match last {
            None => above.min(lines.len()),
            Some(last) => lines.len().saturating_sub(last),
        };
        lines.drain(..surplus);
        let cursor = emulator.cursor();
        Some(Capture {
            lines,
            row: cursor.row,
            col: cursor.col,
            cursor_is_visible: emulator.cursor_is_visible(),
            rows: emulator.rows(),
            cols: emulator.cols(),
            title: emulator.title().to_owned(),
        })
    }
}

impl Follower {
    fn answer(&mut self, answer: impl FnOnce(&Emulator, &Modes) -> Option<String>) {
        if self.queries == Queries::Us
            && let Some(emulator) = &self.emulator
            && let Some(answer) = answer(emulator, &self.modes)
        {
            self.answers.extend_from_slice(answer.as_bytes());
        }
    }
}

impl Listener for Follower {
    fn plain(&mut self, text: &[u8]) {
        if let Some(emulator) = &mut self.emulator {
            emulator.plain(text);
        }
    }

    fn other(&mut self, c: char) {
        if let Some(emulator) = &mut self.emulator {
            emulator.print(c);
        }
    }

    fn others(&mut self, run: &[char]) {
        if let Some(emulator) = &mut self.emulator {
            emulator.others(run);
        }
    }

    fn wants_text(&self) -> bool {
        self.emulator.is_some()
    }

    fn control(&mut self, control: u8) {
        if let Some(emulator) = &mut self.emulator {
            emulator.control(control);
        }
    }

    fn escape(&mut self, between: Option<u8>, last: u8) {
        self.modes.escape(between, last);
        if let Some(emulator) = &mut self.emulator {
            emulator.escape(between, last);
        }
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
    fn csi(&mut self, csi: &Csi) {
        // Most only draw: of those without a mark these alone are modes or ask something.
        let draws = (csi.marker, csi.between) == (0, 0) && !matches!(csi.last, b'c' | b'n' | b'r' | b't');
        if !draws {
            self.modes.csi(csi);
        }
        if let Some(emulator) = &mut self.emulator {
            emulator.csi(csi);
        }
        if !draws {
            self.answer(|emulator, modes| answers::to_csi(csi, emulator, modes));
        }
    }

    fn osc(&mut self, command: &[u8], end: End) {
        if let Some(emulator) = &mut self.emulator {
            emulator.osc(command);
        }
        self.answer(|_, _| answers::to_osc(command, end));
    }

    fn dcs(&mut self, data: &[u8]) {
        self.answer(|_, _| answers::to_dcs(data));
    }
}

impl Capture {
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.text().trim_end()).collect();
        lines.join("\n")
    }

    /// With colours; each line begins and ends without any.
    pub fn ansi(&self) -> String {
        let mut out = String::new();
        for (n, line) in self.lines.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            line.write_ansi(&mut out);
        }
        out
    }

    /// Lines that the terminal wrapped made whole again, blank ones left out.
    pub fn whole_lines(&self) -> Vec<String> {
        let mut whole = vec![String::new()];
        for line in &self.lines {
            if let Some(last) = whole.last_mut() {
                last.push_str(line.text());
            }
            if !line.wrapped {
                whole.push(String::new());
            }
        }
        whole.iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
