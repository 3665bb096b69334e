//! `--record`: what the agent's terminal showed, in a file that can be replayed whatever happened.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support;
use crate::support::log::wait_for_file;
use crate::support::{
    AGENTSUP, Caller, FAKE, LIMIT, Lab, Launch, Running, Terminal, count, eventually, place, sys,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const SECRET: &str = "sk-0123456789abcdefghijklm";

/// A recording that has been read: every line whole, every event of a kind that the format knows.
struct Cast {
    header: Value,
    events: Vec<(f64, String, String)>,
}

impl Cast {
    fn of(path: &Path) -> Cast {
        Cast::parse(&std::fs::read_to_string(path).expect("UTF-8"))
    }

    fn parse(text: &str) -> Cast {
        assert!(text.ends_with('\n'), "half a line: {:?}", text.lines().last());
        let parsed = |line: &str| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        let mut lines = text.lines();
        let header = parsed(lines.next().expect("a header"));
        assert_eq!(header["version"], 2);
        let mut latest = 0.0;
        let event = |line| {
            let event = parsed(line);
            let word = |n: usize| event[n].as_str().expect("text").to_owned();
            let (at, kind) = (event[0].as_f64().expect("a time"), word(1));
            assert!(at >= latest && ["o", "i", "r", "m"].contains(&kind.as_str()), "{event}");
            latest = at;
            (at, kind, word(2))
        };
        Cast { header, events: lines.map(event).collect() }
    }

    /// The texts of one kind, one behind the other.
    fn all(&self, kind: &str) -> String {
        self.each(kind).concat()
    }

    fn each(&self, kind: &str) -> Vec<&str> {
        self.events.iter().filter(|event| event.1 == kind).map(|event| event.2.as_str()).collect()
    }
}

fn recorded(lab: &Lab, command: &[&str]) -> Launch {
    Launch::run(lab, command).with(["--record", &lab.text("r.cast")])
}

/// An agent that writes whatever is typed to it.
fn echoing(launch: Launch, lab: &Lab) -> (Running, Caller) {
    let sup = launch.start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

/// What is typed and what is echoed have a time of their own each.
fn wait_for_end_of_both(lab: &Lab, text: &str) {
    wait_for_file(&lab.path("r.cast"), LIMIT, |content| {
        let cast = content.ends_with('\n').then(|| Cast::parse(content));
        cast.is_some_and(|cast| ["i", "o"].iter().all(|kind| cast.all(kind).ends_with(text)))
    })
    .unwrap_or_else(|content| panic!("{text:?} is not the end of both: {content}"));
}

fn draw(caller: &mut Caller, output: &str) {
    caller.get("inject", json!({"bytes": STANDARD.encode(output)}));
}

#[test]
fn one_recording_spans_the_restarts_of_the_agent() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[policy]\ntransient_wait = \"10ms\"\n");
    let launch = recorded(&lab, &[FAKE, "crash-then", &lab.text("marks"), "2", "7"]);
    let sup = launch.with(["--config", &config, "--size", "90x30"]).env("SHELL", "/bin/some-sh").start();
    sup.wait_for_output("READY");
    sup.signal(libc::SIGTERM);
    let ended = sup.end();
    ended.assert_code(143);
    let cast = Cast::of(&lab.path("r.cast"));
    let size = (&cast.header["width"], &cast.header["height"]);
    assert_eq!(size, (&json!(90), &json!(30)));
    assert_eq!(cast.header["title"], "fake-agent, session t");
    assert_eq!(cast.header["env"]["SHELL"], "/bin/some-sh");
    assert!(
        cast.header["env"]["TERM"].is_string() && cast.header["timestamp"].as_u64() > Some(1_700_000_000)
    );
    assert_eq!(cast.all("o").as_bytes(), ended.stdout, "{ended}");
    let markers = cast.each("m");
    let starts = |marker: &&&str| marker.starts_with("agent started (");
    assert_eq!((markers.len(), markers.iter().filter(starts).count()), (6, 3), "{markers:?}");
    assert!(markers[1].starts_with("agent exited with code 7 after "), "{markers:?}");
    assert!(markers[5].starts_with("agent was ended by signal TERM after "), "{markers:?}");
    assert_eq!(std::fs::metadata(lab.path("r.cast")).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(ended.log.contains(&format!("record={}", lab.text("r.cast"))), "{ended}");
}

#[test]
fn every_byte_of_a_long_output_is_in_it_without_the_emulator_too() {
    let lab = Lab::new();
    let config = lab.write("c.toml", "[screen]\nenabled = false\n");
    let launch = recorded(&lab, &[FAKE, "pattern", "2000000"]);
    let ended = launch.with(["--config", &config, "--env", "MY_TOKEN=never-said"]).end();
    ended.assert_code(0);
    let recorded = Cast::of(&lab.path("r.cast")).all("o");
    // The pattern holds sequences too: what it switched on is switched off behind it.
    let behind = recorded.strip_prefix(&*String::from_utf8_lossy(&ended.stdout)).expect("the same bytes");
    assert!(behind.is_empty() || behind.starts_with('\x1b') && behind.len() < 200, "{behind:?}");
}

#[test]
fn a_kill_costs_nothing_that_is_older_than_a_second() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(recorded(&lab, &[FAKE, "echo-raw"]), &lab);
    draw(&mut caller, "some words");
    lab.wait_for_file("r.cast", "some words");
    sup.signal(libc::SIGKILL);
    sup.end();
    assert_eq!(Cast::of(&lab.path("r.cast")).all("o"), "READYsome words");
}

#[test]
fn a_kill_in_the_middle_of_a_flood_leaves_whole_lines() {
    let lab = Lab::new();
    for nth in 0..count(8, 40) {
        let file = format!("{nth}.cast");
        let launch = Launch::run(&lab, [FAKE, "flood"]).with(["--record", &lab.text(&file)]);
        let sup = launch.start();
        let pid = sup.pid();
        // A file grows page by page: who looks without a pause is likely to see it in the middle of a
        // write.
        let size = || std::fs::metadata(lab.path(&file)).map_or(0, |there| there.len());
        eventually("it is written", || size() > 300_000);
        let (before, until) = (size(), Instant::now() + LIMIT);
        while size() == before && Instant::now() < until {}
        sys::kill(pid, libc::SIGKILL);
        sup.end();
        assert!(Cast::of(&lab.path(&file)).all("o").len() > 200_000);
    }
}

#[test]
fn no_secret_is_in_it_however_it_came() {
    let lab = Lab::new();
    let launch = recorded(&lab, &[FAKE, "echo-raw"]).with(["--env", &format!("MY_TOKEN={SECRET}")]);
    let (sup, mut caller) = echoing(launch.with(["--record-input", "--size", "20x6"]), &lab);
    let (begin, end) = SECRET.split_at(10);
    draw(&mut caller, &format!("\x1b[2J\x1b[Hwrapped {SECRET}\r\n│ {begin} │\r\n│ {end} │"));
    draw(&mut caller, &format!("\x1b]0;{SECRET}\x07colour {begin}\x1b[31m\x1b[5;1H{end}\x1b[0m"));
    // Held back until its time is over; then the rest comes.
    draw(&mut caller, "beginning sk-");
    wait_for_end_of_both(&lab, "beginning sk-");
    draw(&mut caller, &SECRET[3..8]);
    wait_for_end_of_both(&lab, "beginning sk-*****");
    draw(&mut caller, &format!("{} over", &SECRET[8..]));
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    let cast = Cast::of(&lab.path("r.cast"));
    let stars = |n: usize| "*".repeat(n);
    let (whole, begin, end) = (stars(26), stars(10), stars(16));
    let wanted = format!(
        "\x1b[2J\x1b[Hwrapped {whole}\r\n│ {begin} │\r\n│ {end} │\x1b]0;{whole}\x07colour {begin}\x1b[31m\x1b[5;1H{end}\
         \x1b[0mbeginning sk-{} overq",
        stars(23)
    );
    assert_eq!(cast.all("o"), format!("READY{wanted}"));
    assert_eq!(cast.all("i"), wanted);
    assert!(String::from_utf8_lossy(&ended.stdout).contains(SECRET), "the terminal shows it: {ended}");
}

#[test]
fn secrets_are_those_of_the_agent_that_runs() {
    let lab = Lab::new();
    let document = |token: &str| lab.write("d.md", &format!("---\nenv:\n  MY_TOKEN: {token}\n---\n"));
    let launch = recorded(&lab, &[FAKE, "echo-raw"]).with(["--document", &document("first-secret")]);
    let (sup, mut caller) = echoing(launch, &lab);
    draw(&mut caller, "<first-secret second-secret>");
    sup.wait_for_output("second-secret>");
    document("second-secret");
    caller.get("restart", json!({}));
    draw(&mut caller, "<first-secret second-secret>");
    draw(&mut caller, "q");
    sup.end().assert_code(0);
    let output = Cast::of(&lab.path("r.cast")).all("o");
    assert!(output.contains("<************ second-secret>"), "{output}");
    assert!(output.ends_with("<first-secret *************>q"), "{output}");
}

#[test]
fn what_is_typed_is_recorded_only_if_asked_for_and_answers_never_are() {
    let lab = Lab::new();
    for (options, typed) in [(&[][..], ""), (&["--record-input"][..], "\x1b[6nkeys q")] {
        let (sup, mut caller) = echoing(recorded(&lab, &[FAKE, "echo-raw"]).with(options), &lab);
        draw(&mut caller, "\x1b[6n");
        // Agentsup's emulator answers, and the agent echoes that.
        sup.wait_for_output("\x1b[1;6R");
        draw(&mut caller, "keys ");
        draw(&mut caller, "q");
        sup.end().assert_code(0);
        let cast = Cast::of(&lab.path("r.cast"));
        assert_eq!(cast.all("i"), typed);
        assert!(cast.all("o").contains("\x1b[6n\x1b[1;6R"));
    }
    assert_eq!(Cast::of(&lab.path("r.cast.1")).all("i"), "", "the one before is kept");
}

#[test]
fn sizes_keys_and_the_modes_that_an_agent_left_on_are_in_it() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    let launch = recorded(&lab, &[FAKE, "size"]).with(["--record-input", "--on-clean", "exit"]);
    terminal.start(launch.to_command());
    terminal.expect("SIZE 80x24");
    terminal.resize(100, 30);
    terminal.expect("SIZE 100x30");
    terminal.type_in("\x1b[?1049h\x1b[?25l");
    lab.wait_for_file("r.cast", "1049");
    Caller::of(&lab).get("stop", json!({}));
    terminal.end();
    let cast = Cast::of(&lab.path("r.cast"));
    assert_eq!((&cast.header["width"], &cast.header["height"]), (&json!(80), &json!(24)));
    assert_eq!(cast.each("r"), ["100x30"]);
    let before = cast.events.iter().position(|event| event.2.contains("SIZE 80x24"));
    let resized = cast.events.iter().position(|event| event.1 == "r");
    let after = cast.events.iter().position(|event| event.2.contains("SIZE 100x30"));
    assert!(before < resized && resized < after, "{:?}", cast.events);
    assert_eq!(cast.all("i"), "\x1b[?1049h\x1b[?25l");

    let launch = recorded(&lab, &[FAKE, "paint", "3"]).with(["--restart", "no"]);
    launch.end().assert_code(3);
    let output = Cast::of(&lab.path("r.cast")).all("o");
    let (_, behind) = output.split_once("PAINTED").expect("painted");
    assert!(behind.contains("\x1b[?25h") && behind.contains("\x1b[?1049l"), "{}", behind.escape_debug());
}

#[test]
fn what_cannot_be_recorded_is_refused_before_anything_runs() {
    let lab = Lab::new();
    symlink("/nowhere", lab.path("link")).expect("a link");
    lab.write("c.toml", "[run]\nrecord = \"r.cast\"\n");
    let ran = lab.text("ran");
    for (options, words) in [
        (&["--record", "missing/r.cast"][..], "lies in no directory that exists; make it"),
        (&["--record", "."], "is a directory; name a file in it"),
        (&["--record", "link"], "is a symbolic link; name the file that it leads to"),
        (&["--record", "/dev/null"], "is no regular file; name another one"),
        (&["--record", "r.cast", "--io", "inherit"], "record (flag) contradicts io inherit (flag)"),
        (&["--record-input"], "record_input (flag) means nothing without a recording"),
        (&["--config", "c.toml", "--io", "inherit"], "record (config c.toml) contradicts io inherit (flag)"),
    ] {
        let launch = Launch::run(&lab, [FAKE, "env0", &ran, "0"]).with(options);
        let ended = launch.in_dir(lab.path("")).end();
        ended.assert_code(78);
        assert!(ended.stderr.contains(words), "{ended}");
        assert!(!lab.path("ran.1").exists() && !lab.path("r.cast").exists(), "{ended}");
        let mut explain = Command::new(AGENTSUP);
        explain.arg("explain").args(options).args(["--", FAKE]).current_dir(lab.path(""));
        let output = explain.output().expect("agentsup runs");
        assert_eq!(output.status.code(), Some(78), "{output:?}");
    }
    // A one-shot call has no terminal unless it is given one.
    let one_shot = |options: &[&str]| {
        let launch = Launch::run(&lab, [FAKE, "exec"]).with(["--agent", "codex", "--record", "r.cast"]);
        launch.with(options).in_dir(lab.path("")).end()
    };
    let ended = one_shot(&[]);
    ended.assert_code(78);
    assert!(ended.stderr.contains("default (one-shot call)") && ended.stderr.contains("--io pty"), "{ended}");
    one_shot(&["--io", "pty"]).assert_code(64);
    assert!(
        Cast::of(&lab.path("r.cast")).all("o").contains("fake-agent"),
        "relative to where it was started"
    );
}

#[test]
fn a_second_session_does_not_take_the_file() {
    let lab = Lab::new();
    let (sup, mut caller) = echoing(recorded(&lab, &[FAKE, "echo-raw"]), &lab);
    let second = Launch::session(&lab, "second", [FAKE, "exit", "0"]);
    let ended = second.with(["--record", &lab.text("r.cast")]).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("another agentsup is recording to it"), "{ended}");
    // Nor does one that would be refused for another reason.
    recorded(&lab, &[FAKE, "exit", "0"]).end().assert_code(78);
    assert!(!lab.path("r.cast.1").exists());
    draw(&mut caller, "still q");
    sup.end().assert_code(0);
    assert_eq!(Cast::of(&lab.path("r.cast")).all("o"), "READYstill q");
}

#[test]
fn a_file_that_is_taken_away_is_begun_anew() {
    let lab = Lab::new();
    let dir = lab.dir("casts");
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--record", &format!("{dir}/r.cast")]);
    let (sup, mut caller) = echoing(launch, &lab);
    lab.wait_for_file("casts/r.cast", "READY");
    std::fs::remove_file(lab.path("casts/r.cast")).expect("there");
    draw(&mut caller, "two");
    lab.wait_for_file("casts/r.cast", "two");
    // Without its directory there is nothing to begin.
    std::fs::rename(&dir, lab.path("elsewhere")).expect("moved");
    draw(&mut caller, "three");
    sup.wait_for("record_lost");
    sup.wait_for_stderr("cannot record to");
    draw(&mut caller, "four");
    sup.wait_for_output("four");
    lab.dir("casts");
    draw(&mut caller, "five");
    let told = sup.wait_for("record_resumed");
    assert!(support::log::number(&told, "lost") >= 1, "{told}");
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    assert_eq!(Cast::of(&lab.path("elsewhere/r.cast")).all("o"), "two");
    let cast = Cast::of(&lab.path("casts/r.cast"));
    assert!(cast.all("o").ends_with("fiveq"), "{:?}", cast.events);
    assert!(cast.each("m")[0].contains("missing here: "), "{:?}", cast.events);
    assert!(ended.stderr.contains("lacks"), "{ended}");
}

#[test]
fn a_full_disk_neither_stops_nor_slows_the_agent() {
    if !place::namespaces_are_allowed() {
        return;
    }
    let lab = Lab::new();
    let disk = lab.dir("disk");
    let small = format!("mount -t tmpfs -o size=256k tmpfs {disk} && exec \"$@\"");
    let launch = Launch::run(&lab, [FAKE, "echo-raw"]).with(["--record", &format!("{disk}/r.cast")]);
    let (sup, mut caller) = echoing(launch.wrapped_in(place::own_mounts(&small)), &lab);
    let inside = format!("/proc/{}/root{disk}", sup.pid());
    let recording = Path::new(&inside).join("r.cast");
    wait_for_file(&recording, LIMIT, |text| text.contains("READY")).expect("it begins");
    let mut ballast = std::fs::File::create(format!("{inside}/ballast")).expect("a file");
    while ballast.write_all(&[b'x'; 4096]).is_ok() {}
    drop(ballast);
    let text = "z".repeat(10_000);
    draw(&mut caller, &text);
    sup.wait_for("record_lost");
    draw(&mut caller, &format!("{text} and on"));
    sup.wait_for_output("and on");
    std::fs::remove_file(format!("{inside}/ballast")).expect("ballast");
    draw(&mut caller, "room again");
    sup.wait_for("record_resumed");
    let mut whole = std::fs::File::open(&recording).expect("the recording");
    draw(&mut caller, "q");
    let ended = sup.end();
    ended.assert_code(0);
    let mut text = String::new();
    whole.read_to_string(&mut text).expect("text");
    let cast = Cast::parse(&text);
    assert!(cast.all("o").starts_with("READY") && cast.all("o").ends_with("room againq"), "{ended}");
    let marker = cast.each("m").into_iter().find(|marker| marker.contains("missing here"));
    assert!(marker.is_some_and(|marker| marker.contains("space")), "{:?}", cast.each("m"));
    assert_eq!(ended.stderr.matches("cannot record to").count(), 1, "{ended}");
    assert!(ended.stderr.contains("lacks"), "{ended}");
}

#[test]
fn a_stop_by_ctrl_z_leaves_nothing_unwritten() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    let launch = recorded(&lab, &["cat"]).with(["--on-clean", "exit"]);
    let words: Vec<String> =
        launch.line().iter().map(|word| word.to_str().expect("plain").to_owned()).collect();
    terminal.type_in(words.join(" ") + "\n");
    lab.wait_for_file("r.cast", "agent started");
    terminal.type_in("words\n");
    terminal.expect("words\r\nwords");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    // Whoever is stopped writes nothing any more.
    assert!(Cast::of(&lab.path("r.cast")).all("o").contains("words\r\nwords"));
    terminal.type_in("fg\n");
    terminal.expect("cat");
    terminal.type_in("more\n");
    terminal.expect("more\r\nmore");
    terminal.type_in("\x04");
    terminal.expect("PROMPT> ");
    assert!(Cast::of(&lab.path("r.cast")).all("o").contains("more\r\nmore"));
    sys::kill(terminal.child_pid(), libc::SIGKILL);
}
