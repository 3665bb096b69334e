//! What a node is told of its children, and what it tells others: stops that were asked for, refusals, health,
//! sessions that go on.

use std::process::Command;

use crate::support::log::field;
use crate::support::node::{caller, child, log, state, until};
use crate::support::verbs::{fails, says};
use crate::support::{AGENTSUP, FAKE, Lab, Launch, eventually, sys};
use serde_json::{Value, json};

#[test]
fn a_child_that_was_asked_to_stop_over_its_own_socket_rests_and_counts_as_nothing() {
    let lab = Lab::new();
    lab.write("inner.toml", &child("x", &[FAKE, "wait"], ""));
    let node = "[node]\nmax_restarts = 0\n".to_owned();
    let inner = "[[child]]\nid = \"n\"\nfile = \"inner.toml\"\n";
    let text = node + &child("a", &[FAKE, "wait"], "") + &child("b", &[FAKE, "wait"], "") + inner;
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    says(&lab, &["stop", "t.a"]);
    until(&mut node, "a", "stopped");
    says(&lab, &["stop", "--now", "t.b"]);
    until(&mut node, "b", "stopped");
    says(&lab, &["stop", "t.n"]);
    until(&mut node, "n", "stopped");
    assert_eq!(node.get("tree", json!({}))["recent_restarts"], 0);
    assert!(sup.log.events("child_exit").iter().all(|line| line.contains(" by=caller")), "{}", sup.so_far());
    node.get("child.start", json!({"id": "a"}));
    let a = until(&mut node, "a", "ready")["pid"].as_i64().expect("a pid");
    // A word of before says nothing about this life.
    sys::kill(a as i32, libc::SIGKILL);
    let ended = sup.end();
    ended.assert_code(70);
    assert!(ended.stderr.contains("child a was stopped by a caller of its own"), "{ended}");
}

#[test]
fn why_a_child_was_refused_is_told_once_and_with_its_name() {
    let lab = Lab::new();
    lab.write("inner.toml", &child("x", &["/nonexistent/x"], ""));
    let text = [
        child("cwd", &[FAKE, "wait"], "cwd = \"/nonexistent/cwd\""),
        child("gone", &["/nonexistent/agent"], ""),
        child("asks", &[FAKE, "wait"], "before_spawn = [\"false\"]"),
        child("waits", &[FAKE, "wait"], "needs = \"cwd\""),
        child("good", &[FAKE, "wait"], ""),
        "[[child]]\nid = \"n\"\nfile = \"inner.toml\"\n".to_owned(),
    ];
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text.concat())).start();
    let mut node = caller(&lab, "t");
    assert_eq!(node.wait_for("ready")["reason"], "ready", "the rest runs");
    for (id, why) in [
        ("cwd", "path does not exist: /nonexistent/cwd"),
        ("gone", "/nonexistent/agent"),
        ("asks", "before_spawn refused it (code 1)"),
        ("n", "child x cannot be started: exec: "),
    ] {
        let seen = until(&mut node, id, "refused");
        assert!(seen["why"].as_str().is_some_and(|said| said.contains(why)), "{seen}");
        let line = sup.log.wait_for(&format!("child_refused child={id}"));
        assert!(line.contains(why) && line.contains(" error="), "{line}");
    }
    assert_eq!(state(&mut node, "good")["why"], Value::Null);
    let shown = node.get("state", json!({"why": true}));
    assert_eq!((&shown["health"], &shown["phase"]), (&json!("degraded"), &json!("running")));
    let health = says(&lab, &["health", "t"]);
    assert!(health.starts_with("healthy: degraded, running, child cwd cannot be started: "), "{health}");
    assert!(health.contains("child waits waits for what will not be ready"), "{health}");
    let drawn = says(&lab, &["ls", "--tree"]);
    assert!(drawn.contains("path does not exist: /nonexistent/cwd"), "{drawn}");
    node.get("stop", json!({}));
    let ended = sup.end();
    let about = |what: &str| ended.stderr.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    assert_eq!(about("/nonexistent/cwd").len(), 1, "{ended}");
    assert!(about("/nonexistent/cwd")[0].starts_with("[supervisor] child cwd cannot be started (code 78): "));
    assert!(ended.stderr.lines().all(|line| line.starts_with("[supervisor")), "nobody is nameless: {ended}");
}

#[test]
fn a_child_that_halts_says_how_its_node_starts_it_again() {
    let lab = Lab::new();
    let text = child("bad", &["false"], "restart = \"temporary\"\n[child.policy]\nhalt_after = 1")
        + &child("good", &[FAKE, "wait"], "");
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let mut node = caller(&lab, "t");
    until(&mut node, "bad", "ended");
    let halted = log(&lab, "t.bad").wait_for("halted");
    assert!(!halted.contains("hint="), "what can be done the node knows: {halted}");
    says(&lab, &["child", "start", "bad", "--session", "t"]);
    log(&lab, "t.bad").wait_for_nth(2, "halted");
    until(&mut node, "bad", "ended");
    node.get("stop", json!({}));
    let ended = sup.end();
    ended.assert_code(0);
    let hint = "child bad exited with code 1 after ";
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(hint)).collect();
    assert_eq!(told.len(), 2, "{ended}");
    assert!(told[0].ends_with("; to start it again: agentsup child start bad --session t"), "{ended}");
}

/// The pool forgets it, the node starts it again itself, and a node without anything else to do ends.
#[test]
fn a_child_that_nobody_can_start_again_is_told_with_no_hint() {
    let once = "[child.policy]\nhalt_after = 1";
    let drone = child("d", &["false"], &format!("restart = \"temporary\"\n{once}"));
    let kept = child("a", &["false"], &format!("restart = \"permanent\"\n{once}"));
    let refused = child("a", &["/nonexistent/agent"], "");
    for (text, told, code) in [
        (format!("[node]\nstrategy = \"pool\"\nsize = 1\n{drone}"), "child d-1 exited with code 1", 0),
        (format!("[node]\nmax_restarts = 1\nwait = \"0s\"\n{kept}"), "child a exited with code 1", 70),
        (drone, "child d exited with code 1", 1),
        (refused, "child a cannot be started (code 127)", 78),
    ] {
        let lab = Lab::new();
        let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
        sup.wait_for_stderr(told);
        if code == 0 {
            caller(&lab, "t").get("stop", json!({}));
        }
        let ended = sup.end();
        ended.assert_code(code);
        assert!(!ended.stderr.contains("agentsup child start"), "{ended}");
        assert!(!ended.stderr.contains("to retry"), "{ended}");
    }
}

#[test]
fn what_is_named_in_a_line_of_stderr_cannot_move_the_readers_cursor() {
    let lab = Lab::new();
    let text = "[[child]]\nid = \"a\"\ncommand = [\"/no/\\u001b[31m\\u0007\\nx\"]\n";
    let sup = Launch::tree(&lab, &lab.write("team.toml", text)).start();
    let ended = sup.end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("/no/\\u{1b}[31m\\u{7}"), "{ended}");
    assert!(!ended.stderr.contains(|c: char| c.is_control() && c != '\n'), "{:?}", ended.stderr);
    let refused = fails(&lab, &["tree", "no\x1b[2J.toml"], 78);
    assert!(refused.contains("no\\u{1b}[2J.toml"), "{refused:?}");
}

#[test]
fn a_child_goes_on_where_its_killed_supervisor_was_and_begins_anew_otherwise() {
    let lab = Lab::new();
    let text = "[node]\nwait = \"0s\"\n".to_owned()
        + &child("a", &[FAKE, "wait"], "")
        + &child("said", &[FAKE, "wait"], "start = \"fresh\"");
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    let starts = |session: &str| -> Vec<String> {
        let of = |line: &String| field(line, "start").unwrap_or_default().to_owned();
        log(&lab, session).events("claude_spawn").iter().map(of).collect()
    };
    for id in ["a", "said"] {
        let pid = until(&mut node, id, "ready")["pid"].as_i64().expect("a pid");
        sys::kill(pid as i32, libc::SIGKILL);
        log(&lab, &format!("t.{id}")).wait_for_nth(2, "claude_spawn");
        until(&mut node, id, "ready");
        node.get("child.restart", json!({"id": id}));
        log(&lab, &format!("t.{id}")).wait_for_nth(3, "claude_spawn");
    }
    assert_eq!(starts("t.a"), ["fresh", "continue", "fresh"]);
    assert_eq!(starts("t.said"), ["fresh"; 3]);
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}

#[test]
fn what_was_committed_before_the_node_started_a_child_again_is_of_its_session() {
    let lab = Lab::new();
    let dir = lab.dir("repo");
    let git = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let commit = |what: &str| format!("git {} commit -q --allow-empty -m '{what}'", git.join(" "));
    let script = format!("git init -q . && {}", commit("before"));
    assert!(Command::new("sh").args(["-c", &script]).current_dir(&dir).status().expect("git").success());
    let marks = lab.text("marks");
    let agent = format!(
        "echo x >>{marks}; {}; test $(wc -l <{marks}) -ge 3 || exit 3; exec sleep 1000",
        commit("new $(wc -l <MARKS)").replace('\'', "\"").replace("MARKS", &marks)
    );
    let more = format!("cwd = {dir:?}\n[child.policy]\nhalt_after = 1");
    let text = "[node]\nwait = \"0s\"\n".to_owned() + &child("a", &["sh", "-c", &agent], &more);
    let sup = Launch::tree(&lab, &lab.write("team.toml", &text)).start();
    lab.wait_for_file("marks", "x\nx\nx\n");
    let mut listed = String::new();
    eventually("all three are listed", || {
        listed = says(&lab, &["commits", "t.a"]);
        ["new 1", "new 2", "new 3"].iter().all(|new| listed.contains(new))
    });
    assert!(!listed.contains("before"), "{listed}");
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end().assert_code(0);
}

#[test]
fn what_the_root_tells_others_counts_the_restarts_of_its_children() {
    let lab = Lab::new();
    let told = lab.text("told");
    let text = format!(
        "[node]\nmax_restarts = 2\nwait = \"0s\"\n[halt]\nnotify = [\"sh\", \"-c\", \"cat >{told}\"]\n{}",
        child("bad", &["false"], "[child.policy]\nhalt_after = 1")
    );
    Launch::tree(&lab, &lab.write("team.toml", &text)).end().assert_code(70);
    let told: Value = serde_json::from_str(&lab.read("told")).expect("JSON");
    assert_eq!(told["restart_count"], 2, "{told}");
}

#[test]
fn an_addition_that_cannot_run_is_refused_and_its_variables_are_nobody_elses_business() {
    let lab = Lab::new();
    let (env, said) = (lab.text("env"), lab.text("said"));
    let script =
        format!("env >{env}; {AGENTSUP} ls --tree >{said}.new 2>&1; mv {said}.new {said}; exec sleep 1000");
    let more = "env = [\"KEPT=1\", # one\n \"AGAIN=old\"]\npass_env = [\"AGENTSUP_DIR\"]";
    let text = "[node]\nstrategy = \"pool\"\n".to_owned() + &child("d", &["sh", "-c", &script], more);
    let sup = Launch::tree(&lab, &lab.write("pool.toml", &text)).start();
    let mut node = caller(&lab, "t");
    node.wait_for("ready");
    let words = ["child", "add", "--session", "t", "--prompt", "do it"];
    let refused = fails(&lab, &words, 1);
    assert!(
        refused.contains("BAD_PARAMS") && refused.contains("--prompt: sh is no known agent"),
        "{refused}"
    );
    assert_eq!(node.get("tree", json!({}))["children"], json!([]));
    let secret = "a \"secret\" \\ of\ttwo\nlines\u{7f}";
    node.get("child.add", json!({"id": "x", "env": {"AGAIN": "new", "TOP_SECRET": secret}}));
    let pid = until(&mut node, "x", "ready")["pid"].as_i64().expect("a pid");
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(!String::from_utf8_lossy(&line).contains("secret"), "{line:?}");
    // An agent may look at the tree that it is in.
    let drawn = lab.wait_for_file("said", "\n");
    assert!(drawn.contains("pool, ") && drawn.contains("└─ x "), "{drawn}");
    let env = lab.read("env");
    assert!(env.contains(&format!("TOP_SECRET={secret}\n")), "{env}");
    assert!(env.contains("KEPT=1\n") && env.contains("AGAIN=new\n") && !env.contains("AGAIN=old"), "{env}");
    node.get("stop", json!({}));
    sup.end().assert_code(0);
}
