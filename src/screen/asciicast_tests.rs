use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn parsed(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// No line goes over the end of a page.
fn assert_pages(size: u64, bytes: &[u8]) {
    let mut at = size;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len() as u64;
        assert_eq!(at / PAGE as u64, (end - 1) / PAGE as u64, "{at}..{end}");
        at = end;
    }
    assert!(at % PAGE as u64 <= (PAGE - LEAST_ROOM) as u64, "{at}");
}

#[test]
fn a_recording_is_a_header_and_an_event_a_line() {
    let begun = Instant::now();
    let mut lines = Lines::new(0, begun);
    lines.header(&Header::new("sh, session s", Some("xterm"), None), (80, 24), 1_700_000_000);
    lines.event(begun, Kind::Output, "a\x1b[1m\"\\\r\n\t\x08\x0c\x7f日\u{fffd}".as_bytes());
    lines.event(begun + Duration::from_micros(1_500_001), Kind::Input, b"q");
    lines.event(begun + Duration::from_secs(61), Kind::Resize, b"100x30");
    lines.event(begun - Duration::from_secs(1), Kind::Marker, b"before");
    let text = String::from_utf8(lines.bytes.clone()).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"version":2,"width":80,"height":24,"timestamp":1700000000,"title":"sh, session s","env":{"TERM":"xterm"}}"#,
            "\n",
            r#"[0.000000, "o", "a\u001b[1m\"\\\r\n\t\b\f"#,
            "\x7f日\u{fffd}\"]\n",
            r#"[1.500001, "i", "q"]"#,
            "\n",
            r#"[61.000000, "r", "100x30"]"#,
            "\n",
            r#"[0.000000, "m", "before"]"#,
            "\n",
        )
    );
    assert_eq!((parsed(&lines.bytes).len(), lines.events), (5, 4));
}

#[test]
fn long_names_and_labels_are_cut() {
    let mut lines = Lines::new(0, Instant::now());
    let long = "\u{1}".repeat(10_000);
    lines.header(&Header::new(&long, Some(&long), Some(&long)), (1, 1), u64::MAX);
    lines.event(lines.begun, Kind::Marker, long.as_bytes());
    assert_pages(0, &lines.bytes);
    let parsed = parsed(&lines.bytes);
    assert_eq!(parsed[0]["title"].as_str().unwrap().len(), LONGEST_WORD);
    assert_eq!(parsed.last().unwrap()[2].as_str().unwrap().len(), LONGEST_WORD);
}

#[test]
fn a_filler_is_an_output_of_nothing() {
    let begun = Instant::now();
    let mut lines = Lines::new(PAGE as u64 - 100, begun);
    lines.event(begun, Kind::Marker, &[b'x'; 90]);
    assert_eq!(parsed(&lines.bytes), [json!([0.0, "o", ""]), json!([0.0, "m", "x".repeat(90)])]);
    assert_pages(PAGE as u64 - 100, &lines.bytes);
    assert_eq!(lines.events, 1);
}

#[test]
fn what_is_nothing_is_left_out() {
    let mut out = Vec::new();
    assert_eq!(escape(b"**\xff and more\xff", 100, &mut out), 13);
    assert_eq!(out, b"** and more");
}

#[test]
fn a_run_ends_where_an_escape_is_needed() {
    for special in (0..0x20).chain([b'"', b'\\', NOTHING]) {
        for at in 0..20 {
            let mut text = [b'x'; 20];
            text[at] = special;
            assert_eq!(plain_run(&text), at, "{special:#x}");
            text.fill(0xc3);
            text[at] = special;
            assert_eq!(plain_run(&text), at, "{special:#x}");
        }
    }
    let plain = "日本 !#[]^~\u{7f}\u{80}\u{fffd}";
    assert_eq!(plain_run(plain.as_bytes()), plain.len());
}

/// A few characters, each of them any number of times.
fn texts() -> impl Strategy<Value = String> {
    let run = (any::<char>(), 0..400usize).prop_map(|(c, times)| c.to_string().repeat(times));
    let run = prop_oneof![run, "[\\x00-\\x7f]{0,20}"];
    prop::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
}

proptest! {
    #[test]
    fn any_text_comes_back_and_no_line_goes_over_a_page(
        texts in prop::collection::vec(texts(), 1..6),
        kinds in prop::collection::vec(0..4usize, 6),
    ) {
        let begun = Instant::now();
        let (mut size, mut all) = (0, Vec::new());
        let mut wanted = [String::new(), String::new()];
        for (text, kind) in texts.iter().zip(kinds) {
            let mut lines = Lines::new(size, begun);
            let kind = [Kind::Output, Kind::Input, Kind::Resize, Kind::Marker][kind];
            lines.event(begun, kind, text.as_bytes());
            assert_pages(size, &lines.bytes);
            size += lines.bytes.len() as u64;
            all.extend(lines.bytes);
            match kind {
                Kind::Output => wanted[0] += text,
                Kind::Input => wanted[1] += text,
                Kind::Resize | Kind::Marker => {}
            }
        }
        for (letter, wanted) in ["o", "i"].into_iter().zip(wanted) {
            let events = parsed(&all);
            let texts = events.iter().filter(|event| event[1] == letter).map(|event| event[2].as_str().unwrap());
            prop_assert_eq!(texts.collect::<String>(), wanted);
        }
    }
}
