//! `agentsup commits` with real repositories.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support;
use crate::support::verbs::{fails, json, says};
use crate::support::{FAKE, Lab, Launch, Running, sys};

/// Each commit a second later than the one before, so that their order is known.
fn git(dir: &Path, words: &[&str]) -> String {
    static SECOND: AtomicU64 = AtomicU64::new(1_700_000_000);
    let date = format!("{} +0000", SECOND.fetch_add(1, Ordering::Relaxed));
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=A U Thor", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"])
        .args(words)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
        .output()
        .expect("git is needed for this test");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn commit(dir: &Path, subject: &str) {
    git(dir, &["commit", "-q", "--allow-empty", "-m", subject]);
}

/// A repository with one commit.
fn repository(lab: &Lab, name: &str) -> std::path::PathBuf {
    lab.dir(name);
    let dir = lab.path(name);
    git(&dir, &["init", "-q"]);
    commit(&dir, "before");
    dir
}

fn launch(lab: &Lab, dir: &Path) -> Launch {
    Launch::run(lab, [FAKE, "wait"]).in_dir(dir)
}

fn up(launch: Launch) -> Running {
    let sup = launch.start();
    sup.wait_for_output("READY");
    sup
}

fn stop(sup: Running) {
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[track_caller]
fn subjects(lab: &Lab) -> Vec<String> {
    let commits = json(lab, &["commits", "t", "--json"]);
    let subject = |commit: &serde_json::Value| commit["subject"].as_str().expect("text").to_owned();
    commits.as_array().expect("an array").iter().map(subject).collect()
}

#[test]
fn only_what_was_committed_since_the_session_began_is_listed() {
    let lab = Lab::new();
    let dir = repository(&lab, "repo");
    git(&dir, &["tag", "-a", "v1", "-m", "annotated"]);
    // What a ref led to may be gone later, and what no ref led to was there all the same.
    git(&dir, &["checkout", "-q", "-b", "old"]);
    commit(&dir, "on a branch");
    git(&dir, &["checkout", "-q", "--detach"]);
    commit(&dir, "detached");
    let sup = up(launch(&lab, &dir));
    assert!(says(&lab, &["commits"]).starts_with("no commits since session t began, 2"));

    git(&dir, &["checkout", "-q", "main"]);
    git(&dir, &["branch", "-q", "-D", "old"]);
    commit(&dir, "one");
    says(&lab, &["restart", "t"]);
    assert_eq!(subjects(&lab), ["one"]);
    git(&dir, &["checkout", "-q", "-b", "new"]);
    commit(&dir, "two\n\nwith a body");
    // A stash and notes are commits to git, and to nobody else.
    std::fs::write(dir.join("file"), "x").unwrap();
    git(&dir, &["add", "file"]);
    git(&dir, &["stash", "-q"]);
    git(&dir, &["notes", "add", "-m", "a note", "HEAD"]);
    assert_eq!(subjects(&lab), ["two", "one"]);
    let text = says(&lab, &["commits", "t"]);
    let head = git(&dir, &["rev-parse", "HEAD"]);
    assert!(text.starts_with(&format!("{} 2023-11-14 ", &head[..12])), "{text}");
    assert!(text.lines().next().unwrap().ends_with(" two"), "{text}");
    let first = &json(&lab, &["commits", "--json"])[0];
    assert_eq!((&first["hash"], &first["author"]), (&head.trim().into(), &"A U Thor".into()));

    // A supervisor that was killed: the next one goes on. One that ended: the next begins anew, and
    // the commits of the one that ended can still be asked for.
    sys::kill(sup.pid(), libc::SIGKILL);
    sup.end();
    let sup = up(launch(&lab, &dir));
    assert_eq!(subjects(&lab), ["two", "one"]);
    stop(sup);
    assert_eq!(subjects(&lab), ["two", "one"]);
    let sup = up(launch(&lab, &dir).with(["--start", "continue"]));
    assert_eq!(subjects(&lab), ["two", "one"]);
    stop(sup);
    let sup = up(launch(&lab, &dir));
    assert!(subjects(&lab).is_empty());
    stop(sup);
}

#[test]
fn what_the_agent_commits_first_of_all_is_listed() {
    let lab = Lab::new();
    let dir = repository(&lab, "repo");
    git(&dir, &["config", "user.name", "Agent"]);
    git(&dir, &["config", "user.email", "agent@example.com"]);
    for round in 0..support::count(3, 30) {
        let script = format!("git commit -q --allow-empty -m 'round {round}'; exec {FAKE} wait");
        let sup = up(Launch::run(&lab, ["sh", "-c", &script]).in_dir(&dir));
        assert_eq!(subjects(&lab), [format!("round {round}")]);
        stop(sup);
    }
}

#[test]
fn every_kind_of_repository_will_do() {
    let lab = Lab::new();
    let main = repository(&lab, "main");
    git(&main, &["worktree", "add", "-q", "-b", "side", &lab.text("linked")]);
    let (linked, bare, empty) = (lab.path("linked"), lab.path("bare"), lab.path("empty"));
    git(&main, &["clone", "-q", "--bare", &lab.text("main"), &lab.text("bare")]);
    lab.dir("empty");
    git(&empty, &["init", "-q"]);
    lab.dir("none/below");
    let none = lab.path("none/below");
    lab.dir("main/below");
    let cases: [(&str, &Path, &dyn Fn()); 5] = [
        ("below", &main.join("below"), &|| commit(&main, "below")),
        ("linked", &linked, &|| commit(&linked, "linked")),
        ("bare", &bare, &|| {
            let tree = git(&bare, &["rev-parse", "HEAD^{tree}"]);
            let made = git(&bare, &["commit-tree", "-p", "HEAD", "-m", "bare", tree.trim()]);
            git(&bare, &["update-ref", "refs/heads/new", made.trim()]);
        }),
        ("empty", &empty, &|| commit(&empty, "empty")),
        ("none", &none, &|| {
            git(&none, &["init", "-q"]);
            commit(&none, "none");
        }),
    ];
    for (name, dir, change) in cases {
        let sup = up(launch(&lab, dir));
        change();
        assert_eq!(subjects(&lab), [name]);
        stop(sup);
    }
}

#[test]
fn refs_by_the_thousand_do() {
    let lab = Lab::new();
    let dir = repository(&lab, "repo");
    let head = git(&dir, &["rev-parse", "HEAD"]);
    let n = support::count(5_000, 100_000);
    let lines: String = (0..n).map(|n| format!("{} refs/x/{n}\n", head.trim())).collect();
    std::fs::write(dir.join(".git/packed-refs"), format!("# pack-refs with: peeled fully-peeled \n{lines}"))
        .unwrap();
    let sup = up(launch(&lab, &dir));
    commit(&dir, "new");
    assert_eq!(subjects(&lab), ["new"]);
    stop(sup);
}

#[test]
fn where_git_cannot_tell_that_is_said_and_the_agent_runs() {
    let lab = Lab::new();
    let dir = repository(&lab, "repo");
    let sup = up(launch(&lab, &dir).with(["--env", "PATH=/nowhere"]));
    let told = fails(&lab, &["commits"], 1);
    assert!(told.contains("when session t began is not known: git: not found"), "{told}");
    stop(sup);

    // One that hangs is waited for no longer than leftovers are.
    let slow = lab.write("bin/git", "#!/bin/sh\nexec sleep 60\n");
    std::fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:{}", lab.text("bin"), std::env::var("PATH").unwrap());
    let sup = up(launch(&lab, &dir).with(["--grace", "0", "--env", &path]));
    assert!(fails(&lab, &["commits"], 1).contains("git took too long"));
    stop(sup);

    let broken = lab.write("bin/git", "#!/bin/sh\necho 'fatal: no idea' >&2\nexit 128\n");
    let sup = up(launch(&lab, &dir).with(["--env", &path]));
    assert!(fails(&lab, &["commits"], 1).contains("is not known: no idea"), "{broken}");
    stop(sup);

    lab.dir("none");
    let sup = up(launch(&lab, &lab.path("none")));
    assert!(fails(&lab, &["commits"], 1).contains("not a git repository"));
    stop(sup);
    assert!(fails(&lab, &["commits", "nobody"], 69).contains("nobody"));
}
