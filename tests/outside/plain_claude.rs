//! A script under claude's name: it tells what it does as claude's hooks would, reads lines as they come, and
//! shows no line of input.

use std::os::unix::fs::PermissionsExt;

use crate::support::bridge::stop;
use crate::support::{AGENTSUP, Caller, Lab, Launch, Running, eventually};
use serde_json::json;

/// It begins with `first`, and does `then` with each `$line`.
fn script(lab: &Lab, config: &str, first: &str, then: &str) -> (Running, Caller) {
    let (got, home) = (lab.text("got"), lab.text(""));
    let agent = lab.write(
        "claude",
        &format!(
            "#!/bin/sh\nhook() {{ printf '%s' \"$2\" | {AGENTSUP} hook \"$1\"; }}\n\
             for word; do case $word in [0-9a-f]*-*-*-*-*) id=$word; esac; done\n\
             mkdir -p {home}/.claude/projects/x; echo '{{}}' >>{home}/.claude/projects/x/$id.jsonl\n\
             hook SessionStart '{{}}'\n{first}\n\
             while IFS= read -r line; do echo \"$line\" >>{got}; {then}; done\n"
        ),
    );
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let config = lab.write("config.toml", &format!("{config}[policy]\ntransient_wait = \"50ms\"\n"));
    let sup =
        Launch::run(lab, [agent.as_str()]).with(["--config", &config, "--env", &format!("HOME={home}")]);
    let sup = sup.start();
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

const ANSWERS: &str = r#"hook UserPromptSubmit "{\"prompt\":\"$line\"}"; hook Stop '{}'"#;

fn got(lab: &Lab) -> Vec<String> {
    lab.whole_lines("got").lines().map(str::to_owned).collect()
}

fn until_got(lab: &Lab, lines: &[&str]) {
    eventually("it has read that", || got(lab) == lines);
}

#[test]
fn its_own_word_that_it_is_idle_opens_its_line() {
    let lab = Lab::new();
    let (sup, mut caller) = script(&lab, "", ":", ANSWERS);
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "confirmed");
    assert_eq!(caller.get("send", json!({"text": "and on"}))["receipt"], "confirmed");
    until_got(&lab, &["hello", "and on"]);
    stop(sup, &mut caller);
}

#[test]
fn one_that_does_not_echo_gets_its_enter_too() {
    let lab = Lab::new();
    let (sup, mut caller) = script(&lab, "", "stty -echo", ANSWERS);
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "confirmed");
    stop(sup, &mut caller);
}

#[test]
fn a_stuck_one_is_told_to_continue_and_a_rule_warns_it() {
    let lab = Lab::new();
    let watch = "[watch]\nenabled = true\ncontinue_after = \"1500ms\"\nkill_after = \"1m\"\n";
    let (sup, mut caller) = script(&lab, watch, "hook UserPromptSubmit '{}'", "hook Stop '{}'");
    sup.wait_for("send by=watch receipt=submitted");
    until_got(&lab, &["continue"]);
    stop(sup, &mut caller);

    let lab = Lab::new();
    let rule = "[[rule]]\nwhen = { max_runtime = \"1s\" }\nthen = { warn = \"wrap up\" }\n";
    let (sup, mut caller) = script(&lab, rule, ":", ANSWERS);
    until_got(&lab, &["wrap up"]);
    stop(sup, &mut caller);
}

#[test]
fn after_a_crash_it_is_told_why() {
    let lab = Lab::new();
    let first = format!("test -e {0} || {{ touch {0}; exit 3; }}", lab.text("crashed"));
    // Its conversation is known from its first line, or the next start is fresh.
    let (sup, mut caller) = script(&lab, "", &first, ANSWERS);
    sup.wait_for("recovery_sent reason=\"the process exited with code 3\" receipt=confirmed");
    assert!(got(&lab)[0].starts_with("You were restarted because"), "{:?}", got(&lab));
    stop(sup, &mut caller);
}
