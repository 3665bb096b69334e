//! `agentsup hook EVENT`: the agent's own word about itself. Called by the agent, which waits for it:
//! it is quick, and it says nothing and fails at nothing, whatever becomes of it.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::args;
use crate::cli::args::options;
use crate::cli::words::{self, Word};
use crate::cli::{Failure, show_help};
use crate::control::Client;
use crate::control::protocol::{Ack, Call, HookEvent};

/// For all of it. A supervisor that takes longer is busy with something that matters more.
const PATIENCE: Duration = Duration::from_millis(500);
/// Far more than an agent says.
const LONGEST: u64 = 8 << 20;
/// What is longer was not typed by us, and a request holds 64 KiB of JSON.
const LONGEST_PROMPT: usize = 24 * 1024;

pub fn hook(argv: &[OsString]) -> Result<u8, Failure> {
    let cut = words::cut_plain("hook", &options::<args::Hook>(), argv)?;
    if cut.help {
        return show_help(Some("hook"));
    }
    let verb: args::Hook = words::through_argh("hook", &cut)?;
    let [Word(event)] = &verb.words[..] else {
        return Err(Failure::usage("hook takes one EVENT, like UserPromptSubmit"));
    };
    // Read to its end in any case: an agent that cannot write to its hook may complain.
    let mut told = Vec::new();
    let _ = std::io::stdin().take(LONGEST).read_to_end(&mut told);
    if let Some(call) = event.to_str().and_then(|event| call(event, &told)) {
        tell(call);
    }
    Ok(0)
}

/// What the supervisor is to know of it. Any event is a sign of life; what is no hook's word is none.
fn call(event: &str, told: &[u8]) -> Option<Call> {
    let event: HookEvent = serde_json::from_value(event.into()).ok()?;
    let told: Value = match told.trim_ascii() {
        [] => Value::Null,
        told => serde_json::from_slice(told).ok()?,
    };
    let prompt = told.get("prompt").and_then(Value::as_str);
    let prompt = prompt.filter(|prompt| prompt.len() <= LONGEST_PROMPT).map(str::to_owned);
    Some(Call::Hook { event, prompt })
}

fn tell(call: Call) {
    let Some(socket) = std::env::var_os("AGENTSUP_SOCKET") else { return };
    if let Ok(mut client) = Client::connect(Path::new(&socket), PATIENCE) {
        let _ = client.call::<Ack>(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_told_and_garbage_is_not() {
        let hook = |prompt: Option<&str>| {
            Some(Call::Hook { event: HookEvent::UserPromptSubmit, prompt: prompt.map(str::to_owned) })
        };
        assert_eq!(call("UserPromptSubmit", br#"{"prompt":"hi","cwd":"/"}"#), hook(Some("hi")));
        assert_eq!(call("UserPromptSubmit", b"{}"), hook(None));
        let long = format!("{{\"prompt\":\"{}\"}}", "x".repeat(LONGEST_PROMPT + 1));
        assert_eq!(call("UserPromptSubmit", long.as_bytes()), hook(None));
        assert_eq!(call("Stop", b"{}"), Some(Call::Hook { event: HookEvent::Stop, prompt: None }));
        let other = Some(Call::Hook { event: HookEvent::Other, prompt: None });
        assert_eq!((call("PostToolUse", b"{}"), call("SessionEnd", b"\n")), (other.clone(), other));
        assert_eq!(call("UserPromptSubmit", b"no JSON"), None);
    }
}
