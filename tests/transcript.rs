//! The conversation from the agent's own file: read, followed, and whatever may stand in it.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::caller::stop;
use support::{AGENTSUP, Caller, FAKE, Lab, Launch, Running, count, eventually, procfs, sys};

const REAL: &str = include_str!("transcripts/claude.jsonl");

/// An agent called `claude` that waits; the test writes what it would write.
struct Talk {
    lab: Lab,
    sup: Running,
    caller: Caller,
}

/// A program of that name; what it does is for the shell.
fn agent(lab: &Lab, name: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = lab.write(name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
    path
}

fn launch(lab: &Lab) -> Launch {
    let claude = agent(lab, "bin/claude", &format!("exec {FAKE} wait"));
    Launch::run(lab, [claude]).env("HOME", lab.dir("home"))
}

impl Talk {
    fn new() -> Talk {
        Talk::with(|launch| launch)
    }

    fn with(more: impl Fn(Launch) -> Launch) -> Talk {
        let lab = Lab::new();
        let sup = more(launch(&lab)).start();
        sup.wait_for_output("READY");
        let mut caller = Caller::of(&lab);
        caller.wait_for("ready");
        Talk { lab, sup, caller }
    }

    fn id(&mut self) -> String {
        self.caller.state()["conversation"].as_str().expect("a conversation").to_owned()
    }

    /// Where the file is looked for.
    fn path(&mut self) -> PathBuf {
        let id = self.id();
        self.lab.path("home/.claude/projects/-some-where").join(format!("{id}.jsonl"))
    }

    fn append(&mut self, bytes: impl AsRef<[u8]>) {
        let path = self.path();
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the transcript");
        file.write_all(bytes.as_ref()).expect("the transcript");
    }

    fn says(&mut self, text: &str) {
        self.append(line(text));
    }

    fn follower(&self, lines: u32) -> Caller {
        let mut follower = Caller::of(&self.lab);
        follower.get("transcript", json!({"lines": lines, "follow": true}));
        follower
    }

    /// All frames but the first and the last.
    fn read(&mut self, lines: u32) -> Vec<Value> {
        self.caller.get("transcript", json!({"lines": lines}));
        let mut frames = Vec::new();
        loop {
            let frame = self.caller.receive().expect("the end comes first");
            if frame["end"] == true {
                return frames;
            }
            frames.push(frame);
        }
    }

    fn verb(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(AGENTSUP);
        command.arg("transcript").args(words).env("AGENTSUP_DIR", self.lab.state_dir());
        let output =
            command.env_remove("AGENTSUP_SOCKET").stdin(Stdio::null()).output().expect("agentsup runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn end(mut self) {
        stop(self.sup, &mut self.caller).assert_code(143);
    }
}

fn line(text: &str) -> String {
    json!({"type": "user", "message": {"role": "user", "content": text}}).to_string() + "\n"
}

fn texts(frames: &[Value]) -> Vec<&str> {
    frames.iter().filter_map(|frame| frame["text"].as_str()).collect()
}

fn news(frame: &Value) -> (&str, bool) {
    let it = &frame["conversation"];
    (it["news"].as_str().unwrap_or_else(|| panic!("{frame}")), it["empty"] == true)
}

#[track_caller]
fn expect_text(follower: &mut Caller, text: &str) {
    let frame = follower.receive().expect("it goes on");
    assert_eq!(frame["text"], text, "{frame}");
}

#[track_caller]
fn expect_news(follower: &mut Caller, kind: &str) {
    let frame = follower.receive().expect("it goes on");
    assert_eq!(news(&frame).0, kind, "{frame}");
}

/// All that it had to do is done.
fn comes_to_rest(pid: i32) {
    eventually("agentsup comes to rest", || {
        let before = procfs::switches(pid);
        sys::pause(Duration::from_millis(200));
        procfs::asleep(pid) && procfs::switches(pid) == before
    });
}

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
    talk.caller.get("inject", json!({"bytes": ""}));
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
fn what_no_claude_writes_is_passed_over() {
    let mut talk = Talk::new();
    talk.says("before");
    let mut follower = talk.follower(9);
    let deep = format!("{{\"type\":\"user\",\"message\":{}\n", "[".repeat(90_000));
    let hostile = [
        b"\xff\xfe\0\0 not json\n\n\n{}\n[1]\n".to_vec(),
        deep.into_bytes(),
        vec![0; 100_000],
        b"\n".to_vec(),
        b"{\"type\":\"user\",\"message\":{\"content\":\"b\xc3d \\u001b[2J\\ud800 \xff\"}}\n".to_vec(),
        line("\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}x").into_bytes(),
    ];
    talk.append(hostile.concat());
    talk.append(format!("{{\"type\":\"user\",\"message\":{{\"content\":\"{}\"}}}}\n", "y".repeat(5 << 20)));
    talk.says("after");
    let frames = talk.read(1000);
    let skipped: Vec<&str> = frames.iter().filter_map(|frame| frame["skipped"]["why"].as_str()).collect();
    assert_eq!(skipped.first(), Some(&"unreadable"), "{frames:?}");
    assert_eq!(skipped.last(), Some(&"too_long"));
    assert_eq!(frames[frames.len() - 2]["skipped"]["bytes"], (5 << 20) + 40);
    assert_eq!(texts(&frames).last(), Some(&"after"));
    // A follower sees the same.
    let mut seen = Vec::new();
    while seen.last().is_none_or(|frame: &Value| frame["text"] != "after") {
        seen.push(follower.receive().unwrap());
    }
    assert_eq!(texts(&seen), texts(&frames));
    for words in [&["-n", "1000"][..], &["-n", "1000", "--json"]] {
        let (code, said, _) = talk.verb(words);
        assert_eq!(code, Some(0));
        assert!(!said.chars().any(|c| c != '\n' && c.is_control()), "{}", said.escape_debug());
        assert!(said.contains("5.0 MiB") || said.contains("too_long"), "{said}");
    }
    talk.end();
}

#[test]
fn only_a_plain_file_is_read() {
    let mut talk = Talk::new();
    let path = talk.path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let secret = talk.lab.write("elsewhere", &line("not for you"));
    let mut follower = talk.follower(9);
    expect_news(&mut follower, "current");
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    assert_eq!(talk.read(9).len(), 1, "a link");
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(talk.read(9).len(), 1, "a fifo");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(talk.read(9).len(), 1, "a directory");
    fs::remove_dir(&path).unwrap();
    talk.says("plain");
    expect_text(&mut follower, "plain");
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

#[test]
fn a_huge_file_and_a_slow_reader_cost_others_nothing() {
    let mut talk = Talk::new();
    talk.says("x");
    let path = talk.path();
    // 500 MB of nothing, then of everything that is dear to read.
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(500 << 20).unwrap();
    talk.append("\n");
    let block: String = (0..1000).map(|n| line(&format!("{n} {}", "z".repeat(1000)))).collect();
    let blocks = count(4, 20);
    for _ in 0..blocks {
        talk.append(&block);
    }
    talk.append(format!("\"{}\"\n", "w".repeat(5 << 20)));
    talk.says("end");
    let began = Instant::now();
    assert_eq!(texts(&talk.read(1)), ["end"]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());

    // Some that ask for all of it and do not read.
    let mut idle: Vec<Caller> = (0..count(4, 20)).map(|_| talk.follower(1_000_000)).collect();
    let mut reader = talk.follower(1_000_000);
    let mut slowest = Duration::ZERO;
    let mut seen = Vec::new();
    loop {
        let began = Instant::now();
        talk.caller.get("ping", json!({}));
        slowest = slowest.max(began.elapsed());
        for _ in 0..100 {
            seen.push(reader.receive().expect("it goes on"));
            if seen.last().unwrap()["text"] == "end" {
                break;
            }
        }
        if seen.last().unwrap()["text"] == "end" {
            break;
        }
    }
    assert_eq!(texts(&seen).len(), blocks * 1000 + 1);
    assert_eq!(seen[1]["skipped"]["why"], "too_far_back", "{}", seen[1]);
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    let peak = procfs::peak_kib(talk.sup.pid());
    assert!(peak < 24 * 1024, "{peak} KiB");
    // Who comes to it late misses nothing.
    let late = &mut idle[0];
    let mut frames = 0;
    while late.receive().expect("it was not closed")["text"] != "end" {
        frames += 1;
    }
    assert_eq!(frames, seen.len() - 1);
    drop((idle, reader));
    talk.end();
}

#[test]
fn many_small_entries_fill_nobodys_buffer() {
    let mut talk = Talk::new();
    let parts = vec![json!({"type": "text", "text": "x"}); 100];
    let line = json!({"type": "user", "message": {"content": parts}}).to_string() + "\n";
    talk.append(line.repeat(40));
    let idle: Vec<Caller> = (0..60)
        .map(|_| {
            let mut follower = Caller::of(&talk.lab);
            let params = json!({"lines": 100_000, "follow": true});
            follower.send(&json!({"id": "i".repeat(256), "method": "transcript", "params": params}));
            follower
        })
        .collect();
    comes_to_rest(talk.sup.pid());
    let stats = talk.caller.get("stats", json!({}));
    assert_eq!((&stats["callers_dropped"], &stats["callers"]), (&json!(0), &json!(61)), "{stats}");
    drop(idle);
    talk.end();
}

#[test]
fn a_follower_costs_one_descriptor_and_no_wake_ups() {
    let mut talk = Talk::new();
    talk.says("here");
    let pid = talk.sup.pid();
    let watches = || {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("/proc").flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok())
            .filter(|to| to.ends_with("anon_inode:inotify"))
            .count()
    };
    assert_eq!(watches(), 0);
    let mut followers: Vec<Caller> = (0..3).map(|_| talk.follower(9)).collect();
    for follower in &mut followers {
        expect_news(follower, "current");
        expect_text(follower, "here");
    }
    assert_eq!(watches(), 1);
    comes_to_rest(pid);
    let before = procfs::switches(pid);
    // Others in the same directory are nobody's business.
    let path = talk.lab.path("home/.claude/projects/-some-where/other.jsonl");
    let mut other = File::create(path).unwrap();
    sys::pause(Duration::from_millis(50));
    let born = procfs::switches(pid);
    for _ in 0..50 {
        other.write_all(line("of another").as_bytes()).unwrap();
    }
    sys::pause(Duration::from_millis(1000));
    assert!(born - before <= 2, "{}", born - before);
    assert_eq!(procfs::switches(pid), born, "idle");
    drop(followers);
    eventually("nobody follows any more", || watches() == 0);
    talk.end();
}
