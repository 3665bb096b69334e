//! DESIGN §10, systemd: readiness, status, watchdog, on a real datagram socket; and s6's descriptor.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use crate::support::{FAKE, LIMIT, Lab, Launch, Place};

/// A service manager's ears.
struct Ears {
    socket: UnixDatagram,
    path: String,
}

impl Ears {
    fn new(lab: &Lab) -> Ears {
        let path = lab.text("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Ears { socket, path }
    }

    fn next(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let size = self.socket.recv(&mut buffer).expect("it is told in time");
        let message = String::from_utf8(buffer[..size].to_vec()).unwrap();
        message.lines().map(str::to_owned).collect()
    }

    /// Up to the first message with such a line; the lines before it, and its own.
    fn until(&self, start: &str) -> (Vec<String>, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message.iter().any(|line| line.starts_with(start)) {
                return (before, message);
            }
            before.extend(message);
        }
    }
}

#[test]
fn systemd_is_told_of_every_change() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let ears = Ears::new(&lab);
        let config = lab.write("quick.toml", "[policy]\ntransient_wait = \"100ms\"\n");
        let count = lab.text("count");
        let sup = Launch::run(&lab, [FAKE, "crash-then", &count, "1", "3"])
            .with(["--config", &config])
            .env("NOTIFY_SOCKET", &ears.path)
            .at(place)
            .start();
        let (before, ready) = ears.until("READY=1");
        assert!(before.iter().all(|line| line.starts_with("STATUS=")), "{before:?}");
        let main =
            ready.iter().find_map(|line| line.strip_prefix("MAINPID=")).map(|pid| pid.parse().unwrap());
        // As PID 1 of a namespace the number would mean another process to who reads it.
        assert_eq!(main, (place == Place::Plain).then(|| sup.pid()), "{place:?}: {ready:?}");
        let (_, crashed) = ears.until("STATUS=backoff");
        assert!(crashed[0].starts_with("STATUS=backoff: agent exited with code 3 after "), "{crashed:?}");
        let (between, runs) = ears.until("STATUS=running");
        assert!(runs[0].ends_with(", restarts 1"), "{runs:?}");
        assert!(!between.iter().chain(&runs).any(|line| line == "READY=1"), "said once: {between:?}");
        sup.signal(libc::SIGTERM);
        let (_, stopping) = ears.until("STOPPING=1");
        assert_eq!(stopping, ["STOPPING=1", "STATUS=stopping"]);
        sup.end();
    }
}

#[test]
fn the_watchdog_is_fed_at_half_its_time_and_only_if_it_is_ours() {
    let lab = Lab::new();
    let ears = Ears::new(&lab);
    let usec = "400000";
    let watched = |pid: Option<&str>| {
        let launch =
            Launch::run(&lab, [FAKE, "wait"]).env("NOTIFY_SOCKET", &ears.path).env("WATCHDOG_USEC", usec);
        match pid {
            Some(pid) => launch.env("WATCHDOG_PID", pid),
            None => launch,
        }
    };
    let sup = watched(None).start();
    ears.until("READY=1");
    ears.until("WATCHDOG=1");
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(ears.next(), ["WATCHDOG=1"]);
    }
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_millis(1900),
        "{took:?} for 5 × 200 ms"
    );
    sup.signal(libc::SIGTERM);
    sup.end();

    // Another's: only what is news is told.
    let sup = watched(Some("1")).start();
    ears.until("READY=1");
    sup.signal(libc::SIGTERM);
    let (before, _) = ears.until("STOPPING=1");
    assert!(!before.iter().any(|line| line == "WATCHDOG=1"), "{before:?}");
    sup.end();
}

#[test]
fn one_that_does_not_listen_holds_nothing_up() {
    let lab = Lab::new();
    let ears = Ears::new(&lab);
    // Its queue is full before the first word.
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"X=1", &ears.path).is_ok() {}
    let sup = Launch::run(&lab, [FAKE, "wait"]).env("NOTIFY_SOCKET", &ears.path).start();
    sup.wait_for_output("READY");
    ears.until("READY=1");
    drop(ears);
    sup.signal(libc::SIGTERM);
    sup.end().assert_code(143);
}

#[test]
fn a_manager_that_is_not_there_is_no_reason_not_to_run() {
    let lab = Lab::new();
    let ended = Launch::run(&lab, [FAKE, "exit", "0"]).env("NOTIFY_SOCKET", "/nowhere/to/be/found").end();
    ended.assert_code(0);
    assert!(ended.stderr.contains("NOTIFY_SOCKET: `/nowhere/to/be/found`"), "{ended}");
}

#[test]
fn the_agent_can_neither_speak_to_the_manager_nor_hold_its_descriptor() {
    for io in ["pty", "inherit"] {
        let lab = Lab::new();
        let ears = Ears::new(&lab);
        let (ready, seen) = (lab.text("ready"), lab.text("seen"));
        let open = format!("exec 7>'{ready}'; exec \"$@\"");
        let look = format!(
            "env >'{seen}.new'; ls /proc/self/fd >>'{seen}.new'; mv '{seen}.new' '{seen}'; exec sleep 1000"
        );
        let sup = Launch::run(&lab, ["sh", "-c", &look])
            .with(["--ready-fd", "7", "--io", io])
            .env("NOTIFY_SOCKET", &ears.path)
            .wrapped_in(["sh", "-c", &open, "sh"].map(Into::into).to_vec())
            .start();
        lab.wait_for_file("ready", "\n");
        lab.wait_for_file("seen", "PATH=");
        let seen = lab.read("seen");
        assert!(!seen.contains("NOTIFY_SOCKET") && !seen.lines().any(|line| line == "7"), "{io}: {seen}");
        assert_eq!(lab.read("ready"), "\n");
        let ours = std::fs::read_dir(format!("/proc/{}/fd", sup.pid())).unwrap();
        let left = ours
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|to| to.ends_with("ready"));
        assert!(!left, "closed behind the newline");
        sup.signal(libc::SIGTERM);
        sup.end();
    }
}

#[test]
fn an_agent_that_never_ran_was_never_ready() {
    let lab = Lab::new();
    let ready = lab.write("ready", "");
    let open = format!("exec 7>'{ready}'; exec \"$@\"");
    let ended = Launch::run(&lab, ["/nowhere/to/be/found"])
        .with(["--ready-fd", "7"])
        .wrapped_in(["sh", "-c", &open, "sh"].map(Into::into).to_vec())
        .end();
    ended.assert_code(127);
    assert_eq!(lab.read("ready"), "");
    let ended = Launch::run(&lab, [FAKE, "exit", "0"]).with(["--ready-fd", "77"]).end();
    ended.assert_code(78);
    assert!(ended.stderr.contains("ready_fd: descriptor 77: "), "{ended}");
    Launch::run(&lab, [FAKE, "exit", "0"]).with(["--ready-fd", "1"]).end().assert_code(2);
}
