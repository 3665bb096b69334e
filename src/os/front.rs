//! In front of the terminal on stdin, or stopped until we are.

use super::signals::{Arrived, Inbox};
use super::tty;

/// Whether the terminal on stdin is ours to use. True without one, and where nobody could ever
/// bring us to the front.
pub fn is_in_front() -> bool {
    tty::foreground(tty::stdin()).is_none_or(|group| group == tty::own_group())
        || !tty::has_job_control_parent()
}

/// Continued in the background (`bg`) the terminal is not ours to touch: stop again, as the kernel
/// would do to any program that writes line settings there. Unless somebody wants us to end: a
/// shell's `kill %1` is a TERM and a CONT. What arrived meanwhile is handed on.
pub fn stop_until_in_front(inbox: &Inbox) -> Vec<Arrived> {
    let mut arrived = Vec::new();
    loop {
        tty::stop_self();
        arrived.extend(inbox.take());
        if is_in_front() || arrived.iter().any(asks_to_end) {
            return arrived;
        }
    }
}

pub fn asks_to_end(arrived: &Arrived) -> bool {
    matches!(arrived.signal, libc::SIGTERM | libc::SIGINT | libc::SIGQUIT | libc::SIGHUP)
}
