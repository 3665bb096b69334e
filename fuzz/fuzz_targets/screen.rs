//! The emulator. The input's first byte chooses sizes and how the rest is cut into pieces: whatever
//! an agent writes, the screen stays within its limits, and the way it was read does not matter; and a
//! terminal elsewhere can be made to show the same, without ever being asked anything.
#![no_main]

use agentsup::screen::canvas::Canvas;
use agentsup::screen::quiet::Quiet;
use agentsup::screen::{Queries, Screen};
use libfuzzer_sys::fuzz_target;

const SCROLLBACK: usize = 20;

fn shown(pieces: &[&[u8]], (cols, rows): (u16, u16)) -> (String, Vec<u8>, Vec<u8>) {
    let mut screen = Screen::new(Queries::Us, Some(SCROLLBACK));
    screen.begin(cols, rows);
    let mut answers = Vec::new();
    for piece in pieces {
        screen.feed(piece);
        answers.extend(screen.take_answers());
    }
    let capture = screen.capture(Some(usize::MAX), |_| Vec::new()).expect("it is on");
    assert!(capture.row < capture.rows && capture.col < capture.cols);
    assert!(capture.lines.len() <= capture.rows + SCROLLBACK);
    (capture.ansi(), answers, screen.modes_off())
}

fuzz_target!(|input: &[u8]| {
    let Some((seed, stream)) = input.split_first() else { return };
    let size = (u16::from(seed >> 3) + 1, u16::from(seed & 7) + 1);
    let singly: Vec<&[u8]> = stream.chunks(usize::from(seed % 5) + 1).collect();
    let whole = shown(&[stream], size);
    assert_eq!(shown(&singly, size), whole);
    // Whoever attaches in the middle is not asked anything, and sees what there is.
    let (before, after) = stream.split_at(stream.len() / 2);
    let mut agent = Screen::new(Queries::Terminal, Some(SCROLLBACK));
    agent.begin(size.0, size.1);
    agent.feed(before);
    let mut quiet = Quiet::default();
    quiet.feed(before);
    let mut viewer = Screen::new(Queries::Us, Some(SCROLLBACK));
    viewer.begin(size.0, size.1);
    viewer.feed(&Canvas::new().whole(&agent));
    let text = |screen: &Screen| screen.capture(None, |_| Vec::new()).expect("it is on").text();
    // A joiner at the end of a cell would join what is painted behind it.
    if !text(&agent).contains('\u{200d}') {
        assert_eq!(text(&viewer), text(&agent));
    }
    for piece in after.chunks(usize::from(seed % 5) + 1) {
        viewer.feed(&quiet.feed(piece));
    }
    assert!(viewer.take_answers().is_empty());
    let mut other = Screen::new(Queries::Us, Some(SCROLLBACK));
    other.begin(size.1, size.0);
    other.feed(&Canvas::new().frame(&agent, (usize::from(size.1), usize::from(size.0)), Some("note")));
    assert!(other.take_answers().is_empty());
    // Another size on the way, and half of everything masked.
    let mut screen = Screen::new(Queries::Terminal, Some(SCROLLBACK));
    screen.begin(size.0, size.1);
    for (n, piece) in stream.chunks(50).enumerate() {
        screen.feed(piece);
        screen.resize(size.1 + n as u16 % 7, size.0 / (n as u16 % 3 + 1));
    }
    let hidden = screen.capture(Some(usize::MAX), |text| vec![text.len() / 4..text.len() / 2]);
    hidden.expect("it is on").ansi();
});
