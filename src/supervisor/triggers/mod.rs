//! Triggers: what callers ask for, what the agent says of them, and whatever the machine in `policy`
//! wants done about it.

mod calls;
mod fallback;
mod file;
mod telling;

use std::time::Instant;

use super::{Charge, Supervisor, figures, now};
use crate::control::protocol::{Body, Code, Error};
use crate::policy::activity::Word;
use crate::policy::life::Phase;
use crate::policy::trigger::{Agent, By, Effect, Numbers, State, Triggers, Typed, World, envelope};
use crate::policy::typing::{Ground, Job};
use crate::screen::Screen;
use crate::screen::marker::Watch;
use file::{Kept, Line};
use telling::{body, said};

/// What the supervisor knows of triggers.
pub(super) struct Bridge {
    pub(super) triggers: Triggers,
    /// What is typed for the one that is under way.
    ticket: Option<u64>,
    /// Looks for its acknowledgement in the agent's output.
    watch: Option<Watch>,
    /// Typing has told something that the machine has not acted on yet.
    moved: bool,
    /// The agent says that it is in the middle of a turn.
    pub(super) in_turn: bool,
    /// When the agent itself last gave a sign.
    pub(super) heartbeat: Option<f64>,
    /// Where triggers are kept for the session's next supervisor.
    kept: Option<Kept>,
    /// The operator was told that they are not.
    told_unkept: bool,
}

impl Bridge {
    pub(super) fn new(numbers: Numbers) -> Bridge {
        Bridge {
            triggers: Triggers::new(numbers),
            ticket: None,
            watch: None,
            moved: false,
            in_turn: false,
            heartbeat: None,
            kept: None,
            told_unkept: false,
        }
    }

    /// What stood in the way may have gone.
    pub(super) fn stir(&mut self) {
        self.moved = true;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.triggers.wake()
    }

    /// The answer to who waits for this trigger, once there is one.
    pub(super) fn answer(&self, id: &str) -> Option<Result<Body, Error>> {
        let Some(status) = self.triggers.status(id) else {
            return Some(Err(Error::new(Code::NotFound, "the trigger ended, and too many others since")));
        };
        match status.state {
            State::Delivered(_) => Some(Ok(body(status))),
            State::Failed(failure) => {
                let (code, message) = said(failure);
                Some(Err(Error::new(code, format!("trigger {id}: {message}"))))
            }
            State::Queued | State::Deferred | State::Triggering | State::AwaitingAck | State::FallingBack => {
                None
            }
        }
    }
}

impl Supervisor {
    /// By a verb of its own.
    pub(super) fn note_heartbeat(&mut self) {
        self.note_sign();
        self.activity.note_spoke();
    }

    pub(super) fn note_sign(&mut self) {
        self.bridge.heartbeat = Some(figures::epoch());
        self.activity.says(Word::Sign, Instant::now());
    }

    /// The agent says which prompt it was given.
    pub(super) fn trigger_prompted(&mut self, prompt: Option<&str>) {
        self.bridge.in_turn = true;
        let effects = self.bridge.triggers.prompt_taken(prompt, now());
        self.perform_triggers(effects);
    }

    pub(super) fn trigger_turn_ended(&mut self) {
        self.bridge.in_turn = false;
        let effects = self.bridge.triggers.turn_ended(now());
        self.perform_triggers(effects);
        self.agent_at_work();
    }

    /// The agent says something of itself that names no trigger.
    pub(super) fn agent_at_work(&mut self) {
        if self.bridge.triggers.awaits().is_some() {
            let stands = ends_with_trigger(&self.screen);
            let effects = self.bridge.triggers.at_work(stands, now());
            self.perform_triggers(effects);
        }
    }

    pub(super) fn look_for_ack(&mut self, output: &[u8]) {
        if self.bridge.watch.as_mut().is_some_and(|watch| watch.feed(output)) {
            let effects = self.bridge.triggers.acked_in_flight(By::Marker, now());
            self.perform_triggers(effects);
        }
    }

    /// After every turn of the loop: triggers and all other typing, as far as they can go now.
    pub(super) fn deliver_and_type(&mut self) {
        loop {
            let is_waited_for =
                self.desk.has_work() || self.recovery.comes_first() || self.bridge.triggers.has_work();
            self.note_when_line_opens(is_waited_for);
            if is_waited_for {
                self.see_to_stray();
            }
            self.see_to_recovery();
            self.see_to_triggers();
            self.type_on();
            let has_news = !self.events.is_empty();
            self.settle();
            if !std::mem::take(&mut self.bridge.moved) && !has_news {
                return;
            }
        }
    }

    fn see_to_triggers(&mut self) {
        // On the way out none is begun: they wait for the session's next supervisor.
        let triggers = &self.bridge.triggers;
        let has_work = triggers.has_work() || matches!(self.life.phase(), Phase::Away { .. });
        if !has_work || self.is_leaving() && triggers.awaits().is_none() {
            return;
        }
        let ground = self.ground();
        let takes_keys = matches!(self.life.phase(), Phase::Running { .. }) && !self.sweep.is_frozen();
        let (screen, charge) = (&self.screen, &self.charge);
        let world = World {
            agent: standing(&ground, self.life.phase()),
            is_ready: ground.is_ready && takes_keys && !self.recovery.comes_first(),
            has_draft: ground.has_draft,
            is_held: !takes_keys,
            is_working: self.bridge.in_turn,
            confirms: self.agent_confirms,
            heard_at: self.bridge.heartbeat.unwrap_or(self.tally.spawned_epoch) as u64,
            last_key: self.desk.last_key(),
            stands: &|| ends_with_trigger(screen),
            can: &|| fallback::can(charge),
        };
        let effects = self.bridge.triggers.turn(&world, now());
        self.perform_triggers(effects);
    }

    fn perform_triggers(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Type { text, force } => {
                    self.keep(self.bridge.triggers.last().map(|id| Line::Typing(id.to_owned())));
                    self.type_trigger(text, force);
                }
                Effect::PressEnter => self.type_trigger(String::new(), false),
                Effect::MakeRoom => self.make_room(),
                Effect::Call { text, fork } => {
                    self.keep(self.bridge.triggers.last().map(|id| Line::Typing(id.to_owned())));
                    self.carry(&text, fork);
                }
                Effect::EndCall => self.end_call(),
                Effect::ComeBack => self.come_back(),
                Effect::BeginAnew => self.begin_anew(),
                Effect::Tell(news) => self.tell_trigger(news),
            }
        }
    }

    fn type_trigger(&mut self, text: String, force: bool) {
        let ticket = self.desk.next_ticket();
        self.bridge.ticket = Some(ticket);
        // Whether the agent confirms is this machine's business: here it is only typed.
        let job = Job { ticket, text, submit: true, force, confirms: false };
        if let Err(refusal) = self.desk.ask(job) {
            self.trigger_typed(ticket, Err(refusal));
        }
    }

    /// True when it was a trigger's.
    pub(super) fn trigger_typed(&mut self, ticket: u64, typed: Typed) -> bool {
        if self.bridge.ticket != Some(ticket) {
            return false;
        }
        self.bridge.ticket = None;
        self.bridge.moved = true;
        let effects = self.bridge.triggers.typed(typed, now());
        self.perform_triggers(effects);
        let last = self.bridge.triggers.last().and_then(|id| self.bridge.triggers.status(id));
        self.keep(last.filter(|last| last.state == State::Queued).map(|last| Line::Back(last.id.clone())));
        true
    }

    /// Whatever an earlier supervisor of this session left is ours now.
    pub(super) fn take_over_triggers(&mut self) {
        let Charge::Run(session) = &self.charge else { return };
        let (kept, left) = Kept::open(session.settings.state_dir.triggers(&session.settings.wish.session.id));
        let is_new = left == Default::default();
        self.bridge.kept = Some(kept);
        let effects = self.bridge.triggers.restore(left, now());
        self.perform_triggers(effects);
        if !is_new {
            self.keep_anew();
        }
    }

    /// One more line, if there is one.
    fn keep(&mut self, line: Option<Line>) {
        let Bridge { kept, triggers, .. } = &mut self.bridge;
        let (Some(kept), Some(line)) = (kept, line) else { return };
        // What cannot be added to, a fifo for one, is replaced as a whole.
        let written = kept.append(&line).or_else(|_| kept.write_anew(triggers));
        let is_long = kept.is_long();
        self.tell_kept(written);
        if is_long {
            self.keep_anew();
        }
    }

    pub(super) fn keep_anew(&mut self) {
        let Bridge { kept: Some(kept), triggers, .. } = &mut self.bridge else { return };
        let written = kept.write_anew(triggers);
        self.tell_kept(written);
    }

    /// What cannot be kept is delivered all the same, as long as this supervisor lives.
    fn tell_kept(&mut self, written: std::io::Result<()>) {
        match written {
            Ok(()) => self.bridge.told_unkept = false,
            Err(error) if !self.bridge.told_unkept => {
                self.bridge.told_unkept = true;
                self.console.tell(&format!("triggers cannot be kept for the next supervisor: {error}"));
            }
            Err(_) => {}
        }
    }

    fn keep_end(&mut self, id: &str) {
        self.keep(self.bridge.triggers.status(id).and_then(file::ended));
    }
}

fn standing(ground: &Ground, phase: &Phase) -> Agent {
    match phase {
        _ if ground.is_running => Agent::Up,
        Phase::Away { .. } => Agent::Away,
        Phase::Clearing { .. }
        | Phase::Preparing { .. }
        | Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Restarting { .. } => Agent::Coming,
        Phase::Waiting { .. }
        | Phase::Asking
        | Phase::Halted
        | Phase::Telling { .. }
        | Phase::Stopping { .. }
        | Phase::Ended => Agent::Down,
    }
}

/// Whether the text before the cursor is a trigger that was not sent. Without a screen nobody knows.
fn ends_with_trigger(screen: &Screen) -> bool {
    screen.before_cursor().is_some_and(|text| envelope::ends(&text))
}
