//! The lines of an asciicast file, version 2: a header, then one event a line.
//!
//! A kill in the middle of a write cuts it where one page of the file ends and the next begins, and
//! a full disk mostly does. So no line goes over such a border, and what was cut is still whole
//! lines.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::veil::NOTHING;

/// The smallest page there is; larger ones end where one of these does.
const PAGE: usize = 4096;
/// A line is made longer rather than to leave less than this of a page: enough for an event with a
/// little text, or for an empty one that only fills.
const LEAST_ROOM: usize = 64;
/// Names and labels are cut to this many characters, so that their line fits into a page.
const LONGEST_WORD: usize = 200;

#[derive(Clone, Debug, Serialize)]
pub struct Header {
    version: u8,
    width: u16,
    height: u16,
    /// Seconds since 1970.
    timestamp: u64,
    title: String,
    env: Env,
}

#[derive(Clone, Debug, Serialize)]
struct Env {
    #[serde(rename = "TERM", skip_serializing_if = "Option::is_none")]
    term: Option<String>,
    #[serde(rename = "SHELL", skip_serializing_if = "Option::is_none")]
    shell: Option<String>,
}

impl Header {
    pub fn new(title: &str, term: Option<&str>, shell: Option<&str>) -> Header {
        let env = Env { term: term.map(shortened), shell: shell.map(shortened) };
        Header { version: 2, width: 0, height: 0, timestamp: 0, title: shortened(title), env }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_WORD).collect()
}

/// What happened; the letter is the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Output,
    Input,
    Resize,
    Marker,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Kind::Output => 'o',
            Kind::Input => 'i',
            Kind::Resize => 'r',
            Kind::Marker => 'm',
        }
    }
}

/// Whole lines that are to be written in one go, behind what the file holds.
pub struct Lines {
    pub bytes: Vec<u8>,
    /// How many events are in them.
    pub events: u64,
    /// Size of the file before.
    size: u64,
    /// Time zero of the recording.
    begun: Instant,
}

impl Lines {
    pub fn new(size: u64, begun: Instant) -> Lines {
        Lines { bytes: Vec::new(), events: 0, size, begun }
    }

    /// Only at the start of a file.
    pub fn header(&mut self, header: &Header, (width, height): (u16, u16), timestamp: u64) {
        let header = Header { width, height, timestamp, ..header.clone() };
        serde_json::to_writer(&mut self.bytes, &header).expect("text and numbers always become JSON");
        self.end_line();
    }

    /// An event as one line, or as several where its text does not fit into a page. Resizes and
    /// markers are one.
    pub fn event(&mut self, at: Instant, kind: Kind, text: &[u8]) {
        let time = at.saturating_duration_since(self.begun);
        self.events += 1;
        match kind {
            Kind::Output | Kind::Input => {
                let mut rest = text;
                while !rest.is_empty() {
                    self.open(time, kind);
                    let room = self.room() - CLOSING.len();
                    let taken = escape(rest, room, &mut self.bytes);
                    rest = &rest[taken..];
                    self.close();
                }
            }
            Kind::Resize | Kind::Marker => {
                let text = shortened(&String::from_utf8_lossy(text));
                let mut escaped = Vec::new();
                escape(text.as_bytes(), PAGE, &mut escaped);
                // The longest there is before the text: a letter, and 20 digits of seconds.
                if self.room() < escaped.len() + LEAST_ROOM {
                    self.fill(time);
                }
                self.open(time, kind);
                self.bytes.extend_from_slice(&escaped);
                self.close();
            }
        }
    }

    /// An event without text, up to the end of the page.
    fn fill(&mut self, time: Duration) {
        self.open(time, Kind::Output);
        let blanks = self.room() - CLOSING.len();
        self.bytes.extend_from_slice(b"\"]");
        self.bytes.resize(self.bytes.len() + blanks, b' ');
        self.bytes.push(b'\n');
    }

    fn open(&mut self, time: Duration, kind: Kind) {
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        write!(self.bytes, "[{seconds}.{micros:06}, \"{}\", \"", kind.letter())
            .expect("a Vec takes everything");
    }

    fn close(&mut self) {
        self.bytes.extend_from_slice(b"\"]");
        self.end_line();
    }

    fn end_line(&mut self) {
        // With the newline.
        let left = self.room() - 1;
        if left < LEAST_ROOM {
            self.bytes.resize(self.bytes.len() + left, b' ');
        }
        self.bytes.push(b'\n');
    }

    /// How much fits into this page of the file.
    fn room(&self) -> usize {
        let end = self.size + self.bytes.len() as u64;
        PAGE - (end % PAGE as u64) as usize
    }
}

/// Behind the text of an event.
const CLOSING: &[u8] = b"\"]\n";

/// Adds as much of `text` as fits into `room`, as part of a JSON string; says how much that was.
/// Characters are not torn.
fn escape(text: &[u8], room: usize, out: &mut Vec<u8>) -> usize {
    let limit = out.len() + room;
    let mut taken = 0;
    while taken < text.len() {
        let run = plain_run(&text[taken..]);
        let fits = run.min(limit - out.len());
        let fits = match fits < run {
            true => whole_characters(&text[taken..], fits),
            false => fits,
        };
        out.extend_from_slice(&text[taken..taken + fits]);
        taken += fits;
        if fits < run {
            return taken;
        }
        let Some(byte) = text.get(taken) else { return taken };
        let mut long = *b"\\u0000";
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            &NOTHING => b"",
            control => {
                long[4] = b"0123456789abcdef"[usize::from(control >> 4)];
                long[5] = b"0123456789abcdef"[usize::from(control & 0xf)];
                &long
            }
        };
        if out.len() + escaped.len() > limit {
            return taken;
        }
        out.extend_from_slice(escaped);
        taken += 1;
    }
    taken
}

/// The most of the first `most` bytes that ends between two characters.
fn whole_characters(text: &[u8], most: usize) -> usize {
    (0..=most).rev().find(|at| text[*at] & 0xc0 != 0x80).unwrap_or(0)
}

/// How many bytes there are before the first that a JSON string cannot hold as it is; eight at a time.
fn plain_run(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES * 0x80;
    /// The high bit of each byte that is zero. A borrow may mark more, but only behind the first.
    fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGH
    }
    let mut run = 0;
    for chunk in text.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let special = controls
            | zeros(word ^ (ONES * u64::from(b'"')))
            | zeros(word ^ (ONES * u64::from(b'\\')))
            | zeros(!word);
        if special != 0 {
            return run + (special.trailing_zeros() / 8) as usize;
        }
        run += 8;
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\\' | NOTHING);
    run + text[run..].iter().position(is_special).unwrap_or(text.len() - run)
}

#[cfg(test)]
#[path = "asciicast_tests.rs"]
mod tests;
