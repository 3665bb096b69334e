//! What a human types, as far as agentsup has to understand it: which bytes are keys at all, and
//! whether an unsent draft stands in the agent's line.

use std::time::{Duration, Instant};

/// A terminal sends a sequence in one go. What follows an ESC later than this was typed.
const ONE_GO: Duration = Duration::from_millis(100);
/// No key and no report is longer; what claims to be is text that happens to look like one.
const LONGEST_SEQUENCE: usize = 64;
const LONGEST_STRING: usize = 4096;

/// What stands in the agent's line and was not sent, as far as the keys tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    chars: usize,
    /// A key brought text in whose length nobody knows: an older line, a yank.
    recalled: bool,
}

impl Draft {
    pub fn stands(self) -> bool {
        self.chars > 0 || self.recalled
    }

    /// It was sent, or the line is somebody else's now.
    pub fn end(&mut self) {
        *self = Draft::default();
    }

    /// Text that nobody typed stands in the line.
    pub fn begin(&mut self) {
        self.recalled = true;
    }

    fn take(&mut self, stroke: Stroke) {
        match stroke {
            Stroke::Text => self.chars += 1,
            Stroke::Erase => self.chars = self.chars.saturating_sub(1),
            Stroke::Recall => self.recalled = true,
            Stroke::Submit | Stroke::Cancel => self.end(),
            Stroke::Other | Stroke::Report => {}
        }
    }
}

/// One thing that came from the operator's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stroke {
    Text,
    Erase,
    Submit,
    Cancel,
    /// An older line comes back, or what was cut out.
    Recall,
    /// A key that changes no draft, or nobody knows how.
    Other,
    /// Not a key: the terminal speaks for itself.
    Report,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Ground,
    Escape,
    Csi,
    /// `CSI [`: a function key of the Linux console has one more byte.
    Console,
    Ss3,
    /// Bytes of a mouse report in the oldest form that are still to come.
    Mouse(u8),
    /// A string that answers a query, and whether its last byte was an ESC.
    String {
        escaped: bool,
    },
    /// A bracketed paste, and how much of its end was seen.
    Paste {
        seen: usize,
    },
}

const PASTE_END: &[u8] = b"\x1b[201~";

/// Follows one terminal.
#[derive(Debug, Default)]
pub struct Input {
    at: At,
    sequence: Vec<u8>,
    string: usize,
    last: Option<Instant>,
    /// The last character typed was a backslash: an Enter behind it begins a new line, in agents
    /// and in shells.
    backslash: bool,
}

impl Input {
    /// Bytes as they come from the terminal. True when a key was among them.
    pub fn feed(&mut self, bytes: &[u8], now: Instant, draft: &mut Draft) -> bool {
        let gap = self.last.replace(now).map(|last| now.saturating_duration_since(last));
        if gap.is_some_and(|gap| gap > ONE_GO) && !matches!(self.at, At::Ground | At::Paste { .. }) {
            self.at = At::Ground;
        }
        let mut keys = false;
        for byte in bytes {
            if let Some(stroke) = self.take(*byte) {
                keys |= stroke != Stroke::Report;
                draft.take(stroke);
            }
        }
        // An ESC by itself is a key as well, whatever comes behind it.
        keys || self.at == At::Escape && !bytes.is_empty()
    }

    /// Until when the rest of a sequence or a paste that has begun may come: who types now types into
    /// the middle of it.
    pub fn half_typed(&self) -> Option<Instant> {
        self.last.filter(|_| self.at != At::Ground).map(|last| last + ONE_GO)
    }

    fn take(&mut self, byte: u8) -> Option<Stroke> {
        let backslash = std::mem::replace(&mut self.backslash, self.at == At::Ground && byte == b'\\');
        match self.at {
            At::Ground => self.ground(byte, backslash),
            At::Escape => self.escape(byte),
            At::Csi => self.csi_byte(byte),
            At::Console => self.end(Stroke::Other),
            At::Ss3 => {
                let stroke = match byte {
                    b'A' | b'B' => Stroke::Recall,
                    b'M' => Stroke::Submit,
                    _ => Stroke::Other,
                };
                self.end(stroke)
            }
            At::Mouse(1) => self.end(Stroke::Report),
            At::Mouse(left) => {
                self.at = At::Mouse(left - 1);
                None
            }
            At::String { escaped } => {
                self.string += 1;
                if byte == 0x07 || escaped && byte == b'\\' || self.string > LONGEST_STRING {
                    return self.end(Stroke::Report);
                }
                self.at = At::String { escaped: byte == 0x1b };
                None
            }
            At::Paste { seen } => self.paste(seen, byte),
        }
    }

    fn end(&mut self, stroke: Stroke) -> Option<Stroke> {
        self.at = At::Ground;
        Some(stroke)
    }

    fn ground(&mut self, byte: u8, backslash: bool) -> Option<Stroke> {
        match byte {
            0x1b => {
                self.at = At::Escape;
                None
            }
            b'\r' if backslash => Some(Stroke::Text),
            // The rest of a character.
            0x80..=0xbf => None,
            0x20..=0x7e | 0xc0.. => Some(Stroke::Text),
            control => Some(of_control(control)),
        }
    }

    fn escape(&mut self, byte: u8) -> Option<Stroke> {
        self.at = match byte {
            b'[' => {
                self.sequence.clear();
                At::Csi
            }
            b'O' => At::Ss3,
            b'P' | b']' | b'_' | b'^' | b'X' => {
                self.string = 0;
                At::String { escaped: false }
            }
            0x1b => At::Escape,
            // Alt-Enter is a new line.
            b'\r' => return self.end(Stroke::Text),
            _ => return self.end(Stroke::Other),
        };
        (self.at == At::Escape).then_some(Stroke::Other)
    }

    fn csi_byte(&mut self, byte: u8) -> Option<Stroke> {
        self.sequence.push(byte);
        match byte {
            b'[' if self.sequence.len() == 1 => {
                self.at = At::Console;
                None
            }
            b'M' if self.sequence.len() == 1 => {
                self.at = At::Mouse(3);
                None
            }
            0x40..=0x7e => {
                self.at = At::Ground;
                let stroke = self.csi();
                if self.sequence == b"200~" {
                    self.at = At::Paste { seen: 0 };
                }
                Some(stroke)
            }
            0x20..=0x3f if self.sequence.len() < LONGEST_SEQUENCE => None,
            _ => self.end(Stroke::Other),
        }
    }

    fn paste(&mut self, before: usize, byte: u8) -> Option<Stroke> {
        let seen = match byte {
            _ if byte == PASTE_END[before] => before + 1,
            0x1b => 1,
            _ => 0,
        };
        if seen == PASTE_END.len() {
            return self.end(Stroke::Other);
        }
        self.at = At::Paste { seen };
        // What looked like the end and was none is text as well.
        let is_text = before > 0 && seen <= before || seen == 0 && !(0x80..=0xbf).contains(&byte);
        is_text.then_some(Stroke::Text)
    }

    /// What a whole control sequence means.
    fn csi(&self) -> Stroke {
        let (last, body) = self.sequence.split_last().expect("its last byte has just come");
        let marker = body.first().copied().filter(|b| matches!(b, b'<'..=b'?'));
        let params = Params::of(&body[usize::from(marker.is_some())..]);
        match (marker, last) {
            (Some(b'<'), b'M' | b'm') | (None, b'M') => Stroke::Report,
            (None, b'I' | b'O') if body.is_empty() => Stroke::Report,
            // Ctrl-F3 looks like a report of the cursor too; neither is text.
            (_, b'R') if !body.is_empty() => Stroke::Report,
            (_, b'c' | b'n' | b't') | (_, b'y') | (Some(_), _) => Stroke::Report,
            _ if params.is_release() => Stroke::Report,
            (None, b'A' | b'B') => Stroke::Recall,
            (None, b'u') => of_key(params.number(0), params.number(1)),
            (None, b'~') if params.number(0) == 27 => of_key(params.number(2), params.number(1)),
            _ => Stroke::Other,
        }
    }
}

/// `97;5:1;97`: numbers, of which some have others behind a colon.
struct Params<'a>(Vec<&'a [u8]>);

impl Params<'_> {
    fn of(bytes: &[u8]) -> Params<'_> {
        Params(bytes.split(|b| *b == b';').collect())
    }

    fn part(&self, n: usize, sub: usize) -> u32 {
        let part = self.0.get(n).and_then(|param| param.split(|b| *b == b':').nth(sub));
        let number = part.and_then(|part| std::str::from_utf8(part).ok()?.parse().ok());
        number.unwrap_or(0)
    }

    fn number(&self, n: usize) -> u32 {
        self.part(n, 0)
    }

    /// The kitty protocol can tell of keys that are let go.
    fn is_release(&self) -> bool {
        self.part(1, 1) == 3
    }
}

fn of_control(control: u8) -> Stroke {
    match control {
        b'\r' => Stroke::Submit,
        // Ctrl-J: a new line where Enter sends.
        b'\n' => Stroke::Text,
        // Ctrl-C, Ctrl-U
        0x03 | 0x15 => Stroke::Cancel,
        0x7f | 0x08 => Stroke::Erase,
        // Ctrl-P, Ctrl-N, Ctrl-R, Ctrl-Y
        0x10 | 0x0e | 0x12 | 0x19 => Stroke::Recall,
        _ => Stroke::Other,
    }
}

/// A key as the kitty protocol and modifyOtherKeys tell it: a code point, and modifiers plus one.
fn of_key(code: u32, modifiers: u32) -> Stroke {
    const SHIFT: u32 = 1;
    const CTRL: u32 = 4;
    const LOCKS: u32 = 64 | 128;
    /// Where the kitty protocol has its keys that are no characters.
    const FUNCTIONAL: std::ops::RangeInclusive<u32> = 57344..=63743;
    const KEYPAD_TEXT: std::ops::RangeInclusive<u32> = 57399..=57416;
    const KEYPAD_ENTER: u32 = 57414;
    const KEYPAD_UP: u32 = 57419;
    const KEYPAD_DOWN: u32 = 57420;
    let modifiers = modifiers.saturating_sub(1) & !LOCKS;
    match (code, modifiers) {
        (13 | KEYPAD_ENTER, 0) => Stroke::Submit,
        (13 | KEYPAD_ENTER, _) => Stroke::Text,
        (8 | 127, 0 | SHIFT) => Stroke::Erase,
        (KEYPAD_UP | KEYPAD_DOWN, _) => Stroke::Recall,
        (code, 0 | SHIFT) if KEYPAD_TEXT.contains(&code) => Stroke::Text,
        // The control that the same key is without the protocol.
        (0x61..=0x7a, CTRL) => of_control((code - 0x60) as u8),
        (code, 0 | SHIFT) if code >= 0x20 && !FUNCTIONAL.contains(&code) => Stroke::Text,
        _ => Stroke::Other,
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
