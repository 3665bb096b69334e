//! Lines of a screen or its scrollback, as text with its colours: small to keep, ready to be shown.

use std::ops::Range;

use super::row::Row;
use super::style::Style;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// UTF-8, kept as bytes: many lines are kept, and few are ever looked at.
    bytes: Vec<u8>,
    /// From which byte on which style holds. Before the first it is the plain one.
    styles: Vec<(u32, Style)>,
    /// The text goes on in the next line because it did not fit.
    pub wrapped: bool,
}

impl Line {
    pub fn of(row: &Row) -> Line {
        let mut line = Line::default();
        line.fill(row);
        line
    }

    /// The same into a line that is no longer needed.
    pub fn fill(&mut self, row: &Row) {
        self.bytes.clear();
        self.styles.clear();
        self.wrapped = row.wrapped;
        row.write(&mut self.bytes, &mut self.styles);
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(|b| *b == b' ')
    }

    /// With the sequences for its colours; it begins and ends without any.
    pub fn write_ansi(&self, out: &mut String) {
        let (text, mut shown) = (self.text(), 0);
        for (from, style) in &self.styles {
            out.push_str(&text[shown..*from as usize]);
            style.write(out);
            shown = *from as usize;
        }
        out.push_str(&text[shown..]);
        if self.styles.last().is_some_and(|(_, style)| *style != Style::PLAIN) {
            Style::PLAIN.write(out);
        }
    }

    /// Puts an asterisk for each column of what stands there, so that nothing else moves.
    fn hide(&mut self, hidden: &[Range<usize>]) {
        let old = std::mem::take(self);
        self.wrapped = old.wrapped;
        let mut styles = old.styles.iter().peekable();
        for (at, c) in old.text().char_indices() {
            while let Some((_, style)) = styles.next_if(|(from, _)| *from as usize <= at) {
                self.styles.push((self.bytes.len() as u32, *style));
            }
            if hidden.iter().any(|range| range.contains(&at)) {
                self.bytes.extend(std::iter::repeat_n(b'*', super::width(c)));
            } else {
                self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

/// What programs put around text that they wrap themselves: blanks, frames and bars.
pub(super) fn is_frame(c: char) -> bool {
    c.is_whitespace() || c == '|' || ('\u{2500}'..='\u{259f}').contains(&c) || c == '\u{23bf}'
}

/// Hides all that `find` finds in the text of the lines: within one, over lines that the terminal
/// wrapped, and over those that the program wrapped itself, in a frame or not.
pub fn mask(lines: &mut [Line], find: impl Fn(&[u8]) -> Vec<Range<usize>>) {
    let whole = |line: &Line| 0..line.text().len();
    let within_frame = |line: &Line| {
        let (text, inner) = (line.text(), line.text().trim_matches(is_frame));
        let start = text.len() - text.trim_start_matches(is_frame).len();
        start..start + inner.len()
    };
    let mut hidden: Vec<Vec<Range<usize>>> = vec![Vec::new(); lines.len()];
    for part in [&whole as &dyn Fn(&Line) -> Range<usize>, &within_frame] {
        // One text of all parts, and where each of them begins in it.
        let parts: Vec<Range<usize>> = lines.iter().map(part).collect();
        let mut text = String::new();
        let mut begins = Vec::new();
        for (line, part) in lines.iter().zip(&parts) {
            begins.push(text.len());
            text.push_str(&line.text()[part.clone()]);
        }
        for found in find(text.as_bytes()) {
            let first = begins.partition_point(|begin| *begin <= found.start) - 1;
            for n in (first..lines.len()).take_while(|n| begins[*n] < found.end) {
                let within = found.start.max(begins[n])..found.end.min(begins[n] + parts[n].len());
                if !within.is_empty() {
                    let shift = |at: usize| at - begins[n] + parts[n].start;
                    hidden[n].push(shift(within.start)..shift(within.end));
                }
            }
        }
    }
    for (line, hidden) in lines.iter_mut().zip(&hidden).filter(|(_, hidden)| !hidden.is_empty()) {
        line.hide(hidden);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        text.lines().map(|text| Line { bytes: text.into(), ..Line::default() }).collect()
    }

    fn find(text: &[u8], secret: &str) -> Vec<Range<usize>> {
        let text = std::str::from_utf8(text).unwrap();
        text.match_indices(secret).map(|(at, it)| at..at + it.len()).collect()
    }

    fn masked(text: &str, secret: &str) -> String {
        let mut lines = lines(text);
        mask(&mut lines, |text| find(text, secret));
        lines.iter().map(Line::text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_wrapped() {
        for (text, left) in [
            ("a sk-12345678 b", "a *********** b"),
            ("a sk-123\n45678 b", "a ******\n***** b"),
            ("a sk-1\n2345\n678 b", "a ****\n****\n*** b"),
            ("│ sk-123 │\n│ 45678  │", "│ ****** │\n│ *****  │"),
            ("  ⎿  sk-123\n     45678", "  ⎿  ******\n     *****"),
            ("sk-12345678 sk-12345678", "*********** ***********"),
            ("sk-1234567", "sk-1234567"),
            ("\n\nsk-12345678\n", "\n\n***********"),
        ] {
            assert_eq!(masked(text, "sk-12345678"), left, "{text}");
        }
        assert_eq!(masked("x|pass|word y", "|pass|word"), "x********** y");
        assert_eq!(masked("| |pass\n|word |", "|pass|word"), "| *****\n***** |");
        assert_eq!(masked("x |pass\n|word y", "|pass|word"), "x *****\n***** y");
        assert_eq!(masked("日 geheim本 x", "geheim本"), "日 ******** x");
    }

    #[test]
    fn colours_stay_where_they_were() {
        let mut row = Row::default();
        let mut red = Style::PLAIN;
        red.paint_for_test(31);
        row.put_plain(0, b"ab ", Style::PLAIN);
        row.put_plain(3, b"secret12", red);
        row.put_plain(11, b" z", Style::PLAIN);
        let mut lines = [Line::of(&row)];
        let ansi = |line: &Line| {
            let mut out = String::new();
            line.write_ansi(&mut out);
            out
        };
        assert_eq!(ansi(&lines[0]), "ab \x1b[0;31msecret12\x1b[0m z");
        mask(&mut lines, |text| find(text, "secret12"));
        assert_eq!(ansi(&lines[0]), "ab \x1b[0;31m********\x1b[0m z");
        let mut row = Row::default();
        row.put_plain(0, b"x", red);
        assert_eq!(ansi(&Line::of(&row)), "\x1b[0;31mx\x1b[0m");
    }
}
