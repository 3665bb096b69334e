//! The command line: called by `main` with the words it was given, hands `Settings` to `supervisor`
//! and an exit code back. Knows flags, config files and defaults; never spawns, waits or signals.
//!
//! words → `args` → `asked` (flags) ⎫
//!        config → `asked` (file)   ⎬ `settings` → `ground` (what is on disk) → `run`, `explain`
//!                     `world`      ⎭
//! `tree` does the same for the file of a node, whose children are supervisors.
//! `client` holds the verbs that ask a supervisor which runs already.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;

use crate::log::line::visible;
use crate::os::inherited;
use crate::supervisor::{self, settings::CannotStart};

pub mod args;
pub mod asked;
pub mod client;
pub mod config;
pub mod duration;
pub mod explain;
pub mod given;
pub mod ground;
pub mod help;
pub mod init;
pub mod names;
pub mod prompt;
pub mod run;
pub mod settings;
pub mod tree;
pub mod words;
pub mod world;

/// Why a verb could not do its work, and the code that says so. `main` prints it, unless it is empty: then
/// somebody else does.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    /// The words themselves are wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// The words are fine; what they ask for is refused.
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { code: 78, message: message.into() }
    }

    /// As people are shown it: what was refused is named in it, and may hold anything.
    pub fn shown(&self) -> String {
        self.message.lines().map(visible).collect::<Vec<_>>().join("\n")
    }
}

/// What is refused before there is a supervisor. A node whose child is refused says it, with the name of that
/// child, and then nobody else does.
fn told_to_node(argv: &[OsString], failure: Failure) -> Failure {
    let own = argv.iter().take_while(|word| *word != "--").collect::<Vec<_>>();
    let fd =
        own.windows(2).find(|pair| pair[0] == "--ready-fd").and_then(|pair| pair[1].to_str()?.parse().ok());
    match fd.is_some_and(|fd| supervisor::refused_at(fd, &failure.message)) {
        true => Failure { message: String::new(), ..failure },
        false => failure,
    }
}

impl From<CannotStart> for Failure {
    fn from(CannotStart { code, message }: CannotStart) -> Failure {
        Failure { code, message }
    }
}

/// Does what the words behind `agentsup` ask for; the exit code comes back. No verb is inlined: here would be
/// the stack of all of them, and each of its pages a fault.
pub fn go(argv: &[OsString]) -> Result<u8, Failure> {
    let Some((verb, rest)) = argv.split_first() else {
        // Nothing was asked, so the help is an error message.
        let _ = std::io::stderr().write_all(args::help(None)?.as_bytes());
        return Ok(2);
    };
    match verb.to_str() {
        Some("run") => run::run(rest),
        Some("init") => init::init(rest),
        Some("explain") => explain::explain(rest),
        Some("tree") => tree::tree(rest),
        Some("--help" | "-h" | "help") => match rest.first() {
            Some(verb) => show_help(Some(&verb.to_string_lossy())),
            None => show_help(None),
        },
        Some("--version" | "-V") => {
            print(concat!("agentsup ", env!("CARGO_PKG_VERSION"), "\n"))?;
            Ok(0)
        }
        Some(option) if option.starts_with('-') && option != "-" => Err(Failure::usage(format!(
            "unknown option {option}; a verb comes first, as in: agentsup run [options] -- COMMAND"
        ))),
        other => match other.and_then(|verb| client::go(verb, rest)) {
            Some(done) => done,
            None => Err(args::unknown_verb(&verb.to_string_lossy())),
        },
    }
}

pub fn show_help(verb: Option<&str>) -> Result<u8, Failure> {
    print(&args::help(verb)?)?;
    Ok(0)
}

/// To stdout. A reader that has gone is no failure: `agentsup help run | head` worked.
pub fn print(text: &str) -> Result<(), Failure> {
    needs_stdout()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritable(&error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// One that was closed when we were started (`>&-`) takes all that is written, and nobody gets it.
pub fn needs_stdout() -> Result<(), Failure> {
    match inherited::had_stdout() {
        true => Ok(()),
        false => Err(unwritable(&std::io::Error::from_raw_os_error(libc::EBADF))),
    }
}

/// The same code for every verb: 125 would say that something of ours is broken.
pub fn unwritable(error: &std::io::Error) -> Failure {
    Failure { code: 1, message: format!("cannot write to stdout: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_are_2_and_refusals_78() {
        for (line, code) in [
            ("nonsense", 2),
            ("tree", 2),
            ("tree a b", 2),
            ("tree --check /nonexistent/a.toml", 78),
            ("--frob", 2),
            ("-- run", 2),
            ("help nonsense", 2),
            ("run", 2),
            ("run --", 2),
            ("run --cwd", 2),
            ("run --grace x true", 2),
            ("run --restart no --restart no true", 2),
            ("init --cwd /x true", 2),
            ("init --grace x true", 2),
            ("explain --json", 2),
            ("explain --json --json=1 true", 2),
            ("run --config /nonexistent/a.toml true", 78),
            ("run --restart no --on-clean restart true", 78),
            ("explain --document /nonexistent/d.md true", 78),
        ] {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(go(&argv).map_err(|failure| failure.code), Err(code), "{line}");
        }
    }
}
