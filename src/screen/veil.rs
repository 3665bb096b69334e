//! Hides secrets in a stream, for a file that keeps what the stream said: a secret is found also
//! when it comes in pieces, however long the pause between them, with sequences between its
//! characters, or wrapped and framed by the program that shows it.
//!
//! Looks at every byte once, as it comes. What may turn out to be the beginning of a secret is
//! held back; whoever cannot wait any longer takes it by `release`.

use std::collections::VecDeque;

use super::line::is_frame;
use super::width;

/// Fewer characters of a secret's beginning may be shown: they tell nothing, and ordinary text ends
/// in one or two of them all the time.
const TELLING: usize = 4;
/// A secret with fewer characters apart from blanks and frames is looked for only as it is: without
/// them it would be found in ordinary words.
const LEAST_CORE: usize = 6;
/// Stands for nothing in `Unwritten`, where text is UTF-8 and never holds this byte.
pub const NOTHING: u8 = 0xff;

/// The end of a text, as far as it has not been written and can still be changed.
#[derive(Default)]
pub struct Unwritten {
    /// UTF-8 but for `NOTHING`, where a hidden character had more bytes than columns.
    bytes: Vec<u8>,
    /// How many went before.
    begin: u64,
}

impl Unwritten {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn between(&self, from: u64, to: u64) -> &[u8] {
        &self.bytes[(from - self.begin) as usize..(to - self.begin) as usize]
    }

    /// All before `to` is written.
    pub fn forget(&mut self, to: u64) {
        self.bytes.drain(..(to - self.begin) as usize);
        self.begin = to;
    }

    /// Puts an asterisk for each column of the character that begins at `at`. Of what is written
    /// already nothing can be taken back.
    fn hide(&mut self, at: u64) {
        let Some(at) = at.checked_sub(self.begin) else { return };
        let character = &mut self.bytes[at as usize..];
        match character[0] {
            0x00..0x80 => character[0] = b'*',
            first @ 0xc2..0xf5 => {
                let character = &mut character[..length(first)];
                let columns = decode(character).map_or(1, width);
                for (n, byte) in character.iter_mut().enumerate() {
                    *byte = if n < columns { b'*' } else { NOTHING };
                }
            }
            // The rest of a character that is hidden with its first byte.
            _ => {}
        }
    }
}

/// Bytes of the character that begins with this one.
fn length(first: u8) -> usize {
    match first {
        0x00..0xe0 => 1 + usize::from(first >= 0xc0),
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    }
}

fn decode(character: &[u8]) -> Option<char> {
    std::str::from_utf8(character).ok()?.chars().next()
}

/// Where in the grammar of a terminal the stream is: the same states as the parser's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Ground,
    Escape,
    EscapeBetween,
    Csi,
    Osc,
    /// DCS, SOS, PM, APC.
    String,
}

/// One stream's.
#[derive(Default)]
pub struct Veil {
    at: At,
    /// In what is shown: without sequences, controls, blanks and frames.
    text: Matcher,
    /// In a string sequence, a title or a link, by itself.
    string: Matcher,
    /// Byte by byte: where the parts of a sequence and of a secret cannot be told apart, as behind
    /// an Escape key.
    raw: Matcher,
    /// None without secrets.
    starts: Option<Starts>,
    /// What stands before has been taken, whatever becomes of it.
    released: u64,
}

impl Veil {
    pub fn new(secrets: &[String]) -> Veil {
        let secrets: Vec<Vec<u8>> =
            secrets.iter().map(|secret| secret.as_bytes().to_vec()).filter(|it| it.len() > 1).collect();
        if secrets.is_empty() {
            return Veil::default();
        }
        let is_telling = |core: &Vec<u8>| characters(core) >= LEAST_CORE;
        let cores: Vec<Vec<u8>> = secrets.iter().map(|it| core(it)).filter(is_telling).collect();
        Veil {
            starts: Some(Starts::of(secrets.iter().chain(&cores))),
            text: Matcher::new(&cores),
            string: Matcher::new(&cores),
            raw: Matcher::new(&secrets),
            ..Veil::default()
        }
    }

    /// The stream goes on in another terminal, which knows nothing of a sequence that was begun.
    pub fn begin_anew(&mut self) {
        self.at = At::Ground;
        self.string.reset();
    }

    /// What stands at the end of `text`, whole characters from `from` on, is new.
    pub fn look(&mut self, text: &mut Unwritten, from: u64) {
        if self.starts.is_none() {
            return;
        }
        let mut i = (from - text.begin) as usize;
        while i < text.bytes.len() {
            if let Some(starts) = self.starts.as_ref().filter(|_| self.is_idle()) {
                let Some(next) = starts.next(&text.bytes[i..]) else { return };
                i += next;
            }
            // A copy: a match hides it where it stands.
            let mut character = [0; 4];
            let length = length(text.bytes[i]).min(text.bytes.len() - i);
            character[..length].copy_from_slice(&text.bytes[i..i + length]);
            self.take(&character[..length], text.begin + i as u64, text);
            i += length;
        }
    }

    /// Nothing is under way.
    fn is_idle(&self) -> bool {
        let matcher = match self.at {
            At::Ground => &self.text,
            At::Osc | At::String => &self.string,
            At::Escape | At::EscapeBetween | At::Csi => return false,
        };
        matcher.longest == 0 && self.raw.longest == 0
    }

    fn take(&mut self, character: &[u8], at: u64, text: &mut Unwritten) {
        self.raw.feed(character, at, text);
        let first = character[0];
        match self.at {
            At::Ground => self.show(character, at, text),
            At::Osc | At::String => {
                let ends = matches!(first, 0x18 | 0x1a | 0x1b) || first == 0x07 && self.at == At::Osc;
                match ends {
                    true => {
                        self.string.reset();
                        self.at = if first == 0x1b { At::Escape } else { At::Ground };
                    }
                    false if is_passed_over(character) => {}
                    false => self.string.feed(character, at, text),
                }
            }
            At::Escape | At::EscapeBetween | At::Csi if first >= 0x80 => {
                // No sequence holds such a byte: the text goes on.
                self.at = At::Ground;
                self.show(character, at, text);
            }
            At::Escape | At::EscapeBetween | At::Csi => self.at = self.after(first),
        }
    }

    fn show(&mut self, character: &[u8], at: u64, text: &mut Unwritten) {
        match character[0] {
            0x1b => self.at = At::Escape,
            _ if is_passed_over(character) => {}
            _ => self.text.feed(character, at, text),
        }
    }

    /// A byte inside a sequence.
    fn after(&self, byte: u8) -> At {
        match (self.at, byte) {
            (_, 0x1b) => At::Escape,
            (_, 0x18 | 0x1a) => At::Ground,
            (at, 0x00..0x20 | 0x7f) => at,
            (At::Escape, b'[') => At::Csi,
            (At::Escape, b']') => At::Osc,
            (At::Escape, b'P' | b'X' | b'^' | b'_') => At::String,
            (At::Escape | At::EscapeBetween, b' '..=b'/') => At::EscapeBetween,
            (At::Csi, 0x20..0x40) => At::Csi,
            _ => At::Ground,
        }
    }

    /// From where on everything has to wait.
    pub fn held_from(&self) -> Option<u64> {
        let held = |matcher: &Matcher| {
            let taken = matcher.trail.partition_point(|at| *at < self.released);
            matcher.trail.get(taken).copied()
        };
        [&self.text, &self.string, &self.raw].into_iter().filter_map(held).min()
    }

    /// There is no more waiting: what is held is hidden if it tells something, and shown if not.
    /// Either way the match goes on, and of what follows nothing will be shown.
    pub fn release(&mut self, text: &mut Unwritten) {
        for matcher in [&self.text, &self.string, &self.raw] {
            matcher.hide_what_tells(text);
        }
        self.released = text.end();
    }
}

/// Where anything can begin; most of what goes by is passed over by it alone.
struct Starts {
    /// Bytes that begin a secret, a sequence, or end one.
    firsts: Box<[bool; 256]>,
    /// The first two bytes of each secret.
    pairs: Vec<[u8; 2]>,
}

impl Starts {
    fn of<'a>(secrets: impl Iterator<Item = &'a Vec<u8>>) -> Starts {
        let mut starts = Starts { firsts: Box::new([false; 256]), pairs: Vec::new() };
        for byte in [0x07, 0x18, 0x1a, 0x1b] {
            starts.firsts[byte] = true;
        }
        for secret in secrets {
            starts.firsts[usize::from(secret[0])] = true;
            starts.pairs.extend(secret.first_chunk());
        }
        starts
    }

    fn next(&self, text: &[u8]) -> Option<usize> {
        let mut from = 0;
        loop {
            let at = from + text[from..].iter().position(|byte| self.firsts[usize::from(*byte)])?;
            if !self.is_refuted(&text[at..]) {
                return Some(at);
            }
            from = at + 1;
        }
    }

    /// Whether the next character, blanks passed over, shows that nothing begins here. False where
    /// that is not easily told.
    fn is_refuted(&self, text: &[u8]) -> bool {
        let Some(next) = text.iter().skip(1).position(|byte| *byte != b' ') else { return false };
        let (first, second) = (text[0], text[1 + next]);
        first > b' '
            && (b'!'..=b'~').contains(&second)
            && second != b'|'
            && !self.pairs.contains(&[first, second])
            && !self.pairs.contains(&[first, b' '])
    }
}

/// Controls, and what programs put around text that they wrap themselves.
fn is_passed_over(character: &[u8]) -> bool {
    match *character {
        [byte] => byte <= b' ' || byte == 0x7f || byte == b'|',
        _ => decode(character).is_some_and(|c| c.is_control() || is_frame(c)),
    }
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// What of a secret a terminal would show as text that is neither blank nor a frame.
fn core(secret: &[u8]) -> Vec<u8> {
    let mut grammar = Veil::default();
    let (mut core, mut i) = (Vec::new(), 0);
    while i < secret.len() {
        let character = &secret[i..i + length(secret[i])];
        if grammar.at == At::Ground && character[0] != 0x1b && !is_passed_over(character) {
            core.extend_from_slice(character);
        }
        grammar.take(character, 0, &mut Unwritten::default());
        i += character.len();
    }
    core
}

/// Finds every occurrence of its patterns in what it is fed.
#[derive(Default)]
struct Matcher {
    patterns: Vec<Pattern>,
    /// How much of a pattern has been seen at the most, in bytes, and where each of them stands.
    longest: usize,
    trail: VecDeque<u64>,
}

/// A pattern and how much of it the last bytes were, after Knuth, Morris and Pratt.
struct Pattern {
    bytes: Vec<u8>,
    /// How much is still matched when this much was, and the next byte is another.
    fallback: Vec<usize>,
    matched: usize,
}

impl Matcher {
    fn new(patterns: &[Vec<u8>]) -> Matcher {
        let patterns = patterns.iter().map(|bytes| Pattern::new(bytes.clone())).collect();
        Matcher { patterns, ..Matcher::default() }
    }

    fn reset(&mut self) {
        self.patterns.iter_mut().for_each(|pattern| pattern.matched = 0);
        self.longest = 0;
        self.trail.clear();
    }

    /// One character that begins at `at`.
    fn feed(&mut self, character: &[u8], at: u64, text: &mut Unwritten) {
        for (at, byte) in (at..).zip(character) {
            let (before, mut found, mut longest) = (self.longest, 0, 0);
            for pattern in &mut self.patterns {
                if pattern.completes(*byte) {
                    found = found.max(pattern.bytes.len());
                }
                longest = longest.max(pattern.matched);
            }
            self.longest = longest;
            if (before, found, longest) == (0, 0, 0) {
                continue;
            }
            self.trail.push_back(at);
            for at in self.trail.iter().rev().take(found) {
                text.hide(*at);
            }
            if longest <= before {
                self.trail.drain(..self.trail.len() - longest);
            }
        }
    }

    fn hide_what_tells(&self, text: &mut Unwritten) {
        let seen = self.patterns.iter().map(|pattern| characters(&pattern.bytes[..pattern.matched])).max();
        if seen.is_some_and(|seen| seen >= TELLING) {
            for at in &self.trail {
                text.hide(*at);
            }
        }
    }
}

impl Pattern {
    fn new(bytes: Vec<u8>) -> Pattern {
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for n in 1..bytes.len() {
            while matched > 0 && bytes[n] != bytes[matched] {
                matched = fallback[matched - 1];
            }
            matched += usize::from(bytes[n] == bytes[matched]);
            fallback[n] = matched;
        }
        Pattern { bytes, fallback, matched: 0 }
    }

    fn completes(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fallback[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        let whole = self.matched == self.bytes.len();
        if whole {
            // The next one may begin inside this one.
            self.matched = self.fallback[self.matched - 1];
        }
        whole
    }
}

#[cfg(test)]
#[path = "veil_tests.rs"]
mod tests;
