//! What claude's settings say, as far as it decides whether claude starts and whether hooks run. Reads
//! the files that claude 2.1.197 reads; what cannot be read says nothing, because then claude decides.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::claude;
use crate::session::Environment;
use crate::session::transcript::Place;

/// Settings are written by hand; beyond this it is some other file.
const LARGEST: u64 = 1 << 20;
/// What is set here for everybody on the machine.
const MANAGED: &str = "/etc/claude-code";

/// Everything that says something, the strongest last.
#[derive(Debug, Default)]
pub(in crate::session) struct Settings {
    layers: Vec<Value>,
    /// `--settings`, which is among the layers too.
    given: Value,
    /// How many of the layers are the machine's.
    managed: usize,
}

impl Settings {
    /// `args` is the command line without its first word.
    pub(in crate::session) fn read(args: &[OsString], env: &Environment, cwd: &Path) -> Settings {
        Settings::read_beside(Path::new(MANAGED), args, env, cwd)
    }

    fn read_beside(managed: &Path, args: &[OsString], env: &Environment, cwd: &Path) -> Settings {
        let user = Place::config_of_claude(env, cwd).map(|dir| dir.join("settings.json"));
        let project = cwd.join(".claude/settings.json");
        let local = cwd.join(".claude/settings.local.json");
        let sources = claude::setting_sources(args);
        let is_read =
            |name: &str| sources.as_ref().is_none_or(|list| list.split(',').any(|s| s.trim() == name));
        let files = [("user", user), ("project", Some(project)), ("local", Some(local))];
        let files = files.into_iter().filter(|(name, _)| is_read(name)).filter_map(|(_, path)| path);
        let given = claude::settings(args).and_then(|(_, word)| given(&word, cwd)).unwrap_or_default();
        let mut layers: Vec<Value> = files.filter_map(|path| object(&read(&path).ok()?)).collect();
        layers.push(given.clone());
        let own = layers.len();
        layers.extend(of_the_machine(managed).iter().filter_map(|path| object(&read(path).ok()?)));
        let managed = layers.len() - own;
        Settings { layers, given, managed }
    }

    /// Why hooks will not run, however they are given.
    pub(in crate::session) fn hooks_off(&self, args: &[OsString], env: &Environment) -> Option<String> {
        if let Some(option) = claude::without_hooks(args) {
            return Some(format!("claude {option} runs none: leave that option out"));
        }
        if is_true(env.get("CLAUDE_CODE_SIMPLE")) {
            return Some("claude with CLAUDE_CODE_SIMPLE runs none: leave that variable out".to_owned());
        }
        let mut said_for_all = self.layers.iter().rev().take(self.managed);
        let alone = said_for_all.find_map(|layer| layer.get("allowManagedHooksOnly"));
        if alone == Some(&Value::Bool(true)) {
            let why = "the machine's settings for claude say allowManagedHooksOnly: it runs no others";
            return Some(why.to_owned());
        }
        let said = self.layers.iter().rev().find_map(|layer| layer.get("disableAllHooks"));
        said.filter(|said| **said == Value::Bool(true)).map(|_| {
            "claude's settings say disableAllHooks: say `\"disableAllHooks\": false` in --settings".to_owned()
        })
    }

    /// Which word makes claude refuse to start as root: bypass, outside of what it takes for a sandbox.
    pub(in crate::session) fn forbidden_to_root(
        &self,
        args: &[OsString],
        env: &Environment,
    ) -> Option<&'static str> {
        let asks = claude::asks_for_bypass(args).or_else(|| {
            let mode = self.given.get("permissions")?.get("defaultMode")?;
            let counts = !claude::has_permission_mode(args) && mode == claude::BYPASS;
            counts.then_some("permissions.defaultMode bypassPermissions")
        })?;
        let by_env =
            env.get("IS_SANDBOX") == Some(OsStr::new("1")) || is_true(env.get("CLAUDE_CODE_BUBBLEWRAP"));
        // Any layer will do: a refusal too many would be worse than claude's own, which comes anyway.
        let excuses = |layer: &Value| {
            let variable = |name| layer.get("env")?.get(name)?.as_str();
            let mode = || layer.get("permissions")?.get("disableBypassPermissionsMode");
            variable("IS_SANDBOX") == Some("1")
                || is_true(variable("CLAUDE_CODE_BUBBLEWRAP").map(OsStr::new))
                || mode().is_some_and(|mode| mode == "disable")
        };
        (!by_env && !self.layers.iter().any(excuses)).then_some(asks)
    }
}

/// The file, and what is dropped beside it, which comes later and counts for more.
fn of_the_machine(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("managed-settings.d")).into_iter().flatten().flatten();
    let counts = |path: &PathBuf| {
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        name.ends_with(b".json") && !name.starts_with(b".")
    };
    let mut dropped: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(counts).collect();
    dropped.sort();
    dropped.insert(0, dir.join("managed-settings.json"));
    dropped
}

fn given(word: &OsStr, cwd: &Path) -> Option<Value> {
    match is_json(word) {
        true => object(word.as_bytes()),
        false => object(&read(&cwd.join(word)).ok()?),
    }
}

/// Otherwise it is the path of a file.
pub(super) fn is_json(word: &OsStr) -> bool {
    word.as_bytes().trim_ascii_start().starts_with(b"{")
}

fn object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().filter(Value::is_object)
}

/// As claude reads its variables that are on or off.
fn is_true(value: Option<&OsStr>) -> bool {
    let value = value.and_then(OsStr::to_str).map(|v| v.trim().to_ascii_lowercase());
    value.is_some_and(|v| matches!(v.as_str(), "1" | "true" | "yes" | "on"))
}

/// The JSON of a file, as claude takes it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
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
        false => Ok(as_json(&bytes)),
    }
}

/// An editor's mark at the start is none of it, what is no UTF-8 is shown as such, and where nothing is written
/// nothing is set.
fn as_json(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match text.trim_ascii() {
        [] => b"{}".to_vec(),
        text => String::from_utf8_lossy(text).into_owned().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Settings;
    use crate::session::testing::{self, Scratch};
    use crate::session::tests::{NEW, wish};
    use crate::session::{Conversation, HookWish, Refusal, SpawnPlan, Start, Wish, plan};

    const DANGEROUS: &str = "--dangerously-skip-permissions";
    const BY_SETTINGS: &str = r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#;

    fn planned(wish: &Wish) -> Result<SpawnPlan, Refusal> {
        plan(wish, Start::Fresh, &Conversation::default(), NEW)
    }

    fn root(scratch: &Scratch, command: &[&str], env: &[(&str, &str)]) -> Wish {
        let command = command.iter().map(Into::into).collect();
        let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Wish { command, env, uid: 0, ..wish(scratch.path()) }
    }

    /// Each line as claude 2.1.197 itself answered it.
    #[test]
    fn root_is_refused_what_claude_refuses_it_and_nothing_else() {
        let s = Scratch::new();
        s.file("mine.json", BY_SETTINGS);
        let sandboxed = r#"{"env":{"IS_SANDBOX":"1"}}"#;
        let disabled = r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#;
        let (is_sandbox, bubblewrap) = ("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP");
        type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], bool);
        let rows: &[Row] = &[
            (&["claude"], &[], false),
            (&["claude", DANGEROUS], &[], true),
            (&["/opt/bin/claude", "-p", DANGEROUS, "hi"], &[], true),
            (&["claude", "--allow-dangerously-skip-permissions"], &[], true),
            (&["claude", "--permission-mode", "bypassPermissions"], &[], true),
            (&["claude", "--permission-mode=bypassPermissions"], &[], true),
            (&["claude", "--permission-mode", "plan"], &[], false),
            (&["claude", "--permission-mode", "default", DANGEROUS], &[], true),
            (&["claude", "--permission-mode", "plan", "--permission-mode", "bypassPermissions"], &[], true),
            (&["claude", "--permission-mode", "bypassPermissions", "--permission-mode", "plan"], &[], false),
            (&["claude", "--settings", BY_SETTINGS], &[], true),
            (&["claude", "--settings", "mine.json"], &[], true),
            (&["claude", "--permission-mode", "default", "--settings", "mine.json"], &[], false),
            (&["claude", "--settings", "none.json"], &[], false),
            (&["claude", "--settings", sandboxed, DANGEROUS], &[], false),
            (&["claude", "--settings", disabled, DANGEROUS], &[], false),
            (&["claude", DANGEROUS, "--version"], &[], false),
            (&["claude", DANGEROUS, "mcp", "list"], &[], false),
            (&["claude", "--", DANGEROUS], &[], false),
            (&["claude", DANGEROUS], &[(is_sandbox, "1")], false),
            (&["claude", DANGEROUS], &[(is_sandbox, "0")], true),
            (&["claude", DANGEROUS], &[(is_sandbox, "true")], true),
            (&["claude", DANGEROUS], &[(bubblewrap, "YES")], false),
            (&["claude", DANGEROUS], &[(bubblewrap, "0")], true),
            (&["codex", DANGEROUS], &[], false),
            (&["other", DANGEROUS], &[], false),
        ];
        for (command, env, is_refused) in rows {
            let asked = root(&s, command, env);
            assert_eq!(planned(&asked).is_err(), *is_refused, "{command:?} {env:?}");
            assert!(planned(&Wish { uid: 1000, ..asked }).is_ok(), "{command:?} {env:?}");
        }
        let Refusal(why) = planned(&root(&s, &["claude", DANGEROUS], &[])).unwrap_err();
        assert!(why.contains(DANGEROUS) && why.contains("--env IS_SANDBOX=1"), "{why}");
        let wrapper = Wish { agent: Some("claude".into()), ..root(&s, &["wrapper", DANGEROUS], &[]) };
        assert!(planned(&wrapper).is_ok());
        s.file(".claude/settings.json", sandboxed);
        assert!(planned(&root(&s, &["claude", DANGEROUS], &[])).is_ok());
        assert!(planned(&root(&s, &["claude", "--setting-sources", "local", DANGEROUS], &[])).is_err());
    }

    /// Each line as claude 2.1.197 ran a hook or did not.
    #[test]
    fn hooks_that_would_not_run_are_not_counted_on() {
        let s = Scratch::new();
        let (off, on) = (r#"{"disableAllHooks":true}"#, r#"{"disableAllHooks":false}"#);
        let warning = |command: &[&str]| {
            let hooks =
                Some(HookWish { agentsup: "/bin/agentsup".into(), permission_timeout: Duration::ZERO });
            let plan = planned(&Wish { hooks, uid: 1000, ..root(&s, command, &[]) }).unwrap();
            assert_ne!(plan.hooks.is_on, plan.hooks.warning.is_some());
            plan.hooks.warning
        };
        assert_eq!(warning(&["claude"]), None);
        for command in [&["claude", "--bare"][..], &["claude", "--safe-mode"], &["claude", "--settings", off]]
        {
            assert!(warning(command).is_some(), "{command:?}");
        }
        s.file(".claude/settings.local.json", off);
        assert!(warning(&["claude"]).unwrap().contains("disableAllHooks"));
        assert_eq!(warning(&["claude", "--setting-sources", "user,project"]), None);
        assert_eq!(warning(&["claude", "--settings", on]), None);
    }

    /// Each line as claude 2.1.197 ran a hook or did not.
    #[test]
    fn hooks_that_the_machine_forbids_are_not_counted_on() {
        let s = Scratch::new();
        let (only, all) = (r#"{"allowManagedHooksOnly":true}"#, r#"{"allowManagedHooksOnly":false}"#);
        let is_off = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(Into::into).collect();
            let env = testing::env::<&str>(&[]);
            Settings::read_beside(s.path(), &args, &env, s.path()).hooks_off(&args, &env).is_some()
        };
        s.file(".claude/settings.json", only);
        assert!(!is_off(&["--settings", only]), "only the machine's own say that");
        s.file("managed-settings.json", only);
        assert!(is_off(&[]) && is_off(&["--settings", all]));
        s.file("managed-settings.d/b.json", all);
        assert!(!is_off(&[]), "what is dropped there counts for more");
        s.file("managed-settings.d/.c.json", only);
        assert!(!is_off(&[]));
        s.file("managed-settings.d/c.json", r#"{"disableAllHooks":true}"#);
        assert!(is_off(&[]));
    }
}
