//! The verbs that ask a supervisor, and those that look at the state dir. Called by `cli` with the
//! words behind the verb; an exit code comes back. Never touches a process: it asks through
//! `control::Client`, and `commits` asks git.
//!
//! words → `args` → `reach` (which socket) → `verbs`, `state`, `attach`, `stream`, `transcript`, `wait`,
//!                                            `health`
//!                  `sessions` (what lies there) → `ls` (and `drift`), `claims`, `commits`, `prune`

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::asked;
use super::duration;
use super::given::{Declared, FromGiven, Given};
use super::words::Word;
use super::world::World;
use super::{Failure, print, show_help};
use crate::control::client::typed;
use crate::control::protocol::{Call, Code};
use crate::control::{CallError, Client};
use crate::os::signals;

pub mod args;
mod attach;
mod child;
mod claims;
mod commits;
mod drift;
mod health;
mod hook;
mod look;
mod ls;
mod ls_tree;
mod prune;
mod reach;
mod requests;
mod sessions;
mod state;
mod stream;
mod transcript;
mod trigger;
mod verbs;
mod wait;

use args::Common;
use reach::Reach;

/// For what a supervisor answers at once.
const SOON: Duration = Duration::from_secs(5);

macro_rules! table {
    ($($name:literal $Verb:ident $run:expr,)+) => {
        pub const VERBS: &[&str] = &[$($name,)+];

        /// `None` when it is no client verb.
        #[inline(never)]
        pub fn go(verb: &str, argv: &[OsString]) -> Option<Result<u8, Failure>> {
            match verb {
                $($name => Some($run(argv).map_err(|trouble| told(verb, argv, trouble.into()))),)+
                _ => None,
            }
        }

        pub fn declared(verb: &str) -> Option<Declared> {
            match verb {
                $($name => Some(args::$Verb::declared()),)+
                _ => None,
            }
        }
    };
}

table! {
    "state" State |argv| asking(argv, Plain::Session, state::state),
    "pid" Pid |argv| asking(argv, Plain::Session, verbs::pid),
    "ping" Ping |argv| asking(argv, Plain::Session, verbs::ping),
    "restart" Restart |argv| asking(argv, Plain::Session, verbs::restart),
    "interrupt" Interrupt |argv| asking(argv, Plain::Session, verbs::interrupt),
    "pause" Pause |argv| asking(argv, Plain::Session, verbs::pause),
    "resume" Resume |argv| asking(argv, Plain::Session, verbs::resume),
    "stop" Stop |argv| asking(argv, Plain::Session, verbs::stop),
    "screen" Screen |argv| asking(argv, Plain::Session, verbs::screen),
    "send" Send |argv| asking(argv, Plain::SessionAnd("TEXT"), verbs::send),
    "attach" Attach |argv| asking(argv, Plain::Session, attach::attach),
    "inject" Inject |argv| asking(argv, Plain::SessionAnd("TEXT"), verbs::inject),
    "events" Events |argv| asking(argv, Plain::Session, stream::events),
    "logs" Logs |argv| asking(argv, Plain::Session, stream::logs),
    "transcript" Transcript |argv| asking(argv, Plain::Session, transcript::transcript),
    "wait" Wait |argv| asking(argv, Plain::Session, wait::wait),
    "health" Health |argv| asking(argv, Plain::Session, health::health),
    "stats" Stats |argv| asking(argv, Plain::Session, verbs::stats),
    "metrics" Metrics |argv| asking(argv, Plain::Session, verbs::metrics),
    "trigger" Trigger |argv| asking(argv, Plain::SessionAnd("TEXT"), trigger::trigger),
    "triggers" Triggers |argv| asking(argv, Plain::Session, trigger::triggers),
    "ack" Ack |argv| asking(argv, Plain::SessionAnd("ID"), trigger::ack),
    "progress" Progress |argv| asking(argv, Plain::Session, trigger::progress),
    "heartbeat" Heartbeat |argv| asking(argv, Plain::Session, trigger::heartbeat),
    "permission" Permission |argv| asking(argv, Plain::Own, requests::permission),
    "question" Question |argv| asking(argv, Plain::Own, requests::question),
    "idle" Idle |argv| asking(argv, Plain::Session, requests::idle),
    "done" Done |argv| asking(argv, Plain::Own, requests::done),
    "describe" Describe |argv| asking(argv, Plain::SessionAnd("TEXT"), requests::describe),
    "child" Child |argv| asking(argv, Plain::Own, child::child),
    "unblock" Unblock |argv| asking(argv, Plain::SessionAnd("THREAD"), trigger::unblock),
    "hook" Hook hook::hook,
    "claim" Claim |argv| asking(argv, Plain::SessionAnd("TICKET"), claims::claim),
    "claims" Claims claims::claims,
    "commits" Commits |argv| asking(argv, Plain::Session, commits::commits),
    "ls" Ls ls::ls,
    "prune" Prune prune::prune,
}

/// Why a verb came to nothing.
#[derive(Debug)]
enum Trouble {
    Here(Failure),
    There(CallError),
    /// With an exit code of the verb's own.
    Judged {
        code: u8,
        word: &'static str,
        message: String,
    },
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Here(failure)
    }
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Trouble {
        Trouble::There(error)
    }
}

impl Trouble {
    fn failure(&self) -> Failure {
        match self {
            Trouble::Here(Failure { code, message }) | Trouble::Judged { code, message, .. } => {
                Failure { code: *code, message: message.clone() }
            }
            Trouble::There(error) => {
                let code = match error {
                    CallError::Refused(refusal) if refusal.code == Code::Timeout => 124,
                    CallError::Refused(_) => 1,
                    CallError::TimedOutAfterSend { .. } => 124,
                    CallError::CouldNotConnect { .. } | CallError::Broken(_) => 69,
                };
                Failure { code, message: error.to_string() }
            }
        }
    }

    /// A word for programs: the supervisor's own, or one of the client's.
    fn word(&self) -> &'static str {
        match self {
            Trouble::There(CallError::Refused(refusal)) => refusal.code.as_str(),
            Trouble::There(CallError::TimedOutAfterSend { .. }) => "NO_ANSWER",
            Trouble::There(CallError::CouldNotConnect { .. }) => "NO_SUPERVISOR",
            Trouble::There(CallError::Broken(_)) => "BROKEN",
            Trouble::Judged { word, .. } => word,
            Trouble::Here(failure) if failure.code == 69 => "NO_SUPERVISOR",
            Trouble::Here(failure) if failure.code == 2 => "USAGE",
            Trouble::Here(_) => "FAILED",
        }
    }
}

/// `main` says it to people; here to a program that asked for JSON, whatever else its words say.
fn told(verb: &str, argv: &[OsString], trouble: Trouble) -> Failure {
    let failure = trouble.failure();
    if argv.iter().take_while(|word| *word != "--").any(|word| word == "--json") {
        let error = json!({"error": {"code": trouble.word(), "message": failure.message}});
        // A stdout that cannot be written is no news beside the failure itself.
        let _ = match verb {
            "events" | "logs" | "transcript" => print(&format!("{error}\n")),
            _ => print_json(&error),
        };
    }
    failure
}

/// One caller: whom to ask, how long, and how to say the answer.
struct Caller {
    reach: Reach,
    timeout: Option<Duration>,
    json: bool,
    /// The plain words that are not SESSION.
    texts: Vec<OsString>,
    world: World,
}

/// What the plain words of a verb mean.
#[derive(Clone, Copy)]
enum Plain {
    Session,
    /// SESSION may be left out, the word behind it not.
    SessionAnd(&'static str),
    /// All are the verb's own: only `--session` names a session.
    Own,
}

/// Reads the words of a verb and lets it act.
fn asking<V: FromGiven>(
    argv: &[OsString],
    plain: Plain,
    act: fn(V, &Caller) -> Result<u8, Trouble>,
) -> Result<u8, Trouble> {
    match Given::read(V::NAME, argv)? {
        Some(mut given) => {
            let verb = V::from_given(&mut given);
            act(verb, &Caller::read(given, plain)?)
        }
        None => Ok(show_help(Some(V::NAME))?),
    }
}

fn missing(word: &str) -> String {
    let instead = if word == "TEXT" { "; `-` reads it from stdin" } else { "" };
    format!("{word} is missing{instead}")
}

impl Caller {
    /// The same for all verbs, and one piece of code for all of them.
    #[inline(never)]
    fn read(mut given: Given, meaning: Plain) -> Result<Caller, Failure> {
        let common = Common::from_given(&mut given);
        signals::end_us_even_as_pid_1();
        let world = World::look()?;
        let mut plain: Vec<OsString> = common.words.into_iter().map(|Word(word)| word).collect();
        let (texts, text) = match meaning {
            Plain::Session => (0, ""),
            Plain::SessionAnd(text) => (1, text),
            Plain::Own => (plain.len(), ""),
        };
        let first = match plain.len().checked_sub(texts) {
            Some(0) => None,
            Some(1) => Some(Word(plain.remove(0))),
            Some(_) => {
                let word = &plain[texts + 1];
                return Err(Failure::usage(format!("one word too many: `{}`", word.display())));
            }
            None => return Err(Failure::usage(missing(text))),
        };
        let session = match (common.session, first) {
            (Some(_), Some(Word(word))) => {
                let word = word.display();
                return Err(Failure::usage(format!("--session and `{word}` both name a session; give one")));
            }
            (flag, first) => flag.map(|word| ("--session", word)).or(first.map(|word| ("SESSION", word))),
        };
        let session = session.map(|(from, word)| asked::text(from, word)).transpose()?;
        let reach = Reach {
            socket: common.socket.map(|word| asked::path("--socket", word)).transpose()?,
            session,
            dir: common.dir.map(|word| asked::path("--dir", word)).transpose()?,
        };
        let timeout =
            common.timeout.map(|word| asked::read("--timeout", word, duration::parse)).transpose()?;
        Ok(Caller { reach, timeout, json: common.json, texts: plain, world })
    }

    fn socket(&self) -> Result<PathBuf, Failure> {
        reach::find(&self.reach, &self.world)
    }

    fn patience(&self) -> Duration {
        self.timeout.unwrap_or(SOON)
    }

    fn connect(&self, patience: Duration) -> Result<Client, Trouble> {
        if patience.is_zero() {
            return Err(Failure::usage("--timeout: `0` is no time at all; expected more than zero").into());
        }
        Ok(Client::connect(&self.socket()?, patience)?)
    }

    /// For questions that have one answer, which is heard and told also by who is being ended.
    fn connect_to_ask(&self, patience: Duration) -> Result<Client, Trouble> {
        let client = self.connect(patience)?;
        Ok(match signals::hold(libc::SIGTERM) {
            Ok(term) => client.answers_before(term),
            Err(_) => client,
        })
    }

    /// One call that is answered at once, and its answer said.
    fn ask<B: DeserializeOwned>(&self, call: Call, show: impl Fn(&B) -> String) -> Result<u8, Trouble> {
        self.ask_and(call, &|body| Ok(show(&typed(body)?)))
    }

    /// The part that is the same for all answers, and there once.
    #[inline(never)]
    fn ask_and(&self, call: Call, show: &Show) -> Result<u8, Trouble> {
        let body = self.connect_to_ask(self.patience())?.call(call)?;
        self.say_by(body, show)
    }

    /// As JSON all that came, also what this version does not know.
    fn say<B: DeserializeOwned>(&self, body: Value, show: impl Fn(&B) -> String) -> Result<u8, Trouble> {
        self.say_by(body, &|body| Ok(show(&typed(body)?)))
    }

    #[inline(never)]
    fn say_by(&self, body: Value, show: &Show) -> Result<u8, Trouble> {
        if self.json {
            print_json(&body)?;
        } else {
            print(&show(&body)?)?;
        }
        Ok(0)
    }
}

/// An answer in words.
type Show<'a> = dyn Fn(&Value) -> Result<String, CallError> + 'a;

fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

#[cfg(test)]
mod tests;
