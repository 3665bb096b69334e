//! Ctrl-Z and back.
//!
//! On its own pty the agent leads a session, and the kernel discards TSTP for the group of a
//! session leader: nobody could continue it. So agentsup does what a shell's job control would:
//! it stops the agent, gives the terminal back, and stops itself.

use super::Supervisor;
use crate::log::{Event as LogEvent, Name};
use crate::os::{signals, tty};

impl Supervisor {
    /// The agent has stopped, by itself or because somebody stopped it.
    pub(super) fn on_agent_stopped(&mut self, signal: i32) {
        let Some(agent) = &self.agent else { return };
        if agent.terminal.is_some() {
            // Only after a Ctrl-Z: an agent that somebody paused is left alone.
            if self.suspend_at.is_some() {
                self.suspend();
            }
            return;
        }
        if tty::controlling().is_none() {
            return;
        }
        if tty::has_job_control_parent() {
            self.log.record(LogEvent::new(Name::Suspended).with("signal", signals::name(signal)));
            tty::stop_self();
            self.log.record(LogEvent::new(Name::Continued));
            if let Some(agent) = &self.agent {
                agent.resume();
            }
        } else if signal == libc::SIGTSTP {
            // Nobody would ever continue it.
            agent.resume();
        }
    }

    /// Ctrl-Z in front of the agent's own terminal.
    pub(super) fn suspend(&mut self) {
        self.suspend_at = None;
        let Some(group) = self.agent.as_ref().and_then(|a| a.group()) else { return };
        if !tty::has_job_control_parent() {
            // An agent that has suspended itself in good faith is woken again.
            let _ = signals::send_group(group, libc::SIGCONT);
            return;
        }
        let _ = signals::send_group(group, libc::SIGSTOP);
        self.log.record(LogEvent::new(Name::Suspended).with("signal", "TSTP"));
        self.console.give_back();
        stop_until_in_front();
        self.console.take_again();
        self.log.record(LogEvent::new(Name::Continued));
        self.resize();
        let _ = signals::send_group(group, libc::SIGCONT);
        // Most agents draw their screen again at this one, whatever became of it meanwhile.
        let _ = signals::send_group(group, libc::SIGWINCH);
    }
}

/// Whether the terminal on stdin is ours to use. True without one, and where nobody could ever
/// bring us to the front.
pub(super) fn is_in_front() -> bool {
    tty::foreground(tty::stdin()).is_none_or(|group| group == tty::own_group())
        || !tty::has_job_control_parent()
}

/// Continued in the background (`bg`) the terminal is not ours to touch: stop again, as the kernel
/// would do to any program that writes line settings there.
pub(super) fn stop_until_in_front() {
    loop {
        tty::stop_self();
        if is_in_front() {
            return;
        }
    }
}
