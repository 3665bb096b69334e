//! A panic must not leave anybody with a raw terminal.

use std::sync::Mutex;

use nix::sys::termios::Termios;

use super::{sink, tty};

/// The line settings of before, and the sequences that take back what was switched on.
static FOR_PANIC: Mutex<Option<(Termios, String)>> = Mutex::new(None);

/// From here on the terminal on stdin is not as it was.
pub fn remember(original: &Termios, off: &str) {
    if let Ok(mut slot) = FOR_PANIC.lock() {
        *slot = Some((original.clone(), off.to_owned()));
    }
}

/// It is as it was again.
pub fn forget() {
    if let Ok(mut slot) = FOR_PANIC.lock() {
        *slot = None;
    }
}

pub fn give_back_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Ok(slot) = FOR_PANIC.try_lock()
            && let Some((original, off)) = slot.as_ref()
        {
            let _ = nix::unistd::write(sink::stdout(), off.as_bytes());
            let _ = tty::set_modes(tty::stdin(), original);
        }
        report(info);
    }));
}
