use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::screen::canvas::Canvas;
use crate::screen::quiet::Quiet;
use crate::screen::{Queries, Screen};

/// What a row looks like: of a blank only the background is seen.
fn shown(row: &Row) -> String {
    let (mut out, mut now) = (String::new(), Style::PLAIN);
    row.pieces(|piece| {
        for c in piece.text.chars() {
            let style = if c == ' ' && piece.style.hides_blanks() { Style::PLAIN } else { piece.style };
            if std::mem::replace(&mut now, style) != style {
                style.write(&mut out);
            }
            out.push(c);
        }
    });
    out
}

/// All that decides what is seen, now and after more output.
fn state(screen: &Screen) -> String {
    let it = screen.follower.emulator.as_ref().unwrap();
    let rows = |grid: &Grid| grid.each().map(shown).collect::<Vec<_>>().join("\n");
    let saved = |saved: &Saved| {
        let mut pen = String::new();
        saved.pen.write(&mut pen);
        format!("{:?} {pen:?} {} {:?} {}", saved.cursor, saved.origin, saved.drawing, saved.shifted)
    };
    // That of a screen which is not shown can be neither seen nor set.
    let other = it.alternate.as_ref().map(|_| saved(&it.saved[1]));
    let modes = (
        screen.follower.modes.painted(),
        screen.follower.modes.alternate(),
        screen.follower.modes.kitty_on(0),
    );
    format!(
        "main\n{}\nalternate\n{:?}\nnow {}\nsaved {} {other:?}\nregion {:?} tabs {:?} wrap {} insert {} newline {} \
         visible {}\ntitle {:?} {:?}\nmodes {:?}\n",
        rows(&it.main),
        it.alternate.as_ref().map(rows),
        saved(&it.now),
        saved(&it.saved[0]),
        it.region,
        it.tabs.iter().enumerate().filter(|(_, tab)| **tab).map(|(col, _)| col).collect::<Vec<_>>(),
        it.autowrap,
        it.insert,
        it.newline,
        it.cursor_is_visible,
        it.title,
        it.titles,
        modes,
    )
}

fn screen(cols: u16, rows: u16) -> Screen {
    let mut screen = Screen::new(Queries::Terminal, Some(0));
    screen.begin(cols, rows);
    screen
}

/// The agent's terminal, and one that attaches at `cut` and is told what comes afterwards.
fn joined(bytes: &[u8], cut: usize, (cols, rows): (u16, u16), mut other: Screen) -> [(String, String); 2] {
    let (mut agent, mut quiet) = (screen(cols, rows), Quiet::default());
    agent.feed(&bytes[..cut]);
    quiet.feed(&bytes[..cut]);
    other.feed(&Canvas::new().whole(&agent));
    let at_once = (state(&other), state(&agent));
    agent.feed(&bytes[cut..]);
    other.feed(&quiet.feed(&bytes[cut..]));
    [at_once, (state(&other), state(&agent))]
}

#[track_caller]
fn check(bytes: &[u8], cut: usize, size: (u16, u16), what: &str) {
    let used = || {
        // A terminal that had a life before, and was left in the middle of something.
        let mut used = screen(size.0, size.1);
        used.feed(b"old\x1b[31m\x1b7\x1b[?1049h\x1b[>1u\x1b[?1000;1006;2004h\x1b[3;5r\x1b[?6h\x1b[4h\x1b(0\x1b[31mx\x1b]52;c;abc");
        used
    };
    for other in [screen(size.0, size.1), used()] {
        for (theirs, ours) in joined(bytes, cut, size, other) {
            if let Some((theirs, ours)) = theirs.lines().zip(ours.lines()).find(|(a, b)| a != b) {
                panic!("{what} at {cut}:\nnewcomer {theirs:?}\nagent    {ours:?}");
            }
            assert_eq!(theirs.lines().count(), ours.lines().count());
        }
    }
}

#[test]
fn whoever_attaches_to_a_recorded_program_sees_and_goes_on_seeing_what_it_draws() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    // ci asks for the whole proof.
    let full = std::env::var_os("AGENTSUP_TEST_FULL").is_some_and(|v| v == "1");
    let (first, step) = if full { (300, 97) } else { (40, 397) };
    let mut cuts = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        // Every byte of the beginning, where modes are set, then a prime's step.
        for cut in (0..first).chain((first..=bytes.len()).step_by(step)) {
            check(&bytes, cut, (100, 30), &path.display().to_string());
            cuts += 1;
        }
    }
    assert!(cuts > 400, "{cuts}");
}

#[test]
fn each_part_of_a_terminals_state_is_painted() {
    for output in [
        "text",
        "\x1b[1;3;4;9;38;5;200;48;2;1;2;3mstyled\x1b[K",
        "日本 e\u{301} 👩\u{200d}🚀x ❤\u{fe0f}y",
        "0123456789",
        "0123456789\x1b[31m",
        "0123456789abc\r\n",
        "012345678世x",
        "\x1b[4;1H0123456789",
        "\x1b[2;3r\x1b[?6h\x1b[2;4Hx",
        "\x1b[2;3r\x1b[3;1H",
        "ab\x1b[4h\x1b[1;2H",
        "\x1b[?7l0123456789xyz",
        "\x1b[20h",
        "\x1b(0lqk",
        "\x1b)0\x0elqk",
        "\x1b[3;4H\x1b[32m\x1b7\x1b[H\x1b[0m",
        "\x1b[3g\x1b[1;4H\x1bH",
        "main\x1b[3;3H\x1b[?1049halt\x1b[2;2H\x1b7\x1b[4;4H",
        "main\x1b[?1047halt",
        "main\x1b[?47h\x1b[33malt",
        "\x1b[2;3r\x1b[?6h\x1b[?1049h\x1b[?6l\x1b[rx",
        "\x1b[?25l\x1b[?1000;1002;1003;1006;1004;2004;1;5h\x1b=",
        "\x1b[5 q",
        "\x1b[>1u\x1b[>5u\x1b[>4;2m",
        "\x1b[>1u\x1b[?1049h\x1b[>3u",
        "\x1b]2;one\x07\x1b[22;2t\x1b]2;two\x07",
        "\x1b[?12h\x1b[?1007l",
        "\x1b[?2026h half",
        "\x1b[7m          ",
        "\x1b[41m\x1b[2J",
        "\x1b]8;;http://x\x07link",
        "\x1b#8",
    ] {
        for rest in [
            "",
            "z",
            "zz",
            "\x1b[3b",
            "\n\nz",
            "\x1b8z",
            "\x1b[?1049lz",
            "\x1b[?1047lz",
            "\tz\tz",
            "\x1b[<uz",
            "世",
            "\x1b[23;2t",
        ] {
            let bytes = [output, rest].concat();
            // Only what is repeated at once is repeated rightly.
            if rest == "\x1b[3b" && !["text", "abc", "789", "lqk"].iter().any(|end| output.ends_with(end)) {
                continue;
            }
            check(bytes.as_bytes(), output.len(), (10, 4), &format!("{output:?} {rest:?}"));
        }
    }
}

fn piece() -> impl Strategy<Value = String> {
    let words = vec![
        "text ",
        "0123456789",
        "世界",
        "e\u{301}",
        "\r\n",
        "\n",
        "\x08",
        "\t",
        "\x1b[2;3r",
        "\x1b[r",
        "\x1b[?6h",
        "\x1b[?6l",
        "\x1b7",
        "\x1b8",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[31m",
        "\x1b[0;7m",
        "\x1b[44m",
        "\x1b[m",
        "\x1b[K",
        "\x1b[J",
        "\x1b[2J",
        "\x1b[H",
        "\x1b[3;7H",
        "\x1b[4h",
        "\x1b[4l",
        "\x1b[?7l",
        "\x1b[?7h",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x0e",
        "\x0f",
        "\x1b[L",
        "\x1b[M",
        "\x1b[2P",
        "\x1b[2@",
        "\x1b[2X",
        "\x1bM",
        "\x1bD",
        "\x1b[S",
        "\x1b[T",
        "\x1b[?25l",
        "\x1b[?2004h",
        "\x1b[>1u",
        "\x1b[<u",
        "\x1b[3 q",
        "\x1b]2;t\x07",
        "\x1bH",
        "\x1b[3g",
        "\x1b[5G",
        "\x1b[2d",
        "\x1b[A",
        "\x1bc",
        "\x1b[!p",
        "\x1b[20h",
        "\x1b#8",
    ];
    prop::sample::select(words).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn whatever_was_written_a_newcomer_is_no_stranger(
        before in prop::collection::vec(piece(), 0..40),
        after in prop::collection::vec(piece(), 0..20),
        cols in 1u16..14,
        rows in 1u16..6,
    ) {
        let before = before.concat();
        check([&before, &after.concat()[..]].concat().as_bytes(), before.len(), (cols, rows), "random");
    }
}

#[test]
fn a_line_that_was_wrapped_stays_one_line() {
    for (output, wrapped) in [("0123456789abc\r\nd", 1), ("012345678世x", 1), ("0123456789\r\nabc", 0)] {
        let (mut agent, mut other) = (screen(10, 4), screen(10, 4));
        agent.feed(output.as_bytes());
        other.feed(&Canvas::new().whole(&agent));
        let lines = other.capture(None, |_| Vec::new()).unwrap().lines;
        assert_eq!(lines.iter().filter(|line| line.wrapped).count(), wrapped, "{output:?}");
    }
}

#[test]
fn a_view_shows_what_fits_and_the_cursor_is_always_in_it() {
    let mut agent = screen(20, 6);
    agent.feed("0123456789abcdefghij\x1b[2;1H\x1b[31mred\x1b[m 日本\x1b[6;17Hlast".as_bytes());
    let seen = |agent: &Screen, cols: u16, rows: u16| {
        let mut other = screen(cols, rows);
        other.feed(&Canvas::new().frame(agent, (usize::from(cols), usize::from(rows)), None));
        let capture = other.capture(None, |_| Vec::new()).unwrap();
        (capture.text(), (capture.row, capture.col))
    };
    assert_eq!(
        seen(&agent, 30, 8),
        ("0123456789abcdefghij\nred 日本\n\n\n\n                last".to_owned(), (5, 19))
    );
    assert_eq!(seen(&agent, 10, 3), ("\n\n      last".to_owned(), (2, 9)));
    agent.feed(b"\x1b[2;1H");
    assert_eq!(seen(&agent, 5, 2), ("01234\nred".to_owned(), (1, 0)));
    // Half of a wide character is none.
    agent.feed(b"\x1b[2;10H");
    assert_eq!(seen(&agent, 5, 1), (" 本".to_owned(), (0, 4)));
    assert_eq!(seen(&agent, 1, 1).1, (0, 0));
}

#[test]
fn the_next_frame_says_only_what_is_new() {
    let (mut agent, mut other) = (screen(20, 4), screen(30, 4));
    let mut canvas = Canvas::new();
    agent.feed(b"\x1b[?2004hone\r\ntwo\r\nthree");
    other.feed(&canvas.frame(&agent, (30, 4), Some("a note that is longer than thirty columns")));
    let text = |screen: &Screen| screen.capture(None, |_| Vec::new()).unwrap().text();
    assert_eq!(text(&other), "one\ntwo\nthree\na note that is longer than thi");
    assert_eq!(other.modes_off(), agent.modes_off());
    agent.feed(b"\x1b[2;1Hzwei");
    let next = String::from_utf8(canvas.frame(&agent, (30, 4), None)).unwrap();
    assert!(next.contains("zwei") && !next.contains("one") && !next.contains("2004"), "{next:?}");
    other.feed(next.as_bytes());
    assert_eq!(text(&other), "one\nzwei\nthree");
    agent.feed(b"\x1b[?2004l\x1b[?1000h");
    other.feed(&canvas.frame(&agent, (30, 4), None));
    assert_eq!(other.modes_off(), agent.modes_off());
    assert_eq!(text(&other), "one\nzwei\nthree");
}

#[test]
fn what_a_terminal_showed_before_is_scrolled_off_once() {
    let mut agent = screen(10, 3);
    agent.feed(b"agent");
    for whole in [true, false] {
        let mut other = Screen::new(Queries::Terminal, Some(100));
        other.begin(10, 3);
        other.feed(b"mine");
        let mut canvas = Canvas::new();
        for _ in 0..3 {
            let painted = if whole { canvas.whole(&agent) } else { canvas.frame(&agent, (10, 3), None) };
            other.feed(&painted);
        }
        let all = other.capture(Some(100), |_| Vec::new()).unwrap().text();
        assert_eq!(all.matches("mine").count(), 1, "{all}");
        assert_eq!(all.matches("agent").count(), 1, "{all}");
    }
}

#[test]
fn between_two_agents_the_last_screen_and_our_lines_are_seen() {
    let mut agent = screen(20, 4);
    agent.feed(b"shell$ vim\r\n\x1b[?1049h\x1b[?1000hin vim");
    let lines = ["[supervisor] it ended".to_owned(), "[supervisor] again".to_owned()];
    let after = agent.after_the_agent((20, 4), &agent.modes_off(), &lines);
    let capture = after.capture(None, |_| Vec::new()).unwrap();
    assert_eq!(
        capture.text(),
        "shell$ vim\n[supervisor] it ende\nd\n[supervisor] again".split_once('\n').unwrap().1
    );
    assert!(after.modes_off().is_empty());
    let none = Screen::new(Queries::Terminal, Some(10)).after_the_agent((20, 4), b"", &lines[1..]);
    assert_eq!(none.capture(None, |_| Vec::new()).unwrap().text(), "[supervisor] again");
}

#[test]
fn the_base_takes_back_every_mode_that_is_watched() {
    let mut other = screen(20, 4);
    for mode in 1..10_000 {
        if ![7, 25].contains(&mode) {
            other.feed(format!("\x1b[?{mode}h").as_bytes());
        }
    }
    other.feed(b"\x1b[?7l\x1b[?25l\x1b=\x1b[>1u\x1b[>4;2m\x1b[3 q\x1b(0\x1b[2;3r");
    other.feed(crate::screen::canvas::off().as_bytes());
    let left = String::from_utf8(other.modes_off()).unwrap();
    assert!(left.replace("\x1b[?1048l", "").trim_end_matches("\x1b[0m").is_empty(), "{left:?}");
}
