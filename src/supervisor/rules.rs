//! `[[rule]]`: what the agent is measured by, and what is done when a rule is met. `policy` says when.

use std::time::{Duration, Instant};

use serde_json::json;

use super::helper::{self, Helper, Kind, Speaks};
use super::{Charge, Supervisor};
use crate::control::protocol::{Error, Receipt};
use crate::log::{Event as LogEvent, Name};
use crate::os::wait::How;
use crate::policy::activity::Doing;
use crate::policy::life::{Event, Phase};
use crate::policy::rules::{Fired, Rule, Rulebook, Then, When, World};
use crate::policy::typing::{Job, text};
use crate::session::{Profile, Start};

/// How long a command of `notify` may take.
const NOTICE_PATIENCE: Duration = Duration::from_secs(60);
/// What the terminal shows so soon after something was typed into it may be nothing but that.
const ECHO: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Rules {
    pub(super) book: Rulebook,
    signs: Signs,
    heard: Option<Instant>,
    /// Until then output may be an echo.
    echo_until: Option<Instant>,
    /// What had been said to agents when this one began.
    said_before: u64,
    /// Since when it was idle when that was last looked at.
    idle: Option<Instant>,
    /// Warnings that are to be typed, and whose they are.
    warnings: Vec<(u64, usize)>,
    notices: Vec<Notice>,
}

/// So far; more of any but `typed` ends a silence.
#[derive(Clone, Copy, Default, PartialEq)]
struct Signs {
    output: u64,
    word: Option<f64>,
    keys: u64,
    typed: u64,
}

/// A command that runs for a rule.
struct Notice {
    pid: i32,
    nth: usize,
    until: Instant,
    is_ended: bool,
}

impl Rules {
    pub(super) fn new(rules: Vec<Rule>) -> Rules {
        Rules { book: Rulebook::new(rules), ..Rules::default() }
    }

    fn deadline(&self) -> Option<Instant> {
        let notices = self.notices.iter().filter(|notice| !notice.is_ended).map(|notice| notice.until);
        notices.chain(self.book.wake()).min()
    }

    /// How often something was done, by what.
    pub(super) fn counts(&self) -> [(&'static str, u64); 6] {
        Then::NAMES.map(|name| {
            let of = self.book.times().filter(|(rule, _)| rule.then.name() == name);
            (name, of.map(|(_, times)| times).sum())
        })
    }
}

impl Supervisor {
    /// In every turn, when all that happened in it is known.
    pub(super) fn keep_rules(&mut self) {
        if self.rules.book.counts_tokens() && self.bridge.heartbeat != self.rules.signs.word {
            // Subagents write files of their own, which nobody watches.
            self.counting.ask();
        }
        self.count_on();
        if self.rules.book.is_empty() {
            return;
        }
        let now = Instant::now();
        self.end_slow_notices(now);
        self.listen(now);
        let idle = self.idle_since();
        self.rules.idle = idle;
        let screen = &self.screen;
        let world = World {
            running: match self.life.phase() {
                Phase::Running { since, .. } => Some(*since),
                _ => None,
            },
            is_coming: matches!(self.life.phase(), Phase::Waiting { .. }),
            is_paused: self.sweep.is_frozen(),
            restarts: self.life.restarts(),
            tokens: self.counting.spent.tokens.total(),
            heard: self.rules.heard,
            idle,
            repeats: self.repeats(),
            drawn: self.tally.output_bytes,
            shows: &|text| screen.shows(text),
        };
        for fired in self.rules.book.turn(&world, now) {
            self.obey(&fired);
        }
    }

    /// Of a conversation that goes on, and into which nobody has said anything yet, the screen shows what was.
    fn repeats(&self) -> bool {
        let continues = self.spawned_as == Start::Continue && self.profile().is_known();
        continues && self.said() == self.rules.said_before
    }

    /// Its own word for it, where it has one: keys need not be prompts.
    fn said(&self) -> u64 {
        if self.agent_confirms { self.activity.counts.prompts } else { self.desk.typed() }
    }

    fn listen(&mut self, now: Instant) {
        let signs = Signs {
            output: self.tally.output_bytes,
            word: self.bridge.heartbeat,
            keys: self.desk.keys(),
            typed: self.desk.typed(),
        };
        let before = std::mem::replace(&mut self.rules.signs, signs);
        if signs.typed != before.typed {
            self.rules.echo_until = Some(now + ECHO);
        }
        let is_echo = self.rules.echo_until.is_some_and(|until| now < until);
        let is_output = signs.output != before.output && !is_echo;
        if is_output || (signs.word, signs.keys) != (before.word, before.keys) {
            self.rules.heard = Some(now);
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        (self.activity.doing() == Doing::Idle).then(|| self.activity.since())
    }

    pub(super) fn rules_deadline(&self) -> Option<Instant> {
        // What it does may have become known behind the look at the rules.
        let is_late = !self.rules.book.is_empty() && self.idle_since() != self.rules.idle;
        if is_late { Some(Instant::now()) } else { self.rules.deadline() }
    }

    fn obey(&mut self, fired: &Fired) {
        let Some(rule) = self.rules.book.rule(fired.nth).cloned() else { return };
        let event = LogEvent::new(Name::RuleFired)
            .with("rule", rule.name)
            .with("when", rule.when.name())
            .with("then", rule.then.name())
            .with("value", &fired.value);
        self.log.record(event);
        let told = |what: &str| format!("rule {}, {} {}: {what}", rule.name, rule.when.name(), fired.value);
        match &rule.then {
            Then::Log => {}
            Then::Notify(command) => self.give_notice(fired, &rule, command),
            Then::Warn(text) => self.warn(fired.nth, text),
            Then::Pause => {
                if self.freeze().is_none() {
                    self.tell_rule_failed(fired.nth, "no agent is running");
                }
            }
            Then::Restart => {
                self.console.tell(&told("the agent is started again"));
                self.sweep.thaw();
                self.events.push_back(Event::RuleRestarts);
            }
            Then::Reap => {
                self.console.tell(&told("the agent is ended"));
                self.events.push_back(Event::ReapAsked { rule: rule.name });
            }
        }
    }

    fn tell_rule_failed(&mut self, nth: usize, why: &str) {
        let Some(rule) = self.rules.book.rule(nth) else { return };
        let event = LogEvent::new(Name::RuleFailed)
            .with("rule", rule.name)
            .with("then", rule.then.name())
            .with("error", why);
        self.log.record(event);
    }

    fn give_notice(&mut self, fired: &Fired, rule: &Rule, command: &[String]) {
        if self.rules.notices.iter().any(|notice| notice.nth == fired.nth) {
            return self.tell_rule_failed(fired.nth, "its last command still runs");
        }
        let Charge::Run(session) = &self.charge else { return };
        let told = json!({
            "event": Name::RuleFired.as_str(),
            "session": session.settings.wish.session.id,
            "rule": rule.name,
            "when": rule.when.name(),
            "then": rule.then.name(),
            "value": self.log.mask(&fired.value),
            "restart_count": self.life.restarts(),
        });
        let is_shown =
            self.console.shows_agent() && self.agent.as_ref().is_some_and(|a| a.terminal.is_some());
        let speaks = if is_shown { Speaks::ToNobody } else { Speaks::OnStderr };
        match helper::start_beside(Kind::Rule, command, &told, &session.settings.wish.started_in, speaks) {
            Ok(helper) => {
                let until = Instant::now() + NOTICE_PATIENCE;
                self.rules.notices.push(Notice { pid: helper.pid, nth: fired.nth, until, is_ended: false });
                self.helpers.push(helper);
            }
            Err(error) => self.tell_rule_failed(fired.nth, &error),
        }
    }

    fn end_slow_notices(&mut self, now: Instant) {
        for notice in self.rules.notices.iter_mut().filter(|notice| now >= notice.until && !notice.is_ended) {
            notice.is_ended = true;
            self.sweep.kill_under(notice.pid);
        }
    }

    /// A stop waits for none of them.
    pub(super) fn end_notices(&mut self) {
        for notice in &mut self.rules.notices {
            notice.is_ended = true;
            self.sweep.kill_under(notice.pid);
        }
    }

    pub(super) fn on_notice_ended(&mut self, helper: &Helper, how: How) {
        let Some(at) = self.rules.notices.iter().position(|notice| notice.pid == helper.pid) else { return };
        let Notice { nth, is_ended, .. } = self.rules.notices.swap_remove(at);
        let name = self.rules.book.rule(nth).map(|rule| rule.name);
        let event = LogEvent::new(Name::Notify)
            .with("pid", helper.pid)
            .with("code", how.exit_code())
            .maybe("rule", name);
        self.log.record(event);
        match (how, helper.spawning.outcome()) {
            (How::Code(0), _) => {}
            (_, Err(error)) => self.tell_rule_failed(nth, &format!("the command could not be run: {error}")),
            _ if is_ended && self.is_leaving() => self.tell_rule_failed(nth, "cut short by the stop"),
            _ if is_ended => self.tell_rule_failed(nth, "the command took too long and was ended"),
            (how, Ok(())) => self.tell_rule_failed(nth, &format!("exit code {}", how.exit_code())),
        }
    }

    /// As `send` does it, but nobody waits for the receipt.
    fn warn(&mut self, nth: usize, given: &str) {
        let mut text = text::clean(given);
        if self.running_pid().is_none() || self.sweep.is_frozen() {
            return self.tell_rule_failed(nth, "no agent is running, or it is paused");
        }
        if self.profile() != Profile::Other {
            text::end_for_enter(&mut text);
        }
        let ticket = self.desk.next_ticket();
        let job = Job { ticket, text, submit: true, force: false, confirms: self.agent_confirms };
        match self.desk.ask(job) {
            Ok(()) => self.rules.warnings.push((ticket, nth)),
            Err(_) => self.tell_rule_failed(nth, "too many texts wait to be typed"),
        }
    }

    /// True when it was a rule's.
    pub(super) fn rule_typed(&mut self, ticket: u64, typed: &Result<Receipt, Error>) -> bool {
        let Some(at) = self.rules.warnings.iter().position(|(of, _)| *of == ticket) else { return false };
        let (_, nth) = self.rules.warnings.swap_remove(at);
        match typed {
            Ok(receipt) => {
                let name = self.rules.book.rule(nth).map(|rule| rule.name);
                let event = LogEvent::new(Name::Send).maybe("rule", name).with("receipt", receipt.name());
                self.log.record(event);
            }
            Err(error) => self.tell_rule_failed(nth, &error.message),
        }
        true
    }

    /// At every start of the agent.
    pub(super) fn begin_run(&mut self) {
        self.rules.said_before = self.said();
        // One that we have begun is known by now.
        self.conversation_changed(self.spawned_as == Start::Continue);
    }

    /// `is_old`: what stands in it was said before our time.
    pub(super) fn conversation_changed(&mut self, is_old: bool) {
        let follow = self.rules.book.counts_tokens();
        if let (Err(why), true) = (self.count_from_here(is_old, follow), follow) {
            self.tell_uncounted(&why);
        }
    }

    pub(super) fn on_counts(&mut self) {
        if let Err(why) = self.on_counted_file() {
            self.tell_uncounted(&why);
        }
    }

    fn tell_uncounted(&mut self, why: &str) {
        let all = self.rules.book.times().enumerate();
        let blind: Vec<usize> = all
            .filter(|(_, (rule, _))| matches!(rule.when, When::MaxTokens(_)))
            .map(|(nth, _)| nth)
            .collect();
        for nth in blind {
            self.tell_rule_failed(nth, why);
        }
    }
}
