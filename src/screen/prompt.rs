//! Whether an agent's line of input has taken a text. An agent may have a dialog open instead, and an
//! Enter would answer that.

/// What stands before the line of input, in claude and in codex.
const MARKS: [char; 3] = ['❯', '›', '>'];
/// A long text is shown as a note that it was pasted.
const NOTE: &str = "[Pasted";
/// So much of the end of a text tells that all of it is there.
const TAIL: usize = 12;

/// `rows` are those of the screen. `None` when nothing in the text could be looked for.
pub fn shows<'a>(rows: impl DoubleEndedIterator<Item = &'a str>, text: &str) -> Option<bool> {
    let mut which: fn(&str) -> Vec<char> = plain_letters;
    if which(text).is_empty() {
        which = all_letters;
    }
    let wanted = which(text);
    if wanted.is_empty() {
        return None;
    }
    let tail: String = wanted[wanted.len().saturating_sub(TAIL)..].iter().collect();
    let mut line = Vec::new();
    for row in rows.rev() {
        line.push(row);
        if row.trim_start().starts_with(MARKS) {
            break;
        }
    }
    let line = line.into_iter().rev().collect::<Vec<_>>().join("\n");
    let seen: String = which(&line).into_iter().collect();
    Some(line.contains(NOTE) || seen.contains(&tail))
}

/// What no agent changes about a text: it wraps and frames it, makes blanks of tabs and one character
/// of a letter and its mark.
fn plain_letters(text: &str) -> Vec<char> {
    let mut plain = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let has_mark = chars.peek().is_some_and(|next| !next.is_control() && super::width(*next) == 0);
        if c.is_ascii_alphanumeric() && !has_mark {
            plain.push(c);
        }
    }
    plain
}

/// For a text that has no others.
fn all_letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(screen: &str, text: &str) -> Option<bool> {
        shows(screen.lines(), text)
    }

    #[test]
    fn a_line_of_input_shows_its_text_however_it_is_wrapped() {
        let line = "❯ hello\n● hi\n─────\n❯ fix the bu\n  ild now\n─────\n  ? for shortcuts";
        assert_eq!(seen(line, "fix the build now"), Some(true));
        assert_eq!(seen(line, "hello"), Some(false), "that is an older one");
        assert_eq!(seen("─────\n❯ [Pasted text #1 +600 lines]\n─────", "a long text"), Some(true));
        assert_eq!(seen("─────\n❯ caf\u{e9} noir\n─────", "cafe\u{301} noir"), Some(true));
        assert_eq!(seen("› 日本 é\n  for shortcuts", "日本 é"), Some(true));
        assert_eq!(seen("› 日本\n", "?!"), None);
    }

    #[test]
    fn a_dialog_shows_none() {
        let dialog =
            "Do you trust this folder?\n❯ 1. Yes, I trust this folder\n  2. No, exit\nEnter to confirm";
        assert_eq!(seen(dialog, "hello there"), Some(false));
        assert_eq!(seen("", "hello there"), Some(false));
    }
}
