//! `agentsup transcript`: who said what, and which tools were used, to be read in a terminal.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use unicode_width::UnicodeWidthChar;

use super::look::{Colour, Look, bytes, utc};
use super::stream::{number, show};
use super::{Caller, Trouble, args};
use crate::control::protocol::{
    Conversation, Entry, EntryKind, LINES_BY_DEFAULT, News, Skipped, SkippedWhy, Speaker, StreamFrame,
};

/// Shown of what a tool gave back, of a command's output and of a summary.
const FEW: usize = 5;
/// Where the terminal does not say how wide a line may be.
const WIDE: usize = 200;
/// Narrower than this nothing can be read.
const NARROW: usize = 24;
const INDENT: &str = "  ";
const NONE_YET: &str = "no conversation yet: nobody has said anything to the agent";
/// Tools in use at once; more than that and results are not told apart.
const TOOLS_MOST: usize = 64;

pub fn transcript(verb: args::Transcript, caller: &Caller) -> Result<u8, Trouble> {
    let lines = verb.lines.map(|word| number("--lines", word)).transpose()?;
    let lines = lines.unwrap_or(LINES_BY_DEFAULT);
    let stream = caller.connect(caller.patience())?.transcript(lines, verb.follow)?;
    let mut page = Page::new(Look::of_stdout());
    page.is_blank = lines > 0;
    show(stream, caller, |frame| page.shown(frame))
}

/// What was shown so far, as far as it decides how the next looks.
struct Page {
    look: Look,
    /// Something was to be shown, and nothing was yet.
    is_blank: bool,
    day: String,
    /// The last was a tool, so the next one stands right below it.
    in_tools: bool,
    last_tool: String,
    /// What the tools in use are called, by their ids.
    tools: HashMap<String, String>,
}

impl Page {
    fn new(look: Look) -> Page {
        let (day, last_tool) = (String::new(), String::new());
        Page { look, is_blank: true, day, in_tools: true, last_tool, tools: HashMap::new() }
    }

    fn width(&self) -> Option<usize> {
        self.look.width.map(|width| width.max(NARROW))
    }

    /// The lines of one frame, without the last newline.
    fn shown(&mut self, frame: &StreamFrame) -> Option<String> {
        match frame {
            StreamFrame::Entry(entry) => self.entry(entry),
            StreamFrame::Conversation(frame) => self.conversation(&frame.conversation),
            StreamFrame::Skipped(frame) => Some(self.aside(&skipped(frame.skipped))),
            StreamFrame::Dropped(dropped) => Some(self.aside(&format!("{} missed here", dropped.dropped))),
            // The file may hold nothing but the agent's own notes.
            StreamFrame::End(_) if self.is_blank => Some(self.aside(NONE_YET)),
            _ => None,
        }
    }

    /// agentsup's own words, told from the conversation's by how they look.
    fn aside(&mut self, text: &str) -> String {
        self.in_tools = true;
        self.is_blank = false;
        self.look.paint(Some(Colour::Dim), &format!("… {text}"))
    }

    fn conversation(&mut self, it: &Conversation) -> Option<String> {
        let id = plain(&it.id);
        let text = match (it.news, it.empty) {
            (News::Changed, _) => format!("another conversation from here on: {id}"),
            (News::Rewritten, _) => {
                "the agent rewrote the conversation; its last entries once more:".to_owned()
            }
            (_, true) => NONE_YET.to_owned(),
            (_, false) => return None,
        };
        Some(self.aside(&text))
    }

    fn entry(&mut self, entry: &Entry) -> Option<String> {
        // Only where it can be told from what was said.
        if entry.kind == EntryKind::Thinking && !self.look.colours {
            return None;
        }
        self.is_blank = false;
        let mut out = Vec::new();
        let is_tool = matches!(entry.kind, EntryKind::ToolUse | EntryKind::ToolResult);
        if !self.in_tools || !is_tool && !self.day.is_empty() {
            out.push(String::new());
        }
        let clock = self.clock(entry.at, &mut out);
        self.in_tools = is_tool;
        match entry.kind {
            EntryKind::ToolUse => out.push(self.tool_use(entry, &clock)),
            EntryKind::ToolResult => self.tool_result(entry, &mut out),
            _ => {
                out.push(self.head(entry, &clock));
                self.body(entry, &mut out);
            }
        }
        if entry.cut > 0 {
            out.push(self.look.paint(Some(Colour::Dim), &format!("{INDENT}… {} more", bytes(entry.cut))));
        }
        Some(out.join("\n"))
    }

    /// `03:45:26 `, and the day above when it is another one.
    fn clock(&mut self, at: Option<f64>, out: &mut Vec<String>) -> String {
        let Some(at) = at else { return String::new() };
        let date = utc(at);
        let (day, time) = date.split_once(' ').unwrap_or((&date, ""));
        if self.day != day {
            day.clone_into(&mut self.day);
            out.push(self.look.paint(Some(Colour::Dim), &format!("── {day}, UTC ──")));
        }
        format!("{time} ")
    }

    fn head(&self, entry: &Entry, clock: &str) -> String {
        let (name, colour) = match (entry.role, entry.kind) {
            (_, EntryKind::Thinking) => ("assistant, thinking", Some(Colour::Dim)),
            (_, EntryKind::Error) => ("error", Some(Colour::Red)),
            (_, EntryKind::Summary) => ("summary of what was before", Some(Colour::Yellow)),
            (_, EntryKind::Output) => ("output", Some(Colour::Dim)),
            (Speaker::User, _) => ("user", Some(Colour::Green)),
            (Speaker::Assistant, _) => ("assistant", Some(Colour::Yellow)),
            _ => ("notice", Some(Colour::Dim)),
        };
        format!("{}{}", self.look.paint(Some(Colour::Dim), clock), self.look.paint(colour, name))
    }

    fn body(&self, entry: &Entry, out: &mut Vec<String>) {
        match entry.kind {
            EntryKind::Output | EntryKind::Summary => self.few_lines(&plain(&entry.text), out),
            EntryKind::Thinking => {
                let lines = self.wrapped(&plain(&entry.text));
                out.extend(lines.iter().map(|line| self.look.paint(Some(Colour::Dim), line)));
            }
            EntryKind::Attachment => out.extend(self.wrapped(&format!("[{}]", plain(&entry.text)))),
            _ => out.extend(self.wrapped(&plain(&entry.text))),
        }
    }

    /// One line: its name, and what tells most of its input.
    fn tool_use(&mut self, entry: &Entry, clock: &str) -> String {
        let tool = entry.tool.clone().unwrap_or_default();
        let name = one_line(&tool.name.unwrap_or_default());
        let line = format!("{name}  {}", one_line(&entry.text));
        let line = cut(line.trim_end(), self.width().unwrap_or(WIDE).saturating_sub(clock.len()));
        if self.tools.len() >= TOOLS_MOST {
            self.tools.clear();
        }
        self.tools.insert(tool.id.clone(), line.clone());
        self.last_tool = tool.id;
        let (named, rest) = line.split_at(line.len().min(name.len()));
        let (clock, named) =
            (self.look.paint(Some(Colour::Dim), clock), self.look.paint(Some(Colour::Green), named));
        format!("{clock}{named}{rest}")
    }

    fn tool_result(&mut self, entry: &Entry, out: &mut Vec<String>) {
        let id = entry.tool.as_ref().map_or("", |tool| &tool.id);
        let of = self.tools.remove(id);
        if let Some(of) = of.filter(|_| id != self.last_tool) {
            let of = cut(&format!("{INDENT}of {of}"), self.width().unwrap_or(WIDE));
            out.push(self.look.paint(Some(Colour::Dim), &of));
        }
        if entry.is_error {
            out.push(self.look.paint(Some(Colour::Red), &format!("{INDENT}failed")));
        }
        self.few_lines(&plain(&entry.text), out);
    }

    fn few_lines(&self, text: &str, out: &mut Vec<String>) {
        let width = self.width().unwrap_or(WIDE);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        // One more is no longer than saying so.
        let few = if lines.len() <= FEW + 1 { lines.len() } else { FEW };
        out.extend(lines[..few].iter().map(|line| cut(&format!("{INDENT}{line}"), width)));
        if lines.len() > few {
            let more = format!("{INDENT}… {} more lines", lines.len() - few);
            out.push(self.look.paint(Some(Colour::Dim), &more));
        }
    }

    /// Indented, and broken between words where the terminal would break within.
    fn wrapped(&self, text: &str) -> Vec<String> {
        let room = self.width().map_or(usize::MAX, |width| width - INDENT.len());
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim_end) {
            let mut rest = line;
            while columns(rest) > room {
                let fits = fitting(rest, room);
                let at_word = rest[..fits].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
                let (now, later) = match at_word {
                    Some(at) if !rest[fits..].starts_with(' ') => (&rest[..at], &rest[at + 1..]),
                    _ => (&rest[..fits], rest[fits..].trim_start_matches(' ')),
                };
                lines.push(format!("{INDENT}{now}"));
                rest = later;
            }
            lines.push(format!("{INDENT}{rest}").trim_end().to_owned());
        }
        lines
    }
}

fn skipped(Skipped { why, bytes: n }: Skipped) -> String {
    match why {
        SkippedWhy::TooLong => format!("passed over: one line of {}", bytes(n)),
        SkippedWhy::Unreadable => format!("passed over: {} that are no conversation", bytes(n)),
        SkippedWhy::TooFarBack => format!("not looked at: {} before this", bytes(n)),
        SkippedWhy::Unknown => format!("passed over: {}", bytes(n)),
    }
}

fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// How many bytes of the text fit into so many columns; at least one character.
fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > room && at > 0 {
            return at;
        }
    }
    text.len()
}

fn cut(text: &str, room: usize) -> String {
    match columns(text) <= room {
        true => text.to_owned(),
        false => format!("{}…", &text[..fitting(text, room.saturating_sub(1))]),
    }
}

fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Nothing that a terminal would obey: sequences are left out whole, and what would turn the text
/// around is shown as what it is.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => out.push(c),
            '\t' => out.push_str("    "),
            '\x1b' => skip_sequence(&mut rest),
            c if c.is_control() => {}
            c if turns_text(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

fn skip_sequence(rest: &mut Peekable<Chars>) {
    match rest.next_if(|c| !c.is_control()) {
        Some('[') => {
            while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            rest.next_if(|c| matches!(c, '@'..='~'));
        }
        // Up to a bell or to the escape that begins its end, and never beyond its line.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while rest.next_if(|c| !matches!(c, '\x07' | '\x1b' | '\n')).is_some() {}
        }
        Some(' '..='/') => {
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
        Some(_) | None => {}
    }
}

fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
