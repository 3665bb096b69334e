//! How much of our processor time strangers may take: to be let in, to be heard until their first
//! request, to be recognised. A storm of them would otherwise use up our share of the processor, and then the
//! kernel lets everybody wait, the agent and the well-behaved callers too.
//!
//! Strangers get a thirtieth of a processor, and a little at once on credit. What is beyond waits in the
//! listener's queue. Pure: the time comes in as an argument.

use std::time::{Duration, Instant};

/// One part in so many is theirs.
const PART: u32 = 30;
/// What a quiet time saves up for them: some hundred callers that come at once.
const CREDIT: Duration = Duration::from_millis(5);
/// The door is shut at least so long: to look at who waits for each of them anew would cost more than
/// they do.
const SHUT: Duration = Duration::from_millis(5);
/// And at most so long, whatever was spent: somebody who means well may be waiting.
const SHUT_MOST: Duration = Duration::from_millis(50);

pub struct Door {
    /// Before it, all credit is there; the further it lies ahead, the less.
    spent_until: Option<Instant>,
    shut_until: Option<Instant>,
}

impl Door {
    pub fn new() -> Door {
        Door { spent_until: None, shut_until: None }
    }

    /// Strangers have taken so much of the processor's time.
    pub fn spend(&mut self, taken: Duration, now: Instant) {
        let cost = taken * PART;
        let most = now + CREDIT * PART + SHUT_MOST;
        let spent_until = (self.spent_until.map_or(now, |at| at.max(now)) + cost).min(most);
        self.spent_until = Some(spent_until);
        let overdrawn = (spent_until - now).saturating_sub(CREDIT * PART);
        if !overdrawn.is_zero() {
            self.shut_until = Some(now + overdrawn.max(SHUT));
        }
    }

    /// When it opens again; `None` while it is open.
    pub fn opens_at(&self) -> Option<Instant> {
        self.shut_until
    }

    pub fn open_if_due(&mut self, now: Instant) {
        if self.shut_until.is_some_and(|at| now >= at) {
            self.shut_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_micros(100);

    #[test]
    fn a_storm_gets_its_part_and_its_credit() {
        let mut door = Door::new();
        let start = Instant::now();
        let (mut now, mut spent) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(10) {
            door.open_if_due(now);
            match door.opens_at() {
                Some(at) => {
                    assert!(at > now);
                    now = at;
                }
                None => {
                    now += TURN;
                    door.spend(TURN, now);
                    spent += TURN;
                }
            }
        }
        let fair = Duration::from_secs(10) / PART + CREDIT;
        assert!(spent > fair / 2 && spent <= fair + TURN, "{spent:?}");
    }

    #[test]
    fn now_and_then_a_caller_never_finds_it_shut() {
        let mut door = Door::new();
        let mut now = Instant::now();
        for _ in 0..10_000 {
            door.spend(TURN, now);
            assert_eq!(door.opens_at(), None);
            now += TURN * PART;
        }
    }

    #[test]
    fn what_took_long_shuts_it_for_longer_but_never_for_long() {
        let mut door = Door::new();
        let now = Instant::now();
        door.spend(CREDIT + Duration::from_millis(1), now);
        assert_eq!(door.opens_at(), Some(now + Duration::from_millis(1) * PART));
        for _ in 0..100 {
            door.spend(Duration::from_secs(1), now);
        }
        let opens = door.opens_at().expect("it is overdrawn");
        assert_eq!(opens - now, SHUT_MOST);
        door.open_if_due(opens);
        assert_eq!(door.opens_at(), None);
    }
}
