//! Which terminal modes the agent has switched on, so that they can be switched off when it is
//! suspended or dies without doing so, on again when it continues, and on for whoever attaches.

use super::parser::Csi;
use crate::sorted::Sorted;

/// Modes that would disturb whoever uses the terminal next.
const WATCHED: [u16; 24] = [
    1, 5, 6, 9, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1048, 1049, 2004, 2026,
    2027, 2031, 2048, 9001,
];
/// Modes that are on unless an agent switches them off.
const ON_BY_DEFAULT: [u16; 2] = [7, 25];
const ALTERNATE_SCREEN: [u16; 3] = [47, 1047, 1049];
/// Their default is the terminal's own: only what an agent said of them can be said again.
const REPEATED: [u16; 6] = [12, 45, 1007, 1034, 1036, 1039];
/// What is drawn by the emulator, or is a moment's; and the reports of a size, which only the size's
/// owner could make.
const NOT_PAINTED: [u16; 9] = [6, 7, 25, 47, 1047, 1048, 1049, 2026, 2048];
/// Reported to whoever asks, beside those that are watched only to be switched off: what the emulator
/// would have to do something for, and does not, is not known.
const NOT_OURS: [u16; 5] = [66, 1001, 2027, 2048, 9001];
const MOST_KITTY: usize = 16;

#[derive(Default)]
pub struct Modes {
    set: Sorted<u16, bool>,
    keypad: bool,
    /// Flags pushed on the kitty keyboard stacks of both screens, deepest first.
    kitty: [Vec<u16>; 2],
    modify_other_keys: Option<u16>,
    cursor_style: Option<u16>,
    charset: bool,
    margins: bool,
}

impl Modes {
    pub fn escape(&mut self, between: Option<u8>, last: u8) {
        match (between, last) {
            (None, b'c') => *self = Modes::default(),
            (None, b'=') => self.keypad = true,
            (None, b'>') => self.keypad = false,
            (Some(b'(' | b')' | b'*' | b'+'), set) => self.charset = set != b'B',
            _ => {}
        }
    }

    pub fn csi(&mut self, csi: &Csi) {
        match (csi.marker, csi.between, csi.last) {
            (b'?', 0, b'h' | b'l') => {
                for mode in csi.params() {
                    if ALTERNATE_SCREEN.contains(mode) {
                        // There is but one, whichever of them brought it up.
                        self.set.retain(|known, _| !ALTERNATE_SCREEN.contains(known));
                        if csi.last == b'l' {
                            self.kitty[1].clear();
                        }
                    }
                    if WATCHED.contains(mode) || ON_BY_DEFAULT.contains(mode) || REPEATED.contains(mode) {
                        self.set.insert(*mode, csi.last == b'h');
                    }
                }
            }
            (b'>', 0, b'u') if self.kitty().len() < MOST_KITTY => self.kitty_mut().push(csi.param(0)),
            (b'<', 0, b'u') => {
                let left = self.kitty().len().saturating_sub(csi.count(0));
                self.kitty_mut().truncate(left);
            }
            (b'=', 0, b'u') => {
                let now = self.kitty_flags();
                let flags = match csi.param(1) {
                    2 => now | csi.param(0),
                    3 => now & !csi.param(0),
                    _ => csi.param(0),
                };
                match self.kitty_mut().last_mut() {
                    Some(top) => *top = flags,
                    None => self.kitty_mut().push(flags),
                }
            }
            (b'>', 0, b'm') if csi.param(0) == 4 => {
                self.modify_other_keys = Some(csi.param(1)).filter(|value| *value > 0);
            }
            (0, b' ', b'q') => {
                self.cursor_style = Some(csi.param(0)).filter(|style| *style != 0 || !csi.has_params());
            }
            (0, 0, b'r') => self.margins = csi.has_params(),
            (0, b'!', b'p') => {
                let before = std::mem::take(self);
                let screen = |mode: &u16| ALTERNATE_SCREEN.contains(mode);
                self.set.extend(before.set.into_iter().filter(|(mode, _)| screen(mode)));
            }
            _ => {}
        }
    }

    /// For whoever asks; `None` for a mode that is not known here.
    pub fn is_set(&self, mode: u16) -> Option<bool> {
        let by_default = ON_BY_DEFAULT.contains(&mode);
        let known = by_default || WATCHED.contains(&mode) && !NOT_OURS.contains(&mode);
        known.then(|| self.set.get(&mode).copied().unwrap_or(by_default))
    }

    /// Somebody has switched it on or off.
    pub fn was_named(&self, mode: u16) -> bool {
        self.set.contains_key(&mode)
    }

    pub fn kitty_flags(&self) -> u16 {
        self.kitty().last().copied().unwrap_or(0)
    }

    /// The mode that brought up the alternate screen, while it is shown.
    pub fn alternate(&self) -> Option<u16> {
        ALTERNATE_SCREEN.into_iter().rev().find(|mode| self.set.get(mode) == Some(&true))
    }

    /// Of the screen that is shown.
    fn kitty(&self) -> &Vec<u16> {
        &self.kitty[usize::from(self.alternate().is_some())]
    }

    fn kitty_mut(&mut self) -> &mut Vec<u16> {
        let screen = usize::from(self.alternate().is_some());
        &mut self.kitty[screen]
    }

    pub fn is_synchronized(&self) -> bool {
        self.set.get(&2026) == Some(&true)
    }

    fn changed(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        self.set
            .iter()
            .map(|(&mode, &on)| (mode, on))
            .filter(|(mode, on)| !REPEATED.contains(mode) && *on != ON_BY_DEFAULT.contains(mode))
    }

    /// Sequences that put the terminal back; empty when the agent left it as it was.
    pub fn off(&self) -> Vec<u8> {
        let mut out = String::new();
        if self.margins {
            // Resetting the margins moves the cursor home.
            out.push_str("\x1b7\x1b[r\x1b8");
        }
        let pop = |flags: &[u16]| match flags.len() {
            0 => String::new(),
            depth => format!("\x1b[<{depth}u"),
        };
        out.push_str(&pop(self.kitty()));
        if self.modify_other_keys.is_some() {
            out.push_str("\x1b[>4;0m");
        }
        if self.cursor_style.is_some() {
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
        if self.alternate().is_some() {
            out.push_str(&pop(&self.kitty[0]));
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
        if self.alternate().is_some() {
            out.push_str(&self.kitty_on(0));
        }
        for (mode, on) in screen.into_iter().chain(others) {
            out.push_str(&format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }));
        }
        out.push_str(&self.keys_on());
        out.into_bytes()
    }

    /// How keys are sent, on the screen that is shown.
    fn keys_on(&self) -> String {
        let mut out = String::new();
        if self.keypad {
            out.push_str("\x1b=");
        }
        if let Some(value) = self.modify_other_keys {
            out.push_str(&format!("\x1b[>4;{value}m"));
        }
        out + &self.kitty_on(usize::from(self.alternate().is_some()))
    }

    /// The keyboard flags of the main screen (0) or the alternate one (1).
    pub fn kitty_on(&self, screen: usize) -> String {
        self.kitty[screen].iter().map(|flags| format!("\x1b[>{flags}u")).collect()
    }

    /// For a terminal in which all of it is off: whatever the emulator does not draw.
    pub fn painted(&self) -> String {
        let mut out = String::new();
        for (mode, on) in self.set.iter().filter(|(mode, _)| !NOT_PAINTED.contains(mode)) {
            if *on || REPEATED.contains(mode) {
                out.push_str(&format!("\x1b[?{mode}{}", if *on { 'h' } else { 'l' }));
            }
        }
        if let Some(style) = self.cursor_style {
            out.push_str(&format!("\x1b[{style} q"));
        }
        out + &self.keys_on()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Queries, Screen};

    fn after(output: &str) -> (String, String) {
        // Modes are followed whether or not there is an emulator.
        let mut screen = Screen::new(Queries::Terminal, None);
        screen.feed(output.as_bytes());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(screen.modes_off()), text(screen.modes_on()))
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
    fn each_screen_has_a_keyboard_stack_of_its_own() {
        let (off, on) = after("\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>5u");
        assert_eq!(off, "\x1b[<2u\x1b[?1049l\x1b[<1u\x1b[0m");
        assert_eq!(on, "\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>5u");
        assert_eq!(after("\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[?1049l").1, "\x1b[>1u");
    }

    #[test]
    fn text_inside_a_title_or_a_broken_sequence_is_not_a_mode() {
        assert_eq!(after("\x1b]0;a [?1049h b\x07\x1b[?10\x1849h\x1bP[?2004h\x1b\\").0, "");
        assert_eq!(after(&format!("\x1b[?{}1049h", "1;".repeat(5000))).0, "");
    }
}
