//! The rows of one screen, and above them what scrolled off. Both turn in place: a line feed at the
//! bottom moves no row and allocates nothing.

use std::ops::Range;

use super::line::Line;
use super::row::Row;
use super::style::Style;

pub struct Grid {
    /// A ring.
    rows: Vec<Row>,
    /// Where the top row is.
    top: usize,
    cols: usize,
}

/// What scrolled off the top; at most as many lines as it was told.
pub struct Scrollback {
    /// A ring once it is full.
    lines: Vec<Line>,
    oldest: usize,
    most: usize,
}

impl Scrollback {
    pub fn new(most: usize) -> Scrollback {
        Scrollback { lines: Vec::new(), oldest: 0, most }
    }

    fn push(&mut self, row: &Row) {
        if self.lines.len() < self.most {
            self.lines.push(Line::of(row));
        } else if let Some(line) = self.lines.get_mut(self.oldest) {
            line.fill(row);
            self.oldest = if self.oldest + 1 == self.most { 0 } else { self.oldest + 1 };
        }
    }

    pub fn clear(&mut self) {
        *self = Scrollback::new(self.most);
    }

    /// The newest lines, at most `most`, oldest first.
    pub fn last(&self, most: usize) -> impl Iterator<Item = &Line> {
        let (newer, older) = self.lines.split_at(self.oldest);
        older.iter().chain(newer).skip(self.lines.len().saturating_sub(most))
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }
}

impl Grid {
    pub fn new(cols: usize, rows: usize) -> Grid {
        Grid { rows: vec![Row::default(); rows], top: 0, cols }
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn lines(&self) -> impl Iterator<Item = Line> {
        self.each().map(Line::of)
    }

    /// The rows, from the top.
    pub fn each(&self) -> impl Iterator<Item = &Row> {
        let (lower, upper) = self.rows.split_at(self.top);
        upper.iter().chain(lower)
    }

    #[inline]
    fn place(&self, row: usize) -> usize {
        let place = self.top + row;
        if place >= self.rows.len() { place - self.rows.len() } else { place }
    }

    #[inline]
    pub fn row(&mut self, row: usize) -> &mut Row {
        let place = self.place(row);
        &mut self.rows[place]
    }

    /// Moves the rows of `region` up; what leaves the top of the screen goes to `kept`.
    pub fn scroll_up(
        &mut self,
        region: Range<usize>,
        count: usize,
        style: Style,
        mut kept: Option<&mut Scrollback>,
    ) {
        for _ in 0..count.min(region.len()) {
            if region.start == 0
                && let Some(kept) = &mut kept
            {
                kept.push(&self.rows[self.top]);
            }
            if region == (0..self.rows.len()) {
                self.top = self.place(1);
            } else {
                for row in region.start..region.end - 1 {
                    let (here, below) = (self.place(row), self.place(row + 1));
                    self.rows.swap(here, below);
                }
            }
            let cols = self.cols;
            self.row(region.end - 1).clear(style, cols);
        }
    }

    pub fn scroll_down(&mut self, region: Range<usize>, count: usize, style: Style) {
        for _ in 0..count.min(region.len()) {
            for row in (region.start..region.end - 1).rev() {
                let (here, below) = (self.place(row), self.place(row + 1));
                self.rows.swap(here, below);
            }
            let cols = self.cols;
            self.row(region.start).clear(style, cols);
        }
    }

    pub fn clear(&mut self, rows: Range<usize>, style: Style) {
        let cols = self.cols;
        for row in rows {
            self.row(row).clear(style, cols);
        }
    }

    /// Rows go from below the cursor while there is nothing in them, then from the top. The
    /// cursor's new row comes back. Lines are not wrapped anew: whoever drew them draws them again
    /// when it hears of the new size.
    pub fn resize(
        &mut self,
        cols: usize,
        rows: usize,
        cursor: usize,
        mut kept: Option<&mut Scrollback>,
    ) -> usize {
        self.rows.rotate_left(self.top);
        self.top = 0;
        let mut cursor = cursor;
        while self.rows.len() > rows {
            if self.rows.len() > cursor + 1 && self.rows.last().is_some_and(Row::is_blank) || cursor == 0 {
                self.rows.pop();
                continue;
            }
            let row = self.rows.remove(0);
            if let Some(kept) = &mut kept {
                kept.push(&row);
            }
            cursor -= 1;
        }
        self.rows.resize_with(rows, Row::default);
        if cols < self.cols {
            self.rows.iter_mut().for_each(|row| row.cut(cols));
        }
        self.cols = cols;
        cursor
    }
}
