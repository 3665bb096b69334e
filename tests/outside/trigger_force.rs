//! `--force`: for an operator with a reason, and for nobody else.

use std::path::Path;
use std::process::Command;

use crate::support::bridge::{
    PATIENT, QUICK, all_read, claude, envelope, stop, tui, typed, until_draft, up, verb,
};
use crate::support::caller::socket;
use crate::support::talk::agent;
use crate::support::{AGENTSUP, Lab, Launch, Wire, eventually, exists, log};
use serde_json::json;

/// A program that forces a trigger at `$AGENTSUP_SOCKET`, and writes down what it was told.
fn forcing(lab: &Lab) -> String {
    let said = lab.text("said");
    let script = format!(
        "said=$({AGENTSUP} trigger --force --why 'I want to' --thread x me 2>&1)\necho \"$? $said\" >>{said}"
    );
    agent(lab, "force", &script)
}

#[test]
fn the_agents_own_tree_is_refused_from_wherever_it_calls() {
    let lab = Lab::new();
    let force = forcing(&lab);
    // A child, one that has left the agent's session, and one whose parents have gone.
    let script = format!("{force}; setsid -w {force}; (setsid {force} &); {AGENTSUP} ack \"$TRIGGER_ID\"");
    let (sup, mut caller) = up(tui(&lab, PATIENT, &script), &lab);
    assert_eq!(verb(&lab, &["trigger", "--thread", "ci", "--id", "a", "go"]).0, 0);
    eventually("all three are told", || lab.read("said").lines().count() == 3);
    let said = lab.read("said");
    assert!(said.lines().all(|line| line.starts_with("77 ") && line.ends_with("(FORBIDDEN)")), "{said}");
    let denied = sup.log.events("control_denied");
    assert!(denied.len() == 3 && denied.iter().all(|line| line.contains("method=trigger role=agent uid=")));
    assert!(denied.iter().all(|line| log::number(line, "pid") > 0), "{denied:?}");
    let list = caller.get("trigger.list", json!({}));
    assert_eq!(list["triggers"].as_array().unwrap().len(), 1, "{list}");
    stop(sup, &mut caller);
}

#[test]
fn a_peer_may_trigger_and_not_force() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let socket = socket(&lab);
    let line = format!(
        "export AGENTSUP_SOCKET={}; {}; exec {AGENTSUP} trigger --thread x --id p hello",
        socket.display(),
        forcing(&lab)
    );
    // Its own socket is not the one it asks.
    let ended = Launch::session(&lab, "other", ["sh", "-c", &line]).end();
    assert!(String::from_utf8_lossy(&ended.stdout).contains("delivered p, by hook"), "{ended}");
    let said = lab.read("said");
    assert!(said.starts_with("77 ") && said.ends_with("(FORBIDDEN)\n"), "{said}");
    let denied = sup.wait_for("control_denied");
    assert!(denied.contains("method=trigger role=peer uid="), "{denied}");
    stop(sup, &mut caller);
}

/// Prints what a caller of another uid and group is told.
const STRANGER: &str = r#"
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
for params in [{}, {"force": True, "why": "me"}]:
    f.write(json.dumps({"method": "trigger", "params": {"thread": "t", "text": "x", **params}}) + "\n")
    f.flush()
    print(json.loads(f.readline())["error"]["code"])
"#;

/// One that everybody may run.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn an_observer_may_neither_trigger_nor_force() {
    if !nix::unistd::geteuid().is_root() || !exists(Path::new(PYTHON)) {
        eprintln!("SKIPPED: only root can be somebody else, who then needs {PYTHON}");
        return;
    }
    let lab = Lab::new();
    let options = ["--socket-mode", "0660", "--socket-group", "54321"];
    let (sup, mut caller) = up(claude(&lab, PATIENT).with(options), &lab);
    let words = ["--reuid=65534", "--regid=54321", "--clear-groups", PYTHON, "-c", STRANGER];
    let output = Command::new("setpriv").args(words).arg(socket(&lab)).output().expect("setpriv");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "FORBIDDEN\nFORBIDDEN\n", "{output:?}");
    let denied = sup.wait_for("control_denied");
    assert!(denied.contains("method=trigger role=observer uid=65534"), "{denied}");
    stop(sup, &mut caller);
}

#[test]
fn an_operator_needs_a_reason_and_then_types_into_a_draft_and_it_is_audited() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, QUICK), &lab);
    let mut wire = Wire::attach(&lab, (100, 30), false);
    wire.type_in(b"a draft ");
    until_draft(&mut caller);
    let trigger = |more: &[&str]| verb(&lab, &[&["trigger", "--thread", "ci", "--id", "f"], more].concat());
    for (more, code, says) in [
        (&["--force", "do f"][..], 65, "--why"),
        (&["--force", "--why", " ", "do f"], 65, "`why`"),
        (&["--why", "on call", "do f"], 2, "--force"),
    ] {
        let (is, _, err) = trigger(more);
        assert!(is == code && err.contains(says), "{more:?}: {is} {err}");
        assert!(code == 2 || err.contains("(BAD_PARAMS)"), "{err}");
    }
    assert_eq!(all_read(&lab), "a draft ");
    let (code, out, err) = trigger(&["--force", "--why", "on call", "do f"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "delivered f, by hook\n", ""));
    assert_eq!(all_read(&lab), format!("a draft {}", typed(&envelope("f", "ci", "do f"))));
    let queued = sup.wait_for("trigger_queued");
    let who = format!("trigger_id=f thread=ci count=4 uid={} pid=", nix::unistd::geteuid());
    assert!(queued.contains(&who) && queued.ends_with("forced=yes why=\"on call\""), "{queued}");
    assert_eq!(caller.get("trigger.status", json!({"trigger_id": "f"}))["forced"], true);
    stop(sup, &mut caller);
}

#[test]
fn one_that_waits_is_forced_by_asking_for_it_again() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let mut wire = Wire::attach(&lab, (100, 30), false);
    wire.type_in(b"a draft ");
    until_draft(&mut caller);
    let trigger = |more: &[&str]| verb(&lab, &[&["trigger", "--thread", "ci", "--id", "w"], more].concat());
    assert_eq!(trigger(&["--no-wait", "do w"]).1, "deferred w, OPERATOR_BUSY\n");
    assert_eq!(trigger(&["--force", "--why", "on call", "do w"]).1, "delivered w, by hook\n");
    assert_eq!(trigger(&["--force", "--why", "twice", "do w"]).1, "delivered w, by hook\n");
    assert_eq!(all_read(&lab), format!("a draft {}", typed(&envelope("w", "ci", "do w"))));
    let queued = sup.log.events("trigger_queued");
    assert_eq!(queued.len(), 2, "{queued:?}");
    assert!(!queued[0].contains("forced") && queued[1].ends_with("forced=yes why=\"on call\""), "{queued:?}");
    stop(sup, &mut caller);
}
