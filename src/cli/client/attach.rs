//! `agentsup attach`: the agent's terminal, in this one.

use std::os::fd::AsFd;
use std::time::Instant;

use super::{Caller, Trouble, args};
use crate::cli::Failure;
use crate::cli::explain::text::visible;
use crate::control::client::wire::{Said, Wire};
use crate::control::protocol::{AttachFrame, Attached, Call};
use crate::os::poll::{Sources, Want};
use crate::os::signals::{self, Inbox};
use crate::os::{front, rescue, tty};
use crate::screen::chord::Chord;
use leaving::{Leaving, Typed};
use terminal::Terminal;

mod leaving;
mod terminal;

/// How it ended.
enum End {
    /// By the key, or in a readonly one by Ctrl-C.
    Detached,
    /// Ctrl-Z: only for now.
    Suspended,
    /// The session is over.
    Over,
    Lost(Option<String>),
    /// TERM and its like; HUP also when the terminal is gone.
    Signal(i32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Supervisor,
    Keys,
    Screen,
    Signals,
}

pub fn attach(verb: args::Attach, caller: &Caller) -> Result<u8, Trouble> {
    if !tty::stdin_is_terminal() || !tty::stdout_is_terminal() {
        let message =
            "attach needs a terminal on stdin and stdout; `agentsup screen` shows the screen without one";
        return Err(Failure::usage(message).into());
    }
    let own = |what: &str, error: std::io::Error| Failure { code: 125, message: format!("{what}: {error}") };
    while !front::is_in_front() {
        // Started in the background: until we are brought to the front the terminal is the shell's.
        tty::stop_self();
    }
    // A supervisor that refuses does so before anything here changes.
    let mut size = size();
    let mut connected = connect(&verb, caller, size, true)?;
    let inbox = signals::catch_all().map_err(|error| own("cannot catch signals", error))?;
    rescue::give_back_on_panic();
    loop {
        let (attached, mut wire) = connected;
        let session = visible(&attached.session);
        let mut terminal = Terminal::take().map_err(|error| own("the terminal cannot be used", error))?;
        if size != self::size() {
            // It changed before anybody listened for that.
            let (cols, rows) = terminal.resized();
            wire.send(Call::Resize { rows, cols });
        }
        let end = watch(&attached, &mut wire, &mut terminal, &inbox);
        if !matches!(end, End::Over | End::Lost(_)) {
            wire.send(Call::Detach);
            // What it has not shown yet nobody waits for.
            terminal.forget_unsaid();
        }
        drop(wire);
        let (line, left) = match &end {
            End::Detached => (format!("[detached from {session}]"), Some(0)),
            End::Suspended => (format!("[suspended; {session} goes on]"), None),
            End::Over => (format!("[session {session} has ended]"), Some(0)),
            End::Lost(None) => (format!("[the connection to {session} is lost]"), Some(69)),
            End::Lost(Some(why)) => {
                (format!("[the connection to {session} is lost: {}]", visible(why)), Some(69))
            }
            End::Signal(signal) => (format!("[detached from {session}]"), Some(code(*signal))),
        };
        terminal.give_back(&line);
        if let Some(left) = left {
            return Ok(left);
        }
        if let Some(signal) = stop(&inbox) {
            return Ok(code(signal));
        }
        size = self::size();
        connected = connect(&verb, caller, size, false)?;
    }
}

fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Columns and rows of this terminal; 0 where it does not know.
fn size() -> (u16, u16) {
    tty::size(tty::stdin()).unwrap_or((0, 0))
}

fn connect(
    verb: &args::Attach,
    caller: &Caller,
    (cols, rows): (u16, u16),
    hint: bool,
) -> Result<(Attached, Wire), Trouble> {
    let call =
        Call::Attach { rows, cols, readonly: verb.readonly, hint, suspend: tty::has_job_control_parent() };
    Ok(caller.connect(caller.patience())?.attach(call)?)
}

/// Until we are in front again, or a signal ends us.
fn stop(inbox: &Inbox) -> Option<i32> {
    let arrived = front::stop_until_in_front(inbox);
    arrived.iter().find(|arrived| front::asks_to_end(arrived)).map(|arrived| arrived.signal)
}

fn watch(attached: &Attached, wire: &mut Wire, terminal: &mut Terminal, inbox: &Inbox) -> End {
    // An older client than the supervisor still leaves by the usual key.
    let mut leaving = Leaving::by(Chord::parse(&attached.detach_key).unwrap_or(Chord::BACKSLASH));
    let mut sources = Sources::new();
    // What came right behind the reply is here already.
    if let Some(end) = take(wire, terminal) {
        return end;
    }
    loop {
        sources.clear();
        sources.add(Source::Signals, inbox.as_fd(), Want::Read);
        sources.add(Source::Keys, tty::stdin(), Want::Read);
        let want = match (terminal.has_room(), wire.has_unsent()) {
            (true, true) => Want::Both,
            (true, false) => Want::Read,
            (false, true) => Want::Write,
            (false, false) => Want::HangUp,
        };
        sources.add(Source::Supervisor, wire.as_fd(), want);
        if terminal.has_unsaid() {
            sources.add(Source::Screen, terminal.as_fd(), Want::Write);
        }
        let ready = sources.wait(leaving.deadline());
        let mut typed = leaving.due(Instant::now());
        for (source, ready) in ready {
            let end = match source {
                Source::Signals => on_signals(inbox, wire, terminal),
                Source::Keys => {
                    let before = typed.bytes;
                    match read_keys(&mut leaving) {
                        Some(more) => {
                            typed = Typed { bytes: [before, more.bytes].concat(), leaves: more.leaves };
                            None
                        }
                        None => return End::Signal(libc::SIGHUP),
                    }
                }
                Source::Supervisor => {
                    if ready.write {
                        wire.write();
                    }
                    if ready.read && (terminal.has_room() || ready.hung_up) {
                        take(wire, terminal)
                    } else {
                        None
                    }
                }
                Source::Screen if terminal.flush() => None,
                Source::Screen => Some(End::Signal(libc::SIGHUP)),
            };
            if let Some(end) = end {
                return end;
            }
        }
        if let Some(end) = send(typed, wire, attached.readonly) {
            return end;
        }
    }
}

/// What the supervisor has said.
fn take(wire: &mut Wire, terminal: &mut Terminal) -> Option<End> {
    for said in wire.read() {
        match said {
            Said::Output(bytes) => terminal.show(&bytes),
            Said::Frame(AttachFrame::Suspend(_)) if tty::has_job_control_parent() => {
                return Some(End::Suspended);
            }
            Said::Frame(AttachFrame::Over(_)) => return Some(End::Over),
            Said::Frame(AttachFrame::Suspend(_) | AttachFrame::Attached(_) | AttachFrame::Other(_)) => {}
            Said::Refused(error) => return Some(End::Lost(Some(error.message))),
            Said::End => return Some(End::Lost(None)),
        }
    }
    None
}

fn on_signals(inbox: &Inbox, wire: &mut Wire, terminal: &mut Terminal) -> Option<End> {
    for arrived in inbox.take() {
        match arrived.signal {
            libc::SIGWINCH => {
                let (cols, rows) = terminal.resized();
                wire.send(Call::Resize { rows, cols });
            }
            libc::SIGCONT => {
                // Somebody had stopped us. Others may have used the terminal meanwhile.
                if !front::is_in_front()
                    && let Some(signal) = stop(inbox)
                {
                    return Some(End::Signal(signal));
                }
                let (cols, rows) = terminal.take_again();
                wire.send(Call::Resize { rows, cols });
            }
            libc::SIGTSTP if tty::has_job_control_parent() => return Some(End::Suspended),
            libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM => {
                return Some(End::Signal(arrived.signal));
            }
            _ => {}
        }
    }
    None
}

/// `None` when the terminal is gone.
fn read_keys(leaving: &mut Leaving) -> Option<Typed> {
    let mut buffer = [0; 4096];
    match nix::unistd::read(tty::stdin(), &mut buffer) {
        Ok(n @ 1..) => Some(leaving.typed(&buffer[..n], Instant::now())),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Some(Typed::default()),
        Ok(_) | Err(_) => None,
    }
}

/// To the agent, or in a readonly one to nobody.
fn send(typed: Typed, wire: &mut Wire, readonly: bool) -> Option<End> {
    if readonly {
        let pressed = |chord: Chord| chord.taken_out_of(&typed.bytes).1 > 0;
        if pressed(Chord::SUSPEND) && tty::has_job_control_parent() {
            return Some(End::Suspended);
        }
        return (typed.leaves || pressed(Chord::INTERRUPT)).then_some(End::Detached);
    }
    if !typed.bytes.is_empty() {
        wire.type_in(&typed.bytes);
    }
    typed.leaves.then_some(End::Detached)
}
