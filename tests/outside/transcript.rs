//! The conversation from the agent's own file: read and followed, whatever becomes of the file.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::support::caller::stop;
use crate::support::talk::{Talk, agent, expect_news, expect_text, line, news, texts};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, Launch};
use serde_json::{Value, json};

const REAL: &str = include_str!("../transcripts/claude.jsonl");

#[test]
fn the_last_entries_are_told_as_they_were_said() {
    let mut talk = Talk::new();
    let none = talk.read(100);
    assert_eq!((none.len(), news(&none[0])), (1, ("current", true)), "{none:?}");
    let (code, said, _) = talk.verb(&[]);
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "… no conversation yet: nobody has said anything to the agent\n")
    );
    talk.append(REAL);
    let all = talk.read(1000);
    assert_eq!((all.len(), news(&all[0])), (45, ("current", false)));
    assert_eq!(
        all[3],
        json!({
            "id": "transcript", "ok": true, "role": "assistant", "kind": "tool_use", "text": "echo one",
            "at": all[3]["at"], "tool": {
                "id": "toolu_000020_1", "name": "Bash",
                "input": {"command": "echo one", "description": "run it"},
            },
        })
    );
    for lines in [0, 1, 7, 44, 45] {
        let some = talk.read(lines);
        assert_eq!(some[1..], all[all.len() - (lines as usize).min(44)..], "{lines}");
    }
    let (code, said, _) = talk.verb(&["-n", "2"]);
    assert_eq!(code, Some(0));
    assert!(said.ends_with("Read  /w/red.png\n  [image/png, 75 bytes]\n"), "{said}");
    let (_, said, _) = talk.verb(&["--json", "--lines=2"]);
    let frames: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((frames.len(), &frames[3]["role"], &frames[4]["end"]), (5, &json!("tool"), &json!(true)));
    assert_eq!(talk.caller.refusal("transcript", json!({"lines": -1})), "BAD_PARAMS");
    talk.end();
}

#[test]
fn it_is_followed_from_before_its_directories_exist() {
    let mut talk = Talk::new();
    let mut follower = talk.follower(10);
    assert_eq!(news(&follower.receive().unwrap()), ("current", true));
    talk.says("first");
    expect_text(&mut follower, "first");
    // Half of a line is no line yet, wherever it was cut.
    let second = line("sec\u{f6}nd");
    for byte in second.as_bytes() {
        talk.append([*byte]);
    }
    expect_text(&mut follower, "sec\u{f6}nd");
    talk.append(&line("third")[..20]);
    assert_eq!(texts(&talk.read(10)), ["first", "sec\u{f6}nd"], "who does not follow does not wait either");
    talk.append(&line("third")[20..]);
    expect_text(&mut follower, "third");
    let mut late = talk.follower(1);
    expect_news(&mut late, "current");
    expect_text(&mut late, "third");
    let mut latest = talk.follower(0);
    expect_news(&mut latest, "current");
    talk.says("fourth");
    for follower in [&mut follower, &mut late, &mut latest] {
        expect_text(follower, "fourth");
    }
    talk.end();
}

#[test]
fn it_goes_on_over_restarts_and_into_another_conversation() {
    let mut talk = Talk::new();
    talk.says("before");
    let mut follower = talk.follower(10);
    expect_news(&mut follower, "current");
    expect_text(&mut follower, "before");
    let old = talk.id();
    talk.caller.get("restart", json!({}));
    assert_eq!(talk.id(), old);
    talk.says("same conversation");
    expect_text(&mut follower, "same conversation");

    // One that has not read the old one to its end gets that first.
    let mut slow = talk.follower(10_000);
    let many: String = (0..2_000).map(|n| line(&format!("{n} {}", "x".repeat(500)))).collect();
    talk.append(&many);
    for n in 0..2_000 {
        expect_text(&mut follower, &format!("{n} {}", "x".repeat(500)));
    }
    talk.caller.get("restart", json!({"mode": "fresh"}));
    assert_ne!(talk.id(), old);
    expect_news(&mut follower, "changed");
    talk.says("a new one");
    expect_text(&mut follower, "a new one");
    expect_news(&mut slow, "current");
    let mut seen = 0;
    loop {
        let frame = slow.receive().unwrap();
        if frame["conversation"]["news"] == "changed" {
            break;
        }
        seen += 1;
    }
    assert_eq!(seen, 2_002);
    expect_text(&mut slow, "a new one");
    talk.says("the last words");
    talk.caller.get("stop", json!({}));
    talk.sup.end();
    expect_text(&mut follower, "the last words");
    assert_eq!(follower.receive(), None, "it ends with the supervisor");
}

#[test]
fn a_file_that_is_replaced_cut_or_removed_is_read_anew() {
    let mut talk = Talk::new();
    talk.says("one");
    talk.says("two");
    let path = talk.path();
    let mut follower = talk.follower(0);
    expect_news(&mut follower, "current");
    // The same and more under another inode, as a careful writer replaces it: nothing twice.
    let beside = path.with_extension("new");
    fs::write(&beside, [line("one"), line("two"), line("three")].concat()).unwrap();
    fs::rename(&beside, &path).unwrap();
    expect_text(&mut follower, "three");
    // Moved to another project with its directory.
    let elsewhere = talk.lab.path("home/.claude/projects/-else-where");
    fs::create_dir_all(&elsewhere).unwrap();
    let moved = elsewhere.join(path.file_name().unwrap());
    fs::rename(&path, &moved).unwrap();
    let mut file = OpenOptions::new().append(true).open(&moved).unwrap();
    file.write_all(line("four").as_bytes()).unwrap();
    expect_text(&mut follower, "four");
    // Its end taken back.
    file.set_len((line("one").len() + line("two").len()) as u64).unwrap();
    expect_news(&mut follower, "rewritten");
    expect_text(&mut follower, "one");
    expect_text(&mut follower, "two");
    // Another text of the same length or more.
    fs::write(&moved, [line("uno"), line("dos"), line("tres")].concat()).unwrap();
    let mut frames = vec![];
    while frames.last().is_none_or(|frame: &Value| frame["text"] != "tres") {
        frames.push(follower.receive().unwrap());
    }
    assert_eq!(news(&frames[0]).0, "rewritten", "{frames:?}");
    assert!(texts(&frames).ends_with(&["uno", "dos", "tres"]), "{frames:?}");
    // Gone with all its directories, and back, while a reader that lags keeps it open.
    let _slow = talk.follower(0);
    let filler = line(&"x".repeat(1000)).repeat(1000);
    OpenOptions::new().append(true).open(&moved).unwrap().write_all(filler.as_bytes()).unwrap();
    for _ in 0..1000 {
        expect_text(&mut follower, &"x".repeat(1000));
    }
    fs::remove_dir_all(talk.lab.path("home/.claude")).unwrap();
    assert_eq!(news(&talk.read(9)[0]), ("current", true));
    talk.says("again");
    let mut frame = follower.receive().unwrap();
    while frame["text"] != "again" {
        assert_eq!(news(&frame).0, "rewritten");
        frame = follower.receive().unwrap();
    }
    talk.end();
}

#[test]
fn no_secret_is_told_in_whatever_form() {
    let secret = "s3cr\"et\\ k\u{f6}y\nline two of it";
    let mut talk = Talk::with(|launch| {
        launch.with(["--env", &format!("MY_TOKEN={secret}"), "--env", "A_KEY=plain-secret"])
    });
    let input = json!({
        "command": format!("echo '{secret}'"), "deep": [{"k": secret}], secret: 1,
        "content": json!({"token": secret}).to_string(), "other": "plain-secret",
    });
    let use_it = json!({"type": "tool_use", "id": "plain-secret", "name": "plain-secret", "input": input});
    let numbered = format!("1\t{}", secret.replace('\n', "\n2\t"));
    let result =
        json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": numbered}]});
    for content in [json!(format!("it is {secret}.")), json!([result])] {
        talk.append(json!({"type": "user", "message": {"content": content}}).to_string() + "\n");
    }
    let escaped = use_it.to_string().replace("plain", "pl\\u0061in").replace("two", "tw\\u006f");
    talk.append(format!("{{\"type\":\"assistant\",\"message\":{{\"content\":[{escaped}]}}}}\n"));
    // Also where the text is cut: right through it.
    talk.says(&format!("{}{secret}{}", "x".repeat(64 * 1024 - 7), "y".repeat(100)));
    let told = serde_json::to_string(&talk.read(9)).unwrap();
    for part in ["s3cr", "et\\\\ k", "line two", "plain-secret"] {
        assert!(!told.contains(part), "{part} in {told:.5000}");
    }
    assert!(told.contains("it is ***."), "{told:.5000}");
    for words in [&[][..], &["--json"]] {
        let (_, said, _) = talk.verb(words);
        assert!(
            !said.contains("s3cr") && !said.contains("plain-secret") && said.contains("***"),
            "{said:.5000}"
        );
    }
    talk.end();
}

#[test]
fn an_agent_whose_conversation_is_not_known_is_refused_in_words() {
    let lab = Lab::new();
    let wait = format!("exec {FAKE} wait");
    let known = agent(&lab, "bin/claude", &wait);
    for (command, option, words) in [
        (vec![FAKE, "wait"], None, "none whose conversations can be read"),
        (
            vec![&agent(&lab, "bin/codex", &wait)[..]],
            None,
            "where codex keeps its conversations is not known",
        ),
        (vec![&known[..], "--continue"], None, "its own arguments pick it"),
        (vec![&known[..]], Some("HOME="), "its environment has no HOME"),
    ] {
        let env = option.map_or(vec![], |value| vec!["--env", value]);
        let sup = Launch::run(&lab, command).env("HOME", lab.dir("home")).with(env).start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        caller.wait_for("ready");
        for follow in [false, true] {
            let reply = caller.ask("transcript", json!({"follow": follow}));
            assert_eq!(reply["error"]["code"], "UNSUPPORTED", "{reply}");
            assert!(reply["error"]["message"].as_str().unwrap().contains(words), "{reply}");
        }
        stop(sup, &mut caller).assert_code(143);
    }
}

#[test]
fn the_agent_itself_may_not_read_it() {
    let lab = Lab::new();
    let script = format!("{AGENTSUP} transcript >{} 2>&1; exec {FAKE} wait", lab.text("said"));
    let claude = agent(&lab, "bin/claude", &script);
    let sup = Launch::run(&lab, [claude]).env("HOME", lab.dir("home")).start();
    sup.wait_for_output("READY");
    assert!(lab.read("said").contains("FORBIDDEN"), "{}", lab.read("said"));
    stop(sup, &mut Caller::of(&lab)).assert_code(143);
}

#[test]
fn it_is_found_where_the_agents_own_environment_says() {
    let lab = Lab::new();
    let config = lab.text("config");
    // Written by the agent itself, by the directory and the id that it was given.
    let script = format!(
        "mkdir -p \"$CLAUDE_CONFIG_DIR/projects/-x\"; printf '%s' '{}' >\"$CLAUDE_CONFIG_DIR/projects/-x/$2.jsonl\"; \
         exec {FAKE} wait",
        line("my own words")
    );
    let claude = agent(&lab, "bin/claude", &script);
    for io in ["pty", "inherit"] {
        let launch = Launch::run(&lab, [&claude]).env("HOME", lab.dir("home"));
        let off = lab.write("c.toml", "[screen]\nenabled = false\n");
        let launch =
            launch.with(["--env", &format!("CLAUDE_CONFIG_DIR={config}"), "--io", io, "--config", &off]);
        let sup = launch.start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        caller.get("transcript", json!({}));
        expect_news(&mut caller, "current");
        expect_text(&mut caller, "my own words");
        assert_eq!(caller.receive().unwrap()["end"], true);
        stop(sup, &mut caller).assert_code(143);
    }
}
