//! Which terminal modes the agent has switched on, so that they can be switched off when it is
//! suspended or dies without doing so, and on again when it continues.

use std::collections::BTreeMap;

/// Modes that would disturb whoever uses the terminal next.
const WATCHED: [u16; 24] = [
    1, 5, 6, 9, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1048, 1049, 2004, 2026,
    2027, 2031, 2048, 9001,
];
/// Modes that are on unless an agent switches them off.
const ON_BY_DEFAULT: [u16; 2] = [7, 25];
const ALTERNATE_SCREEN: [u16; 3] = [47, 1047, 1049];
/// Longer sequences are none of ours.
const LONGEST: usize = 64;

#[derive(Default)]
pub struct Modes {
    at: At,
    sequence: Vec<u8>,
    set: BTreeMap<u16, bool>,
    keypad: bool,
    /// Flags pushed on the kitty keyboard stack, deepest first.
    kitty: Vec<u16>,
    modify_other_keys: Option<u16>,
    cursor_style: bool,
    charset: bool,
    margins: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    Escape,
    /// `ESC ( X` and the like.
    Designate,
    Control,
    /// OSC, DCS and their kin: until BEL or ST.
    String,
    StringEscape,
}

impl Modes {
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.at == At::Text {
                match bytes.iter().position(|&b| b == 0x1b) {
                    Some(escape) => bytes = &bytes[escape + 1..],
                    None => return,
                }
                self.at = At::Escape;
                continue;
            }
            bytes = rest;
            self.take(byte);
        }
    }

    fn take(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            (At::Text, _) => At::Text,
            (At::Escape | At::Control | At::Designate, 0x1b) => {
                self.sequence.clear();
                At::Escape
            }
            (At::Escape, b'[') => {
                self.sequence.clear();
                At::Control
            }
            (At::Escape, b']' | b'P' | b'X' | b'^' | b'_') => At::String,
            (At::Escape, b'(' | b')' | b'*' | b'+') => At::Designate,
            (At::Escape, b'c') => {
                *self = Modes::default();
                At::Text
            }
            (At::Escape, b'=') => {
                self.keypad = true;
                At::Text
            }
            (At::Escape, b'>') => {
                self.keypad = false;
                At::Text
            }
            (At::Escape, _) => At::Text,
            (At::Designate, byte) => {
                self.charset = byte != b'B';
                At::Text
            }
            (At::Control, 0x40..=0x7e) => {
                let sequence = std::mem::take(&mut self.sequence);
                self.control(&sequence, byte);
                self.sequence = sequence;
                At::Text
            }
            // Cancelled.
            (At::Control, 0x18 | 0x1a) => At::Text,
            (At::Control, _) => {
                if self.sequence.len() < LONGEST {
                    self.sequence.push(byte);
                }
                At::Control
            }
            (At::String, 0x07 | 0x18 | 0x1a) => At::Text,
            (At::String, 0x1b) => At::StringEscape,
            (At::String, _) => At::String,
            (At::StringEscape, b'\\') => At::Text,
            // An ESC ends the string even when something else than ST follows.
            (At::StringEscape, byte) => {
                self.at = At::Escape;
                return self.take(byte);
            }
        };
    }

    fn control(&mut self, sequence: &[u8], last: u8) {
        if sequence.len() >= LONGEST {
            return;
        }
        let numbers = |text: &[u8]| -> Vec<u16> {
            text.split(|&b| b == b';' || b == b':')
                .map(|n| std::str::from_utf8(n).ok().and_then(|n| n.parse().ok()).unwrap_or(0))
                .collect()
        };
        match (sequence.split_first(), last) {
            (Some((b'?', modes)), b'h' | b'l') => {
                for mode in numbers(modes) {
                    if WATCHED.contains(&mode) || ON_BY_DEFAULT.contains(&mode) {
                        self.set.insert(mode, last == b'h');
                    }
                }
            }
            (Some((b'>', flags)), b'u') if self.kitty.len() < 16 => self.kitty.push(numbers(flags)[0]),
            (Some((b'<', count)), b'u') => {
                let count = usize::from(numbers(count)[0].max(1));
                self.kitty.truncate(self.kitty.len().saturating_sub(count));
            }
            (Some((b'>', setting)), b'm') => {
                let setting = numbers(setting);
                if setting[0] == 4 {
                    self.modify_other_keys = setting.get(1).copied().filter(|&v| v > 0);
                }
            }
            (Some((_, _)), b'q') if sequence.last() == Some(&b' ') => {
                self.cursor_style = sequence != b"0 ";
            }
            (Some((b'0'..=b'9' | b';', _)), b'r') => self.margins = true,
            (None, b'r') => self.margins = false,
            (Some((b'!', [])), b'p') => {
                let alternate = self.set.clone();
                *self = Modes::default();
                self.set.extend(alternate.into_iter().filter(|(m, _)| ALTERNATE_SCREEN.contains(m)));
            }
            _ => {}
        }
    }

    fn changed(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        self.set
            .iter()
            .map(|(&mode, &on)| (mode, on))
            .filter(|(mode, on)| *on != ON_BY_DEFAULT.contains(mode))
    }

    /// Sequences that put the terminal back; empty when the agent left it as it was.
    pub fn off(&self) -> Vec<u8> {
        let mut out = String::new();
        if self.margins {
            // Resetting the margins moves the cursor home.
            out.push_str("\x1b7\x1b[r\x1b8");
        }
        if !self.kitty.is_empty() {
            out.push_str(&format!("\x1b[<{}u", self.kitty.len()));
        }
        if self.modify_other_keys.is_some() {
            out.push_str("\x1b[>4;0m");
        }
        if self.cursor_style {
            out.push_str("\x1b[0 q");
        }
        if self.charset {
            out.push_str("\x1b(B");
        }
        if self.keypad {
            out.push_str("\x1b>");
        }
        // The alternate screen last: what is switched off before it belongs to it.
        let (screen, others): (Vec<_>, Vec<_>) =
            self.changed().partition(|(mode, _)| ALTERNATE_SCREEN.contains(mode));
        for (mode, on) in others.into_iter().chain(screen) {
            out.push_str(&format!("\x1b[?{mode}{}", if on { 'l' } else { 'h' }));
        }
        if !out.is_empty() {
            out.push_str("\x1b[0m");
        }
        out.into_bytes()
    }

    /// Sequences that undo `off`.
    pub fn on(&self) -> Vec<u8> {
        let mut out = String::new();
        let (screen, others): (Vec<_>, Vec<_>) =
            self.changed().partition(|(mode, _)| ALTERNATE_SCREEN.contains(mode));
        for (mode, on) in screen.into_iter().chain(others) {
            out.push_str(&format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }));
        }
        if self.keypad {
            out.push_str("\x1b=");
        }
        if let Some(value) = self.modify_other_keys {
            out.push_str(&format!("\x1b[>4;{value}m"));
        }
        for flags in &self.kitty {
            out.push_str(&format!("\x1b[>{flags}u"));
        }
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(output: &str) -> (String, String) {
        let mut modes = Modes::default();
        for byte in output.as_bytes() {
            modes.feed(&[*byte]);
        }
        let mut whole = Modes::default();
        whole.feed(output.as_bytes());
        assert_eq!(modes.off(), whole.off(), "a split read must not matter");
        (String::from_utf8(modes.off()).unwrap(), String::from_utf8(modes.on()).unwrap())
    }

    #[test]
    fn what_was_switched_on_is_switched_off_with_the_alternate_screen_last() {
        let (off, on) = after("\x1b[?1049h\x1b[?1000;1006hx\x1b[?25l");
        assert_eq!(off, "\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[0m");
        assert_eq!(on, "\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h");
    }

    #[test]
    fn an_agent_that_tidied_up_leaves_nothing_to_do() {
        let tidy =
            "\x1b[?2004h\x1b[>1u\x1b[>4;2m\x1b=\x1b[?25l hi \x1b[?25h\x1b>\x1b[>4;0m\x1b[<u\x1b[?2004l";
        assert_eq!(after(tidy), (String::new(), String::new()));
        assert_eq!(after("\x1b[?1049h\x1bc"), (String::new(), String::new()));
    }

    #[test]
    fn kitty_and_modify_other_keys_come_back() {
        let (off, on) = after("\x1b[>1u\x1b[>5u\x1b[>4;2m");
        assert_eq!(off, "\x1b[<2u\x1b[>4;0m\x1b[0m");
        assert_eq!(on, "\x1b[>4;2m\x1b[>1u\x1b[>5u");
    }

    #[test]
    fn text_inside_a_title_or_a_broken_sequence_is_not_a_mode() {
        assert_eq!(after("\x1b]0;a [?1049h b\x07\x1b[?10\x1849h\x1bP[?2004h\x1b\\").0, "");
        assert_eq!(after(&format!("\x1b[?{}1049h", "1;".repeat(5000))).0, "");
    }
}
