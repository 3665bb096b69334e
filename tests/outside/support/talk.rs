//! A conversation with an agent called `claude`, whose part the test plays, and what callers are told.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::caller::stop;
use super::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, eventually, procfs, sys};

/// An agent called `claude` that waits; the test writes what it would write.
pub struct Talk {
    pub lab: Lab,
    pub sup: Running,
    pub caller: Caller,
}

/// A program of that name; what it does is for the shell.
pub fn agent(lab: &Lab, name: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = lab.write(name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
    path
}

pub fn launch(lab: &Lab) -> Launch {
    let claude = agent(lab, "bin/claude", &format!("exec {FAKE} wait"));
    Launch::run(lab, [claude]).env("HOME", lab.dir("home"))
}

impl Talk {
    pub fn new() -> Talk {
        Talk::with(|launch| launch)
    }

    pub fn with(more: impl Fn(Launch) -> Launch) -> Talk {
        Talk::of(Lab::new(), more)
    }

    /// In a directory that may hold what an earlier one left.
    pub fn of(lab: Lab, more: impl Fn(Launch) -> Launch) -> Talk {
        let sup = more(launch(&lab)).start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        caller.wait_for("ready");
        Talk { lab, sup, caller }
    }

    pub fn id(&mut self) -> String {
        self.caller.state()["conversation"].as_str().expect("a conversation").to_owned()
    }

    /// Where the file is looked for.
    pub fn path(&mut self) -> PathBuf {
        let id = self.id();
        self.lab.path("home/.claude/projects/-some-where").join(format!("{id}.jsonl"))
    }

    pub fn append(&mut self, bytes: impl AsRef<[u8]>) {
        let path = self.path();
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the transcript");
        file.write_all(bytes.as_ref()).expect("the transcript");
    }

    pub fn says(&mut self, text: &str) {
        self.append(line(text));
    }

    pub fn follower(&self, lines: u32) -> Caller {
        let mut follower = Caller::of(&self.lab);
        follower.get("transcript", json!({"lines": lines, "follow": true}));
        follower
    }

    /// All frames but the first and the last.
    pub fn read(&mut self, lines: u32) -> Vec<Value> {
        self.caller.get("transcript", json!({"lines": lines}));
        let mut frames = Vec::new();
        loop {
            let frame = self.caller.receive().expect("the end comes first");
            if frame["end"] == true {
                return frames;
            }
            frames.push(frame);
        }
    }

    pub fn verb(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(AGENTSUP);
        command.arg("transcript").args(words).env("AGENTSUP_DIR", self.lab.state_dir());
        let output =
            command.env_remove("AGENTSUP_SOCKET").stdin(Stdio::null()).output().expect("agentsup runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    pub fn end(mut self) {
        stop(self.sup, &mut self.caller).assert_code(143);
    }
}

pub fn line(text: &str) -> String {
    json!({"type": "user", "message": {"role": "user", "content": text}}).to_string() + "\n"
}

pub fn texts(frames: &[Value]) -> Vec<&str> {
    frames.iter().filter_map(|frame| frame["text"].as_str()).collect()
}

pub fn news(frame: &Value) -> (&str, bool) {
    let it = &frame["conversation"];
    (it["news"].as_str().unwrap_or_else(|| panic!("{frame}")), it["empty"] == true)
}

#[track_caller]
pub fn expect_text(follower: &mut Caller, text: &str) {
    let frame = follower.receive().expect("it goes on");
    assert_eq!(frame["text"], text, "{frame}");
}

#[track_caller]
pub fn expect_news(follower: &mut Caller, kind: &str) {
    let frame = follower.receive().expect("it goes on");
    assert_eq!(news(&frame).0, kind, "{frame}");
}

/// All that it had to do is done.
pub fn comes_to_rest(pid: i32) {
    eventually("agentsup comes to rest", || {
        let before = procfs::switches(pid);
        sys::pause(Duration::from_millis(200));
        procfs::asleep(pid) && procfs::switches(pid) == before
    });
}
