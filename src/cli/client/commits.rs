//! `agentsup commits`: what was committed since the session began. The supervisor noted then where the
//! repository stood; what came since, git knows.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::look::utc;
use super::sessions;
use super::{Caller, Trouble, args, print_json};
use crate::cli::explain::text::visible;
use crate::cli::{Failure, print};
use crate::control::json;
use crate::os::signals;
use crate::session::began::{self, Began, Refs};
use crate::session::{StateDir, id};

/// Far more than it takes in a large repository.
const PATIENCE: Duration = Duration::from_secs(30);

/// A line of the list, and an element of the array.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Commit {
    hash: String,
    authored_at: i64,
    author: String,
    subject: String,
}

/// What is used of `SESSION.json`.
#[derive(Deserialize)]
struct Recorded {
    began: Began,
}

pub fn commits(_: args::Commits, caller: &Caller) -> Result<u8, Trouble> {
    let (dir, session) = meant(caller)?;
    let began = beginning(&dir, &session)?;
    let known = known_then(&dir, &session, &began)?;
    let text = ask_git(Path::new(&began.dir), known, caller.timeout.unwrap_or(PATIENCE))?;
    let commits = parse(&text);
    match caller.json {
        true => print_json(&json!(commits))?,
        false => print(&list(&commits, &session, &began))?,
    }
    Ok(0)
}

/// The session may have ended: then only its name, or the socket it had, leads to it.
fn meant(caller: &Caller) -> Result<(StateDir, String), Failure> {
    if let (Some(session), None) = (&caller.reach.session, &caller.reach.socket) {
        id::check(session).map_err(Failure::usage)?;
        let mut dirs = sessions::dirs(caller.reach.dir.as_deref(), &caller.world).into_iter();
        if let Some(dir) = dirs.find(|dir| dir.record(session).exists()) {
            return Ok((dir, session.clone()));
        }
    }
    let socket = caller.socket()?;
    let session = socket.file_name().and_then(|name| name.to_str()?.strip_suffix(".sock"));
    match (socket.ancestors().nth(2), session) {
        (Some(path), Some(session)) => {
            Ok((StateDir { path: path.to_owned(), source: "--socket" }, session.to_owned()))
        }
        _ => Err(Failure::usage(format!("{} is no socket of a state dir", socket.display()))),
    }
}

fn cannot(message: String) -> Failure {
    Failure { code: 1, message }
}

fn beginning(dir: &StateDir, session: &str) -> Result<Began, Failure> {
    let path = dir.record(session);
    let text = sessions::read_plain(&path).ok_or_else(|| Failure {
        code: 69,
        message: format!("there is no record of session {session} in {}", dir.path.display()),
    })?;
    let recorded: Result<Recorded, _> = json::read_bytes(&text);
    let began = recorded.map(|recorded| recorded.began);
    began.map_err(|_| cannot(format!("{} does not say where the session began", path.display())))
}

/// The tips of the repository at the beginning.
fn known_then(dir: &StateDir, session: &str, began: &Began) -> Result<Vec<String>, Failure> {
    let unknown =
        |why: &str| cannot(format!("what was there when session {session} began is not known: {why}"));
    match began.refs {
        Refs::NoRepository => Ok(vec![]),
        Refs::Failed => Err(unknown(began.why.as_deref().unwrap_or("git could not tell"))),
        Refs::Noting => Err(unknown("git is being asked, or the supervisor was killed while it was")),
        Refs::Noted => {
            let path = dir.refs(session);
            let text =
                began::read_refs(&path).map_err(|error| unknown(&format!("{}: {error}", path.display())))?;
            let is_hash = |line: &&str| {
                matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            Ok(text.lines().filter(is_hash).map(str::to_owned).collect())
        }
    }
}

/// Only reads: nothing is fetched, whatever the repository's own settings say, and no lock taken. What
/// a ref led to then may have been removed since.
fn ask_git(dir: &Path, known: Vec<String>, patience: Duration) -> Result<String, Failure> {
    if !dir.is_dir() {
        return Err(cannot(format!("the agent's directory {} is not to be found here", dir.display())));
    }
    let mut git = Command::new("git");
    // What names another repository than the directory does, or makes git talkative.
    let is_other = |name: &OsString| {
        let name = name.as_bytes();
        name.starts_with(b"GIT_") && !name.starts_with(b"GIT_CONFIG")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_other(name)) {
        git.env_remove(name);
    }
    git.current_dir(dir).envs([("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1"), ("LC_ALL", "C")]);
    git.args(["-c", "protocol.allow=never", "rev-list", "--exclude=refs/stash", "--exclude=refs/notes/*"]);
    git.args([
        "--all",
        "--ignore-missing",
        "--encoding=UTF-8",
        "--format=%x01%H%x00%at%x00%an%x00%s",
        "--stdin",
    ]);
    git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().map_err(|error| cannot(format!("git cannot be run: {error}")))?;
    let (pid, stdin) = (child.id().cast_signed(), child.stdin.take());
    std::thread::spawn(move || {
        let words: String = known.iter().map(|hash| format!("^{hash}\n")).collect();
        // Git that gives up early says why on stderr.
        let _ = stdin.map(|mut stdin| stdin.write_all(words.as_bytes()));
    });
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = finished.recv_timeout(patience) else {
        let _ = signals::send(pid, libc::SIGKILL);
        return Err(Failure { code: 124, message: format!("git did not answer within {patience:?}") });
    };
    let output = output.map_err(|error| cannot(format!("git: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let trouble = String::from_utf8_lossy(&output.stderr);
            let why = trouble.lines().last().unwrap_or("it failed").trim_start_matches("fatal: ");
            Err(cannot(format!("git in {}: {}", dir.display(), visible(why))))
        }
    }
}

/// Each in a line that begins with 0x01; git's own lines between them are passed over.
fn parse(text: &str) -> Vec<Commit> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('\x01'));
    lines
        .filter_map(|line| {
            let mut parts = line.splitn(4, '\0').map(str::to_owned);
            Some(Commit {
                hash: parts.next()?,
                authored_at: parts.next()?.parse().ok()?,
                author: parts.next()?,
                subject: parts.next()?,
            })
        })
        .collect()
}

fn list(commits: &[Commit], session: &str, began: &Began) -> String {
    if commits.is_empty() {
        return format!("no commits since session {session} began, {} UTC\n", utc(began.at as f64));
    }
    let line = |commit: &Commit| {
        let (hash, date) = (commit.hash.get(..12).unwrap_or(&commit.hash), utc(commit.authored_at as f64));
        format!("{hash} {date} {}\n", visible(&commit.subject))
    };
    commits.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_our_own_shape_are_commits() {
        let text = "commit aa\n\x01aa\x00951782400\x00A U\x00fix: a\x1bb\nnoise\n\x01bb\x00x\x00a\x00b\n";
        let commits = parse(text);
        assert_eq!(commits.len(), 1);
        let began = Began { at: 0, ..Began::default() };
        assert_eq!(list(&commits, "s", &began), "aa 2000-02-29 00:00:00 fix: a\\u{1b}b\n");
        assert_eq!(list(&[], "s", &began), "no commits since session s began, 1970-01-01 00:00:00 UTC\n");
    }
}
