use std::cell::Cell;

use super::*;
use crate::policy::typing::Refusal as NotTyped;

mod fallback;
mod guards;
mod properties;
mod table;

const EPOCH: u64 = 1_700_000_000;

/// Owns the time and the world, and remembers what was done.
struct Life {
    triggers: Triggers,
    now: Instant,
    began: Instant,
    agent: Agent,
    is_ready: bool,
    has_draft: bool,
    last_key: Option<Instant>,
    is_held: bool,
    is_working: bool,
    confirms: bool,
    heard_at: u64,
    can: Can,
    stands: Cell<bool>,
    asked_screen: Cell<u32>,
    /// Texts, and `<Enter>` for an Enter alone, in order.
    typed: Vec<String>,
    /// What else was done: `room`, `call`, `fork`, `end call`, `back`, `anew`.
    done: Vec<&'static str>,
    news: Vec<News>,
}

impl Life {
    fn new() -> Life {
        let now = Instant::now();
        Life {
            triggers: Triggers::new(Numbers { rate_per_minute: 1000, ..Numbers::default() }),
            now,
            began: now,
            agent: Agent::Up,
            is_ready: true,
            has_draft: false,
            last_key: None,
            is_held: false,
            is_working: false,
            confirms: true,
            heard_at: EPOCH,
            can: Can::default(),
            stands: Cell::new(false),
            asked_screen: Cell::new(0),
            typed: Vec::new(),
            done: Vec::new(),
            news: Vec::new(),
        }
    }

    fn time(&self) -> Now {
        Now { at: self.now, epoch: EPOCH + (self.now - self.began).as_secs() }
    }

    fn asked(id: &str, thread: &str, force: bool) -> Asked {
        Asked::new(id, thread, None, &format!("do {id}"), force, 16384).expect("a good one")
    }

    fn ask(&mut self, id: &str, thread: &str) {
        self.triggers.ask(Life::asked(id, thread, false), self.time()).expect("accepted");
        self.turn();
    }

    fn turn(&mut self) {
        let stands = || {
            self.asked_screen.set(self.asked_screen.get() + 1);
            self.stands.get()
        };
        let world = World {
            agent: self.agent,
            is_ready: self.is_ready,
            has_draft: self.has_draft,
            is_held: self.is_held,
            is_working: self.is_working,
            confirms: self.confirms,
            heard_at: self.heard_at,
            last_key: self.last_key,
            stands: &stands,
            can: &|| self.can,
        };
        let now = self.time();
        let effects = self.triggers.turn(&world, now);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Type { text, force } => {
                    assert!(force || !self.has_draft, "typed into a draft");
                    self.typed.push(text);
                }
                Effect::PressEnter => {
                    assert!(!self.has_draft, "an Enter into somebody's draft");
                    self.typed.push("<Enter>".into());
                }
                Effect::MakeRoom => self.done.push("room"),
                Effect::Call { fork, .. } => self.done.push(if fork { "fork" } else { "call" }),
                Effect::EndCall => self.done.push("end call"),
                Effect::ComeBack => self.done.push("back"),
                Effect::BeginAnew => self.done.push("anew"),
                Effect::Tell(news) => self.news.push(news),
            }
        }
    }

    fn typing_ends(&mut self, typed: Typed) {
        let effects = self.triggers.typed(typed, self.time());
        self.take(effects);
        self.turn();
    }

    /// Taken, typed, and Enter pressed.
    fn sent(&mut self, id: &str) {
        self.ask(id, "t");
        assert_eq!(self.state(id), State::Triggering);
        self.typing_ends(Ok(()));
        assert_eq!(self.state(id), State::AwaitingAck);
    }

    fn key(&mut self) {
        self.last_key = Some(self.now);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.turn();
    }

    fn go_to_next_deadline(&mut self) {
        self.now = self.triggers.wake().expect("something is due");
        self.turn();
    }

    fn ack(&mut self, whom: For, by: By) -> bool {
        let effects = self.triggers.acked(whom, by, self.time());
        let known = effects.is_some();
        self.take(effects.unwrap_or_default());
        self.turn();
        known
    }

    fn state(&self, id: &str) -> State {
        self.triggers.status(id).expect("known").state
    }

    fn ended(&self, id: &str) -> usize {
        self.news.iter().filter(|news| **news == News::Ended(id.to_owned())).count()
    }
}
