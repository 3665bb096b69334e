//! The agent's output for terminals that are not to be asked anything: byte for byte the same, but
//! for what makes a terminal answer. Somebody else answers, once.
//!
//! A sequence that a read cut in two is held back until its end is known, so that a terminal may
//! begin to be told between any two calls. What is too long to be held back is passed on or left out
//! by its beginning.

use super::queries::{self, Fate};

/// More than any control sequence needs that is obeyed.
const LONGEST_SEQUENCE: usize = 512;
/// Enough for a question about every colour there is.
const LONGEST_STRING: usize = 16 * 1024;
const ESC: u8 = 0x1b;
const ENQ: u8 = 0x05;
/// Means nothing by itself. Behind half a character it keeps what comes behind a question, which is
/// taken out, from being its other half.
const CAN: u8 = 0x18;
/// Introduces the controls from 0x80 to 0x9f in UTF-8. Some terminals obey them; the emulator does not.
const C1: u8 = 0xc2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Ground,
    Escape,
    EscapeBetween,
    Csi,
    /// Too long.
    LostCsi,
    String(Kind),
    /// Of a string within tmux's own, in which ESC comes twice.
    Wrapped {
        escaped: bool,
    },
    /// A string that is too long to be held back: the rest is passed on as it comes, or left out.
    Passing(Kind),
    Leaving(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Osc,
    Dcs,
    Apc,
    /// SOS, PM.
    Other,
}

#[derive(Debug, Default)]
pub struct Quiet {
    at: At,
    /// From the ESC of an unfinished sequence on, or the beginning of a character.
    held: Vec<u8>,
    /// The end of the string before was said, or is not to be: its backslash goes unsaid.
    leaves_end: bool,
    /// What became of the last picture: its other parts go the same way.
    passes_picture: bool,
}

impl Quiet {
    /// Whoever is told from here on misses nothing that is under way.
    pub fn is_between(&self) -> bool {
        !matches!(self.at, At::Passing(_))
    }

    /// What of it may be said now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + self.held.len());
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let taken = match self.at {
                At::Ground => self.ground(rest, &mut out),
                At::String(kind) => self.string(kind, rest, &mut out),
                At::Passing(kind) | At::Leaving(kind) => self.long_string(kind, rest, &mut out),
                At::Wrapped { escaped } => {
                    self.wrapped(escaped, first, &mut out);
                    1
                }
                At::Escape | At::EscapeBetween | At::Csi | At::LostCsi => self.sequence(first, &mut out),
            };
            rest = &rest[taken..];
        }
        out
    }

    fn ground(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        if !self.held.is_empty() {
            return self.complete(bytes[0], out);
        }
        let run = memchr::memchr3(ESC, ENQ, C1, bytes).unwrap_or(bytes.len());
        if run == bytes.len() {
            let whole = run - unfinished(bytes);
            out.extend_from_slice(&bytes[..whole]);
            self.held.extend_from_slice(&bytes[whole..]);
            return run;
        }
        out.extend_from_slice(&bytes[..run]);
        if unfinished(&bytes[..run]) > 0 {
            out.push(CAN);
        }
        match bytes[run] {
            ESC => {
                self.held.push(ESC);
                self.at = At::Escape;
            }
            C1 => self.held.push(C1),
            _ => {}
        }
        run + 1
    }

    /// The next byte behind the beginning of a character.
    fn complete(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        if self.held == [C1] && matches!(byte, 0x80..=0x9f) {
            self.held.clear();
            return 1;
        }
        if matches!(byte, 0x80..=0xbf) {
            self.held.push(byte);
            if unfinished(&self.held) == 0 {
                out.append(&mut self.held);
            }
            return 1;
        }
        // No character: shown as whatever the terminal shows for it.
        out.append(&mut self.held);
        if matches!(byte, ESC | ENQ | C1) {
            out.push(CAN);
        }
        0
    }

    fn sequence(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        let leaves_end = std::mem::take(&mut self.leaves_end);
        match (self.at, byte) {
            // It means nothing without its end; before a question that is taken out it would find one.
            (_, ESC) => {
                self.take_out();
                self.go(At::Escape, ESC);
            }
            (_, CAN | 0x1a) => {
                self.held.push(byte);
                self.release(out);
            }
            (_, ENQ) => {}
            // Some terminals would go on with the sequence, the emulator goes on with the text.
            (_, 0x80..) => {
                self.take_out();
                // One that begins no character is part of the sequence that it broke.
                return usize::from(byte < 0xc2);
            }
            // Obeyed at once, wherever it stands: it may as well come before the sequence.
            (_, 0x00..0x20) => out.push(byte),
            (_, 0x7f) => {}
            (At::Escape, b'[') => self.go(At::Csi, byte),
            (At::Escape, b']') => self.go(At::String(Kind::Osc), byte),
            (At::Escape, b'P') => self.go(At::String(Kind::Dcs), byte),
            (At::Escape, b'_') => self.go(At::String(Kind::Apc), byte),
            (At::Escape, b'X' | b'^') => self.go(At::String(Kind::Other), byte),
            (At::EscapeBetween, b' '..=b'/') if self.held.len() == LONGEST_SEQUENCE => {}
            (At::Escape | At::EscapeBetween, b' '..=b'/') => self.go(At::EscapeBetween, byte),
            (At::Escape, b'\\') if leaves_end => self.take_out(),
            // What are you, in the VT52's way.
            (At::Escape, b'Z') => self.take_out(),
            (At::Csi, 0x40..) => match queries::csi(&self.held[2..], byte) {
                Fate::Passes => {
                    self.held.push(byte);
                    self.release(out);
                }
                Fate::Taken => self.take_out(),
                Fate::Becomes(other) => {
                    self.take_out();
                    out.extend(other);
                }
            },
            (At::Csi, _) if self.held.len() < LONGEST_SEQUENCE => self.held.push(byte),
            (At::Csi, _) => self.at = At::LostCsi,
            (At::LostCsi, 0x40..) => self.take_out(),
            (At::LostCsi, _) => {}
            (At::Escape | At::EscapeBetween, _) => {
                self.held.push(byte);
                self.release(out);
            }
            (At::Ground | At::String(_) | At::Wrapped { .. } | At::Passing(_) | At::Leaving(_), _) => {}
        }
        1
    }

    fn go(&mut self, at: At, byte: u8) {
        self.held.push(byte);
        self.at = at;
    }

    fn release(&mut self, out: &mut Vec<u8>) {
        match self.at {
            At::LostCsi => self.take_out(),
            _ => out.append(&mut self.held),
        }
        self.at = At::Ground;
    }

    fn take_out(&mut self) {
        self.held.clear();
        self.at = At::Ground;
    }

    fn string(&mut self, kind: Kind, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let run = bytes.iter().position(|byte| ends(*byte, kind)).unwrap_or(bytes.len());
        let room = LONGEST_STRING.saturating_sub(self.held.len());
        self.held.extend_from_slice(&bytes[..run.min(room)]);
        if kind == Kind::Dcs && self.held.starts_with(b"\x1bPtmux;") {
            self.at = At::Wrapped { escaped: false };
            return run.min(room);
        }
        if run > room {
            self.at =
                match self.is_question(kind) || kind == Kind::Osc && queries::may_ask_late(&self.held[2..]) {
                    true => At::Leaving(kind),
                    false => At::Passing(kind),
                };
            let held = std::mem::take(&mut self.held);
            if let At::Passing(_) = self.at {
                out.extend(held);
            }
            return room;
        }
        let Some(&end) = bytes.get(run) else { return run };
        let passes = !self.is_question(kind);
        let held = std::mem::take(&mut self.held);
        if passes {
            out.extend(held);
        }
        self.end_string(end, passes, out);
        run + 1
    }

    /// Behind a string: what ended it goes the same way.
    fn end_string(&mut self, end: u8, passes: bool, out: &mut Vec<u8>) {
        self.at = At::Ground;
        if end == ESC {
            self.held.push(ESC);
            self.at = At::Escape;
            self.leaves_end = true;
        }
        if passes {
            // An ESC may begin a question: the string must not wait for what is left of that.
            out.extend_from_slice(if end == ESC { b"\x1b\\" } else { std::slice::from_ref(&end) });
        }
    }

    fn long_string(&mut self, kind: Kind, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let passes = matches!(self.at, At::Passing(_));
        let run = bytes.iter().position(|byte| ends(*byte, kind)).unwrap_or(bytes.len());
        if passes {
            out.extend_from_slice(&bytes[..run]);
        }
        let Some(&end) = bytes.get(run) else { return run };
        self.end_string(end, passes, out);
        run + 1
    }

    fn is_question(&mut self, kind: Kind) -> bool {
        let data = &self.held[2..];
        match kind {
            Kind::Osc => queries::osc(data),
            Kind::Dcs => queries::dcs(data),
            Kind::Apc => match data {
                [b'G', picture @ ..] => {
                    let silent = queries::is_silent_picture(picture);
                    self.passes_picture =
                        silent || self.passes_picture && queries::continues_picture(picture);
                    !self.passes_picture
                }
                _ => false,
            },
            Kind::Other => false,
        }
    }

    /// tmux hands the inside on to its own terminal: then that must not be asked either.
    fn wrapped(&mut self, escaped: bool, byte: u8, out: &mut Vec<u8>) {
        if self.held.len() >= LONGEST_STRING {
            self.held.truncate(LONGEST_STRING);
        }
        self.held.push(byte);
        self.at = At::Wrapped { escaped: byte == ESC && !escaped };
        if matches!(byte, CAN | 0x1a) {
            self.take_out();
        } else if escaped && byte == b'\\' {
            let held = std::mem::take(&mut self.held);
            self.at = At::Ground;
            if held.len() < LONGEST_STRING && !asks_inside(&held) {
                out.extend(held);
            }
        }
    }
}

fn ends(byte: u8, kind: Kind) -> bool {
    matches!(byte, CAN | 0x1a | ESC) || byte == 0x07 && kind == Kind::Osc
}

/// `ESC P tmux; … ESC \`, in which each ESC stands twice.
fn asks_inside(wrapped: &[u8]) -> bool {
    let inside = wrapped.strip_prefix(b"\x1bPtmux;").and_then(|rest| rest.strip_suffix(b"\x1b\\"));
    let mut single = Vec::new();
    let mut bytes = inside.unwrap_or_default().iter().peekable();
    while let Some(&byte) = bytes.next() {
        single.push(byte);
        if byte == ESC {
            bytes.next_if(|next| **next == ESC);
        }
    }
    // What does not end inside cannot be judged.
    let mut quiet = Quiet::default();
    quiet.feed(&single) != single
}

/// How many bytes at the end are a character that may go on.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(lead) = tail.iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    let needs = match tail[lead] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    };
    let begun = &tail[lead..];
    let goes_on = begun[1..].iter().all(|byte| matches!(byte, 0x80..=0xbf));
    if goes_on && begun.len() < needs { begun.len() } else { 0 }
}

#[cfg(test)]
#[path = "quiet_tests.rs"]
mod tests;
