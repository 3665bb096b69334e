//! How answers look to people: spans of time, colours, rows that fit the terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cli::explain::text::visible;
use crate::os::tty;

pub use crate::os::clock::utc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Green,
    Yellow,
    Red,
    Dim,
}

/// What stdout can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub colours: bool,
    /// `None`: as wide as need be.
    pub width: Option<usize>,
}

impl Look {
    pub fn of_stdout() -> Look {
        let stdout = std::io::stdout();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let columns = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let of_terminal = tty::size(stdout.as_fd()).map(|(cols, _)| usize::from(cols));
        Look {
            colours: stdout.is_terminal() && !is_set("NO_COLOR"),
            width: of_terminal.or_else(columns).filter(|width| *width > 0),
        }
    }

    pub fn paint(self, colour: Option<Colour>, text: &str) -> String {
        let code = match colour.filter(|_| self.colours) {
            Some(Colour::Green) => 32,
            Some(Colour::Yellow) => 33,
            Some(Colour::Red) => 31,
            Some(Colour::Dim) => 2,
            None => return text.to_owned(),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// At most six characters: `42s`, `5m03s`, `3h12m`, `4d3h`, `400d`.
pub fn span(time: Duration) -> String {
    let s = time.as_secs();
    let (m, h, d) = (s / 60, s / 3600, s / 86400);
    match () {
        _ if s < 60 => format!("{s}s"),
        _ if h < 1 => format!("{m}m{:02}s", s % 60),
        _ if d < 1 => format!("{h}h{:02}m", m % 60),
        _ if d < 100 => format!("{d}d{}h", h % 24),
        _ => format!("{d}d"),
    }
}

pub fn ago(epoch: f64) -> String {
    format!("{} ago", age(epoch))
}

pub fn age(epoch: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    span(Duration::try_from_secs_f64(now - epoch).unwrap_or_default())
}

pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// For the longest name there is, so that what stands below one another lines up.
const NAME_WIDTH: usize = 16;

/// A name and a value a line; a row without a value is left out.
pub fn rows(rows: &[(&str, Option<String>)]) -> String {
    let said = rows.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    said.map(|(name, value)| row(name, &visible(value))).collect()
}

/// One of them, with a value that may hold colours.
pub fn row(name: &str, value: &str) -> String {
    format!("{name:<NAME_WIDTH$}{value}\n")
}

/// The end of a path tells more than its beginning.
pub fn cut_front(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(length + 1 - width.max(1));
    std::iter::once('…').chain(kept).collect()
}

pub fn cut_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.max(1) - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (303, "5m03s"),
            (3599, "59m59s"),
            (11_520, "3h12m"),
            (86_399, "23h59m"),
            (356_400, "4d3h"),
            (86400 * 99 + 3600 * 23, "99d23h"),
            (86400 * 400, "400d"),
        ] {
            let span = span(Duration::from_secs(seconds));
            assert_eq!(span, text);
            assert!(span.len() <= 6);
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut_front("/work/a", 7), "/work/a");
        assert_eq!(cut_front("/work/a", 4), "…k/a");
        assert_eq!(cut_front("/wörk/ä", 3), "…/ä");
        assert_eq!(cut_end("session", 4), "ses…");
        assert_eq!(cut_end("session", 7), "session");
        assert_eq!(cut_front("abc", 0), "…");
    }

    #[test]
    fn rows_are_aligned_and_cannot_move_the_cursor() {
        let text = rows(&[("a", Some("1".into())), ("long", Some("x\x1b[2J".into())), ("none", None)]);
        assert_eq!(text, "a               1\nlong            x\\u{1b}[2J\n");
    }
}
