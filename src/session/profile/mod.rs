//! What is known of an agent by its name: how its conversation is begun and continued. Called by
//! `plan` with everything it needs; pure but for looking whether a transcript exists.

mod args;
mod claude;
mod codex;
pub mod hooks;
pub mod limit;
pub(super) mod settings;
#[cfg(test)]
mod tests;
pub mod threads;

pub use codex::NOTIFY;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::transcript::Place;
use super::{Conversation, Environment, How, Refusal, Start};
use args::Words;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Claude,
    Codex,
    Other,
}

/// What a command line is made from.
pub struct Ask<'a> {
    /// Never empty.
    pub command: &'a [OsString],
    pub prompt: Option<&'a str>,
    pub continue_args: &'a [String],
    pub start: Start,
    pub conversation: &'a Conversation,
    pub new_id: &'a str,
    pub has_transcript: &'a dyn Fn(&str) -> bool,
}

/// What a one-shot call is made from.
pub(super) struct CallAsk<'a> {
    /// What `Profile::base` gave.
    pub base: &'a [OsString],
    pub how: How,
    pub conversation: &'a Conversation,
    pub has_transcript: &'a dyn Fn(&str) -> bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub argv: Vec<OsString>,
    pub start: Start,
    pub why_fresh: Option<&'static str>,
    pub conversation: Conversation,
}

impl Profile {
    /// `--agent` is for wrappers: it promises that the command takes that agent's arguments.
    pub fn of(command0: &OsStr, agent_flag: Option<&str>) -> Result<Profile, Refusal> {
        let known = |name: &str| match name {
            "claude" => Some(Profile::Claude),
            "codex" => Some(Profile::Codex),
            _ => None,
        };
        match agent_flag {
            Some("other") => Ok(Profile::Other),
            Some(name) => known(name).ok_or_else(|| {
                Refusal(format!("--agent: unknown agent {name:?}: use claude, codex or other"))
            }),
            None => {
                let base = Path::new(command0).file_name().and_then(OsStr::to_str);
                Ok(base.and_then(known).unwrap_or(Profile::Other))
            }
        }
    }

    pub fn is_known(self) -> bool {
        self != Profile::Other
    }

    pub fn name(self) -> &'static str {
        match self {
            Profile::Claude => "claude",
            Profile::Codex => "codex",
            Profile::Other => "other",
        }
    }

    /// A call that answers once and ends: its stdout is data, and a second run costs again.
    /// `args` is the command line without its first word.
    pub fn is_one_shot(self, args: &[OsString]) -> bool {
        match self {
            Profile::Claude => claude::is_one_shot(args),
            Profile::Codex => codex::is_one_shot(args),
            Profile::Other => false,
        }
    }

    pub(super) fn has_transcript(self, id: &str, env: &Environment, cwd: &Path) -> bool {
        match self {
            Profile::Claude => claude::has_transcript(id, env, cwd),
            Profile::Codex | Profile::Other => false,
        }
    }

    /// Where its conversations are written down, as far as that is known.
    pub(super) fn transcripts(self, env: &Environment, cwd: &Path) -> Option<Place> {
        match self {
            Profile::Claude => Place::of_claude(env, cwd),
            Profile::Codex | Profile::Other => None,
        }
    }

    /// The user's command as any conversation of theirs would have it: without its prompt, and without
    /// what picks a conversation. `None` where no agent stays that somebody could talk to.
    pub(super) fn base(self, command: &[OsString]) -> Option<Vec<OsString>> {
        let (first, args) = command.split_first()?;
        let gone = match self {
            Profile::Claude => claude::not_of_base(args)?,
            Profile::Codex => codex::not_of_base(args)?,
            Profile::Other => return None,
        };
        let kept = args.iter().enumerate().filter(|(at, _)| !gone.contains(at));
        Some(std::iter::once(first).chain(kept.map(|(_, word)| word)).cloned().collect())
    }

    /// A one-shot call that reads its prompt from stdin and answers in the conversation, or in a copy
    /// of it; `None`: there is no such call.
    pub(super) fn call(self, ask: &CallAsk) -> Option<Vec<OsString>> {
        match self {
            Profile::Claude => claude::call(ask),
            Profile::Codex => codex::call(ask),
            Profile::Other => None,
        }
    }

    /// Whether a first spawn of `command` can be given a prompt.
    pub fn check_prompt(self, command: &[OsString], prompt: &str) -> Result<(), Refusal> {
        let ask = Ask {
            command,
            prompt: Some(prompt),
            continue_args: &[],
            start: Start::Fresh,
            conversation: &Conversation::default(),
            new_id: "",
            has_transcript: &|_| false,
        };
        self.command_line(&ask).map(|_| ())
    }

    pub fn command_line(self, ask: &Ask) -> Result<Line, Refusal> {
        match self {
            Profile::Claude => claude::command_line(ask),
            Profile::Codex => codex::command_line(ask),
            Profile::Other => other(ask),
        }
    }
}

/// Nothing is known of it, so to continue is to run the same command again.
fn other(ask: &Ask) -> Result<Line, Refusal> {
    if ask.prompt.is_some() {
        return Err(Refusal(format!(
            "--prompt: {} is no known agent, so where a prompt goes is unknown: \
             add --agent claude or --agent codex, or write it among the command's arguments",
            ask.command[0].display()
        )));
    }
    let mut argv = ask.command.to_vec();
    if ask.start == Start::Continue {
        argv.extend(ask.continue_args.iter().map(OsString::from));
    }
    Ok(ask.line(argv))
}

impl Ask<'_> {
    fn args(&self) -> &[OsString] {
        &self.command[1..]
    }

    /// A spawn that is what was asked for, about the conversation that is known.
    fn line(&self, argv: Vec<OsString>) -> Line {
        Line { argv, start: self.start, why_fresh: None, conversation: self.conversation.clone() }
    }

    /// The user's command and a prompt at its end. The prompt stands behind `--`, so that neither
    /// a list option before it can swallow it nor a dash at its start turn it into an option.
    fn with_prompt(&self, words: &Words, mut argv: Vec<OsString>) -> Vec<OsString> {
        if let Some(prompt) = self.prompt {
            if words.separator.is_none() {
                argv.push("--".into());
            }
            argv.push(prompt.into());
        }
        argv
    }

    /// The user's command without its prompt and without the options at `leave_out`; `inserted`
    /// stands right behind the first word, where no list option can swallow it and it cannot
    /// swallow a prompt.
    fn without_prompt(&self, words: &Words, inserted: &[&str], leave_out: &[usize]) -> Vec<OsString> {
        let gone: Vec<usize> = words.prompt_words().chain(leave_out.iter().copied()).collect();
        let kept = self.args().iter().enumerate().filter(|(at, _)| !gone.contains(at));
        let first = self.command[..1].iter().cloned();
        first.chain(inserted.iter().map(OsString::from)).chain(kept.map(|(_, word)| word.clone())).collect()
    }

    /// `continue_args` as the config gives them, instead of what the profile knows.
    fn by_continue_args(&self, words: &Words, is_left_alone: bool) -> Line {
        let mut argv = match is_left_alone {
            true => self.command.to_vec(),
            false => self.without_prompt(words, &[], &[]),
        };
        argv.extend(self.continue_args.iter().map(OsString::from));
        self.line(argv)
    }

    fn wants_continue_args(&self) -> bool {
        self.start == Start::Continue && !self.continue_args.is_empty()
    }

    fn refuse_two_prompts(&self, words: &Words) -> Result<(), Refusal> {
        match (self.prompt, words.positionals.first()) {
            (Some(_), Some(at)) => Err(Refusal(format!(
                "--prompt: the command has a prompt of its own ({:?}): give only one of them",
                self.args()[*at]
            ))),
            _ => Ok(()),
        }
    }

    fn refuse_prompt_for(&self, what: &str) -> Result<(), Refusal> {
        match self.prompt {
            Some(_) => Err(Refusal(format!(
                "--prompt: `{what}` takes its own arguments: write the prompt among them"
            ))),
            None => Ok(()),
        }
    }
}
