//! A verb's struct from its words, by one piece of code for all verbs that ask a supervisor.

use std::ffi::OsString;
use std::slice::Iter;

use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};

use super::Failure;
use super::args::without_help;
use super::client;
use super::words::{self, Cut, Word};

/// A verb that is declared to argh; `usage` is what stands behind its name in the help.
pub struct Declared {
    pub usage: &'static str,
    pub info: CommandInfoWithArgs,
}

pub trait FromGiven {
    const NAME: &'static str;

    fn declared() -> Declared;

    fn from_given(given: &mut Given) -> Self;
}

/// What was given for each option, in the order in which they are declared, then the plain words.
pub struct Given {
    options: Iter<'static, FlagInfo<'static>>,
    cut: Cut,
}

impl Given {
    /// `None` when help was asked for.
    #[inline(never)]
    pub fn read(verb: &str, argv: &[OsString]) -> Result<Option<Given>, Failure> {
        let Declared { info, .. } = client::declared(verb).expect("it is a client verb");
        let known = without_help(info.flags);
        let cut = words::cut_plain(verb, &known, argv)?;
        if cut.help {
            return Ok(None);
        }
        let once = |flag: &&FlagInfo| {
            flag.kind != FlagInfoKind::Switch && flag.optionality != Optionality::Repeating
        };
        if let Some(flag) = known.into_iter().filter(once).find(|flag| cut.times(flag.long) > 1) {
            return Err(Failure::usage(format!("{} is given twice", flag.long)));
        }
        // argh lists `--help` first, and no struct has a field for it.
        Ok(Some(Given { options: info.flags[1..].iter(), cut }))
    }

    pub fn take<F: Field>(&mut self) -> F {
        F::take(self)
    }

    /// Each time that the next option was given: its value, or nothing for a switch.
    #[inline(never)]
    fn next(&mut self) -> Vec<Option<OsString>> {
        match self.options.next() {
            Some(flag) => {
                let given = |(name, _): &mut (&str, _)| *name == flag.long;
                self.cut.options.extract_if(.., given).map(|(_, value)| value).collect()
            }
            None => self.cut.command.drain(..).map(Some).collect(),
        }
    }
}

pub trait Field {
    fn take(given: &mut Given) -> Self;
}

impl Field for bool {
    fn take(given: &mut Given) -> bool {
        !given.next().is_empty()
    }
}

impl Field for Option<Word> {
    #[inline(never)]
    fn take(given: &mut Given) -> Option<Word> {
        given.next().pop().flatten().map(Word)
    }
}

impl Field for Vec<Word> {
    #[inline(never)]
    fn take(given: &mut Given) -> Vec<Word> {
        given.next().into_iter().flatten().map(Word).collect()
    }
}
