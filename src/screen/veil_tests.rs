use super::*;

/// What is left of a stream that comes in `pieces`; `…` stands for the end of all patience.
fn veiled(secrets: &[&str], pieces: &[&str]) -> String {
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    let (mut veil, mut text, mut written) = (Veil::new(&secrets), Unwritten::default(), Vec::new());
    for piece in pieces.iter().chain(&["…"]) {
        if *piece == "…" {
            veil.release(&mut text);
            assert_eq!(veil.held_from(), None);
        } else {
            let from = text.end();
            text.push(piece.as_bytes());
            veil.look(&mut text, from);
        }
        let until = veil.held_from().unwrap_or(text.end());
        written.extend(text.between(text.begin, until).iter().filter(|byte| **byte != NOTHING));
        text.forget(until);
    }
    String::from_utf8(written).expect("characters stay whole")
}

const SECRET: &str = "sk-12345678";

#[test]
fn a_secret_is_hidden_however_it_comes() {
    for (pieces, left) in [
        (&["a sk-12345678 b"][..], "a *********** b"),
        (&["a sk-123", "45678 b"], "a *********** b"),
        (&["s", "k", "-", "1", "2", "3", "4", "5", "6", "7", "8"], "***********"),
        (&["sk-12345678sk-12345678"], "**********************"),
        (&["sk-1\x1b[31m2345\x1b[0m678 b"], "****\x1b[31m****\x1b[0m*** b"),
        (&["sk-1\x1b", "[3", "1", "m2345678"], "****\x1b[31m*******"),
        (&["sk-1\x1b]0;title\x072345678"], "****\x1b]0;title\x07*******"),
        (&["sk-1\x1b(B2345678"], "****\x1b(B*******"),
        (&["sk-123\r\n45678 b"], "******\r\n***** b"),
        (&["│ sk-123 │\r\n", "│ 45678  │"], "│ ****** │\r\n│ *****  │"),
        (&["  ⎿  sk-123\r\n     45678"], "  ⎿  ******\r\n     *****"),
        (&["|sk-123|\x1b[5;3H|45678|"], "|******|\x1b[5;3H|*****|"),
        (&["\x1b]0;a sk-12345678 b\x07x"], "\x1b]0;a *********** b\x07x"),
        (&["\x1b]8;;http://x/?k=sk-123", "45678\x1b\\x"], "\x1b]8;;http://x/?k=***********\x1b\\x"),
        (&["\x1bPq sk-12345678\x1b\\"], "\x1bPq ***********\x1b\\"),
        // The first character is a part of the sequence for a terminal, and of the secret for a reader.
        (&["\x1bsk-12345678"], "\x1b***********"),
        (&["\x1b[3sk-12345678"], "\x1b[3***********"),
        (&["sk-12345sk-12345678"], "sk-12345***********"),
    ] {
        assert_eq!(veiled(&[SECRET], pieces), left, "{pieces:?}");
    }
}

#[test]
fn what_is_no_secret_stays_as_it_is() {
    for pieces in [
        &["sk-1234567"][..],
        &["sk-123", "x45678"],
        &["sk-12\x1b]0;345678\x07!"],
        &["\x1b]0;sk-12\x07345678"],
        &["\x1b]0;sk-12\x1b\\345678"],
        &["s\x1b[31mk", "\u{1b}", "[0m!"],
        &["日本 │ ─\u{7f}\u{85}\u{9b}"],
    ] {
        // Followed by another character: what ends in a long beginning of a secret is hidden.
        let shown: String = pieces.concat() + "!";
        assert_eq!(veiled(&[SECRET], &[&[shown.as_str()][..]].concat()), shown);
        let pieces: Vec<&str> = pieces.iter().copied().chain(["!"]).collect();
        assert_eq!(veiled(&[SECRET], &pieces), shown);
    }
    assert_eq!(veiled(&[], &["sk-12345678", "\x1b"]), "sk-12345678\x1b");
}

#[test]
fn after_a_long_pause_the_rest_is_still_hidden() {
    for (pieces, left) in [
        (&["a sk-", "…", "12345678 b"][..], "a sk-******** b"),
        (&["a sk-1", "…", "2345678 b"], "a *********** b"),
        (&["s", "…", "k", "…", "-", "…", "1", "…", "2", "…", "3", "…", "45678"], "sk-********"),
        (&["sk-1", "…", "2", "…", "no"], "*****no"),
        (&["sk-", "…", "\x1b[31m", "…", "12345678"], "sk-\x1b[31m********"),
        (&["\x1b]0;sk-12", "…", "345678\x07"], "\x1b]0;***********\x07"),
    ] {
        assert_eq!(veiled(&[SECRET], pieces), left, "{pieces:?}");
    }
}

#[test]
fn secrets_may_overlap() {
    assert_eq!(veiled(&["abcdefgh", "efghijkl"], &["<abcdefghijkl>"]), "<************>");
    assert_eq!(veiled(&["abcdefgh", "efghijkl"], &["<abcdef", "gh", "…", "ijkl>"]), "<************>");
    assert_eq!(veiled(&["abcdefgh", "abcdefghijkl"], &["abcdefgh", "…", "ijkl"]), "************");
    assert_eq!(veiled(&["abcabcab"], &["abcabcabcab!"]), "***********!");
    assert_eq!(veiled(&["aaaaaaab"], &["aaaaaaaaab!"]), "aa********!");
}

#[test]
fn secrets_may_hold_blanks_frames_and_wide_characters() {
    assert_eq!(veiled(&["correct horse"], &["a correct horse b"]), "a ************* b");
    assert_eq!(veiled(&["correct horse"], &["a correct\r\n│ horse b"]), "a *******\r\n│ ***** b");
    assert_eq!(veiled(&["|pass|word"], &["x|pass|word y"]), "x********** y");
    assert_eq!(veiled(&["|pass|word"], &["| |pass |\r\n| |word |"]), "| |**** |\r\n| |**** |");
    assert_eq!(veiled(&["one\ntwo\nthree\n"], &["one\r\ntwo\r\nthree\r\n."]), "***\r\n***\r\n*****\r\n.");
    assert_eq!(veiled(&["geheim本é"], &["日 geheim本", "é x"]), "日 ********* x");
    // Only combined marks: nothing of it has a column.
    assert_eq!(
        veiled(&["e\u{301}e\u{301}e\u{301}e\u{301}"], &["xe\u{301}e\u{301}e\u{301}e\u{301}y"]),
        "x****y"
    );
    // Too little is left without its blanks to be looked for in other shapes.
    assert_eq!(veiled(&["a - b - c"], &["a-b-c and a - b - c."]), "a-b-c and *********.");
    assert_eq!(veiled(&["||||||||"], &["|||||||| x"]), "******** x");
}

#[test]
fn another_terminal_knows_nothing_of_a_sequence_that_was_begun() {
    let (mut veil, mut text) = (Veil::new(&[SECRET.to_owned()]), Unwritten::default());
    for piece in ["\x1b]0;title", SECRET] {
        let from = text.end();
        text.push(piece.as_bytes());
        veil.look(&mut text, from);
        assert_eq!(veil.at == At::Osc, piece != SECRET);
        veil.begin_anew();
    }
    assert!(text.bytes.ends_with(b"title***********"));
}
