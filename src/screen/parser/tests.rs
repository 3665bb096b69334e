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
