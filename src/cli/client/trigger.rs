//! `agentsup trigger` and the verbs around it.

use std::time::Duration;

use super::look::{ago, cut_end};
use super::verbs::{awake, read_text};
use super::{Caller, SOON, Trouble, args, typed};
use crate::cli::explain::text::visible;
use crate::cli::words::Word;
use crate::cli::{Failure, asked};
use crate::control::CallError;
use crate::control::client::Patience;
use crate::control::protocol::{self, Call, Code, TriggerList, TriggerState};

/// Held back for a minute, typed, retried, and others before it.
const DELIVERED: Duration = Duration::from_secs(600);

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
    let call = Call::Trigger {
        thread,
        text,
        reason: optional("--reason", verb.reason)?,
        trigger_id: optional("--id", verb.id)?,
        force: verb.force,
        why: optional("--why", verb.why)?,
        wait: !verb.no_wait,
    };
    let whole = caller.timeout.unwrap_or(DELIVERED);
    let body = awake(caller, whole.min(SOON))
        .and_then(|mut client| client.call_within(call, Patience::For(whole)).map_err(Trouble::There));
    caller.say(body.map_err(judged)?, line)
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
fn judged(trouble: Trouble) -> Trouble {
    let Failure { code, message } = trouble.failure();
    let (code, word) = match &trouble {
        Trouble::There(CallError::Refused(refusal)) => {
            return Trouble::Judged { code: exit_code(refusal.code), word: refusal.code.as_str(), message };
        }
        Trouble::There(CallError::TimedOutAfterSend { .. } | CallError::Broken(_)) => (code, trouble.word()),
        _ if code == 69 => (code, "TARGET_NOT_FOUND"),
        Trouble::There(CallError::CouldNotConnect { .. }) | Trouble::Here(_) | Trouble::Judged { .. } => {
            return trouble;
        }
    };
    Trouble::Judged { code, word, message: format!("{message} ({word})") }
}

fn exit_code(code: Code) -> u8 {
    match code {
        Code::BadParams | Code::TooLarge | Code::DuplicateId | Code::LineTooLong => 65,
        Code::DeferTimeout | Code::TriggerRateLimited | Code::TooMany => 75,
        Code::Forbidden => 77,
        _ => 70,
    }
}

/// What is said of one that has not failed.
fn line(trigger: &protocol::Trigger) -> String {
    let id = visible(&trigger.trigger_id);
    let more = match (&trigger.by, trigger.code) {
        (Some(by), _) => format!(", by {}", visible(by)),
        (None, Some(code)) => format!(", {code}"),
        (None, None) => String::new(),
    };
    format!("{} {id}{more}\n", trigger.state.name())
}

pub fn triggers(verb: args::Triggers, caller: &Caller) -> Result<u8, Trouble> {
    match optional("--cancel", verb.cancel)? {
        Some(trigger_id) => caller.ask(Call::TriggerCancel { trigger_id }, line),
        None => caller.ask(Call::TriggerList, table),
    }
}

fn table(list: &TriggerList) -> String {
    if list.triggers.is_empty() && list.blocked.is_empty() {
        return "no triggers\n".to_owned();
    }
    let mut text = format!("{:<38}{:<18}{:<14}{:<24}{}\n", "ID", "THREAD", "STATE", "CODE", "ACCEPTED");
    for trigger in &list.triggers {
        let end = match (&trigger.by, trigger.code) {
            (Some(by), _) => visible(by),
            (None, code) => code.map_or("-", Code::as_str).to_owned(),
        };
        let (id, thread) =
            (cut_end(&visible(&trigger.trigger_id), 36), cut_end(&visible(&trigger.thread), 16));
        let state = trigger.state.name();
        text += &format!("{id:<38}{thread:<18}{state:<14}{end:<24}{}\n", ago(trigger.accepted_at));
    }
    for thread in &list.blocked {
        text += &format!("thread {} is blocked; `agentsup unblock` frees it\n", visible(thread));
    }
    text
}

pub fn ack(_: args::Ack, caller: &Caller) -> Result<u8, Trouble> {
    let trigger_id = Some(only_word("ID", caller)?);
    let body = caller.connect(caller.patience())?.call(Call::Ack { trigger_id, thread: None })?;
    let trigger: protocol::Trigger = typed(body)?;
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
            (Code::Stopping, 70),
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
        let list = TriggerList { triggers: vec![trigger], blocked: vec!["ci".into()] };
        assert!(!table(&list).contains('\x1b') && table(&list).contains("thread ci is blocked"));
        assert_eq!(table(&TriggerList::default()), "no triggers\n");
    }
}
