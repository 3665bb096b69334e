//! `agentsup tree`: nodes, their children and what becomes of them, as a plain process.

use std::time::Duration;

use crate::support;
use crate::support::log::{Log, number};
use crate::support::node::{caller, child, log, state, until};
use crate::support::verbs::command;
use crate::support::{
    AGENTSUP, Caller, FAKE, Lab, Launch, Place, Running, count, eventually, place, procfs, sys,
};
use serde_json::{Value, json};

/// Fails once, and the node learns of it.
const ONE_LIFE: &str = "[child.policy]\nhalt_after = 1\n";

fn ids(log: &Log, event: &str) -> Vec<String> {
    let of = |line: &String| support::log::field(line, "child").unwrap_or_default().to_owned();
    log.events(event).iter().map(of).collect()
}

#[test]
fn children_start_in_order_and_stop_in_reverse() {
    let lab = Lab::new();
    let text = [
        child("worker", &[FAKE, "wait"], "needs = [\"lead\"]"),
        child("lead", &[FAKE, "wait"], ""),
        child("last", &[FAKE, "wait"], ""),
    ];
    let file = lab.write("team.toml", &text.concat());
    let sup = Launch::tree(&lab, &file).start();
    let mut node = caller(&lab, "t");
    assert_eq!(node.wait_for("ready")["reason"], "ready");
    let all = node.get("tree", json!({}));
    assert_eq!((&all["strategy"], &all["up"]), (&json!("one_for_one"), &json!(true)));
    let agent = caller(&lab, "t.worker").wait_for("ready");
    assert!(procfs::alive(agent["pid"].as_i64().expect("a pid") as i32));
    assert_eq!(node.refusal("send", json!({"text": "x"})), "NO_AGENT");
    assert_eq!(node.refusal("child.add", json!({})), "NOT_A_POOL");
    assert_eq!(node.refusal("child.stop", json!({"id": "nobody"})), "NOT_FOUND");
    assert_eq!(caller(&lab, "t.lead").refusal("tree", json!({})), "NOT_A_NODE");
    let log = sup.log.clone();
    assert_eq!(node.get("stop", json!({}))["already"], false);
    sup.end().assert_code(0);
    let spawned = ids(&log, "child_spawn");
    assert!(
        spawned.iter().position(|id| id == "lead") < spawned.iter().position(|id| id == "worker"),
        "{spawned:?}"
    );
    assert_eq!(ids(&log, "child_stop"), ["last", "worker", "lead"]);
    for id in ["lead", "worker", "last"] {
        assert_eq!(self::log(&lab, &format!("t.{id}")).events("shutdown").len(), 1, "no lost log of {id}");
    }
}

#[test]
fn a_nodes_session_is_the_flags_else_the_files_else_the_variables_else_the_files_name() {
    let lab = Lab::new();
    let child = child("a", &[FAKE, "wait"], "");
    let silent = lab.write("silent.toml", &child);
    let filed = lab.write("filed.toml", &format!("[node]\nsession = \"filed\"\n{child}"));
    let check = |variable: &str, words: &[&str]| {
        let words = [&["tree", "--check"], words].concat();
        let output = command(&lab, &words).env("AGENTSUP_SESSION", variable).output().expect("agentsup runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    for (variable, words, session) in [
        ("envs", &["--session", "flag", filed.as_str()][..], "flag"),
        ("envs", &[filed.as_str()], "filed"),
        ("a b", &[filed.as_str()], "filed"),
        ("envs", &[silent.as_str()], "envs"),
        ("", &[silent.as_str()], "silent"),
    ] {
        let said = check(variable, words);
        assert!(said.starts_with(&format!("{session} (")), "{variable} {words:?}: {said}");
    }
    let said = check("a b", &[&silent]);
    assert!(said.starts_with("agentsup: $AGENTSUP_SESSION: session id may hold only"), "{said}");
    let said = check("", &["--session", "a b", &filed]);
    assert!(said.starts_with("agentsup: --session: session id may hold only"), "{said}");
}

/// By its name in the kernel's own list, also below: a node below starts agents the same way.
#[test]
fn children_are_started_without_proc() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    lab.write("inner.toml", &child("x", &[FAKE, "wait"], ""));
    let text = child("a", &[FAKE, "wait"], "") + "[[child]]\nid = \"n\"\nfile = \"inner.toml\"\n";
    let launch = Launch::tree(&lab, &lab.write("team.toml", &text)).at(Place::PlainWithoutProc);
    let sup = launch.start();
    let mut node = caller(&lab, "t");
    until(&mut node, "a", "ready");
    until(&mut node, "n", "ready");
    until(&mut caller(&lab, "t.n"), "x", "ready");
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(0);
}

#[test]
fn a_temporary_child_that_is_stopped_for_another_is_started_with_it() {
    let lab = Lab::new();
    let text = "[node]\nstrategy = \"one_for_all\"\nwait = \"0s\"\n".to_owned()
        + &child("a", &[FAKE, "wait"], "")
        + &child("t", &[FAKE, "wait"], "restart = \"temporary\"");
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    let a = until(&mut node, "a", "ready")["pid"].as_i64().expect("a pid");
    sys::kill(a as i32, libc::SIGKILL);
    log(&lab, "t.t").wait_for_nth(2, "claude_spawn");
    assert_eq!(until(&mut node, "t", "ready")["restarts"], 1);
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

/// By what the agents themselves do, not by the node's word.
#[test]
fn agents_run_in_the_order_of_the_file_also_when_all_are_restarted() {
    let lab = Lab::new();
    let ids = ["f", "a", "e", "b", "d", "c"];
    let order = lab.text("order");
    let mut text = "[node]\nstrategy = \"one_for_all\"\nwait = \"0s\"\n".to_owned();
    for id in ids {
        let script = format!("echo {id} >>{order}; exec sleep 1000");
        text += &child(id, &["sh", "-c", &script], ONE_LIFE);
    }
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    let ran = || lab.read("order").lines().map(str::to_owned).collect::<Vec<_>>();
    eventually("all have run", || ran().len() == 6);
    assert_eq!(ran(), ids);
    let agent = caller(&lab, "t.b").wait_for("ready")["pid"].as_i64().expect("a pid");
    sys::kill(agent as i32, libc::SIGKILL);
    eventually("all have run again", || ran().len() == 12);
    assert_eq!(ran()[6..], ids);
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

#[test]
fn a_failure_climbs_to_the_root_and_the_root_tells_the_user() {
    let lab = Lab::new();
    let told = lab.text("told");
    let node = "[node]\nmax_restarts = 1\nwait = \"0s\"\n";
    lab.write(
        "inner.toml",
        &format!("{node}{}", child("bad", &[FAKE, "crash-then", &lab.text("marks"), "99", "3"], ONE_LIFE)),
    );
    let root = format!(
        "{node}[halt]\nnotify = [\"sh\", \"-c\", \"cat >{told}\"]\n[[child]]\nid = \"inner\"\nfile = \"inner.toml\"\n{}",
        child("good", &[FAKE, "wait"], "")
    );
    let file = lab.write("root.toml", &root);
    let sup = Launch::tree(&lab, &file).start();
    let log = sup.log.clone();
    let ended = sup.end();
    ended.assert_code(70);
    // Each life of the inner node is two of its child; the root allows two lives.
    assert_eq!(lab.read("marks").lines().count(), 4, "{ended}");
    let exits = log.events("child_exit");
    let inner: Vec<&String> = exits.iter().filter(|line| line.contains("child=inner")).collect();
    assert_eq!(inner.len(), 2, "{ended}");
    assert!(inner.iter().all(|line| number(line, "code") == 70), "{ended}");
    assert_eq!((log.events("gave_up").len(), log.events("halted").len()), (1, 1), "{ended}");
    let told: Value = serde_json::from_str(&lab.read("told")).expect("the event as JSON");
    assert_eq!(
        (&told["event"], &told["session"], &told["last_exit"]),
        (&json!("halted"), &json!("t"), &json!(70))
    );
    assert!(told["reason"].as_str().is_some_and(|why| why.contains("child inner")), "{told}");
    assert!(ended.stderr.contains("[supervisor] the node gives up"), "{ended}");
    assert!(ended.stderr.contains("[supervisor t.inner] the node gives up"), "each says who it is: {ended}");
}

#[test]
fn all_are_restarted_with_the_one_that_fails() {
    let lab = Lab::new();
    for (strategy, restarted) in
        [("one_for_all", [1, 1, 1]), ("rest_for_one", [0, 1, 1]), ("one_for_one", [0, 1, 0])]
    {
        let lab_file = format!("{strategy}.toml");
        let text = [
            format!("[node]\nstrategy = \"{strategy}\"\nwait = \"0s\"\n"),
            child("a", &[FAKE, "wait"], ""),
            child("b", &[FAKE, "wait"], ONE_LIFE),
            child("c", &[FAKE, "wait"], ""),
        ];
        let file = lab.write(&lab_file, &text.concat());
        let sup = Launch::tree(&lab, &file).start();
        let mut node = caller(&lab, "t");
        node.wait_for("ready");
        let agent = caller(&lab, "t.b").wait_for("ready")["pid"].as_i64().expect("a pid");
        sys::kill(agent as i32, libc::SIGKILL);
        eventually("b runs again", || state(&mut node, "b")["restarts"] == 1);
        for (id, expected) in ["a", "b", "c"].iter().zip(restarted) {
            let seen = until(&mut node, id, "ready");
            assert_eq!(seen["restarts"], expected, "{strategy} {id}: {seen}");
        }
        node.get("stop", json!({}));
        sup.end().assert_code(0);
    }
}

#[test]
fn a_refused_child_is_no_crash_and_starts_when_what_it_lacked_is_there() {
    let lab = Lab::new();
    let dir = lab.text("later");
    let text = [
        child("good", &[FAKE, "wait"], ""),
        child("bad", &[FAKE, "wait"], &format!("cwd = {dir:?}")),
        child("waits", &[FAKE, "wait"], "needs = \"bad\""),
    ];
    let file = lab.write("team.toml", &text.concat());
    let sup = Launch::tree(&lab, &file).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    let bad = until(&mut node, "bad", "refused");
    assert_eq!((&bad["last_exit"], &bad["restarts"]), (&json!(78), &json!(0)));
    assert_eq!(state(&mut node, "waits")["state"], "blocked");
    assert_eq!(node.get("tree", json!({}))["recent_restarts"], 0);
    sup.wait_for("child_refused");
    lab.dir("later");
    node.get("child.start", json!({"id": "bad"}));
    until(&mut node, "waits", "ready");
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

#[test]
fn a_node_of_which_nothing_can_run_ends_with_78() {
    let lab = Lab::new();
    let file = lab.write("team.toml", &child("bad", &["/nonexistent/agent"], ""));
    let ended = Launch::tree(&lab, &file).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("/nonexistent/agent"), "{ended}");
    assert!(ended.stderr.contains("child bad cannot be started (code 127)"), "{ended}");
}

#[test]
fn a_state_dir_that_somebody_took_away_is_put_back_for_the_next_child() {
    let lab = Lab::new();
    let text = "[node]\nwait = \"0s\"\n".to_owned() + &child("a", &[FAKE, "wait"], "");
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let a = until(&mut caller(&lab, "t"), "a", "ready")["pid"].as_i64().expect("a pid") as i32;
    std::fs::remove_dir_all(lab.state_dir()).expect("it is there");
    sys::kill(a, libc::SIGKILL);
    sup.log.wait_for("child_ready child=a");
    assert_eq!(state(&mut caller(&lab, "t"), "a")["restarts"], 1);
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end().assert_code(0);
}

fn pool(lab: &Lab, command: &[&str], more: &str) -> (Running, Caller) {
    let text = format!("[node]\nstrategy = \"pool\"\n{}", child("d", command, more));
    let sup = Launch::tree(lab, &lab.write("pool.toml", &text)).start();
    let mut node = caller(lab, "t");
    node.wait_for("ready");
    (sup, node)
}

#[test]
fn a_hundred_drones_do_one_task_and_end() {
    let lab = Lab::new();
    let marks = lab.text("marks");
    let drone = format!("echo $TASK >>{marks}");
    let (sup, mut node) = pool(&lab, &["sh", "-c", &drone], "preset = \"drone\"");
    let all = count(20, 100);
    for n in 0..all {
        let added = node.get("child.add", json!({"env": {"TASK": n.to_string()}}));
        assert_eq!(added["child"], format!("d-{}", n + 1));
    }
    eventually("all have done their work", || {
        let tree = node.get("tree", json!({}));
        tree["done"] == all || {
            sys::pause(Duration::from_millis(20));
            false
        }
    });
    let tree = node.get("tree", json!({}));
    assert_eq!(
        (&tree["children"], &tree["failed"], &tree["recent_restarts"]),
        (&json!([]), &json!(0), &json!(0))
    );
    let mut done: Vec<usize> =
        lab.read("marks").lines().map(|line| line.parse().expect("a number")).collect();
    done.sort_unstable();
    assert_eq!(done, (0..all).collect::<Vec<_>>(), "each task once");
    node.get("stop", json!({}));
    let root = sup.pid();
    assert!(procfs::zombies_below(root).is_empty());
    sup.end().assert_code(0);
    let left: Vec<String> = std::fs::read_dir(lab.state_dir().join("supervisor"))
        .expect("the state dir")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml") || name.ends_with(".sock"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn children_of_a_live_pool_are_added_stopped_started_restarted_and_removed() {
    let lab = Lab::new();
    let (sup, mut node) = pool(&lab, &[FAKE, "wait"], "");
    assert_eq!(node.get("child.add", json!({"id": "x"}))["session"], "t.x");
    assert_eq!(node.refusal("child.add", json!({"id": "x"})), "DUPLICATE_ID");
    assert_eq!(node.refusal("child.add", json!({"id": "a.b"})), "BAD_PARAMS");
    let first = until(&mut node, "x", "ready")["pid"].clone();
    node.get("child.restart", json!({"id": "x"}));
    eventually("another process", || {
        let x = state(&mut node, "x");
        x["state"] == "ready" && x["pid"] != first
    });
    node.get("child.stop", json!({"id": "x"}));
    until(&mut node, "x", "stopped");
    node.get("child.start", json!({"id": "x"}));
    until(&mut node, "x", "ready");
    assert_eq!(node.get("tree", json!({}))["recent_restarts"], 0, "what was asked for does not count");

    let agentsup = |words: &[&str]| {
        let output = std::process::Command::new(AGENTSUP)
            .args(words)
            .env("AGENTSUP_DIR", lab.state_dir())
            .env_remove("AGENTSUP_SESSION")
            .env_remove("AGENTSUP_SOCKET")
            .env("COLUMNS", "80")
            .output()
            .expect("agentsup");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(agentsup(&["child", "add", "y", "--session", "t"]).starts_with("y starting (t.y)"));
    until(&mut node, "y", "ready");
    let drawn = agentsup(&["ls", "--tree"]);
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(lines[1].starts_with("t ") && lines[1].contains("pool, 2 of 2 ready"), "{drawn}");
    assert!(lines[2].starts_with("├─ x ") && lines[3].starts_with("└─ y "), "{drawn}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{drawn}");
    assert!(agentsup(&["child", "remove", "y", "--session", "t"]).starts_with("y stopping"));
    eventually("y is gone", || state(&mut node, "y").is_null());
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

#[test]
fn an_agent_may_not_steer_its_own_tree() {
    let lab = Lab::new();
    let script = format!(
        "env -u AGENTSUP_SOCKET AGENTSUP_DIR={} {AGENTSUP} child stop good --session t >{} 2>&1; sleep 1000",
        lab.state_dir().display(),
        lab.text("said")
    );
    let text = [child("good", &[FAKE, "wait"], ""), child("sly", &["sh", "-c", &script], "needs = \"good\"")];
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text.concat())).start();
    let denied = sup.wait_for("control_denied");
    assert!(denied.contains("method=child.stop") && denied.contains("role=agent"), "{denied}");
    lab.wait_for_file("said", "FORBIDDEN");
    let mut node = caller(&lab, "t");
    assert_eq!(state(&mut node, "good")["state"], "ready");
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

#[test]
fn a_file_that_is_not_one_is_refused_with_its_line() {
    let lab = Lab::new();
    let good = child("a", &[FAKE, "wait"], "");
    for (text, complaint) in [
        (format!("{good}[nod]\n"), ":5: unknown key `nod`; expected `node`?"),
        (
            format!("[node]\nmax_restarts = \"x\"\n{good}"),
            ":2: `max_restarts`: invalid type: string; expected a whole number",
        ),
        (format!("{good}{good}"), ":5: the id `a` is given twice, first in line 1"),
        ("[[child]]\nid = \"n\"\nfile = \"gone.toml\"\n".to_owned(), ":3: `file`: there is no file"),
        ("child = []\n".to_owned(), ":1: `child` is empty; expected one or more [[child]]"),
        (
            format!("{good}policy = 3\n"),
            ":5: `policy`: invalid type: integer; expected a table [child.policy]",
        ),
        (format!("[node]\nmax_seconds = 0\n{good}"), ":2: `max_seconds`: within no time"),
        (
            format!("[node]\nstrategy = \"pool\"\nsize = 3\nmax_children = 2\n{good}"),
            ":3: `size`: more than max_children = 2",
        ),
    ] {
        let file = lab.write("bad.toml", &text);
        for options in [&[][..], &["--check"]] {
            let ended = Launch::tree(&lab, &file).with(options).end();
            ended.assert_code(78);
            assert!(ended.stderr.contains(&format!("{file}{complaint}")), "{ended}");
        }
    }
    let ended = Launch::tree(&lab, &lab.write("good.toml", &good)).with(["--check"]).end();
    ended.assert_code(0);
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 agent; a stop takes 19s at most"), "{ended}");
    assert!(!lab.state_dir().exists(), "--check makes nothing");
}

/// Five nodes deep, each with agents of its own beside the next.
#[test]
fn a_deep_tree_starts_and_stops_within_its_times() {
    let lab = Lab::new();
    let agents = count(4, 40);
    let mut below = String::new();
    for level in 0..5 {
        let own: String = (0..agents).map(|n| child(&format!("a{n}"), &[FAKE, "wait"], "")).collect();
        lab.write(&format!("{level}.toml"), &(own + &below));
        below = format!("[[child]]\nid = \"n\"\nfile = \"{level}.toml\"\n");
    }
    let sup = Launch::tree(&lab, &lab.text("4.toml")).start();
    let mut node = caller(&lab, "t");
    let ready = json!({"for": "ready", "timeout_ms": 60_000});
    eventually("all are up", || node.ask("wait", ready.clone())["ok"] == true);
    caller(&lab, "t.n.n.n.n.a0").wait_for("ready");
    let root = sup.pid();
    let below = procfs::descendants(root);
    assert_eq!(below.len(), 5 * agents * 2 + 4, "a supervisor and an agent each, and four nodes");
    node.get("stop", json!({}));
    sup.end_within(Duration::from_secs(60)).assert_code(0);
    let is_it =
        |before: &procfs::Process| procfs::process(before.pid).filter(|now| now.started == before.started);
    let alive: Vec<_> = below.iter().filter_map(is_it).collect();
    assert!(alive.is_empty(), "{alive:?}");
}
