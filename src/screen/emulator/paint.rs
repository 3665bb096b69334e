//! The emulator back into bytes: for a terminal that is to show the same, and to be the same for all
//! that is written to it afterwards; or for one of another size, as much of it as fits.

use std::fmt::Write;
use std::ops::Range;

use super::{Cursor, Emulator, Saved};
use crate::screen::grid::Grid;
use crate::screen::modes::Modes;
use crate::screen::row::{Piece, Row};
use crate::screen::style::Style;

/// From any state to one that all terminals share: nothing half said, the main screen, no mode on, no
/// style. What is seen stays. Twice the keyboard stack: each screen has its own.
pub const BASE: &str = "\x1b\\\x1b[<16u\x1b[?1049l\x1b[<16u\
    \x1b[?1;5;6;9;66;1000;1001;1002;1003l\x1b[?1004;1005;1006;1015;1016;2004;2027;2031;2048;9001l\
    \x1b[?7h\x1b[?25h\x1b[4l\x1b[20l\x1b[>4;0m\x1b>\x1b[r\x1b(B\x1b)B\x0f\x1b[0m\x1b]8;;\x1b\\\x1b[0 q";

/// Shown at once when it is whole, by terminals that know it.
pub const BEGIN: &str = "\x1b[?2026h";
pub const END: &str = "\x1b[?2026l";

/// What is in the way goes up into the terminal's own scrollback.
pub fn scroll_off(rows: usize, out: &mut String) {
    write!(out, "\x1b[{rows};1H{}", "\n".repeat(rows)).expect("a String takes everything");
}

/// What a terminal has not had yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacks {
    /// It shows something of its own, which is not to be painted over.
    pub room: bool,
    /// It has not heard which titles the agent has put aside.
    pub titles: bool,
}

/// Part of a screen, for a terminal of another size.
pub struct View {
    /// As many as the terminal has; each begins and ends without a style, and erases what it does not
    /// fill.
    pub rows: Vec<String>,
    pub cursor: String,
}

impl Emulator {
    /// For a terminal of the same size, in whatever state.
    pub fn paint(&self, modes: &Modes, lacks: Lacks) -> String {
        let mut out = format!("{BEGIN}{BASE}");
        if lacks.room {
            scroll_off(self.rows(), &mut out);
        }
        if lacks.titles {
            // Each goes onto the terminal's own stack, from which the agent may take it again.
            for title in &self.titles {
                write!(out, "\x1b]2;{title}\x1b\\\x1b[22;2t").expect("a String takes everything");
            }
        }
        if !self.title.is_empty() || !self.titles.is_empty() {
            write!(out, "\x1b]2;{}\x1b\\", self.title).expect("a String takes everything");
        }
        self.paint_tabs(&mut out);
        paint_grid(&self.main, self.cols, &mut out);
        self.enter(&self.saved[0], &self.main, 0, &mut out);
        if let Some(alternate) = &self.alternate {
            let by = modes.alternate().unwrap_or(1049);
            // Only this one saves the cursor by itself.
            let save = if by == 1049 { "" } else { "\x1b7" };
            let stack = modes.kitty_on(0);
            write!(out, "{stack}{save}\x1b[?{by}h").expect("a String takes everything");
            self.paint_alternate(alternate, &mut out);
        }
        out.push_str("\x1b7\x1b[?6l\x1b(B\x1b)B\x0f");
        out.push_str(&modes.painted());
        if !self.cursor_is_visible {
            out.push_str("\x1b[?25l");
        }
        if !modes.is_synchronized() {
            out.push_str(END);
        }
        self.settle(&mut out);
        out
    }

    /// For a terminal of the same size that has just been switched to the alternate screen again, with the modes of
    /// this one. Nothing while the main screen is shown: what stands on that is not only the agent's.
    pub fn paint_again(&self) -> Option<String> {
        let alternate = self.alternate.as_ref()?;
        let mut out = "\x1b[?7h".to_owned();
        self.paint_alternate(alternate, &mut out);
        out.push_str("\x1b7\x1b[?6l\x1b(B\x1b)B\x0f");
        self.settle(&mut out);
        Some(out)
    }

    fn paint_alternate(&self, alternate: &Grid, out: &mut String) {
        out.push_str("\x1b[?6l\x1b(B\x1b)B\x0f\x1b[0m");
        paint_grid(alternate, self.cols, out);
        self.enter(&self.saved[1], alternate, 0, out);
    }

    /// The region, the cursor, and what would bend the painting itself.
    fn settle(&self, out: &mut String) {
        if self.region != (0..self.rows()) {
            write!(out, "\x1b[{};{}r", self.region.start + 1, self.region.end)
                .expect("a String takes everything");
        }
        self.enter(&self.now, self.shown(), self.region.start, out);
        for (is_set, sequence) in
            [(self.insert, "\x1b[4h"), (self.newline, "\x1b[20h"), (!self.autowrap, "\x1b[?7l")]
        {
            out.push_str(if is_set { sequence } else { "" });
        }
    }

    /// As much as fits, the cursor always in it.
    pub fn view(&self, cols: usize, rows: usize) -> View {
        let Cursor { row, col, .. } = self.now.cursor;
        let (top, left) = ((row + 1).saturating_sub(rows), (col + 1).saturating_sub(cols));
        let mut shown: Vec<String> = self
            .shown()
            .each()
            .skip(top)
            .take(rows)
            .map(|row| {
                let mut out = String::new();
                paint_row(row, left..left + cols, &mut out);
                out
            })
            .collect();
        shown.resize(rows, "\x1b[K".to_owned());
        let seen = if self.cursor_is_visible { 'h' } else { 'l' };
        let cursor = format!("\x1b[{};{}H\x1b[?25{seen}", row - top + 1, col - left + 1);
        View { rows: shown, cursor }
    }

    fn shown(&self) -> &Grid {
        self.alternate.as_ref().unwrap_or(&self.main)
    }

    fn paint_tabs(&self, out: &mut String) {
        out.push_str("\x1b[3g");
        for col in (0..self.cols).filter(|col| self.tabs[*col]) {
            write!(out, "\x1b[1;{}H\x1bH", col + 1).expect("a String takes everything");
        }
    }

    /// Cursor, pen and what is saved with them, in a terminal whose region begins at `top`.
    fn enter(&self, state: &Saved, grid: &Grid, top: usize, out: &mut String) {
        let Cursor { row, col, wraps } = state.cursor;
        let origin = if state.origin { top } else { 0 };
        if state.origin {
            out.push_str("\x1b[?6h");
        }
        let go = |col: usize, out: &mut String| {
            write!(out, "\x1b[{};{}H", row.saturating_sub(origin) + 1, col + 1)
                .expect("a String takes everything");
        };
        // The last column is written, and the next character goes to the next row: that is a state
        // which only writing leads to. So does the character that `CSI b` would repeat.
        let before = if wraps { Some(col) } else { col.checked_sub(1) };
        let last = before.and_then(|before| Last::in_column(grid, row, before)).filter(|last| {
            let leads_here = last.end == col && last.style == state.pen;
            wraps || leads_here && self.last.is_some_and(|c| last.text == String::from(c))
        });
        match last {
            Some(last) => {
                go(last.col, out);
                last.style.write(out);
                out.push_str(&last.text);
                if last.style != state.pen {
                    state.pen.write(out);
                }
            }
            None => {
                go(col, out);
                state.pen.write(out);
            }
        }
        for (drawing, designate) in state.drawing.into_iter().zip(['(', ')']) {
            if drawing {
                write!(out, "\x1b{designate}0").expect("a String takes everything");
            }
        }
        if state.shifted {
            out.push('\x0e');
        }
    }
}

/// What stands in one column.
struct Last {
    col: usize,
    end: usize,
    text: String,
    style: Style,
}

impl Last {
    /// A column that nobody has written to holds a blank.
    fn in_column(grid: &Grid, row: usize, col: usize) -> Option<Last> {
        let mut found = Last { col, end: col + 1, text: " ".to_owned(), style: Style::PLAIN };
        grid.each().nth(row)?.pieces(|piece| {
            if (piece.col..piece.col + piece.width).contains(&col) {
                let (col, end, text) = match piece.text.is_ascii() {
                    true => (col, col + 1, &piece.text[col - piece.col..=col - piece.col]),
                    false => (piece.col, piece.col + piece.width, piece.text),
                };
                found = Last { col, end, text: text.to_owned(), style: piece.style };
            }
        });
        Some(found)
    }
}

fn paint_grid(grid: &Grid, cols: usize, out: &mut String) {
    let mut goes_on = false;
    let mut rows = grid.each().enumerate().peekable();
    while let Some((n, row)) = rows.next() {
        if !goes_on {
            write!(out, "\x1b[{};1H", n + 1).expect("a String takes everything");
        }
        let filled = paint_row(row, 0..cols, out);
        // Written on without a jump, so that the terminal knows that it is one line.
        goes_on = row.wrapped
            && rows.peek().is_some_and(|(_, next)| {
                let first = first_width(next);
                first > 0 && filled + first > cols
            });
    }
}

/// Columns of the first character of a row; 0 when nothing stands in it.
fn first_width(row: &Row) -> usize {
    let mut first = None;
    row.pieces(|piece| {
        first.get_or_insert(if piece.text.is_ascii() { 1 } else { piece.width });
    });
    first.unwrap_or(0)
}

/// From the left edge on, where the cursor is; how many columns it took. Behind them all is erased.
fn paint_row(row: &Row, cols: Range<usize>, out: &mut String) -> usize {
    let (mut at, mut now, mut is_sure) = (cols.start, Style::PLAIN, true);
    let jump = |to: usize, out: &mut String| {
        write!(out, "\x1b[{}G", to - cols.start + 1).expect("a String takes everything");
    };
    row.pieces(|Piece { col, text, width, style }| {
        let (from, to) = (col.max(cols.start), (col + width).min(cols.end));
        if from >= to {
            return;
        }
        if !is_sure {
            jump(from, out);
        }
        if style != now {
            style.write(out);
            now = style;
        }
        let is_ascii = text.is_ascii();
        match (is_ascii, to - from == width) {
            (true, _) => out.push_str(&text[from - col..to - col]),
            (false, true) => out.push_str(text),
            // Half of a wide character is none.
            (false, false) => out.push(' '),
        }
        // Terminals do not agree on how wide emoji and joined characters are.
        is_sure = is_ascii || text.chars().count() == 1 && text < "\u{1f000}";
        at = to;
    });
    if now != Style::PLAIN {
        Style::PLAIN.write(out);
    }
    if at < cols.end {
        if !is_sure {
            jump(at, out);
        }
        out.push_str("\x1b[K");
    }
    at - cols.start
}

#[cfg(test)]
mod tests;
