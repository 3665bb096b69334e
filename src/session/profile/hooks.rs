//! How an agent is made to tell of itself: for claude, settings on its command line whose hooks call
//! `agentsup hook`. No file of the user's is touched; settings of theirs are merged with ours, because
//! claude takes only one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Profile, claude};

/// What is listened to, by claude's names.
const EVENTS: [&str; 2] = ["UserPromptSubmit", "Stop"];
/// Seconds. The client gives up long before; claude would wait a minute.
const TIMEOUT: u32 = 5;
/// Settings are written by hand; beyond this it is some other file.
const LARGEST: u64 = 1 << 20;

/// A command with hooks, as far as it can have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooked {
    pub command: Vec<OsString>,
    pub is_on: bool,
    /// To be written before the command is run: what the user's settings file says, and our hooks.
    /// It may hold secrets, which a command line would show to everybody.
    pub file: Option<(PathBuf, String)>,
    /// Why there are none, although they were wanted.
    pub warning: Option<String>,
}

/// What hooks are made from.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Our own binary, which the hooks call.
    pub agentsup: &'a Path,
    /// Where merged settings may be put.
    pub file: &'a Path,
    /// Where the agent will run.
    pub cwd: &'a Path,
}

impl Profile {
    pub fn with_hooks(self, command: &[OsString], wanted: Option<Wanted>) -> Hooked {
        let plain = || Hooked { command: command.to_vec(), ..Hooked::default() };
        match (self, wanted) {
            (Profile::Claude, Some(wanted)) if claude::takes_prompts(&command[1..]) => {
                with_settings(command, &wanted).unwrap_or_else(|why| Hooked { warning: Some(why), ..plain() })
            }
            (Profile::Claude | Profile::Codex | Profile::Other, _) => plain(),
        }
    }
}

fn with_settings(command: &[OsString], wanted: &Wanted) -> Result<Hooked, String> {
    let mut hooked = Hooked { command: command.to_vec(), is_on: true, ..Hooked::default() };
    let Some((at, theirs)) = claude::settings(&command[1..]) else {
        let ours = json!({"hooks": ours(wanted)}).to_string();
        hooked.command.splice(1..1, ["--settings".into(), ours.into()]);
        return Ok(hooked);
    };
    let word: OsString = if theirs.as_bytes().trim_ascii_start().starts_with(b"{") {
        merged(theirs.as_bytes(), wanted).map_err(|why| format!("--settings: {why}"))?.into()
    } else {
        let path = wanted.cwd.join(&theirs);
        let text = read(&path).and_then(|bytes| merged(&bytes, wanted));
        let text = text.map_err(|why| format!("--settings {}: {why}", path.display()))?;
        hooked.file = Some((wanted.file.to_owned(), text));
        wanted.file.as_os_str().to_owned()
    };
    // In the place of theirs, as one word where it was one.
    let (first, last) = (at.start + 1, at.end);
    hooked.command[last] = match first == last {
        true => [OsStr::new("--settings="), &word].into_iter().collect(),
        false => word,
    };
    Ok(hooked)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error| format!("it cannot be read: {error}");
    // A fifo must not be waited for, and what it holds can be read only once: it is claude's.
    let open = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = open.map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > LARGEST {
        true => Err("it is larger than 1 MiB".to_owned()),
        false => Ok(bytes),
    }
}

/// Their settings with our hooks behind their own for each event.
fn merged(theirs: &[u8], wanted: &Wanted) -> Result<String, String> {
    let mut settings: Map<String, Value> =
        serde_json::from_slice(theirs).map_err(|why| format!("it is no JSON object: {why}"))?;
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let hooks = hooks.as_object_mut().ok_or("its `hooks` are no object")?;
    for (event, group) in ours(wanted) {
        let groups = hooks.entry(event.as_str()).or_insert_with(|| json!([]));
        let groups = groups.as_array_mut().ok_or_else(|| format!("its hooks for {event} are no list"))?;
        groups.extend(group.as_array().into_iter().flatten().cloned());
    }
    Ok(Value::Object(settings).to_string())
}

fn ours(wanted: &Wanted) -> Map<String, Value> {
    let agentsup = quoted(&wanted.agentsup.to_string_lossy());
    let group = |event: &str| {
        let command = format!("{agentsup} hook {event}");
        json!([{"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]}])
    };
    EVENTS.iter().map(|event| ((*event).to_owned(), group(event))).collect()
}

/// One word for a shell.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Scratch;

    const OURS: &str =
        r#"{"hooks":[{"command":"/bin/agentsup hook UserPromptSubmit","timeout":5,"type":"command"}]}"#;
    const STOP: &str = r#"{"hooks":[{"command":"/bin/agentsup hook Stop","timeout":5,"type":"command"}]}"#;

    fn hooked(scratch: &Scratch, line: &[&str]) -> Hooked {
        let command: Vec<OsString> = line.iter().map(OsString::from).collect();
        let file = Path::new("/state/s.settings");
        let wanted = Wanted { agentsup: Path::new("/bin/agentsup"), file, cwd: scratch.path() };
        Profile::Claude.with_hooks(&command, Some(wanted))
    }

    fn words(command: &[&str]) -> Vec<OsString> {
        command.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_call_without_settings_gets_ours_where_nothing_can_swallow_them() {
        let scratch = Scratch::new();
        let ours = format!(r#"{{"hooks":{{"Stop":[{STOP}],"UserPromptSubmit":[{OURS}]}}}}"#);
        let hooked = hooked(&scratch, &["claude", "--model", "opus", "do it"]);
        assert_eq!(hooked.command, words(&["claude", "--settings", &ours, "--model", "opus", "do it"]));
        assert!(hooked.is_on && hooked.file.is_none() && hooked.warning.is_none());
    }

    #[test]
    fn the_users_own_settings_keep_working_beside_ours() {
        let scratch = Scratch::new();
        let theirs = r#"{"model":"x","hooks":{"Stop":[1],"UserPromptSubmit":[{"hooks":[2]}]}}"#;
        let both = format!(
            r#"{{"hooks":{{"Stop":[1,{STOP}],"UserPromptSubmit":[{{"hooks":[2]}},{OURS}]}},"model":"x"}}"#
        );
        let json = hooked(&scratch, &["claude", "--settings", theirs, "-c"]);
        assert_eq!(json.command, words(&["claude", "--settings", &both, "-c"]));
        let json = hooked(&scratch, &["claude", &format!("--settings={theirs}")]);
        assert_eq!(json.command, words(&["claude", &format!("--settings={both}")]));
        scratch.file("mine.json", theirs);
        let file = hooked(&scratch, &["claude", "--settings", "mine.json", "hi"]);
        assert_eq!(file.command, words(&["claude", "--settings", "/state/s.settings", "hi"]));
        assert_eq!(file.file, Some(("/state/s.settings".into(), both.clone())));
        // claude takes the last one.
        let two = hooked(&scratch, &["claude", "--settings", "none.json", "--settings", theirs]);
        assert_eq!(two.command, words(&["claude", "--settings", "none.json", "--settings", &both]));
    }

    #[test]
    fn settings_that_cannot_be_merged_are_left_alone_and_told_of() {
        let scratch = Scratch::new();
        scratch.file("bad.json", "{");
        let fifo = scratch.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (settings, why) in [
            ("missing.json", "missing.json: it cannot be read: No such file or directory (os error 2)"),
            ("bad.json", "bad.json: it is no JSON object: EOF while parsing an object at line 1 column 1"),
            ("fifo", "fifo: it is no regular file"),
            (".", "it is no regular file"),
            ("{\"hooks\":[]}", "--settings: its `hooks` are no object"),
            (
                "{\"hooks\":{\"UserPromptSubmit\":1}}",
                "--settings: its hooks for UserPromptSubmit are no list",
            ),
        ] {
            let line = ["claude", "--settings", settings];
            let hooked = hooked(&scratch, &line);
            assert_eq!(hooked.command, words(&line));
            assert!(!hooked.is_on);
            let warning = hooked.warning.unwrap();
            assert!(warning.ends_with(why), "{warning}");
        }
    }

    #[test]
    fn calls_that_take_no_prompts_get_none() {
        let scratch = Scratch::new();
        for line in [&["claude", "-p", "hi"][..], &["claude", "--version"], &["claude", "mcp", "list"]] {
            assert_eq!(hooked(&scratch, line), Hooked { command: words(line), ..Hooked::default() });
        }
        let command = words(&["codex"]);
        let wanted = Wanted { agentsup: Path::new("a"), file: Path::new("b"), cwd: Path::new("/") };
        assert!(!Profile::Codex.with_hooks(&command, Some(wanted)).is_on);
        assert!(!Profile::Claude.with_hooks(&words(&["claude"]), None).is_on);
    }

    #[test]
    fn a_shell_takes_the_path_as_one_word() {
        assert_eq!(quoted("/usr/bin/agentsup"), "/usr/bin/agentsup");
        assert_eq!(quoted("/my tools/it's"), "'/my tools/it'\\''s'");
    }
}
