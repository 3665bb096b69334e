//! `agentsup wait`: no answer until the agent is where it should be.

use std::time::Duration;

use serde_json::Value;

use super::verbs::awake;
use super::{Caller, SOON, Trouble, args, print_json, typed};
use crate::cli::names::Named;
use crate::cli::{Failure, asked, print};
use crate::control::CallError;
use crate::control::client::Patience;
use crate::control::protocol::{Call, Code, Error, WaitFor, Waited};

/// The supervisor keeps the time of a wait; so long its answer may be on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

pub fn wait(verb: args::Wait, caller: &Caller) -> Result<u8, Trouble> {
    let Some(word) = verb.until else {
        return Err(Failure::usage("--for is missing; expected --for ready, exit, halted or idle").into());
    };
    let until = asked::read("--for", word, WaitFor::parse)?;
    let body = match caller.timeout {
        Some(time) => wait_at_most(time, until, caller)?,
        None => {
            awake(caller, SOON)?.call_within(Call::Wait { until, timeout_ms: None }, Patience::Endless)?
        }
    };
    if caller.json {
        print_json(&body)?;
    }
    let waited: Waited = typed(&body)?;
    if !caller.json {
        print(&line(&waited))?;
    }
    Ok(exit_code(until, &waited))
}

/// A supervisor that hangs need not be found out first: it has no more time than any other.
fn wait_at_most(time: Duration, until: WaitFor, caller: &Caller) -> Result<Value, Trouble> {
    let timeout_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let patience = time.saturating_add(ON_ITS_WAY);
    let mut client = caller.connect_to_ask(patience.min(SOON))?;
    let waited = client.call_within(Call::Wait { until, timeout_ms }, Patience::For(patience));
    Ok(waited.map_err(|error| match error {
        CallError::Refused(refusal) if refusal.code == Code::Timeout => {
            CallError::Refused(Error::new(Code::Timeout, format!("{} within {time:?}", did_not(until))))
        }
        other => other.after_all(time),
    })?)
}

fn did_not(until: WaitFor) -> &'static str {
    match until {
        WaitFor::Ready => "the agent was not ready",
        WaitFor::Exit => "the agent did not exit",
        WaitFor::Halted => "the agent did not halt",
        WaitFor::Idle => "the agent was not idle",
    }
}

fn exit_code(until: WaitFor, waited: &Waited) -> u8 {
    match until {
        WaitFor::Exit => waited.code.unwrap_or(0),
        WaitFor::Ready | WaitFor::Idle | WaitFor::Halted => 0,
    }
}

fn line(waited: &Waited) -> String {
    let reason = waited.reason.name();
    match (waited.pid, waited.code) {
        (Some(pid), _) => format!("{reason}, pid {pid}\n"),
        (None, Some(code)) => format!("{reason}, code {code}\n"),
        (None, None) => format!("{reason}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exit_hands_on_the_agents_code() {
        let waited = |reason, code| Waited { reason, code, pid: None };
        assert_eq!(exit_code(WaitFor::Exit, &waited(WaitFor::Exit, Some(139))), 139);
        assert_eq!(exit_code(WaitFor::Exit, &waited(WaitFor::Exit, None)), 0);
        assert_eq!(exit_code(WaitFor::Halted, &waited(WaitFor::Halted, Some(7))), 0);
        assert_eq!(line(&waited(WaitFor::Halted, Some(7))), "halted, code 7\n");
    }
}
