//! What an earlier supervisor of this session left behind, and, for a child of a node, what its agent did: ended
//! before the next agent is started. `policy::life` says when, `sweep` ends it.

use std::ffi::OsString;

use super::settings::Settings;
use super::{Charge, Supervisor, below, kin};
use crate::log::{Event as LogEvent, Name};
use crate::os::freezer;
use crate::os::procfs::{self, Process};
use crate::policy::life::{Phase, Whose};
use crate::policy::stop::Order;
use crate::session::Wish;

impl Supervisor {
    pub(super) fn end_leftovers(&mut self, whose: Whose, order: Order) {
        if order == Order::GiveUp {
            self.stop_noting();
        }
        if whose == Whose::EarlierSupervisor && matches!(&self.charge, Charge::Run(s) if s.has_past) {
            freezer::remove_empty(self.session_id());
        }
        match order {
            Order::GiveUp => {
                let survivors = self.sweep.living_strangers();
                self.tell_survivors(survivors);
            }
            // There is none.
            Order::KillAgent => {}
            Order::Term | Order::KillAll => self.look_for_leftovers(whose),
        }
    }

    /// Those that were known have gone, and may have started somebody before: only a look that finds nobody says
    /// that nothing is left.
    pub(super) fn look_again(&mut self) {
        if let Phase::Clearing { whose, .. } = *self.life.phase() {
            self.look_for_leftovers(whose);
        }
    }

    fn look_for_leftovers(&mut self, whose: Whose) {
        self.sweep.strangers_left();
        let found = self.left_by(whose);
        let count = self.sweep.adopt(found);
        if count == 0 {
            return self.on_leftovers_gone();
        }
        let is_late = matches!(self.life.phase(), Phase::Clearing { stop, .. } if stop.has_killed());
        if is_late {
            let mut sweep = std::mem::replace(&mut self.sweep, super::Sweep::new());
            sweep.kill_whoever(|| self.left_by(whose));
            self.sweep = sweep;
        } else {
            self.sweep.term_strangers();
        }
        let event = LogEvent::new(Name::LeftoversEnded)
            .with("count", count)
            .with("signal", if is_late { "KILL" } else { "TERM" });
        self.log.record(event);
    }

    fn left_by(&self, whose: Whose) -> Vec<Process> {
        let Charge::Run(session) = &self.charge else {
            // `init` has no session that could have left anything.
            return vec![];
        };
        match whose {
            Whose::EarlierSupervisor if !session.has_past => vec![],
            Whose::EarlierSupervisor => marked(&session.settings),
            Whose::Agent if !self.sweep.keeps_orphans() => marked(&session.settings),
            Whose::Agent => self.sweep.below_us_but(&self.helper_pids()),
        }
    }
}

/// Another supervisor of this session, which lives although its files were removed or moved away: what it started
/// is no leftover. Known by its log, which it keeps open.
pub(super) fn living_supervisor(settings: &Settings) -> Option<i32> {
    let log = settings.state_dir.log(&settings.wish.session.id);
    let log = log.strip_prefix(&settings.state_dir.path).unwrap_or(&log);
    let me = std::process::id().cast_signed();
    let is_it = |pid: &i32| *pid != me && procfs::has_open(*pid, log);
    marked(settings).iter().find_map(|process| kin::ancestors(process.pid).find(is_it))
}

/// What says by its environment to be of this session.
pub(super) fn marked(settings: &Settings) -> Vec<Process> {
    match settings.node {
        None => procfs::with_environment(&marks(&settings.wish)),
        Some(_) => below::left(&settings.state_dir, &settings.wish.session.id),
    }
}

/// What the environment of everything that this session starts holds, and of nothing else.
fn marks(wish: &Wish) -> [OsString; 2] {
    [
        procfs::variable("AGENT_DOC_SESSION", wish.session.id.as_ref()),
        procfs::variable("AGENTSUP_SOCKET", wish.socket.as_os_str()),
    ]
}
