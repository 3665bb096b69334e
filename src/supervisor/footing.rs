//! What stands for us in the state dir: the lock, by which nobody else takes the session, and the socket,
//! by which callers find us. Whoever cleans up around us (`git clean` in a project, an agent that tidies
//! `/run`) may take them away, and we live on: they are put back.
//!
//! Nothing is watched and no timer runs for it: we look when we are awake anyway, because a signal came,
//! the phase changed, a ticket is to be claimed, or, at most once a second, the agent wrote something.

use std::time::{Duration, Instant};

use super::{Charge, Supervisor, calls, start};
use crate::log::{Event, Name};
use crate::os::lock;
use crate::session::state_dir;

const SELDOM: Duration = Duration::from_secs(1);
const LOCK: &str = "lock";
const SOCKET: &str = "socket";

#[derive(Default)]
pub(super) struct Footing {
    wanted: bool,
    looked: Option<Instant>,
    /// Why it could not be put back, as was told.
    trouble: Option<String>,
}

impl Footing {
    /// The agent has written something.
    pub(super) fn look_seldom(&mut self) {
        self.wanted |= self.looked.is_none_or(|at| at.elapsed() >= SELDOM);
    }

    /// Something happened that does not happen often.
    pub(super) fn look(&mut self) {
        self.wanted = true;
    }

    /// Whether what lies in the state dir is, or may be, somebody else's.
    pub(super) fn is_lost(&self) -> bool {
        self.trouble.is_some()
    }

    /// Why it is.
    pub(super) fn lost(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl Supervisor {
    pub(super) fn keep_footing(&mut self) {
        if !std::mem::take(&mut self.footing.wanted) || self.ending.is_some() {
            return;
        }
        let Charge::Run(session) = &self.charge else { return };
        self.footing.looked = Some(Instant::now());
        let dir = &session.settings.state_dir;
        let log = dir.log(&session.settings.wish.session.id);
        let standing = [
            (LOCK, session.lock.stands()),
            (SOCKET, self.calls.as_ref().is_none_or(|calls| calls.server.stands())),
            ("logs", log.parent().is_some_and(|dir| dir.is_dir())),
            ("claims", dir.claims().is_dir()),
        ];
        let gone: Vec<&str> = standing.iter().filter(|(_, stands)| !stands).map(|(name, _)| *name).collect();
        if gone.is_empty() {
            self.footing.trouble = None;
            return;
        }
        let names = gone.join(",");
        match self.put_back(&gone) {
            Ok(()) => {
                self.footing.trouble = None;
                self.tally.registry_drift += 1;
                self.log.record(Event::new(Name::RuntimeRestored).with("names", &names));
                self.console.tell(&format!("removed from the state dir by somebody, and put back: {names}"));
                self.write_record();
                self.keep_anew();
            }
            Err(why) if self.footing.trouble.as_ref() != Some(&why) => {
                self.tally.registry_drift += 1;
                self.log.record(Event::new(Name::RuntimeLost).with("names", &names).with("error", &why));
                let text = "removed from the state dir by somebody, and cannot be put back";
                self.console.tell(&format!("{text}: {names}: {why}"));
                self.footing.trouble = Some(why);
            }
            Err(_) => {}
        }
    }

    /// The lock first: without it the place may be another supervisor's.
    fn put_back(&mut self, gone: &[&str]) -> Result<(), String> {
        let Charge::Run(session) = &mut self.charge else { return Ok(()) };
        let settings = &session.settings;
        state_dir::make(std::slice::from_ref(&settings.state_dir)).map_err(|refusal| refusal.to_string())?;
        if gone.contains(&LOCK) {
            session.lock = start::take_session(settings).map_err(|refused| refused.message)?;
        }
        if let (Some(calls), Some(socket), true) = (&mut self.calls, &settings.socket, gone.contains(&SOCKET))
        {
            calls.server.listen_on(calls::listen(settings, socket).map_err(|refused| refused.message)?);
        }
        Ok(())
    }

    /// Who has the session now, if that is somebody else: one session has one agent, and it is theirs.
    pub(super) fn taken_by_another(&self) -> Option<&str> {
        let Charge::Run(session) = &self.charge else { return None };
        let lock = session.settings.state_dir.lock(&session.settings.wish.session.id);
        let is_theirs = || !session.lock.stands() && lock::is_held(&lock).is_ok_and(|held| held);
        self.footing.trouble.as_deref().filter(|_| is_theirs())
    }
}
