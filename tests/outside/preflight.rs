//! What cannot work is refused before anything is started: with its code, and with what to do about it.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::support;
use crate::support::{AGENTSUP, Lab, Launch, exists, log};

const DANGEROUS: &str = "--dangerously-skip-permissions";
const QUICK: &str = "[policy]\ntransient_wait = \"20ms\"\nflapping_wait = \"20ms\"\n";

/// Whose process it is, whoever runs the tests: a user namespace has both.
fn as_uid(uid: &str) -> Vec<OsString> {
    ["unshare", "--user", &format!("--map-user={uid}"), "--"].map(OsString::from).to_vec()
}

/// An agent of this name that leaves a file `started` and ends as `ending` says.
fn agent(lab: &Lab, name: &str, ending: &str) -> String {
    let started = lab.text("started");
    let path = lab.write(name, &format!("#!/bin/sh\necho >>{started}\n{ending}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our file");
    path
}

#[test]
fn what_only_the_kernel_finds_out_is_explained_too() {
    let lab = Lab::new();
    let mut without_loader = std::fs::read(support::FAKE).expect("a program");
    // Its name stands near the start; what is static has none.
    let loader = without_loader[..4096].windows(4).position(|word| word == b"/lib");
    let Some(at) = loader else { return };
    without_loader[at + 1] = b'n';
    for (name, bytes, code, what_now) in [
        ("no-program", &b"\x01\x02"[..], 126, "begin a script with #! and its interpreter"),
        ("no-loader", &without_loader, 127, "install the C library that it was built for"),
    ] {
        let path = lab.path(name);
        std::fs::write(&path, bytes).expect("our file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our file");
        let ended = Launch::run(&lab, [&path]).end();
        ended.assert_code(code);
        assert!(ended.stderr.contains(what_now), "{name}: {ended}");
    }
}

/// Without what would make a sandbox of the machine that runs the tests.
fn bare(launch: Launch, lab: &Lab) -> Launch {
    launch.env("IS_SANDBOX", "").env("CLAUDE_CODE_BUBBLEWRAP", "").env("HOME", lab.path("home"))
}

/// `explain` with the same words: its code, and what it says.
fn explained(lab: &Lab, options: &[&str], command: &[&str]) -> (Option<i32>, String) {
    let wrapper = as_uid("0");
    let mut explain = Command::new(&wrapper[0]);
    explain.args(&wrapper[1..]).args([AGENTSUP, "explain", "--dir"]).arg(lab.state_dir());
    explain.args(options).arg("--").args(command);
    explain.env_remove("IS_SANDBOX").env_remove("CLAUDE_CODE_BUBBLEWRAP").env("HOME", lab.path("home"));
    let output = explain.output().expect("explain");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_refusal_has_its_code_and_says_what_to_do_and_explain_says_the_same() {
    if !support::place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let claude = agent(&lab, "bin/claude", "exit 0");
    let plain = lab.write("plain", "echo no");
    let orphan = lab.write("orphan", "#!/nowhere/sh\n");
    std::fs::set_permissions(&orphan, std::fs::Permissions::from_mode(0o755)).expect("our file");
    let file = lab.write("file", "");
    let settings = lab.write("mine.json", r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#);
    let key = lab.write("key.toml", "[run]\nrestrat = \"no\"\n");
    lab.dir("elsewhere");
    symlink(lab.path("elsewhere"), lab.path("link")).expect("a symlink");
    let (link, in_file) = (lab.text("link"), lab.text("file/below"));
    let sandbox = "--env IS_SANDBOX=1";
    type Row<'a> = (&'a [&'a str], &'a [&'a str], i32, &'a str);
    let rows: &[Row] = &[
        (&[], &["no-such-agent-anywhere"], 127, "install it, or give its path"),
        (&[], &["/nowhere/agent"], 127, "install it there, or give another path"),
        (&[], &[&orphan], 127, "mend the script's first line"),
        (&[], &[&plain], 126, "chmod +x it"),
        (&[], &[&lab.dir("a-directory")], 126, "name a program in it"),
        (&["--cwd", "/nowhere"], &[&claude], 78, "make it, or give another with --cwd"),
        (&["--cwd", &file], &[&claude], 78, "give a directory with --cwd"),
        (&["--document", "/nowhere.md"], &[&claude], 78, "give another with --document"),
        (&["--config", "/nowhere.toml"], &[&claude], 78, "give another with --config"),
        (&["--config", &key], &[&claude], 78, "restart"),
        (&["--dir", &link], &[&claude], 78, "choose another with --dir"),
        (&["--dir", &in_file], &[&claude], 78, "give a writable directory with --dir"),
        (&[], &[&claude, DANGEROUS], 78, sandbox),
        (&[], &[&claude, "-p", DANGEROUS, "hi"], 78, sandbox),
        (&[], &[&claude, "--permission-mode=bypassPermissions"], 78, sandbox),
        (&[], &[&claude, "--settings", &settings], 78, sandbox),
        (&["--env", "IS_SANDBOX=0"], &[&claude, DANGEROUS], 78, sandbox),
    ];
    for (options, command, code, what_now) in rows {
        let mut launch = Launch::run(&lab, command.iter());
        if options.first() == Some(&"--dir") {
            launch = launch.with_state_in(options[1]);
        } else {
            launch = launch.with(options.iter());
        }
        let ended = bare(launch, &lab).wrapped_in(as_uid("0")).end();
        ended.assert_code(*code);
        assert!(ended.stderr.contains(what_now), "{options:?} {command:?}: {what_now}: {ended}");
        assert!(!exists(&lab.path("started")), "nothing was started: {ended}");
        let options = match options.first() {
            Some(&"--dir") => continue,
            _ => options,
        };
        let (told, why) = explained(&lab, options, command);
        assert_eq!(told, Some(*code), "{options:?} {command:?}: {why}");
        assert!(why.contains(what_now), "{options:?} {command:?}: {why}");
    }
}

#[test]
fn what_claude_takes_for_a_sandbox_and_who_is_not_root_is_let_through() {
    if !support::place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let claude = agent(&lab, "bin/claude", "exit 0");
    let wrapper = agent(&lab, "wrapper", "exit 0");
    let document = lab.write("doc.md", "---\nenv:\n  IS_SANDBOX: \"1\"\n---\n");
    let rows: [(&str, &[&str], &str); 5] = [
        ("0", &["--env", "IS_SANDBOX=1"], &claude),
        ("0", &["--env", "CLAUDE_CODE_BUBBLEWRAP=true"], &claude),
        ("0", &["--document", &document], &claude),
        ("0", &["--agent", "claude"], &wrapper),
        ("1000", &[], &claude),
    ];
    for (uid, options, command) in rows {
        let launch = Launch::run(&lab, [command, DANGEROUS]).with(options);
        bare(launch, &lab).wrapped_in(as_uid(uid)).end().assert_code(0);
        std::fs::remove_file(lab.path("started")).expect("it was started");
    }
}

#[test]
fn a_directory_that_may_not_be_entered_and_a_group_of_others_are_named() {
    if !support::place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let claude = agent(&lab, "bin/claude", "exit 0");
    let closed = lab.dir("closed");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).expect("our directory");
    let document = lab.write("doc.md", "---\nagent_doc_cwd: closed\n---\n");
    for (options, named) in [
        (["--cwd", closed.as_str()], "--cwd flag: directory may not be entered"),
        (["--document", document.as_str()], "agent_doc_cwd frontmatter: directory may not be entered"),
        (["--socket-group", "4711"], "socket_group: the socket cannot be given to group 4711"),
    ] {
        let launch = Launch::run(&lab, [&claude]).with(options);
        let ended = bare(launch, &lab).wrapped_in(as_uid("1000")).end();
        ended.assert_code(78);
        assert!(ended.stderr.contains(named), "{options:?}: {ended}");
        assert!(!exists(&lab.path("started")), "nothing was started: {ended}");
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).expect("our directory");
}

#[test]
fn at_a_restart_the_same_is_a_failed_spawn() {
    if !support::place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let config = lab.write("quick.toml", QUICK);
    let document = lab.write("doc.md", "---\nenv:\n  IS_SANDBOX: \"1\"\n---\n");
    let claude = agent(&lab, "bin/claude", &format!("echo >{document}; exit 1"));
    let launch = Launch::run(&lab, [&claude, DANGEROUS]).with(["--config", &config, "--document", &document]);
    let ended = bare(launch, &lab).wrapped_in(as_uid("0")).end();
    ended.assert_code(78);
    let failed = ended.log.lines().find(|line| line.contains("spawn_failed")).expect("it is told").to_owned();
    assert_eq!(log::field(&failed, "code"), Some("78"), "{ended}");
    assert!(ended.log.contains("IS_SANDBOX=1") && ended.log.contains("halted"), "{ended}");
    assert_eq!(lab.read("started").len(), 1, "it ran once: {ended}");
}
