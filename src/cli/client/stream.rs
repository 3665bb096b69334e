//! `agentsup events` and `agentsup logs`, and what streams have in common: frame by frame, as they come.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::str::FromStr;

use serde_json::json;

use super::look::utc;
use super::{Caller, Trouble, args};
use crate::cli::explain::text::visible;
use crate::cli::words::Word;
use crate::cli::{Failure, asked, needs_stdout, unwritable};
use crate::control::client::Stream;
use crate::control::protocol::{Event, LINES_BY_DEFAULT, StreamFrame};

pub fn events(verb: args::Events, caller: &Caller) -> Result<u8, Trouble> {
    let since = verb.since.map(|word| number("--since", word)).transpose()?;
    show(caller.connect(caller.patience())?.events(since, verb.follow)?, caller, line)
}

pub fn logs(verb: args::Logs, caller: &Caller) -> Result<u8, Trouble> {
    let lines = verb.lines.map(|word| number("--lines", word)).transpose()?;
    let lines = lines.unwrap_or(LINES_BY_DEFAULT);
    show(caller.connect(caller.patience())?.logs(lines, verb.follow)?, caller, line)
}

pub fn number<N: FromStr>(flag: &str, word: Word) -> Result<N, Failure> {
    asked::read(flag, word, |text| {
        text.parse().map_err(|_| format!("`{text}` is not a number; expected one like 100"))
    })
}

pub fn show(
    stream: Stream,
    caller: &Caller,
    mut for_people: impl FnMut(&StreamFrame) -> Option<String>,
) -> Result<u8, Trouble> {
    needs_stdout()?;
    // Without a copy to watch, the next write finds out.
    let stream = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(stdout) => stream.into_output(stdout),
        Err(_) => stream,
    };
    for frame in stream {
        let frame = frame?;
        let line = match caller.json {
            true => Some(unobeyed(&json!(frame).to_string())),
            false => for_people(&frame),
        };
        let Some(line) = line else { continue };
        if !write(&line)? {
            break;
        }
    }
    Ok(0)
}

/// JSON leaves some controls as they are, and a terminal would obey them. They stand in texts only,
/// where the escape means the same.
fn unobeyed(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_control() {
            true => out += &format!("\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    out
}

fn line(frame: &StreamFrame) -> Option<String> {
    match frame {
        StreamFrame::Event(frame) => Some(event_line(&frame.event)),
        StreamFrame::Log(log) => Some(visible(&log.line)),
        StreamFrame::Dropped(dropped) => Some(format!("… {} missed here", dropped.dropped)),
        _ => None,
    }
}

fn event_line(event: &Event) -> String {
    let mut line = format!("{:>6}  {}  {}", event.seq, utc(event.at), visible(&event.name));
    for (key, value) in event.fields.iter() {
        let value = visible(value);
        match value.is_empty() || value.contains(' ') {
            true => line += &format!(" {}=\"{value}\"", visible(key)),
            false => line += &format!(" {}={value}", visible(key)),
        }
    }
    line
}

/// False when the reader has gone: `agentsup events -f | head -1` has what it wanted.
fn write(line: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritable(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Dropped, End, EventFrame, LogLine};

    #[test]
    fn json_holds_nothing_that_a_terminal_obeys() {
        let json = json!({"text": "\u{9b}2J\u{7f}\x1b[2J ä\n"}).to_string();
        let out = unobeyed(&json);
        assert!(!out.chars().any(char::is_control), "{out}");
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(read(&out), read(&json));
    }

    #[test]
    fn a_frame_is_a_line_and_a_gap_is_told() {
        let fields = [("code", "139"), ("reason", "5 failures"), ("bad\x07", "")];
        let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let event = Event { seq: 7, at: 1_794_851_023.5, name: "claude_exit".into(), fields };
        let said = |frame: StreamFrame| line(&frame);
        assert_eq!(
            said(StreamFrame::Event(EventFrame { event })).unwrap(),
            "     7  2026-11-16 17:43:43  claude_exit bad\\u{7}=\"\" code=139 reason=\"5 failures\""
        );
        assert_eq!(said(StreamFrame::Log(LogLine { line: "[1] x".into() })).unwrap(), "[1] x");
        assert_eq!(said(StreamFrame::Dropped(Dropped { dropped: 12 })).unwrap(), "… 12 missed here");
        assert_eq!(said(StreamFrame::End(End { end: true })), None);
    }
}
