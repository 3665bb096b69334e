//! The grammar of a terminal's input: bytes become text, controls and sequences. Knows no meaning.
//! After the state machine that all terminals follow since the VT500, for UTF-8 only.

/// Who is told what the bytes are.
pub trait Listener {
    /// ASCII characters in a row, none of them a control: what most output is made of.
    fn plain(&mut self, text: &[u8]);
    /// Characters in a row; none of them is a C0 control or DEL.
    fn text(&mut self, text: &str);
    /// A C0 control but ESC, CAN and SUB.
    fn control(&mut self, control: u8);
    /// `ESC [between] last`.
    fn escape(&mut self, between: Option<u8>, last: u8);
    fn csi(&mut self, csi: &Csi);
    /// An operating system command, without its frame.
    fn osc(&mut self, command: &[u8], end: End);
    /// A device control string, without its frame.
    fn dcs(&mut self, data: &[u8]);
}

/// How a string ended; an answer ends alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Bell,
    St,
}

const MOST_PARAMS: usize = 32;
/// Titles and queries are short; longer strings are pictures, links and clipboards, none of ours.
const LONGEST_STRING: usize = 1024;

/// A control sequence: `CSI [marker] params [between] last`.
#[derive(Clone, Debug, Default)]
pub struct Csi {
    /// `?`, `>`, `<` or `=`; 0 for none.
    pub marker: u8,
    /// 0 for none.
    pub between: u8,
    pub last: u8,
    params: [u16; MOST_PARAMS],
    count: usize,
    /// Bit n: param n stands behind a colon.
    colons: u32,
    overlong: bool,
}

impl Csi {
    /// Missing params are 0.
    pub fn param(&self, n: usize) -> u16 {
        if n < self.count { self.params[n] } else { 0 }
    }

    /// For movements and counts, where 0 means 1.
    pub fn count(&self, n: usize) -> usize {
        usize::from(self.param(n).max(1))
    }

    /// At least one, as every sequence has.
    pub fn params(&self) -> &[u16] {
        &self.params[..self.count.max(1)]
    }

    pub fn has_params(&self) -> bool {
        self.count > 0
    }

    pub fn is_behind_colon(&self, n: usize) -> bool {
        n < MOST_PARAMS && self.colons & (1 << n) != 0
    }

    fn take(&mut self, byte: u8) {
        match byte {
            b'0'..=b'9' => {
                self.count = self.count.max(1);
                let param = &mut self.params[self.count - 1];
                *param = param.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
            }
            b';' | b':' => {
                self.count = self.count.max(1);
                if self.count == MOST_PARAMS {
                    self.overlong = true;
                    return;
                }
                if byte == b':' {
                    self.colons |= 1 << self.count;
                }
                self.count += 1;
            }
            b'<'..=b'?' if self.count == 0 && self.marker == 0 && self.between == 0 => self.marker = byte,
            b' '..=b'/' if self.between == 0 => self.between = byte,
            // Two intermediates, or a marker in the middle: nothing that is in use.
            _ => self.overlong = true,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Ground,
    Escape,
    EscapeBetween(u8),
    Csi,
    String(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Osc,
    Dcs,
    /// SOS, PM, APC.
    Other,
}

#[derive(Default)]
pub struct Parser {
    at: At,
    csi: Csi,
    string: Vec<u8>,
    overlong: bool,
    /// The beginning of a character whose end is still to come.
    partial: [u8; 4],
    partial_len: usize,
}

impl Parser {
    pub fn feed(&mut self, mut bytes: &[u8], to: &mut impl Listener) {
        while !bytes.is_empty() {
            let taken = match self.at {
                At::Ground if self.partial_len > 0 => self.complete(bytes[0], to),
                At::Ground => self.ground(bytes, to),
                At::String(kind) => self.string(kind, bytes, to),
                At::Escape | At::EscapeBetween(_) | At::Csi => {
                    self.sequence(bytes[0], to);
                    1
                }
            };
            bytes = &bytes[taken..];
        }
    }

    fn ground(&mut self, bytes: &[u8], to: &mut impl Listener) -> usize {
        let (run, is_ascii) = text_run(bytes);
        if run > 0 && is_ascii {
            to.plain(&bytes[..run]);
            return run;
        }
        if run == 0 {
            match bytes[0] {
                0x1b => self.at = At::Escape,
                0x18 | 0x1a | 0x7f => {}
                control => to.control(control),
            }
            return 1;
        }
        match std::str::from_utf8(&bytes[..run]) {
            Ok(text) => {
                to.text(text);
                run
            }
            Err(error) => {
                let valid = error.valid_up_to();
                if let Ok(text) = std::str::from_utf8(&bytes[..valid])
                    && valid > 0
                {
                    to.text(text);
                }
                match error.error_len() {
                    None if run == bytes.len() => {
                        self.partial_len = run - valid;
                        self.partial[..run - valid].copy_from_slice(&bytes[valid..run]);
                        run
                    }
                    length => {
                        to.text("\u{fffd}");
                        valid + length.unwrap_or(run - valid)
                    }
                }
            }
        }
    }

    /// One more byte of a character that was split over two reads.
    fn complete(&mut self, byte: u8, to: &mut impl Listener) -> usize {
        let length = self.partial_len + 1;
        self.partial[self.partial_len] = byte;
        match std::str::from_utf8(&self.partial[..length]) {
            Ok(text) => {
                to.text(text);
                self.partial_len = 0;
                1
            }
            Err(error) if error.error_len().is_none() => {
                self.partial_len = length;
                1
            }
            // The byte begins something else.
            Err(_) => {
                to.text("\u{fffd}");
                self.partial_len = 0;
                0
            }
        }
    }

    fn sequence(&mut self, byte: u8, to: &mut impl Listener) {
        self.at = match (self.at, byte) {
            (_, 0x1b) => At::Escape,
            (_, 0x18 | 0x1a) => At::Ground,
            (at, 0x00..0x20) => {
                to.control(byte);
                at
            }
            (at, 0x7f) => at,
            // No sequence holds such a byte: the text goes on.
            (_, 0x80..) => {
                self.partial = [byte, 0, 0, 0];
                self.partial_len = usize::from(byte >= 0xc2);
                At::Ground
            }
            (At::Escape, b'[') => {
                self.csi = Csi::default();
                At::Csi
            }
            (At::Escape, b']') => self.begin(Kind::Osc),
            (At::Escape, b'P') => self.begin(Kind::Dcs),
            (At::Escape, b'X' | b'^' | b'_') => self.begin(Kind::Other),
            (At::Escape, b' '..=b'/') => At::EscapeBetween(byte),
            (At::EscapeBetween(_), b' '..=b'/') => At::EscapeBetween(byte),
            (At::Escape, last) => {
                to.escape(None, last);
                At::Ground
            }
            (At::EscapeBetween(between), last) => {
                to.escape(Some(between), last);
                At::Ground
            }
            (At::Csi, 0x40..) => {
                self.csi.last = byte;
                if !self.csi.overlong {
                    to.csi(&self.csi);
                }
                At::Ground
            }
            (At::Csi, _) => {
                self.csi.take(byte);
                At::Csi
            }
            (at @ (At::Ground | At::String(_)), _) => at,
        };
    }

    fn begin(&mut self, kind: Kind) -> At {
        self.string.clear();
        self.overlong = false;
        At::String(kind)
    }

    fn string(&mut self, kind: Kind, bytes: &[u8], to: &mut impl Listener) -> usize {
        let ends = |b: &u8| matches!(b, 0x18 | 0x1a | 0x1b) || *b == 0x07 && kind == Kind::Osc;
        let run = bytes.iter().position(ends).unwrap_or(bytes.len());
        if self.string.len() + run > LONGEST_STRING {
            self.overlong = true;
        }
        if kind != Kind::Other && !self.overlong {
            self.string.extend_from_slice(&bytes[..run]);
        }
        let Some(end) = bytes.get(run) else { return run };
        // An ESC ends it even when no backslash follows; `ESC \` by itself means nothing.
        self.at = if *end == 0x1b { At::Escape } else { At::Ground };
        let whole = matches!(end, 0x07 | 0x1b) && !self.overlong;
        match kind {
            Kind::Osc if whole => to.osc(&self.string, if *end == 0x07 { End::Bell } else { End::St }),
            Kind::Dcs if whole => to.dcs(&self.string),
            Kind::Osc | Kind::Dcs | Kind::Other => {}
        }
        run + 1
    }
}

/// How many bytes there are before the first control, and whether they are ASCII; eight at a time.
fn text_run(bytes: &[u8]) -> (usize, bool) {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES * 0x80;
    let (mut run, mut seen) = (0, 0);
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let del = word ^ (ONES * 0x7f);
        // The high bit of each byte below 0x20 or equal to DEL. A borrow may mark more, but only
        // behind the first, and that is the lowest one.
        let controls = (word.wrapping_sub(ONES * 0x20) & !word | del.wrapping_sub(ONES) & !del) & HIGH;
        if controls != 0 {
            let before = controls.trailing_zeros() / 8;
            seen |= word & ((1 << (8 * before)) - 1);
            return (run + before as usize, seen & HIGH == 0);
        }
        seen |= word;
        run += 8;
    }
    let mut is_ascii = seen & HIGH == 0;
    for byte in &bytes[run..] {
        if *byte < 0x20 || *byte == 0x7f {
            break;
        }
        is_ascii &= *byte < 0x80;
        run += 1;
    }
    (run, is_ascii)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes down what it hears.
    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Listener for Heard {
        fn plain(&mut self, text: &[u8]) {
            self.text(std::str::from_utf8(text).unwrap());
        }
        fn text(&mut self, text: &str) {
            match self.0.last_mut().filter(|last| last.starts_with('"')) {
                Some(last) => last.push_str(text),
                None => self.0.push(format!("\"{text}")),
            }
        }
        fn control(&mut self, control: u8) {
            self.0.push(format!("{control:02x}"));
        }
        fn escape(&mut self, between: Option<u8>, last: u8) {
            self.0.push(format!(
                "ESC{}{}",
                between.map_or(String::new(), |b| char::from(b).into()),
                last as char
            ));
        }
        fn csi(&mut self, csi: &Csi) {
            let word = |byte: u8| if byte == 0 { String::new() } else { char::from(byte).to_string() };
            let (marker, between) = (word(csi.marker), word(csi.between));
            self.0.push(format!("CSI{marker}{:?}{between}{}", csi.params(), csi.last as char));
        }
        fn osc(&mut self, command: &[u8], end: End) {
            self.0.push(format!("OSC {} {end:?}", String::from_utf8_lossy(command)));
        }
        fn dcs(&mut self, data: &[u8]) {
            self.0.push(format!("DCS {}", String::from_utf8_lossy(data)));
        }
    }

    fn heard_in(pieces: &[&[u8]]) -> Vec<String> {
        let (mut parser, mut heard) = (Parser::default(), Heard::default());
        for piece in pieces {
            parser.feed(piece, &mut heard);
        }
        heard.0
    }

    fn heard(bytes: &[u8]) -> Vec<String> {
        let singly: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(heard_in(&singly), heard_in(&[bytes]), "a split read must not matter");
        heard_in(&[bytes])
    }

    #[test]
    fn text_controls_and_sequences_are_told_apart() {
        assert_eq!(heard(b"a\r\n\x1b[1;31mb\x1b[m"), ["\"a", "0d", "0a", "CSI[1, 31]m", "\"b", "CSI[0]m"]);
        assert_eq!(heard(b"\x1b[?2026$p\x1b[>c\x1b[!p"), ["CSI?[2026]$p", "CSI>[0]c", "CSI[0]!p"]);
        assert_eq!(heard(b"\x1b(0\x1b7\x1b#8"), ["ESC(0", "ESC7", "ESC#8"]);
        assert_eq!(heard(b"\x1b[38:2::1:2:3m"), ["CSI[38, 2, 0, 1, 2, 3]m"]);
    }

    #[test]
    fn strings_end_with_bel_or_st_and_hide_what_they_hold() {
        assert_eq!(
            heard(b"\x1b]0;[?1h\x07\x1b]2;t\x1b\\x"),
            ["OSC 0;[?1h Bell", "OSC 2;t St", "ESC\\", "\"x"]
        );
        assert_eq!(heard(b"\x1bP+q544e\x1b\\"), ["DCS +q544e", "ESC\\"]);
        assert_eq!(heard(b"\x1b_Gx=1;abc\x07\x1b\\"), ["ESC\\"]);
        assert_eq!(heard(b"\x1b]0;cut off\x18x"), ["\"x"]);
        let long = [b"\x1b]0;".as_slice(), &[b'x'; 5000], b"\x07y"].concat();
        assert_eq!(heard(&long), ["\"y"]);
    }

    #[test]
    fn a_broken_sequence_hurts_nothing_behind_it() {
        assert_eq!(heard(b"\x1b[12\x1849h"), ["\"49h"]);
        assert_eq!(heard(b"\x1b[1\x1b[2A"), ["CSI[2]A"]);
        assert_eq!(heard(b"\x1b[1\n2A"), ["0a", "CSI[12]A"]);
        assert_eq!(heard(&[b"\x1b[".as_slice(), &b"1;".repeat(5000), b"hx"].concat()), ["\"x"]);
        assert_eq!(heard(b"\x1b[99999999A"), ["CSI[65535]A"]);
    }

    #[test]
    fn characters_may_be_split_and_broken_ones_are_replaced() {
        assert_eq!(heard("é日🙂".as_bytes()), ["\"é日🙂"]);
        assert_eq!(heard(b"a\xffb\xe6\x97c\xc3\n\xc3"), ["\"a\u{fffd}b\u{fffd}c\u{fffd}", "0a"]);
    }

    proptest! {
        #[test]
        fn a_run_of_text_ends_at_the_first_control(bytes in prop::collection::vec(
            prop_oneof![8 => 0x20u8..=0xff, 1 => any::<u8>()], 0..40)) {
            let end = bytes.iter().position(|b| b.is_ascii_control()).unwrap_or(bytes.len());
            prop_assert_eq!(text_run(&bytes), (end, bytes[..end].is_ascii()));
        }

        #[test]
        fn where_reads_are_split_never_matters(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"\x1b[]P\\\x07\x18;:?1m \xc3\xa9\xf0"[..])], 0..80),
            at in 0usize..80,
        ) {
            let at = at.min(bytes.len());
            prop_assert_eq!(heard_in(&[&bytes[..at], &bytes[at..]]), heard_in(&[&bytes]));
        }
    }
}
