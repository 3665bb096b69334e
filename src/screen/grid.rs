//! The rows of one screen, and above them what scrolled off.

use std::collections::VecDeque;
use std::ops::Range;

use super::line::Line;
use super::row::Row;
use super::style::Style;

pub struct Grid {
    rows: VecDeque<Row>,
    cols: usize,
}

/// What scrolled off the top, oldest first; at most as many lines as it was told.
pub struct Scrollback {
    lines: VecDeque<Line>,
    most: usize,
}

impl Scrollback {
    pub fn new(most: usize) -> Scrollback {
        Scrollback { lines: VecDeque::new(), most }
    }

    fn push(&mut self, row: &Row) {
        let mut line = match self.lines.len() {
            _ if self.most == 0 => return,
            full if full >= self.most => self.lines.pop_front().unwrap_or_default(),
            _ => Line::default(),
        };
        line.fill(row);
        self.lines.push_back(line);
    }

    pub fn clear(&mut self) {
        self.lines = VecDeque::new();
    }

    /// The newest lines, at most `most`.
    pub fn last(&self, most: usize) -> impl Iterator<Item = &Line> {
        self.lines.range(self.lines.len().saturating_sub(most)..)
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }
}

impl Grid {
    pub fn new(cols: usize, rows: usize) -> Grid {
        Grid { rows: std::iter::repeat_with(Row::default).take(rows).collect(), cols }
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn lines(&self) -> impl Iterator<Item = Line> {
        self.rows.iter().map(Line::of)
    }

    pub fn row(&mut self, row: usize) -> &mut Row {
        &mut self.rows[row]
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
            let row = if region.start == 0 { self.rows.pop_front() } else { self.rows.remove(region.start) };
            let Some(mut row) = row else { return };
            if region.start == 0
                && let Some(kept) = &mut kept
            {
                kept.push(&row);
            }
            row.clear(style, self.cols);
            match region.end > self.rows.len() {
                true => self.rows.push_back(row),
                false => self.rows.insert(region.end - 1, row),
            }
        }
    }

    pub fn scroll_down(&mut self, region: Range<usize>, count: usize, style: Style) {
        for _ in 0..count.min(region.len()) {
            let Some(mut row) = self.rows.remove(region.end - 1) else { return };
            row.clear(style, self.cols);
            self.rows.insert(region.start, row);
        }
    }

    pub fn clear(&mut self, rows: Range<usize>, style: Style) {
        for row in rows {
            self.rows[row].clear(style, self.cols);
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
        let mut cursor = cursor;
        while self.rows.len() > rows {
            if self.rows.len() > cursor + 1 && self.rows.back().is_some_and(Row::is_blank) {
                self.rows.pop_back();
            } else if cursor > 0 {
                if let (Some(row), Some(kept)) = (self.rows.pop_front(), &mut kept) {
                    kept.push(&row);
                }
                cursor -= 1;
            } else {
                self.rows.pop_back();
            }
        }
        self.rows.resize_with(rows, Row::default);
        if cols < self.cols {
            self.rows.iter_mut().for_each(|row| row.cut(cols));
        }
        self.cols = cols;
        cursor
    }
}
