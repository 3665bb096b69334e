//! The last lines of output as plain text, for the report of a halt.

use std::collections::VecDeque;

const KEPT: usize = 4096;

#[derive(Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub fn feed(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(KEPT);
        self.bytes.drain(..surplus);
        self.bytes.extend(bytes);
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The last `most` lines that are not blank, without escape sequences and control bytes.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = plain(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|l| (*l).to_owned()).collect()
    }
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => match chars.next() {
                Some('[') => while chars.next().is_some_and(|c| !('\x40'..='\x7e').contains(&c)) {},
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next() {
                        if c == '\x07' || c == '\x1b' && chars.next_if_eq(&'\\').is_some() {
                            break;
                        }
                    }
                }
                Some('(' | ')' | '*' | '+') => {
                    chars.next();
                }
                Some(_) | None => {}
            },
            '\n' | '\t' => out.push(c),
            // A carriage return alone starts the line again, as a spinner does.
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_come_without_colours_titles_and_blanks() {
        let mut tail = Tail::default();
        tail.feed(b"one\r\n\x1b]0;title\x07\x1b[31mtwo\x1b[0m\r\n\r\n  \r\nthree\x1b(B\x07");
        assert_eq!(tail.lines(2), ["two", "three"]);
    }

    #[test]
    fn memory_is_bounded_and_a_cut_character_does_no_harm() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.feed("üüüüüüüüü\n".as_bytes());
        }
        assert!(tail.bytes.len() <= KEPT);
        assert_eq!(tail.lines(1), ["üüüüüüüüü"]);
    }
}
