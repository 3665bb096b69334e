//! The text of a caller, as it is typed, and as an agent says it back.

/// The start and end of what a terminal says was pasted.
const PASTE: [&str; 2] = ["\x1b[200~", "\x1b[201~"];
/// What Linux keeps of a line while a program has it edited by the terminal.
pub const LONGEST_LINE: usize = 4095;

/// Without controls but newline and tab: none of them is text, and any of them may be a key.
pub fn clean(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    lines.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Agents take an Enter behind a backslash for a new line: the text would stay where it is, and the
/// next one come behind it. A blank between the two changes nothing that they read.
pub fn end_for_enter(text: &mut String) {
    if text.ends_with('\\') {
        text.push(' ');
    }
}

/// Text that was cleaned, as bytes for the agent's terminal. In a paste a new line is what terminals
/// make of it; outside it is Ctrl-J, which does not send what stands before it.
pub fn bytes(text: &str, bracketed: bool) -> Vec<u8> {
    match bracketed {
        true => format!("{}{}{}", PASTE[0], text.replace('\n', "\r"), PASTE[1]).into_bytes(),
        false => text.as_bytes().to_vec(),
    }
}

/// The first line that does not fit, counted from 1.
pub fn line_too_long(text: &str) -> Option<usize> {
    text.split('\n').position(|line| line.len() > LONGEST_LINE).map(|at| at + 1)
}

/// What is left of a text when it has gone through an agent's line of input: agents trim it, wrap
/// it, and make blanks of tabs.
pub fn gist(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_newlines_and_tabs_are_left() {
        for (given, left) in [
            ("hello", "hello"),
            ("a\tb\nc", "a\tb\nc"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("\x1b[201~\x03\x04\x15rm\x7f\x00", "[201~rm"),
            ("\u{9b}6n \u{85}x", "6n x"),
            ("👩‍👩‍👧 日本 e\u{301}", "👩‍👩‍👧 日本 e\u{301}"),
            ("\x07\x1b", ""),
        ] {
            assert_eq!(clean(given), left, "{given:?}");
        }
    }

    #[test]
    fn a_paste_is_bracketed_only_for_who_asked() {
        assert_eq!(bytes("a\nb", true), b"\x1b[200~a\rb\x1b[201~");
        assert_eq!(bytes("a\nb", false), b"a\nb");
    }

    #[test]
    fn a_line_that_would_be_cut_is_named() {
        let fits = "x".repeat(LONGEST_LINE);
        assert_eq!(line_too_long(&format!("{fits}\n{fits}")), None);
        assert_eq!(line_too_long(&format!("a\n{fits}x\nb")), Some(2));
        assert_eq!(line_too_long(&"ü".repeat(2048)), Some(1));
    }

    #[test]
    fn what_an_agent_does_to_blanks_changes_no_gist() {
        assert_eq!(gist("  fix\tthe\r\nbuild \n"), gist("fix the\nbuild"));
        assert_ne!(gist("fix the build"), gist("fix the built"));
    }
}
