//! claude: its conversation has a UUID that a fresh start may choose and a later one resumes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::args::Takes::{Many, Maybe, Nothing, One};
use super::args::{self, Found, Table, Words};
use super::{Ask, CallAsk, Line};
use crate::session::transcript::Place;
use crate::session::{Conversation, Environment, How, Refusal, Start};

/// Version 2.1.197, hidden options included.
#[rustfmt::skip]
const OPTIONS: Table = &[
    (Nothing, &["--continue", "-c"]), (Nothing, &["--print", "-p"]), (Nothing, &["--help", "-h"]),
    (Nothing, &["--version", "-v"]), (Nothing, &["--debug-to-stderr", "-d2e"]),
    (Nothing, &["--background", "--bg"]), (Nothing, &["--allow-dangerously-skip-permissions"]),
    (Nothing, &["--ax-screen-reader"]), (Nothing, &["--bare"]), (Nothing, &["--brief"]),
    (Nothing, &["--chrome"]), (Nothing, &["--no-chrome"]), (Nothing, &["--init"]),
    (Nothing, &["--dangerously-skip-permissions"]), (Nothing, &["--deep-link-origin"]),
    (Nothing, &["--disable-slash-commands"]), (Nothing, &["--enable-auth-status"]),
    (Nothing, &["--enable-auto-mode"]), (Nothing, &["--exclude-dynamic-system-prompt-sections"]),
    (Nothing, &["--fork-session"]), (Nothing, &["--ide"]), (Nothing, &["--include-hook-events"]),
    (Nothing, &["--include-partial-messages"]), (Nothing, &["--init-only"]),
    (Nothing, &["--maintenance"]), (Nothing, &["--no-session-persistence"]),
    (Nothing, &["--replay-user-messages"]), (Nothing, &["--reply-on-resume"]),
    (Nothing, &["--safe-mode"]), (Nothing, &["--session-mirror"]),
    (Nothing, &["--strict-mcp-config"]), (Nothing, &["--tmux"]), (Nothing, &["--verbose"]),
    (Maybe, &["--resume", "-r"]), (Maybe, &["--from-pr"]), (Maybe, &["--teleport"]),
    (Maybe, &["--debug", "-d"]), (Maybe, &["--prompt-suggestions"]), (Maybe, &["--remote"]),
    (Maybe, &["--remote-control", "--rc"]), (Maybe, &["--worktree", "-w"]),
    (Many, &["--add-dir"]), (Many, &["--allowedTools", "--allowed-tools"]), (Many, &["--betas"]),
    (Many, &["--channels"]), (Many, &["--disallowedTools", "--disallowed-tools"]),
    (Many, &["--file"]), (Many, &["--mcp-config"]), (Many, &["--tools"]),
    (One, &["--advisor"]), (One, &["--agent"]), (One, &["--agents"]),
    (One, &["--append-system-prompt"]), (One, &["--append-system-prompt-file"]),
    (One, &["--debug-file"]), (One, &["--deep-link-cwd-b64"]), (One, &["--deep-link-last-fetch"]),
    (One, &["--deep-link-repo"]), (One, &["--effort"]), (One, &["--fallback-model"]),
    (One, &["--input-format"]), (One, &["--json-schema"]), (One, &["--managed-settings"]),
    (One, &["--max-budget-usd"]), (One, &["--max-thinking-tokens"]), (One, &["--max-turns"]),
    (One, &["--model"]), (One, &["--name", "-n"]), (One, &["--output-format"]),
    (One, &["--permission-mode"]), (One, &["--permission-prompt-tool"]),
    (One, &["--plan-mode-instructions"]), (One, &["--plugin-dir"]),
    (One, &["--plugin-dir-no-mcp"]), (One, &["--plugin-url"]), (One, &["--prefill"]),
    (One, &["--prefill-b64"]), (One, &["--remote-control-session-name-prefix"]),
    (One, &["--resume-session-at"]), (One, &["--rewind-files"]), (One, &["--session-id"]),
    (One, &["--setting-sources"]), (One, &["--settings"]), (One, &["--system-prompt"]),
    (One, &["--system-prompt-file"]), (One, &["--task-budget"]), (One, &["--thinking"]),
    (One, &["--thinking-display"]), (One, &["--workload"]),
];

#[rustfmt::skip]
const SUBCOMMANDS: &[&str] = &[
    "agents", "auth", "auto-mode", "doctor", "gateway", "install", "mcp", "plugin", "plugins",
    "project", "remote-control", "setup-token", "ultrareview", "update", "upgrade",
];

/// The mode in which nobody is asked for permission.
pub(super) const BYPASS: &str = "bypassPermissions";

/// What says which conversation it is.
const PICKS: &[&str] = &[
    "--continue",
    "--resume",
    "--session-id",
    "--from-pr",
    "--teleport",
    "--fork-session",
    "--no-session-persistence",
];

/// What belongs to a prompt or to the conversation that was picked. `--output-format stream-json`,
/// which a TUI ignores, makes a one-shot call fail.
const GO_WITH_THEM: &[&str] = &[
    "--resume-session-at",
    "--rewind-files",
    "--reply-on-resume",
    "--prefill",
    "--prefill-b64",
    "--output-format",
];

/// With one of these nobody talks to it here: it answers once, or another process holds the
/// conversation (a daemon, a server far away, tmux) and would go on to when ours has ended.
const NOT_HERE: &[&str] = &["--print", "--no-session-persistence", "--background", "--remote", "--tmux"];

pub(super) fn is_one_shot(args: &[OsString]) -> bool {
    args::read(OPTIONS, args).has("--print")
}

/// An empty transcript does not count: claude refuses to resume it.
pub(super) fn has_transcript(id: &str, env: &Environment, cwd: &Path) -> bool {
    let is_one = |path| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    Place::of_claude(env, cwd).is_some_and(|place| place.candidates(id).any(is_one))
}

pub(super) fn command_line(ask: &Ask) -> Result<Line, Refusal> {
    let words = args::read(OPTIONS, ask.args());
    if let Some(what) = only_call(ask.args(), &words) {
        ask.refuse_prompt_for(&what)?;
        return Ok(match ask.wants_continue_args() {
            true => ask.by_continue_args(&words, true),
            false => ask.line(ask.command.to_vec()),
        });
    }
    ask.refuse_two_prompts(&words)?;
    refuse_subcommand_as_prompt(ask, &words)?;
    match ask.start {
        Start::Fresh => Ok(fresh(ask, &words, None)),
        Start::Continue if ask.wants_continue_args() => Ok(ask.by_continue_args(&words, false)),
        Start::Continue => Ok(go_on(ask, &words)),
    }
}

/// Whether it is a call that a human could talk to. `args` is the command line without its first word.
pub(super) fn takes_prompts(args: &[OsString]) -> bool {
    let words = args::read(OPTIONS, args);
    !words.has("--print") && only_call(args, &words).is_none()
}

/// Where the settings that claude will take stand among its arguments, and what they are: the last
/// ones, if there are several.
pub(super) fn settings(args: &[OsString]) -> Option<(Range<usize>, OsString)> {
    let words = args::read(OPTIONS, args);
    let found = words.options.into_iter().rfind(|found| found.name == "--settings")?;
    Some((found.at, found.value?))
}

/// Which files of settings are read, if that was said.
pub(super) fn setting_sources(args: &[OsString]) -> Option<String> {
    let words = args::read(OPTIONS, args);
    let found = words.options.into_iter().rfind(|found| found.name == "--setting-sources")?;
    Some(found.value?.to_string_lossy().into_owned())
}

/// The option with which hooks are not run.
pub(super) fn without_hooks(args: &[OsString]) -> Option<&'static str> {
    let words = args::read(OPTIONS, args);
    ["--bare", "--safe-mode"].into_iter().find(|option| words.has(option))
}

/// What asks for a mode without permissions, now or later: claude treats both alike. A call that only
/// prints something is not asked for it.
pub(super) fn asks_for_bypass(args: &[OsString]) -> Option<&'static str> {
    let words = args::read(OPTIONS, args);
    if only_call(args, &words).is_some() {
        return None;
    }
    let flags = ["--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"];
    let mode = || permission_mode(&words).filter(|mode| *mode == BYPASS);
    let by_flag = flags.into_iter().find(|flag| words.has(flag));
    by_flag.or_else(|| mode().map(|_| "--permission-mode bypassPermissions"))
}

/// Whether the command line names the mode, so that no settings do.
pub(super) fn has_permission_mode(args: &[OsString]) -> bool {
    permission_mode(&args::read(OPTIONS, args)).is_some()
}

/// The last one counts.
fn permission_mode(words: &Words) -> Option<&OsStr> {
    words.options.iter().rfind(|found| found.name == "--permission-mode")?.value.as_deref()
}

/// `claude mcp …`, `claude --version`: nothing to begin or to continue. With `-p` claude knows no
/// subcommands and takes such a word as the prompt.
fn only_call(args: &[OsString], words: &Words) -> Option<String> {
    let ends_at_once = ["--help", "--version", "--init-only"].into_iter().find(|o| words.has(o));
    if let Some(option) = ends_at_once {
        return Some(format!("claude {option}"));
    }
    let first = args[*words.positionals.first()?].to_str()?;
    let is_subcommand = SUBCOMMANDS.contains(&first) && !words.has("--print");
    is_subcommand.then(|| format!("claude {first}"))
}

/// Even behind `--` claude would run `doctor` instead of answering it.
fn refuse_subcommand_as_prompt(ask: &Ask, words: &Words) -> Result<(), Refusal> {
    match ask.prompt {
        Some(prompt) if SUBCOMMANDS.contains(&prompt) && !words.has("--print") => Err(Refusal(format!(
            "--prompt: claude would run its subcommand `{prompt}` instead: use more words"
        ))),
        _ => Ok(()),
    }
}

fn fresh(ask: &Ask, words: &Words, why_fresh: Option<&'static str>) -> Line {
    let (argv, id) = match picked_by_user(words) {
        Some(id) => (ask.command.to_vec(), id),
        None => {
            let mut argv = ask.command.to_vec();
            argv.splice(1..1, ["--session-id".into(), ask.new_id.into()]);
            (argv, Some(ask.new_id.to_owned()))
        }
    };
    Line {
        argv: ask.with_prompt(words, argv),
        start: Start::Fresh,
        why_fresh,
        conversation: Conversation { id },
    }
}

/// Whether the user's arguments say which conversation it is, and its id if they name it.
fn picked_by_user(words: &Words) -> Option<Option<String>> {
    let picked = PICKS.iter().any(|name| words.has(name));
    // A fork gets an id that nobody is told, unless it is chosen too.
    let named = words
        .option("--session-id")
        .or_else(|| words.option("--resume").filter(|_| !words.has("--fork-session")));
    let id = named.and_then(|found| found.value.as_ref()?.to_str());
    picked.then(|| id.filter(|id| is_uuid(id)).map(str::to_owned))
}

fn go_on(ask: &Ask, words: &Words) -> Line {
    // A one-shot call is its prompt: without it claude only complains about the missing input, so
    // its second run is the first one again. Fed by a stream it lives on and can be resumed.
    let is_streamed = words
        .option("--input-format")
        .is_some_and(|format| format.value.as_deref() == Some("stream-json".as_ref()));
    if words.has("--print") && !is_streamed {
        return fresh(ask, words, Some("one_shot"));
    }
    if words.has("--no-session-persistence") {
        return fresh(ask, words, Some("not_persisted"));
    }
    let line = |inserted: &[&str], leave_out: &[usize], id: Option<String>| Line {
        argv: ask.without_prompt(words, inserted, leave_out),
        start: Start::Continue,
        why_fresh: None,
        conversation: Conversation { id },
    };
    let Some(picked) = picked_by_user(words) else {
        return match &ask.conversation.id {
            Some(id) if (ask.has_transcript)(id) => line(&["--resume", id], &[], Some(id.clone())),
            _ => fresh(ask, words, Some("no_transcript")),
        };
    };
    let is_fork = words.has("--fork-session");
    if let (Some(own), Some(id)) = (words.option("--session-id"), &picked) {
        // claude refuses a used `--session-id` as "already in use": the second start of the same
        // conversation has to resume it. What the first one was forked from is behind it.
        if !(ask.has_transcript)(id) {
            return fresh(ask, words, Some("no_transcript"));
        }
        let origin = ["--resume", "--continue", "--fork-session"].map(|name| words.option(name));
        let gone = origin.into_iter().flatten().filter(|found| !found.bundled);
        let gone: Vec<usize> = gone.chain([own]).flat_map(|found| found.at.clone()).collect();
        return line(&["--resume", id], &gone, picked.clone());
    }
    match words.option("--resume") {
        // Resuming the origin again would fork it again and lose all that came after.
        Some(origin) if is_fork && !origin.bundled => {
            let gone: Vec<usize> = origin.at.clone().collect();
            line(&["--continue"], &gone, picked)
        }
        None if is_fork && !words.has("--continue") => line(&["--continue"], &[], picked),
        // What picked the conversation the first time picks it again.
        _ => line(&[], &[], picked),
    }
}

/// Which arguments are about one conversation only.
pub(super) fn not_of_base(args: &[OsString]) -> Option<Vec<usize>> {
    let words = args::read(OPTIONS, args);
    if only_call(args, &words).is_some() || NOT_HERE.iter().any(|name| words.has(name)) {
        return None;
    }
    let is_gone = |found: &&Found| PICKS.contains(&found.name) || GO_WITH_THEM.contains(&found.name);
    let gone: Vec<&Found> = words.options.iter().filter(is_gone).collect();
    // `-cn NAME`: a `--continue` that stays would win over our `--resume`.
    let is_whole = gone.iter().all(|found| !found.bundled);
    is_whole
        .then(|| gone.into_iter().flat_map(|found| found.at.clone()).chain(words.prompt_words()).collect())
}

/// It appends to the transcript of that id, and its hooks are called as a TUI's are. A prompt that it
/// has read stays in the conversation, also when the API fails (1) or it is ended (143).
pub(super) fn call(ask: &CallAsk) -> Option<Vec<OsString>> {
    let id = ask.conversation.id.as_deref().filter(|id| (ask.has_transcript)(id))?;
    let ours: &[&str] = match ask.how {
        How::Resume => &["-p", "--resume", id],
        How::Fork => &["-p", "--resume", id, "--fork-session"],
    };
    let mut argv = ask.base.to_vec();
    argv.splice(1..1, ours.iter().map(OsString::from));
    Some(argv)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}
