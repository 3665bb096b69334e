//! `agentsup hook EVENT`: the agent's own word about itself. Called by the agent, which waits for it:
//! it is quick, and it says nothing and fails at nothing, whatever becomes of it.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde_json::{Value, json};

use super::args;
use crate::cli::given::{FromGiven, Given};
use crate::cli::words::Word;
use crate::cli::{Failure, print, show_help};
use crate::control::Client;
use crate::control::client::Patience;
use crate::control::json;
use crate::control::protocol::{Call, Decision, Heard, Hook, HookEvent, Verdict};
use crate::os::poll::{Sources, Want};
use crate::os::tty;
use crate::session::NOTIFY;
use crate::session::profile::threads;

/// For the supervisor. One that takes longer is busy with something that matters more.
const PATIENCE: Duration = Duration::from_millis(500);
/// Behind the time by which a request is answered.
const LATE: Duration = Duration::from_secs(1);
/// How long an agent on a busy machine may take to write what it has to say.
const SILENT: Duration = Duration::from_secs(2);
/// Of what it writes. What is longer is not read as JSON, but taken from it all the same.
const LONGEST: usize = 8 << 20;
/// What is longer was not typed by us, and a request holds 64 KiB of JSON.
const LONGEST_PROMPT: usize = 24 * 1024;
/// Names, and what is said of an error.
const LONGEST_WORD: usize = 2 * 1024;
/// What a human reads before they allow it; the rest is cut off.
const LONGEST_INPUT: usize = 24 * 1024;

/// codex's word for a conversation.
const THREAD: &str = "thread-id";

pub fn hook(argv: &[OsString]) -> Result<u8, Failure> {
    let Some(mut given) = Given::read("hook", argv)? else {
        return show_help(Some("hook"));
    };
    let verb = args::Hook::from_given(&mut given);
    let (event, told) = match &verb.words[..] {
        [Word(event)] => (event, heard(tty::stdin())),
        [Word(event), Word(told)] => (event, told.as_encoded_bytes().to_vec()),
        _ => {
            return Err(Failure::usage(
                "hook takes one EVENT, like UserPromptSubmit, and its JSON if that is not on stdin",
            ));
        }
    };
    let Some(event) = event.to_str() else { return Ok(0) };
    if let Some((hook, told)) = read(event, &told).filter(|(_, told)| is_of_the_user(told)) {
        tell(hook, &told);
    }
    Ok(0)
}

/// What the agent says, to its end in any case: one that cannot write to its hook may complain. Of an agent
/// that says no more and leaves the pipe open, what it has said by then.
fn heard(stdin: BorrowedFd) -> Vec<u8> {
    let mut told = Vec::new();
    // An agent's script that gives its hook nothing gives it the agent's own terminal: nobody types there.
    if stdin.is_terminal() {
        return told;
    }
    let mut buffer = [0; 16 * 1024];
    let mut sources = Sources::new();
    sources.add((), stdin, Want::Read);
    let mut too_long = None;
    while !sources.wait(Some(too_long.unwrap_or(Instant::now() + SILENT))).is_empty() {
        match nix::unistd::read(stdin, &mut buffer) {
            Ok(0) => break,
            Ok(count) if told.len() < LONGEST => told.extend_from_slice(&buffer[..count]),
            // It may have no end.
            Ok(_) if Instant::now() >= *too_long.get_or_insert_with(|| Instant::now() + SILENT) => break,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    told
}

/// codex tells of threads too that are its own business: the end of a turn there is none of the agent's, and
/// none of them can be resumed. claude names no thread.
fn is_of_the_user(told: &Value) -> bool {
    let thread = told.get(THREAD).and_then(Value::as_str);
    let (Some(thread), Some(home)) = (thread, threads::codex_home(|name| std::env::var_os(name))) else {
        return true;
    };
    threads::is_conversation(&home, thread)
}

/// What the supervisor is to know of it. Any event is a sign of life, also one of which nothing else can be read;
/// what is no hook's word is none. Of codex's only the rest tells which it is.
fn read(event: &str, told: &[u8]) -> Option<(Hook, Value)> {
    let told = match told.trim_ascii() {
        [] => Value::Null,
        told => match json::parse_cut(told) {
            Ok(told) => told,
            Err(_) if event == NOTIFY => return None,
            Err(_) => Value::Null,
        },
    };
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let event = match (event, text("type")) {
        (NOTIFY, Some("agent-turn-complete")) => HookEvent::Stop,
        (event, _) => json::read(&event.into()).ok()?,
    };
    let short = |key: &str| text(key).map(|text| cut(text, LONGEST_WORD));
    let hook = Hook {
        event,
        prompt: text("prompt").filter(|prompt| prompt.len() <= LONGEST_PROMPT).map(str::to_owned),
        tool: short("tool_name"),
        tool_use_id: short("tool_use_id"),
        kind: short("notification_type").or(short("source")),
        error: short("error"),
        text: short("error_details")
            .or(short("last_assistant_message"))
            .filter(|_| event == HookEvent::StopFailure),
        key: tool_key(&told),
        conversation: short(THREAD).or(short("session_id")),
    };
    Some((hook, told))
}

/// The same for a request and for the end of the tool that was asked for: claude gives a request no id.
fn tool_key(told: &Value) -> Option<String> {
    let (tool, input) = (told.get("tool_name")?, told.get("tool_input")?);
    let mut hasher = DefaultHasher::new();
    (tool.to_string(), input.to_string(), told.get("prompt_id").map(Value::to_string)).hash(&mut hasher);
    Some(format!("{:016x}", hasher.finish()))
}

fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].to_owned()
}

fn tell(hook: Hook, told: &Value) {
    let Some(socket) = std::env::var_os("AGENTSUP_SOCKET") else { return };
    let Ok(mut client) = Client::connect(Path::new(&socket), PATIENCE) else { return };
    let ask = permission(&hook, told);
    // A supervisor that is too busy for this is not waited for at all.
    let Ok(heard) = client.call::<Heard>(Call::Hook(hook)) else { return };
    let Some(ask) = ask else { return };
    // It is answered in time, unless the supervisor itself stands still.
    let patience = heard
        .answer_within_ms
        .map_or(Patience::Endless, |most| Patience::For(Duration::from_millis(most).saturating_add(LATE)));
    if let Ok(decision) = client.call_within::<Decision>(ask, patience)
        && let Some(answer) = answer(&decision)
    {
        // Who does not read the answer asks somebody else.
        let _ = print(&format!("{answer}\n"));
    }
}

fn permission(hook: &Hook, told: &Value) -> Option<Call> {
    if hook.event != HookEvent::PermissionRequest {
        return None;
    }
    let tool = hook.tool.clone()?;
    let input = told.get("tool_input").cloned().unwrap_or_default();
    let input = match input.to_string() {
        long if long.len() > LONGEST_INPUT => format!("{}…", cut(&long, LONGEST_INPUT)).into(),
        _ => input,
    };
    Some(Call::PermissionRequest { tool, input, key: hook.key.clone() })
}

/// As claude reads it. Nothing is no opinion: claude's own dialog decides.
fn answer(decision: &Decision) -> Option<Value> {
    let verdict = match decision.decision {
        Verdict::Allow => json!({"behavior": "allow"}),
        Verdict::Deny => {
            let reason = decision.reason.as_deref().unwrap_or("denied by an operator");
            json!({"behavior": "deny", "message": reason})
        }
        Verdict::NoOpinion => return None,
    };
    Some(json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": verdict}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(event: &str, told: &str) -> Option<Hook> {
        read(event, told.as_bytes()).map(|(hook, _)| hook)
    }

    #[test]
    fn every_event_is_told_and_its_bare_name_where_the_rest_cannot_be_read() {
        let prompted = |prompt: Option<&str>| {
            let prompt = prompt.map(str::to_owned);
            Some(Hook { event: HookEvent::UserPromptSubmit, prompt, ..Hook::default() })
        };
        assert_eq!(hook("UserPromptSubmit", r#"{"prompt":"hi","cwd":"/"}"#), prompted(Some("hi")));
        assert_eq!(hook("UserPromptSubmit", "{}"), prompted(None));
        let long = format!("{{\"prompt\":\"{}\"}}", "x".repeat(LONGEST_PROMPT + 1));
        assert_eq!(hook("UserPromptSubmit", &long), prompted(None));
        assert_eq!(hook("Stop", "{}").unwrap().event, HookEvent::Stop);
        assert_eq!(hook("SubagentStop", "\n").unwrap().event, HookEvent::Other);
        assert_eq!(hook("UserPromptSubmit", "no JSON"), prompted(None));
        assert_eq!(hook("UserPromptSubmit", r#"{"prompt":"cut \ud83d"}"#), prompted(Some("cut \u{fffd}")));
        let deep = format!("{{\"tool_name\":\"Bash\",\"tool_input\":{}", "[".repeat(1000));
        let (asks, told) = read("PermissionRequest", deep.as_bytes()).unwrap();
        assert_eq!((asks.event, permission(&asks, &told)), (HookEvent::PermissionRequest, None));
        assert_eq!(hook(NOTIFY, "no JSON"), None);
        let limit =
            hook("StopFailure", r#"{"error":"rate_limit","last_assistant_message":"later"}"#).unwrap();
        assert_eq!((limit.error.as_deref(), limit.text.as_deref()), (Some("rate_limit"), Some("later")));
        assert_eq!(
            hook("Notification", r#"{"notification_type":"idle_prompt"}"#).unwrap().kind.unwrap(),
            "idle_prompt"
        );
    }

    #[test]
    fn claude_tells_which_conversation_it_is_in_and_since_when() {
        let told = r#"{"session_id":"01-a","source":"clear","transcript_path":"/h/01-a.jsonl"}"#;
        let began = hook("SessionStart", told).unwrap();
        assert_eq!((began.conversation.as_deref(), began.kind.as_deref()), (Some("01-a"), Some("clear")));
    }

    #[test]
    fn codex_tells_the_end_of_a_turn_and_where() {
        let told = r#"{"type":"agent-turn-complete","thread-id":"01-a","input-messages":["hi"]}"#;
        let ended = hook(NOTIFY, told).unwrap();
        assert_eq!((ended.event, ended.conversation.as_deref()), (HookEvent::Stop, Some("01-a")));
        assert_eq!(hook(NOTIFY, r#"{"type":"something-new"}"#).unwrap().event, HookEvent::Other);
    }

    #[test]
    fn a_tool_has_the_same_key_before_and_behind() {
        let told = |id: &str, command: &str| {
            format!(r#"{{"prompt_id":"{id}","tool_name":"Bash","tool_input":{{"command":"{command}"}}}}"#)
        };
        let key = |event, told: &str| hook(event, told).unwrap().key.unwrap();
        let asked = key("PermissionRequest", &told("1", "ls"));
        assert_eq!(asked, key("PostToolUse", &told("1", "ls")));
        assert_ne!(asked, key("PostToolUse", &told("1", "rm")));
        assert_ne!(asked, key("PostToolUse", &told("2", "ls")));
        assert_eq!(hook("Stop", "{}").unwrap().key, None);
    }

    #[test]
    fn what_claude_reads() {
        let decision = |decision, reason: Option<&str>| {
            answer(&Decision { decision, reason: reason.map(str::to_owned) }).map(|answer| answer.to_string())
        };
        let frame = |inner: &str| {
            Some(format!(
                r#"{{"hookSpecificOutput":{{"decision":{inner},"hookEventName":"PermissionRequest"}}}}"#
            ))
        };
        assert_eq!(decision(Verdict::Allow, None), frame(r#"{"behavior":"allow"}"#));
        assert_eq!(decision(Verdict::Deny, Some("no")), frame(r#"{"behavior":"deny","message":"no"}"#));
        assert_eq!(decision(Verdict::NoOpinion, None), None);
    }

    #[test]
    fn long_input_is_cut_between_characters() {
        let told =
            serde_json::json!({"tool_name": "Write", "tool_input": {"content": "é".repeat(LONGEST_INPUT)}});
        let (hook, told) = read("PermissionRequest", told.to_string().as_bytes()).unwrap();
        let Some(Call::PermissionRequest { input: Value::String(input), .. }) = permission(&hook, &told)
        else {
            panic!("no request with a text");
        };
        assert!(input.len() <= LONGEST_INPUT + 3 && input.ends_with('…'));
    }
}
