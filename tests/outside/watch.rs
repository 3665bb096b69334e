//! `--watch`: who is stuck, who only looks like it, and what becomes of either.

use crate::support::bridge::{self, talking_claude, until_prompts, verb};
use crate::support::caller::pid_of;
use crate::support::directed::Directed;
use crate::support::{AGENTSUP, Lab, eventually, procfs, sys};
use serde_json::json;
use std::time::{Duration, Instant};

/// Numbers that a test can wait for.
const SHORT: &str = "[watch]\ncontinue_after = \"700ms\"\nkill_after = \"1400ms\"\ntool_after = \"700ms\"\n\
                     start_after = \"700ms\"\n[policy]\ntransient_wait = \"100ms\"\n";
/// As long as nobody may be blamed for: more than `kill_after`.
const LONG: &str = "2.2";
const TURN: &str = r#"{"prompt":"do it"}"#;
const BASH: &str =
    r#"{"prompt_id":"1","tool_use_id":"1","tool_name":"Bash","tool_input":{"command":"make"}}"#;

fn watched(lab: &Lab) -> Directed {
    watched_by(lab, SHORT)
}

fn watched_by(lab: &Lab, config: &str) -> Directed {
    Directed::with(lab, config, |launch| launch.with(["--watch"]))
}

fn log(lab: &Lab) -> String {
    lab.read("state/logs/t.log")
}

/// The agent is at work, by its own word, and says nothing more.
fn works(agent: &mut Directed) {
    agent.does(&format!("{} heartbeat", AGENTSUP));
    agent.until_activity("working");
}

/// It does that, and then has nothing more to do; nobody has taken it for stuck.
fn is_never_stuck(lab: &Lab, mut agent: Directed, does: &str) {
    agent.does(&format!("{does}; {} idle", AGENTSUP));
    agent.until_activity("idle");
    assert!(!log(lab).contains(" stuck action="), "{}", log(lab));
    agent.stop();
}

#[test]
fn silence_at_work_gets_continue_and_then_the_kill_and_the_log_says_why() {
    let lab = Lab::new();
    // Long enough to be looked at.
    let mut agent = watched_by(&lab, &SHORT.replace("kill_after = \"1400ms\"", "kill_after = \"4s\""));
    let pid = pid_of(&agent.caller.state());
    agent.does(&format!("setsid sleep 1000 & echo $! >{}", lab.text("elsewhere")));
    works(&mut agent);
    let told = agent.sup.wait_for("stuck action=continue from=working");
    assert!(told.contains("why=\"no sign of it for ") && told.contains("no hook, no output, "), "{told}");
    agent.until_activity("stuck");
    let (code, why, _) = verb(&lab, &["state", "--why"]);
    assert!(code == 0 && why.contains("no hook, no output, ") && why.contains("it is killed in "), "{why}");
    agent.sup.wait_for("send by=watch receipt=submitted");
    let told = agent.sup.wait_for("stuck action=kill from=working");
    assert!(told.contains("no hook, no output, "), "an echo is no output: {told}");
    agent.sup.wait_for(&format!("claude_exit pid={pid} code=137 signal=KILL class=transient"));
    agent.sup.wait_for("restart_scheduled class=transient");
    let elsewhere: i32 = lab.read("elsewhere").trim().parse().expect("a pid");
    eventually("the whole tree is killed", || !procfs::alive(elsewhere));
    let log = log(&lab);
    assert_eq!(log.matches(" stuck action=").count(), 2, "{log}");
    assert!(!log.contains("activity_changed from=stuck to=working"), "it is stuck until it is gone: {log}");
    assert!(!log.contains("oom_kill"), "{log}");
    agent.stop();
}

#[test]
fn a_spinner_and_a_clock_are_no_sign() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    agent.does(
        "n=0; while :; do n=$((n+1)); for c in '|' / - '\\'; do \
         printf '\\r%s Thinking... (%ss, 00:%02d)' \"$c\" $n $n; sleep 0.05; done; done",
    );
    for action in ["continue", "kill"] {
        let told = agent.sup.wait_for(&format!("stuck action={action} from=working"));
        assert!(told.contains("only a spinner or a clock on its screen"), "{told}");
    }
    agent.stop();
}

#[test]
fn a_new_line_now_and_then_is_a_sign() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    is_never_stuck(&lab, agent, "for n in 1 2 3 4 5 6 7; do sleep 0.33; echo $n files; done");
}

#[test]
fn a_dot_for_each_step_is_a_sign() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    is_never_stuck(&lab, agent, "for n in $(seq 44); do printf .; sleep 0.05; done");
}

#[test]
fn who_waits_for_a_rate_limit_by_itself_is_not_stuck_and_state_says_so() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    let shows = |row: &str| format!("printf '\\033[2J\\033[H{row}'");
    agent.does(&shows("✻ Session limit reached · Retrying in 5m 0s (11:13pm) · attempt 1/10"));
    let passed = json!({"for": "halted", "timeout_ms": 2200});
    assert_eq!(agent.caller.refusal("wait", passed), "TIMEOUT");
    assert!(!log(&lab).contains(" stuck action="), "{}", log(&lab));
    let (_, why, _) = verb(&lab, &["state", "--why"]);
    assert!(why.contains("rate limit: the agent waits for one: Session limit reached"), "{why}");
    agent.does(&shows("✻ Thinking…"));
    agent.sup.wait_for("stuck action=continue from=working");
    agent.stop();
}

#[test]
fn a_busy_processor_is_a_sign_though_nothing_is_shown() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    is_never_stuck(&lab, agent, &format!("timeout {LONG} sh -c 'while :; do :; done'"));
}

#[test]
fn orphans_that_work_for_a_moment_each_are_a_sign() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    let burn = "(timeout 0.2 sh -c 'while :; do :; done' &)";
    is_never_stuck(&lab, agent, &format!("for i in 1 2 3 4 5 6 7 8 9 10 11; do {burn}; sleep 0.2; done"));
}

#[test]
fn a_tool_has_its_own_time() {
    let lab = Lab::new();
    let patient = SHORT.replace("tool_after = \"700ms\"", "tool_after = \"1m\"");
    let mut agent = watched_by(&lab, &patient);
    agent.hooks("PreToolUse", BASH, &lab.text("out"));
    agent.until_activity("tool");
    is_never_stuck(&lab, agent, &format!("sleep {LONG}"));

    let lab = Lab::new();
    let mut agent = watched(&lab);
    agent.hooks("PreToolUse", BASH, &lab.text("out"));
    agent.sup.wait_for("stuck action=continue from=tool");
    agent.sup.wait_for("stuck action=kill from=tool");
    agent.stop();
}

#[test]
fn who_has_nothing_to_do_or_waits_for_an_answer_is_not_stuck() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    agent.hooks("Stop", "{}", &lab.text("out"));
    agent.until_activity("idle");
    is_never_stuck(&lab, agent, &format!("sleep {LONG}; {} describe rested", AGENTSUP));

    let lab = Lab::new();
    let mut agent = watched(&lab);
    agent.hooks("UserPromptSubmit", TURN, &lab.text("out"));
    agent.hooks("PreToolUse", BASH, &lab.text("out"));
    agent.hooks_beside("PermissionRequest", BASH, &lab.text("answer"));
    agent.until_activity("waiting_permission");
    is_never_stuck(&lab, agent, &format!("sleep {LONG}; {} hook Stop </dev/null", AGENTSUP));
}

#[test]
fn who_is_paused_or_stopped_is_not_stuck_and_is_watched_again_afterwards() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    agent.caller.get("pause", json!({}));
    let told = agent.sup.wait_for("activity_changed from=working to=paused");
    assert!(told.contains("why=\"the tree is paused, by "), "{told}");
    let passed = json!({"for": "halted", "timeout_ms": 2200});
    assert_eq!(agent.caller.refusal("wait", passed.clone()), "TIMEOUT");
    assert!(!log(&lab).contains(" stuck action="), "{}", log(&lab));
    agent.caller.get("resume", json!({}));
    let pid = pid_of(&agent.caller.state());
    sys::kill(pid, libc::SIGSTOP);
    assert_eq!(agent.caller.refusal("wait", passed), "TIMEOUT");
    assert!(!log(&lab).contains(" stuck action="), "{}", log(&lab));
    sys::kill(pid, libc::SIGCONT);
    agent.sup.wait_for("stuck action=continue");
    agent.stop();
}

#[test]
fn the_time_that_it_was_stopped_for_is_no_silence() {
    let lab = Lab::new();
    let slow = SHORT.replace("\"700ms\"", "\"2s\"").replace("\"1400ms\"", "\"1m\"");
    let mut agent = watched_by(&lab, &slow);
    works(&mut agent);
    let pid = pid_of(&agent.caller.state());
    sys::kill(pid, libc::SIGSTOP);
    let passed = json!({"for": "halted", "timeout_ms": 1300});
    assert_eq!(agent.caller.refusal("wait", passed), "TIMEOUT");
    let before = Instant::now();
    sys::kill(pid, libc::SIGCONT);
    agent.sup.wait_for("stuck action=continue");
    assert!(before.elapsed() >= Duration::from_secs(2), "{:?}", before.elapsed());
    agent.stop();
}

#[test]
fn a_stopped_job_of_the_agent_excuses_nobody() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    agent.does("sleep 1000 & kill -STOP $!; sleep 1000");
    agent.sup.wait_for("stuck action=continue");
    agent.sup.wait_for("stuck action=kill");
    agent.stop();
}

#[test]
fn what_an_earlier_agent_left_at_work_is_no_sign_of_this_one() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    let (burner, crashed) = (lab.text("burner"), lab.text("crashed"));
    agent.does(&format!("(setsid sh -c 'echo $$ >{burner}; while :; do :; done' &); touch {crashed}"));
    eventually("it burns", || lab.read("burner").ends_with('\n'));
    agent.does("exit 3");
    agent.sup.log.wait_for_nth(2, "claude_spawn");
    let mut agent = agent.again(&lab);
    works(&mut agent);
    agent.sup.wait_for("stuck action=continue");
    agent.stop();
}

#[test]
fn an_agent_that_somebody_stopped_behind_its_wrapper_is_not_stuck() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    let wrapped = lab.text("wrapped");
    works(&mut agent);
    let script = format!("echo $$ >{wrapped}; kill -STOP $$; {AGENTSUP} idle");
    agent.does(&format!("sh -c '{script}'; :"));
    let passed = json!({"for": "halted", "timeout_ms": 2200});
    assert_eq!(agent.caller.refusal("wait", passed), "TIMEOUT");
    assert!(!log(&lab).contains(" stuck action="), "{}", log(&lab));
    let pid: i32 = lab.read("wrapped").trim().parse().expect("a pid");
    sys::kill(pid, libc::SIGCONT);
    agent.until_activity("idle");
    agent.stop();
}

#[test]
fn a_start_that_leads_nowhere_is_not_typed_into_and_killed() {
    let lab = Lab::new();
    let launch = bridge::claude(&lab, SHORT).with(["--watch"]);
    let (sup, mut caller) = bridge::up(launch, &lab);
    assert_eq!(caller.state()["activity"], "starting");
    sup.wait_for("stuck action=wait from=starting");
    sup.wait_for("stuck action=kill from=starting");
    sup.wait_for("restart_scheduled");
    assert_eq!(bridge::all_read(&lab), "", "a dialog may be open, and any key an answer");
    bridge::stop(sup, &mut caller);
}

#[test]
fn a_word_ends_it_and_the_next_silence_is_a_new_one() {
    let lab = Lab::new();
    let mut agent = watched_by(&lab, &SHORT.replace("kill_after = \"1400ms\"", "kill_after = \"1m\""));
    works(&mut agent);
    agent.until_activity("stuck");
    works(&mut agent);
    agent.sup.wait_for("activity_changed from=stuck to=working");
    agent.until_activity("stuck");
    assert_eq!(log(&lab).matches(" stuck action=continue").count(), 2);
    agent.stop();
}

#[test]
fn that_it_took_our_own_words_is_no_sign() {
    let lab = Lab::new();
    let mut agent = watched(&lab);
    works(&mut agent);
    agent.sup.wait_for("stuck action=continue");
    agent.hooks("UserPromptSubmit", r#"{"prompt":"continue"}"#, &lab.text("out"));
    agent.sup.wait_for("stuck action=kill");
    assert_eq!(log(&lab).matches(" stuck action=continue").count(), 1);
    agent.stop();
}

#[test]
fn who_was_killed_for_it_is_told_so_in_the_same_conversation() {
    let lab = Lab::new();
    // The first prompt leads nowhere; the next is answered.
    let script = format!(
        "test -e {0} || {{ touch {0}; sleep 1000; }}; {1} hook Stop </dev/null",
        lab.text("first"),
        AGENTSUP
    );
    let (sup, mut caller) = bridge::up(talking_claude(&lab, SHORT, &script).with(["--watch"]), &lab);
    caller.get("send", json!({"text": "the first"}));
    sup.wait_for("stuck action=kill from=working");
    sup.wait_for("recovery_sent reason=\"it was stuck: for too long there was no sign of it\"");
    let prompts = until_prompts(&lab, 2);
    assert!(prompts[1].starts_with("You were restarted because it was stuck"), "{prompts:?}");
    bridge::stop(sup, &mut caller);
}

#[test]
fn nobody_is_watched_unless_that_was_asked_for() {
    let lab = Lab::new();
    let mut agent = Directed::start(&lab, SHORT);
    works(&mut agent);
    is_never_stuck(&lab, agent, &format!("sleep {LONG}"));
}
