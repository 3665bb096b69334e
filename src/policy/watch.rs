//! Whether an agent at work is stuck. Pure: what is known of it, and the time, come in as arguments.
//!
//! ```text
//! (at work) → a silence → its limit → stuck: `continue` is typed → its end: killed
//!                ↑                                   │
//!                └── a word, a new screen, CPU, a key of the operator, the end of a stop
//! ```
//! What only keeps a screen moving (spinners, clocks, the echo of what we type) is no sign of life.
//! Screens and processes are dear to look at: both are looked at a few times in a silence, never for
//! every byte.

use std::time::{Duration, Instant};

/// Of a limit: how exactly it is known when the screen last showed something new.
const LOOKS: u32 = 16;
/// Of a limit: how long a silence lasts before CPU is counted. Most are over sooner.
const CPU_FROM: u32 = 8;
/// A core's share that counts as alive: a fifth.
const ALIVE: u32 = 5;
/// The share of its time that an agent which rests does not spend in line for a processor: four fifths. On a full
/// machine, or with a tenth of a core to itself, one at work is given less than it would use.
const BUSY: (u32, u32) = (4, 5);
/// How long what was typed may change the screen: claude says a few seconds later how to edit a prompt that
/// waits.
const ECHO: Duration = Duration::from_secs(10);
/// A screen that says that it waits for a rate limit and has counted nothing for so long is itself stuck.
const LIMIT_STANDS: Duration = Duration::from_secs(3600);
/// Woken so much later than asked for, it was not the agent who slept.
const OVERSLEPT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub continue_after: Duration,
    /// More than `continue_after`.
    pub kill_after: Duration,
    pub tool_after: Duration,
    pub start_after: Duration,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            continue_after: Duration::from_secs(120),
            kill_after: Duration::from_secs(240),
            tool_after: Duration::from_secs(30 * 60),
            start_after: Duration::from_secs(120),
        }
    }
}

impl Numbers {
    fn limit(&self, task: Task) -> Duration {
        match task {
            Task::Start => self.start_after,
            Task::Work => self.continue_after,
            Task::Tool => self.tool_after,
        }
    }

    /// From stuck to the kill.
    fn patience(&self) -> Duration {
        self.kill_after.saturating_sub(self.continue_after)
    }

    fn echo(&self) -> Duration {
        ECHO.min(self.patience() / 4)
    }
}

/// What an agent does that must come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Start,
    Work,
    Tool,
}

impl Task {
    pub fn name(self) -> &'static str {
        match self {
            Task::Start => "starting",
            Task::Work => "working",
            Task::Tool => "tool",
        }
    }
}

/// What is known of the agent at this moment.
pub struct World<'a> {
    /// `None`: nobody expects a sign of it.
    pub task: Option<Task>,
    /// The agent's number: another one is another agent.
    pub run: u64,
    /// How often it has said something.
    pub words: u64,
    /// How often the operator has pressed a key: somebody looks after it.
    pub keys: u64,
    /// How often something was typed into it: its screen will change, which proves nothing.
    pub typed: u64,
    /// Another number means that the screen may show something else.
    pub drawn: u64,
    pub face: &'a dyn Fn() -> u64,
    /// What its tree has used; `None` when that cannot be known.
    pub used: &'a dyn Fn() -> Option<Used>,
    /// Stopped by somebody's signal.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// How often it was continued after that.
    pub continued: u64,
    /// Its screen says that it waits for a rate limit; another number is another try or countdown.
    pub limit: &'a dyn Fn() -> Option<u64>,
}

/// Of the processors, by the whole tree of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub cpu: Duration,
    /// Ready to run, while others ran.
    pub waited: Duration,
}

impl Used {
    fn since(self, before: Used) -> Used {
        // What has ended takes along what it had.
        let cpu = self.cpu.saturating_sub(before.cpu);
        Used { cpu, waited: self.waited.saturating_sub(before.waited) }
    }

    fn is_alive(self, over: Duration) -> bool {
        let (part, whole) = BUSY;
        self.cpu * ALIVE >= over || (self.cpu + self.waited) * whole >= over * part
    }
}

/// What a silence is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub task: Task,
    pub silent: Duration,
    /// It wrote to its terminal all the same, and nothing new.
    pub drew: bool,
    /// What it used, and in how much time.
    pub used: Used,
    pub over: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `speak`: it may be told to go on. Who starts shows dialogs in which any key may be an answer.
    Stuck {
        evidence: Evidence,
        speak: bool,
    },
    Kill(Evidence),
}

#[derive(Debug)]
pub struct Watch {
    numbers: Numbers,
    state: State,
    wake: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// Nothing is expected.
    Off,
    Silence(Box<Silence>),
    /// Of this run nothing is expected any more.
    Killed {
        run: u64,
        stuck: (Instant, Evidence),
    },
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    task: Task,
    signs: Signs,
    began: Instant,
    look: Look,
    /// Until then the screen may change by what was typed.
    echo_until: Option<Instant>,
    typed: u64,
    /// What was drawn when it began, or by the end of the last echo; and whether anything was before.
    drawn: u64,
    drew: bool,
    /// From when CPU is counted, and what was used by then.
    used: Option<(Instant, Used)>,
    stuck: Option<(Instant, Evidence)>,
    /// What the screen said of a limit when it was last looked at for that, and since when.
    limit: Option<(u64, Instant)>,
}

impl From<Silence> for State {
    fn from(silence: Silence) -> State {
        State::Silence(Box::new(silence))
    }
}

/// Another value is a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signs {
    run: u64,
    words: u64,
    keys: u64,
    continued: u64,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    drawn: u64,
    face: u64,
}

impl Watch {
    pub fn new(numbers: Numbers) -> Watch {
        Watch { numbers, state: State::Off, wake: None }
    }

    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// While it is, until it is gone: since when, and what it was known by.
    pub fn stuck(&self) -> Option<(Instant, Evidence)> {
        match &self.state {
            State::Silence(silence) => silence.stuck,
            State::Killed { stuck, .. } => Some(*stuck),
            State::Off => None,
        }
    }

    /// Since when there was no sign of an agent that owes one, and when it will be too long.
    pub fn silence(&self) -> Option<(Instant, Instant)> {
        match &self.state {
            State::Silence(silence) => Some((silence.began, self.due(silence))),
            State::Off | State::Killed { .. } => None,
        }
    }

    /// Whatever is due. An extra call is harmless.
    pub fn turn(&mut self, world: &World, now: Instant) -> Option<Step> {
        let overslept = self.wake.is_some_and(|wake| now.saturating_duration_since(wake) >= self.slack());
        let step = self.look_at(world, overslept, now);
        self.wake = match &self.state {
            State::Silence(silence) => Some(self.next(silence, now)),
            State::Off | State::Killed { .. } => None,
        };
        step
    }

    fn look_at(&mut self, world: &World, overslept: bool, now: Instant) -> Option<Step> {
        let World { run, words, keys, continued, .. } = *world;
        let signs = Signs { run, words, keys, continued };
        let Some(task) = world.task else {
            self.state = State::Off;
            return None;
        };
        let mut silence = match &self.state {
            State::Killed { run, .. } if *run == world.run => return None,
            State::Silence(silence) if silence.task == task && silence.signs == signs && !overslept => {
                **silence
            }
            State::Silence(_) | State::Killed { .. } | State::Off => {
                self.state = Silence::begin(task, signs, world, now).into();
                return None;
            }
        };
        let limit = self.numbers.limit(task);
        let is_typed = silence.typed != world.typed;
        let is_due = now >= self.due(&silence);
        // What came before the echo may be news.
        let echo_over = silence.echo_until.is_some_and(|until| now >= until);
        let looks = is_due
            || is_typed
            || echo_over
            || now.saturating_duration_since(silence.look.at) >= limit / LOOKS;
        if looks && silence.shows_news(world, now) {
            self.state = Silence::begin(task, signs, world, now).into();
            return None;
        }
        if is_typed {
            silence.drew |= silence.echo_until.is_none() && world.drawn != silence.drawn;
            (silence.typed, silence.echo_until) = (world.typed, Some(now + self.numbers.echo()));
        }
        if silence.used.is_none() && now >= silence.began + limit / CPU_FROM {
            silence.used = (world.used)().map(|used| (now, used));
        }
        self.state = silence.into();
        if now >= self.due(&silence) { self.judge(silence, world, now) } else { None }
    }

    fn judge(&mut self, mut silence: Silence, world: &World, now: Instant) -> Option<Step> {
        let used = match (silence.used, (world.used)()) {
            (Some((from, before)), Some(by_now)) => Some((by_now.since(before), now - from)),
            // Nobody can tell that it does nothing.
            (None, _) | (_, None) => None,
        };
        let idle = used.filter(|(used, over)| !used.is_alive(*over));
        let limit = (world.limit)();
        silence.limit = limit.map(|says| match silence.limit {
            Some((said, since)) if said == says => (said, since),
            Some(_) | None => (says, now),
        });
        let waits = silence.limit.is_some_and(|(_, since)| now - since < LIMIT_STANDS);
        let Some((used, over)) = idle.filter(|_| !waits && !(world.is_stopped)()) else {
            let next = Silence {
                // What it uses from now on is what counts next.
                used: (world.used)().map(|used| (now, used)),
                limit: silence.limit,
                ..Silence::begin(silence.task, silence.signs, world, now)
            };
            self.state = next.into();
            return None;
        };
        let drew = silence.drew || world.drawn != silence.drawn;
        let evidence = Evidence { task: silence.task, silent: now - silence.began, drew, used, over };
        if let Some((since, _)) = silence.stuck {
            self.state = State::Killed { run: world.run, stuck: (since, evidence) };
            return Some(Step::Kill(evidence));
        }
        silence.stuck = Some((now, evidence));
        self.state = silence.into();
        Some(Step::Stuck { evidence, speak: silence.task != Task::Start })
    }

    /// When the silence is judged next: not before it can be told from an echo.
    fn due(&self, silence: &Silence) -> Instant {
        let patience = if silence.stuck.is_some() { self.numbers.patience() } else { Duration::ZERO };
        let due = silence.began + self.numbers.limit(silence.task) + patience;
        silence.echo_until.map_or(due, |until| due.max(until))
    }

    fn next(&self, silence: &Silence, now: Instant) -> Instant {
        let due = self.due(silence);
        let count = silence.began + self.numbers.limit(silence.task) / CPU_FROM;
        let count = (silence.used.is_none() && count > now).then_some(count);
        [silence.echo_until, count].into_iter().flatten().fold(due, Instant::min)
    }

    fn slack(&self) -> Duration {
        OVERSLEPT.max(self.numbers.continue_after / 4)
    }
}

impl Silence {
    fn begin(task: Task, signs: Signs, world: &World, now: Instant) -> Silence {
        Silence {
            task,
            signs,
            began: now,
            look: Look { at: now, drawn: world.drawn, face: (world.face)() },
            echo_until: None,
            typed: world.typed,
            drawn: world.drawn,
            drew: false,
            used: None,
            stuck: None,
            limit: None,
        }
    }

    /// Whether the screen shows something new that was not typed.
    fn shows_news(&mut self, world: &World, now: Instant) -> bool {
        match self.echo_until {
            Some(until) if now < until => return false,
            None if self.look.drawn == world.drawn => return false,
            Some(_) | None => {}
        }
        let before = self.look.face;
        let was_echo = self.echo_until.take().is_some();
        if was_echo {
            self.drawn = world.drawn;
        }
        self.look = Look { at: now, drawn: world.drawn, face: (world.face)() };
        before != self.look.face && !was_echo
    }
}

#[cfg(test)]
mod tests;
