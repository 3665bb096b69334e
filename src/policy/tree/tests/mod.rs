//! Stories of nodes. A `Story` owns the clock and answers like a machine on which every child comes up and
//! every leftover goes.

mod asked;
mod giving_up;
mod properties;
mod starts_and_stops;
mod strategies;

use super::*;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const SHUTDOWN: Duration = secs(10);

fn rules(strategy: Strategy) -> Rules {
    Rules { strategy, ..Rules::default() }
}

fn child(id: &str, keep: Keep) -> Spec {
    Spec { id: id.to_owned(), keep, shutdown: SHUTDOWN, leftovers: SHUTDOWN, needs: vec![] }
}

fn needing(id: &str, needs: &[&str]) -> Spec {
    Spec { needs: needs.iter().map(|need| (*need).to_owned()).collect(), ..child(id, Keep::Permanent) }
}

fn children(ids: &str, keep: Keep) -> Vec<Spec> {
    ids.split(' ').map(|id| child(id, keep)).collect()
}

struct Story {
    tree: Tree,
    now: Instant,
    /// What was done to whom, in order: `+a` started, `-a` TERM, `!a` KILL, `~a` cleared.
    done: Vec<String>,
    up: bool,
    ended: Option<u8>,
}

impl Story {
    fn begins(rules: Rules, specs: Vec<Spec>) -> Story {
        let now = Instant::now();
        let (tree, effects) = Tree::begin(rules, specs, now);
        let mut story = Story { tree, now, done: vec![], up: false, ended: None };
        story.perform(&effects);
        story
    }

    /// All are ready, and nothing has been told so far.
    fn runs(strategy: Strategy, specs: Vec<Spec>) -> Story {
        let mut story = Story::begins(rules(strategy), specs);
        story.all_get_ready();
        story.done.clear();
        story
    }

    fn perform(&mut self, effects: &[Effect]) {
        for effect in effects {
            match *effect {
                Effect::Spawn(key) => self.note('+', key),
                Effect::Term(key) => self.note('-', key),
                Effect::Kill(key) => self.note('!', key),
                Effect::Clear(key) => self.note('~', key),
                Effect::KillLeft(key) => self.note('x', key),
                Effect::Up => self.up = true,
                Effect::End(code) => assert_eq!(self.ended.replace(code), None, "it ends once"),
                Effect::TellExit(..) | Effect::TellGaveUp(_) | Effect::Forget(_) => {}
            }
        }
    }

    fn note(&mut self, sign: char, key: Key) {
        let id = self.tree.kid(key).map_or("?", |kid| &kid.spec.id);
        self.done.push(format!("{sign}{id}"));
    }

    fn hears(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.tree.step(event, self.now);
        self.perform(&effects);
        effects
    }

    fn key(&self, id: &str) -> Key {
        self.tree.named(id).unwrap_or_else(|| panic!("no {id}")).key
    }

    fn gets_ready(&mut self, id: &str) {
        self.hears(Event::Ready(self.key(id)));
    }

    fn all_get_ready(&mut self) {
        while let Some(id) = self.first(|state| matches!(state, State::Starting { .. })) {
            self.gets_ready(&id);
        }
    }

    /// It ends and leaves nothing behind.
    fn exits(&mut self, id: &str, code: u8) -> Vec<Effect> {
        let key = self.key(id);
        let mut effects = self.hears(Event::Exited(key, code));
        effects.extend(self.hears(Event::Cleared(key)));
        effects
    }

    /// Whoever has been told to end does so, until nobody is.
    fn the_told_end(&mut self) {
        while let Some(id) = self.first(|state| matches!(state, State::Stopping { .. })) {
            self.exits(&id, 143);
        }
    }

    fn first(&self, like: impl Fn(&State) -> bool) -> Option<String> {
        self.tree.kids().iter().find(|kid| like(&kid.state)).map(|kid| kid.spec.id.clone())
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.hears(Event::Due);
    }

    fn reaches_deadline(&mut self) {
        let at = self.tree.wake().expect("nothing is armed");
        self.passes(at.saturating_duration_since(self.now));
    }

    fn armed(&self) -> Option<Duration> {
        self.tree.wake().map(|at| at.saturating_duration_since(self.now))
    }

    fn state(&self, id: &str) -> &'static str {
        self.tree.named(id).map_or("gone", |kid| kid.state.name())
    }

    fn states(&self) -> String {
        self.tree.kids().iter().map(|kid| kid.state.name()).collect::<Vec<_>>().join(" ")
    }

    fn told(&mut self) -> String {
        std::mem::take(&mut self.done).join(" ")
    }
}
