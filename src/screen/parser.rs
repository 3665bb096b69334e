//! The grammar of a terminal's input: bytes become text, controls and sequences. Knows no meaning.
//! After the state machine that all terminals follow since the VT500, for UTF-8 only.

/// Who is told what the bytes are.
pub trait Listener {
    /// ASCII characters in a row, none of them a control: what most output is made of.
    fn plain(&mut self, text: &[u8]);
    /// A character that is no ASCII.
    fn other(&mut self, c: char);
    /// Some of them in a row.
    fn others(&mut self, run: &[char]) {
        run.iter().for_each(|c| self.other(*c));
    }
    /// Whether text and the controls within it are listened to. Else only sequences are looked for.
    fn wants_text(&self) -> bool {
        true
    }
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
/// What is no character.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
/// Titles and queries are short; longer strings are pictures, links and clipboards, none of ours.
const LONGEST_STRING: usize = 1024;
/// Of characters that are no ASCII so many are handed on at once.
const LONGEST_RUN: usize = 64;

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

    /// A new one. Numbers of the one before stay behind `count`, where nobody looks.
    fn begin(&mut self) {
        (self.marker, self.between, self.last) = (0, 0, 0);
        (self.count, self.colons, self.overlong) = (0, 0, false);
        self.params[0] = 0;
    }

    #[inline]
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
                self.params[self.count] = 0;
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
    /// Characters that are about to be handed on; nothing outside of `others`. Making room for them anew each
    /// time would cost more than they do.
    run: Run,
}

struct Run([char; LONGEST_RUN]);

impl Default for Run {
    fn default() -> Run {
        Run([REPLACEMENT; LONGEST_RUN])
    }
}

impl Parser {
    /// No sequence and no character stands unfinished.
    pub fn is_between(&self) -> bool {
        self.at == At::Ground && self.partial_len == 0
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
    pub fn feed(&mut self, mut bytes: &[u8], to: &mut impl Listener) {
        while !bytes.is_empty() {
            let taken = match self.at {
                At::Ground if self.partial_len > 0 => self.complete(bytes[0], to),
                At::Ground => self.ground(bytes, to),
                At::String(kind) => self.string(kind, bytes, to),
                At::Csi if matches!(bytes[0], b'0'..=b';') => self.numbers(bytes),
                At::Escape | At::EscapeBetween(_) | At::Csi => {
                    self.sequence(bytes[0], to);
                    1
                }
            };
            bytes = &bytes[taken..];
        }
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
    fn ground(&mut self, bytes: &[u8], to: &mut impl Listener) -> usize {
        match bytes[0] {
            0x1b => {
                if let Some(taken) = self.whole_csi(bytes, to) {
                    return taken;
                }
                self.at = At::Escape;
                1
            }
            _ if !to.wants_text() => self.unheard(bytes),
            0x20..=0x7e => {
                let run = plain_run(bytes);
                to.plain(&bytes[..run]);
                run
            }
            0x80.. => self.others(bytes, to),
            0x18 | 0x1a | 0x7f => 1,
            control => {
                to.control(control);
                1
            }
        }
    }

    /// A control sequence that is all here and of the common kind, most of what a program that draws
    /// writes, in one go. `None`: byte by byte, as every other.
    #[cfg_attr(agentsup_small, optimize(speed))]
    fn whole_csi(&mut self, bytes: &[u8], to: &mut impl Listener) -> Option<usize> {
        if bytes.get(1) != Some(&b'[') {
            return None;
        }
        let mut at = 2;
        self.csi.begin();
        if let Some(marker @ b'<'..=b'?') = bytes.get(at) {
            self.csi.marker = *marker;
            at += 1;
        }
        let begins = at;
        let (mut count, mut number) = (0, 0u32);
        for byte in &bytes[begins..] {
            at += 1;
            match byte {
                // Five digits cannot pass what the type holds; more of them are not common.
                b'0'..=b'9' if number < 10_000 => number = 10 * number + u32::from(byte - b'0'),
                b';' if count < MOST_PARAMS - 1 => {
                    self.csi.params[count] = number.min(u32::from(u16::MAX)) as u16;
                    (count, number) = (count + 1, 0);
                }
                0x40..=0x7e => {
                    self.csi.params[count] = number.min(u32::from(u16::MAX)) as u16;
                    self.csi.count = if at - 1 == begins { 0 } else { count + 1 };
                    self.csi.last = *byte;
                    to.csi(&self.csi);
                    return Some(at);
                }
                _ => return None,
            }
        }
        None
    }

    /// Up to the next sequence. Of the text only its end matters, which may be half a character.
    #[cfg_attr(agentsup_small, optimize(speed))]
    fn unheard(&mut self, bytes: &[u8]) -> usize {
        let found = memchr::memchr(0x1b, bytes);
        if found.is_none() {
            let begun = begun_character(bytes);
            self.partial_len = begun.len();
            self.partial[..begun.len()].copy_from_slice(begun);
        }
        found.unwrap_or(bytes.len())
    }

    /// What most of a control sequence is.
    #[cfg_attr(agentsup_small, optimize(speed))]
    fn numbers(&mut self, bytes: &[u8]) -> usize {
        let run = bytes.iter().take_while(|byte| matches!(byte, b'0'..=b';'));
        run.map(|byte| self.csi.take(*byte)).count()
    }

    /// Characters that are no ASCII, up to the first that is.
    #[cfg_attr(agentsup_small, optimize(speed))]
    fn others(&mut self, bytes: &[u8], to: &mut impl Listener) -> usize {
        let stands_alone = |length: usize| bytes.get(length).is_none_or(|byte| *byte < 0x80);
        if let Character::Whole(c, length) = Character::first_of(bytes)
            && stands_alone(length)
        {
            to.other(c);
            return length;
        }
        let (mut count, mut at) = (0, 0);
        while count < LONGEST_RUN && bytes.get(at).is_some_and(|byte| *byte >= 0x80) {
            let (c, length) = match Character::first_of(&bytes[at..]) {
                Character::Whole(c, length) => (c, length),
                Character::Wrong(length) => (REPLACEMENT, length),
                Character::Begun => {
                    let begun = &bytes[at..];
                    self.partial_len = begun.len();
                    self.partial[..begun.len()].copy_from_slice(begun);
                    at = bytes.len();
                    break;
                }
            };
            self.run.0[count] = c;
            count += 1;
            at += length;
        }
        to.others(&self.run.0[..count]);
        at
    }

    /// One more byte of a character that was split over two reads.
    fn complete(&mut self, byte: u8, to: &mut impl Listener) -> usize {
        let length = self.partial_len + 1;
        self.partial[self.partial_len] = byte;
        match Character::first_of(&self.partial[..length]) {
            Character::Whole(c, _) => {
                to.other(c);
                self.partial_len = 0;
                1
            }
            Character::Begun => {
                self.partial_len = length;
                1
            }
            // The byte begins something else.
            Character::Wrong(_) => {
                to.other(REPLACEMENT);
                self.partial_len = 0;
                0
            }
        }
    }

    #[cfg_attr(agentsup_small, optimize(speed))]
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
                self.csi.begin();
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

/// What stands at the beginning of bytes of which the first is no ASCII.
enum Character {
    /// With its bytes.
    Whole(char, usize),
    /// So many bytes that are none.
    Wrong(usize),
    /// All bytes are of one whose end is still to come.
    Begun,
}

impl Character {
    /// std's own goes over the bytes twice, and over the rest of them anew behind each that is wrong.
    #[inline]
    fn first_of(bytes: &[u8]) -> Character {
        // What may stand second tells overlong forms, surrogates and what is beyond Unicode.
        let (length, second) = match bytes[0] {
            0xc2..=0xdf => (2, 0x80..=0xbf),
            0xe0 => (3, 0xa0..=0xbf),
            0xed => (3, 0x80..=0x9f),
            0xe1..=0xef => (3, 0x80..=0xbf),
            0xf0 => (4, 0x90..=0xbf),
            0xf1..=0xf3 => (4, 0x80..=0xbf),
            0xf4 => (4, 0x80..=0x8f),
            _ => return Character::Wrong(1),
        };
        let mut code = u32::from(bytes[0]) & (0x7f >> length);
        for at in 1..length {
            let Some(byte) = bytes.get(at) else { return Character::Begun };
            let fits = if at == 1 { second.contains(byte) } else { matches!(byte, 0x80..=0xbf) };
            if !fits {
                return Character::Wrong(at);
            }
            code = code << 6 | u32::from(byte & 0x3f);
        }
        char::from_u32(code).map_or(Character::Wrong(length), |c| Character::Whole(c, length))
    }
}

/// What of these bytes may be the beginning of a character whose end is still to come.
fn begun_character(bytes: &[u8]) -> &[u8] {
    let end = &bytes[bytes.len().saturating_sub(3)..];
    let Some(at) = end.iter().rposition(|byte| *byte >= 0xc2) else { return &[] };
    match Character::first_of(&end[at..]) {
        Character::Begun => &end[at..],
        Character::Whole(..) | Character::Wrong(_) => &[],
    }
}

/// How many bytes of printable ASCII there are at the beginning; eight at a time.
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES * 0x80;
    let mut run = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let del = word ^ (ONES * 0x7f);
        // The high bit of each byte that is below 0x20, DEL, or no ASCII. A borrow may mark more, but only
        // behind the first, and that is the lowest one.
        let ends = (word.wrapping_sub(ONES * 0x20) | del.wrapping_sub(ONES) & !del | word) & HIGH;
        if ends != 0 {
            return run + (ends.trailing_zeros() / 8) as usize;
        }
        run += 8;
    }
    run + bytes[run..].iter().take_while(|byte| matches!(byte, 0x20..=0x7e)).count()
}

#[cfg(test)]
mod tests;
