//! Cuts a verb's words into its options and the COMMAND, before argh sees any of them.
//!
//! argh declares the options and makes the help, but it reads only UTF-8, knows no `--opt=value`,
//! takes a word `help` for itself and ends a usage error with 1. So the words are cut here, as
//! `OsString`, with argh's own list of options saying which of them take a value. What argh then
//! gets is `--name` and, for values and COMMAND, their bytes in hexadecimal behind an `x`: plain
//! text that it can neither misread nor change. `Word` turns it back, byte for byte.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::slice::Iter;

use argh::{EarlyExit, FlagInfo, FlagInfoKind, FromArgValue, FromArgs};

use super::Failure;
use super::names::nearest;

const NO_COMMAND: &str = "COMMAND is missing; it stands behind the options, as in: -- claude";

#[derive(Debug, Default, PartialEq)]
pub struct Cut {
    /// Each option's name with its dashes, and its value if it takes one.
    pub options: Vec<(&'static str, Option<OsString>)>,
    pub command: Vec<OsString>,
    /// Help was asked for; nothing behind that word was looked at.
    pub help: bool,
}

impl Cut {
    pub fn times(&self, option: &str) -> usize {
        self.options.iter().filter(|(name, _)| *name == option).count()
    }
}

/// The options of a verb, as argh knows them.
#[derive(Clone, Copy)]
struct Known<'a> {
    verb: &'a str,
    options: &'a [&'static FlagInfo<'static>],
}

/// For verbs with a COMMAND: what begins with its first word is not looked at.
pub fn cut(verb: &str, options: &[&'static FlagInfo<'static>], words: &[OsString]) -> Result<Cut, Failure> {
    let cut = cut_with(Known { verb, options }, words, Plain::TakesTheRest)?;
    match cut.command.first() {
        _ if cut.help => Ok(cut),
        None => Err(Failure::usage(NO_COMMAND)),
        Some(first) if first.is_empty() => Err(Failure::usage("COMMAND is an empty word")),
        Some(_) => Ok(cut),
    }
}

/// For verbs whose plain words may stand before, between and behind the options.
pub fn cut_plain(
    verb: &str,
    options: &[&'static FlagInfo<'static>],
    words: &[OsString],
) -> Result<Cut, Failure> {
    cut_with(Known { verb, options }, words, Plain::StandsAlone)
}

/// What a word that is no option means for those behind it.
#[derive(Clone, Copy, PartialEq)]
enum Plain {
    TakesTheRest,
    StandsAlone,
}

fn cut_with(known: Known, words: &[OsString], plain: Plain) -> Result<Cut, Failure> {
    let mut cut = Cut::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"--help" | b"-h" => {
                cut.help = true;
                return Ok(cut);
            }
            b"--" => cut.command.extend(rest.by_ref().cloned()),
            bytes if bytes.starts_with(b"-") && bytes != b"-" => {
                cut.options.push(option(known, bytes, &mut rest)?);
            }
            _ => {
                cut.command.push(word.clone());
                if plain == Plain::TakesTheRest {
                    cut.command.extend(rest.by_ref().cloned());
                }
            }
        }
    }
    Ok(cut)
}

/// `--name`, `--name=value`, `--name value`, `-n`, `-n value` or `-nvalue`.
fn option(
    known: Known,
    word: &[u8],
    rest: &mut Iter<OsString>,
) -> Result<(&'static str, Option<OsString>), Failure> {
    let is_short = word[1] != b'-';
    let end = match word.iter().position(|b| *b == b'=') {
        _ if is_short => 2,
        Some(at) => at,
        None => word.len(),
    };
    let (name, attached) = word.split_at(end);
    let attached = attached.strip_prefix(b"=").or((!attached.is_empty()).then_some(attached));
    let attached = attached.map(|value| OsStr::from_bytes(value).to_os_string());
    let is_it = |flag: &FlagInfo| match is_short {
        true => flag.short.is_some_and(|short| name == [b'-', short as u8]),
        false => flag.long.as_bytes() == name,
    };
    let Some(flag) = known.options.iter().find(|flag| is_it(flag)) else {
        return Err(unknown_option(&String::from_utf8_lossy(name), known));
    };
    let value = match (&flag.kind, attached) {
        (FlagInfoKind::Switch, None) => None,
        (FlagInfoKind::Switch, Some(_)) => {
            return Err(Failure::usage(format!("{} takes no value", flag.long)));
        }
        (FlagInfoKind::Option { .. }, Some(value)) => Some(value),
        (FlagInfoKind::Option { arg_name }, None) => {
            Some(next_value(flag.long, arg_name, rest.next().map(OsString::as_os_str))?)
        }
    };
    Ok((flag.long, value))
}

/// A value in a word of its own. One that starts with two dashes is far more often a forgotten
/// value (`--cwd -- claude`) than a real one, so that needs the `=`.
fn next_value(option: &str, arg_name: &str, word: Option<&OsStr>) -> Result<OsString, Failure> {
    match word {
        Some(word) if !word.as_bytes().starts_with(b"--") => Ok(word.to_os_string()),
        Some(word) => Err(Failure::usage(format!(
            "{option} needs a value; if `{word}` is meant to be it, write {option}={word}",
            word = word.display()
        ))),
        None => Err(Failure::usage(format!("{option} needs a value: {option} {arg_name}"))),
    }
}

fn unknown_option(name: &str, known: Known) -> Failure {
    match nearest(name, known.options.iter().map(|flag| flag.long)) {
        Some(meant) => Failure::usage(format!("unknown option {name}; did you mean {meant}?")),
        None => Failure::usage(format!("unknown option {name}; `agentsup help {}` lists them", known.verb)),
    }
}

/// Lets argh fill its struct from what was cut. There is one of these for every verb with a COMMAND, so
/// what is the same for all of them is outside.
pub fn through_argh<T: FromArgs>(verb: &str, cut: &Cut) -> Result<T, Failure> {
    let words = encoded(cut);
    T::from_args(&["agentsup", verb], &borrowed(&words)).map_err(|early| complaint(early, cut))
}

#[inline(never)]
fn encoded(cut: &Cut) -> Vec<String> {
    let mut words = Vec::new();
    for (name, value) in &cut.options {
        words.push(name.to_string());
        words.extend(value.as_deref().map(encode));
    }
    words.extend(cut.command.iter().map(|word| encode(word)));
    words
}

#[inline(never)]
fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// What is left for argh to complain about: an option given twice.
#[inline(never)]
fn complaint(EarlyExit { output, .. }: EarlyExit, cut: &Cut) -> Failure {
    let message = output.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure::usage(match cut.options.iter().find(|(name, _)| cut.times(name) > 1) {
        Some((name, _)) if message.contains("duplicate") => format!("{name} is given twice"),
        _ => message,
    })
}

/// A word of the command line, byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Word(pub OsString);

impl FromArgValue for Word {
    fn from_arg_value(text: &str) -> Result<Word, String> {
        decode(text).map(Word).ok_or_else(|| format!("not a word as `encode` makes it: {text}"))
    }
}

/// Each byte as the character of its number, behind a letter that no option begins with.
fn encode(word: &OsStr) -> String {
    ['x'].into_iter().chain(word.as_bytes().iter().map(|byte| char::from(*byte))).collect()
}

fn decode(text: &str) -> Option<OsString> {
    let bytes = text.strip_prefix('x')?.chars().map(|c| u8::try_from(c).ok());
    Some(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{self, Init, Run};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn run(line: &str) -> Result<Cut, Failure> {
        cut("run", &args::options::<Run>(), &words(line))
    }

    fn complaint(line: &str) -> String {
        let failure = run(line).unwrap_err();
        assert_eq!(failure.code, 2, "{line}");
        failure.message
    }

    #[test]
    fn everything_after_the_first_plain_word_belongs_to_the_command() {
        for (line, command) in [
            ("claude -p hi", "claude -p hi"),
            ("claude --help", "claude --help"),
            ("--cwd /x -- claude --help", "claude --help"),
            ("--cwd=/x claude --cwd /y -- z", "claude --cwd /y -- z"),
            ("--cwd /x claude", "claude"),
            ("help", "help"),
            ("-- help", "help"),
            ("-- -x", "-x"),
            ("-- -- x", "-- x"),
            ("- x", "- x"),
        ] {
            assert_eq!(run(line).unwrap().command, words(command), "{line}");
        }
    }

    #[test]
    fn values_come_attached_or_in_the_next_word() {
        let wanted = vec![("--cwd", Some("/x".into())), ("--env", Some("A=b=c".into()))];
        assert_eq!(run("--cwd /x --env A=b=c true").unwrap().options, wanted);
        assert_eq!(run("--cwd=/x --env=A=b=c true").unwrap().options, wanted);
        assert_eq!(run("--prompt= true").unwrap().options, [("--prompt", Some("".into()))]);
        assert_eq!(run("--prompt - true").unwrap().options, [("--prompt", Some("-".into()))]);
        assert_eq!(run("--prompt=--x true").unwrap().options, [("--prompt", Some("--x".into()))]);
        assert_eq!(run("--prompt help true").unwrap().options, [("--prompt", Some("help".into()))]);
    }

    #[test]
    fn help_counts_only_before_the_command() {
        assert!(run("--help").unwrap().help);
        assert!(run("-h").unwrap().help);
        assert!(run("--cwd /x --help").unwrap().help);
        assert!(!run("true --help").unwrap().help);
        assert!(!run("-- --help").unwrap().help);
    }

    #[test]
    fn complaints_say_what_is_wrong() {
        for (line, message) in [
            ("--", NO_COMMAND),
            ("--cwd /x", NO_COMMAND),
            ("--cwd /x --", NO_COMMAND),
            ("-- ", "COMMAND is an empty word"),
            ("--cwd", "--cwd needs a value: --cwd PATH"),
            ("--cwd -- x", "--cwd needs a value; if `--` is meant to be it, write --cwd=--"),
            ("--frobnicate x", "unknown option --frobnicate; `agentsup help run` lists them"),
            ("--restrat=no x", "unknown option --restrat; did you mean --restart?"),
            ("-x y", "unknown option -x; `agentsup help run` lists them"),
        ] {
            assert_eq!(complaint(line), message, "{line}");
        }
        let json = args::options::<args::Explain>();
        assert_eq!(cut("explain", &json, &words("--json=1 x")).unwrap_err().message, "--json takes no value");
        assert_eq!(cut("explain", &json, &[]).unwrap_err().message, NO_COMMAND);
    }

    #[test]
    fn plain_words_may_stand_anywhere_where_there_is_no_command() {
        let logs = args::without_help(crate::cli::client::declared("logs").unwrap().info.flags);
        let cut = |line: &str| cut_plain("logs", &logs, &words(line)).map_err(|failure| failure.message);
        for line in ["s1 --follow --lines=5", "-f -n 5 s1", "-n5 s1 -f", "-f -n=5 -- s1"] {
            let mut cut = cut(line).unwrap();
            cut.options.sort();
            assert_eq!(cut.options, [("--follow", None), ("--lines", Some("5".into()))], "{line}");
            assert_eq!(cut.command, ["s1"], "{line}");
        }
        assert_eq!(cut("-- -f").unwrap().command, ["-f"]);
        assert_eq!(cut("- x").unwrap().command, ["-", "x"]);
        assert!(cut("s1 --help").unwrap().help);
        assert_eq!(cut("-fx").unwrap_err(), "--follow takes no value");
        assert_eq!(cut("-x").unwrap_err(), "unknown option -x; `agentsup help logs` lists them");
        assert_eq!(cut("-n").unwrap_err(), "--lines needs a value: --lines N");
    }

    #[test]
    fn bytes_that_are_no_text_survive() {
        let odd = OsString::from_vec(b"/\xff\xfe=\n".to_vec());
        let mut attached = OsString::from("--cwd=");
        attached.push(&odd);
        for line in [vec!["--cwd".into(), odd.clone(), odd.clone()], vec![attached, odd.clone()]] {
            let cut = cut("run", &args::options::<Run>(), &line).unwrap();
            let run: Run = through_argh("run", &cut).unwrap();
            assert_eq!(run.cwd, Some(Word(odd.clone())));
            assert_eq!(run.command, [Word(odd.clone())]);
        }
        let all: Vec<u8> = (0..=255).collect();
        let all = OsString::from_vec(all);
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(decode(&encode(OsStr::new(""))), Some(OsString::new()));
        for broken in ["", "41", "x€"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn argh_sees_no_command_as_its_own() {
        for line in ["help", "-- --help", "-- --cwd", "--grace 1 -- -- help"] {
            let cut = cut("init", &args::options::<Init>(), &words(line)).unwrap();
            let init: Init = through_argh("init", &cut).unwrap();
            let command: Vec<OsString> = init.command.into_iter().map(|word| word.0).collect();
            assert_eq!(command, cut.command, "{line}");
        }
    }

    #[test]
    fn an_option_given_twice_is_named() {
        let cut = run("--cwd /x --env A=1 --env B=2 --cwd /y true").unwrap();
        let failure = through_argh::<Run>("run", &cut).err().unwrap();
        assert_eq!((failure.code, failure.message.as_str()), (2, "--cwd is given twice"));
    }
}
