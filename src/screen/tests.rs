use super::*;

fn answers(output: &str) -> String {
    let mut screen = Screen::new(Queries::Us, Some(10));
    screen.begin(120, 40);
    screen.feed(output.as_bytes());
    let answers = String::from_utf8(screen.take_answers()).unwrap();
    assert!(screen.take_answers().is_empty(), "one answer, never two");
    let mut asked = Screen::new(Queries::Terminal, Some(10));
    asked.begin(120, 40);
    asked.feed(output.as_bytes());
    assert!(asked.take_answers().is_empty(), "the terminal on stdin has answered");
    answers
}

#[test]
fn every_query_has_one_answer() {
    for (query, answer) in [
        ("\x1b[6n", "\x1b[1;1R"),
        ("ab\r\ncd\x1b[6n", "\x1b[2;3R"),
        ("\x1b[?6n", "\x1b[?1;1R"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[?996n", "\x1b[?997;1n"),
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[0c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>1;10;0c"),
        ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
        ("\x1b[>0q", concat!("\x1bP>|agentsup ", env!("CARGO_PKG_VERSION"), "\x1b\\")),
        ("\x1b[14t", "\x1b[4;640;960t"),
        ("\x1b[16t", "\x1b[6;16;8t"),
        ("\x1b[18t", "\x1b[8;40;120t"),
        ("\x1b]10;?\x07", "\x1b]10;rgb:d0d0/d0d0/d0d0\x07"),
        ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
        ("\x1b]10;?;?\x07", "\x1b]10;rgb:d0d0/d0d0/d0d0\x07\x1b]11;rgb:0000/0000/0000\x07"),
        ("\x1b]4;1;?;231;?\x07", "\x1b]4;1;rgb:cdcd/0000/0000\x07\x1b]4;231;rgb:ffff/ffff/ffff\x07"),
        ("\x1b]4;250;?\x07", "\x1b]4;250;rgb:bcbc/bcbc/bcbc\x07"),
        ("\x1b[?u", "\x1b[?0u"),
        ("\x1b[>1u\x1b[?u", "\x1b[?1u"),
        ("\x1b[>1u\x1b[=4;2u\x1b[?u\x1b[<u\x1b[?u", "\x1b[?5u\x1b[?0u"),
        ("\x1b[?2026$p", "\x1b[?2026;2$y"),
        ("\x1b[?2026h\x1b[?2026$p", "\x1b[?2026;1$y"),
        ("\x1b[?25$p\x1b[?7$p", "\x1b[?25;1$y\x1b[?7;1$y"),
        ("\x1b[?2048$p\x1b[?12345$p", "\x1b[?2048;0$y\x1b[?12345;0$y"),
        ("\x1b[4$p\x1b[4h\x1b[4$p\x1b[2$p", "\x1b[4;2$y\x1b[4;1$y\x1b[2;0$y"),
        ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
        ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
        // Answers of another terminal, settings and text ask for nothing.
        ("\x1b[1;1R\x1b[?62;22c\x1b[0n\x1b[8;40;120t\x1b[?0u", ""),
        ("\x1b]10;#ffffff\x07\x1b]52;c;?\x07\x1b]0;?\x07\x1b[21t", ""),
        ("[6n ESC[6n", ""),
    ] {
        assert_eq!(answers(query), answer, "{query:?}");
    }
}

#[test]
fn a_secret_that_begins_above_the_screen_is_hidden_on_it() {
    let mut screen = Screen::new(Queries::Terminal, Some(100));
    screen.begin(8, 2);
    screen.feed(b"x sk-12345678 y\r\n");
    let find = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap();
        text.match_indices("sk-12345678").map(|(at, it)| at..at + it.len()).collect()
    };
    assert_eq!(screen.capture(None, find).unwrap().text(), "***** y");
    assert_eq!(screen.capture(Some(9), find).unwrap().text(), "x ******\n***** y");
    assert_eq!(screen.capture(Some(9), find).unwrap().whole_lines(), ["x *********** y"]);
}

#[test]
fn memory_is_bounded_by_the_scrollback() {
    let mut screen = Screen::new(Queries::Terminal, Some(10));
    screen.begin(80, 5);
    for n in 0..1000 {
        screen.feed(format!("line {n}\r\n").as_bytes());
    }
    let capture = screen.capture(Some(usize::MAX), |_| Vec::new()).unwrap();
    assert_eq!(capture.lines.len(), 14);
    assert_eq!(capture.lines[0].text(), "line 986");
    let mut none = Screen::new(Queries::Terminal, Some(0));
    none.begin(80, 2);
    none.feed(b"1\r\n2\r\n3");
    assert_eq!(none.capture(Some(9), |_| Vec::new()).unwrap().text(), "2\n3");
}

#[test]
fn a_new_agent_begins_on_an_empty_screen() {
    let mut screen = Screen::new(Queries::Terminal, Some(10));
    assert!(screen.capture(None, |_| Vec::new()).is_none());
    screen.begin(10, 2);
    screen.feed(b"1\r\n2\r\n3\x1b[?1049h\x1b]0;cut");
    screen.begin(10, 2);
    screen.feed(b"x");
    let capture = screen.capture(Some(9), |_| Vec::new()).unwrap();
    assert_eq!((capture.text().as_str(), screen.modes_off().len()), ("x", 0));
}

#[test]
fn widths_are_those_of_unicode() {
    for c in '\0'..=char::MAX {
        assert_eq!(width(c), c.width().unwrap_or(0), "{c:?}");
    }
}
