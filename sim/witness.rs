//! What the log says: its lines, read as they are written, and what anybody who has only the log would
//! believe of the supervisor.

use crate::world::World;
use crate::{clock, symbols};

/// `None`: nobody can tell, because lines are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belief {
    pub phase: Option<String>,
    pub health: Option<String>,
    /// `Some(None)`: none runs.
    pub pid: Option<Option<i64>>,
}

pub struct Witness {
    /// What could be believed in the course of this turn, the last at its end.
    pub beliefs: Vec<Belief>,
    pub has_hole: bool,
    pub shutdown: Option<u8>,
    pub survivors: usize,
    half: Vec<u8>,
}

impl Default for Witness {
    /// A supervisor begins with clearing up, and says only what comes after it.
    fn default() -> Witness {
        let word = |text: &str| Some(text.to_owned());
        let first = Belief { phase: word("clearing"), health: word("healthy"), pid: Some(None) };
        Witness { beliefs: vec![first], has_hole: false, shutdown: None, survivors: 0, half: Vec::new() }
    }
}

impl Witness {
    pub fn belief(&self) -> Belief {
        self.beliefs.last().cloned().unwrap_or_default()
    }

    /// A new turn: what was believed at its start.
    pub fn turn_over(&mut self) {
        let last = self.belief();
        self.beliefs.clear();
        self.beliefs.push(last);
    }

    fn hear(&mut self, line: &str) -> Option<(&'static str, i64)> {
        let (_, said) = line.split_once("[supervisor] ")?;
        let mut words = said.split(' ');
        let name = words.next()?;
        let value = |key: &str| {
            said.split(' ').find_map(|word| word.strip_prefix(key)).and_then(|rest| rest.strip_prefix('='))
        };
        let mut belief = self.belief();
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        let told = match name {
            "state_changed" => {
                belief.phase = value("to").map(str::to_owned);
                belief.health = value("health").map(str::to_owned);
                "state_changed"
            }
            "claude_spawn" => {
                belief.pid = Some(number("pid"));
                "claude_spawn"
            }
            "claude_exit" => {
                belief.pid = Some(None);
                "claude_exit"
            }
            "halted" => "halted",
            "stuck" if value("action") == Some("kill") => "stuck, killed",
            "stuck" => "stuck",
            "runtime_restored" => "runtime_restored",
            "runtime_lost" => "runtime_lost",
            "restart_scheduled" => {
                return Some(("restart_scheduled", number("wait_ms").unwrap_or(-1)));
            }
            "kill_survived" => {
                self.survivors += 1;
                "kill_survived"
            }
            "shutdown" => {
                self.shutdown = number("code").and_then(|code| u8::try_from(code).ok());
                "shutdown"
            }
            _ => return None,
        };
        if belief != self.belief() {
            self.beliefs.push(belief);
        }
        Some((told, number("pid").or(number("code")).unwrap_or(0)))
    }
}

impl World {
    /// Whatever was logged since the last look.
    pub fn read_the_log(&mut self) {
        let text = symbols::seen(|seen| std::mem::take(&mut seen.log));
        self.facts.moved += u64::from(!text.is_empty());
        let mut bytes = std::mem::take(&mut self.witness.half);
        bytes.extend(text);
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.witness.half = bytes.split_off(whole);
        for line in String::from_utf8_lossy(&bytes).lines() {
            if line == "hole" {
                self.witness.has_hole = true;
                self.witness.beliefs.push(Belief::default());
                continue;
            }
            let Some((told, number)) = self.witness.hear(line) else { continue };
            self.story.note("log", told, number, line.get(..200).unwrap_or(line));
            match told {
                "halted" => {
                    let is_unheard = self.console.is_readable() || self.callers.is_start_asked();
                    self.facts.halted(is_unheard);
                }
                "restart_scheduled" => self.judge_scheduled(number),
                "claude_spawn" => self.facts.stuck = None,
                "stuck" => self.facts.stuck = Some(clock::now()),
                "stuck, killed" => self.judge_stuck(),
                _ => {}
            }
        }
    }
}
