use proptest::prelude::*;

use super::super::{Queries, Screen};

/// Of one column, of two, of none; joined, forbidden, plain; and what changes how they are put down.
const PICK: [&str; 12] = [
    "é", "│", "\u{fffd}", "世", "\u{200d}", "\u{301}", "\u{85}", "x", "\x1b[3G", "\x1b[4h", "\x1b[4l",
    "\x1b[?7l",
];

/// What a screen of 10 columns and 4 rows shows after this.
fn after(output: &str) -> String {
    screen(output).capture(None, |_| Vec::new()).unwrap().text()
}

fn screen(output: &str) -> Screen {
    let mut whole = Screen::new(Queries::Us, Some(100));
    whole.begin(10, 4);
    whole.feed(output.as_bytes());
    let mut singly = Screen::new(Queries::Us, Some(100));
    singly.begin(10, 4);
    output.as_bytes().chunks(1).for_each(|byte| singly.feed(byte));
    let seen = |screen: &Screen| {
        let capture = screen.capture(Some(200), |_| Vec::new()).unwrap();
        (capture.ansi(), capture.row, capture.col)
    };
    assert_eq!(seen(&whole), seen(&singly), "a split read must not matter");
    whole
}

fn cursor(output: &str) -> (usize, usize) {
    let capture = screen(output).capture(None, |_| Vec::new()).unwrap();
    (capture.row, capture.col)
}

fn everything(screen: &Screen) -> String {
    screen.capture(Some(200), |_| Vec::new()).unwrap().text()
}

#[test]
fn text_wraps_only_when_more_of_it_comes() {
    assert_eq!(after("0123456789"), "0123456789");
    assert_eq!(cursor("0123456789"), (0, 9));
    assert_eq!(after("0123456789a"), "0123456789\na");
    assert_eq!(after("0123456789\r\na"), "0123456789\na");
    assert_eq!(after("0123456789\x08x"), "01234567x9");
    assert_eq!(after("\x1b[?7l0123456789abc"), "012345678c");
    assert_eq!(after("012345678世"), "012345678\n世");
    assert_eq!(after("01234567世x"), "01234567世\nx");
}

#[test]
fn what_scrolls_off_is_kept_and_what_is_in_a_region_stays() {
    let screen = screen("1\r\n2\r\n3\r\n4\r\n5\r\n6");
    assert_eq!(everything(&screen), "1\n2\n3\n4\n5\n6");
    assert_eq!(screen.capture(None, |_| Vec::new()).unwrap().text(), "3\n4\n5\n6");
    assert_eq!(screen.capture(Some(2), |_| Vec::new()).unwrap().text(), "5\n6");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n\nx"), "1\n\nx\n4");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bMx"), "1\nx\n2\n4");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[2H\x1b[L"), "1\n\n2\n3");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[2H\x1b[2M"), "1\n4");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[2S"), "3\n4");
    assert_eq!(after("1\r\n2\r\n3\r\n4\x1b[T"), "\n1\n2\n3");
}

#[test]
fn a_region_at_the_top_scrolls_into_the_scrollback() {
    // As codex puts its history above what it draws.
    let screen = screen("1\r\n2\r\n3\r\n4\x1b[1;2r\x1b[2;1H\r\na\r\nb");
    assert_eq!(everything(&screen), "1\n2\na\nb\n3\n4");
}

#[test]
fn the_alternate_screen_leaves_the_main_one_as_it_was() {
    assert_eq!(after("main\x1b[?1049hother"), "    other");
    assert_eq!(after("main\x1b[?1049h\x1b[Hother\r\n\n\n\n\n\x1b[?1049l!"), "main!");
    let screen = screen("1\r\n2\x1b[?1049h1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[?1049l");
    assert_eq!(everything(&screen), "1\n2");
}

#[test]
fn erasing_and_shifting() {
    assert_eq!(after("abcdef\x1b[3D\x1b[K"), "abc");
    assert_eq!(after("abcdef\x1b[3D\x1b[1K"), "    ef");
    assert_eq!(after("abcdef\x1b[2K"), "");
    assert_eq!(after("1\r\n2\r\n3\x1b[2;1H\x1b[J"), "1");
    assert_eq!(after("1\r\n2\r\n3\x1b[2;1H\x1b[1J"), "\n\n3");
    assert_eq!(after("abcdef\x1b[4D\x1b[2P"), "abef");
    assert_eq!(after("abcdef\x1b[4D\x1b[2@"), "ab  cdef");
    assert_eq!(after("abcdef\x1b[4D\x1b[2X"), "ab  ef");
    assert_eq!(after("abc\x1b[1G\x1b[4hx\x1b[4ly"), "xybc");
    assert_eq!(after("a\x1b[3bc"), "aaaac");
    let mut cleared = screen("1\r\n2\r\n3\r\n4\r\n5\x1b[3J");
    assert_eq!(everything(&cleared), "2\n3\n4\n5");
    cleared.feed(b"\x1bc");
    assert_eq!(everything(&cleared), "");
}

#[test]
fn the_cursor_goes_where_it_is_sent_and_no_further() {
    for (output, expected) in [
        ("\x1b[3;5H", (2, 4)),
        ("\x1b[99;99H", (3, 9)),
        ("\x1b[3;5H\x1b[9A\x1b[9D", (0, 0)),
        ("\x1b[2B\x1b[3C", (2, 3)),
        ("\x1b[3;5H\x1b[E", (3, 0)),
        ("\x1b[3;5H\x1b[F", (1, 0)),
        ("\x1b[7G\x1b[3d", (2, 6)),
        ("\t", (0, 8)),
        ("\t\t", (0, 9)),
        ("\t\x1b[Z", (0, 0)),
        ("abc\x1b7\r\n\x1b8", (0, 3)),
        ("\x1b[2;3r\x1b[?6h\x1b[9;9H", (2, 8)),
        ("\x1b[2;3r\x1b[2;2H\x1b[9B", (2, 1)),
    ] {
        assert_eq!(cursor(output), expected, "{output:?}");
    }
}

#[test]
fn wide_and_combining_characters() {
    assert_eq!(after("日本語x"), "日本語x");
    assert_eq!(cursor("日本語"), (0, 6));
    assert_eq!(after("e\u{301}x"), "e\u{301}x");
    assert_eq!(cursor("e\u{301}"), (0, 1));
    assert_eq!(after("\u{301}x"), "x");
    assert_eq!(after("a\u{9b}31mx\u{85}"), "a31mx");
    assert_eq!(cursor("👩\u{200d}🚀"), (0, 2));
    assert_eq!(after("👩\u{200d}🚀x"), "👩\u{200d}🚀x");
    assert_eq!(after("e\u{200d} xé"), "e\u{200d} xé");
    assert_eq!(cursor("é\u{200d}é"), (0, 1));
    assert_eq!(after("日本\x1b[2Gx"), " x本");
    assert_eq!(after("\x1b(0lqk\x1b(B lqk"), "┌─┐ lqk");
}

proptest! {
    /// `screen` takes all at once and byte by byte.
    #[test]
    fn characters_in_a_row_are_the_same_as_alone(picked in prop::collection::vec(prop::sample::select(&PICK[..]), 0..40)) {
        screen(&picked.concat());
    }
}

#[test]
fn titles_are_kept_without_what_a_terminal_would_obey() {
    let title = |output: &str| screen(output).capture(None, |_| Vec::new()).unwrap().title;
    assert_eq!(title("\x1b]0;one\x07\x1b]2;two\x1b\\"), "two");
    assert_eq!(title("\x1b]0;a\u{9b}31m\x07"), "a31m");
    assert_eq!(title("\x1b]0;one\x07\x1b[22;0t\x1b]0;two\x07\x1b[23;0t"), "one");
    assert_eq!(title("\x1b]1;icon\x07"), "");
}

#[test]
fn another_size_keeps_what_still_fits() {
    let mut it = screen("1\r\n2\r\n3\r\n4444444444");
    it.resize(5, 2);
    assert_eq!(everything(&it), "1\n2\n3\n44444");
    assert_eq!(it.capture(None, |_| Vec::new()).unwrap().text(), "3\n44444");
    it.resize(20, 6);
    it.feed("\r\n世界世界世界世界".as_bytes());
    assert_eq!(everything(&it), "1\n2\n3\n44444\n世界世界世界世界");
    it.resize(7, 1);
    assert_eq!(it.capture(None, |_| Vec::new()).unwrap().text(), "世界世");
    it.resize(0, 0);
    it.feed("世\x1b[Kx".as_bytes());
    let mut top = screen("1\r\n\r\n\r\n\x1b[H");
    top.resize(10, 2);
    assert_eq!(everything(&top), "1");
    let mut alternate = screen("1\r\n2\r\n3\r\n4\x1b[?1049hx");
    alternate.resize(8, 2);
    alternate.feed(b"\x1b[?1049l!");
    assert_eq!(everything(&alternate), "1\n2\n3\n4!");
}

#[test]
fn colours_come_with_ansi_only() {
    let capture = screen("a\x1b[1;31mb\x1b[m c\x1b[44m \x1b[K").capture(None, |_| Vec::new()).unwrap();
    assert_eq!(capture.text(), "ab c");
    assert_eq!(capture.ansi(), "a\x1b[0;1;31mb\x1b[0m c\x1b[0;44m      \x1b[0m");
}

mod odd {
    use proptest::prelude::*;

    use super::super::super::{Queries, Screen};

    proptest! {
        #[test]
        fn nothing_that_is_written_can_break_it(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..20),
                "[a-z世\u{301}🙂\r\n\t\u{8}]{0,30}".prop_map(String::into_bytes),
                ("\x1b\\[[?>]?[0-9;:]{0,8}[@-~]").prop_map(String::into_bytes),
                "\x1b[78DEHMc]".prop_map(String::into_bytes),
            ], 0..60),
            sizes in prop::collection::vec((0u16..20, 0u16..8), 1..4),
        ) {
            let mut screen = Screen::new(Queries::Us, Some(5));
            screen.begin(9, 3);
            for (n, piece) in pieces.iter().enumerate() {
                if n % 7 == 3 {
                    let (cols, rows) = sizes[n % sizes.len()];
                    screen.resize(cols, rows);
                }
                screen.feed(piece);
                let capture = screen.capture(Some(99), |_| Vec::new()).unwrap();
                prop_assert!(capture.row < capture.rows && capture.col < capture.cols);
                prop_assert!(capture.lines.len() <= capture.rows + 5);
                capture.ansi();
            }
        }
    }
}
