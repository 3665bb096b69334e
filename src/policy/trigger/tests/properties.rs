//! Whatever happens, in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Happens {
    Asked {
        thread: u8,
        force: bool,
    },
    Typed(u8),
    Acked(usize),
    ThreadAcked(u8),
    Prompted(usize),
    Heartbeat,
    Cancelled(usize),
    Progress(u8, Option<u8>),
    TurnEnds,
    Unblocked(u8),
    Key,
    Draft(bool),
    Stands(bool),
    Runs(Agent),
    MadeRoom,
    Called(Called),
    Can(bool, bool, bool),
    Works(bool),
    AtWork,
    /// Another one takes over.
    SupervisorEnds,
    Ready(bool),
    Passes(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let mostly = |often| prop_oneof![often => Just(true), 1 => Just(false)];
    prop_oneof![
        6 => (0u8..3, prop_oneof![4 => Just(false), 1 => Just(true)])
            .prop_map(|(thread, force)| Happens::Asked { thread, force }),
        6 => (0u8..8).prop_map(Happens::Typed),
        2 => (0usize..20).prop_map(Happens::Acked),
        1 => (0u8..3).prop_map(Happens::ThreadAcked),
        1 => (0usize..20).prop_map(Happens::Prompted),
        1 => Just(Happens::Heartbeat),
        1 => (0usize..20).prop_map(Happens::Cancelled),
        1 => (0u8..3, prop::option::of(0u8..2)).prop_map(|(thread, finding)| Happens::Progress(thread, finding)),
        1 => Just(Happens::TurnEnds),
        1 => (0u8..3).prop_map(Happens::Unblocked),
        2 => Just(Happens::Key),
        2 => mostly(1).prop_map(Happens::Draft),
        1 => mostly(1).prop_map(Happens::Stands),
        1 => prop_oneof![4 => Just(Agent::Up), 1 => Just(Agent::Coming), 1 => Just(Agent::Down)].prop_map(Happens::Runs),
        4 => Just(Happens::MadeRoom),
        4 => prop_oneof![Just(Called::Answered), Just(Called::Failed), Just(Called::NotMade), Just(Called::CutShort)].prop_map(Happens::Called),
        1 => any::<(bool, bool, bool)>().prop_map(|(resume, fork, spawn)| Happens::Can(resume, fork, spawn)),
        1 => mostly(1).prop_map(Happens::Works),
        1 => Just(Happens::AtWork),
        1 => Just(Happens::SupervisorEnds),
        1 => mostly(4).prop_map(Happens::Ready),
        8 => (0u64..30_000).prop_map(Happens::Passes),
    ]
}

/// What is being typed, as the typing itself would know it.
fn outcome(pick: u8, life: &Life) -> Typed {
    match pick {
        _ if life.agent != Agent::Up => Err(NotTyped::EndedMeanwhile),
        0 => Err(NotTyped::InputFull),
        1 => Err(NotTyped::TooMany),
        2 if life.has_draft => Err(NotTyped::OperatorBusy),
        _ => Ok(()),
    }
}

struct Story {
    life: Life,
    threads: Vec<String>,
    /// That earlier supervisors saw.
    ends: u64,
    is_typing: bool,
    is_calling: bool,
    /// In a copy of the conversation.
    is_forking: bool,
    /// The agent was told to make room.
    is_ending: bool,
    /// How often the text of each was handed over.
    pasted: BTreeMap<String, u32>,
    seen: usize,
    order: Vec<usize>,
}

impl Story {
    fn new() -> Story {
        let mut life = Life::new();
        life.triggers.numbers.no_progress_turns = 4;
        Story {
            life,
            threads: Vec::new(),
            ends: 0,
            is_typing: false,
            is_calling: false,
            is_forking: false,
            is_ending: false,
            pasted: BTreeMap::new(),
            seen: 0,
            order: Vec::new(),
        }
    }

    fn id(&self, n: usize) -> String {
        format!("{}", n % self.threads.len().max(1))
    }

    fn happen(&mut self, step: Happens) {
        let now = self.life.time();
        match step {
            Happens::Asked { thread, force } => {
                let (id, thread) = (self.threads.len().to_string(), format!("t{thread}"));
                if self.life.triggers.ask(Life::asked(&id, &thread, force), now).is_ok() {
                    self.threads.push(thread);
                }
            }
            Happens::Typed(pick) if self.is_typing => {
                self.is_typing = false;
                let typed = outcome(pick, &self.life);
                if typed.is_ok() {
                    self.life.has_draft = false;
                }
                let effects = self.life.triggers.typed(typed, now);
                self.life.take(effects);
            }
            Happens::Typed(_) => {}
            Happens::Acked(n) => {
                let effects = self.life.triggers.acked(For::Id(&self.id(n)), By::Ack, now);
                self.life.take(effects.unwrap_or_default());
            }
            Happens::ThreadAcked(thread) => {
                let thread = format!("t{thread}");
                let effects = self.life.triggers.acked(For::Thread(&thread), By::Ack, now);
                self.life.take(effects.unwrap_or_default());
            }
            Happens::Prompted(n) => {
                let Some(text) = self.life.typed.iter().filter(|t| *t != "<Enter>").nth(n).cloned() else {
                    return;
                };
                let effects = self.life.triggers.prompt_taken(Some(&text), now);
                self.life.take(effects);
            }
            Happens::Heartbeat => {
                let effects = self.life.triggers.acked_in_flight(By::Heartbeat, now);
                self.life.take(effects);
            }
            Happens::Cancelled(n) => {
                let effects = self.life.triggers.cancel(&self.id(n), now);
                self.life.take(effects.unwrap_or_default());
            }
            Happens::Progress(thread, finding) => {
                let (thread, finding) = (format!("t{thread}"), finding.map(|n| n.to_string()));
                let effects = self.life.triggers.progress(For::Thread(&thread), finding.as_deref(), now);
                self.life.take(effects.unwrap_or_default());
            }
            Happens::TurnEnds => {
                let effects = self.life.triggers.turn_ended(now);
                self.life.take(effects);
            }
            Happens::Unblocked(thread) => drop(self.life.triggers.unblock(&format!("t{thread}"))),
            // Nobody else types while a text is typed.
            Happens::Key if !self.is_typing => self.life.key(),
            Happens::Draft(stands) if !self.is_typing => self.life.has_draft = stands,
            Happens::Key | Happens::Draft(_) => {}
            Happens::Stands(stands) => self.life.stands.set(stands),
            // One that made room comes back when it is called, and not before.
            Happens::Runs(agent) if self.life.agent != Agent::Away => self.life.agent = agent,
            Happens::Runs(_) => {}
            Happens::MadeRoom => self.make_room(),
            Happens::Called(called) if self.is_calling => {
                self.is_calling = false;
                let effects = self.life.triggers.call_ended(called, now);
                self.life.take(effects);
            }
            Happens::Called(_) => {}
            Happens::SupervisorEnds => self.take_over(),
            Happens::Can(resume, fork, spawn) => self.life.can = Can { resume, fork, spawn },
            Happens::Works(works) => self.life.is_working = works,
            Happens::AtWork => {
                let effects = self.life.triggers.at_work(self.life.stands.get(), now);
                self.life.take(effects);
            }
            Happens::Ready(ready) => self.life.is_ready = ready,
            Happens::Passes(ms) => self.life.now += Duration::from_millis(ms),
        }
        self.life.turn();
        self.look();
    }

    /// What was typed by the last step.
    fn look(&mut self) {
        for text in &self.life.typed[self.seen..] {
            self.is_typing = true;
            if text == "<Enter>" {
                continue;
            }
            let id = text.split(['=', ' ']).nth(2).expect("an envelope").to_owned();
            *self.pasted.entry(id.clone()).or_default() += 1;
            self.order.push(id.parse().expect("a number"));
        }
        self.seen = self.life.typed.len();
        for done in std::mem::take(&mut self.life.done) {
            match done {
                "room" => {
                    assert!(!self.life.has_draft, "a human's terminal is taken away");
                    self.is_ending = true;
                }
                "call" | "fork" => {
                    assert!(!std::mem::replace(&mut self.is_calling, true), "two calls at once");
                    self.is_forking = done == "fork";
                    assert_eq!(done == "call", self.life.agent == Agent::Away, "two writers");
                }
                "back" | "anew" => {
                    assert_eq!(self.life.agent, Agent::Away);
                    // An agent that was about to end when the call began may be back before it.
                    assert!(done == "anew" || !self.is_calling || self.is_forking, "two writers");
                    self.life.agent = Agent::Up;
                    self.life.turn();
                    return self.look();
                }
                _ => assert!(self.is_calling),
            }
        }
    }

    /// All that the file would tell the next supervisor.
    fn take_over(&mut self) {
        let old = &self.life.triggers;
        let all: Vec<(Asked, Status)> =
            old.kept().map(|(asked, status)| (asked.clone(), status.clone())).collect();
        let (waiting, under_way): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, status)| matches!(status.state, State::Queued | State::Deferred));
        let left = |all: Vec<(Asked, Status)>| {
            all.into_iter().map(|(asked, status)| (asked, status.accepted_at)).collect()
        };
        let ended = old.all().filter(|status| status.state.is_final()).cloned().collect();
        let blocked = old.blocked().map(str::to_owned).collect();
        let left = Left { waiting: left(waiting), under_way: left(under_way), ended, blocked };
        self.ends += old.counts.delivered + old.counts.failed;
        self.life.triggers = Triggers::new(old.numbers.clone());
        let effects = self.life.triggers.restore(left, self.life.time());
        self.life.take(effects);
        (self.is_typing, self.is_calling, self.is_ending) = (false, false, false);
        self.life.agent = Agent::Coming;
        self.life.has_draft = false;
    }

    fn make_room(&mut self) {
        if std::mem::take(&mut self.is_ending) && self.life.agent == Agent::Up {
            self.life.agent = Agent::Away;
        }
    }

    fn finish(&mut self) {
        if self.life.agent != Agent::Away {
            self.life.agent = Agent::Up;
        }
        self.life.is_ready = true;
        self.life.has_draft = false;
        self.life.turn();
        self.look();
        for _ in 0..2000 {
            match (self.is_typing, self.life.triggers.wake()) {
                _ if self.is_ending => self.happen(Happens::MadeRoom),
                _ if self.is_calling => self.happen(Happens::Called(Called::Answered)),
                (true, _) => self.happen(Happens::Typed(7)),
                (false, Some(at)) => {
                    self.life.now = self.life.now.max(at);
                    self.life.turn();
                    self.look();
                }
                (false, None) => break,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_ends_once_in_order_in_time_and_is_pasted_once(story in prop::collection::vec(happens(), 1..120)) {
        let mut told = Story::new();
        for step in story {
            told.happen(step);
            prop_assert!(told.life.triggers.wake().is_none_or(|at| at > told.life.now), "a deadline is never behind");
            let in_flight = told.life.triggers.all().filter(|s| matches!(s.state, State::Triggering | State::AwaitingAck));
            prop_assert!(in_flight.count() <= 1, "one at a time");
        }
        // From here on nothing new happens: each has its own time, and no more.
        let numbers = told.life.triggers.numbers().clone();
        let in_turn = Duration::from_secs(30 * 60);
        let each = numbers.max_defer + numbers.ack_timeout * 3 + in_turn + Duration::from_secs(6 + 10 + 120);
        let (began, left) = (told.life.now, told.life.triggers.kept().count() as u32);
        told.finish();
        prop_assert!(!told.life.triggers.has_work(), "all of them come to an end");
        prop_assert!(told.life.agent != Agent::Away, "nobody stays away");
        let took = told.life.now - began;
        prop_assert!(took <= each * left, "{left} in {took:?}");
        for n in 0..told.threads.len() {
            prop_assert_eq!(told.life.ended(&n.to_string()), 1, "each ends exactly once");
        }
        for (n, thread) in told.threads.iter().enumerate() {
            let own: Vec<usize> = told.order.iter().copied().filter(|m| told.threads[*m] == *thread).collect();
            prop_assert!(own.is_sorted(), "in order: {own:?} of {n}");
        }
        // What could not be typed is typed again; what was typed never is.
        for (id, status) in told.pasted.keys().map(|id| (id, told.life.triggers.status(id).unwrap())) {
            let sent = told.life.news.iter().filter(|news| **news == News::Sent(id.clone(), 1)).count();
            prop_assert!(sent <= 1, "pasted twice");
            let carried = told.life.news.iter().any(|news| matches!(news, News::FallsBack(of, _) if of == id));
            prop_assert!(sent == 1 || carried || status.attempts == 0);
        }
        let counts = told.life.triggers.counts;
        prop_assert_eq!(told.ends + counts.delivered + counts.failed, told.threads.len() as u64);
    }
}
