//! codex's threads on disk, as version 0.166.0 keeps them. It tells of the end of a turn in every one, also in those
//! that nobody talks to: a title for each prompt is found in a thread of its own, and so do its sub-agents work.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl
const DEEP: u8 = 3;
/// Its first line holds all of codex's instructions, some 20 KiB.
const LONGEST_LINE: u64 = 1 << 20;

/// `var` is the environment of codex.
pub fn codex_home(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CODEX_HOME").or_else(|| set("HOME").map(|home| home.join(".codex")))
}

/// Whether the thread is a conversation with the user, which can be resumed. Its file is there before the model is
/// asked for the first time; a title's thread never has one, a sub-agent's says whose it is. Where no files are kept
/// at all, codex is believed.
pub fn is_conversation(home: &Path, thread: &str) -> bool {
    let sessions = home.join("sessions");
    !sessions.is_dir()
        || find(&sessions, DEEP, &format!("-{thread}.jsonl")).is_some_and(|file| is_users(&file))
}

fn find(dir: &Path, deep: u8, name: &str) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).ok()?.flatten().collect();
    // The newest first: it is rarely another.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    entries.iter().find_map(|entry| match (deep, entry.file_type().ok()?.is_file()) {
        (0, true) => entry.file_name().to_string_lossy().contains(name).then(|| entry.path()),
        (1.., false) => find(&entry.path(), deep - 1, name),
        (0, false) | (1.., true) => None,
    })
}

/// A user's has the name of the program as its `source`, all others tell more. What cannot be read says nothing.
fn is_users(file: &Path) -> bool {
    let mut line = Vec::new();
    let read = File::open(file)
        .and_then(|file| BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut line));
    let meta: Option<Value> = read.ok().and_then(|_| serde_json::from_slice(&line).ok());
    !meta.is_some_and(|meta| meta["payload"]["source"].is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Scratch;

    const USERS: &str = r#"{"type":"session_meta","payload":{"id":"01-a","source":"cli"}}"#;
    const SUB_AGENTS: &str = r#"{"payload":{"source":{"subagent":{"thread_spawn":{"depth":1}}}}}"#;

    #[test]
    fn its_home_is_its_own_or_the_users() {
        let of = |vars: &[(&str, &str)]| {
            codex_home(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.codex".into()));
        assert_eq!(of(&[("HOME", "/h"), ("CODEX_HOME", "/c")]), Some("/c".into()));
        assert_eq!(of(&[("HOME", "/h"), ("CODEX_HOME", "")]), Some("/h/.codex".into()));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_title_has_no_file_and_a_sub_agent_no_user() {
        let home = Scratch::new();
        let keep = |day: &str, id: &str, line: &str| {
            home.file(
                &format!("sessions/{day}/rollout-2026-11-18T14-57-19-{id}.jsonl"),
                format!("{line}\n{{}}\n"),
            );
        };
        keep("2026/11/18", "01-a", USERS);
        keep("2025/01/02", "01-b", USERS);
        keep("2026/11/18", "01-c", SUB_AGENTS);
        keep("2026/11/18", "01-d", "of a later version");
        let is = |id| is_conversation(home.path(), id);
        assert!(is("01-a") && is("01-b") && is("01-d"));
        assert!(!is("01-c"), "a sub-agent's");
        assert!(!is("01-title"), "never written down");
    }

    #[test]
    fn a_codex_that_keeps_no_files_is_believed() {
        assert!(is_conversation(Scratch::new().path(), "01-a"));
    }
}
