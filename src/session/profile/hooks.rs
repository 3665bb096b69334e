//! How an agent is made to tell of itself: for codex, a command that it calls at the end of a turn; for claude, settings on its command line whose hooks call
//! `agentsup hook`. No file of the user's is touched; settings of theirs are merged with ours, because
//! claude takes only one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Profile, claude, codex, settings};
use crate::session::{Environment, HookWish};

/// What is listened to, by claude's names.
const EVENTS: [&str; 13] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    PERMISSION,
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "SessionEnd",
];
/// The one that waits for an answer.
const PERMISSION: &str = "PermissionRequest";
/// Seconds. The client gives up long before; claude would wait a minute.
const TIMEOUT: u64 = 5;

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
    pub wish: &'a HookWish,
    /// Where merged settings may be put.
    pub file: &'a Path,
    /// Where the agent will run.
    pub cwd: &'a Path,
    /// Why they would not be run.
    pub off: Option<&'a str>,
    pub env: &'a Environment,
}

impl Profile {
    pub fn with_hooks(self, command: &[OsString], wanted: Option<Wanted>) -> Hooked {
        let plain = || Hooked { command: command.to_vec(), ..Hooked::default() };
        match (self, wanted) {
            (Profile::Claude, Some(wanted)) if claude::takes_prompts(&command[1..]) => {
                let hooked = match wanted.off {
                    Some(why) => Err(why.to_owned()),
                    None => with_settings(command, &wanted),
                };
                hooked.unwrap_or_else(|why| Hooked { warning: Some(why), ..plain() })
            }
            (Profile::Codex, Some(Wanted { wish, env, .. })) => {
                Hooked { command: codex::with_notify(command, wish, env), ..Hooked::default() }
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
    let word: OsString = if settings::is_json(&theirs) {
        merged(theirs.as_bytes(), wanted).map_err(|why| format!("--settings: {why}"))?.into()
    } else {
        let path = wanted.cwd.join(&theirs);
        let text = settings::read(&path).and_then(|bytes| merged(&bytes, wanted));
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
    let agentsup = quoted(&wanted.wish.agentsup.to_string_lossy());
    let group = |event: &str| {
        // A binary that is gone is no error of the agent's; one that is there takes the shell's place, so that
        // who ends the hook ends it.
        let command = format!("[ -x {agentsup} ] && exec {agentsup} hook {event} 2>/dev/null || :");
        // The supervisor denies in time; claude's own limit is for one that hangs.
        let waits = if event == PERMISSION { wanted.wish.permission_timeout.as_secs() } else { 0 };
        json!([{"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT + waits}]}])
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
    use crate::session::testing::{self, Scratch};

    fn wish() -> HookWish {
        HookWish { agentsup: "/bin/agentsup".into(), permission_timeout: std::time::Duration::from_secs(300) }
    }

    #[test]
    fn a_binary_that_is_gone_is_no_error() {
        for path in ["/nowhere/agentsup", "/nowhere/it's not"] {
            let scratch = Scratch::new();
            let wish = HookWish { agentsup: path.into(), ..wish() };
            let (file, env) = (scratch.path(), testing::env(&[("HOME", "/h")]));
            let wanted = Wanted { wish: &wish, file, cwd: file, off: None, env: &env };
            let command = ours(&wanted)["Stop"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
            let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command}: {output:?}");
        }
    }

    fn ours_for(event: &str) -> Value {
        let timeout = if event == PERMISSION { 305 } else { 5 };
        let command = format!("[ -x /bin/agentsup ] && exec /bin/agentsup hook {event} 2>/dev/null || :");
        json!({"hooks": [{"command": command, "timeout": timeout, "type": "command"}]})
    }

    /// Our hooks, with `theirs` before them for two events.
    fn settings(theirs: Option<(Value, Value)>) -> Value {
        let mut hooks: Map<String, Value> =
            EVENTS.iter().map(|event| ((*event).to_owned(), json!([ours_for(event)]))).collect();
        if let Some((stop, prompt)) = theirs {
            hooks["Stop"] = json!([stop, ours_for("Stop")]);
            hooks["UserPromptSubmit"] = json!([prompt, ours_for("UserPromptSubmit")]);
        }
        json!({ "hooks": hooks })
    }

    fn hooked(scratch: &Scratch, line: &[&str]) -> Hooked {
        let command: Vec<OsString> = line.iter().map(OsString::from).collect();
        let file = Path::new("/state/s.settings");
        let env = testing::env::<&str>(&[]);
        let wanted = Wanted { wish: &wish(), file, cwd: scratch.path(), off: None, env: &env };
        Profile::Claude.with_hooks(&command, Some(wanted))
    }

    fn words(command: &[&str]) -> Vec<OsString> {
        command.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_call_without_settings_gets_ours_where_nothing_can_swallow_them() {
        let scratch = Scratch::new();
        let ours = settings(None).to_string();
        let hooked = hooked(&scratch, &["claude", "--model", "opus", "do it"]);
        assert_eq!(hooked.command, words(&["claude", "--settings", &ours, "--model", "opus", "do it"]));
        assert!(hooked.is_on && hooked.file.is_none() && hooked.warning.is_none());
    }

    #[test]
    fn the_users_own_settings_keep_working_beside_ours() {
        let scratch = Scratch::new();
        let theirs = r#"{"model":"x","hooks":{"Stop":[1],"UserPromptSubmit":[{"hooks":[2]}]}}"#;
        let mut both = settings(Some((json!(1), json!({"hooks": [2]}))));
        both["model"] = "x".into();
        let both = both.to_string();
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

    /// Each file as claude 2.1.197 itself read it.
    #[test]
    fn a_file_that_claude_can_read_is_merged() {
        let scratch = Scratch::new();
        for (theirs, merged) in [
            (&b"\xef\xbb\xbf{\"model\":\"x\"}"[..], json!({"model": "x"})),
            (b"{\"model\":\"\xff\"}", json!({"model": "\u{fffd}"})),
            (b"", json!({})),
            (b"\xef\xbb\xbf", json!({})),
            (b" \n", json!({})),
        ] {
            std::fs::write(scratch.path().join("mine.json"), theirs).unwrap();
            let file = hooked(&scratch, &["claude", "--settings", "mine.json"]);
            let mut both = settings(None);
            both.as_object_mut().unwrap().extend(merged.as_object().unwrap().clone());
            assert_eq!(file.warning, None, "{theirs:?}");
            assert_eq!(file.file.unwrap().1, both.to_string(), "{theirs:?}");
        }
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
        assert!(!Profile::Claude.with_hooks(&words(&["claude"]), None).is_on);
    }

    fn notified(line: &[&str], env: &[(&str, &str)]) -> Vec<OsString> {
        let env = testing::env(env);
        let wanted =
            Wanted { wish: &wish(), file: Path::new("b"), cwd: Path::new("/"), off: None, env: &env };
        let hooked = Profile::Codex.with_hooks(&words(line), Some(wanted));
        assert!(!hooked.is_on, "it does not say which prompts it was given");
        hooked.command
    }

    #[test]
    fn codex_calls_us_at_the_end_of_a_turn_unless_it_calls_somebody_else() {
        let notify = r#"notify=["/bin/agentsup","hook","codex-notify"]"#;
        assert_eq!(
            notified(&["codex", "-m", "o3", "hi"], &[]),
            words(&["codex", "-c", notify, "-m", "o3", "hi"])
        );
        for line in [
            &["codex", "-c", "notify=['x']"][..],
            &["codex", "--config=notify = ['x']"],
            &["codex", "exec", "hi"],
            &["codex", "--version"],
            &["codex", "resume", "--last"],
        ] {
            assert_eq!(notified(line, &[]), words(line));
        }
        let prompt = ["codex", "-c", "model=o3", "notify=me"];
        assert_eq!(notified(&prompt, &[]).len(), 6, "a prompt is no setting");
        let scratch = Scratch::new();
        scratch.file("config.toml", "model = \"o3\"\n notify = [\"mine\"]\n");
        let home = scratch.path().to_str().unwrap();
        assert_eq!(notified(&["codex"], &[("CODEX_HOME", home)]), words(&["codex"]));
        scratch.file("config.toml", "model = \"o3\"\n[tui]\nnotifications = true\n");
        assert_eq!(notified(&["codex"], &[("CODEX_HOME", home)]), words(&["codex", "-c", notify]));
    }

    #[test]
    fn a_shell_takes_the_path_as_one_word() {
        assert_eq!(quoted("/usr/bin/agentsup"), "/usr/bin/agentsup");
        assert_eq!(quoted("/my tools/it's"), "'/my tools/it'\\''s'");
    }
}
