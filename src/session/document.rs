//! The document that may describe a session. Only its frontmatter is read, never its body.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Refusal;
use super::frontmatter::{self, Flaw};

/// What a document says about its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Canonical.
    pub path: PathBuf,
    /// `agent_doc_session`, not checked yet.
    pub session: Option<String>,
    /// `agent_doc_cwd`, not resolved yet.
    pub cwd: Option<PathBuf>,
    /// `env`, in the order of the document, not expanded yet.
    pub env: Vec<(String, String)>,
}

/// Frontmatter is written by hand; more than this is a mistake or an attack.
const LIMIT: usize = 64 * 1024;

impl Document {
    /// A symlinked document is the file it points to, for its parent directory too: the same
    /// document reached under two names must give the same cwd and the same session.
    pub fn read(path: &Path) -> Result<Document, Refusal> {
        let refuse = |what: &str| {
            Refusal(format!("document: {what}: {}; give another with --document", path.display()))
        };
        let canonical = fs::canonicalize(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => refuse("path does not exist"),
            _ => refuse(&format!("path cannot be resolved ({e})")),
        })?;
        let head = read_head(&canonical).map_err(|what| refuse(&what))?;
        let fields = cut(&head)
            .and_then(|yaml| yaml.map_or(Ok(Default::default()), frontmatter::parse))
            .map_err(|Flaw { line, what }| Refusal(format!("{}:{line}: {what}", canonical.display())))?;
        Ok(Document {
            path: canonical,
            session: fields.session,
            cwd: fields.cwd.map(PathBuf::from),
            env: fields.env,
        })
    }
}

/// As much of the file as frontmatter of the greatest size and both its fences can take.
fn read_head(path: &Path) -> Result<Vec<u8>, String> {
    // O_NONBLOCK: a fifo without a writer would block the open for ever.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|e| format!("cannot be opened ({e})"))?;
    let meta = file.metadata().map_err(|e| format!("cannot be looked at ({e})"))?;
    if !meta.is_file() {
        return Err("is not a regular file".into());
    }
    let mut head = Vec::new();
    let most = LIMIT as u64 + 256;
    file.take(most).read_to_end(&mut head).map_err(|e| format!("cannot be read ({e})"))?;
    Ok(head)
}

/// The YAML between the fences, from the end of the first `---`, so that its first line is the
/// document's first and line numbers need no arithmetic. `None`: there is no frontmatter.
fn cut(head: &[u8]) -> Result<Option<&str>, Flaw> {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let mut lines = text.split_inclusive(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    if !is_fence(first, b"---") {
        return Ok(None);
    }
    let mut end = first.len();
    for line in lines {
        if end > LIMIT + first.len() {
            break;
        }
        if is_fence(line, b"---") || is_fence(line, b"...") {
            return readable(&text[3..end]).map(Some);
        }
        end += line.len();
    }
    // More than the limit was offered to us only when the file goes on beyond it.
    if text.len() > LIMIT + first.len() {
        let line = line_at(text, LIMIT);
        return Err(Flaw { line, what: "frontmatter is longer than 64 KiB".into() });
    }
    let what = "frontmatter is not closed: end it with a line `---`".into();
    Err(Flaw { line: line_at(text, text.len().saturating_sub(1)), what })
}

fn is_fence(line: &[u8], fence: &[u8]) -> bool {
    line.strip_prefix(fence).is_some_and(|rest| rest.iter().all(u8::is_ascii_whitespace))
}

/// Text, and no control characters: YAML forbids them, and the parser takes a NUL for the end,
/// which would silently hide what follows.
fn readable(bytes: &[u8]) -> Result<&str, Flaw> {
    let text = str::from_utf8(bytes).map_err(|e| Flaw {
        line: line_at(bytes, e.valid_up_to()),
        what: "frontmatter is not UTF-8 text".into(),
    })?;
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    match text.char_indices().find(|(_, c)| is_control(*c)) {
        None => Ok(text),
        Some((at, c)) => Err(Flaw {
            line: line_at(bytes, at),
            what: format!("frontmatter holds a control character ({c:?})"),
        }),
    }
}

fn line_at(text: &[u8], at: usize) -> usize {
    text[..at].iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
