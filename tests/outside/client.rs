//! Issue points 7 to 9 and DESIGN §2: the verbs that ask, against real supervisors.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{AGENTSUP, FAKE, Lab, Launch, Running, SESSION, count, eventually, exists, sys};
use serde_json::Value;

fn command(lab: &Lab, line: &str) -> Command {
    let mut command = Command::new(AGENTSUP);
    command.args(line.split(' ')).stdin(Stdio::null());
    for name in ["AGENTSUP_SESSION", "AGENTSUP_SOCKET", "COLUMNS", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("AGENTSUP_DIR", lab.state_dir());
    command
}

fn verb(lab: &Lab, line: &str) -> Output {
    command(lab, line).output().expect("agentsup runs")
}

/// What a verb prints when all is well.
#[track_caller]
fn says(lab: &Lab, line: &str) -> String {
    let output = verb(lab, line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(lab: &Lab, line: &str) -> Value {
    serde_json::from_str(&says(lab, line)).expect("JSON")
}

#[track_caller]
fn fails(lab: &Lab, line: &str, code: i32) -> String {
    let output = verb(lab, line);
    assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn waiting(lab: &Lab) -> Running {
    let sup = Launch::run(lab, [FAKE, "wait"]).start();
    sup.wait_for_output("READY");
    sup
}

#[test]
fn a_supervisor_is_asked_and_told() {
    let lab = Lab::new();
    let sup = waiting(&lab);
    says(&lab, "wait --for ready");
    let pid = says(&lab, "pid");
    assert_eq!(json(&lab, "state --json")["pid"].to_string(), pid.trim());
    assert!(says(&lab, "state --deep --why").contains("\nphase           running\n"));
    assert!(says(&lab, "ping t").contains("session t"));
    assert_eq!(says(&lab, "health"), format!("healthy: running, pid {pid}"));

    let new = says(&lab, "restart --fresh t");
    assert_ne!(new, pid);
    assert_eq!(says(&lab, "pid --session t"), new);
    says(&lab, "pause");
    assert!(verb(&lab, "health").stdout.starts_with(b"unhealthy: paused"));
    assert_eq!(verb(&lab, "health").status.code(), Some(1));
    assert_eq!(says(&lab, "resume t"), new);
    assert!(fails(&lab, "resume t", 1).contains("NOT_HALTED"));
    assert_eq!(json(&lab, "stats --json")["restarts"], 1);
    assert!(says(&lab, "metrics").contains("\nagentsup_restarts_total 1\n"));
    assert!(says(&lab, "logs -n 1000").contains(" claude_spawn "));
    assert!(says(&lab, "events").contains("  claude_spawn "));

    assert_eq!(says(&lab, "stop"), "stopping\n");
    sup.end().assert_code(143);
    assert!(fails(&lab, "state", 69).contains(lab.state_dir().to_str().unwrap()));
    assert!(fails(&lab, "stop t", 69).contains("has ended"));
    assert_eq!(verb(&lab, "health t").status.code(), Some(1));
}

#[test]
fn wait_for_exit_ends_with_the_agents_code() {
    let lab = Lab::new();
    let policy = lab.write("policy.toml", "[policy]\nno_retry = [7]\n");
    let agent = ["sh", "-c", "echo READY; read line; exit 7"];
    let sup = Launch::run(&lab, agent).with(["--config", &policy, "--on-halt", "wait"]).start();
    sup.wait_for_output("READY");
    let mut waits = command(&lab, "wait --for exit").stdout(Stdio::null()).spawn().expect("agentsup runs");
    assert!(waits.try_wait().expect("our child").is_none());
    let typed = command(&lab, "inject").arg("\r").output().expect("agentsup runs");
    assert!(typed.status.success(), "{typed:?}");
    assert_eq!(waits.wait().expect("our child").code(), Some(7));
    assert_eq!(verb(&lab, "pid").status.code(), Some(1), "none runs");
    let late = fails(&lab, "wait --for ready --timeout 50ms", 124);
    assert_eq!(late, "agentsup: the agent was not ready within 50ms (TIMEOUT)\n");
    says(&lab, "stop");
    sup.end().assert_code(7);
}

#[test]
fn halted_without_a_terminal_resume_goes_on() {
    let lab = Lab::new();
    let policy = lab.write("policy.toml", "[policy]\nno_retry = [5]\n");
    let agent = format!("test -e {0} && exec {FAKE} wait; touch {0}; exit 5", lab.text("second"));
    let options = ["--config", &policy, "--on-halt", "wait"];
    let sup = Launch::run(&lab, ["sh", "-c", &agent]).with(options).start();
    sup.wait_for("halted");
    says(&lab, "wait --for halted");
    assert!(verb(&lab, "health").stdout.starts_with(b"unhealthy: halted"));
    // As the halt message tells the operator to.
    sup.wait_for_stderr(&format!("agentsup resume {SESSION}"));
    let pid = says(&lab, &format!("resume {SESSION}"));
    assert_eq!(says(&lab, "pid"), pid);
    says(&lab, "stop --now");
    sup.end();
}

#[test]
fn a_supervisor_that_hangs_never_hangs_the_client() {
    let lab = Lab::new();
    let sup = waiting(&lab);
    sup.signal(libc::SIGSTOP);
    let began = Instant::now();
    assert!(fails(&lab, "state --timeout 200ms", 124).contains("no answer within 200ms"));
    assert!(fails(&lab, "restart --timeout 200ms", 69).contains("silent"));
    let health = verb(&lab, "health --timeout 200ms");
    assert_eq!(health.status.code(), Some(1));
    assert!(health.stdout.starts_with(b"unhealthy: no answer within 200ms;"), "{health:?}");
    assert_eq!(json(&lab, "ls --json")[0]["health"], "silent");
    assert!(began.elapsed() < support::LIMIT);
    let began = Instant::now();
    assert!(fails(&lab, "wait --for ready --timeout 200ms", 124).contains("no answer within 200ms"));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    sup.signal(libc::SIGCONT);
    // What had been given up is not done later.
    assert_eq!(json(&lab, "state --json")["restart_count"], 0);
    says(&lab, "stop");
    sup.end();
}

#[test]
fn events_go_on_after_a_reconnect_without_a_gap() {
    let lab = Lab::new();
    let sup = waiting(&lab);
    let follow = |since: u64| {
        let line = format!("events --json -f --since {since}");
        let mut child = command(&lab, &line).stdout(Stdio::piped()).spawn().expect("agentsup runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let seqs = lines.map_while(Result::ok).filter_map(|line| {
            let frame: Value = serde_json::from_str(&line).expect("JSON");
            frame["event"]["seq"].as_u64()
        });
        (child, seqs)
    };
    let mut seen = 0;
    for _ in 0..3 {
        says(&lab, "restart");
        let (mut child, seqs) = follow(seen);
        for seq in seqs.take(5) {
            assert_eq!(seq, seen + 1);
            seen = seq;
        }
        child.kill().expect("our child");
        child.wait().expect("our child");
    }
    let (mut child, seqs) = follow(seen);
    says(&lab, "stop");
    assert!(seqs.last() > Some(seen));
    assert!(child.wait().expect("our child").success(), "the supervisor's end is the stream's");
    sup.end();
}

#[test]
fn following_ends_at_once_when_the_reader_has_gone() {
    let lab = Lab::new();
    let sup = waiting(&lab);
    says(&lab, "wait --for ready");
    let held = says(&lab, "events --json");
    let seqs = held.lines().filter_map(|line| {
        let frame: Value = serde_json::from_str(line).expect("JSON");
        frame["event"]["seq"].as_u64()
    });
    let last_but_one = seqs.max().expect("events") - 1;
    for line in [&format!("events -f --since {last_but_one}"), "logs -f -n 1", "events -f --json"] {
        let mut child = command(&lab, line).stdout(Stdio::piped()).spawn().expect("agentsup runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        lines.next().expect("a line").expect("text");
        drop(lines);
        // Nothing happens any more that could be written, and fail to be.
        let mut ended = None;
        eventually(&format!("{line} ends"), || {
            ended = child.try_wait().expect("our child");
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{line}");
    }
    says(&lab, "stop");
    sup.end();
}

#[test]
fn a_failure_is_json_too_where_that_was_asked_for() {
    let lab = Lab::new();
    for (line, code, word, lines) in [
        ("state --json --bogus", 2, "USAGE", 6),
        ("pause --timeout x --json", 2, "USAGE", 6),
        ("inject --json", 2, "USAGE", 6),
        ("ls --json --bogus", 2, "USAGE", 6),
        ("prune --bogus --json", 2, "USAGE", 6),
        ("state --json", 69, "NO_SUPERVISOR", 6),
        ("events --json", 69, "NO_SUPERVISOR", 1),
        ("logs --json --bogus", 2, "USAGE", 1),
    ] {
        let output = verb(&lab, line);
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), lines, "{line}: {text}");
        let error: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(error["error"]["code"], word, "{line}");
        let told = format!("agentsup: {}\n", error["error"]["message"].as_str().expect("a message"));
        assert_eq!(String::from_utf8(output.stderr).expect("text"), told, "{line}");
    }
    // Words that are TEXT ask for nothing.
    assert!(verb(&lab, "inject --bogus -- --json").stdout.is_empty());
}

#[test]
fn an_unknown_option_leads_to_the_help_that_lists_the_known() {
    let lab = Lab::new();
    for name in ["state", "ls", "run", "init", "explain"] {
        let told = fails(&lab, &format!("{name} --frobnicate x"), 2);
        let wanted = format!("agentsup: unknown option --frobnicate; `agentsup help {name}` lists them\n");
        assert_eq!(told, wanted);
    }
}

#[test]
fn a_stdout_that_cannot_be_written_is_1_for_every_verb() {
    let lab = Lab::new();
    let sup = waiting(&lab);
    says(&lab, "wait --for ready");
    for line in
        ["state", "state --json", "events", "logs --json", "health", "ls", "help state", "explain true"]
    {
        let full = std::fs::File::create("/dev/full").expect("Linux has it");
        let output = command(&lab, line).stdout(full).output().expect("agentsup runs");
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        assert!(output.stderr.starts_with(b"agentsup: cannot write to stdout: "), "{line}: {output:?}");
    }
    says(&lab, "stop");
    sup.end();
}

#[test]
fn what_is_no_socket_is_called_so() {
    let lab = Lab::new();
    let (file, dir) = (lab.write("file", ""), lab.dir("dir"));
    for path in [file.as_str(), dir.as_ref()] {
        assert!(fails(&lab, &format!("state --socket {path}"), 69).ends_with(": it is no socket\n"));
    }
}

#[test]
fn the_help_teaches_what_works() {
    let lab = Lab::new();
    assert!(says(&lab, "inject --help").contains("\n  printf 'hello\\r' | agentsup inject -\n"));
    let health = says(&lab, "health --help");
    let (_, codes) = health.split_once("Exit codes: 0 when healthy, or\n").expect("its codes");
    let (codes, _) = codes.split_once("\n\n").expect("more behind them");
    let codes: Vec<&str> = codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes, ["1", "2"]);
    // Each mode that the complaint offers, in the help too.
    let help = says(&lab, "run --help");
    let complaint = fails(&lab, "run --socket-mode 0755 true", 2);
    let words = complaint.split(|c: char| !c.is_ascii_digit());
    let modes: Vec<&str> = words.filter(|word| word.len() == 4 && *word != "0755").collect();
    assert_eq!(modes.len(), 4);
    let (_, at) = help.split_once("--socket-mode").expect("the option");
    let (at, _) = at.split_once("--socket-group").expect("the next option");
    assert!(modes.iter().all(|mode| at.contains(mode)), "{modes:?}: {at}");
}

/// Supervisors by the dozen, without a thread for each of their pipes.
struct Crowd(Vec<Child>);

impl Crowd {
    fn start(lab: &Lab, n: usize) -> Crowd {
        let one = |n: usize| {
            let mut command = command(lab, &format!("run --session s{n} -- {FAKE} wait"));
            sys::own_session(&mut command);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("agentsup runs")
        };
        Crowd((0..n).map(one).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &self.0 {
            sys::kill(child.id() as i32, libc::SIGCONT);
            sys::kill(child.id() as i32, libc::SIGTERM);
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

#[test]
fn ls_is_quick_with_a_crowd_and_prune_takes_only_the_dead() {
    let lab = Lab::new();
    let n = count(40, 200);
    let mut crowd = Crowd::start(&lab, n);
    let rows = || json(&lab, "ls --json").as_array().expect("an array").clone();
    eventually("all run", || rows().iter().filter(|row| row["phase"] == "running").count() == n);

    let hung = &crowd.0[n / 2];
    sys::kill(hung.id() as i32, libc::SIGSTOP);
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let rows = rows();
        quickest = quickest.min(began.elapsed());
        assert_eq!(rows.len(), n);
        assert_eq!(rows.iter().filter(|row| row["health"] == "healthy").count(), n - 1);
        assert_eq!(rows.iter().filter(|row| row["health"] == "silent").count(), 1);
    }
    // The hung one alone takes half a second.
    assert!(quickest < Duration::from_secs(1), "{quickest:?} with {n} sessions");

    for child in &mut crowd.0[..5] {
        child.kill().expect("our child");
        child.wait().expect("our child");
    }
    let pruned = json(&lab, "prune --json");
    assert_eq!(pruned.as_array().map(Vec::len), Some(5), "{pruned}");
    assert_eq!(rows().len(), n - 5);
    assert!(!exists(&lab.path("state/supervisor/s0.sock")) && exists(&lab.path("state/logs/s0.log")));
    assert!(fails(&lab, "state", 2).contains("choose one of them"));
    assert!(exists(&lab.path(&format!("state/supervisor/s{}.sock", n / 2))), "hung is not dead");
    let table = command(&lab, "ls").env("COLUMNS", "80").output().expect("agentsup runs").stdout;
    for line in String::from_utf8(table).expect("text").lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn without_a_socket_nobody_is_asked_and_a_wait_would_never_end() {
    let lab = Lab::new();
    let refused = Launch::run(&lab, [FAKE, "wait"]).with(["--no-socket", "--on-halt", "wait"]).end();
    refused.assert_code(78);
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--no-socket"]).start();
    sup.wait_for_output("READY");
    sup.wait_for("state_changed from=starting");
    assert!(fails(&lab, "state t", 69).contains("no control socket"));
    assert_eq!(json(&lab, "ls --json")[0]["live"], true);
    assert_eq!(says(&lab, "prune"), "nothing to remove\n");
    sup.signal(libc::SIGTERM);
    sup.end();
}
