//! Refusals, for the log. The first of a kind is told at once; those that follow within a second are
//! counted and told together, so that nobody can wash the story away by being refused.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::control::access::Role;
use crate::log::{Event, Name};
use crate::os::socket::Peer;

const TOGETHER: Duration = Duration::from_secs(1);
/// Kinds that are counted at once; beyond, each refusal has a line of its own.
const KINDS_MOST: usize = 64;

/// Method, role, uid and pid.
type Kind = (&'static str, &'static str, u32, i32);

#[derive(Default)]
pub(super) struct Denials(BTreeMap<Kind, Counted>);

struct Counted {
    more: u64,
    until: Instant,
}

impl Denials {
    /// What is to be said of it now.
    pub(super) fn deny(
        &mut self,
        method: &'static str,
        role: Role,
        peer: Peer,
        now: Instant,
    ) -> Option<Event> {
        let kind = (method, role.name(), peer.uid, peer.pid);
        if let Some(counted) = self.0.get_mut(&kind) {
            counted.more += 1;
            return None;
        }
        if self.0.len() < KINDS_MOST {
            self.0.insert(kind, Counted { more: 0, until: now + TOGETHER });
        }
        Some(event(kind))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().map(|counted| counted.until).min()
    }

    /// What was counted and is due; at the end of everything, all of it.
    pub(super) fn due(&mut self, now: Option<Instant>) -> Vec<Event> {
        let is_due = |_: &Kind, counted: &mut Counted| now.is_none_or(|now| now >= counted.until);
        let due: Vec<_> = self.0.extract_if(.., is_due).collect();
        let counted = due.into_iter().filter(|(_, counted)| counted.more > 0);
        counted.map(|(kind, counted)| event(kind).with("more", counted.more)).collect()
    }
}

fn event((method, role, uid, pid): Kind) -> Event {
    Event::new(Name::ControlDenied)
        .with("method", method)
        .with("role", role)
        .with("uid", uid)
        .with("pid", pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(pid: i32) -> Peer {
        Peer { pid, uid: 7, gid: 7, since: 0 }
    }

    #[test]
    fn a_flood_of_one_kind_is_one_line_and_a_count() {
        let mut denials = Denials::default();
        let now = Instant::now();
        assert!(denials.deny("stop", Role::Agent, peer(1), now).is_some());
        for _ in 0..1000 {
            assert!(denials.deny("stop", Role::Agent, peer(1), now).is_none());
        }
        assert!(denials.deny("restart", Role::Agent, peer(1), now).is_some());
        assert_eq!(denials.due(Some(now)), []);
        let later = denials.deadline().expect("a count is held");
        let told = denials.due(Some(later));
        assert_eq!(told.len(), 1, "of what was refused once there is no more to say: {told:?}");
        assert!(told[0].fields().iter().any(|(key, value)| *key == "more" && value == "1000"));
        assert_eq!(denials.deadline(), None);
        assert!(denials.deny("stop", Role::Agent, peer(1), later).is_some(), "a new second");
    }

    #[test]
    fn nothing_is_forgotten_however_many_kinds_there_are() {
        let mut denials = Denials::default();
        let now = Instant::now();
        let mut told = 0;
        for pid in 1..=1000 {
            for _ in 0..2 {
                told += u64::from(denials.deny("stop", Role::Peer, peer(pid), now).is_some());
            }
        }
        let counted = denials.due(None).len() as u64;
        assert_eq!(told + counted, 2000);
        assert_eq!(denials.deadline(), None);
    }
}
