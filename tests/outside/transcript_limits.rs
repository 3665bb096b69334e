//! Hostile and huge transcripts, and readers that do not read: nobody else feels them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::talk::{Talk, comes_to_rest, expect_news, expect_text, line, texts};
use crate::support::{Caller, count, eventually, procfs, sys};
use serde_json::{Value, json};

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
