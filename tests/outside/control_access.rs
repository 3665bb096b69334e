//! Whose a session is, and who may do what.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::caller::{self, Framing, pid_of, socket, stop, waiting};
use crate::support::{Caller, FAKE, Lab, Launch, Place, SESSION, count, eventually, exists, procfs};
use serde_json::json;

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
fn sessions_with_different_groups_are_each_reachable_for_their_own() {
    if !nix::unistd::geteuid().is_root() || !exists(Path::new(PYTHON)) {
        eprintln!("SKIPPED: only root can be somebody else, who then needs {PYTHON}");
        return;
    }
    let lab = Lab::new();
    let of = |id: &'static str, group: &'static str| {
        let launch = match id {
            SESSION => Launch::run(&lab, [FAKE, "wait"]),
            id => Launch::session(&lab, id, [FAKE, "wait"]),
        };
        let sup = launch.with(["--socket-group", group]).start();
        sup.wait_for_output("READY");
        sup
    };
    let first = of("first", "54321");
    let mode = |dir: &str| std::fs::metadata(lab.path(dir)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("state"), mode("state/supervisor")), (0o750, 0o750));
    let second = of(SESSION, "54322");
    assert_eq!((mode("state"), mode("state/supervisor")), (0o751, 0o751));
    assert_eq!(mode("state/logs"), 0o700);
    eventually("it can be asked", || exists(&socket(&lab)));
    assert!(as_stranger(&lab, "54322").starts_with("ping ok\n"), "{}", as_stranger(&lab, "54322"));
    for group in ["54321", "54323"] {
        assert!(as_stranger(&lab, group).contains("Permission denied"), "{group}");
    }
    for entry in std::fs::read_dir(lab.path("state/supervisor")).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{:?}", entry.path());
    }
    for sup in [first, second] {
        sup.signal(libc::SIGTERM);
        sup.end().assert_code(143);
    }
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
    let second = Launch::run(&lab, [FAKE, "wait"]).start().end();
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
        let both = [(); 2].map(|()| Launch::run(&lab, [FAKE, "wait"]).start());
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
