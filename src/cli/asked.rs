//! What flags or the `[run]` table ask for. Both end in the same `Asked`, so both know the same
//! settings and read their values by the same rules.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::Failure;
use super::args::Run;
use super::config::table::table;
use super::config::value;
use super::duration;
use super::names::Named;
use super::words::Word;
use crate::policy::crash::{OnClean, OnHalt, Restart};
use crate::session::Start;
use crate::supervisor::settings::{Io, Size};

/// A setting that was not asked for is `None` or empty. The field names are the keys of `[run]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    pub document: Option<PathBuf>,
    pub session: Option<String>,
    pub label: Vec<(String, String)>,
    pub cwd: Option<PathBuf>,
    pub dir: Option<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
    pub pass_env: Vec<String>,
    pub agent: Option<String>,
    /// As written: `@FILE` is not read yet.
    pub prompt: Option<OsString>,
    pub start: Option<Start>,
    pub io: Option<Io>,
    pub size: Option<Size>,
    pub restart: Option<Restart>,
    pub on_clean: Option<OnClean>,
    pub on_halt: Option<OnHalt>,
    pub grace: Option<Duration>,
    pub timeout: Option<Duration>,
    pub socket_mode: Option<u32>,
    /// A number or a name: not looked up yet.
    pub socket_group: Option<String>,
    pub no_socket: Option<bool>,
    pub ready_fd: Option<i32>,
    pub no_hooks: Option<bool>,
    pub watch: Option<bool>,
    pub record: Option<PathBuf>,
    pub record_input: Option<bool>,
    /// The rest has no flag.
    pub allowed_dirs: Vec<String>,
    pub continue_args: Vec<String>,
    pub before_spawn: Vec<String>,
}

table! {
    Asked {
        document: value::path,
        session: value::text,
        label: value::labels,
        cwd: value::path,
        dir: value::path,
        env: value::variables,
        pass_env: value::texts,
        agent: value::text,
        prompt: value::prompt,
        start: value::choice,
        io: value::choice,
        size: value::size,
        restart: value::choice,
        on_clean: value::choice,
        on_halt: value::choice,
        grace: value::duration,
        timeout: value::positive_duration,
        socket_mode: value::mode,
        socket_group: value::group,
        no_socket: value::flag,
        ready_fd: value::descriptor,
        no_hooks: value::flag,
        watch: value::flag,
        record: value::path,
        record_input: value::flag,
        allowed_dirs: value::texts,
        continue_args: value::words,
        before_spawn: value::command,
    }
}

/// Reads the values of flags; what cannot be read is a usage error that names the flag.
pub fn from_flags(run: Run) -> Result<Asked, Failure> {
    Ok(Asked {
        document: run.document.map(|word| path("--document", word)).transpose()?,
        session: run.session.map(|word| text("--session", word)).transpose()?,
        label: pairs("--label", run.label, label)?,
        cwd: run.cwd.map(|word| path("--cwd", word)).transpose()?,
        dir: run.dir.map(|word| path("--dir", word)).transpose()?,
        env: pairs("--env", run.env, |word| variable(&word.0))?,
        pass_env: run.pass_env.into_iter().map(|word| text("--pass-env", word)).collect::<Result<_, _>>()?,
        agent: run.agent.map(|word| text("--agent", word)).transpose()?,
        prompt: run.prompt.map(|word| word.0),
        start: run.start.map(|word| read("--start", word, Named::parse)).transpose()?,
        io: run.io.map(|word| read("--io", word, Named::parse)).transpose()?,
        size: run.size.map(|word| read("--size", word, duration::parse_size)).transpose()?,
        restart: run.restart.map(|word| read("--restart", word, Named::parse)).transpose()?,
        on_clean: run.on_clean.map(|word| read("--on-clean", word, Named::parse)).transpose()?,
        on_halt: run.on_halt.map(|word| read("--on-halt", word, Named::parse)).transpose()?,
        grace: run.grace.map(|word| read("--grace", word, duration::parse)).transpose()?,
        timeout: run.timeout.map(|word| read("--timeout", word, duration::parse_positive)).transpose()?,
        socket_mode: run.socket_mode.map(|word| read("--socket-mode", word, mode)).transpose()?,
        socket_group: run.socket_group.map(|word| text("--socket-group", word)).transpose()?,
        no_socket: run.no_socket.then_some(true),
        ready_fd: run.ready_fd.map(|word| read("--ready-fd", word, descriptor)).transpose()?,
        no_hooks: run.no_hooks.then_some(true),
        watch: run.watch.then_some(true),
        record: run.record.map(|word| path("--record", word)).transpose()?,
        record_input: run.record_input.then_some(true),
        allowed_dirs: Vec::new(),
        continue_args: Vec::new(),
        before_spawn: Vec::new(),
    })
}

/// A value that is text, read by `parse`.
pub fn read<T>(flag: &str, word: Word, parse: fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    let text = word.0.to_str().ok_or_else(|| not_text(flag, &word.0))?;
    parse(text).map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

/// A socket knows only reading and writing, and a caller needs both; its owner is always let in.
pub fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    match mode {
        Some(mode) if mode & 0o600 == 0o600 && mode & !0o666 == 0 => Ok(mode),
        _ => Err(format!("`{text}` is no mode for a socket; expected 0600, 0660, 0606 or 0666")),
    }
}

/// 0, 1 and 2 are the agent's, or the operator's.
pub fn descriptor(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if number > 2 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ => Err(format!("`{text}` is no descriptor to report on; expected a number from 3 on")),
    }
}

pub fn text(flag: &str, word: Word) -> Result<String, Failure> {
    read(flag, word, |text| Ok(non_empty(text)?.to_string()))
}

/// Where nothing says something too.
pub fn any_text(flag: &str, word: Word) -> Result<String, Failure> {
    read(flag, word, |text| Ok(text.to_string()))
}

fn not_text(flag: &str, word: &OsStr) -> Failure {
    Failure::usage(format!("{flag}: `{}` is not UTF-8 text", word.display()))
}

pub fn path(flag: &str, Word(path): Word) -> Result<PathBuf, Failure> {
    match path.is_empty() {
        true => Err(Failure::usage(format!("{flag}: the path is empty"))),
        false => Ok(PathBuf::from(path)),
    }
}

fn pairs<K: PartialEq + AsRef<OsStr>, V>(
    flag: &str,
    words: Vec<Word>,
    parse: fn(&Word) -> Result<(K, V), String>,
) -> Result<Vec<(K, V)>, Failure> {
    let pairs = words.iter().map(parse).collect::<Result<Vec<_>, _>>();
    pairs.and_then(unique).map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

fn label(Word(word): &Word) -> Result<(String, String), String> {
    label_from(word.to_str().ok_or_else(|| format!("`{}` is not UTF-8 text", word.display()))?)
}

pub fn label_from(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value))
            if !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c.is_control()) =>
        {
            Ok((key.to_string(), value.to_string()))
        }
        _ => Err(format!("`{text}` is not a label; expected KEY=VALUE, the key without blanks")),
    }
}

/// The value may be any bytes and is never repeated in an error: it may be a secret.
pub fn variable(word: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        None => Err(format!(
            "`{name}` has no `=`; expected NAME=VALUE (to pass on a variable as it is: --pass-env {name})",
            name = word.display()
        )),
        Some(0) => Err("the name is empty; expected NAME=VALUE".to_string()),
        Some(at) => {
            let part = |bytes| OsStr::from_bytes(bytes).to_os_string();
            Ok((part(&bytes[..at]), part(&bytes[at + 1..])))
        }
    }
}

/// The same name twice is a mistake: only one of the values could win.
pub fn unique<K: PartialEq + AsRef<OsStr>, V>(pairs: Vec<(K, V)>) -> Result<Vec<(K, V)>, String> {
    for (n, (key, _)) in pairs.iter().enumerate() {
        if pairs[..n].iter().any(|(earlier, _)| earlier == key) {
            return Err(format!("`{}` is given twice", key.as_ref().display()));
        }
    }
    Ok(pairs)
}

pub fn non_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() { Err("the value is empty".to_string()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{args, words};
    use std::os::unix::ffi::OsStringExt;

    pub fn asked(line: &[&str]) -> Result<Asked, Failure> {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let cut = words::cut("run", &args::options::<Run>(), &line)?;
        from_flags(words::through_argh("run", &cut)?)
    }

    #[test]
    fn every_flag_arrives_in_its_field() {
        let line = "--document d.md --session s1 --label a=b --label c= --cwd /w --dir /s --env A=b=c --env B= \
                    --pass-env X_* --agent claude --prompt @p --start continue --io inherit --size 80x24 \
                    --restart always --on-clean restart --on-halt exit --grace 500ms --timeout 2h \
                    --socket-mode 0660 --socket-group users --no-socket --ready-fd 7 --no-hooks --watch \
                    --record r.cast --record-input true";
        let asked = asked(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        let wanted = Asked {
            document: Some("d.md".into()),
            session: Some("s1".into()),
            label: vec![("a".into(), "b".into()), ("c".into(), "".into())],
            cwd: Some("/w".into()),
            dir: Some("/s".into()),
            env: vec![("A".into(), "b=c".into()), ("B".into(), "".into())],
            pass_env: vec!["X_*".into()],
            agent: Some("claude".into()),
            prompt: Some("@p".into()),
            start: Some(Start::Continue),
            io: Some(Io::Inherit),
            size: Some(Size { cols: 80, rows: 24 }),
            restart: Some(Restart::Always),
            on_clean: Some(OnClean::Restart),
            on_halt: Some(OnHalt::Exit),
            grace: Some(Duration::from_millis(500)),
            timeout: Some(Duration::from_secs(7200)),
            socket_mode: Some(0o660),
            socket_group: Some("users".into()),
            no_socket: Some(true),
            ready_fd: Some(7),
            no_hooks: Some(true),
            watch: Some(true),
            record: Some("r.cast".into()),
            record_input: Some(true),
            ..Asked::default()
        };
        assert_eq!(asked, wanted);
    }

    #[test]
    fn a_bad_value_is_a_usage_error_that_names_its_flag() {
        for (option, message) in [
            ("--grace=8x", "--grace: `8x` is not a duration; expected something like 8, 8s, 500ms, 5m or 2h"),
            ("--timeout=0", "--timeout: `0` is no time at all; expected more than zero"),
            ("--restart=never", "--restart: `never` is not a choice; expected on-failure, always or no"),
            ("--size=80", "--size: `80` is not a size; expected COLSxROWS like 120x40, each from 1 to 4096"),
            (
                "--env=A",
                "--env: `A` has no `=`; expected NAME=VALUE (to pass on a variable as it is: --pass-env A)",
            ),
            ("--env==x", "--env: the name is empty; expected NAME=VALUE"),
            ("--label=a b=c", "--label: `a b=c` is not a label; expected KEY=VALUE, the key without blanks"),
            (
                "--socket-mode=0700",
                "--socket-mode: `0700` is no mode for a socket; expected 0600, 0660, 0606 or 0666",
            ),
            (
                "--socket-mode=+660",
                "--socket-mode: `+660` is no mode for a socket; expected 0600, 0660, 0606 or 0666",
            ),
            ("--socket-group=", "--socket-group: the value is empty"),
            ("--ready-fd=2", "--ready-fd: `2` is no descriptor to report on; expected a number from 3 on"),
            ("--ready-fd=+3", "--ready-fd: `+3` is no descriptor to report on; expected a number from 3 on"),
            ("--cwd=", "--cwd: the path is empty"),
            ("--session=", "--session: the value is empty"),
        ] {
            let failure = asked(&[option, "true"]).unwrap_err();
            assert_eq!(failure, Failure::usage(message), "{option}");
        }
        for twice in [["--env=A=1", "--env=A=2", "true"], ["--label=a=1", "--label=a=1", "true"]] {
            assert!(asked(&twice).unwrap_err().message.contains("given twice"));
        }
    }

    #[test]
    fn paths_and_variables_may_be_any_bytes_but_names_of_things_are_text() {
        let odd = |prefix: &[u8]| OsString::from_vec([prefix, b"\xff"].concat());
        let cut = |word| words::cut("run", &args::options::<Run>(), &[word, "true".into()]).unwrap();
        let asked = |word| from_flags(words::through_argh("run", &cut(word)).unwrap());
        assert_eq!(asked(odd(b"--cwd=/")).unwrap().cwd, Some(PathBuf::from(odd(b"/"))));
        assert_eq!(asked(odd(b"--env=A=")).unwrap().env, [("A".into(), odd(b""))]);
        assert_eq!(asked(odd(b"--prompt=")).unwrap().prompt, Some(odd(b"")));
        assert!(asked(odd(b"--session=")).unwrap_err().message.contains("not UTF-8"));
        assert!(asked(odd(b"--label=a=")).unwrap_err().message.contains("not UTF-8"));
    }
}
