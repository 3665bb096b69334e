//! Whether an agent's line of input has taken a text, and what else its screen is about. An agent may have a
//! dialog open instead, and an Enter would answer that.

/// What stands before the line of input, in claude and in codex.
const MARKS: [char; 3] = ['❯', '›', '>'];
/// What claude shows below its line as long as a turn is under way, unless a draft stands in it.
const TURN: &str = "esc to interrupt";
/// And below a dialog.
const DIALOG: &str = "Esc to cancel";
/// What turns at the start of the row above, and words that are there meanwhile.
const SPINNER: [char; 7] = ['·', '✢', '✳', '✶', '✻', '✽', '*'];
const SPINS: [&str; 2] = ["…", " · Retrying in "];
/// And while it waits for a rate limit, to try again by itself.
const RETRIES: &str = "Retrying in ";
const LIMITS: [&str; 2] = ["limit", "429"];
/// A long text is shown as a note that it was pasted.
const NOTE: &str = "[Pasted";
/// So much of the end of a text tells that all of it is there.
const TAIL: usize = 12;

/// What claude's screen is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A turn is under way.
    Turn,
    Dialog,
    /// Its line of input, with or without a draft, and no turn.
    Line,
    Other,
}

/// What was said may be about turns and dialogs as well, so words count below the last mark only.
pub fn sight<'a>(rows: impl DoubleEndedIterator<Item = &'a str>) -> Sight {
    let (mut turns, mut asks, mut marked) = (false, false, false);
    for row in rows.rev() {
        let (turn, dialog) = (row.contains(TURN), row.contains(DIALOG));
        (turns, asks) = (turns || !marked && turn, asks || !marked && dialog);
        turns |= row.starts_with(SPINNER) && SPINS.iter().any(|words| row.contains(words));
        marked |= row.trim_start().starts_with(MARKS);
    }
    match (turns, asks, marked) {
        // A turn goes on behind the dialog that asks about it.
        (_, true, _) => Sight::Dialog,
        (true, false, _) => Sight::Turn,
        (false, false, true) => Sight::Line,
        (false, false, false) => Sight::Other,
    }
}

/// What it says of the rate limit that it waits for, with its countdown. In a narrow terminal the words go on in
/// the next row.
pub fn limit<'a>(rows: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    let mut below = "";
    for row in rows.rev() {
        if row.starts_with(SPINNER) {
            let row = row.trim_start_matches(SPINNER).trim();
            let said = if row.contains(RETRIES) { row.to_owned() } else { format!("{row} {}", below.trim()) };
            let lower = said.to_ascii_lowercase();
            if said.contains(RETRIES) && LIMITS.iter().any(|words| lower.contains(words)) {
                return Some(said);
            }
        }
        below = row;
    }
    None
}

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
    fn a_turn_a_dialog_and_a_line_look_different() {
        let is = |screen: &str| sight(screen.lines());
        let rule = "──────────";
        let line = |line: &str, below: &str| format!("{rule}\n❯ {line}\n{rule}\n  {below}");
        assert_eq!(is(&line("", "? for shortcuts · ← for agents")), Sight::Line);
        assert_eq!(is(&line("a draft", "")), Sight::Line);
        assert_eq!(
            is(&line("", "⏵⏵ bypass permissions on (shift+tab to cycle) · ← for agents")),
            Sight::Line
        );
        assert_eq!(is(&line("", "esc to interrupt · ← for agents")), Sight::Turn);
        assert_eq!(is(&line("", "⏵⏵ bypass permissions on · esc to interrupt")), Sight::Turn);
        let spins = format!("❯ go\n●\n✶ Cooking… (1s · ↓ 4 tokens)\n{}", line("a draft", ""));
        assert_eq!(is(&spins), Sight::Turn, "a draft takes the place of the words below");
        let retries = format!("✻ Session limit reached · Retrying in 6s (1:48pm)\n{}", line("a draft", ""));
        assert_eq!(is(&retries), Sight::Turn);
        let done = format!(
            "❯ what does `esc to interrupt` do?\n● Esc to cancel.\n✻ Worked for 2s\n{}",
            line("", "")
        );
        assert_eq!(is(&done), Sight::Line, "these are words about it");
        let asks = format!("{rule}\n  Rewind\n  ❯ (current)\n\n  Enter to continue · Esc to cancel");
        assert_eq!(is(&asks), Sight::Dialog);
        assert_eq!(is("Welcome"), Sight::Other);
        assert_eq!(is(""), Sight::Other);
    }

    #[test]
    fn a_limit_that_is_waited_for_is_told_with_its_countdown() {
        let told = |screen: &str| limit(screen.lines());
        let words = "Session limit reached · Retrying in 5s (11:13pm) · attempt 1/10";
        let line = "──────────\n❯ \n──────────";
        for spinner in SPINNER {
            assert_eq!(told(&format!("❯ go\n{spinner} {words}\n{line}")).as_deref(), Some(words));
        }
        let narrow = "✻ Session limit reached · Retrying\n  in 5s (11:13pm) · attempt 1/10\n";
        assert_eq!(told(narrow).as_deref(), Some(words));
        assert_eq!(
            told("✻ API error 429 · Retrying in 1m 5s").as_deref(),
            Some("API error 429 · Retrying in 1m 5s")
        );
        for other in [
            "✻ API error 529 · Retrying in 5s",
            "● Session limit reached · Retrying in 5s",
            "❯ what is ✻ Session limit reached · Retrying in 5s",
            "✻ Limiting what is cooked… (5s)",
            "",
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn a_dialog_shows_none() {
        let dialog =
            "Do you trust this folder?\n❯ 1. Yes, I trust this folder\n  2. No, exit\nEnter to confirm";
        assert_eq!(seen(dialog, "hello there"), Some(false));
        assert_eq!(seen("", "hello there"), Some(false));
    }
}
