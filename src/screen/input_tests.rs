use super::*;

fn after(typed: &[u8]) -> (bool, bool) {
    let (mut draft, now) = (Draft::default(), Instant::now());
    let keys = Input::default().feed(typed, now, &mut draft);
    // However the bytes come, they mean the same.
    let (mut split, mut input) = (Draft::default(), Input::default());
    let mut split_keys = false;
    for byte in typed {
        split_keys |= input.feed(&[*byte], now, &mut split);
    }
    assert_eq!(split, draft, "{:?}", typed.escape_ascii().to_string());
    // A report that begins with an ESC of its own looks like a key until the next byte is there.
    assert!(split_keys || !keys);
    (draft.stands(), keys)
}

#[test]
fn what_a_terminal_says_by_itself_is_no_key() {
    for report in [
        "\x1b[I",
        "\x1b[O",
        "\x1b[<35;10;12M",
        "\x1b[<0;10;12m",
        "\x1b[M !!",
        "\x1b[35;10;12M",
        "\x1b[12;40R",
        "\x1b[?12;40;1R",
        "\x1b[?62;22c",
        "\x1b[>1;10;0c",
        "\x1b[0n",
        "\x1b[?997;1n",
        "\x1b[?2026;2$y",
        "\x1b[4;2$y",
        "\x1b[?1u",
        "\x1b[4;640;960t",
        "\x1b[8;40;120t",
        "\x1b[48;40;120;640;960t",
        "\x1b]10;rgb:ffff/ffff/ffff\x07",
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1bP>|xterm(390)\x1b\\",
        "\x1bP1+r544e=787465726d\x1b\\",
        "\x1bP!|00000000\x1b\\",
        "\x1b_Gi=1;OK\x1b\\",
        // A key that is let go.
        "\x1b[97;1:3u",
        "\x1b[1;1:3A",
    ] {
        assert_eq!(after(report.as_bytes()), (false, false), "{report:?}");
        assert_eq!(after(format!("{report}{report}").as_bytes()), (false, false), "{report:?}");
        assert_eq!(after(format!("{report}a").as_bytes()), (true, true), "{report:?}, then a key");
    }
}

#[test]
fn keys_make_and_end_a_draft() {
    for (typed, stands) in [
        ("a", true),
        ("ü", true),
        ("a\x7f", false),
        ("ü\x7f", false),
        ("日本\x7f\x7f", false),
        ("ab\x08", true),
        ("\x7f\x7fa", true),
        ("a\r", false),
        ("a\rb", true),
        ("a\x03", false),
        ("abc\x15", false),
        // Not sent: a new line within the draft.
        ("a\\\r", true),
        ("a\x1b\r", true),
        ("\n", true),
        ("a\x1b[13;2u", true),
        // Older lines.
        ("\x1b[A", true),
        ("\x1bOB", true),
        ("\x10", true),
        ("\x12", true),
        ("\x1b[A\x7f\x7f", true),
        ("\x1b[A\r", false),
        // Pasted: nothing in it is sent, whatever it holds.
        ("\x1b[200~a\rb\r\x1b[201~", true),
        ("\x1b[200~a\rb\r\x1b[201~\r", false),
        ("\x1b[200~\x1b[20\x1b[201~", true),
        ("\x1b[200~\x1b[201~", false),
        // As the kitty protocol and modifyOtherKeys tell it.
        ("\x1b[97u", true),
        ("\x1b[97;129u\x1b[127u", false),
        ("a\x1b[13u", false),
        ("a\x1b[99;5u", false),
        ("a\x1b[117;5u", false),
        ("a\x1b[27;5;99~", false),
        ("\x1b[112;5u", true),
        ("\x1b[57441;2u", false),
        ("\x1b[57400u", true),
        ("\x1b[57400u\x1b[57414u", false),
        // Keys that change nothing.
        ("\x1b", false),
        ("\x1b\x1b", false),
        ("\x1b[C\x1b[D\x1b[H\x1b[F\x1b[3~\x1b[1;5C\x1bb\x1bOP\x1b[[A\t\x0c\x1a", false),
        ("a\x1b", true),
    ] {
        assert_eq!(after(typed.as_bytes()), (stands, true), "{typed:?}");
    }
}

#[test]
fn what_comes_later_than_an_escape_was_typed_by_itself() {
    let (mut draft, mut input, now) = (Draft::default(), Input::default(), Instant::now());
    assert!(input.feed(b"\x1b", now, &mut draft));
    assert!(input.feed(b"]x", now + 2 * ONE_GO, &mut draft));
    assert!(draft.stands());
    // Within a paste nothing is too late.
    let (mut draft, mut input) = (Draft::default(), Input::default());
    input.feed(b"\x1b[200~a", now, &mut draft);
    input.feed(b"\r", now + 20 * ONE_GO, &mut draft);
    assert!(draft.stands());
}

#[test]
fn a_string_without_an_end_does_not_swallow_keys_for_ever() {
    let (mut draft, mut input, now) = (Draft::default(), Input::default(), Instant::now());
    input.feed(&[b"\x1b]".as_slice(), &[b'x'; 5000]].concat(), now, &mut draft);
    assert!(draft.stands());
    let long = format!("\x1b[{}", "1;".repeat(100));
    assert_eq!(after(long.as_bytes()), (true, true));
}

proptest::proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_taken(typed: Vec<u8>, at in 0usize..100) {
        after(&typed);
        let (mut draft, mut input, now) = (Draft::default(), Input::default(), Instant::now());
        let (first, rest) = typed.split_at(at.min(typed.len()));
        input.feed(first, now, &mut draft);
        input.feed(rest, now + 5 * ONE_GO, &mut draft);
        draft.take(Stroke::Submit);
        proptest::prop_assert!(!draft.stands());
    }
}

#[test]
fn what_has_begun_is_waited_for_as_long_as_its_rest_may_come() {
    let now = Instant::now();
    for (typed, is_half) in [
        ("x", false),
        ("\x1b", true),
        ("\x1b[", true),
        ("\x1b[<35;10", true),
        ("\x1b[A", false),
        ("\x1b]10;rgb:", true),
        ("\x1b[200~", true),
        ("\x1b[200~text\x1b[20", true),
        ("\x1b[200~text\x1b[201~", false),
    ] {
        let mut input = Input::default();
        input.feed(typed.as_bytes(), now, &mut Draft::default());
        assert_eq!(input.half_typed(), is_half.then_some(now + ONE_GO), "{typed:?}");
    }
}
