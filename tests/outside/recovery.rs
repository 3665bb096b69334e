//! An agent that was restarted is told why, once, in the conversation that goes on.

use std::os::unix::fs::PermissionsExt;

use crate::support::bridge::{launch, stop, talking_claude, tui, until_prompts, up};
use crate::support::caller::pid_of;
use crate::support::{FAKE, Lab, log, sys};
use serde_json::json;

const QUICK: &str = "[policy]\ntransient_wait = \"50ms\"\nflapping_wait = \"50ms\"\n";
const KILLED: &str = "You were restarted because the process was ended by signal KILL. \
                      What was under way then may be half done.";

#[test]
fn a_killed_agent_is_told_why_once_and_goes_on_in_its_conversation() {
    let lab = Lab::new();
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, ":"), &lab);
    assert_eq!(caller.get("send", json!({"text": "hello"}))["receipt"], "confirmed");
    until_prompts(&lab, 1);
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    let spawn = sup.log.wait_for_nth(2, "claude_spawn");
    assert_eq!(log::field(&spawn, "start"), Some("continue"));
    let sent = sup.wait_for("recovery_sent");
    assert!(sent.contains("reason=\"the process was ended by signal KILL\" receipt=confirmed"), "{sent}");
    assert_eq!(until_prompts(&lab, 2), ["hello", KILLED]);
    assert_eq!(caller.get("send", json!({"text": "go on"}))["receipt"], "confirmed");
    assert_eq!(until_prompts(&lab, 3), ["hello", KILLED, "go on"]);
    stop(sup, &mut caller);
}

#[test]
fn an_operators_restart_a_fresh_start_and_prompt_false_tell_nothing() {
    for (config, restart) in [
        (QUICK.to_owned(), Some("continue")),
        (QUICK.to_owned(), Some("fresh")),
        (format!("{QUICK}[recovery]\nprompt = false\n"), None),
    ] {
        let lab = Lab::new();
        let (sup, mut caller) = up(talking_claude(&lab, &config, ":"), &lab);
        caller.get("send", json!({"text": "hello"}));
        until_prompts(&lab, 1);
        match restart {
            Some(mode) => drop(caller.get("restart", json!({"mode": mode}))),
            None => sys::kill(pid_of(&caller.state()), libc::SIGKILL),
        }
        sup.log.wait_for_nth(2, "claude_spawn");
        // What would be told comes before any other text.
        assert_eq!(caller.get("send", json!({"text": "on"}))["receipt"], "confirmed");
        assert_eq!(until_prompts(&lab, 2), ["hello", "on"], "{restart:?}");
        assert!(sup.log.events("recovery_sent").is_empty());
        stop(sup, &mut caller);
    }
}

#[test]
fn a_plain_command_is_told_nothing() {
    let lab = Lab::new();
    let (sup, mut caller) = up(tui(&lab, QUICK, ":"), &lab);
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    sup.log.wait_for_nth(2, "claude_spawn");
    caller.get("send", json!({"text": "on"}));
    assert_eq!(until_prompts(&lab, 1), ["on"]);
    stop(sup, &mut caller);
}

#[test]
fn it_comes_before_a_trigger_and_both_arrive() {
    let lab = Lab::new();
    let config = QUICK.replace("50ms", "1s");
    let (sup, mut caller) = up(talking_claude(&lab, &config, ":"), &lab);
    caller.get("send", json!({"text": "hello"}));
    until_prompts(&lab, 1);
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    sup.wait_for("restart_scheduled");
    let reply = caller.get("trigger", json!({"thread": "ci", "trigger_id": "a", "text": "do it"}));
    assert_eq!((&reply["state"], &reply["attempts"]), (&json!("delivered"), &json!(1)));
    let prompts = until_prompts(&lab, 3);
    assert_eq!(prompts[1], KILLED);
    assert!(prompts[2].starts_with("[BRIDGE_TRIGGER id=a "), "{prompts:?}");
    stop(sup, &mut caller);
}

#[test]
fn a_continue_that_fails_without_a_word_leads_to_a_fresh_start_which_is_told_nothing() {
    let lab = Lab::new();
    let (record, home) = (lab.text("record"), lab.text(""));
    let transcripts = format!("{home}/.claude/projects/x");
    std::fs::create_dir_all(&transcripts).expect("it is ours");
    // With its transcript there it begins, and does not come back.
    let agent = lab.write(
        "agent",
        &format!(
            "#!/bin/sh\ncase \"$*\" in *--resume*) exit 1; esac\necho '{{}}' >{transcripts}/$2.jsonl\n\
             exec {FAKE} \"$@\" tui {record}\n"
        ),
    );
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let launch = launch(&lab, QUICK, &[&agent]);
    let launch = launch.with(["--agent", "claude", "--env", &format!("HOME={home}")]);
    let (sup, mut caller) = up(launch, &lab);
    sys::kill(pid_of(&caller.state()), libc::SIGKILL);
    sup.wait_for("continue_failed");
    let spawn = sup.log.wait_for_nth(3, "claude_spawn");
    assert_eq!(log::field(&spawn, "start"), Some("fresh"));
    assert_eq!(caller.get("send", json!({"text": "on"}))["receipt"], "confirmed");
    assert_eq!(until_prompts(&lab, 1), ["on"]);
    stop(sup, &mut caller);
}

#[test]
fn a_continue_that_worked_did_not_fail_however_soon_it_ends() {
    let lab = Lab::new();
    let script = "case $PROMPT in die) kill -9 $PPID;; esac";
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, script), &lab);
    caller.get("send", json!({"text": "die"}));
    sup.wait_for("recovery_sent");
    until_prompts(&lab, 2);
    caller.get("send", json!({"text": "die"}));
    let spawn = sup.log.wait_for_nth(3, "claude_spawn");
    assert_eq!(log::field(&spawn, "start"), Some("continue"));
    assert_eq!(until_prompts(&lab, 4), ["die", KILLED, "die", KILLED]);
    assert!(sup.log.events("continue_failed").is_empty());
    stop(sup, &mut caller);
}
