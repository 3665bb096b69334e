//! Issue point 10, the file: its format is a contract, and its trouble is nobody else's.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support;
use crate::support::log::Log;
use crate::support::{FAKE, Lab, Launch, place, sys};

/// `name key=value key="quoted value" …`, or why not.
fn parse(text: &str) -> Result<(String, Vec<(String, String)>), String> {
    let (name, mut rest) = text.split_once(' ').map_or((text, ""), |(name, rest)| (name, rest));
    // `user_action=restart` is a name.
    if !name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '=') {
        return Err(format!("name {name:?}"));
    }
    let mut fields = vec![];
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or(format!("no = in {rest:?}"))?;
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return Err(format!("key {key:?}"));
        }
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            let mut escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.ok_or(format!("{key}: no closing quote"))?;
            (&quoted[..end], &quoted[end + 1..])
        } else {
            let end = after.find(' ').unwrap_or(after.len());
            if after[..end].contains(['"', '\'']) {
                return Err(format!("{key}: a bare quote in {:?}", &after[..end]));
            }
            (&after[..end], &after[end..])
        };
        if value.chars().any(char::is_control) {
            return Err(format!("{key}: a control byte"));
        }
        fields.push((key.to_owned(), value.to_owned()));
        rest = match after.strip_prefix(' ') {
            Some(next) => next,
            None if after.is_empty() => after,
            None => return Err(format!("{key}: {after:?} follows the value")),
        };
    }
    Ok((name.to_owned(), fields))
}

/// The event's text after `[<epoch>] `, with the time checked.
fn after_epoch(line: &str) -> &str {
    let (epoch, rest) = line.strip_prefix('[').and_then(|l| l.split_once("] ")).expect("[<epoch>] first");
    let epoch: u64 = epoch.parse().expect("seconds");
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(epoch <= now && epoch + 120 > now, "{line}");
    rest
}

#[test]
fn every_line_has_the_one_format_and_the_story_is_in_order() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
    let doc = lab.write("odd \"name\"/the doc.md", "---\nagent_doc_cwd: .\n---\n");
    let words = [FAKE, "crash-then", &lab.text("marks"), "1", "3"];
    let launch = Launch::run(&lab, words).with(["--config", &config, "--document", &doc]);
    let sup = launch.env("TMUX_PANE", "%7").start();
    sup.wait_for_output("READY");
    sup.signal(libc::SIGURG);
    sup.wait_for("signal_received");
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    assert!(ended.log.ends_with('\n'), "{ended}");
    let lines: Vec<&str> = ended.log.lines().collect();

    let (name, fields) = parse(after_epoch(lines[0])).unwrap_or_else(|why| panic!("{why}: {ended}"));
    let keys: Vec<&str> = fields.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!((name.as_str(), &keys[..3]), ("session_start", &["file", "pane", "session"][..]), "{ended}");
    assert_eq!((fields[1].1.as_str(), fields[2].1.as_str()), ("%7", support::SESSION), "{ended}");
    assert!(fields[0].1.replace("\\\"", "\"") == doc, "quoted: {ended}");

    let mut story = vec![];
    for line in &lines[1..] {
        let event = after_epoch(line).strip_prefix("[supervisor] ").unwrap_or_else(|| panic!("{line}"));
        story.push(parse(event).unwrap_or_else(|why| panic!("{why} in {line}")).0);
    }
    let mut names = story.iter().map(String::as_str);
    let expected = [
        ["cwd_resolved", "env_built", "pty_allocated", "claude_spawn", "claude_exit", "restart_scheduled"]
            .as_slice(),
        ["cwd_resolved", "env_built", "pty_allocated", "claude_spawn", "signal_received"].as_slice(),
        ["signal_received", "claude_exit", "shutdown"].as_slice(),
    ];
    for event in expected.concat() {
        assert!(names.any(|name| name == event), "{event} in its place: {ended}");
    }
    assert_eq!(names.next(), None, "shutdown is the last line: {ended}");
}

#[test]
fn a_second_run_of_the_session_goes_on_in_the_same_file() {
    let lab = Lab::new();
    for code in [1, 2] {
        let words = [FAKE, "exit", &code.to_string()];
        Launch::run(&lab, words).with(["--restart", "no"]).end().assert_code(code);
    }
    let text = Log::of(&lab.state_dir()).text();
    assert_eq!(text.matches("session_start").count(), 2, "{text}");
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&lab.state_dir()), 0o700);
    assert_eq!(mode(&lab.path("state/logs/t.log")) & 0o077, 0, "nobody else's to read");
}

#[test]
fn secrets_are_masked_in_log_and_stderr() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\nhalt_after = 1\n");
    let secret = "hunter2-hunter2";
    let words = [FAKE, "say", &format!("the token is {secret}\n"), "1"];
    let variable = format!("MY_API_TOKEN={secret}");
    let ended = Launch::run(&lab, words).with(["--config", &config, "--env", &variable]).end();
    ended.assert_code(1);
    assert!(ended.log.contains("the token is"), "the last lines are told: {ended}");
    assert!(!ended.log.contains(secret), "{ended}");
    assert!(!ended.stderr.contains(secret), "{ended}");
    assert!(
        String::from_utf8_lossy(&ended.stdout).contains(secret),
        "the agent's own output is raw: {ended}"
    );
}

#[test]
fn orphans_are_counted() {
    let lab = Lab::new();
    let ended = Launch::run(&lab, [FAKE, "orphans", "300", "--exit", "0"]).end();
    ended.assert_code(0);
    let counts = ended.log.lines().filter(|line| line.contains("orphan_reaped"));
    let total: i32 = counts.map(|line| support::log::number(line, "count")).sum();
    let last = ended.log.lines().last().expect("a log");
    assert_eq!((total, support::log::number(last, "orphans")), (300, 300), "{ended}");
}

#[test]
fn a_full_disk_neither_stops_nor_slows_the_agent_and_the_loss_is_told_when_it_ends() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let state = lab.dir("state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).expect("our directory");
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
    let small = format!("mount -t tmpfs -o size=256k,mode=700 tmpfs {state} && exec \"$@\"");
    let ballast = format!("{state}/ballast");
    let launch = Launch::run(&lab, [FAKE, "fill", &ballast]).with(["--config", &config]);
    let sup = launch.wrapped_in(place::own_mounts(&small)).start();
    sup.wait_for_output("READY");
    let pid = sup.pid();
    let inside = format!("/proc/{pid}/root");
    let log = Log::of(Path::new(&format!("{inside}{state}")));
    // More events than the last page of the file can take.
    let agent = support::log::number(&log.wait_for("claude_spawn"), "pid");
    for nth in 0..400 {
        sys::kill(pid, 34 + nth % 31);
    }
    // Restarts go on, and the new agent finds the disk as full as before.
    sys::kill(agent, libc::SIGKILL);
    assert!(sup.stdout.position_after(7, "READY", support::LIMIT).is_some(), "{}", sup.so_far());
    std::fs::remove_file(format!("{inside}{ballast}")).expect("ballast");
    // What happens now can be written again; the gap is told in its place.
    sys::kill(pid, 34);
    let told = log.wait_for("log_lost");
    assert!(support::log::number(&told, "lost") > 0, "{told}");
    let mut whole = std::fs::File::open(&log.file).expect("the log");
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    let mut text = String::new();
    whole.read_to_string(&mut text).expect("text");
    for line in text.lines() {
        let event = after_epoch(line);
        parse(event.strip_prefix("[supervisor] ").unwrap_or(event))
            .unwrap_or_else(|why| panic!("{why}: {line}"));
    }
    assert!(text.trim_end().lines().last().is_some_and(|line| line.contains("shutdown")), "{text}");
}

#[test]
fn a_disk_that_stays_full_is_told_on_stderr_at_the_end() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let state = lab.dir("state");
    let small = format!("mount -t tmpfs -o size=256k,mode=700 tmpfs {state} && exec \"$@\"");
    let launch = Launch::run(&lab, [FAKE, "fill", &format!("{state}/ballast")]);
    let sup = launch.wrapped_in(place::own_mounts(&small)).start();
    sup.wait_for_output("READY");
    let pid = sup.pid();
    for nth in 0..400 {
        sys::kill(pid, 34 + nth % 31);
    }
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    assert!(ended.stderr.contains("log"), "{ended}");
    assert!(ended.stderr.lines().any(|line| line.contains("log file lacks")), "{ended}");
}
