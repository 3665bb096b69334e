//! Who ends an agent for good ends all that it started, also what it has let go of; helpers go on.

use crate::support::caller::pid_of;
use crate::support::directed::Directed;
use crate::support::{AGENTSUP, Lab, eventually, procfs};
use serde_json::json;

const QUICK: &str = "[policy]\ntransient_wait = \"100ms\"\n";

/// The agent starts one that is nobody's child any more, in a session of its own.
fn lets_go(lab: &Lab, agent: &mut Directed) -> i32 {
    let file = lab.text("let-go");
    agent.does(&format!("(setsid sh -c 'echo $$ >{file}.new; mv {file}.new {file}; exec sleep 1000' &)"));
    eventually("it is there", || lab.path("let-go").exists());
    let pid = lab.read("let-go").trim().parse().expect("a pid");
    let own = agent.sup.pid();
    eventually("its parent is gone", || procfs::descendants(own).iter().any(|p| p.pid == pid));
    pid
}

fn until_gone(pid: i32) {
    eventually("what it let go of is ended", || !procfs::alive(pid));
}

#[test]
fn a_stuck_agent_is_killed_with_all_that_it_let_go_of() {
    let lab = Lab::new();
    let config = format!("{QUICK}[watch]\ncontinue_after = \"500ms\"\nkill_after = \"1s\"\n");
    let mut agent = Directed::with(&lab, &config, |launch| launch.with(["--watch"]));
    let let_go = lets_go(&lab, &mut agent);
    agent.does(&format!("{AGENTSUP} heartbeat"));
    agent.sup.wait_for("stuck action=kill");
    until_gone(let_go);
    agent.stop();
}

#[test]
fn a_restart_ends_it_too_and_by_kill_if_the_agent_has_to_be() {
    for ignoring in [false, true] {
        let lab = Lab::new();
        let mut agent = Directed::with(&lab, QUICK, |launch| launch.with(["--grace", "1s"]));
        let let_go = lets_go(&lab, &mut agent);
        if ignoring {
            agent.does("trap '' TERM");
            agent.does(&format!("{AGENTSUP} heartbeat"));
            agent.until_activity("working");
        }
        let before = pid_of(&agent.caller.state());
        agent.does("while :; do sleep 1; done");
        let after = agent.caller.get("restart", json!({"mode": "continue"}))["pid"].as_i64();
        assert_ne!(after, Some(before.into()));
        until_gone(let_go);
        agent.stop();
    }
}

#[test]
fn what_a_rule_reaps_leaves_nothing_but_those_who_are_told_of_it() {
    let lab = Lab::new();
    let told = lab.text("told");
    let config = format!(
        "{QUICK}[[rule]]\nwhen = {{ screen_contains = \"out of credit\" }}\n\
         then = {{ notify = [\"sh\", \"-c\", \"sleep 1; echo told >{told}\"] }}\n\
         [[rule]]\nwhen = {{ screen_contains = \"out of credit\" }}\nthen = \"reap\"\n"
    );
    let mut agent = Directed::with(&lab, &config, |launch| launch.with(["--on-halt", "wait"]));
    let let_go = lets_go(&lab, &mut agent);
    agent.does("echo out of credit");
    agent.sup.wait_for("halted");
    until_gone(let_go);
    eventually("the command goes on", || lab.path("told").exists());
    agent.stop();
}

#[test]
fn what_it_has_used_is_counted_also_when_it_is_gone() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, QUICK);
    let used =
        |agent: &mut Directed| agent.caller.get("stats", json!({}))["tree"]["cpu_ms"].as_u64().unwrap();
    agent.does("timeout 0.5 sh -c 'while :; do :; done'");
    agent.does("n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done");
    eventually("its own use shows", || used(&mut agent) >= 300);
    let before = used(&mut agent);
    agent.caller.get("restart", json!({"mode": "continue"}));
    assert!(used(&mut agent) >= before);
    agent.stop();
}
