//! `agentsup state`, for people.

use std::time::Duration;

use super::look::{Colour, Look, ago, bytes, row, rows, span};
use super::{Caller, Trouble, args};
use crate::cli::explain::text::visible;
use crate::control::protocol::{Call, Exit, Health, Phase, State, Tree};

/// How many of the last exits are shown; JSON has all.
const SHOWN: usize = 5;

pub fn state(verb: args::State, caller: &Caller) -> Result<u8, Trouble> {
    let look = Look::of_stdout();
    let call = Call::State { why: verb.why, deep: verb.deep };
    caller.ask(call, |state: &State| text(state, look))
}

pub fn text(state: &State, look: Look) -> String {
    let agent = match (state.pid, state.agent_started_at) {
        (Some(pid), Some(since)) => format!("pid {pid}, started {}", ago(since)),
        (Some(pid), None) => format!("pid {pid}"),
        (None, _) => "none runs".to_owned(),
    };
    let node = state.node.as_ref().map(|node| {
        format!("{}, {} of {} children ready; `agentsup ls --tree`", node.strategy, node.ready, node.children)
    });
    let tree = state.tree.as_ref().map(tree_text);
    let labels: Vec<String> = state.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut text = rows(&[("session", Some(state.session.clone()))]);
    text += &row("health", &look.paint(health_colour(state.health), health_word(state.health)));
    text += &rows(&[
        ("phase", Some(phase_word(state.phase).to_owned())),
        ("activity", Some(activity(state))),
        ("waits for", waits_for(state)),
        ("about", state.description.clone()),
        ("done", state.done.as_ref().map(|done| with(ago(done.at), done.text.as_deref()))),
        ("agent", Some(agent).filter(|_| node.is_none())),
        ("node", node),
        ("restarts", Some(state.restart_count.to_string())),
        ("last exit", state.last_exit.map(|code| code.to_string())),
        ("next", state.wake.as_ref().map(|wake| format!("{} in {}", wake.why, millis(wake.in_ms)))),
        ("cwd", state.cwd.clone().map(|cwd| with(cwd, state.cwd_source.as_deref()))),
        ("document", state.document.clone()),
        ("conversation", state.conversation.clone()),
        ("labels", (!labels.is_empty()).then(|| labels.join(" "))),
        ("profile", Some(with(state.profile.clone(), Some(&state.io)))),
        ("environment", state.env_fingerprint.clone()),
        ("operator", operator(state)),
        ("last trigger", state.last_trigger_id.clone()),
        ("heartbeat", state.last_heartbeat_at.map(ago)),
        ("orphans reaped", Some(state.orphans_reaped.to_string())),
        ("zombies", state.zombies.map(|zombies| zombies.to_string())),
        ("tree", tree),
        (
            "supervisor",
            Some(format!(
                "pid {}, agentsup {}, up {}",
                state.supervisor_pid,
                state.version,
                millis(state.uptime_ms)
            )),
        ),
    ]);
    if !state.exits.is_empty() {
        text += "\nlast exits\n";
        let first = state.exits.len().saturating_sub(SHOWN);
        text.extend(state.exits[first..].iter().rev().map(exit_line));
    }
    for why in state.why.iter().flatten() {
        text += &format!("\n{}", visible(why));
    }
    if state.why.as_ref().is_some_and(|why| !why.is_empty()) {
        text.push('\n');
    }
    text
}

pub fn tree_text(tree: &Tree) -> String {
    let cpu = Duration::from_millis(tree.cpu_ms).as_secs_f64();
    format!("{} processes, {cpu:.1} s of CPU, {}", tree.processes, bytes(tree.rss_bytes))
}

fn activity(state: &State) -> String {
    let name = state.activity.name();
    match state.activity_since {
        Some(since) => format!("{name}, since {}", ago(since)),
        None => name.to_owned(),
    }
}

fn waits_for(state: &State) -> Option<String> {
    let kinds = [(state.permissions, "permission"), (state.questions, "question")];
    let waiting = kinds.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = waiting.map(|(n, kind)| format!("{n} × `agentsup {kind} ls`")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn exit_line(exit: &Exit) -> String {
    let signal = exit.signal.as_ref().map_or_else(String::new, |signal| format!(" {}", visible(signal)));
    let ran = millis(exit.run_ms);
    format!("  {:<16}{}{signal}, {}, ran {ran}\n", ago(exit.at), exit.code, visible(&exit.class))
}

fn operator(state: &State) -> Option<String> {
    let attached = state.operator.attached;
    let where_at = match (state.operator.terminal, attached) {
        (true, 0) => "at the terminal".to_owned(),
        (true, _) => format!("at the terminal, {attached} attached"),
        (false, 0) => return None,
        (false, _) => format!("{attached} attached"),
    };
    let last_key = state.operator.last_key_at.map(|at| format!(", last key {}", ago(at)));
    let draft = if state.operator.draft { ", a draft stands in the line" } else { "" };
    Some(where_at + &last_key.unwrap_or_default() + draft)
}

fn with(text: String, more: Option<&str>) -> String {
    more.map_or(text.clone(), |more| format!("{text} ({more})"))
}

fn millis(ms: u64) -> String {
    match ms {
        1..1000 => format!("{ms}ms"),
        _ => span(Duration::from_millis(ms)),
    }
}

pub fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Clearing => "clearing",
        Phase::Preparing => "preparing",
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Backoff => "backoff",
        Phase::Asking => "asking",
        Phase::Halted => "halted",
        Phase::Restarting => "restarting",
        Phase::Stopping => "stopping",
        Phase::Ended => "ended",
        Phase::Unknown => "unknown",
    }
}

pub fn health_word(health: Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Degraded => "degraded",
        Health::Halted => "halted",
        Health::Unknown => "unknown",
    }
}

pub fn health_colour(health: Health) -> Option<Colour> {
    match health {
        Health::Healthy => Some(Colour::Green),
        Health::Degraded => Some(Colour::Yellow),
        Health::Halted => Some(Colour::Red),
        Health::Unknown => None,
    }
}
