//! codex tells of the end of a turn, and of nothing else: what is known of it then, and what no more.

use std::os::unix::fs::PermissionsExt;

use crate::support::{AGENTSUP, Caller, Lab, Launch, Running, caller, eventually};
use serde_json::json;

/// Called as codex is, it writes down how, and tells of a turn for every line that it reads: of a title's thread
/// and, unless it is held, of the conversation's, then of another title's.
fn codex(lab: &Lab) -> Launch {
    let tell = |id: &str| {
        let told = json!({"type": "agent-turn-complete", "thread-id": id, "input-messages": ["x"]});
        format!("CODEX_HOME={} {AGENTSUP} hook codex-notify '{told}'", lab.text("home"))
    };
    let day = lab.path("home/sessions/2026/11/18");
    std::fs::create_dir_all(&day).expect("it is ours");
    std::fs::write(day.join("rollout-2026-11-18T14-57-19-th-7.jsonl"), "{}\n").expect("it is ours");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{called}\necho READY\nwhile read -r line; do\n\
         {before}\necho told >>{titles}\nuntil [ ! -e {held} ]; do sleep 0.05; done\n{turn}\n\
         {behind}\necho told >>{titles}\ndone\n",
        before = tell("title-1"),
        turn = tell("th-7"),
        behind = tell("title-2"),
        titles = lab.text("titles"),
        called = lab.text("called"),
        held = lab.text("held"),
    );
    let program = lab.write("codex", &script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    Launch::run(lab, [program])
}

fn up(lab: &Lab) -> (Running, Caller) {
    let sup = codex(lab).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

fn type_line(caller: &mut Caller) {
    // "go\r"
    caller.get("inject", json!({"bytes": "Z28N"}));
}

fn titles(lab: &Lab, told: usize) {
    eventually("titles are told", || lab.whole_lines("titles").lines().count() == told);
}

fn until_activity(caller: &mut Caller, activity: &str) {
    eventually(activity, || caller.state()["activity"] == activity);
}

#[test]
fn a_turn_that_has_ended_is_idle_until_the_next_line_is_typed() {
    let lab = Lab::new();
    let (sup, mut caller) = up(&lab);
    assert_eq!(caller.state()["activity"], "unknown");
    type_line(&mut caller);
    assert_eq!(caller.wait_for("idle")["reason"], "idle");
    lab.write("held", "");
    type_line(&mut caller);
    until_activity(&mut caller, "unknown");
    titles(&lab, 3);
    assert_eq!(caller.state()["activity"], "unknown", "a title is no turn");
    std::fs::remove_file(lab.path("held")).expect("just written");
    until_activity(&mut caller, "idle");
    caller::stop(sup, &mut caller);
}

#[test]
fn its_conversation_is_known_and_continued_by_its_id() {
    let lab = Lab::new();
    let (sup, mut caller) = up(&lab);
    let notify = format!("-c notify=[\"{AGENTSUP}\",\"hook\",\"codex-notify\"]");
    assert_eq!(lab.whole_lines("called").trim_end(), notify);
    caller.get("restart", json!({"mode": "continue"}));
    eventually("it is called again", || lab.whole_lines("called").lines().count() == 2);
    assert_eq!(lab.whole_lines("called").lines().last(), Some(&*format!("{notify} resume --last")));
    type_line(&mut caller);
    caller.wait_for("idle");
    titles(&lab, 2);
    assert_eq!(caller.state()["conversation"], "th-7");
    caller.get("restart", json!({"mode": "continue"}));
    eventually("it is called again", || lab.whole_lines("called").lines().count() == 3);
    assert_eq!(lab.whole_lines("called").lines().last(), Some(&*format!("{notify} resume th-7")));
    caller::stop(sup, &mut caller);
}

#[test]
fn without_hooks_it_is_called_as_it_was_given() {
    let lab = Lab::new();
    let sup = codex(&lab).with(["--no-hooks"]).start();
    sup.wait_for_output("READY");
    assert_eq!(lab.whole_lines("called"), "\n");
    caller::stop(sup, &mut Caller::of(&lab));
}
