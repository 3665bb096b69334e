//! The verbs that are one question and one answer.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use super::look::{bytes, rows, span};
use super::state::tree_text;
use super::stream::number;
use super::{Caller, SOON, Trouble, args, typed};
use crate::cli::explain::text::visible;
use crate::cli::names::Named;
use crate::cli::{Failure, asked};
use crate::control::client::Patience;
use crate::control::frame::REQUEST_MAX;
use crate::control::protocol::{self, Call, Injected, Interrupted, Key, Mode, Pong, Receipt, Sent, Stopped};
use crate::control::{CallError, Client};
use crate::sorted::Sorted;

/// A restart takes a whole grace, and `before_spawn` may take a minute.
const RESTARTED: Duration = Duration::from_secs(120);

/// An agent may take 20 s to come up, 5 s to read and 8 s to confirm.
const SENT: Duration = Duration::from_secs(40);

pub fn ping(_: args::Ping, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Ping, |pong: &Pong| {
        let (session, version) = (visible(&pong.session), visible(&pong.version));
        format!("agentsup {version}, protocol {}, session {session}\n", pong.protocol)
    })
}

pub fn pid(_: args::Pid, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Pid, just_pid)
}

fn just_pid(agent: &protocol::Pid) -> String {
    format!("{}\n", agent.pid)
}

pub fn restart(verb: args::Restart, caller: &Caller) -> Result<u8, Trouble> {
    let mode = verb.mode.map(|word| asked::read("--mode", word, Mode::parse)).transpose()?;
    let mode = match (mode, verb.fresh) {
        (Some(Mode::Continue), true) => {
            return Err(Failure::usage("--fresh contradicts --mode continue").into());
        }
        (_, true) => Mode::Fresh,
        (mode, false) => mode.unwrap_or_default(),
    };
    ask_slowly(caller, Call::Restart { mode })
}

pub fn resume(_: args::Resume, caller: &Caller) -> Result<u8, Trouble> {
    ask_slowly(caller, Call::Resume)
}

fn ask_slowly(caller: &Caller, call: Call) -> Result<u8, Trouble> {
    let whole = caller.timeout.unwrap_or(RESTARTED);
    let mut client = awake(caller, whole.min(SOON))?;
    let body = client.call_within(call, Patience::For(whole))?;
    caller.say(body, just_pid)
}

/// A connection to a supervisor that has just answered. Where the answer itself may take long, one
/// that hangs is found out first, and never told what it would do much later.
pub fn awake(caller: &Caller, patience: Duration) -> Result<Client, Trouble> {
    let mut client = caller.connect_to_ask(patience)?;
    match client.call::<Pong>(Call::Ping) {
        Ok(_) => Ok(client),
        Err(CallError::TimedOutAfterSend { after }) => {
            let message = format!("no supervisor answers: it is there, but silent for {after:?}");
            Err(Failure { code: 69, message }.into())
        }
        Err(error) => Err(error.into()),
    }
}

pub fn interrupt(_: args::Interrupt, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Interrupt, |interrupted: &Interrupted| {
        match interrupted.key {
            Key::Pressed => "interrupted\n",
            Key::Idle => "nothing to cancel: the agent is idle\n",
            Key::Already => "interrupted already, a moment ago\n",
        }
        .to_owned()
    })
}

pub fn pause(_: args::Pause, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Pause, |_: &protocol::Ack| "paused; `agentsup resume` goes on\n".to_owned())
}

pub fn stop(verb: args::Stop, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Stop { graceful: !verb.now }, |stopped: &Stopped| match stopped.already {
        true => "was stopping already\n".to_owned(),
        false => "stopping\n".to_owned(),
    })
}

/// TEXT, or all of stdin for `-`.
pub fn read_text(caller: &Caller) -> Result<Vec<u8>, Failure> {
    let mut bytes = caller.texts[0].as_bytes().to_vec();
    if bytes == b"-" {
        bytes.clear();
        // More than that cannot be sent, so more need not be read to know it.
        let read = std::io::stdin().take(REQUEST_MAX as u64).read_to_end(&mut bytes);
        read.map_err(|error| Failure { code: 1, message: format!("stdin cannot be read: {error}") })?;
    }
    Ok(bytes)
}

fn text(caller: &Caller) -> Result<Vec<u8>, Failure> {
    let bytes = read_text(caller)?;
    match bytes.is_empty() {
        true => Err(Failure::usage("TEXT is empty: there is nothing to type")),
        false => Ok(bytes),
    }
}

pub fn send(verb: args::Send, caller: &Caller) -> Result<u8, Trouble> {
    let text = String::from_utf8(text(caller)?)
        .map_err(|_| Failure::usage("TEXT is not UTF-8; `agentsup inject` types any bytes"))?;
    let call = Call::Send { text, submit: !verb.no_submit, force: verb.force };
    let whole = caller.timeout.unwrap_or(SENT);
    let body = awake(caller, whole.min(SOON))?.call_within(call, Patience::For(whole))?;
    caller.say(body, |sent: &Sent| match sent.receipt {
        Receipt::Confirmed => "confirmed\n".to_owned(),
        Receipt::Submitted => "submitted\n".to_owned(),
        Receipt::Written => "written\n".to_owned(),
    })
}

pub fn inject(_: args::Inject, caller: &Caller) -> Result<u8, Trouble> {
    let bytes = text(caller)?;
    caller.ask(Call::Inject { bytes }, |injected: &Injected| format!("{} bytes\n", injected.n))
}

pub fn screen(verb: args::Screen, caller: &Caller) -> Result<u8, Trouble> {
    let lines = verb.lines.map(|word| number("--lines", word)).transpose()?;
    let ansi = verb.ansi;
    caller.ask(Call::Screen { lines, ansi }, move |screen: &protocol::Screen| {
        // With colours it is for a terminal to obey, without them for nobody.
        let text: String = match ansi {
            true => screen.text.clone(),
            false => screen.text.chars().filter(|c| *c == '\n' || !c.is_control()).collect(),
        };
        if text.is_empty() { text } else { text + "\n" }
    })
}

pub fn stats(_: args::Stats, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Stats, stats_text)
}

fn stats_text(stats: &protocol::Stats) -> String {
    let exits: Vec<String> = stats.exits.iter().map(|(class, n)| format!("{n} {class}")).collect();
    let exits = if exits.is_empty() { "none".to_owned() } else { exits.join(", ") };
    let tools: Vec<String> = stats.tools.iter().map(|(tool, n)| format!("{n} {tool}")).collect();
    let mut text = rows(&[
        ("uptime", Some(span(Duration::from_millis(stats.uptime_ms)))),
        ("restarts", Some(stats.restarts.to_string())),
        ("exits", Some(exits)),
        ("orphans reaped", Some(stats.orphans_reaped.to_string())),
        ("run time", Some(span(Duration::from_millis(stats.run_ms)))),
        ("turns", Some(turns_text(stats))),
        ("permissions", counts_text(&stats.permissions)),
        ("questions", counts_text(&stats.questions)),
        ("triggers", counts_text(&stats.triggers)),
        ("tree", stats.tree.as_ref().map(tree_text)),
        ("tokens", (stats.tokens.total > 0).then(|| tokens_text(&stats.tokens))),
        ("tools", (!tools.is_empty()).then(|| tools.join(", "))),
        ("output", Some(bytes(stats.output_bytes))),
        ("input", Some(bytes(stats.input_bytes))),
        (
            "callers",
            Some(format!(
                "{} now, {} at most, {} dropped",
                stats.callers, stats.callers_most, stats.callers_dropped
            )),
        ),
        ("events", Some(stats.events.to_string())),
        ("log lines lost", Some(stats.log_lost.to_string())),
        ("own memory", Some(bytes(stats.resident_bytes))),
    ]);
    if !stats.calls.is_empty() {
        text += &format!("\n{:<16}{:>8}{:>9}\n", "method", "ok", "refused");
        for (method, calls) in stats.calls.iter() {
            text += &format!("{:<16}{:>8}{:>9}\n", visible(method), calls.ok, calls.error);
        }
    }
    text
}

fn turns_text(stats: &protocol::Stats) -> String {
    format!("{} ended, {} with an error; {} prompts", stats.turns, stats.failed_turns, stats.prompts)
}

/// Those that are not zero; nothing when all are.
fn counts_text(counts: &Sorted<String, u64>) -> Option<String> {
    let counts = counts.iter().filter(|(_, n)| **n > 0);
    let words: Vec<String> = counts.map(|(name, n)| format!("{n} {}", visible(name))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn tokens_text(tokens: &protocol::Tokens) -> String {
    let protocol::Tokens { input, output, cache_read, cache_created, total } = tokens;
    format!(
        "{total}: {input} in, {output} out, {cache_read} read from the cache, {cache_created} put into it"
    )
}

pub fn metrics(verb: args::Metrics, caller: &Caller) -> Result<u8, Trouble> {
    let textfile = verb.textfile.map(|word| asked::path("--textfile", word)).transpose()?;
    let Some(file) = textfile else {
        return caller.ask(Call::Metrics, |metrics: &protocol::Metrics| metrics.text.clone());
    };
    let body = caller.connect_to_ask(caller.patience())?.call(Call::Metrics)?;
    let metrics: protocol::Metrics = typed(&body)?;
    replace(&file, metrics.text.as_bytes()).map_err(|error| Failure {
        code: 1,
        message: format!("--textfile {}: cannot be written: {error}", file.display()),
    })?;
    Ok(0)
}

/// As a whole: a collector that reads at any moment sees the old text or the new. Its name does not
/// end in `.prom` before that.
fn replace(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let name = file.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = file.with_file_name(beside);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside)
        .and_then(|mut out| out.write_all(text))
        .and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
