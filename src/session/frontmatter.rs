//! The three keys of a document's YAML that mean something here. Pure.
//!
//! The parser's events are walked one by one: its own tree builders recurse once per level, so
//! 60 KiB of `[` would overflow the stack; and without a tree an alias cannot multiply anything.

use std::str::Chars;

use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub session: Option<String>,
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
}

/// What is wrong, and on which line of the document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub line: usize,
    pub what: String,
}

/// Deeper than anybody writes by hand.
const MAX_DEPTH: usize = 64;

/// `yaml` begins on the document's first line, right behind the fence.
pub(super) fn parse(yaml: &str) -> Result<Fields, Flaw> {
    let mut events = Events { parser: Parser::new_from_str(yaml), depth: 0 };
    let mut fields = Fields::default();
    loop {
        match events.next()? {
            (Event::StreamStart | Event::DocumentStart, _) => {}
            (Event::StreamEnd, _) => return Ok(fields),
            (Event::Scalar(text, style, ..), _) if is_null(&text, style) => break,
            (Event::MappingStart(..), _) => {
                top_level(&mut events, &mut fields)?;
                break;
            }
            (_, line) => return flaw(line, "frontmatter is not a map of `key: value` lines"),
        }
    }
    loop {
        match events.next()? {
            (Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => return Ok(fields),
            (_, line) => return flaw(line, "frontmatter holds a second YAML document"),
        }
    }
}

fn top_level(events: &mut Events, fields: &mut Fields) -> Result<(), Flaw> {
    let mut seen_env = false;
    loop {
        let (event, line) = events.next()?;
        let key = match event {
            Event::MappingEnd => return Ok(()),
            Event::Scalar(key, ..) => key,
            other => {
                // A foreign key of any shape: step over it and its value.
                events.skip_rest(&other)?;
                events.skip_node()?;
                continue;
            }
        };
        let twice = || flaw(line, &format!("`{key}` is given twice"));
        match key.as_str() {
            "agent_doc_session" if fields.session.is_some() => return twice(),
            "agent_doc_cwd" if fields.cwd.is_some() => return twice(),
            "env" if seen_env => return twice(),
            "agent_doc_session" => fields.session = Some(events.string("agent_doc_session")?),
            "agent_doc_cwd" => fields.cwd = Some(events.string("agent_doc_cwd")?),
            "env" => {
                seen_env = true;
                fields.env = env(events)?;
            }
            _ => events.skip_node()?,
        }
    }
}

fn env(events: &mut Events) -> Result<Vec<(String, String)>, Flaw> {
    match events.next()? {
        (Event::MappingStart(..), _) => {}
        (Event::Scalar(text, style, ..), _) if is_null(&text, style) => return Ok(vec![]),
        (_, line) => return flaw(line, "`env` is not a map of `NAME: value` lines"),
    }
    let mut vars: Vec<(String, String)> = vec![];
    loop {
        let (name, line) = match events.next()? {
            (Event::MappingEnd, _) => return Ok(vars),
            (Event::Scalar(name, ..), line) => (name, line),
            (_, line) => return flaw(line, "a name in `env` is not plain text"),
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return flaw(line, &format!("`env`: not a name for a variable: {name:?}"));
        }
        if vars.iter().any(|(known, _)| *known == name) {
            return flaw(line, &format!("`env`: {name} is given twice"));
        }
        match events.next()? {
            (Event::Scalar(text, style, ..), _) if is_null(&text, style) => {
                vars.push((name, String::new()));
            }
            (Event::Scalar(text, ..), _) if !text.contains('\0') => vars.push((name, text)),
            (Event::Scalar(..), line) => {
                return flaw(line, &format!("`env`: the value of {name} holds a NUL byte"));
            }
            (Event::Alias(_), line) => {
                return flaw(line, &format!("`env`: {name} is an alias: write the value out"));
            }
            (_, line) => {
                return flaw(line, &format!("`env`: the value of {name} is not plain text"));
            }
        }
    }
}

/// A key without a value, or an explicit null.
fn is_null(text: &str, style: TScalarStyle) -> bool {
    style == TScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn flaw<T>(line: usize, what: &str) -> Result<T, Flaw> {
    Err(Flaw { line, what: what.to_owned() })
}

struct Events<'a> {
    parser: Parser<Chars<'a>>,
    depth: usize,
}

impl Events<'_> {
    fn next(&mut self) -> Result<(Event, usize), Flaw> {
        let (event, mark) = self.parser.next_token().map_err(|e| Flaw {
            line: e.marker().line(),
            what: format!("frontmatter is not YAML: {}", e.info()),
        })?;
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => self.depth += 1,
            Event::SequenceEnd | Event::MappingEnd => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        // The parser repeats its last event for ever; whoever waits for a closing one would hang.
        if event == Event::StreamEnd && self.depth > 0 {
            return flaw(mark.line(), "frontmatter ends inside a list or map");
        }
        if self.depth > MAX_DEPTH {
            let what = format!("frontmatter is nested deeper than {MAX_DEPTH} levels");
            return flaw(mark.line(), &what);
        }
        Ok((event, mark.line()))
    }

    fn skip_node(&mut self) -> Result<(), Flaw> {
        let (event, _) = self.next()?;
        self.skip_rest(&event)
    }

    /// Steps over what `first` has opened, if it has.
    fn skip_rest(&mut self, first: &Event) -> Result<(), Flaw> {
        if !matches!(first, Event::SequenceStart(..) | Event::MappingStart(..)) {
            return Ok(());
        }
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }

    /// A scalar as written: `1234` is as good an id as `abcd`.
    fn string(&mut self, key: &str) -> Result<String, Flaw> {
        match self.next()? {
            (Event::Scalar(text, style, ..), line) if text.is_empty() || is_null(&text, style) => {
                flaw(line, &format!("`{key}` is empty: give it a value or remove it"))
            }
            (Event::Scalar(text, ..), line) if text.contains('\0') => {
                flaw(line, &format!("`{key}` holds a NUL byte"))
            }
            (Event::Scalar(text, ..), _) => Ok(text),
            (Event::Alias(_), line) => flaw(line, &format!("`{key}` is an alias: write the value out")),
            (_, line) => flaw(line, &format!("`{key}` is not plain text")),
        }
    }
}
