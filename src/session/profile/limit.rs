//! A rate limit in an agent's own words: whether a text tells of one, and when it ends. Known from
//! claude 2.1.197 and from what codex and older ones say. Pure: the time of the text comes in.

/// When something was said, and what the clocks on its walls showed then.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Seconds since 1970.
    pub epoch: u64,
    /// Seconds that local time is ahead of UTC.
    pub offset: i64,
}

/// A text that begins like this is the agent's word about itself, and no talk about limits.
const OPENINGS: [&str; 6] = [
    "API Error: Request rejected (429)",
    "API Error: Rate limit reached",
    "Claude AI usage limit reached",
    "You've hit your",
    "You've reached your",
    "Rate limit reached",
];
/// What is on the screen while claude asks a subscriber who has met one what to do.
pub const MENU: [&str; 2] = ["ait for limit to reset", "/rate-limit-options"];
const DAY: i64 = 86_400;
const MINUTE: i64 = 60;

/// Whether this line of a screen tells of a limit; what agents put before their lines does not count.
pub fn tells(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    // Typographical or not.
    let line = line.replace('’', "'");
    OPENINGS.iter().any(|opening| line.starts_with(opening))
        && (line.contains("limit") || line.contains("(429)"))
}

/// When it ends, in seconds since 1970, if the text says so.
pub fn reset(text: &str, said: Said) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let behind = |word: &str| text.split_once(word).map(|(_, behind)| behind.trim_start());
    if let Some(epoch) = behind("limit reached|").and_then(|rest| number(rest).0) {
        // Some say it in milliseconds.
        return Some(if epoch > 100_000_000_000 { epoch / 1000 } else { epoch });
    }
    let after = |seconds: u64| said.epoch.checked_add(seconds);
    if let Some(rest) = ["retry-after:", "retry after"].iter().find_map(|word| behind(word)) {
        return span(rest).or(number(rest).0).and_then(after);
    }
    if let Some(rest) = ["resets in ", "try again in ", "reset in "].iter().find_map(|word| behind(word)) {
        return span(rest).and_then(after);
    }
    let rest =
        ["resets at ", "resets ", "try again at ", "reset at "].iter().find_map(|word| behind(word))?;
    next_time(clock(rest)?, is_utc(rest), said)
}

/// The digits at the start, and what follows them.
fn number(text: &str) -> (Option<u64>, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// `2h 5m`, `3 hours 2 minutes`, `1 day, 45s`: seconds.
fn span(mut text: &str) -> Option<u64> {
    let mut seconds: Option<u64> = None;
    while let (Some(n), rest) = number(text.trim_start_matches([',', ' '])) {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "d" | "day" | "days" => 86_400,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            _ => break,
        };
        seconds = seconds.unwrap_or(0).checked_add(n.checked_mul(unit)?);
        text = &rest[end..];
    }
    seconds
}

/// Seconds since midnight of the first time of day in the text: `3pm`, `3:30pm`, `15:00`. A date before
/// it is passed over: what is further away than a day is asked for again long before.
fn clock(text: &str) -> Option<i64> {
    let mut rest = text.split('(').next().unwrap_or_default();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (hour, behind) = number(&rest[at..]);
        let (minute, behind) = match behind.strip_prefix(':').map(number) {
            Some((Some(minute), behind)) => (Some(minute), behind),
            _ => (None, behind),
        };
        let half = behind.trim_start();
        let half = [("am", 0), ("pm", 12)].into_iter().find(|(name, _)| half.starts_with(name));
        let hour = match (hour?, half) {
            (hour @ 1..=12, Some((_, noon))) => Some(hour % 12 + noon),
            (hour @ 0..=23, None) if minute.is_some() => Some(hour),
            _ => None,
        };
        if let (Some(hour), minute @ 0..=59) = (hour, minute.unwrap_or(0)) {
            return i64::try_from(hour * 3600 + minute * 60).ok();
        }
        rest = behind;
    }
    None
}

fn is_utc(text: &str) -> bool {
    ["(utc)", "(gmt)", "(etc/utc)"].iter().any(|zone| text.contains(zone))
}

/// Other zones than UTC are taken for the machine's own: agents tell times in theirs, and without a
/// database of zones nobody knows another. A mistake is found out within the hour.
fn next_time(clock: i64, utc: bool, said: Said) -> Option<u64> {
    let offset = if utc { 0 } else { said.offset };
    let local = i64::try_from(said.epoch).ok()?.checked_add(offset)?;
    let ahead = match (local - clock).rem_euclid(DAY) {
        // Seconds are not told: it is still to come within this minute, and not a day away.
        into @ 0..MINUTE => MINUTE - into,
        ago => DAY - ago,
    };
    said.epoch.checked_add(u64::try_from(ahead).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-18 11:35:56 UTC, on a machine that is an hour ahead.
    const SAID: Said = Said { epoch: 1_795_001_756, offset: 3600 };
    const MIDNIGHT: u64 = 1_795_001_756 - 11 * 3600 - 35 * 60 - 56;

    #[test]
    fn the_reset_is_read_in_every_form_that_is_known() {
        let at = |h: u64, m: u64| Some(MIDNIGHT + h * 3600 + m * 60);
        for (text, reset) in [
            ("API Error: Request rejected (429) · limited as asked", None),
            ("Claude AI usage limit reached|1718000000", Some(1_718_000_000)),
            ("Claude AI usage limit reached|1718000000000", Some(1_718_000_000)),
            ("You've hit your limit · resets 3pm (Europe/Berlin)", at(14, 0)),
            ("You've hit your session limit · resets 3:30pm (UTC)", at(15, 30)),
            ("You've hit your weekly limit · resets Nov 20, 3pm (Europe/Berlin)", at(14, 0)),
            ("You've hit your limit · resets 12am (UTC)", at(24, 0)),
            ("You've hit your limit · resets 12pm (UTC)", at(12, 0)),
            // Within this minute.
            ("You've hit your session limit · resets 11:35am (UTC)", at(11, 36)),
            // Of the next day.
            ("You've hit your limit · resets 11am (UTC)", at(35, 0)),
            ("You've hit your limit · resets at 15:00", at(14, 0)),
            ("You've hit your fast limit · resets in 2h 5m", Some(SAID.epoch + 7500)),
            ("You've hit your usage limit. Try again in 3 hours 2 minutes.", Some(SAID.epoch + 10_920)),
            ("You've hit your usage limit. Try again in 1 day, 45s", Some(SAID.epoch + 86_445)),
            ("You've hit your usage limit. Try again at 1:05 PM.", at(12, 5)),
            ("Rate limit reached, retry-after: 17", Some(SAID.epoch + 17)),
            ("Rate limit reached, retry after 2 minutes", Some(SAID.epoch + 120)),
            ("You've hit your limit", None),
            ("You've hit your limit · resets soon", None),
            ("You've hit your limit · resets 25:00", None),
            ("You've hit your limit · resets in 99999999999999999999h", None),
            ("You've hit your limit · resets in 9999999999999999h", None),
        ] {
            assert_eq!(super::reset(text, SAID), reset, "{text}");
            assert!(tells(text), "{text}");
        }
    }

    #[test]
    fn only_the_agents_own_word_tells_of_a_limit() {
        for (line, is_it) in [
            ("● API Error: Request rejected (429) · limited as asked", true),
            ("  ⎿  You’ve hit your session limit · resets 3pm", true),
            ("■ You've hit your usage limit.", true),
            ("❯ what is a rate limit?", false),
            ("● The API answers: Request rejected (429)", false),
            ("You've hit your target", false),
            ("API Error: 529 overloaded", false),
            ("", false),
        ] {
            assert_eq!(tells(line), is_it, "{line}");
        }
    }
}
