use std::cell::Cell;

use super::*;
use crate::policy::typing::Refusal as NotTyped;

mod guards;
mod properties;
mod table;

/// Owns the time and the world, and remembers what was done.
struct Life {
    triggers: Triggers,
    now: Instant,
    began: Instant,
    is_running: bool,
    is_ready: bool,
    has_draft: bool,
    last_key: Option<Instant>,
    stands: Cell<bool>,
    asked_screen: Cell<u32>,
    /// Texts, and `<Enter>` for an Enter alone, in order.
    typed: Vec<String>,
    news: Vec<News>,
}

impl Life {
    fn new() -> Life {
        let now = Instant::now();
        Life {
            triggers: Triggers::new(Numbers { rate_per_minute: 1000, ..Numbers::default() }),
            now,
            began: now,
            is_running: true,
            is_ready: true,
            has_draft: false,
            last_key: None,
            stands: Cell::new(false),
            asked_screen: Cell::new(0),
            typed: Vec::new(),
            news: Vec::new(),
        }
    }

    fn time(&self) -> Now {
        Now { at: self.now, epoch: 1_700_000_000 + (self.now - self.began).as_secs() }
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
            is_running: self.is_running,
            is_ready: self.is_ready,
            has_draft: self.has_draft,
            last_key: self.last_key,
            stands: &stands,
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
                Effect::Tell(news) => self.news.push(news),
            }
        }
    }

    fn done(&mut self, typed: Typed) {
        let effects = self.triggers.typed(typed, self.time());
        self.take(effects);
        self.turn();
    }

    /// Taken, typed, and Enter pressed.
    fn sent(&mut self, id: &str) {
        self.ask(id, "t");
        assert_eq!(self.state(id), State::Triggering);
        self.done(Ok(()));
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
