//! An event as one line of text.

use std::fmt::Write;

use super::event::{Event, Name};

/// `[<epoch>] [supervisor] <event> key=value …`, without a newline anywhere. The line that begins
/// a run has no `[supervisor]`: it speaks of the session, not of its supervisor.
pub fn line(event: &Event, epoch: u64) -> String {
    match event.name {
        Name::SessionStart => format!("[{epoch}] {}", text(event)),
        _ => format!("[{epoch}] [supervisor] {}", text(event)),
    }
}

/// The line without its head: what journald, which has its own clock, shows as the message.
pub fn text(event: &Event) -> String {
    let mut out = String::from(event.name.as_str());
    let mut fields = event.fields();
    // `user_action=restart` is one word to search for, so the action joins the name.
    if let (Name::UserAction, [(_, action), rest @ ..]) = (event.name, fields) {
        out.push('=');
        put_value(&mut out, action);
        fields = rest;
    }
    for (key, value) in fields {
        out.push(' ');
        out.push_str(key);
        out.push('=');
        put_value(&mut out, value);
    }
    out
}

fn put_value(out: &mut String, value: &str) {
    let plain = |c: char| !(c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '\\') || is_control(c));
    if !value.is_empty() && value.chars().all(plain) {
        out.push_str(value);
        return;
    }
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_control(c) => {
                // Byte by byte, so that one kind of escape gives every value back.
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(out, "\\x{byte:02x}").expect("a String takes everything");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What must not reach the terminal of someone who reads the log: C0, DEL and C1 (U+009B opens an
/// escape sequence), and the characters that break a line or turn its direction around.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that people are shown may hold what would move their cursor, or turn the text around it.
pub fn visible(text: &str) -> String {
    let escape = |c: char| match is_control(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(value: &str) -> String {
        let line = line(&Event::new(Name::Halted).with("why", value), 7);
        line.strip_prefix("[7] [supervisor] halted why=").expect("the head is fixed").to_owned()
    }

    /// What a script that reads the log has to do to get a value back.
    fn unquote(text: &str) -> Option<String> {
        let Some(inner) = text.strip_prefix('"') else { return Some(text.to_owned()) };
        let mut rest = inner.strip_suffix('"')?.bytes();
        let mut bytes = Vec::new();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'"' => return None,
                b'\\' => match rest.next()? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'x' => {
                        let digits = [rest.next()?, rest.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    same @ (b'"' | b'\\') => same,
                    _ => return None,
                },
                byte => byte,
            });
        }
        String::from_utf8(bytes).ok()
    }

    #[test]
    fn an_event_is_a_head_a_name_and_pairs() {
        let event = Event::new(Name::ClaudeExit).with("pid", 42).with("code", 1).with("class", "transient");
        assert_eq!(
            line(&event, 1700000000),
            "[1700000000] [supervisor] claude_exit pid=42 code=1 class=transient"
        );
        assert_eq!(text(&event), "claude_exit pid=42 code=1 class=transient");
        assert_eq!(line(&Event::new(Name::Shutdown), 0), "[0] [supervisor] shutdown");
    }

    #[test]
    fn a_run_begins_without_the_supervisor_tag() {
        let event = Event::new(Name::SessionStart)
            .with("file", "/w/plan.md")
            .with("pane", "%3")
            .with("session", "s-1");
        assert_eq!(line(&event, 5), "[5] session_start file=/w/plan.md pane=%3 session=s-1");
    }

    #[test]
    fn a_user_action_is_one_word() {
        let event = Event::new(Name::UserAction).with("action", "restart").with("start", "fresh");
        assert_eq!(line(&event, 5), "[5] [supervisor] user_action=restart start=fresh");
        assert_eq!(text(&Event::new(Name::UserAction)), "user_action");
    }

    #[test]
    fn values_are_quoted_when_they_would_be_misread() {
        assert_eq!(value("/w/a-b_c:d,e%"), "/w/a-b_c:d,e%");
        assert_eq!(value("naïve→"), "naïve→");
        assert_eq!(value(""), r#""""#);
        assert_eq!(value("two words"), r#""two words""#);
        assert_eq!(value("A=b"), r#""A=b""#);
        assert_eq!(value(r#"say "hi""#), r#""say \"hi\"""#);
        assert_eq!(value("it's"), r#""it's""#);
        assert_eq!(value(r"C:\n"), r#""C:\\n""#);
        assert_eq!(value("a\nb\tc\r"), r#""a\nb\tc\x0d""#);
        assert_eq!(value("\x1b[31m\0\x7f"), r#""\x1b[31m\x00\x7f""#);
        assert_eq!(value("\u{9b}31m"), r#""\xc2\x9b31m""#);
        assert_eq!(value("\u{202e}gpj"), r#""\xe2\x80\xaegpj""#);
        assert_eq!(value("a\u{2028}b"), r#""a\xe2\x80\xa8b""#);
        assert_eq!(value("a\u{a0}b"), "\"a\u{a0}b\"");
    }

    proptest! {
        #[test]
        fn every_value_comes_back_and_never_breaks_the_line(original in any::<String>()) {
            let printed = value(&original);
            prop_assert!(!printed.chars().any(is_control));
            prop_assert!(printed.starts_with('"') || !printed.contains(char::is_whitespace));
            prop_assert_eq!(unquote(&printed), Some(original));
        }
    }
}
