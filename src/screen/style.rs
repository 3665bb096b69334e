//! Colours and attributes, from and to the parameters of `CSI … m`.

use std::fmt::Write;

use super::parser::Csi;

/// A kind in the top byte, a palette index or red, green and blue below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colour(u32);

impl Colour {
    const INDEXED: u32 = 1 << 24;
    const RGB: u32 = 2 << 24;

    fn indexed(index: u16) -> Colour {
        Colour(Colour::INDEXED | u32::from(index & 0xff))
    }

    fn rgb(red: u16, green: u16, blue: u16) -> Colour {
        let byte = |part: u16| u32::from(part & 0xff);
        Colour(Colour::RGB | byte(red) << 16 | byte(green) << 8 | byte(blue))
    }

    /// `base` is 30 for what stands in front, 40 for what is behind it.
    fn write(self, base: u32, out: &mut String) {
        let index = self.0 & 0xff;
        let written = match self.0 & 0xff00_0000 {
            Colour::INDEXED if index < 8 => write!(out, ";{}", base + index),
            Colour::INDEXED if index < 16 => write!(out, ";{}", base + 60 + index - 8),
            Colour::INDEXED => write!(out, ";{};5;{index}", base + 8),
            Colour::RGB => {
                write!(out, ";{};2;{};{};{index}", base + 8, self.0 >> 16 & 0xff, self.0 >> 8 & 0xff)
            }
            _ => Ok(()),
        };
        written.expect("a String takes everything");
    }
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    fore: Colour,
    back: Colour,
    /// Bit n: attribute n + 1 of `CSI … m` (1 bold … 9 struck through).
    attributes: u16,
}

impl Style {
    pub const PLAIN: Style = Style { fore: Colour(0), back: Colour(0), attributes: 0 };

    /// What erasing leaves behind: the background stays, nothing else does.
    pub fn erased(self) -> Style {
        Style { back: self.back, ..Style::default() }
    }

    /// Whether a blank in this style shows nothing.
    pub fn hides_blanks(self) -> bool {
        // Underlined, inverse and struck blanks are seen.
        const SEEN: u16 = 1 << 3 | 1 << 6 | 1 << 8;
        self.back == Colour::default() && self.attributes & SEEN == 0
    }

    /// The sequence that sets this style, whatever was set before.
    pub fn write(self, out: &mut String) {
        out.push_str("\x1b[0");
        for attribute in (0..9).filter(|n| self.attributes & (1 << n) != 0) {
            write!(out, ";{}", attribute + 1).expect("a String takes everything");
        }
        self.fore.write(30, out);
        self.back.write(40, out);
        out.push('m');
    }

    /// `CSI … m`.
    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn change(&mut self, csi: &Csi) {
        let params = csi.params();
        let mut at = 0;
        while at < params.len() {
            // What belongs to this one by colons: `4:3`, `38:2::r:g:b`.
            let mut end = at + 1;
            while end < params.len() && csi.is_behind_colon(end) {
                end += 1;
            }
            match (params[at], end - at) {
                (38 | 48, _) => {
                    let (colour, taken) = extended(&params[at + 1..], end - at - 1);
                    if let Some(colour) = colour {
                        *if params[at] == 38 { &mut self.fore } else { &mut self.back } = colour;
                    }
                    end = end.max(at + 1 + taken);
                }
                // The colour of the underline: passed over with its numbers.
                (58, _) => end = end.max(at + 1 + extended(&params[at + 1..], end - at - 1).1),
                (4, 2..) => self.set(4, params[at + 1] != 0),
                (code, _) => self.simple(code),
            }
            at = end;
        }
    }

    #[cfg(test)]
    pub fn paint_for_test(&mut self, code: u16) {
        self.simple(code);
    }

    fn simple(&mut self, code: u16) {
        match code {
            0 => *self = Style::default(),
            1..=9 => self.set(code, true),
            21 => self.set(4, true),
            22 => {
                self.set(1, false);
                self.set(2, false);
            }
            // 6 is a faster blink.
            25 => {
                self.set(5, false);
                self.set(6, false);
            }
            23 | 24 | 27..=29 => self.set(code - 20, false),
            30..=37 => self.fore = Colour::indexed(code - 30),
            39 => self.fore = Colour::default(),
            40..=47 => self.back = Colour::indexed(code - 40),
            49 => self.back = Colour::default(),
            90..=97 => self.fore = Colour::indexed(code - 82),
            100..=107 => self.back = Colour::indexed(code - 92),
            _ => {}
        }
    }

    fn set(&mut self, attribute: u16, on: bool) {
        let bit = 1 << (attribute - 1);
        if on { self.attributes |= bit } else { self.attributes &= !bit }
    }
}

/// What follows 38, 48 or 58, `colons` of it tied by colons: the colour, and how many params it took.
fn extended(rest: &[u16], colons: usize) -> (Option<Colour>, usize) {
    match (rest, colons) {
        // With colons a colour space may stand before red.
        ([2, _, red, green, blue, ..], 5..) => (Some(Colour::rgb(*red, *green, *blue)), colons),
        ([2, red, green, blue, ..], 0 | 4) => (Some(Colour::rgb(*red, *green, *blue)), 4),
        ([5, index, ..], 0 | 2..) => (Some(Colour::indexed(*index)), 2),
        // Cut short: the rest is no attribute of its own.
        (rest, 0) => (None, rest.len()),
        _ => (None, colons),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::{End, Listener, Parser};
    use super::*;

    #[derive(Default)]
    struct Pen(Style);

    impl Listener for Pen {
        fn plain(&mut self, _: &[u8]) {}
        fn other(&mut self, _: char) {}
        fn control(&mut self, _: u8) {}
        fn escape(&mut self, _: Option<u8>, _: u8) {}
        fn csi(&mut self, csi: &Csi) {
            self.0.change(csi);
        }
        fn osc(&mut self, _: &[u8], _: End) {}
        fn dcs(&mut self, _: &[u8]) {}
    }

    fn after(params: &str) -> String {
        let mut pen = Pen::default();
        Parser::default().feed(format!("\x1b[{params}m").as_bytes(), &mut pen);
        let mut out = String::new();
        pen.0.write(&mut out);
        out.strip_prefix("\x1b[0").unwrap().strip_suffix('m').unwrap().to_owned()
    }

    #[test]
    fn attributes_and_colours_go_in_and_come_out() {
        for (given, kept) in [
            ("", ""),
            ("1;3;4;7;9", ";1;3;4;7;9"),
            ("1;2;22", ""),
            ("31;42", ";31;42"),
            ("91;102", ";91;102"),
            ("38;5;200;1", ";1;38;5;200"),
            ("38;5;3", ";33"),
            ("48;2;1;2;3", ";48;2;1;2;3"),
            ("38:2::1:2:3;4", ";4;38;2;1;2;3"),
            ("38:2:1:2:3", ";38;2;1;2;3"),
            ("38:5:99", ";38;5;99"),
            ("4:3", ";4"),
            ("4;4:0", ""),
            ("58;2;1;2;3;1", ";1"),
            ("58:2::1:2:3;1", ";1"),
            ("31;39;41;49", ""),
            ("1;31;0", ""),
            ("38;5", ""),
            ("38;2;1", ""),
            ("999", ""),
        ] {
            assert_eq!(after(given), kept, "{given}");
        }
    }
}
