//! Which pairs of phase and event a run has seen.

use crate::policy::life::{Event, Next, Phase};

macro_rules! listed {
    ($kind:ident, $index:ident, $names:ident, $($pattern:pat => $name:literal,)+) => {
        pub const $names: &[&str] = &[$($name,)+];

        /// Its place in the list. A new one that is not listed does not compile.
        pub fn $index(of: &$kind) -> usize {
            let name = match of {
                $($pattern => $name,)+
            };
            $names.iter().position(|known| *known == name).expect("each is listed")
        }
    };
}

listed! { Phase, phase_index, PHASES,
    Phase::Clearing { .. } => "Clearing",
    Phase::Preparing { .. } => "Preparing",
    Phase::Starting { .. } => "Starting",
    Phase::Running { .. } => "Running",
    Phase::Waiting { .. } => "Waiting",
    Phase::Asking => "Asking",
    Phase::Halted => "Halted",
    Phase::Restarting { .. } => "Restarting",
    Phase::Away { .. } => "Away",
    Phase::Telling { .. } => "Telling",
    Phase::Stopping { .. } => "Stopping",
    Phase::Ended => "Ended",
}

listed! { Event, event_index, EVENTS,
    Event::LeftoversGone => "LeftoversGone",
    Event::Prepared { .. } => "Prepared",
    Event::ExecDone { .. } => "ExecDone",
    Event::SpawnFailed { .. } => "SpawnFailed",
    Event::Exited(_) => "Exited",
    Event::StopAsked { .. } => "StopAsked",
    Event::TerminalGone => "TerminalGone",
    Event::StopCalled => "StopCalled",
    Event::Retry => "Retry",
    Event::RestartAsked { .. } => "RestartAsked",
    Event::RuleRestarts => "RuleRestarts",
    Event::AwayAsked => "AwayAsked",
    Event::BackAsked { .. } => "BackAsked",
    Event::ReapAsked { .. } => "ReapAsked",
    Event::KillAsked => "KillAsked",
    Event::Quit => "Quit",
    Event::Notified => "Notified",
    Event::TreeGone => "TreeGone",
    Event::Due => "Due",
}

/// What each phase has to do with; anything else must leave it as it is.
const OF_INTEREST: [(&str, &[&str]); 12] = [
    ("Clearing", &["LeftoversGone"]),
    ("Preparing", &["Prepared"]),
    ("Starting", &["ExecDone", "SpawnFailed", "Exited"]),
    ("Running", &["Exited", "RestartAsked", "RuleRestarts", "AwayAsked", "ReapAsked"]),
    ("Waiting", &["Retry", "Quit", "RestartAsked", "AwayAsked", "ReapAsked"]),
    ("Asking", &["Retry", "Quit", "RestartAsked"]),
    ("Halted", &["Retry", "Quit", "RestartAsked"]),
    ("Restarting", &["Exited", "RestartAsked", "AwayAsked", "ReapAsked"]),
    ("Away", &["RestartAsked", "BackAsked"]),
    ("Telling", &["Notified"]),
    ("Stopping", &["Exited", "SpawnFailed", "TreeGone"]),
    ("Ended", &[]),
];
const STOPS: [&str; 4] = ["StopAsked", "TerminalGone", "StopCalled", "KillAsked"];

/// Whether an event is none of the phase's business. Time is everybody's.
pub fn is_stray(phase: usize, event: usize) -> bool {
    let (of, interest) = OF_INTEREST[phase];
    let name = EVENTS[event];
    let stops = STOPS.contains(&name)
        && match of {
            "Ended" => false,
            "Stopping" => matches!(name, "StopAsked" | "KillAsked"),
            _ => true,
        };
    !interest.contains(&name) && !stops && name != "Due"
}

/// One of each, with whatever it carries.
pub fn stray(event: usize) -> Event {
    let end = crate::policy::crash::End {
        code: 1,
        signal: None,
        oom: false,
        asked: false,
        spoke: false,
        limit: None,
    };
    match EVENTS[event] {
        "LeftoversGone" => Event::LeftoversGone,
        "Prepared" => Event::Prepared { agreed: true },
        "ExecDone" => Event::ExecDone { ran_as: Next::Fresh },
        "SpawnFailed" => Event::SpawnFailed { code: 125 },
        "Exited" => Event::Exited(end),
        "StopAsked" => Event::StopAsked { sender: 5 },
        "TerminalGone" => Event::TerminalGone,
        "StopCalled" => Event::StopCalled,
        "Retry" => Event::Retry,
        "RestartAsked" => Event::RestartAsked { next: Next::Fresh },
        "RuleRestarts" => Event::RuleRestarts,
        "AwayAsked" => Event::AwayAsked,
        "BackAsked" => Event::BackAsked { next: Next::Continue },
        "ReapAsked" => Event::ReapAsked { rule: "stray" },
        "KillAsked" => Event::KillAsked,
        "Quit" => Event::Quit,
        "Notified" => Event::Notified,
        "TreeGone" => Event::TreeGone,
        _ => Event::Due,
    }
}

#[derive(Clone, Debug)]
pub struct Coverage {
    seen: Vec<u64>,
    /// Of these, how often it was the world that caused it, and not a stray.
    natural: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Coverage {
        let pairs = PHASES.len() * EVENTS.len();
        Coverage { seen: vec![0; pairs], natural: vec![0; pairs] }
    }
}

impl Coverage {
    pub fn see(&mut self, phase: usize, event: usize, is_natural: bool) {
        let at = phase * EVENTS.len() + event;
        self.seen[at] += 1;
        self.natural[at] += u64::from(is_natural);
    }

    pub fn add(&mut self, other: &Coverage) {
        for (sum, more) in self.seen.iter_mut().zip(&other.seen) {
            *sum += more;
        }
        for (sum, more) in self.natural.iter_mut().zip(&other.natural) {
            *sum += more;
        }
    }

    pub fn pairs(&self) -> usize {
        self.seen.len()
    }

    pub fn natural(&self) -> usize {
        self.natural.iter().filter(|count| **count > 0).count()
    }

    pub fn missing(&self) -> Vec<String> {
        let unseen = self.seen.iter().enumerate().filter(|(_, count)| **count == 0);
        unseen
            .map(|(at, _)| format!("({}, {})", PHASES[at / EVENTS.len()], EVENTS[at % EVENTS.len()]))
            .collect()
    }
}
