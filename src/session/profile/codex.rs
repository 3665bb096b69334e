//! codex: it chooses the conversation's id itself; `resume` takes that id, or `--last`.

use std::ffi::OsString;

use super::args::Takes::{Many, Nothing, One};
use super::args::{self, Table, Words};
use super::{Ask, CallAsk, Line, settings, threads};
use crate::session::{Conversation, Environment, HookWish, How, Refusal, Start};

/// Version 0.166.0.
#[rustfmt::skip]
const OPTIONS: Table = &[
    (One, &["--config", "-c"]), (One, &["--enable"]), (One, &["--disable"]), (One, &["--remote"]),
    (One, &["--remote-auth-token-env"]), (One, &["--model", "-m"]), (One, &["--local-provider"]),
    (One, &["--profile", "-p"]), (One, &["--sandbox", "-s"]), (One, &["--cd", "-C"]),
    (One, &["--add-dir"]), (One, &["--ask-for-approval", "-a"]),
    (Many, &["--image", "-i"]),
    (Nothing, &["--strict-config"]), (Nothing, &["--oss"]), (Nothing, &["--approve-for-me"]),
    (Nothing, &["--dangerously-bypass-approvals-and-sandbox", "--yolo"]),
    (Nothing, &["--dangerously-bypass-hook-trust"]), (Nothing, &["--full-auto"]),
    (Nothing, &["--worktree"]), (Nothing, &["--search"]), (Nothing, &["--no-alt-screen"]),
    (Nothing, &["--no-daemon"]), (Nothing, &["--help", "-h"]), (Nothing, &["--version", "-V"]),
];

/// What `agentsup hook` is told that it is called by codex.
pub const NOTIFY: &str = "codex-notify";

const ONE_SHOT: &[&str] = &["exec", "e", "review"];

#[rustfmt::skip]
const SUBCOMMANDS: &[&str] = &[
    "exec", "e", "review", "agents", "login", "logout", "mcp", "mcp-server", "plugin", "app-server",
    "remote-control", "completion", "update", "doctor", "sandbox", "debug", "apply", "a", "resume",
    "queue", "archive", "delete", "migrate-rollouts", "migrate-nfs-db", "unarchive", "fork",
    "cloud", "exec-server", "features", "help",
];

pub(super) fn is_one_shot(args: &[OsString]) -> bool {
    let words = args::read(OPTIONS, args);
    subcommand(args, &words).is_some_and(|name| ONE_SHOT.contains(&name))
}

pub(super) fn command_line(ask: &Ask) -> Result<Line, Refusal> {
    let words = args::read(OPTIONS, ask.args());
    let subcommand = subcommand(ask.args(), &words);
    let ends_at_once = ["--help", "--version"].into_iter().find(|option| words.has(option));
    if let Some(what) = subcommand.or(ends_at_once) {
        ask.refuse_prompt_for(&format!("codex {what}"))?;
        let mut line = match ask.wants_continue_args() {
            true => ask.by_continue_args(&words, true),
            false => ask.line(ask.command.to_vec()),
        };
        if ask.start == Start::Continue && ask.continue_args.is_empty() && ONE_SHOT.contains(&what) {
            line.start = Start::Fresh;
            line.why_fresh = Some("one_shot");
        }
        return Ok(line);
    }
    ask.refuse_two_prompts(&words)?;
    match ask.start {
        Start::Fresh => Ok(Line {
            argv: ask.with_prompt(&words, ask.command.to_vec()),
            start: Start::Fresh,
            why_fresh: None,
            // The id of the new conversation is codex's own; the old one is over.
            conversation: Conversation::default(),
        }),
        Start::Continue if ask.wants_continue_args() => Ok(ask.by_continue_args(&words, false)),
        Start::Continue => Ok(ask.line(resume(ask, &words))),
    }
}

/// It calls a program when a turn has ended, and tells it which conversation that was in. There can be one
/// only, so a user's own is left alone. Its hooks would tell more, but it runs none that nobody has trusted
/// in a file of the user's.
pub(super) fn with_notify(command: &[OsString], wish: &HookWish, env: &Environment) -> Vec<OsString> {
    let mut command = command.to_vec();
    let words = args::read(OPTIONS, &command[1..]);
    let ends_at_once = ["--help", "--version", "--remote"].iter().any(|option| words.has(option));
    if ends_at_once || subcommand(&command[1..], &words).is_some() || has_own_notify(&words, env) {
        return command;
    }
    let ours = serde_json::json!([wish.agentsup.to_string_lossy(), "hook", NOTIFY]);
    // What JSON writes of words and lists, TOML reads.
    command.splice(1..1, ["-c".into(), format!("notify={ours}").into()]);
    command
}

fn has_own_notify(words: &Words, env: &Environment) -> bool {
    let says = |text: &str| {
        let key = text.trim_start().strip_prefix("notify").map(str::trim_start);
        key.is_some_and(|rest| rest.starts_with('='))
    };
    let values =
        words.options.iter().filter(|found| found.name == "--config").filter_map(|f| f.value.as_ref());
    let mut values = values.map(|value| value.to_string_lossy());
    let home = threads::codex_home(|name| env.get(name).map(OsString::from));
    let file = home.and_then(|home| settings::read(&home.join("config.toml")).ok()).unwrap_or_default();
    values.any(|value| says(&value)) || String::from_utf8_lossy(&file).lines().any(says)
}

/// Unlike a prompt it may follow one: `codex hello resume` resumes. Behind `--` it is a prompt.
fn subcommand<'a>(args: &'a [OsString], words: &Words) -> Option<&'a str> {
    let end = words.separator.unwrap_or(args.len());
    let before = words.positionals.iter().filter(|at| **at < end);
    before.filter_map(|at| args[*at].to_str()).find(|word| SUBCOMMANDS.contains(word))
}

/// Images belong to the prompt and go with it; being a list, they would swallow `resume` too.
fn images(words: &Words) -> Vec<usize> {
    let images = words.options.iter().filter(|found| found.name == "--image" && !found.bundled);
    images.flat_map(|found| found.at.clone()).collect()
}

fn resume(ask: &Ask, words: &Words) -> Vec<OsString> {
    let mut argv = ask.without_prompt(words, &[], &images(words));
    let which = ask.conversation.id.as_deref().unwrap_or("--last");
    argv.extend(["resume".into(), which.into()]);
    argv
}

/// Which arguments are about one conversation only. With `--remote` it is held elsewhere.
pub(super) fn not_of_base(args: &[OsString]) -> Option<Vec<usize>> {
    let words = args::read(OPTIONS, args);
    let nobody_talks = subcommand(args, &words).is_some()
        || ["--help", "--version", "--remote"].iter().any(|option| words.has(option));
    (!nobody_talks).then(|| images(&words).into_iter().chain(words.prompt_words()).collect())
}

/// `exec` takes over the options that stand before it. It refuses a directory that is no git
/// repository, where its TUI asks instead. A fork takes an id only, and codex tells nobody its own.
pub(super) fn call(ask: &CallAsk) -> Option<Vec<OsString>> {
    // It refuses to resume with it; without it, it would work in another directory.
    let has_worktree = args::read(OPTIONS, &ask.base[1..]).has("--worktree");
    if ask.how == How::Fork || has_worktree {
        return None;
    }
    let which = ask.conversation.id.as_deref().unwrap_or("--last");
    let ours = ["exec", "--skip-git-repo-check", "resume", which, "-"];
    Some(ask.base.iter().cloned().chain(ours.map(OsString::from)).collect())
}
