//! Tickets that are one session's own: who has one, who can take it, and that no two ever do.

use std::fs;
use std::process::{Child, Stdio};

use crate::support::caller::Framing;
use crate::support::verbs::{Crowd, command, fails, json, says};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, Place, Running, count, eventually, sys};
use serde_json::{Value, json};

fn start(lab: &Lab, session: &str) -> Running {
    let sup = Launch::session(lab, session, [FAKE, "wait"]).start();
    sup.wait_for_output("READY");
    sup
}

fn kill(sup: Running) {
    sys::kill(sup.pid(), libc::SIGKILL);
    sup.end();
}

fn stop(sup: Running) {
    sup.signal(libc::SIGTERM);
    sup.end();
}

/// Ticket, session and whether that lives.
fn listed(lab: &Lab) -> Vec<(String, String, bool)> {
    let rows = json(lab, &["claims", "--json"]);
    let text = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    let row = |row: &Value| (text(row, "ticket"), text(row, "session"), row["live"] == true);
    rows.as_array().expect("an array").iter().map(row).collect()
}

fn row(ticket: &str, session: &str, live: bool) -> (String, String, bool) {
    (ticket.to_owned(), session.to_owned(), live)
}

#[test]
fn a_ticket_is_one_sessions_until_it_is_released_or_its_supervisor_is_killed() {
    let lab = Lab::new();
    assert_eq!(says(&lab, &["claims"]), "no claims\n");
    let (a, b) = (start(&lab, "a"), start(&lab, "b"));
    assert_eq!(says(&lab, &["claim", "a", "o/r#7"]), "o/r#7 is yours, session a\n");
    let claimed = json(&lab, &["claims", "--json"])[0]["claimed_at"].as_u64().expect("a time");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 60..=now).contains(&claimed), "{claimed} {now}");
    assert!(
        says(&lab, &["claim", "o/r#7", "--session", "a"])
            .starts_with("o/r#7 is yours already, session a, since 2")
    );
    let told = fails(&lab, &["claim", "b", "o/r#7"], 1);
    assert!(
        told.contains("o/r#7 is claimed by session a, since 2") && told.ends_with(" UTC (CLAIMED)\n"),
        "{told}"
    );
    assert!(fails(&lab, &["claim", "--release", "b", "o/r#7"], 1).contains("claimed by session a"));
    let table = says(&lab, &["claims"]);
    assert!(table.starts_with("TICKET SESSION SINCE "), "{table}");
    assert!(table.contains("\no/r#7  a       2") && table.ends_with(" lives\n"), "{table}");

    says(&lab, &["claim", "--release", "a", "o/r#7"]);
    assert!(fails(&lab, &["claim", "--release", "a", "o/r#7"], 1).contains("nobody has claimed o/r#7"));
    assert_eq!(says(&lab, &["claim", "b", "o/r#7"]), "o/r#7 is yours, session b\n");
    assert!(fails(&lab, &["claim", "b", "two\nlines"], 2).contains("one line of text"));
    assert!(fails(&lab, &["claim"], 2).contains("TICKET is missing"));

    // The owner killed frees it.
    says(&lab, &["claim", "a", "t"]);
    kill(a);
    assert_eq!(listed(&lab), [row("o/r#7", "b", true), row("t", "a", false)]);
    assert_eq!(says(&lab, &["claim", "b", "t"]), "t is yours, session b; a had it and has gone\n");
    lab.wait_for_file("state/logs/b.log", "claimed ticket=t from=a");
    let a = start(&lab, "a");
    assert!(fails(&lab, &["claim", "a", "t"], 1).contains("session b"));
    stop(a);
    stop(b);
}

#[test]
fn it_outlives_the_agent_and_a_supervisor_of_the_same_session() {
    let lab = Lab::new();
    let a = start(&lab, "a");
    says(&lab, &["claim", "a", "t"]);
    says(&lab, &["restart", "a"]);
    assert_eq!(listed(&lab), [row("t", "a", true)]);
    stop(a);
    assert_eq!(listed(&lab), [row("t", "a", false)]);
    let a = start(&lab, "a");
    assert_eq!(listed(&lab), [row("t", "a", true)]);
    assert!(says(&lab, &["claim", "a", "t"]).contains("already"));
    stop(a);
}

#[test]
fn the_agent_claims_for_its_own_session() {
    let lab = Lab::new();
    let script = format!("{AGENTSUP} claim t > {0} 2>&1; echo $? >> {0}; exec {FAKE} wait", lab.text("said"));
    let a = Launch::session(&lab, "a", ["sh", "-c", &script]).start();
    a.wait_for_output("READY");
    assert_eq!(lab.read("said"), "t is yours, session a\n0\n");
    assert_eq!(listed(&lab), [row("t", "a", true)]);
    stop(a);
}

fn sockets(lab: &Lab, n: usize) -> Vec<Caller> {
    let at = |n: usize| lab.path(&format!("state/supervisor/s{n}.sock"));
    (0..n).map(|n| Caller::at(&at(n), Framing::Lines)).collect()
}

#[test]
fn who_claims_has_its_lock_or_does_not_get_the_ticket() {
    let lab = Lab::new();
    let (a, b) = (start(&lab, "a"), start(&lab, "b"));
    let mut to_a = Caller::at(&lab.path("state/supervisor/a.sock"), Framing::Lines);
    fs::remove_file(lab.path("state/supervisor/a.lock")).expect("it is there");
    fs::remove_dir_all(lab.path("state/claims")).expect("it is there");
    assert_eq!(to_a.get("claim", json!({"ticket": "T"}))["outcome"], "claimed");
    assert!(fails(&lab, &["claim", "b", "T"], 1).contains("T is claimed by session a"));
    // Another has its session meanwhile, from where the first one cannot be seen.
    for place in Place::possible(&[Place::Pid1]) {
        fs::remove_dir_all(lab.path("state/supervisor")).expect("it is there");
        let other = Launch::session(&lab, "a", [FAKE, "wait"]).at(place).start();
        other.wait_for_output("READY");
        let reply = to_a.ask("claim", json!({"ticket": "U"}));
        assert_eq!(reply["error"]["code"], "INTERNAL", "{reply}");
        assert!(reply["error"]["message"].as_str().expect("text").contains("already supervised"), "{reply}");
        assert_eq!(listed(&lab), [row("T", "a", true)]);
        stop(other);
    }
    stop(a);
    stop(b);
}

/// As a session that was killed leaves it.
fn abandon(lab: &Lab, ticket: &str) {
    let claim = json!({"ticket": ticket, "session": "dead", "since": 5});
    fs::write(lab.path(&format!("state/claims/{ticket}")), claim.to_string()).unwrap();
}

/// All are asked before any is heard.
#[test]
fn a_hundred_supervisors_race_for_one_ticket_and_one_wins() {
    let lab = Lab::new();
    let (n, rounds) = (count(12, 100), count(40, 200));
    let crowd = Crowd::start(&lab, n);
    let mut callers = sockets(&lab, n);
    for round in 0..rounds {
        let ticket = format!("t{round}");
        if round % 2 == 1 {
            abandon(&lab, &ticket);
        }
        let asked = json!({"method": "claim", "params": {"ticket": ticket}});
        for caller in &mut callers {
            caller.send(&asked);
        }
        // Who is told that others are at it asks again.
        let reply = |caller: &mut Caller| loop {
            match caller.receive().expect("a reply") {
                busy if busy["error"]["code"] == "BUSY" => caller.send(&asked),
                reply => return reply,
            }
        };
        let replies: Vec<Value> = callers.iter_mut().map(reply).collect();
        let winners: Vec<&Value> = replies.iter().filter(|reply| reply["ok"] == true).collect();
        assert_eq!(winners.len(), 1, "round {round}: {replies:?}");
        let others = replies.iter().filter(|reply| reply["error"]["code"] == "CLAIMED").count();
        assert_eq!(others, n - 1, "round {round}: {replies:?}");
        let claim: Value = serde_json::from_str(&lab.read(&format!("state/claims/{ticket}"))).expect("whole");
        assert_eq!(claim["session"], winners[0]["session"]);
    }
    drop(callers);
    drop(crowd);
}

#[test]
fn a_hundred_processes_race_for_one_ticket_and_one_wins() {
    let lab = Lab::new();
    let (n, rounds) = (count(10, 100), count(4, 100));
    let crowd = Crowd::start(&lab, n);
    drop(sockets(&lab, n));
    for round in 0..rounds {
        let ticket = format!("t{round}");
        let race = |n: usize| -> Child {
            let mut claim = command(&lab, &["claim", "--timeout", "60s", &format!("s{n}"), &ticket]);
            claim.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("agentsup runs")
        };
        let racing: Vec<Child> = (0..n).map(race).collect();
        let codes = racing.into_iter().map(|mut child| child.wait().expect("our child").code());
        let codes: Vec<Option<i32>> = codes.collect();
        assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "round {round}: {codes:?}");
        assert_eq!(codes.iter().filter(|code| **code == Some(1)).count(), n - 1, "round {round}: {codes:?}");
    }
    assert_eq!(listed(&lab).len(), rounds);
    drop(crowd);
    eventually("all have gone", || listed(&lab).iter().all(|(_, _, live)| !live));
    // With their owners gone all are anybody's, and nothing is left behind by a prune.
    says(&lab, &["prune"]);
    assert_eq!(says(&lab, &["claims"]), "no claims\n");
}
