//! `agentsup trigger` and the verbs around it.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::Value;

use super::look::{Look, age, cut_end};
use super::verbs::{awake, read_text};
use super::{Caller, SOON, Trouble, args, typed};
use crate::cli::explain::text::visible;
use crate::cli::words::Word;
use crate::cli::{Failure, asked};
use crate::control::CallError;
use crate::control::client::Patience;
use crate::control::protocol::{self, Call, Code, TriggerList, TriggerState};
use crate::os::random;

/// Held back for a minute, typed, retried, and others before it; most calls that carry one, too.
const DELIVERED: Duration = Duration::from_secs(600);
/// The exit code for what may be delivered later.
const HELD_BACK: u8 = 75;

pub fn trigger(verb: args::Trigger, caller: &Caller) -> Result<u8, Trouble> {
    let Some(thread) = verb.thread else {
        return Err(
            Failure::usage("--thread is missing; expected --thread T, what the message is about").into()
        );
    };
    match (verb.force, verb.why.is_some()) {
        (true, false) => return Err(bad_input("--force needs --why WHY, a reason for the log")),
        (false, true) => {
            return Err(Failure::usage("--why is the reason for --force, which is missing").into());
        }
        (true, true) | (false, false) => {}
    }
    let thread = asked::text("--thread", thread)?;
    let text = String::from_utf8(read_text(caller)?).map_err(|_| bad_input("TEXT is not UTF-8"))?;
    // Known here, so that whoever gets no answer can ask what became of it.
    let id = match optional("--id", verb.id)? {
        Some(id) => id,
        None => random::uuid_v4().map_err(|error| Failure { code: 1, message: format!("no id: {error}") })?,
    };
    let (reason, why) = (optional("--reason", verb.reason)?, optional("--why", verb.why)?);
    let call = |wait| Call::Trigger {
        thread: thread.clone(),
        text: text.clone(),
        reason: reason.clone(),
        trigger_id: Some(id.clone()),
        force: verb.force,
        why: why.clone(),
        wait,
    };
    let whole = caller.timeout.unwrap_or(DELIVERED);
    let mut client = awake(caller, whole.min(SOON)).map_err(|trouble| judged(trouble, &id))?;
    let mut ask = |wait| {
        let answer: Result<Value, CallError> = client.call_within(call(wait), Patience::For(whole));
        answer.map_err(|error| judged(error.into(), &id))
    };
    if !verb.no_wait && !caller.json && std::io::stderr().is_terminal() {
        // Somebody watches: why nothing happens is said before it is waited for.
        let now: protocol::Trigger = typed(&ask(false)?)?;
        if let (TriggerState::Deferred, Some(code)) = (now.state, now.code) {
            let id = visible(&id);
            eprintln!(
                "agentsup: deferred while an operator is at work ({code}); Ctrl-C ends the waiting, \
                 `agentsup triggers --cancel {id}` the trigger"
            );
        }
    }
    let body = ask(!verb.no_wait)?;
    let is_held_back = typed::<protocol::Trigger>(&body)?.state == TriggerState::Deferred;
    caller.say(body, line)?;
    Ok(if is_held_back { HELD_BACK } else { 0 })
}

fn optional(name: &'static str, word: Option<Word>) -> Result<Option<String>, Failure> {
    word.map(|word| asked::text(name, word)).transpose()
}

/// As the supervisor would say it.
fn bad_input(message: &str) -> Trouble {
    let word = Code::BadParams.as_str();
    Trouble::Judged { code: 65, word, message: format!("{message} ({word})") }
}

/// With the exit codes that a trigger has, and the code behind the words.
fn judged(trouble: Trouble, id: &str) -> Trouble {
    let Failure { code, message } = trouble.failure();
    match &trouble {
        Trouble::There(CallError::Refused(refusal)) => {
            Trouble::Judged { code: exit_code(refusal.code), word: refusal.code.as_str(), message }
        }
        Trouble::There(CallError::TimedOutAfterSend { .. } | CallError::Broken(_)) => {
            let word = trouble.word();
            let message = format!("{message}; the same again with --id {} tells ({word})", visible(id));
            Trouble::Judged { code, word, message }
        }
        _ if code == 69 => {
            let word = "TARGET_NOT_FOUND";
            Trouble::Judged { code, word, message: format!("{message} ({word})") }
        }
        Trouble::There(CallError::CouldNotConnect { .. }) | Trouble::Here(_) | Trouble::Judged { .. } => {
            trouble
        }
    }
}

fn exit_code(code: Code) -> u8 {
    match code {
        Code::BadParams | Code::TooLarge | Code::DuplicateId | Code::LineTooLong => 65,
        Code::DeferTimeout | Code::TriggerRateLimited | Code::TooMany | Code::Stopping => HELD_BACK,
        Code::Forbidden => 77,
        _ => 70,
    }
}

/// What is said of one that has not failed.
fn line(trigger: &protocol::Trigger) -> String {
    let id = visible(&trigger.trigger_id);
    let more = match (&trigger.by, trigger.code) {
        (Some(_), _) if trigger.forked => {
            ", forked: a human was typing, so a fork of the conversation has it".into()
        }
        (Some(by), _) => format!(", by {}", visible(by)),
        (None, Some(code)) => format!(", {code}"),
        (None, None) => String::new(),
    };
    format!("{} {id}{more}\n", trigger.state.name())
}

pub fn triggers(verb: args::Triggers, caller: &Caller) -> Result<u8, Trouble> {
    match optional("--cancel", verb.cancel)? {
        Some(trigger_id) => caller.ask(Call::TriggerCancel { trigger_id }, line),
        None => {
            let width = Look::of_stdout().width;
            caller.ask(Call::TriggerList, |list: &TriggerList| table(list, width))
        }
    }
}

const HEADS: [&str; 5] = ["ID", "THREAD", "STATE", "BY OR CODE", "AGE"];
const THREAD: usize = 1;
/// What it keeps at least where the terminal is narrow.
const LEAST: usize = 8;

fn table(list: &TriggerList, width: Option<usize>) -> String {
    if list.triggers.is_empty() && list.blocked.is_empty() {
        return "no triggers\n".to_owned();
    }
    let mut cells = vec![HEADS.map(str::to_owned)];
    cells.extend(list.triggers.iter().map(cells_of));
    let wide = |cells: &[[String; 5]], n: usize| {
        cells.iter().map(|line| line[n].chars().count()).max().unwrap_or_default()
    };
    // Only threads: an id is what `ack` and `--cancel` want whole.
    let all: usize = (0..HEADS.len()).map(|n| wide(&cells, n) + 1).sum::<usize>() - 1;
    let now = wide(&cells, THREAD);
    let then = now.saturating_sub(all.saturating_sub(width.unwrap_or(all))).max(LEAST.min(now));
    for line in &mut cells {
        line[THREAD] = cut_end(&line[THREAD], then);
    }
    let widths: [usize; 5] = std::array::from_fn(|n| wide(&cells, n));
    let mut text = String::new();
    for line in cells {
        let padded: String =
            line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$} ")).collect();
        text += padded.trim_end();
        text.push('\n');
    }
    for thread in &list.blocked {
        let thread = visible(thread);
        text += &format!("thread {thread} is blocked; `agentsup unblock {thread}` frees it\n");
    }
    text
}

fn cells_of(trigger: &protocol::Trigger) -> [String; 5] {
    let end = match (&trigger.by, trigger.code) {
        (Some(by), _) => visible(by),
        (None, code) => code.map_or("-", Code::as_str).to_owned(),
    };
    let state = trigger.state.name().to_owned();
    [visible(&trigger.trigger_id), visible(&trigger.thread), state, end, age(trigger.accepted_at)]
}

pub fn ack(_: args::Ack, caller: &Caller) -> Result<u8, Trouble> {
    let trigger_id = Some(only_word("ID", caller)?);
    let body = caller.connect_to_ask(caller.patience())?.call(Call::Ack { trigger_id, thread: None })?;
    let trigger: protocol::Trigger = typed(&body)?;
    let text = match trigger.state {
        TriggerState::Delivered => line(&trigger),
        _ => format!("too late, it had ended: {}", line(&trigger)),
    };
    caller.say(serde_json::to_value(&trigger).unwrap_or_default(), |_: &protocol::Trigger| text.clone())
}

pub fn progress(verb: args::Progress, caller: &Caller) -> Result<u8, Trouble> {
    let (thread, trigger_id) = (optional("--thread", verb.thread)?, optional("--id", verb.id)?);
    if thread.is_some() == trigger_id.is_some() {
        return Err(Failure::usage("expected --thread T or --id ID, one of them").into());
    }
    let finding = optional("--finding", verb.finding)?;
    caller.ask(Call::Progress { trigger_id, thread, finding }, |_: &protocol::Ack| "noted\n".to_owned())
}

pub fn heartbeat(_: args::Heartbeat, caller: &Caller) -> Result<u8, Trouble> {
    caller.ask(Call::Heartbeat, |_: &protocol::Ack| "noted\n".to_owned())
}

pub fn unblock(_: args::Unblock, caller: &Caller) -> Result<u8, Trouble> {
    let thread = only_word("THREAD", caller)?;
    caller.ask(Call::ThreadUnblock { thread }, |_: &protocol::Ack| "unblocked\n".to_owned())
}

fn only_word(name: &'static str, caller: &Caller) -> Result<String, Failure> {
    asked::text(name, Word(caller.texts[0].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_exit_code() {
        for (code, exit) in [
            (Code::BadParams, 65),
            (Code::TooLarge, 65),
            (Code::DuplicateId, 65),
            (Code::LineTooLong, 65),
            (Code::DeferTimeout, 75),
            (Code::TriggerRateLimited, 75),
            (Code::TooMany, 75),
            (Code::Forbidden, 77),
            (Code::AckTimeout, 70),
            (Code::NotRunning, 70),
            (Code::ThreadAutoBlocked, 70),
            (Code::WriteFailed, 70),
            (Code::Cancelled, 70),
            (Code::Stopping, 75),
        ] {
            assert_eq!(exit_code(code), exit, "{code}");
        }
    }

    #[test]
    fn what_is_said_cannot_move_the_cursor() {
        let trigger = protocol::Trigger {
            trigger_id: "a\x1b[2J".into(),
            state: TriggerState::Delivered,
            by: Some("hook".into()),
            ..protocol::Trigger::default()
        };
        assert_eq!(line(&trigger), "delivered a\\u{1b}[2J, by hook\n");
        let list = TriggerList { triggers: vec![trigger], blocked: vec!["ci\x07".into()] };
        let table = table(&list, None);
        assert!(!table.contains(['\x1b', '\x07']) && table.contains("`agentsup unblock ci"), "{table}");
    }

    #[test]
    fn the_table_fits_the_terminal_and_cuts_no_ids() {
        let trigger = |id: &str, thread: &str, code| protocol::Trigger {
            trigger_id: id.into(),
            thread: thread.into(),
            state: TriggerState::Failed,
            code: Some(code),
            ..protocol::Trigger::default()
        };
        const UUID: &str = "018f5c3e-8c1b-4b53-9d7e-3f1f2a1b2c3d";
        let triggers = vec![
            trigger(UUID, "a-thread-with-a-long-name", Code::ThreadAutoBlocked),
            trigger("b", "t", Code::AckTimeout),
        ];
        let list = TriggerList { triggers, blocked: vec![] };
        let whole = table(&list, None);
        assert!(whole.contains(UUID) && whole.contains("a-thread-with-a-long-name"), "{whole}");
        let table_of = |width| table(&list, Some(width));
        assert!(table_of(80).lines().all(|line| line.chars().count() <= 80), "{}", table_of(80));
        for width in [80, 20] {
            assert!(table_of(width).contains(&format!("{UUID} a-thre")), "{}", table_of(width));
        }
        assert_eq!(table(&TriggerList::default(), None), "no triggers\n");
    }
}
