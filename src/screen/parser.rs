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
    /// No sequence and no character stands unfinished.
    pub fn is_between(&self) -> bool {
        self.at == At::Ground && self.partial_len == 0
    }

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
mod tests;
