//! `[[rule]]`: every `when`, every `then`, and what becomes of the rest.

use std::time::{Duration, Instant};

use crate::support;
use crate::support::bridge::{at_terminal, launch, prompts, tui, until_prompts, up, verb};
use crate::support::caller::stop;
use crate::support::log::field;
use crate::support::talk::{self, Talk, comes_to_rest};
use crate::support::{Caller, FAKE, Lab, Running, epoch, eventually};
use serde_json::{Value, json};

fn rule(name: &str, when: &str, then: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\nwhen = {{ {when} }}\nthen = {then}\n")
}

fn waits(lab: &Lab, config: &str) -> (Running, Caller) {
    up(launch(lab, config, &[FAKE, "wait"]).with(["--on-halt", "wait"]), lab)
}

/// A line of the log that tells of this rule.
#[track_caller]
fn told(sup: &Running, nth: usize, event: &str, rule: &str) -> String {
    let line = sup.log.wait_for_nth(nth, event);
    assert_eq!(field(&line, "rule"), Some(rule), "{line}");
    line
}

fn fired(sup: &Running) -> usize {
    sup.log.events("rule_fired").len()
}

fn metric(caller: &mut Caller, then: &str) -> u64 {
    let page = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    let name = format!("agentsup_rules_fired_total{{then=\"{then}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).expect("a metric").parse().unwrap()
}

fn why(caller: &mut Caller) -> String {
    caller.get("state", json!({"why": true}))["why"].to_string()
}

#[test]
fn each_run_has_its_time_and_a_restart_is_no_crash() {
    let lab = Lab::new();
    let config = rule("long", "max_runtime = \"300ms\"", "\"restart\"");
    let policy = "[policy]\ntransient_wait = \"50ms\"\nflapping_wait = \"20s\"\n";
    let (sup, mut caller) = waits(&lab, &(policy.to_owned() + &config));
    for nth in 1..=2 {
        let line = told(&sup, nth, "rule_fired", "long");
        assert!(line.ends_with("when=max_runtime then=restart value=0s"), "{line}");
        let exit = sup.log.wait_for_nth(nth, "claude_exit");
        assert_eq!(field(&exit, "class"), Some("asked"), "{exit}");
        let run: u64 = field(&exit, "run_ms").unwrap().parse().unwrap();
        assert!(run >= 300, "{exit}");
        let scheduled = sup.log.wait_for_nth(nth, "restart_scheduled class=asked");
        assert_eq!(field(&scheduled, "wait_ms"), Some("50"), "it does not go round and round: {scheduled}");
        sup.log.wait_for_nth(nth + 1, "claude_spawn");
    }
    assert_eq!(caller.state()["health"], "healthy");
    let scheduled = sup.log.wait_for_nth(3, "restart_scheduled class=asked");
    assert_eq!(field(&scheduled, "wait_ms"), Some("20000"), "{scheduled}");
    let state = caller.state();
    assert_eq!((&state["health"], &state["phase"]), (&json!("degraded"), &json!("backoff")));
    assert_eq!(metric(&mut caller, "restart"), 3);
    assert_eq!(metric(&mut caller, "reap"), 0);
    stop(sup, &mut caller);
}

#[test]
fn what_is_reaped_is_halted_and_a_resume_begins_anew() {
    let lab = Lab::new();
    let notify = format!("[halt]\nnotify = [\"sh\", \"-c\", \"cat >> {}\"]\n", lab.text("halts"));
    let config = notify + &rule("long", "max_runtime = \"500ms\"", "\"reap\"");
    let (sup, mut caller) = waits(&lab, &config);
    caller.until_phase("halted");
    let halted = sup.wait_for("halted");
    assert!(halted.contains("reason=\"rule long\""), "{halted}");
    assert!(lab.wait_for_file("halts", "\n").contains("\"reason\":\"rule long\""));
    let state = caller.state();
    assert_eq!((&state["exits"][0]["class"], &state["health"]), (&json!("asked"), &json!("halted")));
    assert!(why(&mut caller).contains("rule long: max_runtime was met 1 times, then reap"));
    let began = Instant::now();
    caller.get("resume", json!({}));
    assert_eq!(caller.state()["health"], "healthy");
    sup.log.wait_for_nth(2, "halted");
    assert!(began.elapsed() >= Duration::from_millis(500), "the second budget is whole");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn on_halt_decides_what_a_reap_ends_with() {
    let lab = Lab::new();
    let config = rule("long", "max_runtime = \"200ms\"", "\"reap\"");
    let ended = launch(&lab, &config, &[FAKE, "wait"]).end();
    ended.assert_code(143);
    assert!(ended.stderr.contains("rule long, max_runtime 0s: the agent is ended"), "{}", ended.stderr);
    assert!(ended.stderr.contains("supervisor halted"), "{}", ended.stderr);
}

#[test]
fn one_restart_too_many_is_reaped_and_a_resume_allows_as_many_again() {
    let lab = Lab::new();
    let policy = "[policy]\ntransient_wait = \"50ms\"\nflapping_wait = \"50ms\"\nhalt_after = 50\n";
    let config = policy.to_owned() + &rule("often", "max_restarts = 2", "\"reap\"");
    let agent = [FAKE, "exit", "1", "--after", "200"];
    let sup = launch(&lab, &config, &agent).with(["--on-halt", "wait"]).start();
    let halted = sup.wait_for("halted");
    assert!(halted.contains("reason=\"rule often\""), "{halted}");
    assert!(told(&sup, 1, "rule_fired", "often").ends_with("then=reap value=3"));
    assert_eq!(sup.log.events("restart_scheduled").len(), 3);
    let mut caller = Caller::of(&lab);
    assert_eq!(caller.state()["restart_count"], 2, "the third one was not made");
    caller.ask("resume", json!({}));
    sup.log.wait_for_nth(2, "halted");
    assert_eq!(caller.state()["restart_count"], 5, "the resume itself, and two more");
    stop(sup, &mut caller).assert_code(1);
}

#[test]
fn silence_is_warned_of_each_time_it_comes() {
    let lab = Lab::new();
    let config = rule("quiet", "silent_for = \"700ms\"", "{ warn = \"are you\\nthere?\" }");
    let (sup, mut caller) = up(tui(&lab, &config, "true"), &lab);
    assert!(told(&sup, 1, "rule_fired", "quiet").ends_with("when=silent_for then=warn value=0s"));
    assert_eq!(until_prompts(&lab, 1)[0], "are you\nthere?");
    let line = told(&sup, 1, "send", "quiet");
    assert_eq!(field(&line, "receipt"), Some("submitted"), "{line}");
    caller.get("heartbeat", json!({}));
    assert!(until_prompts(&lab, 2).len() >= 2, "a word of it ended the first silence");
    stop(sup, &mut caller);
}

#[test]
fn the_echo_of_a_warning_ends_no_silence() {
    let lab = Lab::new();
    let config = rule("warn", "silent_for = \"500ms\"", "{ warn = \"are you there?\" }")
        + &rule("end", "silent_for = \"2500ms\"", "\"reap\"");
    let (sup, mut caller) = waits(&lab, &config);
    told(&sup, 1, "rule_fired", "warn");
    told(&sup, 2, "rule_fired", "end");
    stop(sup, &mut caller);
}

#[test]
fn a_draft_is_not_typed_into() {
    let lab = Lab::new();
    let config = rule("quiet", "silent_for = \"1s\"", "{ warn = \"are you there?\" }");
    let launch = tui(&lab, &config, "true");
    let (mut terminal, mut caller) = at_terminal(&launch, &lab);
    terminal.type_in("half a thought");
    support::bridge::until_draft(&mut caller);
    let log = support::log::Log::of(&lab.state_dir());
    let line = log.wait_for("rule_failed");
    assert!(line.contains("rule=quiet then=warn error=\"a draft stands"), "{line}");
    assert_eq!(prompts(&lab), [""; 0]);
    caller.get("stop", json!({"graceful": false}));
}

#[test]
fn each_idle_time_is_told_of_once() {
    let lab = Lab::new();
    let (sup, mut caller) = waits(&lab, &rule("rest", "idle_for = \"400ms\"", "\"log\""));
    for nth in 1..=2 {
        caller.get("heartbeat", json!({}));
        let began = Instant::now();
        caller.get("idle", json!({}));
        assert!(told(&sup, nth, "rule_fired", "rest").ends_with("when=idle_for then=log value=0s"));
        assert!(began.elapsed() >= Duration::from_millis(400));
        comes_to_rest(sup.pid());
        assert_eq!(fired(&sup), nth);
    }
    assert_eq!(metric(&mut caller, "log"), 2);
    stop(sup, &mut caller);
}

#[test]
fn a_text_on_the_screen_pauses_once_and_who_is_notified_of_it_is_not_paused() {
    let lab = Lab::new();
    let notify = format!("{{ notify = [\"sh\", \"-c\", \"sleep 0.2; cat > {}\"] }}", lab.text("told"));
    let on_screen = "screen_contains = \"out of credit\"";
    let config = rule("tell", on_screen, &notify) + &rule("stand", on_screen, "\"pause\"");
    let (sup, mut caller) = up(tui(&lab, &config, "true"), &lab);
    let before = epoch();
    caller.get("send", json!({"text": "we are out of credit", "submit": false}));
    told(&sup, 2, "rule_fired", "stand");
    let state = caller.state();
    assert_eq!(state["activity"], "paused");
    assert!(state["activity_since"].as_f64() >= Some(before), "{state}");
    let heard: Value = serde_json::from_str(&lab.wait_for_file("told", "\n")).unwrap();
    let expected = json!({
        "event": "rule_fired", "session": "t", "rule": "tell", "when": "screen_contains", "then": "notify",
        "value": "out of credit", "restart_count": 0,
    });
    assert_eq!(heard, expected);
    let line = told(&sup, 1, "notify", "tell");
    assert_eq!(field(&line, "code"), Some("0"), "{line}");
    caller.get("resume", json!({}));
    // It still stands there.
    caller.get("inject", json!({"bytes": "IQ=="}));
    eventually("it goes on", || {
        caller.get("screen", json!({}))["text"].as_str().unwrap().contains("credit!")
    });
    assert_eq!(fired(&sup), 2);
    stop(sup, &mut caller);
}

/// What claude writes of one message.
fn message(id: &str, output: u64) -> String {
    let usage = json!({
        "input_tokens": 10, "output_tokens": output,
        "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30,
    });
    let tool = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
    json!({"type": "assistant", "message": {"id": id, "content": tool, "usage": usage}}).to_string() + "\n"
}

fn counted(caller: &mut Caller) -> (u64, Value) {
    let stats = caller.get("stats", json!({}));
    (stats["tokens"]["total"].as_u64().unwrap(), stats["tools"].clone())
}

fn talk(config: &str) -> Talk {
    let lab = Lab::new();
    let config = lab.write("config.toml", config);
    Talk::of(lab, |launch| launch.with(["--on-halt", "wait", "--config", &config]))
}

#[test]
fn tokens_are_a_budget_over_restarts_and_conversations() {
    let mut talk =
        talk(&(rule("warn", "max_tokens = 130", "\"log\"") + &rule("end", "max_tokens = 200", "\"reap\"")));
    talk.append(message("a", 1));
    talk.append(message("a", 5));
    assert_eq!(counted(&mut talk.caller), (65, json!({"Bash": 1})));
    talk.caller.get("restart", json!({}));
    assert_eq!(counted(&mut talk.caller).0, 65, "a continue counts nothing twice");
    talk.append(message("b", 5));
    assert!(told(&talk.sup, 1, "rule_fired", "warn").ends_with("when=max_tokens then=log value=130"));
    talk.caller.get("restart", json!({"mode": "fresh"}));
    talk.append(message("c", 10));
    assert!(told(&talk.sup, 2, "rule_fired", "end").ends_with("then=reap value=200"));
    talk.caller.until_phase("halted");
    talk.caller.get("resume", json!({}));
    assert_eq!((counted(&mut talk.caller).0, fired(&talk.sup)), (200, 2));
    talk.append(message("d", 100));
    assert!(told(&talk.sup, 3, "rule_fired", "warn").ends_with("value=160"), "the budget is a new one");
    talk.end();
}

#[test]
fn tokens_are_counted_when_somebody_asks_and_not_before() {
    let mut talk = Talk::new();
    let many: String =
        (0..5_000).map(|n| message(&n.to_string(), 5) + &talk::line(&"x".repeat(1000))).collect();
    talk.append(&many);
    talk.caller.get("restart", json!({"mode": "fresh"}));
    talk.append(message("another", 5));
    let supervisor = talk.sup.pid();
    comes_to_rest(supervisor);
    assert_eq!(counted(&mut talk.caller), (5_001 * 65, json!({"Bash": 5_001})));
    talk.append("{\"half\":");
    assert_eq!(counted(&mut talk.caller).0, 5_001 * 65);
    talk.append(format!("1}}\n{}", message("last", 5)));
    assert_eq!(counted(&mut talk.caller).0, 5_002 * 65);
    let (code, said, _) = verb(&talk.lab, &["stats"]);
    assert_eq!(code, 0);
    assert!(said.contains("325130: 50020 in, 25010 out, 100040 read from the cache"), "{said}");
    talk.end();
}

#[test]
fn subagents_are_counted_too() {
    let mut talk = talk(&rule("end", "max_tokens = 130", "\"log\""));
    talk.append(message("a", 5));
    let dir = talk.path().with_extension("").join("subagents");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("agent-1.jsonl"), message("b", 5)).unwrap();
    std::fs::write(dir.join("agent-1.meta.json"), message("c", 5)).unwrap();
    // Its word comes with each of their tools.
    talk.caller.get("heartbeat", json!({}));
    assert!(told(&talk.sup, 1, "rule_fired", "end").ends_with("value=130"));
    std::fs::write(dir.join("agent-2.jsonl"), message("d", 5)).unwrap();
    assert_eq!(counted(&mut talk.caller), (195, json!({"Bash": 3})));
    assert_eq!(counted(&mut talk.caller).0, 195, "and once");
    talk.end();
}

#[test]
fn what_was_said_before_our_time_is_not_counted() {
    let mut first = Talk::new();
    first.append(message("a", 5));
    let id = first.id();
    first.caller.get("stop", json!({}));
    first.sup.end();
    let config = first.lab.write("rules.toml", &rule("end", "max_tokens = 65", "\"log\""));
    let mut second = Talk::of(first.lab, |launch| launch.with(["--start", "continue", "--config", &config]));
    assert_eq!(second.id(), id);
    assert_eq!(counted(&mut second.caller).0, 0);
    second.append(message("b", 5));
    assert!(told(&second.sup, 1, "rule_fired", "end").ends_with("value=65"));
    second.end();
}

#[test]
fn a_command_that_hangs_fails_or_is_missing_harms_nothing() {
    let lab = Lab::new();
    let deaf = format!(
        "{{ notify = [\"sh\", \"-c\", \"trap '' TERM; echo up > {}; while :; do sleep 100; done\"] }}",
        lab.text("hangs")
    );
    let on_screen = |text: &str| format!("screen_contains = \"{text}\"");
    let config = rule("hangs", "max_runtime = \"100ms\"", &deaf)
        + &rule("fails", &on_screen("now fail"), "{ notify = [\"sh\", \"-c\", \"exit 3\"] }")
        + &rule("missing", &on_screen("be gone"), "{ notify = [\"/no/such/command\"] }");
    let (sup, mut caller) = up(tui(&lab, &config, "true").with(["--grace", "6s"]), &lab);
    lab.wait_for_file("hangs", "up");
    caller.get("send", json!({"text": "now fail", "submit": false}));
    let line = told(&sup, 1, "rule_failed", "fails");
    assert!(line.ends_with("then=notify error=\"exit code 3\""), "{line}");
    caller.get("send", json!({"text": "and be gone", "submit": false, "force": true}));
    let line = told(&sup, 2, "rule_failed", "missing");
    assert!(line.contains("/no/such/command"), "{line}");
    // A second time, while the first command still runs.
    caller.get("restart", json!({}));
    let line = told(&sup, 3, "rule_failed", "hangs");
    assert!(line.contains("its last command still runs"), "{line}");
    comes_to_rest(sup.pid());
    let began = Instant::now();
    caller.get("stop", json!({}));
    sup.end();
    assert!(began.elapsed() < Duration::from_secs(4), "the stop waited: {:?}", began.elapsed());
}

#[test]
fn what_a_command_prints_does_not_land_on_the_agents_screen() {
    let lab = Lab::new();
    let told = lab.text("told");
    let notify = format!("{{ notify = [\"sh\", \"-c\", \"echo RAW; echo RAW >&2; echo up > {told}\"] }}");
    let (mut terminal, mut caller) =
        at_terminal(&tui(&lab, &rule("r", "max_runtime = \"100ms\"", &notify), "true"), &lab);
    lab.wait_for_file("told", "up");
    caller.get("stop", json!({}));
    terminal.end();
    assert!(!terminal.shown().contains("RAW"), "{}", terminal.shown());
}

#[test]
fn what_can_never_be_met_or_done_is_refused() {
    for (options, when, then, complaint) in [
        (&["--io", "inherit"][..], "silent_for = 1", "\"log\"", "`silent_for` needs the agent's output"),
        (
            &["--io", "inherit"],
            "max_runtime = 1",
            "{ warn = \"x\" }",
            "`warn` is typed into the agent's terminal",
        ),
        (&[], "max_tokens = 1", "\"log\"", "`max_tokens` is counted from claude's own transcript"),
    ] {
        let lab = Lab::new();
        let ended = launch(&lab, &rule("r", when, then), &[FAKE, "exit", "0"]).with(options).end();
        ended.assert_code(78);
        assert!(ended.stderr.contains(complaint), "{}", ended.stderr);
    }
    let lab = Lab::new();
    let config = "[screen]\nenabled = false\n".to_owned() + &rule("r", "screen_contains = \"x\"", "\"log\"");
    let ended = launch(&lab, &config, &[FAKE, "exit", "0"]).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("`screen_contains` needs the screen"), "{}", ended.stderr);
}

#[test]
fn explain_shows_every_rule() {
    let lab = Lab::new();
    let config = lab.write("rules.toml", &rule("budget", "idle_for = \"5m\"", "{ warn = \"go on\" }"));
    let (code, said, error) = verb(&lab, &["explain", "--io", "pty", "--config", &config, "--", "sh"]);
    assert_eq!(code, 0, "{error}");
    let shown = said.lines().find(|line| line.contains("rule budget")).expect(&said);
    assert!(shown.contains("when { idle_for = \"5m\" } then { warn = \"go on\" }"), "{shown}");
}
