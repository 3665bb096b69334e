//! Messages that must arrive, and the proof that they did: real binary, agents that acknowledge in
//! every way, or in none.

use std::time::{Duration, Instant};

use crate::support::bridge::{
    PATIENT, QUICK, all_read, at_terminal, claude, has_draft, launch, metric, prompts, stop, tui,
    until_prompts, up, verb, verb_with,
};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch, eventually, sys};
use serde_json::{Value, json};

#[test]
fn claude_acknowledges_by_its_hook() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let words = ["trigger", "--thread", "ci", "--reason", "red build", "--id", "a-1", "fix\nit"];
    let (code, out, err) = verb(&lab, &words);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "delivered a-1, by hook\n", ""));
    assert_eq!(
        until_prompts(&lab, 1),
        ["[BRIDGE_TRIGGER id=a-1 thread=ci reason=red build]\nfix\nit\n[/BRIDGE_TRIGGER]"]
    );
    // The same again is the same: nothing is typed twice.
    assert_eq!(verb(&lab, &words).1, "delivered a-1, by hook\n");
    let (code, _, err) = verb(&lab, &["trigger", "--thread", "ci", "--id", "a-1", "another text"]);
    assert!(code == 65 && err.contains("DUPLICATE_ID"), "{code} {err}");
    let (code, out, _) = verb_with(&lab, &["trigger", "--thread", "ci", "--json", "t", "-"], "from stdin");
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &status["state"], &status["attempts"]), (0, &json!("delivered"), &json!(1)));
    assert_eq!(until_prompts(&lab, 2).len(), 2);
    let state = caller.state();
    assert_eq!(state["last_trigger_id"], status["trigger_id"]);
    assert!(state["last_heartbeat_at"].as_f64().unwrap() > 1e9);
    assert!(verb(&lab, &["triggers"]).1.contains("a-1"));
    let log = lab.read("state/logs/t.log");
    let own = format!("uid={} pid=", nix::unistd::geteuid());
    for line in [
        format!("trigger_queued trigger_id=a-1 thread=ci count=6 {own}"),
        "trigger_sent trigger_id=a-1 thread=ci attempt=1".into(),
        "ack_received trigger_id=a-1 thread=ci by=hook".into(),
        "trigger_delivered trigger_id=a-1 thread=ci".into(),
        "trigger_refused trigger_id=a-1 thread=ci".into(),
    ] {
        assert!(log.contains(&line), "no {line}:\n{log}");
    }
    assert!(!log.contains("fix") && !log.contains("stdin"), "no text is logged");
    for (name, value) in [("attempt", 2), ("delivered", 2), ("retry", 0), ("timeout", 0), ("refused", 1)] {
        assert_eq!(metric(&mut caller, name), value, "{name}");
    }
    stop(sup, &mut caller);
}

#[test]
fn an_agent_acknowledges_by_method_by_heartbeat_or_by_a_line_of_output() {
    for (script, by) in [
        (format!("{AGENTSUP} ack \"$TRIGGER_ID\""), "ack"),
        (format!("{AGENTSUP} progress --thread ci --finding x"), "progress"),
        (format!("{AGENTSUP} heartbeat"), "heartbeat"),
        ("printf '\\033[1m● ACK_TRIGGER:%s\\033[0m\\r\\n' \"$TRIGGER_ID\"".to_owned(), "marker"),
    ] {
        let lab = Lab::new();
        let (sup, mut caller) = up(tui(&lab, PATIENT, &script), &lab);
        let (code, out, err) = verb(&lab, &["trigger", "--thread", "ci", "--id", "a", "do it"]);
        assert_eq!((code, out, err), (0, format!("delivered a, by {by}\n"), String::new()));
        assert_eq!(prompts(&lab).len(), 1);
        stop(sup, &mut caller);
    }
}

#[test]
fn an_agent_that_only_echoes_has_acknowledged_nothing() {
    let lab = Lab::new();
    let (sup, mut caller) = up(launch(&lab, QUICK, &[FAKE, "echo-raw"]), &lab);
    let began = Instant::now();
    let (code, out, err) = verb(&lab, &["trigger", "--thread", "ci", "--id", "a", "say ACK_TRIGGER and a"]);
    assert_eq!((code, out.as_str()), (70, ""));
    assert!(err.contains("ACK_TIMEOUT"), "{err}");
    // Three times 400 ms, and the two waits.
    assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    let status = caller.get("trigger.status", json!({"trigger_id": "a"}));
    assert_eq!((&status["state"], &status["code"]), (&json!("failed"), &json!("ACK_TIMEOUT")));
    assert_eq!((metric(&mut caller, "timeout"), metric(&mut caller, "retry")), (3, 2));
    // What comes late is told, and changes nothing.
    assert!(verb(&lab, &["ack", "a"]).1.starts_with("too late, it had ended: failed a, ACK_TIMEOUT"));
    assert_eq!(caller.get("trigger.status", json!({"trigger_id": "a"}))["acked_late"], true);
    assert!(lab.read("state/logs/t.log").contains("ack_received trigger_id=a thread=ci by=ack late=yes"));
    stop(sup, &mut caller);
}

#[test]
fn an_enter_that_was_swallowed_is_pressed_again_and_the_text_stands_once() {
    let lab = Lab::new();
    let script = format!("{AGENTSUP} ack \"$TRIGGER_ID\"");
    let (sup, mut caller) =
        up(launch(&lab, QUICK, &[FAKE, "tui-deaf-once", &lab.text("record"), &script]), &lab);
    let reply = caller.get("trigger", json!({"thread": "ci", "trigger_id": "a", "text": "do it"}));
    assert_eq!((&reply["state"], &reply["attempts"]), (&json!("delivered"), &json!(2)));
    let prompts = prompts(&lab);
    assert_eq!((prompts.len(), prompts[0].matches("do it").count()), (1, 1), "{prompts:?}");
    stop(sup, &mut caller);
}

#[test]
fn an_agent_that_dies_before_it_acknowledges_is_told_of_and_the_next_one_is_served() {
    let lab = Lab::new();
    let script = format!("[ \"$TRIGGER_ID\" = b ] && {AGENTSUP} ack b || kill -9 $PPID");
    let (sup, mut caller) = up(tui(&lab, QUICK, &script), &lab);
    caller.send(
        &json!({"id": 1, "method": "trigger", "params": {"thread": "t", "trigger_id": "a", "text": "one"}}),
    );
    caller.send(
        &json!({"id": 2, "method": "trigger", "params": {"thread": "t", "trigger_id": "b", "text": "two"}}),
    );
    let (first, second) = (caller.receive().unwrap(), caller.receive().unwrap());
    assert_eq!((&first["id"], &first["error"]["code"]), (&json!(1), &json!("NOT_RUNNING")), "{first}");
    assert_eq!((&second["id"], &second["state"]), (&json!(2), &json!("delivered")), "{second}");
    let prompts = prompts(&lab);
    assert_eq!(prompts.len(), 2, "none is delivered twice: {prompts:?}");
    stop(sup, &mut caller);
}

#[test]
fn a_trigger_waits_for_the_operator_and_comes_behind_what_was_typed() {
    let lab = Lab::new();
    let config = QUICK.replace("\"2s\"", "\"20s\"");
    let (mut terminal, mut caller) = at_terminal(&claude(&lab, &config), &lab);
    terminal.type_in("my own te");
    terminal.expect("my own te");
    eventually("the draft is seen", || has_draft(&mut caller));
    let (code, out, _) = verb(&lab, &["trigger", "--thread", "ci", "--id", "a", "--no-wait", "the trigger"]);
    assert_eq!((code, out.as_str()), (75, "deferred a, OPERATOR_BUSY\n"));
    terminal.type_in("xt");
    terminal.expect("my own text");
    // As a human would: an Enter that comes with a burst of text is a part of it.
    sys::pause(Duration::from_millis(200));
    let sent = Instant::now();
    terminal.type_in("\r");
    let reply = caller.get("trigger", json!({"thread": "ci", "trigger_id": "a", "text": "the trigger"}));
    assert_eq!(reply["state"], "delivered", "{reply}");
    assert!(sent.elapsed() >= Duration::from_millis(700), "{:?}", sent.elapsed());
    let envelope = "[BRIDGE_TRIGGER id=a thread=ci]\nthe trigger\n[/BRIDGE_TRIGGER]";
    assert_eq!(until_prompts(&lab, 2), ["my own text", envelope]);
    let paste = envelope.replace('\n', "\r");
    assert_eq!(all_read(&lab), format!("my own text\r\x1b[200~{paste}\x1b[201~\r"), "byte by byte");
    assert_eq!(metric(&mut caller, "deferred"), 1);
    caller.get("stop", json!({"graceful": false}));
    terminal.end();
}

#[test]
fn a_draft_that_stays_is_never_typed_into_unless_an_operator_forces_it_with_a_reason() {
    let lab = Lab::new();
    let (mut terminal, mut caller) = at_terminal(&claude(&lab, QUICK), &lab);
    terminal.type_in("a draft ");
    terminal.expect("a draft ");
    eventually("the draft is seen", || has_draft(&mut caller));
    let (code, _, err) = verb(&lab, &["trigger", "--thread", "ci", "one"]);
    assert!(code == 75 && err.contains("DEFER_TIMEOUT"), "{code} {err}");
    assert_eq!(prompts(&lab), [""; 0]);
    for words in [
        &["trigger", "--thread", "ci", "--force", "two"][..],
        &["trigger", "--thread", "ci", "--force", "--why", " ", "two"],
    ] {
        let (code, _, err) = verb(&lab, words);
        assert!(code == 65 && err.contains("why"), "{code} {err}");
    }
    let words = ["trigger", "--thread", "ci", "--id", "f", "--force", "--why", "on call", "two"];
    assert_eq!(verb(&lab, &words).1, "delivered f, by hook\n");
    assert!(until_prompts(&lab, 1)[0].starts_with("a draft [BRIDGE_TRIGGER id=f"), "{:?}", prompts(&lab));
    let log = lab.read("state/logs/t.log");
    assert!(
        log.contains("trigger_id=f thread=ci count=3 ") && log.contains("forced=yes why=\"on call\""),
        "{log}"
    );
    // What waits can be called back, what was typed cannot.
    terminal.type_in("more");
    eventually("the draft is seen", || has_draft(&mut caller));
    assert_eq!(verb(&lab, &["trigger", "--thread", "ci", "--id", "w", "--no-wait", "three"]).0, 75);
    assert_eq!(verb(&lab, &["triggers", "--cancel", "w"]).1, "failed w, CANCELLED\n");
    assert_eq!(caller.refusal("trigger.cancel", json!({"trigger_id": "f"})), "TOO_LATE");
    caller.get("stop", json!({"graceful": false}));
    terminal.end();
}

#[test]
fn the_agents_own_tree_may_acknowledge_and_not_trigger() {
    let lab = Lab::new();
    let script = format!(
        "{AGENTSUP} trigger --thread x me 2>{0}; echo $? >>{0}; {AGENTSUP} unblock x; {AGENTSUP} ack \"$TRIGGER_ID\"",
        lab.text("said")
    );
    let (sup, mut caller) = up(tui(&lab, PATIENT, &script), &lab);
    assert_eq!(verb(&lab, &["trigger", "--thread", "ci", "--id", "a", "go"]).0, 0);
    let said = lab.read("said");
    assert!(said.contains("FORBIDDEN") && said.ends_with("77\n"), "{said}");
    sup.wait_for("control_denied");
    stop(sup, &mut caller);
}

#[test]
fn bad_input_is_65_and_names_what_is_wrong() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let long = "x".repeat(17 * 1024);
    for (words, stdin, says) in [
        (&["--thread", "t", ""][..], "", "`text`"),
        (&["--thread", "t", "-"], " \n\x1b\x07", "`text`"),
        (&["--thread", "t", "-"], long.as_str(), "TOO_LARGE"),
        (&["--thread", "a b", "x"], "", "`thread`"),
        (&["--thread", "t", "--id", "a/b", "x"], "", "`trigger_id`"),
        (&["--thread", "t", "--reason", "a\nb", "x"], "", "`reason`"),
        (&["--thread", "t", "ACK_TRIGGER:x"], "", "`text`"),
    ] {
        let (code, _, err) = verb_with(&lab, &[&["trigger"], words].concat(), stdin);
        assert!(code == 65 && err.contains(says), "{words:?}: {code} {err}");
    }
    for words in [&["trigger", "x"][..], &["trigger", "--thread", "t"], &["progress"], &["ack"], &["unblock"]]
    {
        assert_eq!(verb(&lab, words).0, 2, "{words:?}");
    }
    // Control characters go, the rest arrives.
    assert_eq!(verb_with(&lab, &["trigger", "--thread", "t", "--id", "c", "-"], "a\x1b[201~\x03b\r\nc").0, 0);
    assert_eq!(until_prompts(&lab, 1), ["[BRIDGE_TRIGGER id=c thread=t]\na[201~b\nc\n[/BRIDGE_TRIGGER]"]);
    let (code, _, err) = verb(&lab, &["unblock", "nobody"]);
    assert!(code == 1 && err.contains("NOT_FOUND"), "{code} {err}");
    assert_eq!(caller.refusal("trigger.status", json!({"trigger_id": "?"})), "NOT_FOUND");
    assert_eq!(caller.refusal("ack", json!({"trigger_id": "?"})), "NOT_FOUND");
    assert_eq!(caller.refusal("ack", json!({})), "BAD_PARAMS");
    assert_eq!(caller.refusal("progress", json!({"trigger_id": "c", "thread": "t"})), "BAD_PARAMS");
    stop(sup, &mut caller);
    let (code, _, err) = verb(&lab, &["trigger", "--thread", "t", "x"]);
    assert!(code == 69 && err.contains("TARGET_NOT_FOUND"), "{code} {err}");
}

#[test]
fn a_thread_that_goes_round_in_circles_is_blocked_until_an_operator_frees_it() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    for _ in 0..3 {
        assert_eq!(verb(&lab, &["progress", "--thread", "ci", "--finding", "the same"]).0, 0);
    }
    let (code, _, err) = verb(&lab, &["trigger", "--thread", "ci", "x"]);
    assert!(
        code == 70 && err.contains("THREAD_AUTO_BLOCKED") && err.contains("agentsup unblock ci"),
        "{err}"
    );
    assert_eq!(verb(&lab, &["trigger", "--thread", "other", "x"]).0, 0, "others go on");
    // 20 turns end, and nobody gets on.
    for _ in 0..20 {
        caller.get("hook", json!({"event": "Stop"}));
    }
    let blocked = caller.get("trigger.list", json!({}))["blocked"].clone();
    assert_eq!(blocked, json!(["ci", "other"]));
    assert_eq!(verb(&lab, &["unblock", "ci"]).1, "unblocked\n");
    assert_eq!(verb(&lab, &["trigger", "--thread", "ci", "x"]).0, 0);
    sup.wait_for("thread_blocked");
    sup.wait_for("thread_unblocked");
    stop(sup, &mut caller);
}

#[test]
fn without_a_terminal_or_an_agent_it_is_refused() {
    let lab = Lab::new();
    let (sup, mut caller) = up(Launch::run(&lab, [FAKE, "wait"]).with(["--io", "inherit"]), &lab);
    assert_eq!(caller.refusal("trigger", json!({"thread": "t", "text": "x"})), "NO_PTY");
    stop(sup, &mut caller);
    let lab = Lab::new();
    let halts = launch(&lab, "[policy]\nno_retry = [3]\n", &[FAKE, "exit", "3"]).with(["--on-halt", "wait"]);
    let sup = halts.start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("halted");
    assert_eq!(caller.refusal("trigger", json!({"thread": "t", "text": "x"})), "NOT_RUNNING");
    stop(sup, &mut caller);
}
