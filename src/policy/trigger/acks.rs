//! What the agent says of its triggers and of its threads.

use super::words::*;
use super::{Flight, Now, Triggers, Waiting, envelope};

impl Triggers {
    /// The agent says that it has the trigger. `None` when there is none that it could mean.
    pub fn acked(&mut self, whom: For, by: By, now: Now) -> Option<Vec<Effect>> {
        let mut effects = Vec::new();
        let is_it = |flight: &mut Flight| match whom {
            For::Id(id) => flight.status.id == id,
            // Before the Enter it can only be the thread's last one that is meant.
            For::Thread(thread) => flight.status.thread == thread && flight.sent.is_some(),
        };
        if let Some(flight) = self.flight.take_if(is_it) {
            let by = flight.step.instead().unwrap_or(by);
            self.deliver(flight.status, by, now, &mut effects);
            return Some(effects);
        }
        let For::Id(id) = whom else { return None };
        // It was typed by a supervisor of before, or the agent knows of it from elsewhere.
        if let Some(at) = self.queue.iter().position(|waiting| waiting.status.id == id) {
            let waiting = self.queue.remove(at).expect("it was just found");
            self.deliver(waiting.status, by, now, &mut effects);
            return Some(effects);
        }
        let ended = self.ended.iter_mut().find(|status| status.id == id)?;
        if matches!(ended.state, State::Failed(_)) && !ended.acked_late {
            ended.acked_late = true;
            effects.push(Effect::Tell(News::Acked { id: id.to_owned(), by, late: true }));
        }
        Some(effects)
    }

    /// A sign of the agent itself, by a heartbeat or in its output, behind the Enter.
    pub fn acked_in_flight(&mut self, by: By, now: Now) -> Vec<Effect> {
        let id = self.awaits().map(str::to_owned);
        id.and_then(|id| self.acked(For::Id(&id), by, now)).unwrap_or_default()
    }

    /// The agent says which prompt it was given. Another one proves nothing; that of a trigger which
    /// was given up proves that it came late.
    pub fn prompt_taken(&mut self, prompt: Option<&str>, now: Now) -> Vec<Effect> {
        let Some(prompt) = prompt else { return self.acked_in_flight(By::Hook, now) };
        if !envelope::is_one(prompt) {
            // The turns that follow are somebody else's.
            self.threads.leave();
        }
        let is_in = |status: &&Status| envelope::is_in(prompt, &status.id, &status.thread);
        let typed = |status: &&Status| status.attempts > 0 && !matches!(status.state, State::Delivered(_));
        let id = self.all().rev().filter(typed).find(is_in).map(|status| status.id.clone());
        id.and_then(|id| self.acked(For::Id(&id), By::Hook, now)).unwrap_or_default()
    }

    /// The agent is at work, and says so: it has the trigger, too, unless the text stands in its line.
    pub fn at_work(&mut self, stands: bool, now: Now) -> Vec<Effect> {
        match stands {
            true => Vec::new(),
            false => self.acked_in_flight(By::Hook, now),
        }
    }

    /// The agent's turn has ended.
    pub fn turn_ended(&mut self, now: Now) -> Vec<Effect> {
        let blocked = self.threads.turn_ended(&self.numbers);
        self.after_guard(blocked, now)
    }

    /// The agent gets on with a thread. The thread of an id that is not known is none.
    pub fn progress(&mut self, whom: For, finding: Option<&str>, now: Now) -> Option<Vec<Effect>> {
        let thread = match whom {
            For::Id(id) => self.status(id)?.thread.clone(),
            For::Thread(thread) => thread.to_owned(),
        };
        let mut effects = self.acked(whom, By::Progress, now).unwrap_or_default();
        let blocked = self.threads.progress(&thread, finding, &self.numbers);
        effects.extend(self.after_guard(blocked, now));
        Some(effects)
    }

    fn after_guard(&mut self, blocked: Option<(String, Guard)>, now: Now) -> Vec<Effect> {
        let Some((thread, why)) = blocked else { return Vec::new() };
        let mut effects = vec![Effect::Tell(News::Blocked { thread: thread.clone(), why })];
        let is_of_it = |waiting: &Waiting| waiting.asked.thread == thread;
        let (out, rest): (Vec<Waiting>, Vec<Waiting>) = self.queue.drain(..).partition(is_of_it);
        self.queue = rest.into();
        for waiting in out {
            self.end(waiting.status, State::Failed(Failure::ThreadBlocked), now, &mut effects);
        }
        effects
    }

    /// False when the thread was not blocked.
    pub fn unblock(&mut self, thread: &str) -> bool {
        self.threads.unblock(thread)
    }
}
