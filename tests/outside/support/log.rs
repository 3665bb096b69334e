//! The product's own log is the list of events that tests wait for.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::sys::Watch;
use super::{LIMIT, SESSION};

#[derive(Clone)]
pub struct Log {
    pub file: PathBuf,
}

impl Log {
    pub fn of(state_dir: &Path) -> Log {
        Log::named(state_dir, SESSION)
    }

    pub fn named(state_dir: &Path, session: &str) -> Log {
        Log { file: state_dir.join("logs").join(format!("{session}.log")) }
    }

    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap_or_default()
    }

    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    /// The event lines whose text after the time and the tag starts with `event`.
    pub fn events(&self, event: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| is_event(line, event)).collect()
    }

    pub fn wait_for(&self, event: &str) -> String {
        self.wait_for_nth(1, event)
    }

    /// Waits until the event has happened `nth` times since the log began, and returns that line.
    pub fn wait_for_nth(&self, nth: usize, event: &str) -> String {
        let seen =
            |text: &str| text.lines().filter(|line| is_event(line, event)).nth(nth - 1).map(str::to_owned);
        // A last line that is still being written is no event yet.
        let whole = |text: &str| text.rfind('\n').map_or(String::new(), |end| text[..=end].to_owned());
        match wait_for_file(&self.file, LIMIT, |text| seen(&whole(text)).is_some()) {
            Ok(text) => seen(&text).expect("just seen"),
            Err(text) => panic!("no {event:?} (number {nth}) within {LIMIT:?}; the log:\n{text}"),
        }
    }
}

fn is_event(line: &str, event: &str) -> bool {
    let named = line.split_once("] [supervisor] ").map(|(_, rest)| rest);
    named.is_some_and(|rest| {
        rest.strip_prefix(event).is_some_and(|after| after.is_empty() || after.starts_with(' '))
    })
}

/// The value of `key=value` in an event line.
pub fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

pub fn number(line: &str, key: &str) -> i32 {
    field(line, key)
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no number {key}= in {line:?}"))
}

/// The content as soon as `enough` says so, or the content at the limit.
pub fn wait_for_file(path: &Path, limit: Duration, enough: impl Fn(&str) -> bool) -> Result<String, String> {
    let until = Instant::now() + limit;
    let watch = Watch::new();
    loop {
        // Watched before read, so that no change falls between. The directories too: the file may
        // not exist yet, nor the directories it will be in.
        for place in path.ancestors().take(4) {
            watch.also(place);
        }
        let content = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let content = content.unwrap_or_default();
        if enough(&content) {
            return Ok(content);
        }
        if Instant::now() >= until {
            return Err(content);
        }
        watch.changed_before(until);
    }
}
