//! `agentsup init`: a good PID 1 around a command and nothing more.

use std::ffi::OsString;

use super::args::{self, Init};
use super::settings::DEFAULT_GRACE;
use super::words::{self, Word};
use super::{Failure, asked, duration, show_help};
use crate::supervisor;
use crate::supervisor::settings::InitSettings;

#[inline(never)]
pub fn init(argv: &[OsString]) -> Result<u8, Failure> {
    let cut = words::cut("init", &args::options::<Init>(), argv)?;
    if cut.help {
        return show_help(Some("init"));
    }
    let init: Init = words::through_argh("init", &cut)?;
    let grace = init.grace.map(|word| asked::read("--grace", word, duration::parse)).transpose()?;
    let command = init.command.into_iter().map(|Word(word)| word).collect();
    Ok(supervisor::init(InitSettings { command, grace: grace.unwrap_or(DEFAULT_GRACE) })?)
}
