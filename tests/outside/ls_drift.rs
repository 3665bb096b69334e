//! `agentsup ls` where the state dir says one thing and what lives another.

use std::fs;
use std::process::Command;

use crate::support::caller::{Framing, stop, waiting};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, sys};
use serde_json::{Value, json};

/// The table, and what each row of the array says does not fit.
fn ls(lab: &Lab) -> (String, Vec<(String, Option<String>)>) {
    let run = |words: &[&str]| {
        let output =
            Command::new(AGENTSUP).args(words).env("AGENTSUP_DIR", lab.state_dir()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let rows: Vec<Value> = serde_json::from_str(&run(&["ls", "--json"])).unwrap();
    let drift = |row: &Value| {
        let is_drift = row["code"] == "REGISTRY_DRIFT";
        assert!(is_drift || row["code"].is_null(), "{row}");
        is_drift.then(|| row["error"].as_str().unwrap().to_owned())
    };
    let rows = rows.iter().map(|row| (row["health"].as_str().unwrap().to_owned(), drift(row))).collect();
    (run(&["ls"]), rows)
}

#[track_caller]
fn assert_drift(lab: &Lab, health: &str, words: &str) {
    let (table, rows) = ls(lab);
    assert_eq!(rows[0], (health.to_owned(), Some(words.to_owned())), "{table}");
    assert!(table.ends_with(&format!("t: {words} (REGISTRY_DRIFT)\n")), "{table}");
}

#[track_caller]
fn assert_none(lab: &Lab, health: &str) {
    let (table, rows) = ls(lab);
    assert_eq!(rows, [(health.to_owned(), None)]);
    assert!(!table.contains("DRIFT"), "{table}");
}

fn counted(caller: &mut Caller) -> String {
    let page = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    page.lines().find_map(|l| l.strip_prefix("agentsup_registry_drift_total ")).expect("counted").to_owned()
}

fn kill(sup: Running) {
    sys::kill(sup.pid(), libc::SIGKILL);
    sup.end();
}

#[test]
fn what_a_kill_leaves_is_told_and_counted_and_the_next_start_mends_it() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    assert_none(&lab, "healthy");
    assert_eq!(counted(&mut caller), "0");
    kill(sup);
    assert_drift(&lab, "dead", "its record says `running`, but no supervisor lives");
    let (sup, mut caller) = waiting(&lab);
    assert_none(&lab, "healthy");
    assert_eq!(counted(&mut caller), "1");
    stop(sup, &mut caller);
    assert_none(&lab, "dead");
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--no-socket"]).start();
    sup.wait_for_output("READY");
    assert_none(&lab, "healthy");
    sup.signal(libc::SIGTERM);
    sup.end();
}

#[test]
fn a_supervisor_that_begins_speaks_for_itself_at_once() {
    let lab = Lab::new();
    // What does not hear TERM is left behind, and has to be ended first.
    let launch =
        || Launch::run(&lab, [FAKE, "tree", &lab.text("pids"), "--deaf"]).with(["--grace", "1s"]).start();
    let sup = launch();
    Caller::of(&lab).wait_for("ready");
    sup.wait_for_output("READY");
    kill(sup);
    let sup = launch();
    let mut caller = Caller::of(&lab);
    assert_eq!(caller.state()["phase"], "clearing");
    assert_none(&lab, "healthy");
    caller.wait_for("ready");
    stop(sup, &mut caller);
}

#[test]
fn a_record_a_lock_or_a_socket_of_another_is_told_beside_what_lives() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let other = Launch::session(&lab, "u", [FAKE, "wait"]).start();
    other.wait_for_output("READY");
    let (record, own) = (lab.path("state/supervisor/t.json"), sup.pid());
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(&format!("\"supervisor_pid\": {own}"), "\"supervisor_pid\": 1")).unwrap();
    assert_drift(&lab, "healthy", &format!("its record names supervisor 1, but {own} answers"));
    fs::write(&record, &text).unwrap();

    // Whoever removes the lock lets a second supervisor in.
    let lock = lab.path("state/supervisor/t.lock");
    let (held, aside) = (fs::read_to_string(&lock).unwrap(), lab.path("state/aside"));
    fs::rename(&lock, &aside).unwrap();
    assert_drift(&lab, "healthy", &format!("supervisor {own} answers, but does not hold the lock"));
    fs::rename(&aside, &lock).unwrap();
    fs::write(&lock, held.replace(&format!("pid={own}"), "pid=1")).unwrap();
    assert_drift(&lab, "healthy", &format!("supervisor {own} answers, but 1 holds the lock"));
    fs::write(&lock, held).unwrap();

    let [mine, theirs] = ["t", "u"].map(|name| lab.path(&format!("state/supervisor/{name}.sock")));
    fs::rename(&mine, &aside).unwrap();
    fs::write(&mine, "").unwrap();
    assert_drift(&lab, "silent", "a supervisor holds the lock, but nobody listens on its socket");
    fs::rename(&theirs, &mine).unwrap();
    assert_drift(&lab, "healthy", "its socket answers as session u");
    fs::rename(&mine, &theirs).unwrap();
    fs::rename(&aside, &mine).unwrap();
    let (table, rows) = ls(&lab);
    assert!(rows.iter().all(|(health, drift)| health == "healthy" && drift.is_none()), "{table}");

    // What is no file holds nobody up.
    fs::remove_file(&record).unwrap();
    nix::unistd::mkfifo(&record, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert_eq!(ls(&lab).1[0], ("healthy".into(), None));
    let mut theirs = Caller::at(&theirs, Framing::Lines);
    stop(other, &mut theirs);
    stop(sup, &mut caller);
}
