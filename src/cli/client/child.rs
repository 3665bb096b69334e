//! `agentsup child`: one child of a node.

use super::{Caller, Trouble, args};
use crate::cli::explain::text::visible;
use crate::cli::words::Word;
use crate::cli::{Failure, asked};
use crate::control::protocol::{Call, Child};

const EXPECTED: &str = "expected start ID, stop ID, restart ID, remove ID or add [ID]";

pub fn child(verb: args::Child, caller: &Caller) -> Result<u8, Trouble> {
    let words = caller.texts.iter().map(|word| asked::text("a word", Word(word.clone())));
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has_more = verb.prompt.is_some() || !verb.env.is_empty() || !verb.arg.is_empty();
    let id = |id: &str| id.to_owned();
    let call = match words[..] {
        ["add"] => add(None, verb)?,
        ["add", name] => add(Some(id(name)), verb)?,
        _ if has_more => return Err(Failure::usage("--prompt, --env and --arg go with add").into()),
        ["start", name] => Call::ChildStart { id: id(name) },
        ["stop", name] => Call::ChildStop { id: id(name) },
        ["restart", name] => Call::ChildRestart { id: id(name) },
        ["remove", name] => Call::ChildRemove { id: id(name) },
        _ => return Err(Failure::usage(EXPECTED).into()),
    };
    caller.ask(call, |child: &Child| {
        format!("{} {} ({})\n", visible(&child.child), visible(&child.state), visible(&child.session))
    })
}

fn add(id: Option<String>, verb: args::Child) -> Result<Call, Failure> {
    let variable = |word: Word| {
        let text = asked::text("--env", word)?;
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failure::usage(format!("--env: `{text}` is no variable; expected NAME=VALUE"))),
        }
    };
    Ok(Call::ChildAdd {
        id,
        prompt: verb.prompt.map(|word| asked::text("--prompt", word)).transpose()?,
        env: verb.env.into_iter().map(variable).collect::<Result<_, _>>()?,
        args: verb.arg.into_iter().map(|word| asked::text("--arg", word)).collect::<Result<_, _>>()?,
    })
}
