//! Ctrl with one other key, in whatever way a terminal sends it: as a control byte, and as the kitty
//! protocol (`CSI 92;5u`) and modifyOtherKeys (`CSI 27;5;92~`) have it.

use std::fmt;

/// Caps lock and num lock, which change no chord.
const LOCKS: u32 = 64 | 128;
const CTRL: u32 = 4;
const SHIFT: u32 = 1;
/// Shift, Ctrl and their like by themselves, which a terminal may be asked to send too.
const MODIFIERS: std::ops::RangeInclusive<u32> = 57441..=57454;
/// No key's sequence is longer.
const LONGEST: usize = 64;
const PASTE: (&[u8], &[u8]) = (b"\x1b[200~", b"\x1b[201~");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord(u8);

impl Chord {
    pub const BACKSLASH: Chord = Chord(b'\\');
    pub const SUSPEND: Chord = Chord(b'z');
    pub const INTERRUPT: Chord = Chord(b'c');

    /// `ctrl-x`. Not those that are keys of their own: Esc, Tab, Enter and Backspace.
    pub fn parse(text: &str) -> Option<Chord> {
        let key = text.strip_prefix("ctrl-")?.as_bytes();
        match key {
            [key @ (b'a'..=b'z' | b'\\' | b']' | b'^' | b'_')] if !b"hijm".contains(key) => Some(Chord(*key)),
            _ => None,
        }
    }

    /// As people write it.
    pub fn title(self) -> String {
        format!("Ctrl-{}", char::from(self.0.to_ascii_uppercase()))
    }

    fn byte(self) -> u8 {
        self.0 & 0x1f
    }

    /// What `key` does with it, if it is this one.
    pub fn of(self, key: &[u8]) -> Option<Stroke> {
        if key == [self.byte()] {
            return Some(Stroke::Press);
        }
        let (body, last) = match key {
            [0x1b, b'[', body @ .., last] => (std::str::from_utf8(body).ok()?, *last),
            _ => return None,
        };
        let mut params =
            body.split(';').map(|param| param.split(':').map(|number| number.parse::<u32>().ok()));
        let (mut first, mut second) = (params.next()?, params.next()?);
        let (code, shifted, base) = (first.next()??, first.next().flatten(), first.next().flatten());
        let (modifiers, event) = (second.next()??.checked_sub(1)? & !LOCKS, second.next().flatten());
        let this = u32::from(self.0);
        let is_this = match (last, code) {
            (b'u', _) if modifiers == CTRL => code == this || base == Some(this),
            (b'u', _) => modifiers == CTRL | SHIFT && shifted == Some(this),
            (b'~', 27) => modifiers == CTRL && params.next()?.next()?? == this,
            _ => false,
        };
        is_this.then_some(match event {
            None | Some(0 | 1) => Stroke::Press,
            Some(2) => Stroke::Repeat,
            Some(_) => Stroke::Release,
        })
    }

    /// Everything but this one, and how often it was pressed.
    pub fn taken_out_of(self, typed: &[u8]) -> (Vec<u8>, usize) {
        let (mut left, mut presses) = (Vec::new(), 0);
        let mut rest = typed;
        while let Some(key) = next_key(rest) {
            match self.of(key.bytes()) {
                Some(Stroke::Press) => presses += 1,
                Some(Stroke::Repeat | Stroke::Release) => {}
                None => left.extend_from_slice(key.bytes()),
            }
            rest = &rest[key.bytes().len()..];
        }
        (left, presses)
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ctrl-{}", char::from(self.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    Press,
    Repeat,
    Release,
}

/// The next of what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    Whole(&'a [u8]),
    /// A sequence whose end is still to come. An ESC alone is none: it is a key.
    Open(&'a [u8]),
}

impl<'a> Key<'a> {
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Key::Whole(bytes) | Key::Open(bytes) => bytes,
        }
    }
}

pub fn next_key(typed: &[u8]) -> Option<Key<'_>> {
    let first = typed.first()?;
    if *first != 0x1b || typed.get(1) != Some(&b'[') {
        return Some(Key::Whole(&typed[..1]));
    }
    let params = typed[2..].iter().take_while(|byte| matches!(byte, 0x20..0x40)).count();
    Some(match typed.get(2 + params) {
        _ if params > LONGEST => Key::Whole(&typed[..1]),
        Some(0x40..=0x7e) => Key::Whole(&typed[..3 + params]),
        Some(_) => Key::Whole(&typed[..1]),
        None => Key::Open(typed),
    })
}

/// Whether it is Shift, Ctrl or another of them alone, pressed or let go.
pub fn is_modifier(key: &[u8]) -> bool {
    let body = key.strip_prefix(b"\x1b[").and_then(|rest| rest.strip_suffix(b"u"));
    let code = body.and_then(|body| body.split(|byte| matches!(byte, b';' | b':')).next());
    let code = code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| code.parse().ok());
    code.is_some_and(|code: u32| MODIFIERS.contains(&code))
}

pub fn begins_paste(key: &[u8]) -> bool {
    key == PASTE.0
}

pub fn ends_paste(key: &[u8]) -> bool {
    key == PASTE.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chord_is_known_in_every_form() {
        let (press, repeat, release) = (Some(Stroke::Press), Some(Stroke::Repeat), Some(Stroke::Release));
        for (key, stroke) in [
            ("\x1c", press),
            ("\x1b[92;5u", press),
            ("\x1b[92;5:1u", press),
            ("\x1b[92;69u", press),
            ("\x1b[92;133:1u", press),
            ("\x1b[92;197u", press),
            ("\x1b[92;5:2u", repeat),
            ("\x1b[92;5:3u", release),
            ("\x1b[92:124;5;92u", press),
            ("\x1b[35::92;5u", press),
            ("\x1b[55:92;6u", press),
            ("\x1b[27;5;92~", press),
            ("\x1b[92u", None),
            ("\x1b[92;1u", None),
            ("\x1b[92;7u", None),
            ("\x1b[92;0u", None),
            ("\x1b[92;6u", None),
            ("\x1b[122;5u", None),
            ("\x1b[27;5;122~", None),
            ("\x1b[27;2;92~", None),
            ("\x1b[5;5~", None),
            ("\\", None),
            ("\x1b", None),
        ] {
            assert_eq!(Chord::BACKSLASH.of(key.as_bytes()), stroke, "{key:?}");
        }
        assert_eq!(Chord::SUSPEND.of(b"\x1a"), press);
        assert_eq!(Chord::SUSPEND.of(b"\x1b[122;5u"), press);
    }

    #[test]
    fn only_chords_that_are_no_keys_of_their_own_can_be_chosen() {
        for text in ["ctrl-\\", "ctrl-a", "ctrl-]", "ctrl-^", "ctrl-_"] {
            assert_eq!(Chord::parse(text).unwrap().to_string(), text);
        }
        for text in ["ctrl-[", "ctrl-i", "ctrl-m", "ctrl-A", "ctrl-", "ctrl-ab", "\\", "", "alt-x", "ctrl-é"]
        {
            assert_eq!(Chord::parse(text), None, "{text}");
        }
        assert_eq!(Chord::parse("ctrl-b").unwrap().title(), "Ctrl-B");
    }

    #[test]
    fn what_is_typed_is_cut_into_keys() {
        let (mut rest, mut keys) = (b"a\x1b[A\x1b[1;5C\x1bOPx\x1b\xe4\x1b[92;".as_slice(), vec![]);
        while let Some(key) = next_key(rest) {
            rest = &rest[key.bytes().len()..];
            keys.push(key);
        }
        let whole = |text: &'static [u8]| Key::Whole(text);
        let expected = [
            whole(b"a"),
            whole(b"\x1b[A"),
            whole(b"\x1b[1;5C"),
            whole(b"\x1b"),
            whole(b"O"),
            whole(b"P"),
            whole(b"x"),
            whole(b"\x1b"),
            whole(b"\xe4"),
            Key::Open(b"\x1b[92;"),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_chord_is_taken_out_and_the_rest_stays() {
        let typed = b"ls\x1a\x1b[A\x1b[122;5:1u\x1b[122;5:3u\x1b[27;5;122~\x1b";
        assert_eq!(Chord::SUSPEND.taken_out_of(typed), (b"ls\x1b[A\x1b".to_vec(), 3));
        assert_eq!(Chord::SUSPEND.taken_out_of(b"plain z"), (b"plain z".to_vec(), 0));
        assert!(
            is_modifier(b"\x1b[57442;5u") && is_modifier(b"\x1b[57442;5:3u") && !is_modifier(b"\x1b[97;5u")
        );
    }
}
