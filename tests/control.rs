//! Issue point 3 and DESIGN §6: the control socket, asked from outside by a client of the test's own.

mod support;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::caller::{self, Framing, socket};
use support::{Caller, FAKE, Lab, Launch, Place, Running, count, eventually, exists, procfs, sys};

fn start(lab: &Lab, words: &[&str]) -> Running {
    Launch::run(lab, words).start()
}

/// A supervisor whose agent waits, and a caller.
fn waiting(lab: &Lab) -> (Running, Caller) {
    let sup = start(lab, &[FAKE, "wait"]);
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

/// Transient failures wait for a minute; code 5 halts at once.
fn slow_policy(lab: &Lab) -> String {
    lab.write("policy.toml", "[policy]\ntransient_wait = \"60s\"\nno_retry = [5]\n")
}

fn pid_of(reply: &Value) -> i32 {
    reply["pid"].as_i64().unwrap_or_else(|| panic!("no pid in {reply}")) as i32
}

fn stop(sup: Running, caller: &mut Caller) -> support::Ended {
    assert_eq!(caller.get("stop", json!({}))["already"], false);
    sup.end()
}

#[test]
fn every_method_answers_through_both_framings() {
    for framing in [Framing::Lines, Framing::Prefixed] {
        let lab = Lab::new();
        let sup = start(&lab, &[FAKE, "echo-raw"]);
        sup.wait_for_output("READY");
        let mut caller = Caller::at(&socket(&lab), framing);

        let pong = caller.get("ping", json!({}));
        assert_eq!((&pong["session"], &pong["protocol"]), (&json!("t"), &json!(1)));
        let pid = pid_of(&caller.wait_for("ready"));
        assert_eq!(pid_of(&caller.get("pid", json!({}))), pid);
        let state = caller.get("state", json!({"why": true, "deep": true}));
        assert_eq!(
            (&state["running"], &state["pid"], &state["phase"], &state["health"], &state["activity"]),
            (&json!(true), &json!(pid), &json!("running"), &json!("healthy"), &json!("unknown"))
        );
        assert_eq!((&state["zombies"], &state["tree"]["processes"]), (&json!(0), &json!(1)), "{state}");
        assert!(state["why"].as_array().is_some_and(|why| !why.is_empty()), "{state}");
        assert!(caller.state().get("tree").is_none(), "only when asked for");

        assert_eq!(caller.get("inject", json!({"bytes": "aGVsbG8="}))["n"], 5);
        sup.wait_for_output("hello");
        caller.get("interrupt", json!({}));
        sup.wait_for_output("\u{3}");
        caller.get("pause", json!({}));
        assert_eq!(caller.state()["activity"], "paused");
        assert_eq!(pid_of(&caller.get("resume", json!({}))), pid);
        let stats = caller.get("stats", json!({}));
        assert_eq!((&stats["input_bytes"], &stats["callers"]), (&json!(6), &json!(1)), "{stats}");
        assert!(stats["output_bytes"].as_u64() >= Some(5 + 6), "{stats}");
        let metrics = caller.get("metrics", json!({}));
        assert!(metrics["text"].as_str().unwrap().contains("\nagentsup_restarts_total 0\n"), "{metrics}");
        assert_eq!(caller.refusal("wait", json!({"for": "idle"})), "UNSUPPORTED");
        assert_eq!(caller.refusal("wait", json!({"for": "halted", "timeout_ms": 1})), "TIMEOUT");

        for (method, key) in [("events", "event"), ("logs", "line")] {
            let first = caller.get(method, json!({}));
            assert_eq!(first["start"], true, "{first}");
            let mut frames = 0;
            loop {
                let frame = caller.receive().expect("a stream ends with its end");
                if frame["end"] == true {
                    break;
                }
                assert!(frame.get(key).is_some(), "{frame}");
                frames += 1;
            }
            assert!(frames > 5, "{method}: {frames}");
        }
        let new = pid_of(&caller.get("restart", json!({"mode": "fresh"})));
        assert_ne!(new, pid);
        stop(sup, &mut caller).assert_code(143);
        assert_eq!(caller.receive(), None);
        assert!(!exists(&socket(&lab)), "removed on an orderly exit");
    }
}

/// What a program prints that is given lines on stdin; `None`, said loudly, where it is missing.
fn by_pipe(program: &str, words: &[&str], lines: &str) -> Option<Vec<Value>> {
    let child = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{program}: {error}");
            eprintln!("SKIPPED: no {program} on this machine");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let replies = String::from_utf8(output.stdout).unwrap();
    Some(replies.lines().map(|line| serde_json::from_str(line).expect("a reply is a line")).collect())
}

#[test]
fn the_line_framing_needs_no_client_but_socat_or_nc() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "echo-raw"]);
    sup.wait_for_output("READY");
    Caller::of(&lab).wait_for("ready");
    let path = socket(&lab).into_os_string().into_string().unwrap();
    let address = format!("UNIX-CONNECT:{path}");
    let calls = [
        ("ping", "{}"),
        ("state", r#"{"deep":true}"#),
        ("pid", "{}"),
        ("wait", r#"{"for":"ready"}"#),
        ("interrupt", "{}"),
        ("inject", r#"{"bytes":"YQ=="}"#),
        ("pause", "{}"),
        ("resume", "{}"),
        ("screen", r#"{"ansi":true}"#),
        ("stats", "{}"),
        ("metrics", "{}"),
        ("restart", r#"{"mode":"fresh"}"#),
        ("events", "{}"),
        ("logs", r#"{"lines":3}"#),
    ];
    let lines: String = calls
        .map(|(method, params)| {
            format!("{{\"id\":\"{method}\",\"method\":\"{method}\",\"params\":{params}}}\n")
        })
        .concat();
    for (program, words) in
        [("socat", &["-t", "20", "-", &address][..]), ("nc", &["-N", "-w", "20", "-U", &path][..])]
    {
        let Some(replies) = by_pipe(program, words, &lines) else { continue };
        for (method, _) in calls {
            let own: Vec<_> = replies.iter().filter(|reply| reply["id"] == method).collect();
            assert!(!own.is_empty() && own.iter().all(|reply| reply["ok"] == true), "{program}: {own:?}");
        }
    }
    let stop = "{\"method\":\"stop\"}\n";
    if let Some(replies) = by_pipe("socat", &["-t", "20", "-", &address], stop) {
        assert_eq!(replies, [json!({"ok": true, "already": false})]);
    } else {
        Caller::of(&lab).get("stop", json!({}));
    }
    sup.end().assert_code(143);
}

#[test]
fn a_restart_answers_with_the_agent_that_really_runs_and_counts_as_no_failure() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    for n in 1..=7 {
        let before = pid_of(&caller.get("pid", json!({})));
        let after = pid_of(&caller.get("restart", json!({})));
        assert!(!procfs::alive(before) && procfs::alive(after));
        assert_eq!(pid_of(&caller.get("pid", json!({}))), after);
        let state = caller.state();
        assert_eq!((&state["restart_count"], &state["health"]), (&json!(n), &json!("healthy")), "{state}");
        assert_eq!((&state["exits"][0]["class"], &state["last_exit"]), (&json!("asked"), &json!(143)));
    }
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn two_restarts_at_once_are_one() {
    let lab = Lab::new();
    let (sup, mut one) = waiting(&lab);
    let mut two = Caller::of(&lab);
    for caller in [&mut one, &mut two] {
        caller.send(&json!({"method": "restart"}));
    }
    let pids = [&mut one, &mut two].map(|caller| pid_of(&caller.receive().expect("an answer")));
    // The second may have come after the first was done.
    let restarts = one.state()["restart_count"].as_u64().unwrap();
    assert_eq!(pids[0] == pids[1], restarts == 1, "{pids:?}, {restarts} restarts");
    stop(sup, &mut one).assert_code(143);
}

#[test]
fn a_restart_cuts_a_backoff_short_and_a_stop_ends_it() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "exit", "1"]).with(["--config", &slow_policy(&lab)]).start();
    let mut caller = Caller::of(&lab);
    let state = caller.until_phase("backoff");
    assert_eq!((&state["running"], &state["pid"]), (&json!(false), &Value::Null));
    assert_eq!(state["wake"]["why"], "restart", "{state}");
    assert_eq!(caller.refusal("pid", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("pause", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("interrupt", json!({})), "NOT_RUNNING");
    assert_eq!(caller.refusal("inject", json!({"bytes": ""})), "NOT_RUNNING");
    assert_eq!(caller.refusal("resume", json!({})), "NOT_HALTED");
    assert!(pid_of(&caller.get("restart", json!({}))) > 0);
    assert_eq!(caller.until_phase("backoff")["restart_count"], 1);
    stop(sup, &mut caller).assert_code(1);
}

#[test]
fn a_halted_supervisor_is_resumed_or_restarted() {
    let lab = Lab::new();
    let options = ["--config", &slow_policy(&lab), "--on-halt", "wait"];
    let sup = Launch::run(&lab, [FAKE, "exit", "5"]).with(options).start();
    let mut caller = Caller::of(&lab);
    for (n, method) in ["resume", "restart", "resume"].iter().enumerate() {
        let halted = caller.wait_for("halted");
        assert_eq!((&halted["reason"], &halted["code"]), (&json!("halted"), &json!(5)));
        assert_eq!(caller.wait_for("exit")["code"], 5);
        let state = caller.state();
        assert_eq!((&state["phase"], &state["restart_count"]), (&json!("halted"), &json!(n)));
        assert!(pid_of(&caller.get(method, json!({}))) > 0);
    }
    caller.until_phase("halted");
    stop(sup, &mut caller).assert_code(5);
}

#[test]
fn a_stop_is_answered_first_and_a_second_one_is_no_hurry() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "ignore", "15"]).with(["--grace", "60s"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    assert_eq!(caller.get("stop", json!({}))["already"], false);
    caller.until_phase("stopping");
    assert_eq!(caller.get("stop", json!({}))["already"], true);
    for method in ["restart", "resume", "pause"] {
        assert_eq!(caller.refusal(method, json!({})), "STOPPING", "{method}");
    }
    assert_eq!(caller.refusal("wait", json!({"for": "ready"})), "STOPPING");
    assert_eq!(caller.state()["phase"], "stopping");
    let mut waits = Caller::of(&lab);
    waits.send(&json!({"method": "wait", "params": {"for": "exit"}}));
    assert_eq!(caller.get("stop", json!({"graceful": false}))["already"], true);
    sup.end().assert_code(137);
    assert_eq!(waits.receive().expect("answered before the end")["code"], 137);
}

#[test]
fn a_stop_by_a_caller_makes_no_hurry_of_the_signal_that_follows() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "ignore", "15"]).with(["--grace", "60s"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.get("stop", json!({}));
    // As an orchestrator does after its own hook.
    sup.signal(libc::SIGTERM);
    sup.log.wait_for("signal_received");
    assert!(pid_of(&caller.get("pid", json!({}))) > 0, "the agent still has its grace");
    caller.get("stop", json!({"graceful": false}));
    sup.end().assert_code(137);
}

#[test]
fn a_spawn_that_fails_is_told_to_whoever_asked() {
    let lab = Lab::new();
    let agent = lab.write("agent", "#!/bin/sh\necho READY\nexec sleep 1000\n");
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();
    let sup = start(&lab, &[&agent]);
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    std::fs::remove_file(&agent).unwrap();
    let reply = caller.ask("restart", json!({}));
    assert_eq!(reply["error"]["code"], "SPAWN_FAILED", "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("agent"), "{reply}");
    caller.until_phase("backoff");
    stop(sup, &mut caller);
}

#[test]
fn a_pause_stops_the_whole_tree_and_a_resume_lets_it_go_on() {
    let lab = Lab::new();
    let file = lab.text("pids");
    let sup = start(&lab, &[FAKE, "tree", &file]);
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    lab.wait_for_file("pids", "\n");
    let all = || procfs::descendants(sup.pid());
    eventually("the tree is complete", || all().len() == 5);
    for _ in 0..2 {
        caller.get("pause", json!({}));
        eventually("all stand still", || all().iter().all(|p| p.state == 'T'));
    }
    assert_eq!(caller.state()["activity"], "paused");
    assert_eq!(caller.state()["phase"], "running");
    caller.get("resume", json!({}));
    eventually("all go on", || all().iter().all(|p| p.state != 'T'));
    assert_eq!(caller.refusal("resume", json!({})), "NOT_HALTED");

    caller.get("pause", json!({}));
    let before = pid_of(&caller.get("pid", json!({})));
    assert_ne!(pid_of(&caller.get("restart", json!({}))), before);
    assert_eq!(caller.state()["activity"], "unknown");
    eventually("nobody is left standing", || all().iter().all(|p| p.state != 'T'));
    caller.get("pause", json!({}));
    let began = Instant::now();
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
    assert!(began.elapsed() < Duration::from_secs(5), "a frozen agent acts on TERM");
}

#[test]
fn under_inherit_nothing_can_be_typed() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--io", "inherit"]).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    assert_eq!(caller.refusal("inject", json!({"bytes": "YQ=="})), "NO_PTY");
    assert_eq!(caller.refusal("interrupt", json!({})), "NO_PTY");
    assert_eq!(caller.refusal("screen", json!({})), "NO_PTY");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn what_an_agent_does_not_read_is_refused_as_a_whole() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "echo-raw"]);
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    // Nobody reads: the kernel's buffer and ours fill up.
    caller.get("pause", json!({}));
    let piece = json!({"bytes": "YWFh".repeat(10_000)});
    let full = (0..20).find(|_| caller.ask("inject", piece.clone())["error"]["code"] == "INPUT_FULL");
    assert!(full.is_some());
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_wait_for_exit_has_the_agents_code_also_for_a_caller_that_will_not_speak_again() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "exit", "7", "--after", "500"]);
    let mut caller = Caller::of(&lab);
    caller.send(&json!({"method": "wait", "params": {"for": "ready"}}));
    caller.send(&json!({"method": "wait", "params": {"for": "exit"}, "id": 2}));
    caller.half_close();
    assert!(pid_of(&caller.receive().unwrap()) > 0);
    // By default a failure is tried again, so that exit is none.
    let mut other = Caller::of(&lab);
    other.until_phase("backoff");
    stop(sup, &mut other).assert_code(7);
    assert_eq!(caller.receive(), Some(json!({"id": 2, "ok": true, "reason": "exit", "code": 7})));
    assert_eq!(caller.receive(), None);
}

#[test]
fn a_stale_socket_is_replaced_at_once() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let first = caller.state()["supervisor_pid"].clone();
    sup.signal(libc::SIGKILL);
    sup.end();
    assert_eq!(caller.receive(), None);
    assert!(exists(&socket(&lab)), "nobody was there to remove it");
    let (sup, mut caller) = waiting(&lab);
    assert_ne!(caller.state()["supervisor_pid"], first);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_second_supervisor_is_refused_and_the_first_is_not_touched() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let second = start(&lab, &[FAKE, "wait"]).end();
    second.assert_code(78);
    let pid = sup.pid();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    for part in [format!("pid={pid}"), format!("host={host}"), "since=".to_owned()] {
        assert!(second.stderr.contains(&part), "{part}: {second}");
    }
    assert_eq!(caller.state()["supervisor_pid"], pid);
    assert_eq!(Caller::of(&lab).state()["supervisor_pid"], pid);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn of_two_started_at_the_same_moment_exactly_one_wins() {
    for round in 0..count(20, 200) {
        let lab = Lab::new();
        let both = [(); 2].map(|()| start(&lab, &[FAKE, "wait"]));
        eventually("one has lost", || both.iter().filter(|s| s.is_running()).count() == 1);
        let mut caller = Caller::of(&lab);
        let winner = caller.wait_for("ready");
        assert!(procfs::alive(pid_of(&winner)));
        caller.get("stop", json!({}));
        let mut codes = both.map(|sup| sup.end().status.code());
        codes.sort_unstable();
        assert_eq!(codes, [Some(78), Some(143)], "round {round}");
        assert!(!exists(&socket(&lab)));
    }
}

#[test]
fn a_state_dir_deeper_than_an_address_is_long_works() {
    let lab = Lab::new();
    let deep = lab.dir(&format!("{}/{}", "d".repeat(90), "e".repeat(90)));
    let sup = Launch::run(&lab, [FAKE, "wait"]).with_state_in(&deep).start();
    let path = Path::new(&deep).join("supervisor/t.sock");
    let mut caller = Caller::at(&path, Framing::Prefixed);
    caller.wait_for("ready");
    stop(sup, &mut caller).assert_code(143);
    assert!(!exists(&path));
}

#[test]
fn the_socket_never_has_a_wider_mode_than_asked() {
    let lab = Lab::new();
    for _ in 0..count(10, 50) {
        let umask = ["sh", "-c", "umask 0; exec \"$@\"", "sh"].map(Into::into).to_vec();
        let sup = Launch::run(&lab, [FAKE, "wait"]).wrapped_in(umask).start();
        let path = socket(&lab);
        let mut looks = 0;
        eventually("it can be called", || {
            if let Ok(meta) = std::fs::symlink_metadata(&path) {
                looks += 1;
                assert_eq!(meta.permissions().mode() & 0o777, 0o600);
            }
            looks > 0 && caller::connect(&path).is_ok()
        });
        stop(sup, &mut Caller::of(&lab));
    }
}

/// What a process does that is told a socket and a file: it asks, and writes down the answers.
const ASKS: &str = r#"
import json, os, socket, sys
def ask():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["AGENTSUP_SOCKET"])
    f = s.makefile("rw")
    said = []
    for call in sys.argv[2:]:
        f.write('{"method":"%s","params":%s}\n' % tuple(call.split("=", 1)))
        f.flush()
        reply = json.loads(f.readline())
        said.append("ok" if reply["ok"] else reply["error"]["code"])
    with open(sys.argv[1], "a") as out:
        out.write(" ".join(said) + "\n")
ask()
r, w = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.close(w)
        os.read(r, 1)
        ask()
    os._exit(0)
os.wait()
os.close(w)
import time
time.sleep(1000)
"#;

#[test]
fn an_agents_own_tree_may_report_but_not_steer() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let script = lab.write("asks.py", ASKS);
        let file = lab.text("said");
        let calls = [
            "ping={}",
            "state={}",
            "pid={}",
            "stop={}",
            "restart={}",
            "inject={\"bytes\":\"\"}",
            "events={}",
        ];
        let words = [&["python3", &script, &file][..], &calls].concat();
        let sup = Launch::run(&lab, words).at(place).start();
        eventually("both have been answered", || lab.read("said").lines().count() == 2);
        let denied = "ok ok ok FORBIDDEN FORBIDDEN FORBIDDEN FORBIDDEN\n";
        assert_eq!(lab.read("said"), denied.repeat(2), "{place:?}");
        let told = sup.log.events("control_denied");
        assert_eq!(told.len(), 8, "{told:?}");
        for part in ["method=stop", "role=agent", "uid=", "pid="] {
            assert!(told[0].contains(part), "{told:?}");
        }
        sup.signal(libc::SIGTERM);
        sup.end();
    }
}

#[test]
fn another_supervisors_agent_is_a_peer() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let script = lab.write("asks.py", ASKS);
    let file = lab.text("said");
    // Its own socket is not the one it asks.
    let line = "AGENTSUP_SOCKET=\"$1\" exec python3 \"$2\" \"$3\" ping={} state={} pid={} stop={}";
    let path = socket(&lab);
    let words = ["sh", "-c", line, "sh", path.to_str().unwrap(), &script, &file];
    let other = Launch::session(&lab, "other", words).start();
    eventually("both have been answered", || lab.read("said").lines().count() == 2);
    assert_eq!(lab.read("said"), "ok ok FORBIDDEN FORBIDDEN\n".repeat(2));
    assert!(sup.log.events("control_denied").iter().all(|line| line.contains("role=peer")));
    other.signal(libc::SIGTERM);
    other.end();
    stop(sup, &mut caller).assert_code(143);
}

/// Prints what a caller of another uid and group is told.
const STRANGER: &str = r#"
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
except OSError as error:
    sys.exit(error.strerror)
f = s.makefile("rw")
for method in "ping state pid stats metrics restart stop pause interrupt".split():
    f.write('{"method":"%s"}\n' % method)
    f.flush()
    reply = json.loads(f.readline())
    print(method, "ok" if reply["ok"] else reply["error"]["code"])
"#;

/// One that everybody may run.
const PYTHON: &str = "/usr/bin/python3";

fn as_stranger(lab: &Lab, group: &str) -> String {
    let path = socket(lab);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", &format!("--regid={group}"), "--clear-groups", PYTHON, "-c", STRANGER])
        .arg(&path)
        .output()
        .expect("setpriv");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn another_uid_is_let_in_by_the_group_and_may_only_look() {
    if !nix::unistd::geteuid().is_root() || !exists(Path::new(PYTHON)) {
        eprintln!("SKIPPED: only root can be somebody else, who then needs {PYTHON}");
        return;
    }
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    assert!(as_stranger(&lab, "54321").contains("Permission denied"));
    stop(sup, &mut caller);

    let options = ["--socket-mode", "0660", "--socket-group", "54321"];
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(options).start();
    let mut caller = Caller::of(&lab);
    caller.wait_for("ready");
    let may = "ping ok\nstate ok\npid ok\nstats ok\nmetrics ok\n";
    let may_not = ["restart", "stop", "pause", "interrupt"].map(|m| format!("{m} FORBIDDEN\n")).concat();
    assert_eq!(as_stranger(&lab, "54321"), format!("{may}{may_not}"));
    assert!(as_stranger(&lab, "54322").contains("Permission denied"));
    let told = sup.log.events("control_denied");
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().all(|line| line.contains("role=observer uid=65534")), "{told:?}");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn without_a_socket_there_is_none() {
    let lab = Lab::new();
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--no-socket"]).start();
    sup.wait_for_output("READY");
    assert!(!exists(&socket(&lab)));
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
}

fn frames_until_end(caller: &mut Caller) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let frame = caller.receive().expect("the end comes first");
        if frame["end"] == true {
            return frames;
        }
        frames.push(frame);
    }
}

fn seqs(frames: &[Value]) -> Vec<u64> {
    frames.iter().map(|f| f["event"]["seq"].as_u64().unwrap_or_else(|| panic!("{f}"))).collect()
}

#[test]
fn events_resume_after_a_reconnect_without_a_gap() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    caller.get("events", json!({}));
    let held = frames_until_end(&mut caller);
    let newest = held.len() as u64;
    assert_eq!(seqs(&held), (1..=newest).collect::<Vec<_>>());
    assert_eq!(held[0]["event"]["name"], "session_start");

    let mut follower = Caller::of(&lab);
    assert_eq!(follower.get("events", json!({"follow": true}))["newest"], newest);
    caller.get("inject", json!({"bytes": "YQ=="}));
    let event = follower.receive().unwrap();
    assert_eq!(
        (&event["event"]["name"], &event["event"]["seq"], &event["event"]["fields"]["count"]),
        (&json!("inject"), &json!(newest + 1), &json!("1"))
    );
    drop(follower);
    // A number of another life counts as none.
    caller.get("events", json!({"since": 1_000_000}));
    assert_eq!(seqs(&frames_until_end(&mut caller))[0], 1);
    caller.get("restart", json!({}));
    let mut again = Caller::of(&lab);
    again.get("events", json!({"since": newest + 1, "follow": true}));
    let names: Vec<_> = (0..3).map(|_| again.receive().unwrap()).collect();
    assert_eq!(seqs(&names), [newest + 2, newest + 3, newest + 4]);
    assert_eq!(names[0]["event"]["name"], "user_action");
    caller.get("stop", json!({}));
    sup.end();
    let mut last = Value::Null;
    while let Some(frame) = again.receive() {
        last = frame;
    }
    assert_eq!(last["event"]["name"], "shutdown", "a follower sees the end");
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_many_it_missed() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let mut slow = Caller::of(&lab);
    let newest = slow.get("events", json!({"follow": true}))["newest"].as_u64().unwrap();
    let more = 8_000;
    for _ in 0..more / 100 {
        for _ in 0..100 {
            caller.send(&json!({"method": "inject", "params": {"bytes": ""}}));
        }
        for _ in 0..100 {
            assert_eq!(caller.receive().unwrap()["ok"], true);
        }
    }
    let (mut expected, mut dropped) = (newest + 1, 0);
    while expected <= newest + more {
        let frame = slow.receive().expect("it is told, not closed");
        match frame["dropped"].as_u64() {
            Some(n) => {
                dropped += n;
                expected += n;
            }
            None => {
                assert_eq!(frame["event"]["seq"], expected);
                expected += 1;
            }
        }
    }
    assert!(dropped > 0);
    assert!(procfs::peak_kib(sup.pid()) < 16 * 1024);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn logs_are_followed_without_gap_or_repetition() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    for lines in [0, 3, 100_000] {
        caller.get("logs", json!({"lines": lines}));
        let got: Vec<_> =
            frames_until_end(&mut caller).iter().map(|f| f["line"].as_str().unwrap().to_owned()).collect();
        let all = sup.log.lines();
        assert_eq!(got, all[all.len().saturating_sub(lines)..]);
    }
    let mut follower = Caller::of(&lab);
    follower.get("logs", json!({"lines": 2, "follow": true}));
    caller.get("restart", json!({}));
    let from = sup.log.lines().len();
    stop_and_keep(sup, &mut caller);
    let mut got = Vec::new();
    while let Some(frame) = follower.receive() {
        got.push(frame["line"].as_str().unwrap().to_owned());
    }
    let all = support::log::Log::of(&lab.state_dir()).lines();
    assert!(got.len() > 2 && from > 0);
    assert_eq!(got, all[all.len() - got.len()..]);
    assert!(got.last().unwrap().contains("shutdown"));
}

fn stop_and_keep(sup: Running, caller: &mut Caller) {
    caller.get("stop", json!({}));
    sup.end();
}

/// Sends bytes and reads what comes back until the connection ends.
fn provoke(lab: &Lab, framing: Framing, bytes: &[u8]) -> Vec<Value> {
    let mut caller = Caller::at(&socket(lab), framing);
    // The supervisor may hang up before it has read everything.
    let _ = caller.stream.write_all(bytes);
    let _ = caller.stream.shutdown(std::net::Shutdown::Write);
    std::iter::from_fn(|| caller.receive()).collect()
}

#[test]
fn what_is_no_request_gets_a_clear_answer() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let deep = [b"[".repeat(60_000), b"\n".to_vec()].concat();
    let cases: [(&str, Framing, Vec<u8>); 10] = [
        ("TOO_LARGE", Framing::Prefixed, [&[0, 255, 255, 255][..], b"{}"].concat()),
        ("BAD_FRAME", Framing::Prefixed, vec![0, 0, 0, 0]),
        ("BAD_FRAME", Framing::Prefixed, vec![0, 0, 0, 9, b'{']),
        ("TOO_LARGE", Framing::Lines, vec![b'x'; 1024 * 1024]),
        ("BAD_JSON", Framing::Lines, deep),
        ("BAD_JSON", Framing::Lines, b"\xff\xfe\xfd\n".to_vec()),
        ("BAD_REQUEST", Framing::Lines, b"[1]\n".to_vec()),
        ("UNKNOWN_METHOD", Framing::Lines, b"{\"method\":\"reboot\"}\n".to_vec()),
        ("UNSUPPORTED", Framing::Lines, b"{\"method\":\"attach\"}\n".to_vec()),
        ("BAD_PARAMS", Framing::Lines, b"{\"method\":\"stop\",\"params\":{\"gracefull\":true}}\n".to_vec()),
    ];
    for (code, framing, bytes) in cases {
        let replies = provoke(&lab, framing, &bytes);
        assert_eq!(replies.len(), 1, "{code}: {replies:?}");
        assert_eq!(replies[0]["error"]["code"], code, "{replies:?}");
    }
    // A last line needs no newline.
    assert_eq!(provoke(&lab, Framing::Lines, b"{\"method\":\"ping\"}")[0]["ok"], true);
    // What went wrong before does not spoil the rest of a stream of lines.
    let replies = provoke(&lab, Framing::Lines, b"nonsense\n{\"method\":\"ping\"}\n");
    assert_eq!((&replies[0]["ok"], &replies[1]["ok"]), (&json!(false), &json!(true)));
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn who_talks_only_nonsense_is_closed() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let replies = provoke(&lab, Framing::Lines, &b"\xff nonsense\n".repeat(5000));
    assert_eq!(replies.len(), 8, "{replies:?}");
    assert!(replies.iter().all(|reply| reply["error"]["code"] == "BAD_JSON"));
    // A mistake now and then is none of that.
    let now_and_then = b"what?\n{\"method\":\"ping\"}\n".repeat(100);
    assert_eq!(provoke(&lab, Framing::Lines, &now_and_then).len(), 200);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn what_is_half_sent_by_everybody_together_has_a_limit() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let before = procfs::peak_kib(sup.pid());
    let half = [&[0, 1, 0, 0][..], &[b' '; 60_000]].concat();
    let held: Vec<_> = (0..250)
        .filter_map(|_| {
            let mut stream = caller::connect(&socket(&lab)).ok()?;
            stream.write_all(&half).ok().map(|()| stream)
        })
        .collect();
    eventually("who holds most is closed", || {
        caller.get("stats", json!({}))["callers_dropped"].as_u64() > Some(100)
    });
    drop(held);
    let grown = procfs::peak_kib(sup.pid()) - before;
    assert!(grown < 10 * 1024, "{grown} KiB");
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_frame_that_is_begun_must_be_finished() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let mut half = Caller::at(&socket(&lab), Framing::Prefixed);
    let began = Instant::now();
    half.send_raw(&[0, 0, 0, 20, b'{']);
    let reply = half.receive().expect("it is told why");
    assert_eq!(reply["error"]["code"], "BAD_FRAME", "{reply}");
    assert!(began.elapsed() >= Duration::from_secs(9));
    assert_eq!(half.receive(), None);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn one_connection_cannot_wait_for_everything() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    for n in 0..1000 {
        caller.send(&json!({"id": n, "method": "wait", "params": {"for": "halted"}}));
    }
    let reply = caller.receive().unwrap();
    assert_eq!(reply["error"]["code"], "TOO_MANY", "{reply}");
    drop(caller);
    stop(sup, &mut Caller::of(&lab)).assert_code(143);
}

fn open_files(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn hostile_callers_all_at_once_hold_up_nobody() {
    let lab = Lab::new();
    let sup = start(&lab, &[FAKE, "flood"]);
    let pid = sup.pid();
    let mut good = Caller::of(&lab);
    good.wait_for("ready");
    let files = open_files(pid);
    let path = socket(&lab);
    let deep = [b"[".repeat(100_000), b"\n".to_vec()].concat();
    let over = AtomicBool::new(false);
    let output = || good_output(&lab);
    let mut took = Vec::new();
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for its threads.
        let _ends = Ends(&over);
        let is_over = || over.load(Ordering::Relaxed);
        let (path, deep) = (&path, &deep);
        // Silent ones, held; the well-behaved caller asks often enough not to be the most silent.
        let silent: Vec<_> = (0..300).filter_map(|_| caller::connect(path).ok()).collect();
        for payload in [
            &deep[..],
            &[0, 255, 255, 255],
            &[0xff; 4096],
            &[0, 0, 1, 0, b'{'],
            b"{\"method\":\"events\",\"params\":{\"follow\":true}}\n",
        ] {
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                while !is_over() {
                    if let Ok(mut stream) = caller::connect(path) {
                        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                        let _ = stream.write_all(payload);
                        held.push_back(stream);
                    }
                    if held.len() > 20 {
                        held.pop_front();
                    }
                }
            });
        }
        for _ in 0..count(300, 2000) {
            let began = Instant::now();
            good.state();
            took.push(began.elapsed());
            sys::pause(Duration::from_millis(2));
        }
        drop(silent);
    });
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    let before = output();
    eventually("the agent's output flows", || output() > before);
    eprintln!("p99 of state: {p99:?}, worst {:?}", took.last());
    // The number is about a release; a debug build beside other tests only shows that nobody waits.
    let limit = if cfg!(debug_assertions) { 100 } else { 10 };
    assert!(p99 < Duration::from_millis(limit), "p99 of state: {p99:?}, worst {:?}", took.last());
    assert!(procfs::peak_kib(pid) < 16 * 1024, "{} KiB", procfs::peak_kib(pid));
    eventually("no descriptor leaks", || open_files(pid) <= files);
    let mut one_more = Caller::of(&lab);
    stop(sup, &mut one_more);
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn good_output(lab: &Lab) -> u64 {
    Caller::of(lab).get("stats", json!({}))["output_bytes"].as_u64().unwrap()
}

#[test]
fn at_the_limit_of_callers_one_more_gets_in() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    let silent: Vec<_> = (0..300).map(|_| caller::connect(&socket(&lab)).unwrap()).collect();
    let mut one_more = Caller::of(&lab);
    let stats = one_more.get("stats", json!({}));
    assert!(stats["callers"].as_u64() <= Some(256), "{stats}");
    assert!(stats["callers_dropped"].as_u64() >= Some(45), "{stats}");
    drop(one_more);
    let mut first = Caller::on(silent.into_iter().next().unwrap(), Framing::Lines);
    assert_eq!(first.receive().expect("it is told why")["error"]["code"], "TOO_MANY");
    assert_eq!(first.receive(), None);
    // Who has asked for something before is worth more than who never did, however long ago that was.
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn few_descriptors_are_enough_for_callers_and_for_the_agent() {
    let lab = Lab::new();
    let few = ["sh", "-c", "ulimit -n 40; exec \"$@\"", "sh"].map(Into::into).to_vec();
    let sup = Launch::run(&lab, [FAKE, "wait"]).wrapped_in(few).start();
    sup.wait_for_output("READY");
    let held: Vec<_> = (0..100).map(|_| caller::connect(&socket(&lab)).unwrap()).collect();
    let mut caller = Caller::of(&lab);
    assert!(pid_of(&caller.get("restart", json!({}))) > 0, "there are descriptors left for a pty");
    drop(held);
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn without_descriptors_the_listener_rests_and_recovers() {
    let lab = Lab::new();
    let (sup, caller) = waiting(&lab);
    drop(caller);
    let pid = sup.pid();
    let limit = |n: usize| {
        let done =
            Command::new("prlimit").args([format!("--pid={pid}"), format!("--nofile={n}:1024")]).status();
        assert!(done.expect("util-linux").success());
    };
    eventually("the caller is gone", || Command::new("true").status().is_ok());
    limit(3);
    let mut waits = Caller::of(&lab);
    let before = procfs::switches(pid);
    sys::pause(Duration::from_secs(2));
    assert!(procfs::switches(pid) - before < 20, "it rests");
    limit(1024);
    let began = Instant::now();
    waits.get("ping", json!({}));
    assert!(began.elapsed() < Duration::from_secs(3));
    stop(sup, &mut waits).assert_code(143);
}

#[test]
fn callers_that_say_nothing_wake_nobody() {
    let lab = Lab::new();
    let config = lab.write("quiet.toml", "[log]\njournald = false\n");
    let sup = Launch::run(&lab, [FAKE, "wait"]).with(["--config", &config]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(&lab);
    caller.get("events", json!({"follow": true}));
    caller.send(&json!({"method": "wait", "params": {"for": "exit"}}));
    let half = Caller::of(&lab);
    half.half_close();
    let pid = sup.pid();
    sys::pause(Duration::from_millis(500));
    let before = procfs::switches(pid);
    sys::pause(Duration::from_secs(2));
    assert_eq!(procfs::switches(pid), before);
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
}

#[test]
fn metrics_are_what_prometheus_expects() {
    let lab = Lab::new();
    let (sup, mut caller) = waiting(&lab);
    caller.refusal("resume", json!({}));
    let text = caller.get("metrics", json!({}))["text"].as_str().unwrap().to_owned();
    for line in [
        "agentsup_exits_total{class=\"clean\"} 0",
        "agentsup_control_calls_total{method=\"resume\",result=\"error\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match promtool {
        Ok(mut child) => {
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "promtool: {error}");
            eprintln!("SKIPPED: no promtool on this machine");
        }
    }
    stop(sup, &mut caller).assert_code(143);
}

#[test]
fn a_directory_that_cannot_hold_a_socket_is_refused_by_name() {
    let lab = Lab::new();
    // Something that cannot be replaced stands where the socket belongs.
    lab.dir("state/supervisor/t.sock/inside");
    let modes = std::fs::Permissions::from_mode(0o700);
    for dir in ["state", "state/supervisor"] {
        std::fs::set_permissions(lab.path(dir), modes.clone()).unwrap();
    }
    let ended = Launch::run(&lab, [FAKE, "wait"]).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("cannot hold a socket") && ended.stderr.contains("--dir"), "{ended}");
}
