use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::os::lock::Taken;

struct Place(StateDir);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("agentsup-claims-{}-{nth}", std::process::id()));
        for inside in ["supervisor", "claims"] {
            fs::create_dir_all(path.join(inside)).unwrap();
        }
        Place(StateDir { path, source: "--dir" })
    }

    fn lives(&self, session: &str) -> Lock {
        match Lock::take(&self.0.lock(session), "pid=1\n", |_| false).unwrap() {
            Taken::Ours(lock) => lock,
            Taken::Theirs(holder) => panic!("{session} is held by {holder}"),
        }
    }

    /// As a client does: who finds others at it asks again.
    fn try_claim(&self, ticket: &str, session: &str, since: u64) -> Result<Outcome, String> {
        loop {
            match claim(&self.0, of(ticket, session, since)) {
                Ok(Outcome::Busy) => std::thread::yield_now(),
                outcome => return outcome,
            }
        }
    }

    fn claims(&self, ticket: &str, session: &str, since: u64) -> Outcome {
        self.try_claim(ticket, session, since).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.path);
    }
}

fn of(ticket: &str, session: &str, since: u64) -> Claim {
    Claim { ticket: ticket.into(), session: session.into(), since }
}

#[test]
fn a_ticket_is_the_first_ones_until_that_has_gone() {
    let place = Place::new();
    let (a, _b) = (place.lives("a"), place.lives("b"));
    assert_eq!(place.claims("o/r#7", "a", 5), Outcome::Claimed(of("o/r#7", "a", 5), None));
    assert_eq!(place.claims("o/r#7", "a", 6), Outcome::Already(of("o/r#7", "a", 5)));
    assert_eq!(place.claims("o/r#7", "b", 7), Outcome::Theirs(of("o/r#7", "a", 5)));
    // As a kill leaves it, and the same session again.
    a.killed();
    let a = place.lives("a");
    assert_eq!(place.claims("o/r#7", "a", 8), Outcome::Already(of("o/r#7", "a", 5)));
    // In order, which leaves the claim too.
    drop(a);
    assert_eq!(place.claims("o/r#7", "b", 9), Outcome::Claimed(of("o/r#7", "b", 9), Some("a".into())));
    let _a = place.lives("a");
    assert_eq!(place.claims("o/r#7", "a", 10), Outcome::Theirs(of("o/r#7", "b", 9)));
}

#[test]
fn only_its_owner_releases_a_ticket() {
    let place = Place::new();
    let _both = (place.lives("a"), place.lives("b"));
    assert_eq!(release(&place.0, "t", "a"), Ok(Released::Nobodys));
    place.claims("t", "a", 5);
    assert_eq!(release(&place.0, "t", "b"), Ok(Released::Theirs(of("t", "a", 5))));
    assert_eq!(release(&place.0, "t", "a"), Ok(Released::Ours(of("t", "a", 5))));
    assert_eq!(place.claims("t", "b", 6), Outcome::Claimed(of("t", "b", 6), None));
    assert!(release(&place.0, "a\nb", "a").is_err());
}

#[test]
fn junk_in_a_tickets_place_and_what_a_kill_left_beside_it_are_in_nobodys_way() {
    let place = Place::new();
    let _a = place.lives("a");
    fs::write(place.0.claims().join("t"), "{").unwrap();
    place.claims("t", "a", 5);
    // Killed between the two names of one file.
    fs::hard_link(place.0.claims().join("t"), place.0.claim_new("a")).unwrap();
    place.claims("u", "a", 6);
    let all = claims::all(&place.0).unwrap();
    let all: Vec<Found> = all.into_iter().map(|(_, found)| found).collect();
    assert_eq!(all, [Found::Claim(of("t", "a", 5)), Found::Claim(of("u", "a", 6))]);
    assert!(!place.0.claim_new("a").exists());
}

/// Each round a hundred sessions want one ticket, which is free, abandoned or junk.
#[test]
fn of_a_hundred_one_wins_whatever_became_of_the_owner() {
    let place = Place::new();
    let sessions: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let _locks: Vec<Lock> = sessions.iter().map(|session| place.lives(session)).collect();
    let start = Barrier::new(sessions.len());
    const ROUNDS: u64 = 30;
    for round in 0..ROUNDS {
        let ticket = format!("t{round}");
        match round % 3 {
            0 => {}
            1 => {
                let dead = place.lives("dead");
                place.claims(&ticket, "dead", 1);
                if round % 2 == 0 { dead.killed() } else { drop(dead) }
            }
            _ => fs::write(place.0.claims().join(&ticket), "").unwrap(),
        }
    }
    // Judged when all are back: one that panicked would leave the others at the barrier for ever.
    let outcomes: Vec<Vec<Result<Outcome, String>>> = std::thread::scope(|scope| {
        let (place, start) = (&place, &start);
        let race = |session| {
            move || {
                let round = |round| {
                    start.wait();
                    place.try_claim(&format!("t{round}"), session, 5)
                };
                (0..ROUNDS).map(round).collect()
            }
        };
        let racing: Vec<_> = sessions.iter().map(|session| scope.spawn(race(session))).collect();
        racing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for round in 0..ROUNDS as usize {
        let of_round = || outcomes.iter().map(|of_session| &of_session[round]);
        let failed: Vec<_> = of_round().filter_map(|outcome| outcome.as_ref().err()).collect();
        assert_eq!(failed, Vec::<&String>::new(), "round {round}");
        let won = of_round().filter(|outcome| matches!(outcome, Ok(Outcome::Claimed(..)))).count();
        assert_eq!(won, 1, "round {round}");
    }
    let all = claims::all(&place.0).unwrap();
    assert!(all.iter().all(|(_, f)| matches!(f, Found::Claim(claim) if claim.session.starts_with('s'))));
}

/// An owner that comes back while others reach for its ticket has it, or one of them has: never both.
#[test]
fn an_owner_that_comes_back_meanwhile_has_it_or_has_lost_it() {
    let place = Place::new();
    let _b = place.lives("b");
    for round in 0..100 {
        let ticket = format!("t{round}");
        let a = place.lives("a");
        place.claims(&ticket, "a", 1);
        a.killed();
        let (back, taken) = std::thread::scope(|scope| {
            let back = scope.spawn(|| {
                let a = place.lives("a");
                (place.claims(&ticket, "a", 2), a)
            });
            let taken = place.claims(&ticket, "b", 3);
            (back.join().unwrap(), taken)
        });
        let is_bs = matches!(taken, Outcome::Claimed(..));
        let is_as = matches!(back.0, Outcome::Already(_));
        assert!(is_as != is_bs, "round {round}: {:?} {taken:?}", back.0);
        drop(back.1);
    }
}
