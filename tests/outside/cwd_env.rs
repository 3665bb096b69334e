//! Issue points 5 and 6, as seen from inside the agent and from the exit code.

use std::collections::BTreeMap;

use crate::support;
use crate::support::{AGENTSUP, FAKE, Lab, Launch, exists, log, sys};

/// Runs the dumping agent once and checks that all views of its directory are `expected`.
fn assert_cwd(lab: &Lab, launch: Launch, expected: &str, source: &str) {
    let ended = launch.with(["--restart", "no"]).end();
    ended.assert_code(0);
    let last = (1..).take_while(|n| exists(&lab.path(&format!("dump.{n}")))).last().expect("a dump");
    let views = lab.read(&format!("dump.{last}.where"));
    assert_eq!(views, [expected; 4].join("\n"), "/proc/self/cwd, $PWD, pwd -P, pwd -L: {ended}");
    let told = ended.log.lines().rfind(|line| line.contains("cwd_resolved")).expect("it is told").to_owned();
    assert_eq!(log::field(&told, "source"), Some(source), "{ended}");
    assert_eq!(log::field(&told, "cwd"), Some(expected), "{ended}");
}

fn dumping(lab: &Lab) -> Launch {
    Launch::run(lab, [FAKE, "env0", &lab.text("dump"), "0"])
}

#[test]
fn each_rule_of_the_table_decides_where_the_agent_runs() {
    let lab = Lab::new();
    let start = lab.dir("start");
    lab.dir("start/below");
    lab.dir("project/.agent-doc");
    lab.dir("project/docs/deep/work");
    let plain = lab.write("project/docs/deep/plain.md", "no frontmatter\n");
    let named = lab.write("project/docs/deep/named.md", "---\nagent_doc_cwd: work\n---\n");
    let loose = lab.write("loose/doc.md", "# nothing\n");
    let at = |name: &str| lab.text(name);

    let launch = || dumping(&lab).in_dir(&start);
    assert_cwd(&lab, launch(), &at("start"), "invocation");
    assert_cwd(&lab, launch().with(["--document", &loose]), &at("loose"), "document_parent");
    assert_cwd(&lab, launch().with(["--document", &plain]), &at("project"), "project_root");
    assert_cwd(&lab, launch().with(["--document", &named]), &at("project/docs/deep/work"), "frontmatter");
    // A relative flag starts where agentsup was started, not at the document.
    let both = launch().with(["--document", &named, "--cwd", "below"]);
    assert_cwd(&lab, both, &at("start/below"), "cli_flag");
}

#[test]
fn all_views_agree_when_agentsup_was_started_through_a_symlink() {
    let lab = Lab::new();
    lab.dir("real/below");
    let link = lab.path("link");
    std::os::unix::fs::symlink(lab.path("real"), &link).expect("a symlink");
    let launch = || dumping(&lab).in_dir(&link).env("PWD", &link);
    assert_cwd(&lab, launch(), &lab.text("real"), "invocation");
    let through = lab.text("link/below");
    assert_cwd(&lab, launch().with(["--cwd", &through]), &lab.text("real/below"), "cli_flag");
    // Nor is a $PWD that lies believed.
    assert_cwd(
        &lab,
        dumping(&lab).in_dir(lab.path("real")).env("PWD", "/usr"),
        &lab.text("real"),
        "invocation",
    );
}

#[test]
fn a_named_path_that_is_wrong_is_78_and_never_falls_through() {
    let lab = Lab::new();
    let file = lab.write("a-file", "");
    let missing = lab.text("missing");
    let gone = lab.write("gone.md", "---\nagent_doc_cwd: missing\n---\n");
    let not_a_dir = lab.write("not.md", "---\nagent_doc_cwd: a-file\n---\n");
    let cases: [(&[&str], String); 4] = [
        (&["--cwd", &missing], format!("--cwd flag: path does not exist: {missing}")),
        (&["--cwd", &file], format!("--cwd flag: path is not a directory: {file}")),
        (&["--document", &gone], format!("agent_doc_cwd frontmatter: path does not exist: {missing}")),
        (&["--document", &not_a_dir], format!("agent_doc_cwd frontmatter: path is not a directory: {file}")),
    ];
    for (options, reason) in cases {
        let ended = dumping(&lab).with(options).end();
        ended.assert_code(78);
        assert!(ended.stderr.contains(&reason), "{reason}\n{ended}");
        assert!(!exists(&lab.path("dump.1")), "nothing was started");
    }
}

#[test]
fn a_directory_outside_the_allowed_ones_is_refused() {
    let lab = Lab::new();
    let (inside, outside) = (lab.dir("allowed/work"), lab.dir("elsewhere"));
    let config = lab.write("c.toml", &format!("[run]\nallowed_dirs = [\"{}/**\"]\n", lab.text("allowed")));
    let ended = dumping(&lab).with(["--config", &config, "--cwd", &outside]).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("allowed_dirs") && ended.stderr.contains(&outside), "{ended}");
    assert_cwd(&lab, dumping(&lab).with(["--config", &config, "--cwd", &inside]), &inside, "cli_flag");
}

const QUICK: &str = "[policy]\ntransient_wait = \"20ms\"\nflapping_wait = \"20ms\"\n";

#[test]
fn the_directory_is_settled_again_before_every_restart() {
    let lab = Lab::new();
    let config = lab.write("quick.toml", QUICK);
    lab.dir("first");
    lab.dir("second");
    let doc = lab.write("docs/doc.md", "---\nagent_doc_cwd: ../first\n---\n");
    let words = [FAKE, "env0", &lab.text("dump")];
    let sup = Launch::run(&lab, words).with(["--config", &config, "--document", &doc]).start();
    let restart = |nth: usize| {
        let spawn = sup.log.wait_for_nth(nth, "claude_spawn");
        // The environment is written last.
        lab.wait_for_file(&format!("dump.{nth}"), "PWD=");
        let resolved = sup.log.wait_for_nth(nth, "cwd_resolved");
        (log::number(&spawn, "pid"), log::field(&resolved, "source").expect("a source").to_owned())
    };
    let (agent, source) = restart(1);
    assert_eq!(source, "frontmatter");
    assert!(lab.read("dump.1.where").starts_with(&lab.text("first\n")));
    lab.write("docs/doc.md", "---\nagent_doc_cwd: ../second\n---\n");
    sys::kill(agent, libc::SIGKILL);
    let (agent, _) = restart(2);
    assert!(lab.read("dump.2.where").starts_with(&lab.text("second\n")));
    lab.write("docs/doc.md", "no frontmatter any more\n");
    lab.dir(".agent-doc");
    sys::kill(agent, libc::SIGKILL);
    let (agent, source) = restart(3);
    assert_eq!(source, "project_root");
    // The document moves away: a failed spawn each time, until the policy halts.
    std::fs::rename(lab.path("docs/doc.md"), lab.path("docs/moved.md")).expect("our file");
    sys::kill(agent, libc::SIGKILL);
    sup.wait_for("spawn_failed");
    let ended = sup.end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("doc.md"), "{ended}");
    assert!(ended.log.contains("halted"), "{ended}");
}

fn dumped(lab: &Lab, nth: usize) -> Vec<String> {
    let bytes = std::fs::read(lab.path(&format!("dump.{nth}"))).expect("a dump");
    let text = String::from_utf8(bytes).expect("plain text");
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn as_map(lines: &[String]) -> BTreeMap<&str, &str> {
    lines.iter().filter_map(|line| line.split_once('=')).collect()
}

/// Exactly this environment, as from a caller that has nothing else.
fn with_environment(lab: &Lab, options: &[&str], environment: &[(&str, &str)]) -> std::process::Output {
    let mut command = std::process::Command::new(AGENTSUP);
    command.env_clear().envs(environment.iter().copied()).stdin(std::process::Stdio::null());
    command.args(["run", "--session", support::SESSION, "--restart", "no", "--dir"]).arg(lab.state_dir());
    command.args(options).arg("--").args([FAKE, "env0", &lab.text("dump"), "0"]);
    command.output().expect("agentsup")
}

#[test]
fn nothing_outside_the_list_leaks_and_what_is_dropped_is_named() {
    let lab = Lab::new();
    let environment = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/root"),
        ("LC_TIME", "C"),
        ("ANTHROPIC_MODEL", "m"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_DIR", "/lies"),
        ("LD_PRELOAD", ""),
        ("JUNK_VALUE", "seen-nowhere"),
        ("BASH_ENV", "/x"),
        ("PWD", "/lies"),
        ("OLDPWD", "/lies"),
        ("AGENT_DOC_SESSION", "stale"),
    ];
    let output = with_environment(&lab, &["--env", "EXTRA=from flag"], &environment);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = dumped(&lab, 1);
    let mut names: Vec<&str> = as_map(&lines).into_keys().collect();
    names.retain(|name| !name.starts_with("AGENTSUP_"));
    let expected = [
        "AGENT_DOC_SESSION",
        "ANTHROPIC_MODEL",
        "EXTRA",
        "GIT_AUTHOR_NAME",
        "HOME",
        "LC_TIME",
        "PATH",
        "PWD",
        "TERM",
    ];
    assert_eq!(names, expected);
    let map = as_map(&lines);
    assert_eq!(
        map["PWD"],
        std::env::current_dir().expect("cwd").canonicalize().expect("it exists").to_str().unwrap()
    );
    assert_eq!((map["TERM"], map["AGENT_DOC_SESSION"]), ("xterm-256color", support::SESSION));
    assert_eq!(map["EXTRA"], "from flag");
    assert!(lines.is_sorted(), "{lines:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("JUNK_VALUE") && told.contains("GIT_DIR") && told.contains("--pass-env"), "{told}");
    let log = log::Log::of(&lab.state_dir()).text();
    assert!(log.contains("JUNK_VALUE"), "{log}");
    assert!(!told.contains("seen-nowhere") && !log.contains("seen-nowhere"), "names, never values");

    with_environment(&lab, &["--pass-env", "JUNK_*"], &environment);
    let lines = dumped(&lab, 2);
    assert!(
        as_map(&lines).contains_key("JUNK_VALUE") && !as_map(&lines).contains_key("BASH_ENV"),
        "{lines:?}"
    );
}

#[test]
fn two_spawns_of_one_run_and_two_runs_are_byte_identical() {
    let lab = Lab::new();
    let config = lab.write("quick.toml", &format!("{QUICK}halt_after = 2\n"));
    let doc = lab.write("doc.md", "---\nenv:\n  ZED: last\n  ALPHA: \"$HOME/a ${ZED}\"\n---\n");
    for _ in 0..2 {
        let words = [FAKE, "env0", &lab.text("dump"), "1"];
        let options = ["--config", &config, "--document", &doc, "--env", "MIDDLE=x"];
        Launch::run(&lab, words).with(options).end().assert_code(1);
    }
    let dumps = [1, 2, 3, 4].map(|n| std::fs::read(lab.path(&format!("dump.{n}"))).expect("four spawns"));
    assert!(dumps.iter().all(|dump| *dump == dumps[0]));
    let lines = dumped(&lab, 1);
    assert!(lines.is_sorted(), "{lines:?}");
    let log = log::Log::of(&lab.state_dir());
    let prints: Vec<_> = log.events("env_built");
    let first = log::field(&prints[0], "fingerprint").expect("a fingerprint");
    assert!(prints.len() == 4 && prints.iter().all(|line| log::field(line, "fingerprint") == Some(first)));
}

#[test]
fn frontmatter_variables_are_expanded_against_what_came_before() {
    let lab = Lab::new();
    let text =
        "---\nenv:\n  ONE: \"$HOME/one\"\n  TWO: \"${ONE}/two\"\n  NONE: \"[$NOT_THERE_AT_ALL]\"\n---\n";
    let doc = lab.write("doc.md", text);
    let environment = [("HOME", "/home/x"), ("PATH", "/usr/bin:/bin")];
    let output = with_environment(&lab, &["--document", &doc, "--env", "TWO=$HOME"], &environment);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = dumped(&lab, 1);
    let map = as_map(&lines);
    assert_eq!(map["ONE"], "/home/x/one");
    assert_eq!(map["TWO"], "$HOME", "--env comes later and is taken as it is");
    assert_eq!(map["NONE"], "[]");
    assert_eq!(map["AGENT_DOC_DOCUMENT"], doc);
}

#[test]
fn a_bad_frontmatter_is_78_with_file_and_line_and_never_a_panic() {
    let lab = Lab::new();
    let too_long = format!("---\nenv:\n  A: {}\n---\n", "x".repeat(70_000));
    let cases: [(&str, Vec<u8>); 6] = [
        ("not-yaml.md", b"---\nagent_doc_session: ok\nenv: [unclosed\n---\n".to_vec()),
        ("not-a-map.md", b"---\nenv: just words\n---\n".to_vec()),
        ("a-list.md", b"---\n- one\n- two\n---\n".to_vec()),
        ("binary.md", [b"---\n".as_slice(), &[0, 255, 254, 1, 2, 128, 192], b"\n---\n"].concat()),
        ("too-long.md", too_long.into_bytes()),
        ("nested.md", [b"---\nenv: ".as_slice(), &b"[".repeat(30_000), b"\n---\n"].concat()),
    ];
    for (name, content) in cases {
        std::fs::write(lab.path(name), content).expect("our file");
        let ended = dumping(&lab).with(["--document", &lab.text(name)]).end();
        ended.assert_code(78);
        let place = ended.stderr.split(&format!("{}:", lab.text(name))).nth(1).unwrap_or_default();
        assert!(place.starts_with(|c: char| c.is_ascii_digit()), "file and line: {ended}");
        assert!(!ended.stderr.contains("panicked"), "{ended}");
    }
    assert!(!exists(&lab.path("dump.1")), "nothing was started");
}

#[test]
fn a_ten_megabyte_body_is_fine() {
    let lab = Lab::new();
    let body = "line of text, --- and more\n".repeat(400_000);
    let doc = lab.write("doc.md", &format!("---\nenv:\n  A: b\n---\n{body}"));
    dumping(&lab).with(["--document", &doc]).end().assert_code(0);
    assert_eq!(as_map(&dumped(&lab, 1))["A"], "b");
}
