//! What happens next, of all that could.

use super::World;
use super::processes::{OUTSIDE, Role};
use crate::mood::{Stdin, Stop};
use crate::os::signals::Arrived;
use crate::os::wait::How;

impl World {
    pub fn something_happens(&mut self) {
        if self.deeds_left == 0 {
            return self.somebody_wants_an_end();
        }
        self.deeds_left -= 1;
        if self.mood.is_bridged && self.rng.once_in(8) {
            return self.somebody_triggers();
        }
        match self.rng.below(100) {
            0..35 => self.somebody_calls(),
            35..50 => self.operator_types(),
            50..56 => self.some_signal_arrives(),
            56..62 if self.mood.is_faulty => self.trouble(),
            62..64 => self.clock_jumps(),
            64..66 if self.mood.is_faulty && self.rng.once_in(40) => self.reader_leaves(),
            66..72 => self.a_process_ends(),
            72..75 => self.a_process_appears(),
            75..77 => self.the_program_changes(),
            77..90 => self.agent_is_quick(),
            90 if self.mood.is_faulty && !self.mood.is_init => self.somebody_tidies(),
            _ => {}
        }
    }

    /// Every now and then, until there is one.
    fn somebody_wants_an_end(&mut self) {
        self.deeds_left = 20;
        self.ends_wanted += 1;
        let how = *self.rng.pick(&[Stop::Signal, Stop::Signal, Stop::Call, Stop::Kill, Stop::Terminal]);
        self.wants_an_end(if self.ends_wanted > 2 { Stop::Signal } else { how });
    }

    /// In some lives it is one phase that brings somebody to it.
    pub fn end_if_it_is_time(&mut self) {
        if let Some((phase, how)) = self.mood.end
            && phase == self.facts.phase()
        {
            self.mood.end = None;
            self.wants_an_end(how);
        }
    }

    fn wants_an_end(&mut self, how: Stop) {
        match how {
            Stop::Call if !self.mood.is_init => self.asks_to_stop(true),
            Stop::Kill if !self.mood.is_init => self.asks_to_stop(false),
            Stop::Terminal if self.mood.stdin == Stdin::Terminal => self.terminal_goes(),
            Stop::Signal | Stop::Call | Stop::Kill | Stop::Terminal => {
                let signal = *self.rng.pick(&[libc::SIGTERM, libc::SIGTERM, libc::SIGINT]);
                self.arrives(signal, true);
            }
        }
    }

    pub fn arrives(&mut self, signal: i32, sent: bool) {
        let sender = if sent { *self.rng.pick(&[OUTSIDE, 0, 5]) } else { 0 };
        self.inbox.push(Arrived { signal, sent, sender });
        self.story.event("signal", "", i64::from(signal));
    }

    fn some_signal_arrives(&mut self) {
        let harmless =
            [libc::SIGWINCH, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT, libc::SIGHUP, libc::SIGCHLD, 40];
        let ends = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];
        let signal = if self.rng.once_in(40) { *self.rng.pick(&ends) } else { *self.rng.pick(&harmless) };
        let sent = !self.rng.once_in(4);
        self.arrives(signal, sent);
        if self.rng.once_in(8) {
            // A shell's `kill %1`: the process, then its group.
            self.arrives(signal, sent);
        }
    }

    fn a_process_ends(&mut self) {
        let Some(pid) = self.processes.any_child(&mut self.rng) else { return };
        let is_agent = self.processes.role(pid) == Some(Role::Agent);
        match self.rng.below(4) {
            0 => self.process_ends(pid, How::Signal(libc::SIGKILL)),
            1 if !is_agent => self.process_ends(pid, How::Code(0)),
            2 => self.kill(pid, libc::SIGSTOP),
            _ => self.kill(pid, libc::SIGCONT),
        }
    }

    fn a_process_appears(&mut self) {
        if let Some(parent) = self.processes.any_child(&mut self.rng) {
            self.born_below(parent);
        }
        if self.mood.is_pid_1 && self.rng.once_in(4) {
            self.born(Role::Outsider, 0);
        }
    }

    /// An update removes it, and puts it back.
    fn the_program_changes(&mut self) {
        use std::os::unix::fs::PermissionsExt;
        if !self.mood.is_faulty || !self.rng.once_in(3) {
            return;
        }
        let mode = *self.rng.pick(&[0o755, 0o755, 0o600]);
        let program = self.dir.join("agent");
        let _ = std::fs::set_permissions(program, std::fs::Permissions::from_mode(mode));
        self.story.event("program", "changed", mode.into());
    }

    /// Agents do more than others.
    fn agent_is_quick(&mut self) {
        if let Some(pid) = self.foreground().filter(|pid| self.processes.is_at_work(*pid)) {
            self.agent_acts(pid);
        }
    }
}
