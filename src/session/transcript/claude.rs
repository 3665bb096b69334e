//! What a line of claude's transcript means. One line is one event of the program: most are about
//! the conversation, many are its own bookkeeping. Known from what 2.1.197 writes; a type that is
//! not known says nothing to anybody.

use serde::Deserialize;
use serde_json::Value;

use super::{Entry, Kind, Role, Tool};

/// No message of claude's has so many parts; each becomes an entry.
const PARTS_MOST: usize = 100;

/// No JSON, or none that claude would write.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Read as loosely as it goes: only `type` has to be what it should be. All that is not named here,
/// a second copy of each tool's result for one, is skipped without being kept.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    what: String,
    #[serde(default)]
    subtype: Value,
    #[serde(default)]
    timestamp: Value,
    /// A subagent's own conversation. Its result is in the main one.
    #[serde(default)]
    is_sidechain: Value,
    /// For the model, not for people.
    #[serde(default)]
    is_meta: Value,
    #[serde(default)]
    is_compact_summary: Value,
    #[serde(default)]
    is_api_error_message: Value,
    /// What kind of one.
    #[serde(default)]
    error: Value,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    attachment: Value,
}

/// What one line adds to the conversation; mostly one entry, often none.
pub fn entries(line: &str) -> Result<Vec<Entry>, Unreadable> {
    let line: Line = serde_json::from_str(line).map_err(|_| Unreadable)?;
    if is(&line.is_sidechain) || is(&line.is_meta) {
        return Ok(vec![]);
    }
    let at = line.timestamp.as_str().and_then(seconds);
    let mut page = Page { at, entries: Vec::new() };
    match line.what.as_str() {
        "user" => page.user(&line),
        "assistant" => page.assistant(&line),
        "system" => page.system(&line),
        // Typed while the agent was at work, and taken in between two steps of it.
        "attachment" if text(&line.attachment, "type") == Some("queued_command") => {
            let is_prompt = text(&line.attachment, "commandMode").is_none_or(|mode| mode == "prompt");
            if is_prompt && !is(&line.attachment["isMeta"]) {
                page.said(&line.attachment["prompt"]);
            }
        }
        _ => {}
    }
    match page.entries.len() {
        0..=PARTS_MOST => Ok(page.entries),
        _ => Err(Unreadable),
    }
}

/// Who spoke last, if it was about a limit.
#[derive(Debug, PartialEq)]
pub struct LastWord {
    /// Seconds since 1970.
    pub at: Option<f64>,
    /// What was said of a rate limit; `None`: it was about something else.
    pub limit: Option<String>,
}

/// `None` for a line that nobody says: bookkeeping, or no line of claude's.
pub fn last_word(line: &str) -> Option<LastWord> {
    let line: Line = serde_json::from_str(line).ok()?;
    if is(&line.is_sidechain) || is(&line.is_meta) || !matches!(line.what.as_str(), "user" | "assistant") {
        return None;
    }
    let is_limit = is(&line.is_api_error_message) && line.error == "rate_limit";
    let said = || parts(&line.message["content"]).filter_map(plain).collect::<Vec<_>>().join("\n");
    Some(LastWord { at: line.timestamp.as_str().and_then(seconds), limit: is_limit.then(said) })
}

fn is(flag: &Value) -> bool {
    flag.as_bool() == Some(true)
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The parts of a message, which may be just a text.
fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    let many = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let one = content.is_string().then_some(content);
    one.into_iter().chain(many)
}

/// The text of a part that is one.
fn plain(part: &Value) -> Option<&str> {
    match part.as_str() {
        Some(plain) => Some(plain),
        None if text(part, "type") == Some("text") => text(part, "text"),
        None => None,
    }
}

struct Page {
    at: Option<f64>,
    entries: Vec<Entry>,
}

impl Page {
    /// What is empty or blank is nothing.
    fn add(&mut self, role: Role, kind: Kind, text: &str) {
        if !text.trim().is_empty() {
            let text = text.trim_end_matches(['\n', '\r']).to_owned();
            self.entries.push(Entry { at: self.at, role, kind, text, tool: None, failed: false });
        }
    }

    fn user(&mut self, line: &Line) {
        let content = &line.message["content"];
        if is(&line.is_compact_summary) {
            for text in parts(content).filter_map(plain) {
                self.add(Role::System, Kind::Summary, text);
            }
            return;
        }
        self.said(content);
    }

    /// By a human, or by a tool in answer to the model.
    fn said(&mut self, content: &Value) {
        for part in parts(content) {
            match (plain(part), text(part, "type")) {
                (Some(text), _) => self.user_text(text),
                (None, Some("tool_result")) => self.tool_result(part),
                (None, Some(what @ ("image" | "document"))) => {
                    self.add(Role::User, Kind::Attachment, &attachment(what, part));
                }
                _ => {}
            }
        }
    }

    /// claude puts what is not the user's own words between tags.
    fn user_text(&mut self, text: &str) {
        let start = text.trim_start();
        if start.starts_with("<command-name>") || start.starts_with("<command-message>") {
            let of = |tag| between(text, tag).unwrap_or_default().trim();
            let command = format!("{} {}", of("command-name"), of("command-args"));
            self.add(Role::User, Kind::Command, command.trim());
        } else if let Some(command) = between(start, "bash-input") {
            self.add(Role::User, Kind::Command, &format!("! {}", command.trim()));
        } else if ["<bash-std", "<local-command-std"].iter().any(|tag| start.starts_with(tag)) {
            let tags = ["bash-stdout", "bash-stderr", "local-command-stdout", "local-command-stderr"];
            let streams = tags.iter().filter_map(|tag| between(text, tag)).filter(|it| !it.is_empty());
            self.add(Role::System, Kind::Output, &streams.collect::<Vec<_>>().join("\n"));
        } else if start.starts_with("[Request interrupted by user")
            || start.starts_with("<task-notification>")
        {
            self.add(Role::System, Kind::Notice, text);
        } else if !["<system-reminder>", "<local-command-caveat>"].iter().any(|tag| start.starts_with(tag)) {
            self.add(Role::User, Kind::Text, text);
        }
    }

    fn tool_result(&mut self, part: &Value) {
        let shown = parts(&part["content"]).filter_map(|part| match plain(part) {
            Some(text) => Some(text.to_owned()),
            None => text(part, "type").map(|what| format!("[{}]", attachment(what, part))),
        });
        let text = shown.collect::<Vec<_>>().join("\n");
        let id = self::text(part, "tool_use_id").unwrap_or_default().to_owned();
        self.entries.push(Entry {
            at: self.at,
            role: Role::Tool,
            kind: Kind::ToolResult,
            text: text.trim_end_matches(['\n', '\r']).to_owned(),
            tool: Some(Tool { id, name: None, input: Value::Null }),
            failed: is(&part["is_error"]),
        });
    }

    fn assistant(&mut self, line: &Line) {
        let kind = if is(&line.is_api_error_message) { Kind::Error } else { Kind::Text };
        for part in parts(&line.message["content"]) {
            match (plain(part), text(part, "type")) {
                (Some(text), _) => self.add(Role::Assistant, kind, text),
                (None, Some("thinking")) => {
                    self.add(Role::Assistant, Kind::Thinking, text(part, "thinking").unwrap_or_default());
                }
                (None, Some("tool_use" | "server_tool_use" | "mcp_tool_use")) => self.entries.push(Entry {
                    at: self.at,
                    role: Role::Assistant,
                    kind: Kind::ToolUse,
                    text: String::new(),
                    tool: Some(Tool {
                        id: text(part, "id").unwrap_or_default().to_owned(),
                        name: Some(text(part, "name").unwrap_or("?").to_owned()),
                        input: part["input"].clone(),
                    }),
                    failed: false,
                }),
                _ => {}
            }
        }
    }

    fn system(&mut self, line: &Line) {
        let Some(content) = line.content.as_str() else { return };
        match line.subtype.as_str() {
            Some("local_command") => self.user_text(content),
            _ => self.add(Role::System, Kind::Notice, content),
        }
    }
}

/// `image/png, 138 bytes`
fn attachment(what: &str, part: &Value) -> String {
    let media = part["source"]["media_type"].as_str().unwrap_or(what);
    match part["source"]["data"].as_str() {
        Some(data) => format!("{media}, {} bytes", data.trim_end_matches('=').len() * 3 / 4),
        None => media.to_owned(),
    }
}

/// What stands in the first `<tag>…</tag>`; to the end where the second is missing.
fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("<{tag}>"))?;
    Some(behind.split_once(&format!("</{tag}>")).map_or(behind, |(inside, _)| inside))
}

/// Seconds since 1970 of `2026-11-18T03:44:57.394Z`.
fn seconds(timestamp: &str) -> Option<f64> {
    let (date, time) = timestamp.strip_suffix('Z')?.split_once('T')?;
    let whole = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    let [year, month, day] = date.split('-').map(whole).collect::<Option<Vec<_>>>()?[..] else { return None };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [h, m, s] = clock.split(':').map(whole).collect::<Option<Vec<_>>>()?[..] else { return None };
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || h > 23 || m > 59 || s > 60 {
        return None;
    }
    let fraction = f64::from(whole(fraction)?) / 10f64.powi(fraction.len() as i32);
    // Days of the proleptic Gregorian calendar, counted from 1 March of the year 0.
    let (y, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = i64::from(365 * y + y / 4 - y / 100 + y / 400 + (153 * shifted + 2) / 5 + day) - 719_469;
    Some((days * 86400 + i64::from(h * 3600 + m * 60 + s)) as f64 + fraction)
}
