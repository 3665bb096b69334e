//! What each sequence does to the emulator.

use super::{Cursor, Emulator, LONGEST_TITLE, MOST_TITLES, Saved};
use crate::screen::grid::{Grid, Scrollback};
use crate::screen::parser::Csi;
use crate::screen::style::Style;

impl Emulator {
    pub fn escape(&mut self, between: Option<u8>, last: u8) {
        match (between, last) {
            (None, b'7') => self.save(),
            (None, b'8') => self.restore(),
            (None, b'D') => self.line_feed(),
            (None, b'E') => {
                self.go_to_col(0);
                self.line_feed();
            }
            (None, b'H') => self.tabs[self.now.cursor.col] = true,
            (None, b'M') => self.reverse_line_feed(),
            (None, b'c') => self.reset(),
            (Some(b'('), set) => self.now.drawing[0] = set == b'0',
            (Some(b')'), set) => self.now.drawing[1] = set == b'0',
            (Some(b'#'), b'8') => {
                let (rows, cols) = (self.rows(), self.cols);
                for row in 0..rows {
                    self.grid().row(row).put_plain(0, &vec![b'E'; cols], Style::PLAIN);
                }
                self.now.cursor = Cursor::default();
                self.region = 0..rows;
            }
            _ => {}
        }
    }

    fn save(&mut self) {
        self.saved[usize::from(self.alternate.is_some())] = self.now;
    }

    fn restore(&mut self) {
        self.now = self.saved[usize::from(self.alternate.is_some())];
        if self.now.origin {
            // The region may be another one by now.
            let row = self.now.cursor.row.clamp(self.region.start, self.region.end - 1);
            self.now.cursor.row = row;
        }
    }

    /// All but what scrolled off, which is nobody's screen any more.
    fn reset(&mut self) {
        let (cols, rows) = (self.cols as u16, self.rows() as u16);
        let scrollback = std::mem::replace(&mut self.scrollback, Scrollback::new(0));
        *self = Emulator { scrollback, ..Emulator::new(cols, rows, 0) };
    }

    pub fn csi(&mut self, csi: &Csi) {
        match (csi.marker, csi.between) {
            (0, 0) => self.plain_csi(csi),
            (b'?', 0) => {
                for mode in csi.params() {
                    match csi.last {
                        b'h' => self.set_mode(*mode, true),
                        b'l' => self.set_mode(*mode, false),
                        b'J' => self.erase_display(*mode),
                        b'K' => self.erase_line(*mode),
                        _ => {}
                    }
                }
            }
            (0, b'!') if csi.last == b'p' => {
                self.now = Saved { cursor: self.now.cursor, ..Saved::default() };
                (self.autowrap, self.insert, self.cursor_is_visible) = (true, false, true);
                self.region = 0..self.rows();
            }
            _ => {}
        }
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
    fn plain_csi(&mut self, csi: &Csi) {
        let (Cursor { row, col, .. }, cols, count) = (self.now.cursor, self.cols, csi.count(0));
        let style = self.now.pen.erased();
        match csi.last {
            b'A' => self.up(count),
            b'B' | b'e' => self.down(count),
            b'C' | b'a' => self.go_to_col(col + count),
            b'D' => self.go_to_col(col.saturating_sub(count)),
            b'E' => {
                self.down(count);
                self.go_to_col(0);
            }
            b'F' => {
                self.up(count);
                self.go_to_col(0);
            }
            b'G' | b'`' => self.go_to_col(count - 1),
            b'H' | b'f' => {
                self.go_to_address(count - 1);
                self.go_to_col(csi.count(1) - 1);
            }
            b'd' => self.go_to_address(count - 1),
            b'I' => self.tab(count),
            b'Z' => self.tab_back(count),
            b'J' => self.erase_display(csi.param(0)),
            b'K' => self.erase_line(csi.param(0)),
            b'X' => self.grid().row(row).erase(col, (col + count).min(cols), style),
            b'@' => self.grid().row(row).insert(col, count, cols, style),
            b'P' => self.grid().row(row).delete(col, count, cols, style),
            b'L' | b'M' if self.region.contains(&row) => {
                let region = row..self.region.end;
                match csi.last {
                    b'L' => self.grid().scroll_down(region, count, style),
                    _ => self.grid().scroll_up(region, count, style, None),
                }
                self.go_to_col(0);
            }
            b'S' => self.scroll_up(count),
            b'T' => {
                let region = self.region.clone();
                self.grid().scroll_down(region, count, style);
            }
            b'b' => {
                let room = self.cols * self.rows();
                if let Some(c) = self.last {
                    (0..count.min(room)).for_each(|_| self.print(c));
                }
            }
            b'g' => match csi.param(0) {
                0 => self.tabs[col] = false,
                3 => self.tabs.fill(false),
                _ => {}
            },
            b'h' | b'l' => match csi.param(0) {
                4 => self.insert = csi.last == b'h',
                20 => self.newline = csi.last == b'h',
                _ => {}
            },
            b'm' => self.now.pen.change(csi),
            b'r' => {
                let bottom = match csi.param(1) {
                    0 => self.rows(),
                    bottom => usize::from(bottom).min(self.rows()),
                };
                if count < bottom {
                    self.region = count - 1..bottom;
                    self.go_to_address(0);
                    self.go_to_col(0);
                }
            }
            b's' => self.save(),
            b'u' => self.restore(),
            b't' => match csi.param(0) {
                22 if self.titles.len() < MOST_TITLES => self.titles.push(self.title.clone()),
                23 => self.title = self.titles.pop().unwrap_or(std::mem::take(&mut self.title)),
                _ => {}
            },
            _ => {}
        }
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        match mode {
            6 => {
                self.now.origin = on;
                self.go_to_address(0);
                self.go_to_col(0);
            }
            7 => self.autowrap = on,
            25 => self.cursor_is_visible = on,
            47 | 1047 => self.switch(on),
            1048 => {
                if on {
                    self.save()
                } else {
                    self.restore()
                }
            }
            1049 if on && self.alternate.is_none() => {
                self.save();
                self.switch(true);
            }
            1049 if !on && self.alternate.is_some() => {
                self.switch(false);
                self.restore();
            }
            _ => {}
        }
    }

    /// The alternate screen is empty whenever it comes up, and so is what was saved on it.
    fn switch(&mut self, on: bool) {
        match (on, self.alternate.is_some()) {
            (true, false) => self.alternate = Some(Grid::new(self.cols, self.rows())),
            (false, true) => {
                self.alternate = None;
                self.saved[1] = Saved::default();
            }
            (true, true) | (false, false) => {}
        }
    }

    fn erase_display(&mut self, what: u16) {
        let (row, rows, style) = (self.now.cursor.row, self.rows(), self.now.pen.erased());
        match what {
            0 => {
                self.erase_line(0);
                self.grid().clear(row + 1..rows, style);
            }
            1 => {
                self.erase_line(1);
                self.grid().clear(0..row, style);
            }
            2 => self.grid().clear(0..rows, style),
            3 => self.scrollback.clear(),
            _ => {}
        }
    }

    fn erase_line(&mut self, what: u16) {
        let (Cursor { row, col, .. }, cols, style) = (self.now.cursor, self.cols, self.now.pen.erased());
        let row = self.grid().row(row);
        match what {
            0 => row.erase(col, cols, style),
            1 => row.erase(0, col + 1, style),
            2 => row.erase(0, cols, style),
            _ => {}
        }
    }

    /// `OSC 0` and `OSC 2`: the window's title.
    pub fn osc(&mut self, command: &[u8]) {
        if let [b'0' | b'2', b';', title @ ..] = command {
            let title = String::from_utf8_lossy(&title[..title.len().min(LONGEST_TITLE)]);
            self.title = title.chars().filter(|c| !c.is_control()).collect();
        }
    }
}
