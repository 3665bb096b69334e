//! DESIGN §9, `[[rule]]`: when something is too long, too much or on the screen, then something is done
//! about it. Each rule is done once for what it was met by: a run, a budget, a silence, an idle time, an
//! appearance. Pure: what is known of the agent, and the time, come in as arguments.

use std::time::{Duration, Instant};

/// A text that was off the screen for less has not gone: an agent that draws its screen anew may be seen
/// in the middle of it.
const GONE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Kept for as long as the supervisor lives, so that a halt can name it.
    pub name: &'static str,
    pub when: When,
    pub then: Then,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Of one run of the agent.
    MaxRuntime(Duration),
    /// Of all conversations since the supervisor started, or was resumed.
    MaxTokens(u64),
    /// More than so many, since the same moment.
    MaxRestarts(u64),
    /// Neither output nor a word of the agent.
    SilentFor(Duration),
    IdleFor(Duration),
    ScreenContains(String),
}

impl When {
    pub fn name(&self) -> &'static str {
        match self {
            When::MaxRuntime(_) => "max_runtime",
            When::MaxTokens(_) => "max_tokens",
            When::MaxRestarts(_) => "max_restarts",
            When::SilentFor(_) => "silent_for",
            When::IdleFor(_) => "idle_for",
            When::ScreenContains(_) => "screen_contains",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    Log,
    /// A command, which gets the event as JSON.
    Notify(Vec<String>),
    /// A text for the agent.
    Warn(String),
    Pause,
    Restart,
    /// The agent is ended, and the supervisor halted.
    Reap,
}

impl Then {
    pub const NAMES: [&'static str; 6] = ["log", "notify", "warn", "pause", "restart", "reap"];

    pub fn name(&self) -> &'static str {
        match self {
            Then::Log => "log",
            Then::Notify(_) => "notify",
            Then::Warn(_) => "warn",
            Then::Pause => "pause",
            Then::Restart => "restart",
            Then::Reap => "reap",
        }
    }
}

/// What is known of the agent at this moment.
pub struct World<'a> {
    /// Since when it runs.
    pub running: Option<Instant>,
    /// None runs, but one is about to.
    pub is_coming: bool,
    pub is_paused: bool,
    pub restarts: u64,
    pub tokens: u64,
    /// Its last output or word.
    pub heard: Option<Instant>,
    /// Since when it has nothing to do.
    pub idle: Option<Instant>,
    /// Nothing has been said to it in this run: of the conversation that it goes on with it draws what was.
    pub repeats: bool,
    /// Another number means that the screen may show something else.
    pub drawn: u64,
    pub shows: &'a dyn Fn(&str) -> bool,
}

/// A rule whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Its place in the file, from 0 on.
    pub nth: usize,
    /// What it was met by.
    pub value: String,
}

#[derive(Debug, Default)]
pub struct Rulebook {
    rules: Vec<Kept>,
    /// How many there were when the budgets began.
    restarts: u64,
    was_paused: bool,
    /// When the last pause ended: nobody is silent or idle on their own account before that.
    thawed: Option<Instant>,
    wake: Option<Instant>,
}

#[derive(Debug)]
struct Kept {
    rule: Rule,
    times: u64,
    /// How many there were when its budget began.
    tokens: u64,
    met: Met,
}

/// What a rule was done for already.
#[derive(Debug)]
enum Met {
    Nothing,
    /// The run, silence or idle time that began then.
    Since(Instant),
    /// The budget.
    Budget,
    /// What the screen of that run showed when so much was drawn.
    Seen {
        run: Instant,
        drawn: u64,
        shown: Shown,
    },
}

#[derive(Clone, Copy, Debug)]
enum Shown {
    Never,
    /// By the run before this one, and it may be drawn once more.
    Before,
    Now,
    Until(Instant),
}

impl Rulebook {
    pub fn new(rules: Vec<Rule>) -> Rulebook {
        let rules =
            rules.into_iter().map(|rule| Kept { rule, times: 0, tokens: 0, met: Met::Nothing }).collect();
        Rulebook { rules, ..Rulebook::default() }
    }

    pub fn rule(&self, nth: usize) -> Option<&Rule> {
        self.rules.get(nth).map(|kept| &kept.rule)
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Tokens have to be counted.
    pub fn counts_tokens(&self) -> bool {
        self.rules.iter().any(|kept| matches!(kept.rule.when, When::MaxTokens(_)))
    }

    /// Each rule, and how often it was done.
    pub fn times(&self) -> impl Iterator<Item = (&Rule, u64)> {
        self.rules.iter().map(|kept| (&kept.rule, kept.times))
    }

    pub fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Somebody resumed what was halted: what was used up before counts no more.
    pub fn begin_anew(&mut self, restarts: u64, tokens: u64) {
        self.restarts = restarts;
        for kept in &mut self.rules {
            kept.tokens = tokens;
            if let Met::Budget = kept.met {
                kept.met = Met::Nothing;
            }
        }
    }

    /// Whatever is due now, in the order of the file. An extra call is harmless.
    pub fn turn(&mut self, world: &World, now: Instant) -> Vec<Fired> {
        if self.was_paused && !world.is_paused {
            self.thawed = Some(now);
        }
        self.was_paused = world.is_paused;
        self.wake = None;
        let mut fired = Vec::new();
        for nth in 0..self.rules.len() {
            if let Some(value) = self.look_at(nth, world, now) {
                self.rules[nth].times += 1;
                fired.push(Fired { nth, value });
            }
        }
        fired
    }

    fn look_at(&mut self, nth: usize, world: &World, now: Instant) -> Option<String> {
        let thawed = self.thawed;
        let on_its_own = |since: Instant| thawed.map_or(since, |thawed| thawed.max(since));
        let awake = world.running.filter(|_| !world.is_paused);
        let restarts = self.restarts;
        let kept = &mut self.rules[nth];
        match &kept.rule.when {
            When::MaxRuntime(most) => {
                let (most, since) = (*most, world.running?);
                self.after(nth, since, most, now)
            }
            When::SilentFor(most) => {
                let (most, began) = (*most, awake?);
                let since = on_its_own(world.heard.map_or(began, |heard| heard.max(began)));
                self.after(nth, since, most, now)
            }
            When::IdleFor(most) => {
                let most = *most;
                let since = awake.and(world.idle).map(on_its_own)?;
                self.after(nth, since, most, now)
            }
            When::MaxTokens(most) => {
                world.running?;
                let used = world.tokens.saturating_sub(kept.tokens);
                let over = used >= *most;
                if !kept.use_up(over) {
                    return None;
                }
                if kept.rule.then == Then::Restart {
                    // Whoever runs next has used up nothing.
                    (kept.met, kept.tokens) = (Met::Nothing, world.tokens);
                }
                Some(used.to_string())
            }
            When::MaxRestarts(most) => {
                // Who is to be reaped for the next one is not started for it.
                let next = u64::from(world.is_coming && kept.rule.then == Then::Reap);
                let used = world.restarts.saturating_sub(restarts) + next;
                let over = used > *most && (world.running.is_some() || world.is_coming);
                kept.use_up(over).then(|| used.to_string())
            }
            When::ScreenContains(text) => {
                let run = world.running?;
                if matches!(kept.met, Met::Seen { run: of, drawn, .. } if (of, drawn) == (run, world.drawn)) {
                    return None;
                }
                let shows = (world.shows)(text);
                let text = text.clone();
                kept.see(shows, run, world, now).then_some(text)
            }
        }
    }

    /// Once for what began at `since`, when it has lasted for so long.
    fn after(&mut self, nth: usize, since: Instant, most: Duration, now: Instant) -> Option<String> {
        let kept = &mut self.rules[nth];
        if matches!(kept.met, Met::Since(met) if met == since) {
            return None;
        }
        // What no clock can hold is never.
        let due = since.checked_add(most)?;
        if now < due {
            self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
            return None;
        }
        kept.met = Met::Since(since);
        Some(format!("{}s", now.saturating_duration_since(since).as_secs()))
    }
}

impl Kept {
    /// True the first time that the budget is used up.
    fn use_up(&mut self, over: bool) -> bool {
        let is_new = over && !matches!(self.met, Met::Budget);
        if is_new {
            self.met = Met::Budget;
        }
        is_new
    }

    /// True when it has appeared.
    fn see(&mut self, shows: bool, run: Instant, world: &World, now: Instant) -> bool {
        let before = match self.met {
            Met::Seen { run: of, shown, .. } if of == run => shown,
            Met::Seen { shown: Shown::Before | Shown::Now | Shown::Until(_), .. } if world.repeats => {
                Shown::Before
            }
            Met::Seen { .. } | Met::Nothing | Met::Since(_) | Met::Budget => Shown::Never,
        };
        let shown = match (shows, before) {
            (true, _) => Shown::Now,
            (false, Shown::Now) => Shown::Until(now),
            (false, before) => before,
        };
        self.met = Met::Seen { run, drawn: world.drawn, shown };
        let is_new = match before {
            Shown::Never => true,
            Shown::Before => !world.repeats,
            Shown::Now => false,
            Shown::Until(gone) => now.saturating_duration_since(gone) >= GONE && !world.repeats,
        };
        shows && is_new
    }
}

#[cfg(test)]
mod tests;
