use std::cell::Cell;

use proptest::prelude::*;

use super::*;

/// Bytes that come in shorter reads than asked for.
struct Drip<'a> {
    bytes: &'a [u8],
    most: usize,
    reads: Cell<usize>,
}

impl Bytes for Drip<'_> {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
        self.reads.set(self.reads.get() + 1);
        let from = self.bytes.get(at as usize..).unwrap_or_default();
        let n = from.len().min(buffer.len()).min(self.most);
        buffer[..n].copy_from_slice(&from[..n]);
        n
    }
}

fn drip(bytes: &[u8], most: usize) -> Drip<'_> {
    Drip { bytes, most, reads: Cell::new(0) }
}

fn owned(line: Line) -> Result<Vec<u8>, u64> {
    match line {
        Line::Whole(line) => Ok(line.to_vec()),
        Line::TooLong(length) => Err(length),
    }
}

/// What the lines of a whole text are, said plainly.
fn expected(text: &[u8]) -> Vec<Result<Vec<u8>, u64>> {
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let lines = text[..whole].split_inclusive(|b| *b == b'\n').map(|line| &line[..line.len() - 1]);
    let said = |line: &[u8]| if line.len() > LINE_MAX { Err(line.len() as u64) } else { Ok(line.to_vec()) };
    lines.map(said).collect()
}

fn read_on(forward: &mut Forward, source: &Drip, most_a_step: usize) -> Vec<Result<Vec<u8>, u64>> {
    let (mut lines, end) = (Vec::new(), source.bytes.len() as u64);
    while !forward.is_through(end) {
        let (before, mut had) = (forward.clone(), 0);
        assert!(forward.step(source, end, |line| {
            lines.push(owned(line));
            had += 1;
            if had == most_a_step { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
        if (before.at, before.seen) == (forward.at, forward.seen) {
            panic!("no step forward at {}", forward.at);
        }
        // The rest of a half-written line is looked through only once.
        if forward.at == before.at && memchr(b'\n', &source.bytes[forward.at as usize..]).is_none() {
            assert!(forward.seen > before.seen);
        }
        if memchr(b'\n', &source.bytes[forward.at as usize..]).is_none() && forward.is_through(end) {
            break;
        }
    }
    lines
}

fn begin_of_last(source: &Drip, wanted: u64) -> Start {
    let mut backward = Backward::from(source.bytes.len() as u64, wanted);
    loop {
        let start = backward.step(source, |line| match line {
            Line::Whole(line) => line.iter().filter(|b| **b == b'x').count() as u64,
            Line::TooLong(_) => 1,
        });
        if let Some(start) = start {
            return start;
        }
    }
}

/// Texts with lines of every interesting length.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![
        8 => 0..40usize,
        2 => PIECE - 2..PIECE + 3,
        1 => LINE_MAX - 1..LINE_MAX + 2,
        1 => 2 * LINE_MAX..2 * LINE_MAX + 1,
    ];
    let line = (length, prop_oneof![Just(b'x'), Just(b'.'), Just(0u8), Just(0xffu8)]);
    (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, is_whole)| {
        let mut text: Vec<u8> =
            lines.iter().flat_map(|(n, b)| [vec![*b; *n], vec![b'\n']].concat()).collect();
        if !is_whole {
            text.pop();
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_the_same_however_they_are_read_and_however_they_come(
        text in text(),
        most in prop_oneof![Just(7usize), Just(4096), Just(usize::MAX)],
        growth in prop::collection::vec(0.0..1.0f64, 0..4),
        most_a_step in 1..4usize,
    ) {
        let most = if text.len() > 4 * PIECE { most.max(4096) } else { most };
        let mut stops: Vec<usize> = growth.iter().map(|part| (text.len() as f64 * part) as usize).collect();
        stops.push(text.len());
        stops.sort_unstable();
        let mut forward = Forward::from(0, &drip(b"", 1));
        let mut lines = Vec::new();
        for stop in stops {
            let source = drip(&text[..stop], most);
            prop_assert!(forward.fits(&source, stop as u64));
            lines.extend(read_on(&mut forward, &source, most_a_step));
        }
        prop_assert_eq!(lines, expected(&text));
    }

    #[test]
    fn the_last_so_many_begin_where_counting_all_would_say(text in text(), wanted in 0..60u64) {
        let source = drip(&text, usize::MAX);
        let start = begin_of_last(&source, wanted);
        let worth = |line: &Result<Vec<u8>, u64>| match line {
            Ok(line) => line.iter().filter(|b| **b == b'x').count() as u64,
            Err(_) => 1,
        };
        let all: u64 = expected(&text).iter().map(worth).sum();
        let mut forward = Forward::from(start.at, &source);
        let got: u64 = read_on(&mut forward, &source, usize::MAX).iter().map(worth).sum();
        prop_assert_eq!(got - start.surplus, all.min(wanted));
        prop_assert!(!start.cut_off);
    }
}

#[test]
fn one_step_reads_one_piece_and_one_line_at_most() {
    let text = [vec![b'.'; 3 * LINE_MAX], b"\n".to_vec(), vec![b'.'; LINE_MAX], b"\n".to_vec()].concat();
    let source = drip(&text, usize::MAX);
    let mut forward = Forward::from(0, &source);
    while !forward.is_through(text.len() as u64) {
        source.reads.set(0);
        forward.step(&source, text.len() as u64, |_| ControlFlow::Continue(()));
        assert!(source.reads.get() <= 4, "{}", source.reads.get());
    }
    let mut backward = Backward::from(text.len() as u64, 100);
    let mut steps = 0;
    while backward.step(&source, |_| 1).is_none() {
        steps += 1;
    }
    assert_eq!(steps, text.len() / PIECE);
}

#[test]
fn a_file_that_was_rewritten_does_not_fit() {
    let old = b"one\ntwo\nthree\nhalf";
    let mut forward = Forward::from(0, &drip(old, usize::MAX));
    read_on(&mut forward, &drip(old, usize::MAX), usize::MAX);
    for (new, fits) in [
        (&b"one\ntwo\nthree\nhalf and more\n"[..], true),
        (b"one\ntwo\nthree\n", true),
        (b"one\ntwo\n", false),
        (b"", false),
        (b"one\ntwo\nTHREE\nhalf and more\n", false),
    ] {
        let source = drip(new, usize::MAX);
        assert_eq!(forward.fits(&source, new.len() as u64), fits, "{}", new.escape_ascii());
    }
    // The half-written line was replaced by a shorter one.
    let new = b"one\ntwo\nthree\nx\n";
    forward.look_again(new.len() as u64);
    assert_eq!(read_on(&mut forward, &drip(new, usize::MAX), usize::MAX), [Ok(b"x".to_vec())]);
}

#[test]
fn only_so_much_of_a_huge_file_is_looked_through() {
    struct Huge;
    impl Bytes for Huge {
        fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
            for (i, byte) in buffer.iter_mut().enumerate() {
                *byte = if (at + i as u64).is_multiple_of(1 << 20) { b'\n' } else { b'.' };
            }
            buffer.len()
        }
    }
    let length = 500 << 20;
    let mut backward = Backward::from(length, u64::MAX);
    let (mut steps, mut lines) = (0, 0);
    let start = loop {
        steps += 1;
        let step = backward.step(&Huge, |line| {
            assert_eq!(line, Line::TooLong((1 << 20) - 1));
            lines += 1;
            1
        });
        if let Some(start) = step {
            break start;
        }
    };
    assert_eq!((steps, lines), (BACK_MOST / PIECE as u64, 63));
    assert_eq!(start, Start { at: length - BACK_MOST + 1, surplus: 0, cut_off: true });
}
