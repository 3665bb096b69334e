use std::fs;
use std::path::PathBuf;

use super::*;
use crate::cli::world::Stdin;
use crate::os::lock::{Lock, Taken};

/// A directory of its own, gone afterwards.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("agentsup-explain-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("state")).unwrap();
        Place { dir: dir.canonicalize().unwrap() }
    }

    fn world(&self, env: &[(&str, &str)]) -> World {
        let state = self.dir.join("state");
        let fixed = [("PATH", "/usr/bin:/bin"), ("AGENTSUP_DIR", state.to_str().unwrap())];
        let env = fixed.iter().chain(env).map(|(name, value)| (name.into(), value.into())).collect();
        World {
            stdin: Stdin::Null,
            env,
            started_in: self.dir.clone(),
            uid: nix::unistd::getuid().as_raw(),
            own_binary: None,
        }
    }

    fn report(&self, line: &[&str], env: &[(&str, &str)]) -> Result<(Report, Option<Failure>), Failure> {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let cut = words::cut("run", &args::options::<Run>(), &line)?;
        report(&cut, self.world(env))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn find<'a>(list: &'a [Setting], name: &str) -> (&'a str, &'a str) {
    let found = list.iter().find(|setting| setting.name == name);
    let found = found.unwrap_or_else(|| panic!("{name} is not reported"));
    (&found.value, &found.source)
}

#[test]
fn both_command_lines_and_every_source_are_shown() {
    let place = Place::new("lines");
    let (report, _) =
        place.report(&["--session=s1", "claude", "do it"], &[("HOME", "/h"), ("ODD", "1")]).unwrap();
    assert_eq!(report.fresh, ["claude", "--session-id", CONVERSATION, "do it"]);
    assert_eq!(report.again, ["claude", "--resume", CONVERSATION]);
    assert_eq!((report.profile.value.as_str(), report.cwd.source.as_str()), ("claude", "invocation"));
    assert_eq!((report.session.value.as_str(), report.session.source.as_str()), ("s1", "--session"));
    assert_eq!(report.state_dir.source, "$AGENTSUP_DIR");
    assert_eq!(find(&report.env, "HOME"), ("/h", "parent"));
    assert_eq!(find(&report.env, "AGENT_DOC_SESSION"), ("s1", "agentsup"));
    assert!(report.dropped.contains(&"ODD".to_string()));
    assert_eq!(find(&report.settings, "restart"), ("on-failure", "default"));
    assert_eq!(find(&report.settings, "policy.halt_after"), ("5", "default"));
}

#[test]
fn a_one_shot_call_is_itself_again() {
    let place = Place::new("oneshot");
    let (report, _) = place.report(&["claude", "-p", "hi"], &[]).unwrap();
    assert_eq!(report.fresh, report.again);
    assert_eq!(report.continue_is_fresh, Some("one_shot"));
    assert_eq!(find(&report.settings, "io"), ("inherit", "default (one-shot call)"));
}

#[test]
fn secrets_are_masked_wherever_they_stand() {
    let place = Place::new("secrets");
    let line = ["--env=MY_KEY=tiny4", "--label=a=hunter2-hunter2", "sh", "-c", "curl -H hunter2-hunter2"];
    let (report, _) = place.report(&line, &[("GH_TOKEN", "hunter2-hunter2")]).unwrap();
    assert_eq!(find(&report.env, "GH_TOKEN"), ("***", "parent"));
    assert_eq!(find(&report.env, "MY_KEY"), ("***", "--env"));
    assert_eq!(report.fresh, ["sh", "-c", "curl -H ***"]);
    assert_eq!(find(&report.settings, "label a"), ("***", "flag"));
    assert_eq!(find(&report.settings, "screen.detach_key").0, "ctrl-\\");
    for text in [text::render(&report), serde_json::to_string(&report).unwrap()] {
        assert!(!text.contains("hunter2") && !text.contains("tiny4"), "{text}");
    }
}

#[test]
fn what_the_config_file_gave_says_so() {
    let place = Place::new("config");
    let config = place.dir.join("a.toml");
    fs::create_dir(place.dir.join("sub")).unwrap();
    let lines = "session = \"s2\"\ncwd = \"sub\"\ndir = \"state\"\nenv = [\"A=1\"]\nagent = \"other\"";
    fs::write(&config, format!("[run]\n{lines}\n")).unwrap();
    let source = format!("config {}", config.display());
    let (report, _) = place.report(&["sh"], &[("AGENTSUP_CONFIG", config.to_str().unwrap())]).unwrap();
    assert_eq!(report.config.unwrap().source, "$AGENTSUP_CONFIG");
    assert_eq!((report.session.value, &report.session.source), ("s2".to_string(), &source));
    assert_eq!(report.cwd.value, place.dir.join("sub").to_str().unwrap());
    assert_eq!(report.cwd.source, format!("cli_flag, {source}"));
    assert_eq!(report.state_dir.source, source);
    assert_eq!(report.profile.source, source);
    assert_eq!(find(&report.env, "A"), ("1", source.as_str()));

    fs::write(&config, "[run]\nsession = \"a/b\"").unwrap();
    let failure = place.report(&["--config=a.toml", "sh"], &[]);
    // `--config` is opened as it is named, so it does not depend on the world of this test.
    assert_eq!(failure.unwrap_err().code, 78);
    let failure = place.report(&["sh"], &[("AGENTSUP_CONFIG", config.to_str().unwrap())]).unwrap_err();
    assert!(failure.message.starts_with(&format!("session ({source}): ")), "{}", failure.message);
}

#[test]
fn where_run_would_refuse_so_does_explain() {
    let place = Place::new("refuse");
    for (line, code, part) in [
        (&["--cwd=nope", "sh"][..], 78, "--cwd flag: path does not exist: "),
        (&["--document=nope.md", "sh"], 78, "nope.md"),
        (&["--session=.x", "sh"], 78, "--session: "),
        (&["--prompt=@nope", "claude"], 78, "prompt @nope: cannot be read"),
        (&["--prompt=x", "sh"], 78, "--prompt: "),
    ] {
        let failure = place.report(line, &[]).expect_err(line[0]);
        assert_eq!(failure.code, code, "{line:?}");
        assert!(failure.message.contains(part), "{line:?}: {}", failure.message);
    }
    let (report, failure) = place.report(&["no-such-program"], &[]).unwrap();
    let failure = failure.unwrap();
    assert_eq!((failure.code, report.program), (127, None));
    assert_eq!(report.error, Some(failure.message));
    fs::write(place.dir.join("plain"), "").unwrap();
    let (_, failure) = place.report(&["./plain"], &[]).unwrap();
    assert_eq!(failure.unwrap().code, 126);
}

#[test]
fn a_session_that_somebody_supervises_is_refused_as_run_refuses_it() {
    let place = Place::new("taken");
    let lock = place.dir.join("state/supervisor/s.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let Ok(Taken::Ours(held)) = Lock::take(&lock, "pid=7 host=here", |_| false) else { panic!("it is free") };
    let (report, failure) = place.report(&["--session=s", "sh"], &[]).unwrap();
    let failure = failure.unwrap();
    assert_eq!(failure.code, 78);
    assert!(
        failure.message.starts_with("session s is already supervised (pid=7 host=here); "),
        "{failure:?}"
    );
    assert_eq!(report.error, Some(failure.message));
    drop(held);
    assert!(place.report(&["--session=s", "sh"], &[]).unwrap().1.is_none());
}

#[test]
fn why_there_will_be_no_hooks_is_said() {
    let place = Place::new("hooks");
    fs::write(place.dir.join("bad.json"), "{").unwrap();
    let hooked = |line: &[&str]| {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let world = World { own_binary: Some("/bin/agentsup".into()), ..place.world(&[]) };
        report(&words::cut("run", &args::options::<Run>(), &line).unwrap(), world).unwrap().0
    };
    let report = hooked(&["claude", "--settings", "bad.json"]);
    assert!(text::render(&report).contains("\nhooks                   none: "), "{:?}", report.hooks_off);
    let report = hooked(&["claude"]);
    assert!(report.hooks.is_some() && report.hooks_off.is_none(), "{:?}", report.hooks_off);
}

#[test]
fn nothing_is_created() {
    let place = Place::new("nothing");
    fs::remove_dir(place.dir.join("state")).unwrap();
    place.report(&["sh"], &[]).unwrap();
    assert_eq!(fs::read_dir(&place.dir).unwrap().count(), 0);
}

#[test]
fn text_for_people_keeps_to_80_columns_where_values_let_it() {
    let place = Place::new("columns");
    let (report, _) = place.report(&["--session=s", "--label=a=b\x1b[31m", "sh"], &[]).unwrap();
    let text = text::render(&report);
    assert!(!text.contains('\x1b'));
    let settings = text.split("Settings\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for line in settings.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(line.starts_with("  "), "{line}");
    }
    assert!(text.contains("\n  restart              "), "{text}");
}
