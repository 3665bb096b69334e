//! What a terminal would show: text and sequences in, rows, cursor and title kept. Left and right
//! margins, double-width lines and pictures are not known; no agent was seen to use them.

pub mod paint;
mod sequences;

use std::ops::Range;

use super::grid::{Grid, Scrollback};
use super::line::Line;
use super::row::Row;
use super::style::Style;

/// A larger terminal would only cost memory.
const MOST_A_SIDE: usize = 4096;
const TAB: usize = 8;
const MOST_TITLES: usize = 8;
const LONGEST_TITLE: usize = 256;
const JOINER: char = '\u{200d}';

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub row: usize,
    pub col: usize,
    /// The last column is written: the next character goes to the next row.
    wraps: bool,
}

/// What `ESC 7` keeps.
#[derive(Clone, Copy, Default)]
struct Saved {
    cursor: Cursor,
    pen: Style,
    origin: bool,
    /// Line drawing in G0 and G1, and which of them is in use.
    drawing: [bool; 2],
    shifted: bool,
}

pub struct Emulator {
    cols: usize,
    main: Grid,
    /// While it is shown.
    alternate: Option<Grid>,
    scrollback: Scrollback,
    /// Cursor, pen and what else is saved with them.
    now: Saved,
    /// For each of both screens.
    saved: [Saved; 2],
    region: Range<usize>,
    tabs: Vec<bool>,
    autowrap: bool,
    insert: bool,
    /// A line feed returns to the first column too.
    newline: bool,
    cursor_is_visible: bool,
    title: String,
    titles: Vec<String>,
    /// For `CSI b`, which repeats it.
    last: Option<char>,
}

impl Emulator {
    pub fn new(cols: u16, rows: u16, scrollback: usize) -> Emulator {
        let (cols, rows) = sane(cols, rows);
        Emulator {
            cols,
            main: Grid::new(cols, rows),
            alternate: None,
            scrollback: Scrollback::new(scrollback),
            now: Saved::default(),
            saved: [Saved::default(); 2],
            region: 0..rows,
            tabs: tabs(cols),
            autowrap: true,
            insert: false,
            newline: false,
            cursor_is_visible: true,
            title: String::new(),
            titles: Vec::new(),
            last: None,
        }
    }

    pub fn cols(&self) -> usize {
        self.cols
    }

    pub fn rows(&self) -> usize {
        self.main.rows()
    }

    pub fn cursor(&self) -> Cursor {
        self.now.cursor
    }

    pub fn cursor_is_visible(&self) -> bool {
        self.cursor_is_visible
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// The cursor as `CSI 6 n` tells it: from 1, and from the region's top in origin mode.
    pub fn reported_cursor(&self) -> (usize, usize) {
        let Cursor { row, col, .. } = self.now.cursor;
        let top = if self.now.origin { self.region.start } else { 0 };
        (row.saturating_sub(top) + 1, col + 1)
    }

    /// Of the modes that `CSI n h` sets, without a question mark.
    pub fn is_ansi_mode_set(&self, mode: u16) -> Option<bool> {
        match mode {
            4 => Some(self.insert),
            20 => Some(self.newline),
            _ => None,
        }
    }

    /// The rows of the screen, and before them up to `above` lines of what scrolled off.
    pub fn lines(&self, above: usize) -> Vec<Line> {
        let screen = self.alternate.as_ref().unwrap_or(&self.main);
        self.scrollback.last(above).cloned().chain(screen.lines()).collect()
    }

    pub fn scrollback(&self) -> usize {
        self.scrollback.len()
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        let (cols, rows) = sane(cols, rows);
        if (cols, rows) == (self.cols, self.rows()) {
            return;
        }
        let row = self.now.cursor.row;
        match &mut self.alternate {
            Some(alternate) => {
                self.now.cursor.row = alternate.resize(cols, rows, row, None);
                let saved = &mut self.saved[0].cursor;
                saved.row = self.main.resize(cols, rows, saved.row, Some(&mut self.scrollback));
            }
            None => self.now.cursor.row = self.main.resize(cols, rows, row, Some(&mut self.scrollback)),
        }
        for Saved { cursor, .. } in self.saved.iter_mut().chain([&mut self.now]) {
            *cursor = Cursor { row: cursor.row.min(rows - 1), col: cursor.col.min(cols - 1), wraps: false };
        }
        let known = self.tabs.len();
        self.tabs.extend(tabs(cols).into_iter().skip(known));
        self.cols = cols;
        self.region = 0..rows;
    }

    #[inline]
    fn grid(&mut self) -> &mut Grid {
        self.alternate.as_mut().unwrap_or(&mut self.main)
    }

    /// Whether letters stand for lines.
    #[inline]
    fn draws(&self) -> bool {
        self.now.drawing[usize::from(self.now.shifted)]
    }

    /// The way that most bytes go: whole stretches at a time.
    pub fn plain(&mut self, bytes: &[u8]) {
        if self.insert || self.draws() {
            let drawing = self.draws();
            for c in bytes.iter().map(|byte| char::from(*byte)) {
                self.print(if drawing { line_drawing(c) } else { c });
            }
            return;
        }
        self.last = bytes.last().map(|b| char::from(*b));
        self.stretch(bytes, Row::put_plain);
    }

    /// What has one column for each, put down by rows.
    #[inline]
    fn stretch<T>(&mut self, mut items: &[T], put: impl Fn(&mut Row, usize, &[T], Style)) {
        while !items.is_empty() {
            self.wrap_if_due();
            let (Cursor { row, col, .. }, pen) = (self.now.cursor, self.now.pen);
            let room = self.cols - col;
            let (fitting, rest) = items.split_at(room.min(items.len()));
            put(self.grid().row(row), col, fitting, pen);
            self.advance(fitting.len());
            // Without wrapping all the rest falls onto the last column.
            items = if self.autowrap { rest } else { &rest[rest.len().saturating_sub(1)..] };
        }
    }

    /// Characters that are no ASCII; those of one column as many at a time as there are.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn others(&mut self, mut run: &[char]) {
        while let Some(first) = run.first() {
            // The first may belong to what stands before it, and as a mark may make the next one belong to it.
            let is_alone = self.insert || super::width(*first) == 0;
            let narrow = if is_alone { 0 } else { run[1..].iter().take_while(|c| is_narrow(**c)).count() };
            self.print(*first);
            if let Some(last) = run[1..=narrow].last() {
                self.last = Some(*last);
                self.stretch(&run[1..=narrow], Row::put_narrow);
            }
            run = &run[1 + narrow..];
        }
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn print(&mut self, c: char) {
        if c.is_control() {
            // C1, which no terminal obeys in UTF-8, but one that shows this might.
            return;
        }
        let width = super::width(c);
        let before = match self.now.cursor {
            Cursor { row, col, wraps: true } => Some((row, col)),
            Cursor { col: 0, .. } => None,
            Cursor { row, col, .. } => Some((row, col - 1)),
        };
        // Nothing of ASCII is part of a joined character, or plain text would have to be looked at.
        let joins =
            !c.is_ascii() && before.is_some_and(|(row, col)| self.grid().row(row).ends_with(col, JOINER));
        if width == 0 || joins {
            // A mark without a character before it has nothing to stand on.
            if let Some((row, col)) = before {
                self.grid().row(row).mark(col, c);
            }
            return;
        }
        self.last = Some(c);
        self.wrap_if_due();
        if self.now.cursor.col + width > self.cols {
            if self.cols < width {
                return;
            }
            match self.autowrap {
                true => self.wrap(),
                false => self.now.cursor.col = self.cols - width,
            }
        }
        let (Cursor { row, col, .. }, pen, cols) = (self.now.cursor, self.now.pen, self.cols);
        let insert = self.insert;
        let row = self.grid().row(row);
        if insert {
            row.insert(col, width, cols, Style::PLAIN);
        }
        row.put(col, c, width, pen);
        self.advance(width);
    }

    #[inline]
    fn advance(&mut self, columns: usize) {
        let cursor = &mut self.now.cursor;
        cursor.col += columns;
        cursor.wraps = cursor.col >= self.cols;
        cursor.col = cursor.col.min(self.cols - 1);
    }

    #[inline]
    fn wrap_if_due(&mut self) {
        if self.now.cursor.wraps && self.autowrap {
            self.wrap();
        }
    }

    fn wrap(&mut self) {
        let row = self.now.cursor.row;
        self.grid().row(row).wrapped = true;
        self.now.cursor.col = 0;
        self.now.cursor.wraps = false;
        self.line_feed();
    }

    fn line_feed(&mut self) {
        match self.now.cursor.row + 1 {
            next if next == self.region.end => self.scroll_up(1),
            next if next < self.rows() => self.now.cursor.row = next,
            _ => {}
        }
    }

    fn scroll_up(&mut self, count: usize) {
        let (region, style) = (self.region.clone(), self.now.pen.erased());
        match &mut self.alternate {
            Some(alternate) => alternate.scroll_up(region, count, style, None),
            None => self.main.scroll_up(region, count, style, Some(&mut self.scrollback)),
        }
    }

    fn reverse_line_feed(&mut self) {
        let row = self.now.cursor.row;
        if row == self.region.start {
            let (region, style) = (self.region.clone(), self.now.pen.erased());
            self.grid().scroll_down(region, 1, style);
        } else {
            self.now.cursor.row = row.saturating_sub(1);
        }
    }

    pub fn control(&mut self, control: u8) {
        match control {
            0x08 => self.go_to_col(self.now.cursor.col.saturating_sub(1)),
            0x09 => self.tab(1),
            0x0a..=0x0c => {
                if self.newline {
                    self.go_to_col(0);
                }
                self.line_feed();
            }
            0x0d => self.go_to_col(0),
            0x0e => self.now.shifted = true,
            0x0f => self.now.shifted = false,
            _ => {}
        }
    }

    fn go_to_col(&mut self, col: usize) {
        self.now.cursor.col = col.min(self.cols - 1);
        self.now.cursor.wraps = false;
    }

    /// Without regard to the region.
    fn go_to_row(&mut self, row: usize) {
        self.now.cursor.row = row.min(self.rows() - 1);
        self.now.cursor.wraps = false;
    }

    /// As addresses are counted: from the region's top in origin mode, and never out of it then.
    fn go_to_address(&mut self, row: usize) {
        match self.now.origin {
            true => self.go_to_row((self.region.start + row).min(self.region.end - 1)),
            false => self.go_to_row(row),
        }
    }

    /// The region's edges stop a cursor that is within.
    fn up(&mut self, count: usize) {
        let row = self.now.cursor.row;
        let edge = if row >= self.region.start { self.region.start } else { 0 };
        self.go_to_row(row.saturating_sub(count).max(edge));
    }

    fn down(&mut self, count: usize) {
        let row = self.now.cursor.row;
        let edge = if row < self.region.end { self.region.end } else { self.rows() };
        self.go_to_row((row + count).min(edge - 1));
    }

    fn tab(&mut self, count: usize) {
        for _ in 0..count.min(self.cols) {
            let col = self.now.cursor.col;
            let next = (col + 1..self.cols).find(|col| self.tabs[*col]);
            self.now.cursor.col = next.unwrap_or(self.cols - 1);
        }
    }

    fn tab_back(&mut self, count: usize) {
        for _ in 0..count.min(self.cols) {
            let before = (0..self.now.cursor.col).rev().find(|col| self.tabs[*col]);
            self.go_to_col(before.unwrap_or(0));
        }
    }
}

/// One column, and no mark: behind a character that is none either it stands for itself.
#[inline]
fn is_narrow(c: char) -> bool {
    super::width(c) == 1 && !c.is_control()
}

fn sane(cols: u16, rows: u16) -> (usize, usize) {
    let side = |side: u16| usize::from(side).clamp(1, MOST_A_SIDE);
    (side(cols), side(rows))
}

fn tabs(cols: usize) -> Vec<bool> {
    (0..cols).map(|col| col > 0 && col % TAB == 0).collect()
}

/// The line drawing set of the VT100, in the places of the letters.
fn line_drawing(c: char) -> char {
    const SET: [char; 31] = [
        '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
        '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    match c {
        '`'..='~' => SET[c as usize - '`' as usize],
        c => c,
    }
}

#[cfg(test)]
mod tests;
