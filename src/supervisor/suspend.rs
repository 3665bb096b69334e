//! Ctrl-Z and back.
//!
//! On its own pty the agent leads a session, and the kernel discards TSTP for the group of a
//! session leader: nobody could continue it. So agentsup does what a shell's job control would:
//! it stops the agent, gives the terminal back, and stops itself.

use std::time::{Duration, Instant};

use super::Supervisor;
use super::settings::Io;
use crate::log::{Event as LogEvent, Name};
use crate::os::front::{is_in_front, stop_until_in_front};
use crate::os::signals::{self, Arrived};
use crate::os::tty;
use crate::screen::recording::Take;

/// How long an agent may take to put its screen in order and stop by itself after Ctrl-Z.
const OWN_STOP: Duration = Duration::from_millis(250);
/// How long it may take until a STOP has stopped it.
const MADE_STOP: Duration = Duration::from_millis(500);

/// Ctrl-Z was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspending {
    /// The agent has the key, and until then to stop by itself, as claude does.
    Typed { until: Instant },
    /// By somebody who is attached: nobody would continue it, whatever parent we have.
    Elsewhere { until: Instant },
    /// It is being stopped.
    Stopped { until: Instant },
}

impl Suspending {
    pub(super) fn typed() -> Suspending {
        Suspending::Typed { until: Instant::now() + OWN_STOP }
    }

    pub(super) fn elsewhere() -> Suspending {
        Suspending::Elsewhere { until: Instant::now() + OWN_STOP }
    }

    pub(super) fn deadline(self) -> Instant {
        match self {
            Suspending::Typed { until } | Suspending::Elsewhere { until } | Suspending::Stopped { until } => {
                until
            }
        }
    }
}

impl Supervisor {
    /// The agent has stopped, by itself or because somebody stopped it.
    pub(super) fn on_agent_stopped(&mut self, signal: i32) {
        let Some(agent) = &self.agent else { return };
        if self.sweep.is_frozen() {
            // A caller's pause: nobody's Ctrl-Z.
            return;
        }
        if agent.terminal.is_some() {
            // Only after a Ctrl-Z: an agent that somebody paused is left alone.
            match self.suspending.take() {
                Some(Suspending::Elsewhere { .. }) => agent.resume(),
                Some(Suspending::Typed { .. } | Suspending::Stopped { .. }) => self.hand_over(),
                None => {}
            }
            return;
        }
        if tty::controlling().is_none() {
            return;
        }
        if matches!(signal, libc::SIGTTIN | libc::SIGTTOU) && agent.take_front() {
            // It wanted the terminal that a shell's `fg` had given to our group.
            agent.resume();
            return;
        }
        if tty::has_job_control_parent() {
            self.log.record(LogEvent::new(Name::Suspended).with("signal", signals::name(signal)));
            tty::stop_self();
            let arrived = self.inbox.take();
            self.log.record(LogEvent::new(Name::Continued));
            if let Some(agent) = &self.agent {
                agent.resume();
            }
            self.hear_after_a_stop(arrived);
        } else if signal == libc::SIGTSTP {
            // Nobody would ever continue it.
            agent.resume();
        }
    }

    /// Somebody continued us, or just said so: the terminal may have been used by others meanwhile.
    pub(super) fn on_continued(&mut self, arrived: Arrived) {
        match self.io() {
            Io::Pty if !self.console.has_terminal() => {}
            Io::Pty if is_in_front() => self.take_terminal_again(),
            Io::Pty => return self.stand_by(),
            Io::Inherit => {
                if let Some(agent) = &self.agent {
                    agent.take_front();
                }
            }
        }
        if !self.sweep.is_frozen() {
            self.forward(arrived);
        }
    }

    /// Keys are read only in front: in the background they are the shell's.
    pub(super) fn ask_for_keys(&mut self) {
        if self.console.has_terminal() && !is_in_front() {
            self.stand_by();
        }
        self.console.take_keys();
    }

    /// The time is up that was given after Ctrl-Z.
    pub(super) fn on_suspend_due(&mut self) {
        let (Some(suspending), Some(group)) =
            (self.suspending.take(), self.agent.as_ref().and_then(|a| a.group()))
        else {
            return;
        };
        match suspending {
            Suspending::Typed { .. } if tty::has_job_control_parent() => {
                let _ = signals::send_group(group, libc::SIGSTOP);
                self.suspending = Some(Suspending::Stopped { until: Instant::now() + MADE_STOP });
            }
            // An agent that waits to be continued in good faith would wait for ever.
            Suspending::Typed { .. } | Suspending::Elsewhere { .. } => {
                let _ = signals::send_group(group, libc::SIGCONT);
            }
            Suspending::Stopped { .. } => self.hand_over(),
        }
    }

    /// The agent stands still: the terminal goes to the shell until we are continued.
    fn hand_over(&mut self) {
        let Some(group) = self.agent.as_ref().and_then(|a| a.group()) else { return };
        if !tty::has_job_control_parent() {
            let _ = signals::send_group(group, libc::SIGCONT);
            return;
        }
        self.log.record(LogEvent::new(Name::Suspended).with("signal", "TSTP"));
        self.console.give_back(&self.screen.modes_off());
        self.stand_still();
    }

    /// In the background the terminal is not ours: stop, as the kernel would have it.
    pub(super) fn stand_by(&mut self) {
        if let Some(group) = self.agent.as_ref().and_then(|a| a.group()) {
            let _ = signals::send_group(group, libc::SIGSTOP);
        }
        self.log.record(LogEvent::new(Name::Suspended).with("signal", "TTIN"));
        self.stand_still();
    }

    /// Stopped until we are in front again or asked to end.
    fn stand_still(&mut self) {
        // Who knows for how long.
        self.write_recording(Take::All);
        let arrived = stop_until_in_front(&self.inbox);
        if is_in_front() {
            self.take_terminal_again();
        }
        self.log.record(LogEvent::new(Name::Continued));
        if let Some(group) = self.agent.as_ref().and_then(|a| a.group()) {
            let _ = signals::send_group(group, libc::SIGCONT);
            // Most agents draw their screen again at this one, whatever became of it meanwhile.
            let _ = signals::send_group(group, libc::SIGWINCH);
        }
        self.hear_after_a_stop(arrived);
    }

    /// As the agent left it. A full-screen program that acts on Ctrl-Z has drawn its screen again before it was
    /// stopped, and knows of no reason to do so once more.
    fn take_terminal_again(&mut self) {
        self.resize();
        let mut on = self.screen.modes_on();
        if self.own_view.is_none() {
            on.extend(self.screen.alternate_again());
        }
        self.console.take_again(&on);
    }

    /// The CONT that woke us has been acted upon: heard once more, it would undo a stop that was
    /// typed right behind it.
    fn hear_after_a_stop(&mut self, arrived: Vec<Arrived>) {
        for signal in arrived.into_iter().filter(|a| a.signal != libc::SIGCONT) {
            self.on_signal(signal);
        }
    }
}
