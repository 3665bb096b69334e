//! Refusals, for the log. The first of a kind is told at once; those that follow within a second are
//! counted and told together, so that nobody can wash the story away by being refused.

use std::time::{Duration, Instant};

use crate::control::access::Role;
use crate::control::protocol::Code;
use crate::log::{Event, Name};
use crate::os::socket::Peer;
use crate::sorted::Sorted;

const TOGETHER: Duration = Duration::from_secs(1);
/// Callers that are counted each by itself; all others of their uid are counted together.
const CALLERS_MOST: usize = 64;
/// Kinds that are counted in all; beyond, each refusal has a line of its own.
const KINDS_MOST: usize = 2 * CALLERS_MOST;

/// What makes two refusals the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    what: What,
    uid: u32,
    /// `None` for several callers.
    pid: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Method { name: &'static str, role: &'static str },
    Trigger { code: &'static str },
}

impl Kind {
    pub(super) fn method(name: &'static str, role: Role, peer: Peer) -> Kind {
        Kind { what: What::Method { name, role: role.name() }, uid: peer.uid, pid: Some(peer.pid) }
    }

    pub(super) fn trigger(code: Code, peer: Peer) -> Kind {
        Kind { what: What::Trigger { code: code.as_str() }, uid: peer.uid, pid: Some(peer.pid) }
    }

    /// A line about it that begins with whatever it is `of`.
    pub(super) fn event(self, of: &[(&'static str, &str)]) -> Event {
        let (name, error) = match self.what {
            What::Method { .. } => (Name::ControlDenied, None),
            What::Trigger { code } => (Name::TriggerRefused, Some(code)),
        };
        let event = of.iter().fold(Event::new(name), |event, (key, value)| event.with(key, value));
        let event = match self.what {
            What::Method { name, role } => event.with("method", name).with("role", role),
            What::Trigger { .. } => event,
        };
        event.with("uid", self.uid).maybe("pid", self.pid).maybe("error", error)
    }
}

#[derive(Default)]
pub(super) struct Denials(Sorted<Kind, Counted>);

struct Counted {
    more: u64,
    until: Instant,
}

impl Denials {
    /// Counts it. True when there is to be a line about it now.
    pub(super) fn is_news(&mut self, kind: Kind, now: Instant) -> bool {
        let of_all = Kind { pid: None, ..kind };
        for kind in [kind, of_all] {
            if let Some(counted) = self.0.get_mut(&kind) {
                counted.more += 1;
                return false;
            }
        }
        let kind = if self.0.len() < CALLERS_MOST { kind } else { of_all };
        if self.0.len() < KINDS_MOST {
            self.0.insert(kind, Counted { more: 0, until: now + TOGETHER });
        }
        true
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().map(|counted| counted.until).min()
    }

    /// What was counted and is due; at the end of everything, all of it.
    pub(super) fn due(&mut self, now: Option<Instant>) -> Vec<Event> {
        let is_due = |_: &Kind, counted: &mut Counted| now.is_none_or(|now| now >= counted.until);
        let counted = self.0.extract_if(is_due).into_iter().filter(|(_, counted)| counted.more > 0);
        counted.map(|(kind, counted)| kind.event(&[]).with("more", counted.more)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pid(pid: i32) -> Peer {
        Peer { pid, uid: 7, gid: 7, since: 0 }
    }

    fn stop(pid: i32) -> Kind {
        Kind::method("stop", Role::Agent, of_pid(pid))
    }

    fn more(event: &Event) -> u64 {
        let field = |wanted| event.fields().iter().find(|(key, _)| *key == wanted);
        field("more").expect("a count").1.parse().expect("a number")
    }

    #[test]
    fn a_flood_of_one_kind_is_one_line_and_a_count() {
        let limited = Kind::trigger(Code::TriggerRateLimited, of_pid(1));
        for kind in [stop(1), limited] {
            let mut denials = Denials::default();
            let now = Instant::now();
            assert!(denials.is_news(kind, now));
            for _ in 0..1000 {
                assert!(!denials.is_news(kind, now));
            }
            assert!(denials.is_news(Kind::method("restart", Role::Agent, of_pid(1)), now));
            assert_eq!(denials.due(Some(now)), []);
            let later = denials.deadline().expect("a count is held");
            let told = denials.due(Some(later));
            assert_eq!(told.len(), 1, "of what was refused once there is no more to say: {told:?}");
            assert_eq!(told, [kind.event(&[]).with("more", 1000)]);
            assert_eq!(denials.deadline(), None);
            assert!(denials.is_news(kind, later), "a new second");
        }
    }

    #[test]
    fn a_line_says_what_it_is_of_who_and_why() {
        let text = |event: Event| format!("{:?} {:?}", event.name, event.fields());
        let limited = Kind::trigger(Code::DuplicateId, of_pid(1));
        assert_eq!(
            text(limited.event(&[("trigger_id", "a")])),
            r#"TriggerRefused [("trigger_id", "a"), ("uid", "7"), ("pid", "1"), ("error", "DUPLICATE_ID")]"#
        );
        assert_eq!(
            text(stop(1).event(&[])),
            r#"ControlDenied [("method", "stop"), ("role", "agent"), ("uid", "7"), ("pid", "1")]"#
        );
    }

    #[test]
    fn nothing_is_forgotten_and_the_lines_are_few_however_many_callers_there_are() {
        let mut denials = Denials::default();
        let now = Instant::now();
        let mut told = 0;
        for pid in 1..=1000 {
            for kind in [stop(pid), stop(pid), Kind::trigger(Code::TooLarge, of_pid(pid))] {
                told += u64::from(denials.is_news(kind, now));
            }
        }
        let due = denials.due(None);
        assert_eq!(told + due.iter().map(more).sum::<u64>(), 3000);
        assert!(told + (due.len() as u64) < 2 * KINDS_MOST as u64, "{told} {}", due.len());
        let several = |event: &&Event| event.fields().iter().all(|(key, _)| *key != "pid");
        assert_eq!(due.iter().filter(several).count(), 2, "{due:?}");
        assert_eq!(denials.deadline(), None);
    }

    #[test]
    fn when_nothing_more_can_be_counted_each_has_a_line() {
        let mut denials = Denials::default();
        let now = Instant::now();
        let of_uid = |uid| Kind::method("stop", Role::Observer, Peer { uid, ..of_pid(1) });
        assert!((0..1000).all(|uid| denials.is_news(of_uid(uid), now)));
        assert!(denials.is_news(of_uid(999), now) && !denials.is_news(of_uid(0), now));
        assert_eq!(denials.0.len(), KINDS_MOST);
    }
}
