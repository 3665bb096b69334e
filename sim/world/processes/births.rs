//! How processes begin, and the steps at which they fail to.

use std::time::Duration;

use nix::errno::Errno;

use super::super::{Deed, World};
use super::{Role, role_name};
use crate::os::spawn::{Place, SpawnError, SpawnStep, Spec};
use crate::os::wait::How;

impl World {
    pub fn born(&mut self, role: Role, parent: i32) -> i32 {
        let pid = self.processes.born(role, parent, &mut self.rng, self.mood.is_stubborn);
        self.story.event("process", role_name(role), i64::from(pid));
        pid
    }

    pub fn can_watch(&mut self, pid: i32) -> bool {
        self.mood.can_watch && !self.has_no_descriptors() && self.processes.table.contains_key(&pid)
    }

    pub fn spawn(&mut self, spec: &Spec) -> Result<i32, SpawnError> {
        let is_agent = !matches!(spec.place, Place::Detached { .. });
        if is_agent {
            self.judge_spawn();
        }
        let refused = match () {
            _ if self.has_no_descriptors() => Some((SpawnStep::Fork, Errno::EMFILE)),
            _ if self.no_processes => Some((SpawnStep::Fork, Errno::EAGAIN)),
            _ if self.mood.is_faulty && self.rng.once_in(60) => Some((SpawnStep::Prepare, Errno::EINVAL)),
            _ if self.mood.is_faulty && self.rng.once_in(60) => Some((SpawnStep::Fork, Errno::ENOMEM)),
            _ => None,
        };
        if let Some((step, errno)) = refused {
            self.story.event("spawn", "refused", i64::from(errno as i32));
            return Err(SpawnError { step, errno });
        }
        let role = if is_agent { Role::Agent } else { Role::Helper };
        let pid = self.born(role, self.processes.me);
        self.facts.moved += 1;
        if matches!(spec.place, Place::SameGroup)
            && let Some(process) = self.processes.table.get_mut(&pid)
        {
            process.group = self.processes.me;
        }
        if is_agent {
            self.agent_is_forked(pid, spec.argv);
        }
        let soon = self.rng.span(Duration::from_millis(20));
        self.agenda.after(soon, Deed::Exec(pid));
        Ok(pid)
    }

    pub fn exec(&mut self, pid: i32) {
        if self.processes.is_stopped(pid) {
            // It goes no further before somebody continues it.
            return self.agenda.after(Duration::from_millis(50), Deed::Exec(pid));
        }
        let fails = self.mood.is_faulty && self.rng.once_in(12);
        let outcome = match fails {
            true => Err(self.failing_step()),
            false => Ok(()),
        };
        let Some(process) = self.processes.table.get_mut(&pid).filter(|process| process.is_alive()) else {
            return;
        };
        process.exec = Some(outcome);
        let role = process.role;
        match outcome {
            Ok(()) if role == Role::Agent => {
                self.story.event("exec", "done", i64::from(pid));
                self.agent_begins(pid);
            }
            Ok(()) => {
                self.story.event("exec", "done", i64::from(pid));
                let most = *self.rng.pick(&[Duration::from_secs(1), Duration::from_secs(90)]);
                let (after, code) = (self.rng.span(most), *self.rng.pick(&[0, 0, 0, 1]));
                self.agenda.after(after, Deed::Ends(pid, How::Code(code)));
                self.agenda.after(after / 2, Deed::Acts(pid));
            }
            Err(error) => {
                self.story.event("exec", error.step.name(), i64::from(pid));
                self.process_ends(pid, How::Code(125));
            }
        }
    }

    fn failing_step(&mut self) -> SpawnError {
        use SpawnStep::*;
        let steps = [
            DeathSignal,
            Setsid,
            ControllingTty,
            ProcessGroup,
            Foreground,
            Stdio,
            Chdir,
            ResetSignals,
            Exec,
            Exec,
        ];
        let errno = *self.rng.pick(&[Errno::ENOENT, Errno::EACCES, Errno::EPERM, Errno::ENOMEM]);
        SpawnError { step: *self.rng.pick(&steps), errno }
    }

    /// A pipe that is at its end means that the program runs: also that of somebody who is gone.
    pub fn outcome(&mut self, pid: i32) -> Result<(), SpawnError> {
        self.facts.moved += 1;
        self.processes.table.get(&pid).and_then(|process| process.exec).unwrap_or(Ok(()))
    }
}
