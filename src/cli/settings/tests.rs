use std::path::Path;

use super::*;
use crate::cli::{args, asked, config, words};

/// The options and the command as one line of words without blanks in them.
pub fn settled(line: &str, file: Option<&str>, stdin: Stdin) -> Result<Choices, Failure> {
    let line: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let cut = words::cut("run", &args::options::<args::Run>(), &line)?;
    let flags = asked::from_flags(words::through_argh("run", &cut)?)?;
    let config = file.map(|text| config::parse(Path::new("a.toml"), text)).transpose()?;
    settle(cut.command, flags, config, stdin, Origins::OfAll)
}

pub fn source<'a>(choices: &'a Choices, name: &str) -> (&'a str, &'a str) {
    let mut found = choices.origins.iter().filter(|origin| origin.name == name);
    let origin = found.next().unwrap_or_else(|| panic!("{name} has no origin"));
    assert!(found.next().is_none(), "{name} has two origins");
    (&origin.value, &origin.source)
}

use Stdin::{Data, Null, Terminal};

#[test]
fn defaults_hang_together() {
    for (line, stdin, io, restart, on_clean, on_halt) in [
        ("claude", Terminal, "pty", "on-failure", "prompt", "wait"),
        ("claude", Null, "pty", "on-failure", "exit", "exit"),
        ("claude", Data, "pty", "on-failure", "exit", "exit"),
        ("/opt/bin/codex", Data, "pty", "on-failure", "exit", "exit"),
        ("claude -p hi", Terminal, "inherit", "no", "exit", "wait"),
        ("claude -p hi", Data, "inherit", "no", "exit", "exit"),
        ("codex exec hi", Null, "inherit", "no", "exit", "exit"),
        ("--agent claude wrapper -p hi", Null, "inherit", "no", "exit", "exit"),
        ("--agent other claude -p hi", Data, "inherit", "on-failure", "exit", "exit"),
        ("sh -p", Terminal, "pty", "on-failure", "prompt", "wait"),
        ("sh", Null, "pty", "on-failure", "exit", "exit"),
        ("sh", Data, "inherit", "on-failure", "exit", "exit"),
        ("--agent claude sh", Data, "pty", "on-failure", "exit", "exit"),
        ("--restart always sh", Terminal, "pty", "always", "restart", "wait"),
        ("--restart always sh", Null, "pty", "always", "restart", "exit"),
        ("--restart no sh", Terminal, "pty", "no", "exit", "wait"),
        ("--restart always claude -p hi", Null, "inherit", "always", "restart", "exit"),
        ("--io pty claude -p hi", Null, "pty", "no", "exit", "exit"),
        ("--io pty sh", Data, "pty", "on-failure", "exit", "exit"),
        ("--io inherit --on-clean prompt sh", Terminal, "inherit", "on-failure", "prompt", "wait"),
        ("--on-clean restart sh", Null, "pty", "on-failure", "restart", "exit"),
        ("--on-halt wait sh", Null, "pty", "on-failure", "exit", "wait"),
        ("--on-halt wait --no-socket sh", Terminal, "pty", "on-failure", "prompt", "wait"),
        ("--on-clean exit --on-halt exit sh", Terminal, "pty", "on-failure", "exit", "exit"),
    ] {
        let choices = settled(line, None, stdin).unwrap_or_else(|failure| panic!("{line}: {failure:?}"));
        let found =
            (choices.io.name(), choices.restart.name(), choices.on_clean.name(), choices.on_halt.name());
        assert_eq!(found, (io, restart, on_clean, on_halt), "{line} with {stdin:?} on stdin");
    }
}

#[test]
fn what_contradicts_is_refused_and_both_sources_are_named() {
    for (line, file, stdin, parts) in [
        ("--restart no --on-clean restart sh", "", Null, ["restart no (flag)", "on_clean restart (flag)"]),
        ("--restart no --on-clean prompt sh", "", Terminal, ["restart no (flag)", "on_clean prompt (flag)"]),
        ("--restart always --on-clean exit sh", "", Null, ["restart always (flag)", "on_clean exit (flag)"]),
        ("--restart always --on-clean prompt sh", "", Terminal, ["restart always", "on_clean prompt"]),
        (
            "--restart no sh",
            "[run]\non_clean = \"restart\"",
            Null,
            ["(flag)", "on_clean restart (config a.toml)"],
        ),
        ("--on-clean restart claude -p hi", "", Null, ["restart no (default (one-shot call))", "(flag)"]),
        ("--on-clean prompt sh", "", Null, ["on_clean prompt (flag)", "no terminal on stdin"]),
        ("--on-clean prompt sh", "", Data, ["on_clean prompt (flag)", "no terminal on stdin"]),
        ("--on-halt wait --no-socket sh", "", Null, ["on_halt wait (flag)", "no terminal on stdin"]),
        (
            "--no-socket sh",
            "[run]\non_halt = \"wait\"",
            Data,
            ["on_halt wait (config a.toml)", "no terminal on stdin and no socket"],
        ),
        ("--io inherit --size 80x24 sh", "", Null, ["--io inherit", "--size"]),
        ("--agent nobody sh", "", Null, ["--agent", "nobody"]),
    ] {
        let failure = settled(line, Some(file), stdin).expect_err(line);
        assert_eq!(failure.code, 78, "{line}");
        for part in parts {
            assert!(failure.message.contains(part), "{line}: {}", failure.message);
        }
    }
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = "[run]\ngrace = \"5s\"\nrestart = \"always\"\nsize = \"80x24\"\n[log]\njournald = false";
    let choices = settled("--grace 1s --io pty sh", Some(file), Null).unwrap();
    assert_eq!(choices.grace, Duration::from_secs(1));
    assert_eq!(source(&choices, "grace"), ("1s", "flag"));
    assert_eq!(source(&choices, "restart"), ("always", "config a.toml"));
    assert_eq!(source(&choices, "size"), ("80x24", "config a.toml"));
    assert_eq!(source(&choices, "on_clean"), ("restart", "default (restart always)"));
    assert_eq!(source(&choices, "timeout"), ("none", "default"));
    assert_eq!(source(&choices, "log.journald"), ("false", "config a.toml"));
    assert_eq!(source(&choices, "log.max_bytes"), ("33554432", "default"));
    assert_eq!(choices.scrollback, Some(2000));
    assert_eq!(choices.config.as_deref(), Some(Path::new("a.toml")));
    assert_eq!(choices.said_in_file("restart"), Some("config a.toml"));
    assert_eq!(choices.said_in_file("grace"), None);
}

#[test]
fn names_in_both_take_the_flag_and_patterns_add_up() {
    let file = "[run]\nenv = [\"A=file\", \"B=file\"]\nlabel = [\"team=x\"]\npass_env = [\"F_*\"]";
    let choices = settled("--env A=flag --env C=flag --pass-env G_* sh", Some(file), Null).unwrap();
    let env: Vec<(OsString, OsString)> =
        [("B", "file"), ("A", "flag"), ("C", "flag")].map(|(n, v)| (n.into(), v.into())).to_vec();
    assert_eq!(choices.env, env);
    assert_eq!(choices.labels, [("team".to_string(), "x".to_string())]);
    assert_eq!(choices.pass_env, ["F_*", "G_*"]);
    assert_eq!(source(&choices, "env A"), ("flag", "flag"));
    assert_eq!(source(&choices, "env B"), ("file", "config a.toml"));
    assert_eq!(source(&choices, "label team"), ("x", "config a.toml"));
}

#[test]
fn policy_numbers_say_which_of_them_the_file_gave() {
    let choices = settled("sh", Some("[policy]\nhalt_after = 9"), Null).unwrap();
    assert_eq!(choices.crash, Numbers { halt_after: 9, ..Numbers::default() });
    assert_eq!(source(&choices, "policy.halt_after"), ("9", "config a.toml"));
    assert_eq!(source(&choices, "policy.window"), ("1m", "default"));
    assert_eq!(source(&choices, "policy.backoff"), ("fixed", "default"));
    assert!(!choices.origins.iter().any(|origin| origin.name == "policy.jitter"));

    let choices = settled("sh", Some("[policy]\nbackoff = \"exponential\"\nbase = 1"), Null).unwrap();
    assert_eq!(source(&choices, "policy.base"), ("1s", "config a.toml"));
    assert_eq!(source(&choices, "policy.jitter"), ("0.1", "default"));
}

#[test]
fn grace_may_be_zero() {
    assert_eq!(settled("--grace 0 sh", None, Null).unwrap().grace, Duration::ZERO);
}

#[test]
fn lists_of_the_file_arrive() {
    let file = "[run]\nallowed_dirs = [\"/w\"]\ncontinue_args = [\"-c\"]\nbefore_spawn = [\"check\"]\n\
                [halt]\nnotify = [\"tell\", \"me\"]";
    let choices = settled("sh", Some(file), Null).unwrap();
    assert_eq!(choices.allowed_dirs, ["/w"]);
    assert_eq!(choices.continue_args, ["-c"]);
    assert_eq!(choices.before_spawn, ["check"]);
    assert_eq!(choices.halt_notify, ["tell", "me"]);
    assert_eq!(source(&choices, "halt.notify"), ("[\"tell\", \"me\"]", "config a.toml"));
}
