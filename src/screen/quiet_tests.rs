use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::super::{Queries, Screen};
use super::*;

fn quiet(bytes: &[u8]) -> Vec<u8> {
    Quiet::default().feed(bytes)
}

#[test]
fn whatever_makes_a_terminal_answer_is_taken_out_and_its_neighbours_stay() {
    for question in [
        "\x05",
        "\x1bZ",
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[>0;1c",
        "\x1b[=c",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[?15n",
        "\x1b[?996n",
        "\x1b[?1;2;3;4n",
        "\x1b[>q",
        "\x1b[>0q",
        "\x1b[x",
        "\x1b[1x",
        "\x1b[11t",
        "\x1b[13;2t",
        "\x1b[14t",
        "\x1b[14;2t",
        "\x1b[15t",
        "\x1b[16t",
        "\x1b[18t",
        "\x1b[19t",
        "\x1b[20t",
        "\x1b[21t",
        "\x1b[?u",
        "\x1b[?4m",
        "\x1b[?1g",
        "\x1b[?1;1;0S",
        "\x1b[?2026$p",
        "\x1b[4$p",
        "\x1b[1$w",
        "\x1b[2;1$u",
        "\x1b[&u",
        "\x1b[1;1;1;1;9;9*y",
        "\x1b[\"v",
        "\x1b['|",
        "\x1b[#|",
        "\x1b[+x",
        "\x1b[#R",
        "\x1b[,u",
        "\x1b]10;?\x07",
        "\x1b]11;?\x1b\\",
        "\x1b]4;1;?\x07",
        "\x1b]4;0;#fff;1;?\x07",
        "\x1b]5;0;?\x07",
        "\x1b]12;?\x07",
        "\x1b]19;?\x07",
        "\x1b]50;?\x07",
        "\x1b]52;c;?\x07",
        "\x1b]52;;?\x1b\\",
        "\x1b]60\x07",
        "\x1b]21;foreground=?\x07",
        "\x1b]22;?__current__\x07",
        "\x1b]1337;ReportCellSize\x07",
        "\x1b]1337;ReportVariable=dGVzdA==\x07",
        "\x1b]99;i=1:p=?;\x07",
        "\x1b]5522;type=read\x1b\\",
        "\x1b]11;?\x18",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1bP+Qxterm\x1b\\",
        "\x1bP@kitty-cmd{}\x1b\\",
        "\x1b_Gi=1,a=q,s=1,v=1;AAAA\x1b\\",
        "\x1b_Gf=100,a=T;AAAA\x1b\\",
        "\x1b[?2048h",
        "\x1b[?02048h",
        "\x1bPtmux;\x1b\x1b]11;?\x07\x1b\\",
        "\x1bPtmux;\x1b\x1b[c\x1b\\",
        "\u{9b}",
        "\u{85}",
    ] {
        let around = format!("a\u{e9}{question}\u{4e16}b");
        assert_eq!(String::from_utf8(quiet(around.as_bytes())).unwrap(), "aé世b", "{question:?}");
    }
}

#[test]
fn what_asks_nothing_passes_byte_for_byte() {
    for output in [
        "text \x07\x08\t\r\n\x0b\x0c\x0e\x0f\x00\x7f",
        "\x1b[1;31mred\x1b[m",
        "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H",
        "\x1b[>4;2m\x1b[>1u\x1b[=5;2u\x1b[<u\x1b[u\x1b[s",
        "\x1b[22;2t\x1b[23;2t\x1b[8;40;120t",
        "\x1b[!p\x1b[\"p\x1b[2 q",
        "\x1b[?1;2c",
        "\x1b[>4n",
        "\x1b]0;what?\x07\x1b]2;?;?\x1b\\",
        "\x1b]8;;http://x/?a=?\x1b\\link\x1b]8;;\x1b\\",
        "\x1b]52;c;aGVsbG8=\x07",
        "\x1b]10;#ffffff\x07\x1b]104\x07",
        "\x1b]4;1;rgb:00/00/00\x1b\\",
        "\x1b]9;done?\x07",
        "\x1b]133;A\x07",
        "\x1b]777;notify;a;?\x07",
        "\x1b]1337;SetMark\x07",
        "\x1bP0;1q#0;2;0;0;0~\x1b\\",
        "\x1b_Gq=2,a=T,m=1;AAAA\x1b\\\x1b_Gm=0;BBBB\x1b\\",
        "\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\",
        "\x1b7\x1b8\x1bM\x1bD\x1bc\x1b(0\x1b)B\x1b#8\x1b=\x1b>\x1b%G\x1b F",
        "\x1b[?2004;1004h\x1b[?2048l",
        "\x1b[6\x18n",
        "\x1b]broken\x1a",
        "日本語 👩\u{200d}🚀 e\u{301}",
        "\x1bXsos\x1b\\\x1b^pm\x1b\\\x1b_apc\x1b\\",
        "\x1b[4:3m\x1b[38:2::1:2:3m\x1b[1;2H\x1b[5b\x1b[?6h\x1b[3;9r\x1b[?5W",
    ] {
        assert_eq!(String::from_utf8_lossy(&quiet(output.as_bytes())), output);
    }
    let bytes: Vec<u8> = (0x20..=0xff).filter(|byte| *byte != C1).collect();
    assert_eq!(quiet(&[&bytes[..], b"."].concat()), [&bytes[..], b"."].concat());
}

#[test]
fn reports_of_the_size_are_taken_out_of_a_list() {
    assert_eq!(quiet(b"\x1b[?2004;2048;25h"), b"\x1b[?2004;25h");
}

#[test]
fn nothing_is_held_back_without_end() {
    let picture = [b"\x1bPq".as_slice(), &[b'~'; 50_000], b"\x1b\\after"].concat();
    let mut passing = Quiet::default();
    assert!(!passing.feed(&picture[..40_000]).is_empty() && !passing.is_between());
    passing.feed(&picture[40_000..]);
    assert!(passing.is_between());
    assert_eq!(quiet(&picture), picture);
    let clipboard = [b"\x1b]52;c;".as_slice(), &[b'Q'; 50_000], b"\x07after"].concat();
    assert_eq!(quiet(&clipboard), clipboard);
    // Who asks may do so at the end.
    let colours = [b"\x1b]4;".as_slice(), &b"1;#fff;".repeat(5_000), b"2;?\x07after"].concat();
    assert_eq!(quiet(&colours), b"after");
    let params = [b"\x1b[".as_slice(), &b"0;".repeat(5_000), b"n\nafter"].concat();
    assert_eq!(quiet(&params), b"\nafter");
    for endless in [b"\x1b[\x7f\n".repeat(2000), b"!".repeat(100_000), b"\x1bPtmux;x".repeat(50_000)] {
        let mut quiet = Quiet::default();
        quiet.feed(b"\x1b!");
        quiet.feed(&endless);
        assert!(quiet.held.len() <= LONGEST_STRING + 1, "{}", quiet.held.len());
    }
}

#[test]
fn a_control_within_a_sequence_is_not_lost_with_it() {
    assert_eq!(quiet(b"a\x1b[6\r\nnb\x1b[\n2\x05Cc"), b"a\r\nb\n\x1b[2Cc");
}

#[test]
fn a_character_in_two_reads_comes_whole() {
    let mut quiet = Quiet::default();
    assert_eq!(quiet.feed("a世".as_bytes().split_last().unwrap().1), b"a");
    assert_eq!(quiet.feed(b"\x96b"), "世b".as_bytes());
    assert_eq!(quiet.feed(b"\xe4b"), b"\xe4b", "what cannot go on is not held back");
    assert_eq!(quiet.feed(b"\xe4"), b"");
    assert_eq!(quiet.feed(b"\x1b[m"), b"\xe4\x18\x1b[m");
}

#[test]
fn no_question_is_made_of_what_stood_around_another() {
    for (output, said) in [
        (b"\xc2\x1b[6n\x9b6n".as_slice(), b"\xc2\x18\x9b6n".as_slice()),
        (b"\xc2\xc2\x9b\x9b6n", b"\xc2\x18\x9b6n"),
        (b"\x1b[\x1b[6n6n", b"6n"),
        (b"\x1b]0;a\x1b[6n\x07", b"\x1b]0;a\x1b\\\x07"),
        (b"\x1b\x05[6n", b""),
    ] {
        assert_eq!(quiet(output), said, "{output:?}");
        let mut singly = Quiet::default();
        assert_eq!(
            output.iter().flat_map(|byte| singly.feed(&[*byte])).collect::<Vec<_>>(),
            said,
            "{output:?}"
        );
    }
}

fn screen(queries: Queries, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(queries, Some(50));
    screen.begin(40, 10);
    screen.feed(bytes);
    screen
}

fn seen(screen: &Screen) -> (String, usize, usize, Vec<u8>) {
    let capture = screen.capture(Some(usize::MAX), |_| Vec::new()).unwrap();
    (capture.ansi(), capture.row, capture.col, screen.modes_off())
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "\x1b", "[", "]", "P", "_", "\\", "\x07", "\x18", ";", "?", ">", "$", "6", "n", "c", "p", "q", "u",
        "t", "m", "11", "10", "4", "52", "text", "世", "\r\n", "\x1b[", "\x1b]", "\x1bP", "\x1b\\", "h", "l",
        "1049", "2048", "\x05", "tmux;", "G", "\u{9b}", "+", "H", "5", "Z", "b", "(0",
    ]);
    prop_oneof![
        8 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    #[test]
    fn nobody_is_asked_and_the_screen_is_the_same(pieces in prop::collection::vec(piece(), 0..60), size in 1usize..9) {
        let whole = pieces.concat();
        let mut quiet = Quiet::default();
        let mut said: Vec<u8> = whole.chunks(size).flat_map(|chunk| quiet.feed(chunk)).collect();
        prop_assert_eq!(&said, &Quiet::default().feed(&whole), "a split read must not matter");
        let mut asked = screen(Queries::Us, &said);
        prop_assert_eq!(String::from_utf8(asked.take_answers()).unwrap(), "");
        // What is held back ends with the next sequence, if it ends at all.
        said.extend(quiet.feed(b"\x18"));
        if quiet.held.is_empty() && !pieces.iter().any(|piece| piece == b"tmux;") {
            let before = screen(Queries::Terminal, &[&whole[..], b"\x18"].concat());
            prop_assert_eq!(seen(&screen(Queries::Terminal, &said)).0, seen(&before).0);
        }
    }
}

#[test]
fn recorded_programs_look_the_same_without_their_questions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut questions = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let said = quiet(&bytes);
        questions += bytes.len() - said.len();
        assert_eq!(seen(&screen(Queries::Terminal, &said)), seen(&screen(Queries::Terminal, &bytes)));
        assert!(screen(Queries::Us, &said).take_answers().is_empty());
    }
    assert!(questions > 0, "no recorded program asks anything");
}
