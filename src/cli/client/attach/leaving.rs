//! The key that leaves, pressed twice: found in what is typed, and kept from the agent. Pure.

use std::time::{Duration, Instant};

use crate::screen::chord::{self, Chord, Key, Stroke};

/// How long after the first press the second may come.
const TWICE: Duration = Duration::from_millis(500);
/// How long a sequence may stand half read: it comes in one piece, but for slow lines.
const WHOLE: Duration = Duration::from_millis(50);

/// Looks at all that is typed.
pub struct Leaving {
    chord: Chord,
    /// The first press and what came with it.
    first: Option<(Vec<u8>, Instant)>,
    /// A sequence without its end.
    open: Option<(Vec<u8>, Instant)>,
    /// What is pasted is not pressed.
    pastes: bool,
}

/// What is to be done with what was typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// For the agent.
    pub bytes: Vec<u8>,
    pub leaves: bool,
}

impl Leaving {
    pub fn by(chord: Chord) -> Leaving {
        Leaving { chord, first: None, open: None, pastes: false }
    }

    pub fn typed(&mut self, bytes: &[u8], now: Instant) -> Typed {
        let mut typed = self.due(now);
        let mut all = self.open.take().map_or_else(Vec::new, |(open, _)| open);
        all.extend_from_slice(bytes);
        let mut rest = &all[..];
        while let Some(key) = chord::next_key(rest) {
            rest = &rest[key.bytes().len()..];
            match key {
                Key::Open(bytes) => self.open = Some((bytes.to_vec(), now + WHOLE)),
                Key::Whole(key) => {
                    if self.takes(key, now, &mut typed.bytes) {
                        return Typed { leaves: true, ..typed };
                    }
                }
            }
        }
        typed
    }

    /// True when it is the second press.
    fn takes(&mut self, key: &[u8], now: Instant, out: &mut Vec<u8>) -> bool {
        if self.pastes || chord::begins_paste(key) {
            self.pastes = !chord::ends_paste(key);
            self.let_go(out);
            out.extend_from_slice(key);
            return false;
        }
        match (self.chord.of(key), &mut self.first) {
            (Some(Stroke::Press), Some(_)) => return true,
            (Some(Stroke::Press), None) => self.first = Some((key.to_vec(), now + TWICE)),
            // What belongs to the first press, or to the Ctrl that is held for the second.
            (Some(Stroke::Repeat | Stroke::Release), Some((held, _))) => held.extend_from_slice(key),
            (None, Some((held, _))) if chord::is_modifier(key) => held.extend_from_slice(key),
            (None | Some(Stroke::Repeat | Stroke::Release), _) => {
                self.let_go(out);
                out.extend_from_slice(key);
            }
        }
        false
    }

    fn let_go(&mut self, out: &mut Vec<u8>) {
        if let Some((held, _)) = self.first.take() {
            out.extend(held);
        }
    }

    /// When to call `due`.
    pub fn deadline(&self) -> Option<Instant> {
        self.first.iter().chain(&self.open).map(|(_, until)| *until).min()
    }

    /// What was held back long enough.
    pub fn due(&mut self, now: Instant) -> Typed {
        let mut bytes = Vec::new();
        if self.first.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.let_go(&mut bytes);
        }
        if self.open.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.let_go(&mut bytes);
            bytes.extend(self.open.take().into_iter().flat_map(|(open, _)| open));
        }
        Typed { bytes, leaves: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CTRL_BACKSLASH: [&str; 5] = ["\x1c", "\x1b[92;5u", "\x1b[92;5:1u", "\x1b[92;69u", "\x1b[27;5;92~"];

    fn bytes(text: &str) -> Typed {
        Typed { bytes: text.into(), leaves: false }
    }

    fn leaves(text: &str) -> Typed {
        Typed { bytes: text.into(), leaves: true }
    }

    #[test]
    fn twice_leaves_and_neither_press_reaches_the_agent() {
        let now = Instant::now();
        for key in CTRL_BACKSLASH {
            let mut leaving = Leaving::by(Chord::BACKSLASH);
            assert_eq!(leaving.typed(format!("ls{key}").as_bytes(), now), bytes("ls"), "{key:?}");
            let soon = now + TWICE - Duration::from_millis(1);
            assert_eq!(leaving.typed(format!("{key}more").as_bytes(), soon), leaves(""), "{key:?}");
            let mut at_once = Leaving::by(Chord::BACKSLASH);
            assert_eq!(at_once.typed(format!("a{key}{key}").as_bytes(), now), leaves("a"), "{key:?}");
        }
    }

    #[test]
    fn once_and_another_key_or_nothing_reaches_the_agent() {
        let now = Instant::now();
        for key in CTRL_BACKSLASH {
            let mut leaving = Leaving::by(Chord::BACKSLASH);
            assert_eq!(leaving.typed(format!("{key}x").as_bytes(), now), bytes(&format!("{key}x")));
            assert_eq!(
                (leaving.typed(key.as_bytes(), now), leaving.deadline()),
                (bytes(""), Some(now + TWICE))
            );
            assert_eq!(leaving.due(now + TWICE - Duration::from_millis(1)), bytes(""));
            assert_eq!(leaving.due(now + TWICE), bytes(key));
            assert_eq!(leaving.deadline(), None);
            assert_eq!(leaving.typed(key.as_bytes(), now), bytes(""), "counted anew");
        }
    }

    #[test]
    fn letting_go_of_keys_between_the_presses_does_not_matter() {
        let now = Instant::now();
        let mut leaving = Leaving::by(Chord::BACKSLASH);
        let between = "\x1b[92;5:2u\x1b[92;5:3u\x1b[57442;5:3u\x1b[57442;5:1u";
        assert_eq!(leaving.typed(format!("\x1b[92;5:1u{between}\x1b[92;5:1u").as_bytes(), now), leaves(""));
        let mut leaving = Leaving::by(Chord::BACKSLASH);
        let typed = format!("\x1b[92;5:1u{between}x");
        assert_eq!(leaving.typed(typed.as_bytes(), now), bytes(&typed), "all of it in its order");
    }

    #[test]
    fn a_sequence_in_two_reads_is_one() {
        let now = Instant::now();
        for cut in 2.."\x1b[92;5u".len() {
            let (begin, end) = "\x1b[92;5u".split_at(cut);
            let mut leaving = Leaving::by(Chord::BACKSLASH);
            assert_eq!(leaving.typed(b"\x1c", now), bytes(""));
            assert_eq!(leaving.typed(begin.as_bytes(), now), bytes(""));
            assert_eq!(leaving.typed(end.as_bytes(), now), leaves(""), "{begin:?}");
            let mut other = Leaving::by(Chord::BACKSLASH);
            assert_eq!(other.typed(begin.as_bytes(), now), bytes(""));
            assert_eq!(other.deadline(), Some(now + WHOLE));
            assert_eq!(other.due(now + WHOLE), bytes(begin), "the end never came");
        }
        // A key of its own is not kept waiting.
        let mut leaving = Leaving::by(Chord::BACKSLASH);
        assert_eq!((leaving.typed(b"\x1b", now), leaving.deadline()), (bytes("\x1b"), None));
    }

    #[test]
    fn what_is_pasted_is_not_pressed() {
        let now = Instant::now();
        let mut leaving = Leaving::by(Chord::BACKSLASH);
        let paste = "\x1b[200~a\x1c\x1cb\x1b[201~";
        assert_eq!(leaving.typed(paste.as_bytes(), now), bytes(paste));
        assert_eq!(leaving.typed(b"\x1c\x1c", now), leaves(""));
    }

    #[test]
    fn every_other_byte_passes() {
        let now = Instant::now();
        let all: Vec<u8> = (0..=255).filter(|byte| *byte != 0x1c).collect();
        let mut leaving = Leaving::by(Chord::BACKSLASH);
        assert_eq!(leaving.typed(&all, now).bytes, all);
        let mut other = Leaving::by(Chord::parse("ctrl-b").unwrap());
        assert_eq!(other.typed(b"\x1c\x1cx", now), bytes("\x1c\x1cx"));
        assert_eq!(other.typed(b"\x02\x02", now), leaves(""));
    }
}
