//! `agentsup prune` killed at every step: nothing that lives is touched, and what is left the next
//! one removes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::verbs::{command, json, says};
use crate::support::{AGENTSUP, FAKE, Lab, Launch, Running, count, exists, sys};
use serde_json::{Value, json};

struct Ground {
    lab: Lab,
    living: Vec<Running>,
    /// What is theirs.
    kept: Vec<PathBuf>,
}

const DEAD: usize = 3;

impl Ground {
    fn new() -> Ground {
        let lab = Lab::new();
        let start = |session: &str| {
            // Not in a repository, of which it would note the refs.
            let sup = Launch::session(&lab, session, [FAKE, "wait"]).in_dir(lab.dir("work")).start();
            sup.wait_for_output("READY");
            says(&lab, &["wait", session, "--for", "ready"]);
            says(&lab, &["claim", session, &format!("of/{session}")]);
            sup
        };
        let living = vec![start("a"), start("b")];
        let files =
            ["supervisor/X.sock", "supervisor/X.lock", "supervisor/X.json", "logs/X.log", "claims/of%2FX"];
        let of = |session: &str| files.map(|file| lab.path("state").join(file.replace('X', session)));
        let kept = ["a", "b"].iter().flat_map(|session| of(session)).collect();
        Ground { lab, living, kept }
    }

    /// Sessions as a kill leaves them, with two claims each, and junk among these.
    fn litter(&self) {
        let state = self.lab.path("state");
        for n in 0..DEAD {
            for end in
                ["sock", "lock", "json", "triggers", "call", "refs", "settings", "json.new", "refs.new"]
            {
                fs::write(state.join(format!("supervisor/dead{n}.{end}")), "{}").unwrap();
            }
            fs::write(state.join(format!("logs/dead{n}.log")), "x").unwrap();
            fs::write(state.join(format!("claims/.dead{n}.new")), "{\"tick").unwrap();
            for ticket in [format!("t{n}"), format!("u{n}")] {
                let claim = json!({"ticket": ticket, "session": format!("dead{n}"), "since": 5});
                fs::write(state.join("claims").join(ticket), claim.to_string()).unwrap();
            }
        }
        fs::write(state.join("claims/junk"), "").unwrap();
    }

    /// Whatever step a prune was killed at.
    #[track_caller]
    fn check(&self, when: &str) {
        for file in &self.kept {
            assert!(exists(file), "{when}: {} is gone", file.display());
        }
        let names = |dir: &str| -> Vec<String> {
            let entries = fs::read_dir(self.lab.path("state").join(dir)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let left = names("supervisor");
        for n in 0..DEAD {
            let of = format!("dead{n}.");
            // By one of these the next prune finds it; without a record nothing of a session is believed.
            let is_left = left.iter().any(|name| name.starts_with(&of));
            let is_found =
                left.iter().any(|name| *name == format!("{of}lock") || *name == format!("{of}json"));
            assert!(!is_left || is_found, "{when}: {left:?}");
            let is_known = left.contains(&format!("{of}json"));
            let is_whole =
                ["triggers", "refs", "call"].iter().all(|end| left.contains(&format!("{of}{end}")));
            assert!(!is_known || is_whole, "{when}: {left:?}");
        }
        for name in names("claims").iter().filter(|name| !name.starts_with('.') && *name != "junk") {
            let text = fs::read(self.lab.path("state/claims").join(name)).unwrap();
            assert!(serde_json::from_slice::<Value>(&text).is_ok(), "{when}: {name} is cut");
        }
    }

    /// A prune that is left alone removes all the rest, and a second one finds nothing.
    fn finish(&self) {
        says(&self.lab, &["prune", "--logs"]);
        self.check("at the end");
        assert_eq!(says(&self.lab, &["prune", "--logs"]), "nothing to remove\n");
        let rows = json(&self.lab, &["ls", "--json"]);
        let rows: Vec<&str> =
            rows.as_array().unwrap().iter().map(|row| row["session"].as_str().unwrap()).collect();
        assert_eq!(rows, ["a", "b"]);
        assert_eq!(json(&self.lab, &["claims", "--json"]).as_array().map(Vec::len), Some(2));
        for (dir, files) in [("supervisor", 6), ("logs", 2), ("claims", 2)] {
            let left: Vec<_> = fs::read_dir(self.lab.path("state").join(dir)).unwrap().collect();
            assert_eq!(left.len(), files, "{left:?}");
        }
    }

    fn end(self) {
        for sup in self.living {
            sup.signal(libc::SIGTERM);
            sup.end();
        }
    }
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_half_done() {
    let ground = Ground::new();
    let one = |_| {
        ground.litter();
        let began = Instant::now();
        says(&ground.lab, &["prune", "--logs"]);
        began.elapsed()
    };
    // All of its life, and a little more; a busy machine stretches some of them.
    let longest = (0..5).map(one).min().expect("five").as_micros() as u64 * 5 / 4;
    let rounds = count(30, 1000) as u64;
    let mut killed = 0;
    for round in 0..rounds {
        ground.litter();
        let mut prune = command(&ground.lab, &["prune", "--logs"]);
        let mut prune = prune.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("agentsup runs");
        sys::pause(Duration::from_micros(longest * round / rounds));
        prune.kill().expect("our child");
        killed += u32::from(prune.wait().expect("our child").code().is_none());
        ground.check(&format!("round {round}"));
    }
    assert!(killed > 0, "none was killed in time");
    ground.finish();
    ground.end();
}

/// Each call that removes or locks something in turn is the last one that it makes.
#[test]
fn killed_at_every_removal_it_leaves_nothing_half_done() {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !traced.is_ok_and(|status| status.success()) {
        let text = "PRUNE STEP BY STEP SKIPPED: strace cannot trace here";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{text}");
        eprintln!("*** {text} ***");
        return;
    }
    let ground = Ground::new();
    for (calls, most) in [("unlink,unlinkat", 60), ("flock", 80)].into_iter().take(count(1, 2)) {
        let mut step = 0;
        loop {
            step += 1;
            ground.litter();
            let inject = format!("inject={calls}:signal=KILL:when={step}");
            let trace = format!("trace={calls}");
            let mut prune = Command::new("strace");
            prune.args(["-o", "/dev/null", "-e", &trace, "-e", &inject, AGENTSUP, "prune", "--logs"]);
            let status =
                prune.env("AGENTSUP_DIR", ground.lab.state_dir()).stdout(Stdio::null()).status().unwrap();
            ground.check(&format!("{calls} {step}"));
            if status.success() {
                break;
            }
            assert!(step < most, "{calls}: still killed at step {step}");
        }
        assert!(step > DEAD, "{calls}: only {step} steps");
    }
    ground.finish();
    ground.end();
}

/// It is dead until its node starts it again, and what waits for it waits on.
#[test]
fn a_child_between_two_lives_keeps_what_is_its_own() {
    let lab = Lab::new();
    let text = format!(
        "[node]\nwait = \"1h\"\nmax_wait = \"1h\"\n[[child]]\nid = \"a\"\ncommand = [{FAKE:?}, \"wait\"]\n"
    );
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    sup.log.wait_for("child_ready");
    says(&lab, &["claim", "t.a", "ticket"]);
    let pid = json(&lab, &["state", "t.a", "--json"])["supervisor_pid"].as_i64().expect("a pid");
    sys::kill(pid as i32, libc::SIGKILL);
    sup.log.wait_for("restart_scheduled child=a");
    assert_eq!(says(&lab, &["prune", "--dry-run"]), "nothing to remove\n");
    assert_eq!(says(&lab, &["prune", "--logs"]), "nothing to remove\n");
    assert!(lab.path("state/supervisor/t.a.json").exists());
    says(&lab, &["child", "start", "a", "--session", "t"]);
    sup.log.wait_for_nth(2, "child_ready");
    assert!(says(&lab, &["claim", "t.a", "ticket"]).contains("already"));
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end().assert_code(0);
    says(&lab, &["prune"]);
    assert!(!lab.path("state/supervisor/t.a.json").exists());
}
