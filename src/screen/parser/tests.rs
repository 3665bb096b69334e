use proptest::prelude::*;

use super::*;

/// Writes down what it hears.
#[derive(Default)]
struct Heard(Vec<String>);

impl Heard {
    fn text(&mut self, text: &str) {
        match self.0.last_mut().filter(|last| last.starts_with('"')) {
            Some(last) => last.push_str(text),
            None => self.0.push(format!("\"{text}")),
        }
    }
}

impl Listener for Heard {
    fn plain(&mut self, text: &[u8]) {
        assert!(text.iter().all(|byte| matches!(byte, 0x20..=0x7e)));
        self.text(std::str::from_utf8(text).unwrap());
    }
    fn other(&mut self, c: char) {
        assert!(!c.is_ascii());
        self.text(c.encode_utf8(&mut [0; 4]));
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
    assert_eq!(heard(b"\x1b]0;[?1h\x07\x1b]2;t\x1b\\x"), ["OSC 0;[?1h Bell", "OSC 2;t St", "ESC\\", "\"x"]);
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
    fn a_run_of_plain_text_ends_at_the_first_byte_that_is_none(bytes in prop::collection::vec(
        prop_oneof![30 => 0x20u8..=0x7e, 1 => any::<u8>()], 0..40)) {
        let end = bytes.iter().position(|b| b.is_ascii_control() || !b.is_ascii()).unwrap_or(bytes.len());
        prop_assert_eq!(plain_run(&bytes), end);
    }

    #[test]
    fn characters_are_what_std_takes_them_for(bytes in prop::collection::vec(
        prop_oneof![2 => any::<u8>(), 3 => prop::sample::select(&b"a\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xe0\xed\xef\xf0\xf4\xf5"[..])],
        0..12)) {
        let text = heard_in(&[&bytes]).into_iter().filter_map(|word| word.strip_prefix('"').map(str::to_owned));
        let known = String::from_utf8_lossy(&bytes);
        // What the end cuts short may still become a character.
        let known = known.strip_suffix('\u{fffd}').filter(|_| !begun_character(&bytes).is_empty()).unwrap_or(&known);
        let printed = known.chars().filter(|c| !c.is_ascii_control());
        prop_assume!(bytes.iter().all(|b| *b != 0x1b));
        prop_assert_eq!(text.collect::<String>(), printed.collect::<String>());
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

/// Listens to sequences alone.
#[derive(Default)]
struct Deaf(Heard);

impl Listener for Deaf {
    fn plain(&mut self, _: &[u8]) {}
    fn other(&mut self, _: char) {}
    fn wants_text(&self) -> bool {
        false
    }
    fn control(&mut self, _: u8) {}
    fn escape(&mut self, between: Option<u8>, last: u8) {
        self.0.escape(between, last);
    }
    fn csi(&mut self, csi: &Csi) {
        self.0.csi(csi);
    }
    fn osc(&mut self, command: &[u8], end: End) {
        self.0.osc(command, end);
    }
    fn dcs(&mut self, data: &[u8]) {
        self.0.dcs(data);
    }
}

proptest! {
    #[test]
    fn who_does_not_want_text_hears_all_else_and_knows_where_a_character_ends(
        pieces in prop::collection::vec(
            prop_oneof![
                "[a-c\u{e9}\u{20ac}\u{1f600}]{0,3}".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..6),
                prop::sample::select(vec![&b"\x1b[1;31m"[..], b"\x1b[", b"38;5;1", b"m", b"\x1b]0;t\x07", b"\xe2\x82", b"\xac"])
                    .prop_map(<[u8]>::to_vec),
            ],
            0..12,
        ),
    ) {
        let (mut one, mut other) = (Parser::default(), Parser::default());
        let (mut heard, mut deaf) = (Heard::default(), Deaf::default());
        for piece in &pieces {
            one.feed(piece, &mut heard);
            other.feed(piece, &mut deaf);
            prop_assert_eq!(one.is_between(), other.is_between());
        }
        heard.0.retain(|word| word.starts_with(['E', 'C', 'O', 'D']));
        prop_assert_eq!(heard.0, deaf.0.0);
    }
}
