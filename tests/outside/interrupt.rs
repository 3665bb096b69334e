//! A turn is cancelled by the agent's own key, pressed once and only for a turn: a claude without one takes
//! it for something else.

use std::time::Duration;

use crate::support::bridge::{
    all_read, at_terminal, prompts, stop, talking_claude, until_draft, until_prompts, up, verb,
};
use crate::support::{Caller, Lab, eventually, log, sys};
use serde_json::json;

/// It goes on thinking, and its screen says so.
const SLOW: &str = r"case $PROMPT in slow*) printf '✶ Cooking… (1s)\r\n';; esac";

fn escapes(lab: &Lab) -> usize {
    let read = lab.whole_lines("record");
    read.lines().filter(|line| line.starts_with("READ ") && line.ends_with(r#" "\u001b""#)).count()
}

fn interrupt(caller: &mut Caller) -> String {
    caller.get("interrupt", json!({}))["key"].as_str().expect("what became of the key").to_owned()
}

fn until_activity(caller: &mut Caller, activity: &str) {
    eventually(activity, || caller.state()["activity"] == activity);
}

#[test]
fn two_at_once_press_one_key_and_none_is_pressed_behind_the_turn() {
    let lab = Lab::new();
    let (sup, mut caller) = up(talking_claude(&lab, "", SLOW), &lab);
    assert_eq!(interrupt(&mut caller), "idle", "its hooks have said nothing, and its screen shows no turn");
    assert_eq!(caller.get("send", json!({"text": "slow"}))["receipt"], "confirmed");
    sup.wait_for_output("Cooking");
    assert_eq!(interrupt(&mut caller), "pressed");
    assert_eq!(verb(&lab, &["interrupt"]), (0, "interrupted already, a moment ago\n".into(), String::new()));
    until_activity(&mut caller, "idle");
    assert_eq!(
        verb(&lab, &["interrupt"]),
        (0, "nothing to cancel: the agent is idle\n".into(), String::new())
    );
    assert_eq!(interrupt(&mut caller), "idle");
    assert_eq!(caller.get("send", json!({"text": "on"}))["receipt"], "confirmed");
    assert_eq!((until_prompts(&lab, 2), escapes(&lab)), (vec!["slow".into(), "on".into()], 1));
    assert_eq!(log::field(&sup.wait_for("user_action=interrupt"), "how"), Some("idle"));
    stop(sup, &mut caller);
}

#[test]
fn who_waits_for_idle_hears_of_a_cancelled_turn() {
    let lab = Lab::new();
    let (sup, mut caller) = up(talking_claude(&lab, "", SLOW), &lab);
    caller.get("send", json!({"text": "slow"}));
    sup.wait_for_output("Cooking");
    interrupt(&mut caller);
    assert_eq!(Caller::of(&lab).wait_for("idle")["reason"], "idle");
    stop(sup, &mut caller);
}

#[test]
fn a_prompt_that_is_put_back_into_the_line_is_removed_before_the_next_text() {
    let lab = Lab::new();
    lab.write("puts_back", "");
    for (config, receipt) in [("", "confirmed"), ("[run]\nno_hooks = true\n", "submitted")] {
        let _ = std::fs::remove_file(lab.path("record"));
        let (sup, mut caller) = up(talking_claude(&lab, config, SLOW), &lab);
        caller.get("send", json!({"text": "slow one"}));
        sup.wait_for_output("Cooking");
        assert_eq!(interrupt(&mut caller), "pressed");
        // It waits until that is over.
        assert_eq!(caller.get("send", json!({"text": "another"}))["receipt"], receipt);
        assert_eq!(until_prompts(&lab, 2), ["slow one", "another"]);
        assert_eq!(all_read(&lab).matches('\x03').count(), 1);
        stop(sup, &mut caller);
    }
}

#[test]
fn one_that_a_human_has_cancelled_is_their_draft() {
    let lab = Lab::new();
    lab.write("puts_back", "");
    let (mut terminal, mut caller) = at_terminal(&talking_claude(&lab, "", SLOW), &lab);
    terminal.type_in("slow one");
    eventually("it stands in the line", || all_read(&lab).ends_with("one"));
    // An Enter that comes sooner is a part of the text.
    sys::pause(Duration::from_millis(200));
    terminal.type_in("\r");
    terminal.expect("Cooking");
    terminal.type_in("\x1b");
    until_draft(&mut caller);
    assert_eq!(caller.refusal("send", json!({"text": "another"})), "OPERATOR_BUSY");
    assert_eq!((prompts(&lab), escapes(&lab)), (vec!["slow one".into()], 1));
    caller.get("stop", json!({"graceful": false}));
}

#[test]
fn while_it_is_paused_one_key_waits_for_it() {
    let lab = Lab::new();
    let (sup, mut caller) = up(talking_claude(&lab, "", SLOW), &lab);
    caller.get("send", json!({"text": "slow"}));
    sup.wait_for_output("Cooking");
    caller.get("pause", json!({}));
    assert_eq!(interrupt(&mut caller), "pressed");
    // Longer than it takes an agent that runs.
    sys::pause(Duration::from_millis(700));
    assert_eq!(interrupt(&mut caller), "already");
    caller.get("resume", json!({}));
    until_activity(&mut caller, "idle");
    assert_eq!(escapes(&lab), 1);
    stop(sup, &mut caller);
}

#[test]
fn an_escape_that_a_caller_injects_is_looked_behind_too() {
    let lab = Lab::new();
    let (sup, mut caller) = up(talking_claude(&lab, "", SLOW), &lab);
    caller.get("send", json!({"text": "slow"}));
    sup.wait_for_output("Cooking");
    assert_eq!(caller.state()["activity"], "working");
    caller.get("inject", json!({"bytes": "Gw=="}));
    until_activity(&mut caller, "idle");
    stop(sup, &mut caller);
}
