//! `agentsup wait`: no answer until the agent is where it should be.

use super::verbs::awake;
use super::{Caller, SOON, Trouble, args, print_json, typed};
use crate::cli::names::Named;
use crate::cli::{Failure, asked, print};
use crate::control::client::Patience;
use crate::control::protocol::{Call, WaitFor, Waited};

pub fn wait(verb: args::Wait, caller: &Caller) -> Result<u8, Trouble> {
    let Some(word) = verb.until else {
        return Err(Failure::usage("--for is missing; expected --for ready, exit, halted or idle").into());
    };
    let until = asked::read("--for", word, WaitFor::parse)?;
    let timeout_ms = caller.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    // The supervisor keeps the time; this is for one that stops answering meanwhile.
    let patience = caller.timeout.map_or(Patience::Endless, |time| Patience::For(time + SOON));
    let body = awake(caller, SOON)?.call_within(Call::Wait { until, timeout_ms }, patience)?;
    if caller.json {
        print_json(&body)?;
    }
    let waited: Waited = typed(body)?;
    if !caller.json {
        print(&line(&waited))?;
    }
    Ok(exit_code(until, &waited))
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
