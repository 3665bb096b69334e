//! `agentsup health`: one bit and one line, for probes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::state::{health_word, phase_word};
use super::{Caller, Trouble, args, print_json};
use crate::cli::explain::text::visible;
use crate::cli::print;
use crate::control::client::Patience;
use crate::control::protocol::{Activity, Call, Health, Phase, State};

pub fn health(_: args::Health, caller: &Caller) -> Result<u8, Trouble> {
    let (verdict, about) = match ask(caller) {
        Ok(state) => (judge(&state), about(&state)),
        // To a probe, nobody there is one more way of not being healthy.
        Err(trouble) => match trouble.failure() {
            usage if usage.code == 2 => return Err(trouble),
            failure => (Err(failure.message), Value::Null),
        },
    };
    let (healthy, reason) = match verdict {
        Ok(reason) => (true, reason),
        Err(reason) => (false, reason),
    };
    match caller.json {
        true => print_json(&json!({"healthy": healthy, "reason": reason, "state": about}))?,
        false => {
            let word = if healthy { "healthy" } else { "unhealthy" };
            print(&format!("{word}: {reason}\n"))?;
        }
    }
    Ok(u8::from(!healthy))
}

/// All of it within one patience: a probe has a limit of its own.
fn ask(caller: &Caller) -> Result<State, Trouble> {
    let (began, patience) = (Instant::now(), caller.patience());
    let mut client = caller.connect_to_ask(patience)?;
    let left = patience.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
    let state = client.call_within(Call::State { why: false, deep: false }, Patience::For(left));
    Ok(state.map_err(|error| error.after_all(patience))?)
}

fn about(state: &State) -> Value {
    json!({
        "session": state.session,
        "pid": state.pid,
        "phase": phase_word(state.phase),
        "health": health_word(state.health),
        "activity": state.activity.name(),
    })
}

/// `Err` is unhealthy.
fn judge(state: &State) -> Result<String, String> {
    match (state.phase, state.health, state.activity) {
        (Phase::Halted, _, _) | (_, Health::Halted, _) => {
            Err(format!("halted after {} restarts; `agentsup resume` tries again", state.restart_count))
        }
        (Phase::Stopping | Phase::Ended, _, _) => Err("stopping".to_owned()),
        (_, _, Activity::Paused) => Err("paused; `agentsup resume` goes on".to_owned()),
        (phase, Health::Degraded, _) if state.node.as_ref().is_some_and(|node| node.trouble.is_some()) => {
            let trouble = state.node.as_ref().and_then(|node| node.trouble.as_deref()).unwrap_or_default();
            Ok(format!("degraded, {}, {}", phase_word(phase), visible(trouble)))
        }
        (phase, Health::Degraded, _) => {
            Ok(format!("degraded, {}, {} restarts", phase_word(phase), state.restart_count))
        }
        (phase, Health::Healthy | Health::Unknown, _) => Ok(match state.pid {
            Some(pid) => format!("{}, pid {pid}", phase_word(phase)),
            None => phase_word(phase).to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_healthy() {
        use {Activity as A, Health as H, Phase as P};
        for (phase, health, activity, healthy) in [
            (P::Running, H::Healthy, A::Unknown, true),
            (P::Running, H::Degraded, A::Working, true),
            (P::Backoff, H::Healthy, A::Unknown, true),
            (P::Backoff, H::Degraded, A::Unknown, true),
            (P::Clearing, H::Healthy, A::Unknown, true),
            (P::Preparing, H::Healthy, A::Unknown, true),
            (P::Starting, H::Healthy, A::Starting, true),
            (P::Asking, H::Healthy, A::Unknown, true),
            (P::Restarting, H::Healthy, A::Unknown, true),
            (P::Unknown, H::Unknown, A::Unknown, true),
            (P::Running, H::Healthy, A::Paused, false),
            (P::Running, H::Degraded, A::Paused, false),
            (P::Halted, H::Halted, A::Unknown, false),
            (P::Stopping, H::Healthy, A::Unknown, false),
            (P::Stopping, H::Halted, A::Unknown, false),
            (P::Ended, H::Healthy, A::Unknown, false),
        ] {
            let state = State { phase, health, activity, ..State::default() };
            let verdict = judge(&state);
            assert_eq!(verdict.is_ok(), healthy, "{phase:?} {health:?} {activity:?}");
            let reason = verdict.unwrap_or_else(|reason| reason);
            assert!(!reason.is_empty() && !reason.contains('\n'));
        }
    }
}
