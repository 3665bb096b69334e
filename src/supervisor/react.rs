//! Signals, children, bytes and keys become events.

use std::time::{Duration, Instant};

use super::buffer::PIECE;
use super::console::Typed;
use super::helper::{Helper, Kind};
use super::keys::{self, Choice};
use super::perform;
use super::settings::Io;
use super::suspend::Suspending;
use super::typing::Hand;
use super::{Charge, Supervisor};
use crate::log::{Event as LogEvent, Name};
use crate::os::front;
use crate::os::poll::Ready;
use crate::os::pty::Read;
use crate::os::signals::{self, Arrived};
use crate::os::wait::{self, How, Next, Reaped};
use crate::policy::crash::End;
use crate::policy::life::{Event, Phase};

/// Reaped in one go before the other sources have their turn.
const BATCH: usize = 256;
/// Reads of the pty in one go: a busy agent must not starve signals and callers.
const READS: usize = 16;
/// 128 + SIGINT: what a shell reports, and what many programs exit with by themselves.
const INTERRUPTED: u8 = 130;
/// How soon after a typed Ctrl-C an end by INT is its doing.
const INTERRUPT_PROOF: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(super) fn on_signals(&mut self) {
        for arrived in self.inbox.take() {
            self.on_signal(arrived);
        }
    }

    pub(super) fn on_signal(&mut self, arrived: Arrived) {
        let run = matches!(self.charge, Charge::Run(_));
        match arrived.signal {
            libc::SIGCHLD => return self.reap(),
            libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP if !arrived.sent && self.puts_agent_in_front() => {
                self.forward(arrived);
            }
            libc::SIGCONT => self.on_continued(arrived),
            libc::SIGTERM => self.stop_asked(arrived),
            libc::SIGINT | libc::SIGQUIT if run => self.stop_asked(arrived),
            libc::SIGHUP if run && self.console.terminal_is_gone() => {
                self.log_signal(arrived, "stop");
                self.events.push_back(Event::TerminalGone);
            }
            libc::SIGWINCH if run && self.io() == Io::Pty => self.resize(),
            // Our own doing: a write to a closed pipe, a file that hit its limit.
            _ if arrived.sender == std::process::id().cast_signed() => {}
            // A terminal key reaches the agent's group by itself. A hang-up reaches only its leader.
            _ if !arrived.sent && arrived.signal != libc::SIGHUP => {}
            _ => self.forward(arrived),
        }
        self.footing.look();
    }

    /// A terminal key that reaches us shows that our own group is in front and the agent's is not:
    /// a shell's `fg` of a running job puts it there. The key, and the terminal, are the agent's.
    fn puts_agent_in_front(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.terminal.is_none() && agent.take_front())
    }

    fn stop_asked(&mut self, arrived: Arrived) {
        self.log_signal(arrived, "stop");
        self.stop_asked.get_or_insert_with(Instant::now);
        self.events.push_back(Event::StopAsked { sender: arrived.sender });
        if self.ending.is_some() {
            // Asked again while unread output is being waited for.
            self.hurry_the_end();
        }
    }

    pub(super) fn forward(&mut self, arrived: Arrived) {
        if let Some(agent) = &self.agent {
            agent.signal(arrived.signal);
        }
        self.log_signal(arrived, "forward");
    }

    fn log_signal(&mut self, arrived: Arrived, action: &str) {
        let event = LogEvent::new(Name::SignalReceived)
            .with("signal", signals::name(arrived.signal))
            .with("sender", arrived.sender)
            .with("action", action);
        self.log.record(event);
    }

    pub(super) fn resize(&mut self) {
        let size = self.wanted_size();
        if size != std::mem::replace(&mut self.size, size) {
            self.viewers.disturb();
        }
        self.screen.resize(size.cols, size.rows);
        self.record_size(size);
        self.look_at_own_view();
        if let Some(terminal) = self.agent.as_ref().and_then(|a| a.terminal.as_ref())
            && let Err(error) = terminal.pty.resize(size.cols, size.rows)
        {
            self.console.tell(&format!("cannot resize the agent's terminal: {error}"));
        }
    }

    /// The one place that reaps. Leaves the rest for the next turn after a batch.
    pub(super) fn reap(&mut self) {
        self.more_children = false;
        let (mut orphans, mut last) = (0u64, 0);
        for turn in 0.. {
            if turn == BATCH {
                self.more_children = true;
                break;
            }
            match wait::next() {
                Next::Child(reaped) => {
                    if !self.on_child(reaped) {
                        orphans += 1;
                        last = reaped.pid;
                    }
                }
                Next::NoNews => break,
                Next::NoneLeft => {
                    self.on_none_left();
                    break;
                }
            }
        }
        if matches!(self.life.phase(), Phase::Stopping { stop, .. } if stop.has_killed()) {
            // What was forked between the look and the kill.
            self.sweep.kill(None);
        }
        self.orphans += orphans;
        // Under a flood of them an event that nobody hears would be a tenth of the work.
        if orphans > 0 && self.log.is_kept() {
            let event = LogEvent::new(Name::OrphanReaped).with("count", orphans).with("pid", last);
            self.log.record(event);
        }
    }

    /// False for an orphan that nobody here started.
    fn on_child(&mut self, Reaped { pid, how }: Reaped) -> bool {
        if self.agent.as_ref().is_some_and(|a| a.pid == pid) {
            match how {
                How::Stopped(signal) => self.on_agent_stopped(signal),
                How::Continued => self.watch.note_continued(),
                How::Code(_) | How::Signal(_) => self.on_agent_end(how),
            }
            return true;
        }
        if self.on_kid_end(pid, how) {
            return true;
        }
        if let How::Stopped(_) | How::Continued = how {
            return true;
        }
        if let Some(at) = self.helpers.iter().position(|h| h.pid == pid) {
            let helper = self.helpers.swap_remove(at);
            self.on_helper_end(&helper, how);
            return true;
        }
        match self.failed_children.iter().position(|&failed| failed == pid) {
            Some(at) => {
                self.failed_children.swap_remove(at);
                true
            }
            None => false,
        }
    }

    fn on_helper_end(&mut self, helper: &Helper, how: How) {
        let agreed = how == How::Code(0);
        let told = |name| LogEvent::new(name).with("pid", helper.pid).with("code", how.exit_code());
        match helper.kind {
            Kind::Call => self.on_call_ended(helper.pid, how),
            Kind::Rule => self.on_notice_ended(helper, how),
            Kind::Refs => self.on_refs_helper_ended(how),
            Kind::Notify => {
                self.log.record(told(Name::Notify));
                if !agreed {
                    self.tell_helper_failed("the notify command failed", helper, how);
                }
                self.events.push_back(Event::Notified);
            }
            Kind::BeforeSpawn => {
                self.log.record(told(Name::BeforeSpawn));
                if !agreed {
                    self.tell_helper_failed("before_spawn refused the spawn", helper, how);
                    let why = format!("before_spawn refused it (code {})", how.exit_code());
                    self.tally.count_spawn_failure(why);
                    self.never_ran = true;
                }
                self.events.push_back(Event::Prepared { agreed });
            }
        }
    }

    fn on_agent_end(&mut self, how: How) {
        // Both may be ready at once; whether exec succeeded comes first.
        self.on_exec();
        let Some(agent) = self.agent.take() else {
            // It ended before exec: that has been told, and now it is reaped too.
            self.failed_children.clear();
            return;
        };
        agent.last_words(|bytes| self.on_output(bytes));
        // What a pause left standing would stand for ever.
        self.sweep.thaw();
        if let Some(calls) = &mut self.calls {
            // The descriptors of its terminal are free again.
            calls.server.stop_resting();
        }
        agent.return_terminal();
        if how != How::Code(0) && self.io() == Io::Inherit && matches!(self.charge, Charge::Run(_)) {
            self.console.restore_line_settings();
        }
        self.desk.agent_ended();
        let spoke = self.activity.spoke();
        self.activity.ended(Instant::now());
        self.drop_requests();
        if agent.terminal.is_some() {
            let modes_off = self.screen.modes_off();
            self.console.tidy_screen(&modes_off, how != How::Code(0));
            self.record_end(&modes_off);
            self.viewers.agent_ended(modes_off, how != How::Code(0));
            if let Some(view) = &mut self.own_view {
                view.redraw();
            }
            self.screen.forget_modes();
        }
        self.suspending = None;
        let signal = match how {
            How::Signal(n) => Some(n),
            How::Code(_) | How::Stopped(_) | How::Continued => None,
        };
        let oom = agent.was_oom_killed(signal);
        self.ended_pid = agent.pid;
        // Ctrl-C in a program that has no other idea about it is a wish to leave, not a crash.
        let typed = self.interrupt_typed.take().is_some_and(|at| at.elapsed() < INTERRUPT_PROOF);
        let asked = typed && how.exit_code() == INTERRUPTED;
        let limit = if how == How::Code(0) || asked { None } else { self.limit_at_end() };
        self.events.push_back(Event::Exited(End { code: how.exit_code(), signal, oom, asked, spoke, limit }));
    }

    fn on_none_left(&mut self) {
        let is_stopping = matches!(self.life.phase(), Phase::Stopping { .. });
        if is_stopping && self.agent.is_none() && !self.node_lives() && self.sweep.is_over() {
            self.events.push_back(Event::TreeGone);
        }
    }

    pub(super) fn on_stranger(&mut self) {
        if self.sweep.strangers_left() {
            return;
        }
        match self.life.phase() {
            Phase::Clearing { .. } => self.look_again(),
            Phase::Stopping { .. } => self.reap(),
            _ => {}
        }
    }

    /// Whether the new program runs. Harmless when it is known already.
    pub(super) fn on_exec(&mut self) {
        let Some(spawning) = self.agent.as_mut().and_then(|a| a.spawning.take()) else { return };
        match spawning.outcome() {
            Ok(()) => {
                self.tell_spawned();
                let ran_as = self.ran_as;
                self.events.push_back(Event::ExecDone { ran_as });
            }
            Err(error) => {
                self.failed_children.push(spawning.pid);
                self.agent = None;
                self.spawn_failed(error.exit_code(), error.step.name(), &perform::in_words(&error));
            }
        }
    }

    pub(super) fn on_pty(&mut self, ready: Ready) {
        let Some(terminal) = self.agent.as_mut().and_then(|a| a.terminal.as_mut()) else { return };
        if ready.write && !terminal.input.is_empty() {
            let written = terminal.pty.write(terminal.input.pending());
            terminal.input.consume(written);
        }
        if ready.read {
            self.read_output();
            self.answer_queries();
        }
    }

    fn read_output(&mut self) {
        let mut buffer = [0u8; PIECE];
        for _ in 0..READS {
            let terminal = self.agent.as_ref().and_then(|a| a.terminal.as_ref());
            let Some(terminal) = terminal.filter(|_| self.console.has_room()) else { return };
            match terminal.pty.read(&mut buffer) {
                Read::Bytes(n) => {
                    self.on_output(&buffer[..n]);
                    if n < buffer.len() {
                        // There is no more by now, and asking costs as much as being told.
                        return;
                    }
                }
                Read::Nothing | Read::HungUp => return,
            }
        }
    }

    /// The one place that all of the agent's output goes through.
    fn on_output(&mut self, bytes: &[u8]) {
        self.tally.output_bytes += bytes.len() as u64;
        self.footing.look_seldom();
        match &mut self.own_view {
            None => self.console.output(bytes),
            Some(view) => view.on_output(),
        }
        self.screen.feed(bytes);
        self.record_output(bytes);
        self.show_viewers(bytes);
        self.look_for_ack(bytes);
    }

    /// Where no terminal does. An agent that asks and does not read is not waited for.
    fn answer_queries(&mut self) {
        let answers = self.screen.take_answers();
        let terminal = self.agent.as_ref().and_then(|a| a.terminal.as_ref());
        if !answers.is_empty() && terminal.is_some_and(|t| t.input.room() >= answers.len()) {
            self.write_to_agent(&answers);
        }
    }

    pub(super) fn on_stdin(&mut self) {
        if self.console.has_terminal() && !front::is_in_front() {
            // Somebody moved us to the background: the key is the shell's.
            self.stand_by();
            return;
        }
        match self.console.read() {
            Typed::Bytes(bytes) => self.on_typed(&bytes),
            Typed::End => {}
            Typed::HungUp => self.events.push_back(Event::TerminalGone),
        }
    }

    fn on_typed(&mut self, bytes: &[u8]) {
        let busy = matches!(
            self.life.phase(),
            Phase::Stopping { .. } | Phase::Preparing { .. } | Phase::Away { .. }
        );
        if busy && keys::holds_interrupt(bytes) {
            // In a raw terminal nobody else turns the key into a signal.
            self.events.push_back(Event::StopAsked { sender: 0 });
            return;
        }
        if let Some(agent) = &self.agent {
            let suspends = self.console.has_terminal() && keys::holds_suspend(bytes) && agent.would_suspend();
            match self.console.has_terminal() {
                true => self.on_operator(Hand::Stdin, bytes),
                false => self.type_into_agent(bytes),
            }
            if suspends {
                self.suspending = Some(Suspending::typed());
            }
            return;
        }
        if !self.hears_keys() {
            // Typed to an agent that ended in this turn: nobody has seen a question yet.
            return;
        }
        if let Phase::Away { .. } = self.life.phase() {
            // It comes back by itself.
            return;
        }
        let waiting = matches!(self.life.phase(), Phase::Waiting { .. });
        match keys::choice(bytes).filter(|_| !waiting || keys::is_deliberate(bytes)) {
            Some(Choice::Retry) => {
                self.log.record(LogEvent::new(Name::UserAction).with("action", "restart"));
                self.events.push_back(Event::Retry);
            }
            Some(Choice::Quit) => {
                self.log.record(LogEvent::new(Name::UserAction).with("action", "quit"));
                self.events.push_back(Event::Quit);
            }
            None => {}
        }
    }

    /// An end that follows is the doing of whoever typed this.
    pub(super) fn note_interrupt(&mut self, bytes: &[u8]) {
        if keys::holds_interrupt(bytes) {
            self.interrupt_typed = Some(Instant::now());
        }
    }
}
