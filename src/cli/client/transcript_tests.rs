use super::*;
use crate::control::protocol::{ConversationFrame, End, SkippedFrame, Tool};

const PIPE: Look = Look { colours: false, width: None };
const NARROW_TERMINAL: Look = Look { colours: false, width: Some(40) };

fn said(role: Speaker, kind: EntryKind, text: &str) -> Entry {
    Entry { role, kind, text: text.into(), at: Some(1_794_851_023.5), ..Entry::default() }
}

fn used(id: &str, name: &str, text: &str) -> Entry {
    let tool = Tool { id: id.into(), name: Some(name.into()), input: None };
    Entry { tool: Some(tool), ..said(Speaker::Assistant, EntryKind::ToolUse, text) }
}

fn gave(id: &str, text: &str) -> Entry {
    let tool = Tool { id: id.into(), ..Tool::default() };
    Entry { tool: Some(tool), ..said(Speaker::Tool, EntryKind::ToolResult, text) }
}

fn shown(look: Look, entries: &[Entry]) -> String {
    let mut page = Page::new(look);
    let frames = entries.iter().map(|entry| StreamFrame::Entry(Box::new(entry.clone())));
    frames.filter_map(|frame| page.shown(&frame)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_conversation_reads_from_top_to_bottom() {
    let numbers: String = (1..=50).map(|n| format!("{n}\n")).collect();
    let entries = [
        said(Speaker::User, EntryKind::Text, "please count\n\n  to fifty"),
        said(Speaker::Assistant, EntryKind::Thinking, "hm"),
        used("a", "Bash", "seq 1 50\necho"),
        used("b", "Read", "/w/f"),
        Entry { is_error: true, ..gave("b", "no such file") },
        gave("a", &numbers),
        Entry { at: Some(1_794_951_023.5), cut: 2048, ..said(Speaker::Assistant, EntryKind::Text, "Done.") },
        said(Speaker::System, EntryKind::Notice, "Conversation compacted"),
    ];
    assert_eq!(
        shown(PIPE, &entries),
        "\
── 2026-11-16, UTC ──
17:43:43 user
  please count

    to fifty

17:43:43 Bash  seq 1 50 echo
17:43:43 Read  /w/f
  failed
  no such file
  of Bash  seq 1 50 echo
  1
  2
  3
  4
  5
  … 45 more lines

── 2026-11-17, UTC ──
21:30:23 assistant
  Done.
  … 2.0 KiB more

── 2026-11-16, UTC ──
17:43:43 notice
  Conversation compacted"
    );
    let colours = shown(Look { colours: true, width: None }, &entries[..2]);
    assert!(colours.contains("\x1b[2m  hm\x1b[0m"), "{colours:?}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_words_stay_whole() {
    let long = "the quick brown fox jumps over the lazy dog and does so for the whole night";
    let wide = "日本語".repeat(20);
    let entries = [
        said(Speaker::User, EntryKind::Text, long),
        said(Speaker::Assistant, EntryKind::Text, &wide),
        said(Speaker::Assistant, EntryKind::Text, &format!("    {}", "x".repeat(90))),
        used("a", "Bash", &long.repeat(3)),
        gave("a", &long.repeat(3)),
    ];
    let text = shown(NARROW_TERMINAL, &entries);
    for line in text.lines() {
        assert!(columns(line) <= 40, "{line}");
    }
    assert!(
        text.contains(
            "  the quick brown fox jumps over the\n  lazy dog and does so for the whole\n  night\n"
        )
    );
    assert_eq!(text.matches('語').count(), 20);
    assert_eq!(text.matches('x').count(), 90 + 3, "{text}");
    assert!(shown(PIPE, &entries[..1]).contains(long), "a pipe has no width");
}

#[test]
fn nothing_in_it_is_obeyed_by_a_terminal() {
    for (text, left) in [
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
        ("a\x1bPq#0\x1b\\b\x1b(0c\x1bcd\x1b", "abcd"),
        ("\x1b]never ended\nnext", "\nnext"),
        ("\u{9b}31m\u{90}x\0\x07\x08\x7f\r", "31mx"),
        ("\u{202e}abc\u{2066}", "\\u{202e}abc\\u{2066}"),
        ("a\tb ä 日", "a    b ä 日"),
    ] {
        assert_eq!(plain(text), left, "{text:?}");
    }
    let evil = "\x1b[2J\u{9b}2J\x1b]52;c;eA==\x07\u{202e}";
    let entries = [
        said(Speaker::User, EntryKind::Text, evil),
        used(evil, evil, evil),
        gave("x", evil),
        gave(evil, evil),
    ];
    let frames = entries.iter().map(|entry| StreamFrame::Entry(Box::new(entry.clone())));
    let conversation = Conversation { id: evil.into(), news: News::Changed, empty: false };
    let other = StreamFrame::Conversation(ConversationFrame { conversation });
    let mut page = Page::new(PIPE);
    for text in frames.chain([other]).filter_map(|frame| page.shown(&frame)) {
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || turns_text(c))), "{text:?}");
    }
}

#[test]
fn what_agentsup_says_itself_is_plain() {
    let mut page = Page::new(PIPE);
    let mut conversation = |news, empty| {
        let conversation = Conversation { id: "c1".into(), news, empty };
        page.shown(&StreamFrame::Conversation(ConversationFrame { conversation }))
    };
    assert_eq!(conversation(News::Current, false), None);
    let end = || StreamFrame::End(End { end: true });
    let none = "… no conversation yet: nobody has said anything to the agent";
    assert_eq!(conversation(News::Current, true).unwrap(), none);
    assert_eq!(conversation(News::Changed, true).unwrap(), "… another conversation from here on: c1");
    assert_eq!(page.shown(&end()), None);
    assert_eq!(Page::new(PIPE).shown(&end()).unwrap(), none, "a file with nothing to show");
    let skipped = Skipped { why: SkippedWhy::TooLong, bytes: 5 << 20 };
    assert_eq!(
        page.shown(&StreamFrame::Skipped(SkippedFrame { skipped })).unwrap(),
        "… passed over: one line of 5.0 MiB"
    );
}
