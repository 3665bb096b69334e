//! An acknowledgement in the agent's output: a marker at the start of a line, blanks and a bullet
//! before it or not. However the output comes in pieces, and whatever colours are in it.

use super::parser::{Csi, End, Listener, Parser};

/// What agents put before a line of their own.
const BULLETS: &str = "●•⏺*-";

/// Looks for one marker, from the moment it is made.
pub struct Watch {
    parser: Parser,
    line: Line,
}

struct Line {
    wanted: String,
    /// The line so far, as long as it may be the one.
    so_far: Option<String>,
    found: bool,
}

impl Watch {
    /// `wanted` ends where a character comes that could not be a part of it.
    pub fn new(wanted: String) -> Watch {
        // In the middle of a line, for all we know.
        Watch { parser: Parser::default(), line: Line { wanted, so_far: None, found: false } }
    }

    /// Whether it has been seen.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        self.parser.feed(bytes, &mut self.line);
        self.line.found
    }
}

impl Line {
    fn begin(&mut self) {
        self.found |= self.so_far.as_ref().is_some_and(|line| *line == self.wanted);
        self.so_far = Some(String::new());
    }

    fn take(&mut self, c: char) {
        let Some(line) = &mut self.so_far else { return };
        let is_before = line.is_empty() && (c.is_whitespace() || BULLETS.contains(c));
        if is_before {
            return;
        }
        if *line == self.wanted {
            self.found |= !(c.is_alphanumeric() || "._-".contains(c));
            self.so_far = None;
            return;
        }
        line.push(c);
        if !self.wanted.starts_with(line.as_str()) {
            self.so_far = None;
        }
    }
}

impl Listener for Line {
    fn plain(&mut self, text: &[u8]) {
        for byte in text {
            self.take(char::from(*byte));
        }
    }

    fn other(&mut self, c: char) {
        self.take(c);
    }

    fn control(&mut self, control: u8) {
        match control {
            b'\n' | b'\r' | 0x0b | 0x0c => self.begin(),
            b'\t' => self.take(' '),
            _ => {}
        }
    }

    fn escape(&mut self, _: Option<u8>, last: u8) {
        if matches!(last, b'D' | b'E' | b'M' | b'c' | b'8') {
            self.begin();
        }
    }

    fn csi(&mut self, csi: &Csi) {
        match csi.last {
            // To another line, or to the first column.
            b'A' | b'B' | b'E' | b'F' | b'H' | b'f' | b'd' => self.begin(),
            b'G' | b'`' if csi.count(0) == 1 => self.begin(),
            // Blanks are often skipped, not written.
            b'C' => self.take(' '),
            _ => {}
        }
    }

    fn osc(&mut self, _: &[u8], _: End) {}

    fn dcs(&mut self, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_seen(output: &str) -> bool {
        let whole = Watch::new("ACK:a-1".into()).feed(output.as_bytes());
        let mut watch = Watch::new("ACK:a-1".into());
        let in_pieces = output.bytes().fold(false, |_, byte| watch.feed(&[byte]));
        assert_eq!(whole, in_pieces, "{output:?}");
        whole
    }

    #[test]
    fn a_marker_counts_at_the_start_of_a_line_only() {
        for (output, seen) in [
            ("\nACK:a-1\n", true),
            ("\r\n  ACK:a-1\r\n", true),
            ("text\x1b[2;1H\x1b[1m● ACK:a-1\x1b[0m done\n", true),
            ("\x1b[5;1H⏺\x1b[1CACK:a-1.\n", false),
            ("\n- ACK:a-1: done", true),
            ("\rACK:a-1\r", true),
            ("\nACK:a-1", false),
            ("ACK:a-1\n", false),
            ("\nsay ACK:a-1\n", false),
            ("\n> ACK:a-1\n", false),
            ("\nACK:a-12\n", false),
            ("\nACK:a-\n1\n", false),
            ("\nACK:b\nACK:a-1\n", true),
            ("\n\"ACK:a-1\"\n", false),
        ] {
            assert_eq!(is_seen(output), seen, "{output:?}");
        }
    }
}
