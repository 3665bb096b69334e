//! One row of cells. It is only as long as something was written; behind its end all is blank.

use super::style::Style;

/// What stands in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// A character, or with `CLUSTER` the place of one with its marks in `Row::clusters`.
    code: u32,
    style: Style,
}

const CLUSTER: u32 = 1 << 31;
/// The left half of a wide character.
const WIDE: u32 = 1 << 30;
/// The right half.
const TAIL: u32 = 1 << 29;
const CODE: u32 = (1 << 21) - 1;
/// Beyond this, marks on one character are a joke or an attack.
const LONGEST_CLUSTER: usize = 32;

impl Cell {
    const BLANK: Cell = Cell { code: b' ' as u32, style: Style::PLAIN };

    fn blank(style: Style) -> Cell {
        Cell { code: u32::from(b' '), style }
    }

    fn is_tail(self) -> bool {
        self.code & TAIL != 0
    }

    /// Whether nobody would see it go.
    fn is_unseen(self) -> bool {
        self.code == u32::from(b' ') && self.style.hides_blanks()
    }
}

/// Characters side by side in one style: ASCII ones, or a single other one with its marks.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub col: usize,
    pub text: &'a str,
    pub width: usize,
    pub style: Style,
}

#[derive(Clone, Debug, Default)]
pub struct Row {
    /// While all of it is ASCII in one style: that, and no cells. Most rows never become more, and
    /// bytes are moved many times faster than cells.
    plain: Vec<u8>,
    plain_style: Style,
    cells: Vec<Cell>,
    /// Characters with marks; what is overwritten stays until the next `tidy`.
    clusters: Vec<String>,
    /// The text goes on in the next row because it did not fit.
    pub wrapped: bool,
}

impl Row {
    pub fn clear(&mut self, style: Style, cols: usize) {
        self.plain.clear();
        self.cells.clear();
        self.clusters.clear();
        self.wrapped = false;
        if !style.hides_blanks() {
            self.cells.resize(cols, Cell::blank(style));
        }
    }

    /// From bytes to cells.
    #[inline]
    fn spread(&mut self) {
        if !self.plain.is_empty() {
            self.spread_plain();
        }
    }

    fn spread_plain(&mut self) {
        let style = self.plain_style;
        self.cells.extend(self.plain.iter().map(|byte| Cell { code: u32::from(*byte), style }));
        self.plain.clear();
    }

    /// Without what stands behind these columns.
    pub fn cut(&mut self, cols: usize) {
        self.part(cols);
        self.plain.truncate(cols);
        self.cells.truncate(cols);
    }

    /// Separates the halves of a wide character that would be torn apart between `col - 1` and `col`.
    #[inline]
    fn part(&mut self, col: usize) {
        if self.cells.get(col).is_some_and(|cell| cell.is_tail()) {
            for half in [col - 1, col] {
                self.cells[half] = Cell::blank(self.cells[half].style);
            }
        }
    }

    #[inline]
    fn reach(&mut self, col: usize) {
        if self.cells.len() < col {
            self.cells.resize(col, Cell::BLANK);
        }
    }

    /// ASCII characters, which need no thought. The caller sees to it that they fit.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn put_plain(&mut self, col: usize, bytes: &[u8], style: Style) {
        let length = self.plain.len();
        let same = length == 0 || style == self.plain_style;
        if self.cells.is_empty() && same && (col <= length || style == Style::PLAIN) {
            self.plain_style = style;
            self.plain.resize(length.max(col), b' ');
            let over = bytes.len().min(self.plain.len() - col);
            self.plain[col..col + over].copy_from_slice(&bytes[..over]);
            self.plain.extend_from_slice(&bytes[over..]);
            return;
        }
        self.put_cells(col, bytes, style, u32::from);
    }

    /// Characters of one column each, none of which is a mark. The caller sees to it that they fit.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn put_narrow(&mut self, col: usize, characters: &[char], style: Style) {
        self.put_cells(col, characters, style, u32::from);
    }

    #[inline]
    fn put_cells<T: Copy>(&mut self, col: usize, new: &[T], style: Style, code: impl Fn(T) -> u32) {
        self.spread();
        self.part(col);
        self.part(col + new.len());
        self.reach(col);
        let (over, behind) = new.split_at(new.len().min(self.cells.len() - col));
        for (old, new) in self.cells[col..].iter_mut().zip(over) {
            *old = Cell { code: code(*new), style };
        }
        self.cells.extend(behind.iter().map(|new| Cell { code: code(*new), style }));
    }

    /// One character, one or two columns wide.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn put(&mut self, col: usize, c: char, width: usize, style: Style) {
        self.spread();
        let narrow = Cell { code: u32::from(c), style };
        match self.cells.get(col..) {
            // What nearly every character is: behind the last, or over one of its own width.
            Some([]) if width == 1 => return self.cells.push(narrow),
            Some([here, behind, ..]) if width == 1 && !here.is_tail() && !behind.is_tail() => {
                self.cells[col] = narrow;
                return;
            }
            Some(_) | None => {}
        }
        self.part(col);
        self.part(col + width);
        self.reach(col + width);
        let flag = if width == 2 { WIDE } else { 0 };
        self.cells[col] = Cell { code: u32::from(c) | flag, style };
        if width == 2 {
            self.cells[col + 1] = Cell { code: TAIL, style };
        }
    }

    /// A mark for the character in `col` or, if that is its right half, before it.
    pub fn mark(&mut self, col: usize, mark: char) {
        self.spread();
        let Some(cell) = self.cells.get(col).copied() else { return };
        let col = if cell.is_tail() { col - 1 } else { col };
        let cell = self.cells[col];
        let at = if cell.code & CLUSTER != 0 {
            (cell.code & CODE) as usize
        } else {
            if self.clusters.len() >= 2 * self.cells.len() {
                self.tidy();
            }
            self.clusters.push(character(cell.code).to_string());
            self.clusters.len() - 1
        };
        if self.clusters[at].len() + mark.len_utf8() <= LONGEST_CLUSTER {
            self.clusters[at].push(mark);
        }
        self.cells[col].code = at as u32 | CLUSTER | cell.code & WIDE;
    }

    /// Whether what stands in `col` ends with `last`, which is a mark.
    #[inline]
    pub fn ends_with(&self, col: usize, last: char) -> bool {
        !self.clusters.is_empty() && self.cluster_ends_with(col, last)
    }

    fn cluster_ends_with(&self, col: usize, last: char) -> bool {
        let cell = match self.cells.get(col) {
            Some(cell) if cell.is_tail() => self.cells[col - 1],
            Some(cell) => *cell,
            None => return false,
        };
        cell.code & CLUSTER != 0 && self.clusters[(cell.code & CODE) as usize].ends_with(last)
    }

    /// Forgets clusters that were overwritten.
    fn tidy(&mut self) {
        let old = std::mem::take(&mut self.clusters);
        for cell in self.cells.iter_mut().filter(|cell| cell.code & CLUSTER != 0) {
            let at = (cell.code & CODE) as usize;
            cell.code = self.clusters.len() as u32 | CLUSTER | cell.code & WIDE;
            self.clusters.push(old[at].clone());
        }
    }

    /// Blanks from `from` up to `to`.
    pub fn erase(&mut self, from: usize, to: usize, style: Style) {
        self.part(from);
        self.part(to);
        if to >= self.plain.len().max(self.cells.len()) {
            self.wrapped = false;
            if style.hides_blanks() {
                self.plain.truncate(from);
                self.cells.truncate(from);
                return;
            }
        }
        self.spread();
        self.reach(to);
        self.cells[from..to].fill(Cell::blank(style));
    }

    /// Moves what stands from `col` on to the right; what passes `cols` is lost.
    pub fn insert(&mut self, col: usize, count: usize, cols: usize, style: Style) {
        self.spread();
        self.part(col);
        if col < self.cells.len() || !style.hides_blanks() {
            self.reach(col);
            let blanks = std::iter::repeat_n(Cell::blank(style), count.min(cols - col));
            self.cells.splice(col..col, blanks);
        }
        self.cut(cols);
    }

    /// Takes `count` cells out; blanks come in at the right.
    pub fn delete(&mut self, col: usize, count: usize, cols: usize, style: Style) {
        self.spread();
        let end = (col + count).min(cols);
        self.part(col);
        self.part(end);
        if !style.hides_blanks() {
            self.reach(cols);
        }
        let length = self.cells.len();
        self.cells.drain(col.min(length)..end.min(length));
        if !style.hides_blanks() {
            self.cells.resize(cols, Cell::blank(style));
        }
    }

    /// Whether there is nothing to be seen.
    pub fn is_blank(&self) -> bool {
        self.seen_plain().is_empty() && self.seen_cells().is_empty()
    }

    fn seen_plain(&self) -> &[u8] {
        match self.plain_style.hides_blanks() {
            true => self.plain.trim_ascii_end(),
            false => &self.plain,
        }
    }

    fn seen_cells(&self) -> &[Cell] {
        let end = self.cells.iter().rposition(|cell| !cell.is_unseen()).map_or(0, |at| at + 1);
        &self.cells[..end]
    }

    /// All up to the last that can be seen, from the left.
    pub fn pieces(&self, mut take: impl FnMut(Piece)) {
        let plain = self.seen_plain();
        if let Ok(text) = std::str::from_utf8(plain)
            && !plain.is_empty()
        {
            take(Piece { col: 0, text, width: plain.len(), style: self.plain_style });
        }
        let mut one = [0; 4];
        for (col, cell) in self.seen_cells().iter().enumerate().filter(|(_, cell)| !cell.is_tail()) {
            let text = match cell.code & CLUSTER {
                0 => character(cell.code).encode_utf8(&mut one),
                _ => self.clusters[(cell.code & CODE) as usize].as_str(),
            };
            let width = if cell.code & WIDE == 0 { 1 } else { 2 };
            take(Piece { col, text, width, style: cell.style });
        }
    }

    /// All up to the last that can be seen: the text onto `text`, as UTF-8, and each style with the
    /// byte from which on it holds.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn write(&self, text: &mut Vec<u8>, styles: &mut Vec<(u32, Style)>) {
        let plain = self.seen_plain();
        let mut now = Style::PLAIN;
        if !plain.is_empty() {
            if self.plain_style != now {
                now = self.plain_style;
                styles.push((text.len() as u32, now));
            }
            text.extend_from_slice(plain);
        }
        let mut out = Utf8 { text, piece: [0; PIECE], at: 0 };
        for cell in self.seen_cells() {
            if cell.style != now {
                now = cell.style;
                styles.push((out.len() as u32, now));
            }
            if cell.code & (CLUSTER | TAIL) == 0 {
                out.push(cell.code & CODE);
            } else if cell.code & CLUSTER != 0 {
                out.end();
                out.text.extend_from_slice(self.clusters[(cell.code & CODE) as usize].as_bytes());
            }
        }
        out.end();
    }
}

/// Of what is put together before it is copied: a copy of one to four bytes is mostly the call.
const PIECE: usize = 256;

/// Characters one behind the other as UTF-8.
struct Utf8<'a> {
    text: &'a mut Vec<u8>,
    piece: [u8; PIECE],
    at: usize,
}

impl Utf8<'_> {
    fn len(&self) -> usize {
        self.text.len() + self.at
    }

    /// The number of a character, which `Cell` has from a `char`.
    #[inline]
    fn push(&mut self, code: u32) {
        let next = |shift: u32, place: u32| (0x80 | code >> shift & 0x3f) << (8 * place);
        let (bytes, length) = match code {
            0..0x80 => (code, 1),
            0x80..0x800 => (0xc0 | code >> 6 | next(0, 1), 2),
            0x800..0x1_0000 => (0xe0 | code >> 12 | next(6, 1) | next(0, 2), 3),
            _ => (0xf0 | code >> 18 | next(12, 1) | next(6, 2) | next(0, 3), 4),
        };
        if self.at + 4 > PIECE {
            self.end();
        }
        if let Some(place) = self.piece[self.at..].first_chunk_mut() {
            *place = bytes.to_le_bytes();
        }
        self.at += length;
    }

    fn end(&mut self) {
        self.text.extend_from_slice(&self.piece[..self.at]);
        self.at = 0;
    }
}

fn character(code: u32) -> char {
    char::from_u32(code & CODE).unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style::PLAIN;

    fn text(row: &Row) -> String {
        let mut out = Vec::new();
        row.write(&mut out, &mut Vec::new());
        String::from_utf8(out).unwrap()
    }

    fn row(text: &str) -> Row {
        let mut row = Row::default();
        row.put_plain(0, text.as_bytes(), PLAIN);
        row
    }

    #[test]
    fn half_of_a_wide_character_is_none() {
        for (col, left) in [(1, "a世c"), (2, "a c"), (3, "a  c")] {
            let mut row = row("a");
            row.put(1, '世', 2, PLAIN);
            row.put_plain(3, b"c", PLAIN);
            assert_eq!(text(&row), "a世c");
            row.erase(col, col, PLAIN);
            let mut cut = row.clone();
            match col {
                1 => {}
                2 => {
                    cut.put_plain(2, b"", PLAIN);
                    assert_eq!(text(&cut), "a  c");
                    cut.delete(1, 1, 10, PLAIN);
                    assert_eq!(text(&cut), left);
                }
                _ => {
                    cut.cut(2);
                    assert_eq!(text(&cut), "a");
                }
            }
        }
        let mut over = row("");
        over.put(0, '世', 2, PLAIN);
        over.put_plain(1, b"x", PLAIN);
        assert_eq!(text(&over), " x");
        over.put(0, '界', 2, PLAIN);
        over.put(0, 'é', 1, PLAIN);
        assert_eq!(text(&over), "é");
    }

    #[test]
    fn marks_stay_with_their_character() {
        let mut row = row("ab");
        row.mark(0, '\u{301}');
        row.put(2, '世', 2, PLAIN);
        row.mark(3, '\u{fe0f}');
        assert_eq!(text(&row), "a\u{301}b世\u{fe0f}");
        row.insert(0, 1, 10, PLAIN);
        assert_eq!(text(&row), " a\u{301}b世\u{fe0f}");
        row.delete(0, 1, 10, PLAIN);
        row.put_plain(0, b"c", PLAIN);
        assert_eq!(text(&row), "cb世\u{fe0f}");
    }

    #[test]
    fn no_number_of_marks_grows_without_end() {
        let mut row = row("a");
        for _ in 0..1000 {
            row.mark(0, '\u{301}');
        }
        assert!(text(&row).len() <= LONGEST_CLUSTER);
        for _ in 0..1000 {
            row.put_plain(0, b"a", PLAIN);
            row.mark(0, '\u{301}');
        }
        assert!(row.clusters.len() <= 4, "{}", row.clusters.len());
        assert_eq!(text(&row), "a\u{301}");
    }

    #[test]
    fn erasing_inserting_and_deleting_keep_the_rest_in_its_place() {
        let mut it = row("abcdef");
        it.erase(1, 3, PLAIN);
        assert_eq!(text(&it), "a  def");
        it.erase(4, 10, PLAIN);
        assert_eq!(text(&it), "a  d");
        it.insert(1, 2, 5, PLAIN);
        assert_eq!(text(&it), "a");
        let mut it = row("abcdef");
        it.delete(1, 2, 6, PLAIN);
        assert_eq!(text(&it), "adef");
        it.delete(2, 100, 6, PLAIN);
        assert_eq!(text(&it), "ad");
        it.delete(5, 1, 6, PLAIN);
        it.insert(5, 9, 6, PLAIN);
        assert_eq!(text(&it), "ad");
    }
}
