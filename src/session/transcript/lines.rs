//! The lines of a file that grows, may be huge, and may hold anything: read in pieces, so that no
//! step takes long, and never kept, so that a reader who waits costs nothing but two numbers.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use memchr::{memchr, memrchr_iter};

/// A longer line is passed over.
pub const LINE_MAX: usize = 256 * 1024;
/// Read in one step, beside one line.
pub const PIECE: usize = 32 * 1024;
/// How far back from its end a file is looked through.
pub const BACK_MOST: u64 = 64 * 1024 * 1024;
/// As much of what stands before a position tells whether it is still the same file.
const PROOF: usize = 256;

pub trait Bytes {
    /// Fewer than asked for when there are no more now; none, too, when it cannot be read.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> usize;
}

impl Bytes for File {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
        FileExt::read_at(self, buffer, at).unwrap_or(0)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Without its newline.
    Whole(&'a [u8]),
    TooLong(u64),
}

/// Up to `length` bytes from `at` on.
fn read(source: &impl Bytes, at: u64, length: usize) -> Vec<u8> {
    let mut piece = vec![0; length];
    let mut have = 0;
    while have < length {
        match source.read_at(&mut piece[have..], at + have as u64) {
            0 => break,
            n => have += n,
        }
    }
    piece.truncate(have);
    piece
}

/// The line from `at` up to its newline at `end`; `None` when it can no longer be read.
fn with_line<T>(source: &impl Bytes, at: u64, end: u64, take: impl FnOnce(Line) -> T) -> Option<T> {
    let length = end - at;
    if length > LINE_MAX as u64 {
        return Some(take(Line::TooLong(length)));
    }
    let line = read(source, at, length as usize);
    (line.len() as u64 == length).then(|| take(Line::Whole(&line)))
}

/// From some line on towards the end, as far as there are whole lines; at first from the begin.
#[derive(Clone, Debug, Default)]
pub struct Forward {
    /// Where the next line begins.
    at: u64,
    /// No newline stands between `at` and here.
    seen: u64,
    proof: Vec<u8>,
}

impl Forward {
    pub fn from(at: u64, source: &impl Bytes) -> Forward {
        let mut forward = Forward { at, seen: at, proof: Vec::new() };
        forward.take_proof(source);
        forward
    }

    /// Nothing is known up to `end` that was not looked at.
    pub fn is_through(&self, end: u64) -> bool {
        self.seen >= end
    }

    /// Whether what was read still stands before the position, in a file that is so long.
    pub fn fits(&self, source: &impl Bytes, length: u64) -> bool {
        let proof = self.proof.len() as u64;
        length >= self.at && read(source, self.at - proof, self.proof.len()) == self.proof
    }

    /// The file was cut or rewritten behind the last whole line.
    pub fn look_again(&mut self, length: u64) {
        if length < self.seen {
            self.seen = self.at;
        }
    }

    fn take_proof(&mut self, source: &impl Bytes) {
        let length = self.at.min(PROOF as u64);
        self.proof = read(source, self.at - length, length as usize);
    }

    /// Takes the lines of one piece, until `take` has had enough. What stands between `end` and the
    /// last newline is half written. False when the source cannot be read any more.
    pub fn step(
        &mut self,
        source: &impl Bytes,
        end: u64,
        mut take: impl FnMut(Line) -> ControlFlow<()>,
    ) -> bool {
        let length = end.saturating_sub(self.seen).min(PIECE as u64) as usize;
        let piece = read(source, self.seen, length);
        let Some(first) = memchr(b'\n', &piece) else {
            self.seen += piece.len() as u64;
            return piece.len() == length;
        };
        let mut rest = &piece[..];
        if self.at < self.seen {
            // Begun in an earlier piece, so it is read once more as a whole.
            let newline = self.seen + first as u64;
            let Some(flow) = with_line(source, self.at, newline, &mut take) else { return false };
            self.at = newline + 1;
            rest = if flow.is_break() { &[] } else { &piece[first + 1..] };
        }
        while let Some(length) = memchr(b'\n', rest) {
            let flow = take(Line::Whole(&rest[..length]));
            self.at += length as u64 + 1;
            rest = &rest[length + 1..];
            if flow.is_break() {
                break;
            }
        }
        self.seen = self.at;
        self.take_proof(source);
        true
    }
}

/// Where the last so many things begin.
#[derive(Debug, PartialEq, Eq)]
pub struct Start {
    /// A line begins here.
    pub at: u64,
    /// So many of that line are more than were wanted.
    pub surplus: u64,
    /// There was more to look through than [`BACK_MOST`].
    pub cut_off: bool,
}

/// From the end backwards, until enough was found.
#[derive(Clone, Debug)]
pub struct Backward {
    wanted: u64,
    found: u64,
    floor: u64,
    /// Looked through down to here.
    at: u64,
    /// The newline that ends the line which is being looked for the begin of.
    newline: Option<u64>,
    length: u64,
}

impl Backward {
    pub fn from(length: u64, wanted: u64) -> Backward {
        let floor = length.saturating_sub(BACK_MOST);
        Backward { wanted, found: 0, floor, at: length, newline: None, length }
    }

    /// Looks through one piece. `worth`: how many of what is wanted a line holds.
    pub fn step(&mut self, source: &impl Bytes, mut worth: impl FnMut(Line) -> u64) -> Option<Start> {
        let from = self.at.saturating_sub(PIECE as u64).max(self.floor);
        let piece = read(source, from, (self.at - from) as usize);
        if (piece.len() as u64) < self.at - from {
            // Cut meanwhile. Whoever follows it finds out; whoever does not has nothing to read.
            return Some(Start { at: self.length, surplus: 0, cut_off: false });
        }
        for newline in memrchr_iter(b'\n', &piece).map(|i| from + i as u64) {
            if let Some(start) = self.line_from(newline + 1, source, &mut worth) {
                return Some(start);
            }
            self.newline = Some(newline);
        }
        self.at = from;
        if self.at > self.floor {
            return None;
        }
        if self.floor == 0 {
            return self.line_from(0, source, &mut worth).or(self.start(0, 0));
        }
        // Within a line, of which nobody knows where it begins.
        let at = self.newline.map_or(self.length, |newline| newline + 1);
        Some(Start { at, surplus: 0, cut_off: true })
    }

    fn start(&self, at: u64, surplus: u64) -> Option<Start> {
        Some(Start { at, surplus, cut_off: false })
    }

    /// A line begins here. The end of enough?
    fn line_from(
        &mut self,
        at: u64,
        source: &impl Bytes,
        worth: &mut impl FnMut(Line) -> u64,
    ) -> Option<Start> {
        if self.wanted == 0 {
            return self.start(at, 0);
        }
        // The first one from the end has none yet: it is half written.
        let newline = self.newline?;
        self.found += with_line(source, at, newline, worth).unwrap_or(0);
        if self.found >= self.wanted { self.start(at, self.found - self.wanted) } else { None }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
