use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Written by claude 2.1.197: a terminal's conversation, then parts of one of `claude -p`, then of a
/// subagent's.
const REAL: &str = include_str!("../../../tests/transcripts/claude.jsonl");

/// `role kind text`, and what there is of a tool.
fn shown(entry: &Entry) -> String {
    let tool = entry.tool.as_ref().map_or(String::new(), |tool| match &tool.name {
        Some(name) => format!("{name}({})", gist(&tool.input)),
        None => format!("{}: ", if entry.failed { "failed" } else { "ok" }),
    });
    let text = entry.text.lines().next().unwrap_or_default();
    format!("{:?} {:?} {tool}{}", entry.role, entry.kind, &text[..text.len().min(70)])
}

#[test]
fn a_real_conversation_is_what_was_said_and_done() {
    let entries: Vec<Entry> = REAL.lines().flat_map(|line| entries(line).unwrap()).collect();
    let seen: Vec<String> = entries.iter().map(shown).collect();
    assert_eq!(
        seen,
        [
            "User Text tool: echo one",
            "Assistant Text Let me run that.",
            "Assistant ToolUse Bash(echo one)",
            "Tool ToolResult ok: one",
            "Assistant Text done with the tool",
            "User Command ! echo from bash mode",
            "System Output from bash mode",
            "Assistant Text reply to: nothing",
            "User Text wait slowly",
            "Assistant Text reply to: wait slowly",
            "System Notice [Request interrupted by user]",
            "User Text queued message",
            "Assistant Text reply to: queued message",
            "User Command /status",
            "System Output Settings dialog dismissed",
            "User Command /usage",
            "System Output Settings dialog dismissed",
            "User Text tool: sleep 4; echo late",
            "Assistant Text Let me run that.",
            "Assistant ToolUse Bash(sleep 4; echo late)",
            "Tool ToolResult ok: late",
            "User Text steering message",
            "Assistant Text done with the tool",
            "System Notice Conversation compacted",
            "System Summary This session is being continued from a previous conversation that ran ",
            "User Command /compact",
            "System Output \u{1b}[2mCompacted (ctrl+o to see full summary)\u{1b}[22m",
            "User Text after the compaction",
            "Assistant Text reply to: after the compaction",
            "User Text think about it",
            "Assistant Thinking I wonder about this.",
            "Assistant Text I thought about it.",
            "User Text two: seq 1 50",
            "Assistant ToolUse Bash(seq 1 50)",
            "Assistant ToolUse Bash(false)",
            "Tool ToolResult failed: Exit code 1",
            "User Text fail now",
            "Assistant Error API Error: 400 failed as asked",
            "User Text agent go",
            "Assistant ToolUse Agent(look around)",
            "Tool ToolResult ok: done with the tool",
            "User Text read: /w/red.png",
            "Assistant ToolUse Read(/w/red.png)",
            "Tool ToolResult ok: [image/png, 75 bytes]",
        ]
    );
    let first = &entries[0];
    assert_eq!(first.at, Some(1_794_973_526.467), "{first:?}");
    let (used, gave) = (entries[2].tool.as_ref().unwrap(), entries[3].tool.as_ref().unwrap());
    assert_eq!((&used.id, &used.input["description"]), (&gave.id, &json!("run it")));
}

fn said(line: serde_json::Value) -> Vec<String> {
    entries(&line.to_string()).unwrap().iter().map(shown).collect()
}

#[test]
fn a_message_may_have_many_parts() {
    let content = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJDRA=="}},
        {"type": "document", "source": {"type": "url", "url": "x"}},
        {"type": "text", "text": "<system-reminder>not the user's</system-reminder>"},
        {"type": "text", "text": "  \n"},
        {"type": "new_in_some_later_version"},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
    ]);
    assert_eq!(
        said(json!({"type": "user", "message": {"content": content}})),
        [
            "User Text look",
            "User Attachment image/png, 4 bytes",
            "User Attachment document",
            "Tool ToolResult ok: a"
        ]
    );
    let many = vec![json!({"type": "text", "text": "x"}); 101];
    let line = json!({"type": "user", "message": {"content": many}}).to_string();
    assert_eq!(entries(&line), Err(Unreadable));
}

#[test]
fn bookkeeping_and_what_is_for_the_model_alone_is_left_out() {
    for line in [
        json!({"type": "user", "isMeta": true, "message": {"content": "x"}}),
        json!({"type": "user", "isSidechain": true, "message": {"content": "x"}}),
        json!({"type": "queue-operation", "operation": "enqueue", "content": "x"}),
        json!({"type": "attachment", "attachment": {"type": "skill_listing", "content": "x"}}),
        json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "isMeta": true}}),
        json!({"type": "summary", "summary": "a title"}),
        json!({"type": "system", "subtype": "turn_duration", "durationMs": 5}),
        json!({"type": "user", "message": "no object"}),
        json!({"type": "user"}),
        json!({"type": "assistant", "message": {"content": [5, null, [], {"type": 7}]}}),
    ] {
        assert_eq!(said(line.clone()), [""; 0], "{line}");
    }
}

#[test]
fn what_is_no_line_of_a_transcript_is_unreadable() {
    let deep = format!("{{\"type\":\"user\",\"message\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for line in ["", "x", "5", "[]", "{}", "{\"type\":7}", "{\"type\":\"user\"", "\u{0}{}", "null", &deep] {
        assert_eq!(entries(line), Err(Unreadable), "{line:.40}");
    }
    // What nobody looks at may be as deep as it likes.
    let deep = format!("{{\"type\":\"mode\",\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(entries(&deep), Ok(vec![]));
}

#[test]
fn times_are_seconds_since_1970() {
    for (text, at) in [
        ("1970-01-01T00:00:00Z", Some(0.0)),
        ("2000-02-29T00:00:00.5Z", Some(951_782_400.5)),
        ("2026-11-16T17:43:43.250Z", Some(1_794_851_023.25)),
        ("2100-03-01T00:00:00Z", Some(4_107_542_400.0)),
        ("2026-11-16T17:43:43", None),
        ("2026-13-16T17:43:43Z", None),
        ("2026-11-16T25:43:43Z", None),
        ("2026-11-16T17:43:43.1e5Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("99999999999-01-01T00:00:00Z", None),
        ("yesterday", None),
    ] {
        let line = json!({"type": "user", "timestamp": text, "message": {"content": "x"}}).to_string();
        assert_eq!(entries(&line).unwrap()[0].at, at, "{text}");
    }
}

#[test]
fn the_gist_of_a_tool_is_what_tells_most() {
    for (input, text) in [
        (json!({"description": "list", "command": "ls -l"}), "ls -l"),
        (json!({"file_path": "/a", "content": "…"}), "/a"),
        (json!({"x": 1}), "{\"x\":1}"),
        (json!({"command": ["ls"]}), "{\"command\":[\"ls\"]}"),
        (json!({}), ""),
        (json!(null), ""),
    ] {
        assert_eq!(gist(&input), text);
    }
}

proptest! {
    #[test]
    fn no_line_is_too_odd(line in ".{0,200}") {
        let _ = entries(&line);
    }

    #[test]
    fn no_change_to_a_real_line_is_too_odd(nth in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let lines: Vec<&str> = REAL.lines().collect();
        let mut line = nth.get(&lines).as_bytes().to_vec();
        let at = at.index(line.len());
        line[at] = with;
        let _ = entries(&String::from_utf8_lossy(&line));
    }
}
