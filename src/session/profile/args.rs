//! Reads an agent's arguments the way the agent itself will: which words are options, which are
//! their values, and which are the prompt. Pure; the tables stand beside each profile.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

/// How many of the following words belong to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// The next word, whatever it looks like.
    One,
    /// The next word, unless it looks like an option.
    Maybe,
    /// The next word and all after it that do not look like options.
    Many,
}

/// What it takes, and its names; the first is what `Found` calls it.
pub(super) type Table = &'static [(Takes, &'static [&'static str])];

#[derive(Debug, Default)]
pub(super) struct Words {
    pub options: Vec<Found>,
    /// Indices of words that belong to no option.
    pub positionals: Vec<usize>,
    /// Index of the `--` after which everything is positional.
    pub separator: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Found {
    pub name: &'static str,
    pub value: Option<OsString>,
    /// The option's word and those of its values.
    pub at: Range<usize>,
    /// Shares its word with others, like `c` in `-pc`: cannot be taken out alone.
    pub bundled: bool,
}

impl Words {
    pub(super) fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    pub(super) fn option(&self, name: &str) -> Option<&Found> {
        self.options.iter().find(|found| found.name == name)
    }

    /// Everything that is there only for the prompt's sake.
    pub(super) fn prompt_words(&self) -> impl Iterator<Item = usize> {
        self.positionals.iter().copied().chain(self.separator)
    }
}

/// An option that is not in the table keeps every word up to the next option: a newer agent may
/// have given it values, and a prompt that is sent twice does less harm than a value taken away.
pub(super) fn read(table: Table, args: &[OsString]) -> Words {
    let mut words = Words::default();
    let mut at = 0;
    while at < args.len() {
        let word = &args[at];
        if word == "--" {
            words.separator = Some(at);
            words.positionals.extend(at + 1..args.len());
            break;
        }
        at = if looks_like_option(word) {
            option(table, args, at, &mut words)
        } else {
            words.positionals.push(at);
            at + 1
        };
    }
    words
}

/// A lone `-` is a word: by custom it means stdin.
fn looks_like_option(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 1 && bytes[0] == b'-'
}

/// Notes what stands at `at`, returns where the next word begins.
fn option(table: Table, args: &[OsString], at: usize, words: &mut Words) -> usize {
    let Some(word) = args[at].to_str() else {
        return values_end(args, at, Takes::Many, looks_like_option);
    };
    if let Some((takes, name)) = look_up(table, word) {
        return note(args, at, takes, name, false, words);
    }
    if word.starts_with("--") {
        let Some((long, value)) = word.split_once('=') else {
            return values_end(args, at, Takes::Many, looks_like_option);
        };
        if let Some((_, name)) = look_up(table, long) {
            let value = Some(value.into());
            words.options.push(Found { name, value, at: at..at + 1, bundled: false });
        }
        return at + 1;
    }
    // `-pc`, `-rID`: letters until one takes a value, which is the rest of the word if any is left.
    for (i, letter) in word.char_indices().skip(1) {
        let rest = &word[i + letter.len_utf8()..];
        match look_up(table, &format!("-{letter}")) {
            None => return values_end(args, at, Takes::Many, looks_like_option),
            Some((Takes::Nothing, name)) => {
                words.options.push(Found { name, value: None, at: at..at + 1, bundled: true });
            }
            Some((takes, name)) if rest.is_empty() => {
                return note(args, at, takes, name, true, words);
            }
            Some((_, name)) => {
                let value = Some(rest.into());
                words.options.push(Found { name, value, at: at..at + 1, bundled: i > 1 });
                return at + 1;
            }
        }
    }
    at + 1
}

fn note(
    args: &[OsString],
    at: usize,
    takes: Takes,
    name: &'static str,
    bundled: bool,
    words: &mut Words,
) -> usize {
    let end = match takes {
        // The first value of a list is taken whatever it looks like.
        Takes::One | Takes::Many if at + 1 == args.len() => at + 1,
        Takes::Many => values_end(args, at + 1, Takes::Many, looks_like_option),
        other => values_end(args, at, other, looks_like_option),
    };
    let value = args[at..end].get(1).cloned();
    words.options.push(Found { name, value, at: at..end, bundled });
    end
}

fn values_end(args: &[OsString], at: usize, takes: Takes, stops: impl Fn(&OsStr) -> bool) -> usize {
    let following = &args[at + 1..];
    let plain = || following.iter().take_while(|word| !stops(word)).count();
    at + 1
        + match takes {
            Takes::Nothing => 0,
            Takes::One => following.len().min(1),
            Takes::Maybe => plain().min(1),
            Takes::Many => plain(),
        }
}

fn look_up(table: Table, word: &str) -> Option<(Takes, &'static str)> {
    let (takes, names) = table.iter().find(|(_, names)| names.contains(&word))?;
    Some((*takes, names[0]))
}

#[cfg(test)]
mod tests {
    use super::Takes::*;
    use super::*;

    const TABLE: Table = &[
        (Nothing, &["--print", "-p"]),
        (One, &["--model", "-m"]),
        (Maybe, &["--resume", "-r"]),
        (Many, &["--dir"]),
    ];

    fn words(line: &str) -> (String, Words) {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = read(TABLE, &args);
        let positionals: Vec<&str> = words.positionals.iter().map(|i| args[*i].to_str().unwrap()).collect();
        (positionals.join(" "), words)
    }

    #[test]
    fn positionals_are_what_no_option_takes() {
        for (line, positionals) in [
            ("a b", "a b"),
            ("-p a", "a"),
            ("--model a b", "b"),
            ("--model -p b", "b"),
            ("--model=a b", "b"),
            ("-ma b", "b"),
            ("-pm a b", "b"),
            ("--resume a b", "b"),
            ("--resume -p b", "b"),
            ("--resume - b", "b"),
            ("-r", ""),
            ("--dir a b c", ""),
            ("--dir a b -p c", "c"),
            ("--dir -x a", ""),
            ("--dir=a b", "b"),
            ("--dir a -- -b", "-b"),
            ("--dir", ""),
            ("--model", ""),
            ("-", "-"),
        ] {
            assert_eq!(words(line).0, positionals, "{line}");
        }
    }

    #[test]
    fn an_unknown_option_keeps_its_words() {
        assert_eq!(words("--new a b -p c").0, "c");
        assert_eq!(words("--new=a b").0, "b");
        assert_eq!(words("-x a").0, "");
        assert_eq!(words("-px a").0, "");
    }

    #[test]
    fn bundles_are_taken_apart() {
        let (_, w) = words("-prID");
        assert!(w.has("--print"));
        let resume = w.option("--resume").unwrap();
        assert_eq!(resume.value.as_deref(), Some(OsStr::new("ID")));
        assert!(resume.bundled);
        let (_, w) = words("-pr ID x");
        assert_eq!(w.option("--resume").unwrap().at, 0..2);
        assert!(!words("-rID").1.option("--resume").unwrap().bundled);
    }
}
