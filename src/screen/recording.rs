//! What becomes of a stream of bytes on its way into a recording: whole characters, without
//! secrets, each with the time at which it came. Pure: bytes and times in, lines out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::asciicast::{Kind, Lines};
use super::veil::{Unwritten, Veil};

/// How long anything may stay unwritten; what is held back as well. Below the second that a kill
/// may cost, with time to spare for a busy machine.
const PATIENCE: Duration = Duration::from_millis(700);
/// How much memory what is unwritten may take.
const FULL: usize = 64 * 1024;

/// What has happened and is not written yet.
#[derive(Default)]
pub struct Recording {
    /// The texts of all events, one behind the other.
    text: Unwritten,
    events: VecDeque<Event>,
    output: Stream,
    input: Stream,
    secrets: Vec<String>,
}

struct Event {
    at: Instant,
    kind: Kind,
    start: u64,
    end: u64,
}

/// How much of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// All but what is held back and need not come yet.
    Settled,
    All,
}

impl Recording {
    pub fn output(&mut self, bytes: &[u8], now: Instant) {
        self.stream(Kind::Output, bytes, now);
    }

    pub fn input(&mut self, bytes: &[u8], now: Instant) {
        self.stream(Kind::Input, bytes, now);
    }

    fn stream(&mut self, kind: Kind, bytes: &[u8], now: Instant) {
        let start = self.text.end();
        let stream = if kind == Kind::Input { &mut self.input } else { &mut self.output };
        stream.decoder.decode(bytes, &mut self.text);
        stream.veil.look(&mut self.text, start);
        self.add(kind, start, now);
    }

    pub fn resize(&mut self, cols: u16, rows: u16, now: Instant) {
        self.line(Kind::Resize, &format!("{cols}x{rows}"), now);
    }

    pub fn marker(&mut self, label: &str, now: Instant) {
        self.line(Kind::Marker, label, now);
    }

    fn line(&mut self, kind: Kind, text: &str, now: Instant) {
        let start = self.text.end();
        self.text.push(text.as_bytes());
        self.add(kind, start, now);
    }

    fn add(&mut self, kind: Kind, start: u64, at: Instant) {
        let end = self.text.end();
        if end > start {
            self.events.push_back(Event { at, kind, start, end });
        }
    }

    /// The agent has ended: what it began will not be finished.
    pub fn end_streams(&mut self, now: Instant) {
        for kind in [Kind::Output, Kind::Input] {
            let start = self.text.end();
            let stream = if kind == Kind::Input { &mut self.input } else { &mut self.output };
            stream.decoder.finish(&mut self.text);
            stream.veil.look(&mut self.text, start);
            stream.veil.begin_anew();
            self.add(kind, start, now);
        }
    }

    /// From now on. Others than before end the search for those.
    pub fn hide(&mut self, secrets: Vec<String>) {
        if secrets != self.secrets {
            for stream in [&mut self.output, &mut self.input] {
                stream.veil.release(&mut self.text);
                stream.veil = Veil::new(&secrets);
            }
            self.secrets = secrets;
        }
    }

    /// When the first of what is unwritten happened.
    pub fn oldest(&self) -> Option<Instant> {
        self.events.front().map(|event| event.at)
    }

    /// When something has to be written at the latest; none when nothing is unwritten.
    pub fn deadline(&self) -> Option<Instant> {
        self.oldest().map(|at| at + PATIENCE)
    }

    pub fn is_full(&self) -> bool {
        self.text.len() + self.events.len() * size_of::<Event>() >= FULL
    }

    /// Moves what can be written into `lines`.
    pub fn take(&mut self, take: Take, now: Instant, lines: &mut Lines) {
        let is_full = self.is_full();
        let held = [self.output.veil.held_from(), self.input.veil.held_from()];
        for (stream, held) in [&mut self.output, &mut self.input].into_iter().zip(held) {
            let Some(held) = held else { continue };
            let came = self.events.iter().position(|event| held < event.end);
            // Sequences and frames that never end behind a letter must not fill the memory.
            let too_much = is_full && came == Some(0);
            let too_late = came.is_none_or(|at| self.events[at].at + PATIENCE <= now);
            if take == Take::All || too_much || too_late {
                stream.veil.release(&mut self.text);
            }
        }
        let held = [self.output.veil.held_from(), self.input.veil.held_from()];
        let until = held.into_iter().flatten().min().unwrap_or(self.text.end());
        while let Some(event) = self.events.pop_front_if(|event| event.end <= until) {
            lines.event(event.at, event.kind, self.text.between(event.start, event.end));
        }
        // An event is not torn: all of it waits for its end.
        self.text.forget(self.events.front().map_or(self.text.end(), |event| event.start));
    }
}

#[derive(Default)]
struct Stream {
    decoder: Decoder,
    veil: Veil,
}

/// Makes whole characters of bytes, wherever reads have split them.
#[derive(Default)]
struct Decoder {
    partial: Vec<u8>,
}

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

impl Decoder {
    fn decode(&mut self, mut bytes: &[u8], out: &mut Unwritten) {
        while !self.partial.is_empty() {
            let Some((&byte, rest)) = bytes.split_first() else { return };
            self.partial.push(byte);
            match std::str::from_utf8(&self.partial) {
                Ok(_) => out.push(&self.partial),
                Err(error) if error.error_len().is_none() => {
                    bytes = rest;
                    continue;
                }
                Err(_) => {
                    // The byte begins something else.
                    self.finish(out);
                    continue;
                }
            }
            bytes = rest;
            self.partial.clear();
        }
        loop {
            let Err(error) = std::str::from_utf8(bytes) else { return out.push(bytes) };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            out.push(valid);
            let Some(length) = error.error_len() else { return self.partial.extend_from_slice(rest) };
            out.push(REPLACEMENT);
            bytes = &rest[length..];
        }
    }

    fn finish(&mut self, out: &mut Unwritten) {
        if !self.partial.is_empty() {
            out.push(REPLACEMENT);
            self.partial.clear();
        }
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
