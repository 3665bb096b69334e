//! The few keys that mean something to agentsup itself.

/// Ctrl-Z as a byte, and as terminals with the kitty protocol or modifyOtherKeys send it.
const SUSPEND: [&[u8]; 3] = [b"\x1a", b"\x1b[122;5u", b"\x1b[27;5;122~"];

pub fn holds_suspend(typed: &[u8]) -> bool {
    SUSPEND.iter().any(|key| typed.windows(key.len()).any(|w| w == *key))
}

/// Escape alone, which cancels an agent's turn, as a byte and in the kitty protocol; or Ctrl-C.
pub fn may_cancel(typed: &[u8]) -> bool {
    matches!(typed, b"\x1b" | b"\x1b[27u") || holds_interrupt(typed)
}

pub fn holds_interrupt(typed: &[u8]) -> bool {
    typed.contains(&0x03)
}

/// A key pressed while no agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Retry,
    Quit,
}

/// Whether a key counts while the agent is about to come back: somebody may just be typing on, so
/// a letter does not.
pub fn is_deliberate(typed: &[u8]) -> bool {
    matches!(typed, [b'\r' | b'\n' | 0x03 | 0x04 | 0x1c])
}

pub fn choice(typed: &[u8]) -> Option<Choice> {
    typed.iter().find_map(|key| match key {
        b'\r' | b'\n' => Some(Choice::Retry),
        // q, Ctrl-C, Ctrl-D, Ctrl-\
        b'q' | b'Q' | 0x03 | 0x04 | 0x1c => Some(Choice::Quit),
        _ => None,
    })
}
