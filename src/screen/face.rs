//! Whether a screen shows something new, or is only kept moving: what spinners and clocks change is left
//! out before two screens are compared.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What stands on a screen beside spinners and clocks, in one number.
pub fn of<'a>(lines: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for line in lines {
        still(line).hash(&mut hasher);
    }
    hasher.finish()
}

/// So many dots come and go; where there are more, each tells of something done, as `pytest -q` writes it.
const DOTS: usize = 3;

/// The line without what moves by itself. Blanks go too: what moves may be of another width each time, or
/// run to and fro between two brackets.
fn still(line: &str) -> String {
    let mut left = String::new();
    let mut words = line.split_whitespace().peekable();
    let mut is_clock = false;
    while let Some(word) = words.next() {
        let word: String = word.chars().filter(|c| !is_spinner(*c)).collect();
        let word = without_bars(&word);
        let bare = bared(&word);
        let turning = word.trim_matches(['[', ']', '(', ')']);
        if is_time(bare) || is_moment(bare) || word.is_empty() || matches!(turning, "|" | "/" | "-" | "\\") {
            continue;
        }
        // `5 s`, `12:30 PM`: what the number counts is a word of its own.
        if is_number(bare) && words.peek().is_some_and(|next| is_unit(&bare_unit(next))) {
            words.next();
            continue;
        }
        // `Elapsed: 12`, unless it goes on to say of what, as in `backed up 12 files`.
        let says_of_what = words.peek().is_some_and(|next| next.starts_with(char::is_alphanumeric));
        if is_half_day(bare) || is_clock && is_number(bare) && !says_of_what {
            continue;
        }
        left.push_str(without_dots(without_spinner(&word)));
        is_clock = counts_time(bare);
    }
    left
}

fn bared(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// `Working|`, `Working/`: one that turns at the end of a word.
fn without_spinner(word: &str) -> &str {
    let before = word.strip_suffix(['|', '/', '-', '\\']);
    before
        .filter(|before| before.ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '…'))
        .unwrap_or(word)
}

fn without_dots(word: &str) -> &str {
    let bare = word.trim_end_matches(['.', '…']);
    if word[bare.len()..].chars().count() > DOTS { word } else { bare }
}

/// Without a cell that grows and shrinks, and without several of different heights side by side; a bar that
/// fills is something new, and one that runs to and fro is not.
fn without_bars(word: &str) -> String {
    let is_block = |c: char| ('\u{2580}'..='\u{259f}').contains(&c);
    let mut left = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let text = rest.find(is_block).unwrap_or(rest.len());
        left.push_str(&rest[..text]);
        rest = &rest[text..];
        let run = rest.find(|c: char| !is_block(c)).unwrap_or(rest.len());
        let mut cells: Vec<char> = rest[..run].chars().collect();
        rest = &rest[run..];
        cells.sort_unstable();
        let mut heights: Vec<char> = cells.iter().copied().filter(|c| ('▁'..='▇').contains(c)).collect();
        heights.dedup();
        if cells.len() > 1 && heights.len() < 2 {
            left.extend(cells);
        }
    }
    left
}

/// Characters that are shown one after the other in the same place, or come and go.
fn is_spinner(c: char) -> bool {
    matches!(c,
        '·' | '∙' | '•' | '◦' | '*' | '∗' | '✢' | '✳' | '✶' | '✻' | '✽' | '✺' | '✹' | '✷' | '✸'
        | '●' | '○' | '◉' | '◎' | '⏺' | '◐'..='◓' | '◜'..='◟' | '◠' | '◡' | '◢'..='◥' | '◰'..='◷'
        | '▖' | '▗' | '▘' | '▝' | '⊶' | '⊷' | '←'..='↙'
        | '\u{2800}'..='\u{28ff}' // braille
        | '\u{1f311}'..='\u{1f318}' // moons
        | '\u{1f550}'..='\u{1f567}') // clock faces
}

/// `2026-11-16T17:43:43`, with what may stand behind it; seconds or milliseconds since 1970.
fn is_moment(word: &str) -> bool {
    let digits = |part: &str, count: usize| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    let since_1970 = word.split('.').next().unwrap_or_default();
    if is_number(word) && since_1970.starts_with(['1', '2']) {
        return digits(since_1970, 10) || digits(since_1970, 13);
    }
    let Some((date, time)) = word.split_once(['T', 't']) else { return false };
    let date: Vec<&str> = date.split('-').collect();
    matches!(date[..], [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2)) && is_time(time)
}

/// `12:30`, `12:30pm`, `1:02:03`, `12:30:01.250`, `12:30:01+01:00`, `5s`, `0.8s`, `1m5s`, `250ms`.
fn is_time(word: &str) -> bool {
    let (clock, half) = word.split_at_checked(word.len().saturating_sub(2)).unwrap_or((word, ""));
    let word = if is_half_day(half) && clock.contains(':') { clock } else { word };
    let word = word.strip_suffix(['Z', 'z']).filter(|clock| clock.contains(':')).unwrap_or(word);
    let (word, zone) =
        word.split_once(['+', '-']).filter(|(clock, _)| clock.contains(':')).unwrap_or((word, "0"));
    let hands: Vec<&str> = word.split(':').collect();
    if hands.len() > 1 {
        let whole = |hand: &str| hand.split(['.', ',']).next().unwrap_or_default().len();
        let is_hand = |hand: &&str| is_number(&hand.replacen(',', ".", 1)) && whole(hand) <= 6;
        return hands.iter().all(is_hand) && zone.bytes().all(|b| b.is_ascii_digit() || b == b':');
    }
    let mut rest = word;
    let mut counted = false;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, behind) = rest.split_at(digits);
        let letters = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, behind) = behind.split_at(letters);
        if !is_number(number) || !is_unit(unit) {
            return false;
        }
        (rest, counted) = (behind, true);
    }
    counted
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

fn bare_unit(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_owned()
}

fn is_unit(word: &str) -> bool {
    const UNITS: [&str; 20] = [
        "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr",
        "hrs", "hour", "hours", "d", "day", "days", "us",
    ];
    UNITS.iter().any(|unit| unit.eq_ignore_ascii_case(word))
}

fn counts_time(word: &str) -> bool {
    ["elapsed", "time", "uptime", "up"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

fn is_half_day(word: &str) -> bool {
    word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        of(one.lines()) == of(other.lines())
    }

    #[test]
    fn spinners_and_clocks_are_nothing_new() {
        for (one, other) in [
            // As claude 2.1 shows it, second by second.
            ("✽ Crystallizing… (59s · ↓ 8 tokens)", "· Crystallizing… (1m 0s · ↓ 8 tokens)"),
            ("✻ Crystallizing… (1m 9s · ↓ 8 tokens)", "✢ Crystallizing… (1m 12s · ↓ 8 tokens)"),
            ("● Bash(make)", "  Bash(make)"),
            ("⠋ Working", "⠙ Working"),
            ("| Working", "/ Working"),
            ("- Working", "\\ Working"),
            ("[|] Working", "[/] Working"),
            ("Working (-)", "Working (\\)"),
            ("Working.", "Working..."),
            ("Working", "Working..."),
            (".", "..."),
            ("make\n\n", "make\n...\n"),
            ("◐ thinking (esc to interrupt)", "◓ thinking (esc to interrupt)"),
            ("[=   ] Working", "[  = ] Working"),
            ("( ●    ) Working", "(    ● ) Working"),
            ("← Working", "↖ Working"),
            ("12:59:59 PM", "1:00:00 PM"),
            ("11:59am", "12:00PM"),
            ("up 23:59:59", "up 24:00:00"),
            ("elapsed 9.9s", "elapsed 10.0s"),
            ("elapsed 59 seconds", "elapsed 1 minute 0 seconds"),
            ("took 250ms", "took 1s"),
            ("2026-11-19T20:33:35+00:00", "2026-11-19T20:33:36+00:00"),
            ("2026-11-19T20:33:35.123456789Z up", "2026-11-20T20:33:36.2Z up"),
            ("[20:33:35.123456789]", "[20:33:36.000000001]"),
            ("at 20:33:35,250+0100", "at 20:33:36,000+0100"),
            ("1795120410", "1795120411"),
            ("(1795120410.25)", "(1795120411.5)"),
            ("Working|", "Working/"),
            ("Working...-", "Working...\\"),
            ("Elapsed: 12", "Elapsed: 13"),
            ("up 9", "up 10"),
            ("Time: 9 | 3 files", "Time: 10 | 3 files"),
            ("▁ working", "█ working"),
            ("▁▃▅▇▅", "▃▅▇▅▃"),
            ("[█░░░]", "[░░█░]"),
            ("• Working (1m 05s • esc to interrupt)", "◦ Working (1m 06s • esc to interrupt)"),
        ] {
            assert!(same(one, other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn words_counts_and_progress_are_something_new() {
        for (one, other) in [
            ("✽ Crystallizing… (5s · ↓ 8 tokens)", "✽ Crystallizing… (5s · ↓ 9 tokens)"),
            ("Compiling 12/50", "Compiling 13/50"),
            ("45 %", "46 %"),
            ("a line", "a line\nand another"),
            ("reading a.rs", "reading b.rs"),
            ("[####    ]", "[#####   ]"),
            ("[ ] a task", "[x] a task"),
            ("I am at 12", "I am at 13"),
            ("version 1.2.3", "version 1.2.4"),
            ("backed up 12 files", "backed up 13 files"),
            ("██░░░░", "███░░░"),
            ("2026-11-19 a", "2026-11-20 a"),
            ("0123456789", "0123456790"),
            ("12345", "12346"),
            ("a/", "b/"),
            ("12-13", "12-14"),
            ("", "x y"),
            ("...", "...."),
            ("tests/a.py ....", "tests/a.py ....."),
            ("..F....", "..F....."),
            ("..............\n....", "..............\n....."),
        ] {
            assert!(!same(one, other), "{one:?} {other:?}");
        }
    }
}
