//! The verbs that ask, as a user calls them, and supervisors by the dozen.

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{AGENTSUP, FAKE, Lab, sys};

pub fn command(lab: &Lab, words: &[&str]) -> Command {
    let mut command = Command::new(AGENTSUP);
    command.args(words).stdin(Stdio::null());
    for name in ["AGENTSUP_SESSION", "AGENTSUP_SOCKET", "AGENT_DOC_SESSION", "COLUMNS", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("AGENTSUP_DIR", lab.state_dir());
    command
}

pub fn verb(lab: &Lab, words: &[&str]) -> Output {
    command(lab, words).output().expect("agentsup runs")
}

/// What a verb prints when all is well.
#[track_caller]
pub fn says(lab: &Lab, words: &[&str]) -> String {
    let output = verb(lab, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
pub fn json(lab: &Lab, words: &[&str]) -> Value {
    serde_json::from_str(&says(lab, words)).expect("JSON")
}

/// What it says on stderr when it ends with that code.
#[track_caller]
pub fn fails(lab: &Lab, words: &[&str], code: i32) -> String {
    let output = verb(lab, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Supervisors `s0`, `s1` …, without a thread for each of their pipes; ended when the test ends.
pub struct Crowd(pub Vec<Child>);

impl Crowd {
    pub fn start(lab: &Lab, n: usize) -> Crowd {
        let one = |n: usize| {
            let mut command = command(lab, &["run", "--session", &format!("s{n}"), "--", FAKE, "wait"]);
            sys::own_session(&mut command);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("agentsup runs")
        };
        Crowd((0..n).map(one).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &self.0 {
            sys::kill(child.id() as i32, libc::SIGTERM);
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
