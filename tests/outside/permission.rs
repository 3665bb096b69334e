//! What the agent asks and others answer: once, in time, and never the agent itself.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support;
use crate::support::bridge::verb;
use crate::support::directed::Directed;
use crate::support::{AGENTSUP, Caller, Lab, eventually};
use serde_json::{Value, json};

const BASH: &str = r#"{"prompt_id":"1","tool_name":"Bash","tool_input":{"command":"git push"}}"#;
const WRITE: &str = r#"{"prompt_id":"1","tool_name":"Write","tool_input":{"file_path":"a"}}"#;

fn read_json(lab: &Lab, name: &str) -> Value {
    eventually(name, || lab.path(name).exists());
    serde_json::from_str(&lab.read(name)).expect("what claude reads is JSON")
}

fn decision(lab: &Lab, name: &str) -> Value {
    read_json(lab, name)["hookSpecificOutput"]["decision"].take()
}

#[test]
fn a_turn_with_a_permission_as_the_agent_tells_it() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    let (out, answer) = (lab.text("out"), lab.text("answer"));
    assert_eq!(agent.caller.state()["activity"], "unknown");
    for (event, told, activity) in [
        ("SessionStart", "{}", "idle"),
        ("UserPromptSubmit", r#"{"prompt":"push it"}"#, "working"),
        ("PreToolUse", BASH, "tool"),
    ] {
        agent.hooks(event, told, &out);
        agent.until_activity(activity);
    }
    agent.hooks_beside("PermissionRequest", BASH, &answer);
    agent.until_activity("waiting_permission");
    let (code, listed, _) = verb(&lab, &["permission", "ls"]);
    assert_eq!(code, 0);
    assert!(
        listed.starts_with("p1 Bash, asked ") && listed.contains("\n    command: git push\n"),
        "{listed}"
    );
    let state = agent.caller.state();
    assert_eq!((&state["permissions"], &state["questions"]), (&json!(1), &json!(0)));
    assert_eq!(verb(&lab, &["permission", "allow"]), (0, "allowed p1\n".into(), String::new()));
    assert_eq!(decision(&lab, "answer"), json!({"behavior": "allow"}));
    agent.until_activity("tool");
    agent.hooks("PostToolUse", BASH, &out);
    agent.until_activity("working");
    agent.hooks("Stop", "{}", &out);
    agent.until_activity("idle");
    assert_eq!(lab.read("out"), "", "claude takes anything else that is said for an opinion");
    assert_eq!(agent.caller.wait_for("idle")["reason"], "idle");
    let log = lab.read("state/logs/t.log");
    for line in [
        "permission_requested request_id=p1 tool=Bash",
        "permission_answered request_id=p1 tool=Bash answer=allow uid=",
        "activity_changed from=waiting_permission to=tool why=",
        "activity_changed from=working to=idle why=\"its Stop hook: the turn has ended\"",
    ] {
        assert!(log.contains(line), "no {line}:\n{log}");
    }
    assert!(!log.contains("git push"), "what a tool is used on is not logged");
    agent.stop();
}

#[test]
fn a_hook_with_half_an_emoji_or_far_too_long_is_heard_and_nobody_is_held_up() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    let (out, answer) = (lab.text("out"), lab.text("answer"));
    let cut = r#"{"prompt_id":"1","tool_name":"Bash","tool_input":{"command":"echo \ud83d"}}"#;
    agent.hooks("PreToolUse", cut, &out);
    agent.until_activity("tool");
    agent.hooks_beside("PermissionRequest", cut, &answer);
    agent.until_activity("waiting_permission");
    let listed = agent.caller.get("permission.list", json!({}));
    assert_eq!(listed["permissions"][0]["input"]["command"], "echo \u{fffd}", "{listed}");
    verb(&lab, &["permission", "allow"]);
    assert_eq!(decision(&lab, "answer"), json!({"behavior": "allow"}));
    let wrote = lab.text("wrote");
    agent.does(&format!(
        "{{ printf '{{\"x\":\"'; head -c 20000000 /dev/zero; echo $? >{wrote}; }} | {AGENTSUP} hook Stop"
    ));
    agent.until_activity("idle");
    assert_eq!(lab.wait_for_file("wrote", "\n"), "0\n", "an agent that cannot write to its hook complains");
    agent.stop();
}

#[test]
fn a_no_and_its_reason_reach_the_agent_and_a_second_answer_is_too_late() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("one"));
    agent.until_activity("waiting_permission");
    agent.hooks_beside("PermissionRequest", WRITE, &lab.text("two"));
    eventually("two wait", || agent.caller.state()["permissions"] == 2);
    let (code, _, err) = verb(&lab, &["permission", "allow"]);
    assert!(code == 1 && err.contains("several wait"), "{code} {err}");
    let listed = agent.caller.get("permission.list", json!({}));
    let tools: Vec<&Value> = listed["permissions"].as_array().unwrap().iter().map(|p| &p["tool"]).collect();
    let id = |n: usize| listed["permissions"][n]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(tools, ["Bash", "Write"]);
    let said = verb(&lab, &["permission", "deny", &id(0), "--reason", "not today"]);
    assert_eq!(said, (0, format!("denied {}\n", id(0)), String::new()));
    assert_eq!(decision(&lab, "one"), json!({"behavior": "deny", "message": "not today"}));
    let (code, _, err) = verb(&lab, &["permission", "allow", &id(0)]);
    assert!(code == 1 && err.contains("answered already"), "{code} {err}");
    assert_eq!(
        agent.caller.refusal("permission.respond", json!({"request_id": id(0), "allow": true})),
        "TOO_LATE"
    );
    assert_eq!(
        agent.caller.refusal("permission.respond", json!({"request_id": "p9", "allow": true})),
        "NOT_FOUND"
    );
    assert!(!lab.path("two").exists(), "the other still waits");
    assert_eq!(verb(&lab, &["permission", "allow"]).0, 0);
    assert_eq!(decision(&lab, "two"), json!({"behavior": "allow"}));
    let (code, _, err) = verb(&lab, &["permission", "allow"]);
    assert!(code == 1 && err.contains("no permission waits"), "{code} {err}");
    agent.stop();
}

#[test]
fn what_nobody_answers_is_denied_in_time() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "[permission]\ntimeout = \"400ms\"\n");
    let began = Instant::now();
    agent.hooks("PermissionRequest", BASH, &lab.text("answer"));
    assert_eq!(
        decision(&lab, "answer"),
        json!({"behavior": "deny", "message": "nobody answered within 400ms"})
    );
    assert!(began.elapsed().as_millis() >= 400);
    agent.sup.wait_for("permission_answered request_id=p1 tool=Bash answer=expired");
    agent.stop();
}

#[test]
fn the_agents_own_tree_cannot_answer() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("answer"));
    agent.until_activity("waiting_permission");
    let said = lab.text("said");
    agent.does(&format!(
        "{AGENTSUP} permission allow >{said}.new 2>&1; echo $? >>{said}.new; \
         setsid sh -c '{AGENTSUP} permission allow; {AGENTSUP} permission ls' >>{said}.new 2>&1; mv {said}.new {said}"
    ));
    eventually("it was refused", || lab.path("said").exists());
    let said = lab.read("said");
    assert_eq!(said.matches("may not `permission.respond`").count(), 2, "{said}");
    assert!(said.contains("\n1\n") && said.contains("may not `permission.list`"), "{said}");
    assert_eq!(agent.caller.state()["permissions"], 1);
    agent.sup.wait_for("control_denied method=permission.respond role=agent");
    agent.stop();
}

/// The same, as claude tells it when it begins to use a tool.
fn begins(told: &str, id: &str) -> String {
    told.replacen('{', &format!("{{\"tool_use_id\":\"{id}\","), 1)
}

#[test]
fn beside_a_tool_that_was_denied_another_is_still_used() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    let out = lab.text("out");
    agent.hooks("UserPromptSubmit", "{}", &out);
    agent.hooks("PreToolUse", &begins(BASH, "t1"), &out);
    agent.hooks("PreToolUse", &begins(WRITE, "t2"), &out);
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("one"));
    eventually("one waits", || agent.caller.state()["permissions"] == 1);
    agent.hooks_beside("PermissionRequest", WRITE, &lab.text("two"));
    eventually("two wait", || agent.caller.state()["permissions"] == 2);
    assert_eq!(verb(&lab, &["permission", "deny", "p1", "--reason", ""]).0, 0, "no reason is none");
    assert_eq!(agent.caller.state()["activity"], "waiting_permission");
    assert_eq!(verb(&lab, &["permission", "allow", "p2"]).0, 0);
    assert_eq!(agent.caller.state()["activity"], "tool");
    agent.hooks("PostToolUse", &begins(WRITE, "t2"), &out);
    agent.until_activity("working");
    agent.stop();
}

#[test]
fn a_tool_whose_question_nobody_answers_goes_on() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "[permission]\ntimeout = \"300ms\"\n");
    let (out, code) = (lab.text("out"), lab.text("code"));
    agent.hooks("PreToolUse", &begins(BASH, "t1"), &out);
    agent.until_activity("tool");
    agent.does(&format!("{AGENTSUP} question ask 'Anybody?'; echo $? >{code}.new; mv {code}.new {code}"));
    eventually("it ends", || lab.path("code").exists());
    assert_eq!(agent.caller.state()["activity"], "tool");
    agent.stop();
}

#[test]
fn what_a_human_answers_in_the_agents_own_dialog_is_known() {
    let lab = Lab::new();
    let mut agent = Directed::claude(&lab, "");
    let out = lab.text("out");
    let shows = |agent: &mut Directed, text: &str| {
        agent.does(&format!("printf '\\033[2J\\033[H{text}\\r\\n'"));
        let last = text.rsplit("\\r\\n").next().unwrap();
        eventually(text, || agent.caller.get("screen", json!({}))["text"].as_str().unwrap().contains(last));
    };
    // Yes: the tool is used, for as long as it takes. No: the turn is over, and no hook tells of it.
    for (key, screen, activity, answer) in [
        ("MQ==", "❯ push it\\r\\n✶ Cooking… (1s)", "tool", "yes"),
        ("Mw==", "❯ push it\\r\\n  Interrupted\\r\\n❯ \\r\\n  ? for shortcuts", "idle", "no"),
    ] {
        agent.hooks("PreToolUse", &begins(BASH, "t1"), &out);
        shows(&mut agent, "❯ push it\\r\\n  Do you want to proceed?\\r\\n  Esc to cancel");
        agent.hooks_beside("PermissionRequest", BASH, &lab.text(answer));
        agent.until_activity("waiting_permission");
        shows(&mut agent, screen);
        agent.caller.get("inject", json!({"bytes": key}));
        agent.until_activity(activity);
        assert_eq!(agent.caller.state()["permissions"], 0);
        eventually("its hook has no opinion", || lab.path(answer).exists());
        assert_eq!(lab.read(answer), "");
    }
    agent.stop();
}

#[test]
fn asked_twice_it_is_one_request_and_both_are_answered() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("one"));
    agent.until_activity("waiting_permission");
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("two"));
    // The second is heard when a third, of another tool, is.
    agent.hooks_beside("PermissionRequest", WRITE, &lab.text("three"));
    eventually("both tools wait", || agent.caller.state()["permissions"] == 2);
    assert_eq!(verb(&lab, &["permission", "allow", "p1"]).0, 0);
    assert_eq!(decision(&lab, "one"), json!({"behavior": "allow"}));
    // Either it joined the first, or it came behind its answer and waits by itself.
    let second_waits = |caller: &mut Caller| {
        let list = caller.get("permission.list", json!({}));
        list["permissions"].as_array().unwrap().iter().any(|p| p["tool"] == "Bash")
    };
    eventually("the second is answered", || {
        if second_waits(&mut agent.caller) {
            verb(&lab, &["permission", "allow", "p3"]);
        }
        lab.path("two").exists()
    });
    assert_eq!(decision(&lab, "two"), json!({"behavior": "allow"}));
    agent.stop();
}

#[test]
fn a_request_ends_with_its_agent_with_its_turn_and_with_who_asked() {
    let lab = Lab::new();
    let mut agent = Directed::with(&lab, "[policy]\ntransient_wait = \"50ms\"\n", |launch| launch);
    let waits = |agent: &mut Directed, count: u64| {
        eventually("they wait", || agent.caller.state()["permissions"] == count);
    };
    // A human answered in claude's own dialog: the tool has run.
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("one"));
    waits(&mut agent, 1);
    agent.hooks("PostToolUse", BASH, &lab.text("out"));
    waits(&mut agent, 0);
    eventually("its hook has no opinion", || lab.path("one").exists());
    assert_eq!(lab.read("one"), "");
    // Who asked is killed.
    agent.does(&format!("printf '%s' '{BASH}' | {AGENTSUP} hook PermissionRequest & asked=$!"));
    waits(&mut agent, 1);
    agent.does("kill -9 $asked");
    waits(&mut agent, 0);
    // The agent is killed; its hook lives on for a while.
    let told = lab.write("told", BASH);
    agent.does(&format!(
        "setsid sh -c '{AGENTSUP} hook PermissionRequest <{told} >{0}.new; mv {0}.new {0}' &",
        lab.text("last")
    ));
    waits(&mut agent, 1);
    agent.does("kill -9 $$");
    waits(&mut agent, 0);
    eventually("nobody is left waiting", || lab.path("last").exists());
    assert_eq!(lab.read("last"), "");
    agent.sup.wait_for("permission_answered request_id=p3 answer=withdrawn");
    agent.stop();
}

#[test]
fn a_question_is_asked_and_answered() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    let (answer, free) = (lab.text("answer"), lab.text("free"));
    agent.does(&format!(
        "{AGENTSUP} question ask 'Which colour?' --choice red --choice blue >{answer}.new; mv {answer}.new {answer}"
    ));
    agent.until_activity("waiting_answer");
    let (_, listed, _) = verb(&lab, &["question", "ls"]);
    assert!(
        listed.starts_with("q1 Which colour? (asked ") && listed.ends_with("    red\n    blue\n"),
        "{listed}"
    );
    let (code, _, err) = verb(&lab, &["question", "answer", "green"]);
    assert!(code == 1 && err.contains("expected one of red, blue"), "{code} {err}");
    assert_eq!(verb(&lab, &["question", "answer", "q1", "blue"]).0, 0);
    eventually("the agent has it", || lab.path("answer").exists());
    assert_eq!(lab.read("answer"), "blue\n");
    agent.does(&format!("{AGENTSUP} question ask 'And why?' >{free}.new; mv {free}.new {free}"));
    agent.until_activity("waiting_answer");
    assert_eq!(verb(&lab, &["question", "answer", "it is the sky's"]).0, 0);
    eventually("the agent has it", || lab.path("free").exists());
    assert_eq!(lab.read("free"), "it is the sky's\n");
    agent.stop();
}

#[test]
fn a_question_that_nobody_answers_is_124() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "[permission]\ntimeout = \"300ms\"\n");
    let code = lab.text("code");
    agent.does(&format!("{AGENTSUP} question ask 'Anybody?'; echo $? >{code}.new; mv {code}.new {code}"));
    eventually("it ends", || lab.path("code").exists());
    assert_eq!(lab.read("code"), "124\n");
    agent.stop();
}

#[test]
fn an_agent_without_hooks_tells_by_verbs() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    for (line, activity) in
        [("heartbeat", "working"), ("idle", "idle"), ("heartbeat", "working"), ("done 'it builds'", "idle")]
    {
        agent.does(&format!("{AGENTSUP} {line}"));
        agent.until_activity(activity);
    }
    agent.does(&format!("{AGENTSUP} describe 'fixes the build'"));
    eventually("it is described", || agent.caller.state()["description"] == "fixes the build");
    let (_, listed, _) = verb(&lab, &["ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed[0]["description"], "fixes the build", "{listed}");
    let state = agent.caller.state();
    assert_eq!(state["done"]["text"], "it builds");
    let (_, shown, _) = verb(&lab, &["state", "--why"]);
    assert!(shown.contains("fixes the build") && shown.contains("activity: `idle` for "), "{shown}");
    agent.sup.wait_for("done text=\"it builds\"");
    agent.does(&format!("{AGENTSUP} describe ''"));
    eventually("that is taken back", || agent.caller.state()["description"].is_null());
    agent.stop();
}

/// As an agent calls it; how long it took, what it printed.
fn hook(event: &str, told: &str, socket: Option<&str>) -> (u128, String) {
    let mut command = Command::new(AGENTSUP);
    command.args(["hook", event]).env_remove("AGENTSUP_SOCKET").stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(socket) = socket {
        command.env("AGENTSUP_SOCKET", socket);
    }
    let began = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), told.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    (began.elapsed().as_millis(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_hook_never_breaks_the_agent() {
    let lab = Lab::new();
    let deaf = lab.path("deaf.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&deaf).unwrap();
    let junk = lab.write("junk.sock", "no socket");
    for event in ["PermissionRequest", "UserPromptSubmit", "Stop", "SomethingNew"] {
        let none = lab.text("none.sock");
        // Nobody set a socket; none is there; it is a file; somebody listens and never answers.
        for socket in [None, Some(none.as_str()), Some(junk.as_str()), deaf.to_str()] {
            let (took, out) = hook(event, BASH, socket);
            assert!(out.is_empty() && took < 2000, "{event} {socket:?}: {took} ms, {out:?}");
        }
    }
    assert_eq!(hook("PermissionRequest", "no JSON", None).1, "");
}

#[test]
fn a_hook_does_not_wait_for_an_agent_that_gives_it_nothing() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    // Its stdin is the agent's own terminal.
    agent.does(&format!("{AGENTSUP} hook SessionStart <$(tty <&2)"));
    agent.until_activity("idle");
    // The pipe holds all of it, and whoever wrote it does not hang up.
    let fifo = lab.text("fifo");
    agent.does(&format!("mkfifo {fifo}; exec 9<>{fifo}; printf '%s' '{BASH}' >&9"));
    agent.does(&format!("{AGENTSUP} hook PreToolUse <{fifo}"));
    agent.until_activity("tool");
    agent.stop();
}

#[test]
fn a_stopped_supervisor_and_one_that_ends_leave_the_agent_its_own_dialog() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "");
    let socket = support::caller::socket(&lab);
    let socket = socket.to_str().unwrap().to_owned();
    agent.sup.signal(libc::SIGSTOP);
    let (took, out) = hook("PermissionRequest", BASH, Some(&socket));
    agent.sup.signal(libc::SIGCONT);
    assert!(out.is_empty() && took < 2000, "{took} ms {out:?}");
    let asked = {
        let socket = socket.clone();
        std::thread::spawn(move || hook("PermissionRequest", WRITE, Some(&socket)))
    };
    eventually("it waits", || agent.caller.state()["permissions"] == 1);
    agent.sup.signal(libc::SIGKILL);
    let (_, out) = asked.join().unwrap();
    assert_eq!(out, "");
}

#[test]
fn a_supervisor_that_stands_still_is_not_waited_for_beyond_its_own_time() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, "[permission]\ntimeout = \"2s\"\n");
    let socket = support::caller::socket(&lab).to_str().unwrap().to_owned();
    let asked = std::thread::spawn(move || hook("PermissionRequest", BASH, Some(&socket)));
    eventually("it waits", || agent.caller.state()["permissions"] == 1);
    agent.sup.signal(libc::SIGSTOP);
    let (took, out) = asked.join().unwrap();
    agent.sup.signal(libc::SIGCONT);
    assert!(out.is_empty() && (2900..8000).contains(&took), "{took} ms {out:?}");
    agent.stop();
}
