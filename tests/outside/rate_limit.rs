//! An agent that has met a rate limit is waited for, and blamed for nothing.

use crate::support;
use crate::support::bridge::{stop, talking_claude, until_prompts, up};
use crate::support::{AGENTSUP, Lab, eventually, log};
use serde_json::json;

const QUICK: &str = "[policy]\ntransient_wait = \"50ms\"\nflapping_wait = \"2s\"\n";

/// As claude writes it down, with a reset so many seconds away.
fn noted(seconds: u32) -> String {
    format!(
        r#"at=$(date -u +%Y-%m-%dT%H:%M:%S.000Z); end=$(($(date +%s) + {seconds}))
        printf '{{"type":"assistant","timestamp":"%s","isApiErrorMessage":true,"error":"rate_limit","message":{{"content":[{{"type":"text","text":"Claude AI usage limit reached|%s"}}]}}}}\n{{"type":"system","subtype":"turn_duration"}}\n' "$at" "$end" >>"$TRANSCRIPT""#
    )
}

/// As its hook tells it.
fn told(text: &str) -> String {
    format!(
        r#"printf '{{"error":"rate_limit","last_assistant_message":"{text}"}}' | {AGENTSUP} hook StopFailure"#
    )
}

#[test]
fn an_exit_at_a_limit_waits_for_the_reset_and_counts_as_none() {
    let lab = Lab::new();
    let script = format!("case $PROMPT in limit) {}; kill -9 $PPID;; esac", noted(4));
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, &script), &lab);
    caller.get("send", json!({"text": "limit"}));
    let limited = sup.wait_for("rate_limited");
    assert_eq!(log::field(&limited, "by"), Some("transcript"), "{limited}");
    let exit = sup.wait_for("claude_exit");
    assert_eq!(log::field(&exit, "class"), Some("rate_limited"), "{exit}");
    let state = caller.get("state", json!({"why": true}));
    assert_eq!(state["wake"]["why"], "rate_limit", "{state}");
    assert!(state["why"].as_array().unwrap().contains(&json!("health: 0 failures in a row")), "{state}");
    sup.wait_for_stderr("at a rate limit, which is waited for until ");
    let again = sup.wait_for("restart_scheduled");
    assert!((2000..=4000).contains(&log::number(&again, "wait_ms")), "{again}");
    let spawn = sup.log.wait_for_nth(2, "claude_spawn");
    assert_eq!(log::field(&spawn, "start"), Some("continue"));
    // Nobody tells it of a crash.
    assert_eq!(caller.get("send", json!({"text": "on"}))["receipt"], "confirmed");
    assert_eq!(until_prompts(&lab, 2), ["limit", "on"]);
    let metrics = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    assert!(metrics.contains("agentsup_exits_total{class=\"rate_limited\"} 1\n"), "{metrics}");
    stop(sup, &mut caller);
}

#[test]
fn a_limit_of_before_a_good_turn_is_none() {
    let lab = Lab::new();
    let good = r#"printf '{"type":"assistant","message":{"content":"fine"}}\n' >>"$TRANSCRIPT""#;
    let script = format!("case $PROMPT in limit) {}; {good}; kill -9 $PPID;; esac", noted(100));
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, &script), &lab);
    caller.get("send", json!({"text": "limit"}));
    let exit = sup.wait_for("claude_exit");
    assert_eq!(log::field(&exit, "class"), Some("transient"), "{exit}");
    stop(sup, &mut caller);
}

#[test]
fn an_agent_that_lives_on_is_told_to_continue_when_the_limit_is_over() {
    let lab = Lab::new();
    let script = format!("case $PROMPT in limit) {};; esac", told("Rate limit reached · resets in 2s"));
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, &script), &lab);
    caller.get("send", json!({"text": "limit"}));
    let limited = sup.wait_for("rate_limited");
    assert_eq!(log::field(&limited, "by"), Some("hook"), "{limited}");
    let why = caller.get("state", json!({"why": true}))["why"].to_string();
    assert!(why.contains("rate limit: the agent has met one"), "{why}");
    sup.wait_for("recovery_sent");
    assert_eq!(until_prompts(&lab, 2), ["limit", "continue"]);
    eventually("it is over", || {
        !caller.get("state", json!({"why": true}))["why"].to_string().contains("rate limit")
    });
    stop(sup, &mut caller);
}

#[test]
fn the_menu_that_claude_shows_meanwhile_is_left_before_it_is_told_to_continue() {
    let lab = Lab::new();
    let menu = r"printf '\0337\033[10;1H❯ 1. Stop and wait for limit to reset\033[11;1HEsc to cancel\0338'";
    let told = told("Rate limit reached · resets in 2s");
    let script = format!("case $PROMPT in limit) {told}; {menu};; esac");
    let (sup, mut caller) = up(talking_claude(&lab, QUICK, &script), &lab);
    caller.get("send", json!({"text": "limit"}));
    sup.wait_for_output("Esc to cancel");
    assert_eq!(caller.get("interrupt", json!({}))["key"], "idle", "it is no turn");
    let told = sup.wait_for("recovery_sent");
    assert_eq!(log::field(&told, "receipt"), Some("confirmed"), "{told}");
    assert_eq!(until_prompts(&lab, 2), ["limit", "continue"]);
    stop(sup, &mut caller);
}

#[test]
fn without_recovery_nothing_is_typed_and_the_exit_still_is_no_crash() {
    let lab = Lab::new();
    let told = told("API Error: Request rejected (429)");
    let script = format!("case $PROMPT in limit) {told};; die) kill -9 $PPID;; esac");
    let config = format!("{QUICK}[recovery]\nprompt = false\n");
    let (sup, mut caller) = up(talking_claude(&lab, &config, &script), &lab);
    caller.get("send", json!({"text": "limit"}));
    sup.wait_for("rate_limited");
    let why = caller.get("state", json!({"why": true}))["why"].to_string();
    assert!(why.contains("has not been given a prompt since"), "{why}");
    let pid = caller.state()["pid"].as_i64().unwrap() as i32;
    support::sys::kill(pid, libc::SIGKILL);
    let exit = sup.wait_for("claude_exit");
    assert_eq!(log::field(&exit, "class"), Some("rate_limited"), "{exit}");
    // No reset was named: `flapping_wait`.
    assert_eq!(log::number(&sup.wait_for("restart_scheduled"), "wait_ms"), 2000);
    stop(sup, &mut caller);
}
