//! The agent is in another conversation than it was started in: `/clear`, `/resume`, `claude -c`.

use crate::support::log::field;
use crate::support::talk::{Talk, agent, line, texts};
use crate::support::{Caller, FAKE, Lab, Launch, sys};
use serde_json::json;

const OTHER: &str = "11111111-2222-4333-8444-555555555555";

fn usage(id: &str, output: u64) -> String {
    format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"{id}\",\"role\":\"assistant\",\"content\":[],\
         \"usage\":{{\"input_tokens\":0,\"output_tokens\":{output}}}}}}}\n"
    )
}

fn is_in(talk: &mut Talk, event: &str, source: &str, id: &str) {
    talk.caller.get("hook", json!({"event": event, "kind": source, "conversation": id}));
}

fn counted(talk: &mut Talk) -> u64 {
    talk.caller.get("stats", json!({}))["tokens"]["output"].as_u64().expect("a number")
}

#[test]
fn behind_clear_all_is_about_the_new_conversation_and_the_old_ones_tokens_stay() {
    let lab = Lab::new();
    let config = "[policy]\ntransient_wait = \"50ms\"\n[[rule]]\nname = \"t\"\nwhen = { max_tokens = 25 }\nthen = \"log\"\n";
    let config = lab.write("config.toml", config);
    let mut talk = Talk::of(lab, |launch| launch.with(["--config", &config]));
    let first = talk.id();
    talk.append(usage("a", 10));
    assert_eq!(counted(&mut talk), 10);
    is_in(&mut talk, "SessionStart", "startup", &first);
    assert!(talk.sup.log.events("conversation_changed").is_empty());
    is_in(&mut talk, "SessionStart", "clear", OTHER);
    let told = talk.sup.wait_for("conversation_changed");
    assert_eq!((field(&told, "conversation"), field(&told, "source")), (Some(OTHER), Some("clear")));
    assert_eq!(talk.id(), OTHER);
    assert!(talk.lab.read("state/supervisor/t.json").contains(OTHER));
    talk.append(usage("b", 20));
    assert_eq!(counted(&mut talk), 30);
    talk.sup.wait_for("rule_fired rule=t when=max_tokens then=log value=30");
    talk.append(line("beta"));
    let frames = talk.read(9);
    assert_eq!(texts(&frames), ["beta"]);
    // The first one again: what was counted of it is not counted once more.
    is_in(&mut talk, "SessionStart", "resume", &first);
    assert_eq!(counted(&mut talk), 30);
    talk.append(usage("c", 5));
    assert_eq!(counted(&mut talk), 35);
    is_in(&mut talk, "SessionStart", "resume", OTHER);
    sys::kill(talk.caller.get("pid", json!({}))["pid"].as_i64().unwrap() as i32, libc::SIGKILL);
    let spawn = talk.sup.log.wait_for_nth(2, "claude_spawn");
    assert_eq!((field(&spawn, "start"), field(&spawn, "conversation")), (Some("continue"), Some(OTHER)));
    talk.end();
}

#[test]
fn what_picks_a_conversation_by_itself_says_which_one() {
    let lab = Lab::new();
    let claude = agent(&lab, "bin/claude", &format!("exec {FAKE} wait"));
    let sup = Launch::run(&lab, [claude.as_str(), "-c"]).env("HOME", lab.dir("home")).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let mut talk = Talk { lab, sup, caller };
    assert_eq!(talk.caller.state()["conversation"], json!(null));
    let path = talk.lab.path("home/.claude/projects/-some-where");
    std::fs::create_dir_all(&path).expect("a directory");
    std::fs::write(path.join(format!("{OTHER}.jsonl")), usage("old", 100)).expect("a transcript");
    // A lost SessionStart is made up for by the next prompt.
    is_in(&mut talk, "UserPromptSubmit", "", OTHER);
    assert_eq!(talk.id(), OTHER);
    talk.append(usage("new", 7));
    assert_eq!(counted(&mut talk), 7, "what was said before is not counted");
    // What no conversation can be called becomes no argument.
    for odd in ["", "../x", "--dangerously-skip-permissions", "a b", "-p"] {
        is_in(&mut talk, "SessionStart", "clear", odd);
        assert_eq!(talk.id(), OTHER, "{odd}");
    }
    is_in(&mut talk, "Stop", "", "another");
    assert_eq!(talk.id(), OTHER);
    talk.end();
}
