//! The loop and what it owns; the only place where things happen.
pub mod settings;

/// STAND-IN until the loop is there.
pub fn run(_settings: settings::Settings) -> u8 {
    125
}

/// STAND-IN until the loop is there.
pub fn init(_settings: settings::InitSettings) -> u8 {
    125
}
