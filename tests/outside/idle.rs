//! Issue point 9: whoever has nothing to do does nothing.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support;
use crate::support::{FAKE, Lab, Launch, Place, Terminal, Viewer, count, procfs, sys};

/// How often `pid` wakes up while nobody asks anything of it.
fn wake_ups(pid: i32) -> u64 {
    // What it did for the start is over when it sleeps and its count has come to rest.
    let mut before = procfs::switches(pid);
    support::eventually("agentsup comes to rest", || {
        let last = std::mem::replace(&mut before, procfs::switches(pid));
        procfs::asleep(pid) && last == before && {
            sys::pause(Duration::from_millis(100));
            procfs::switches(pid) == before
        }
    });
    sys::pause(window());
    procfs::switches(pid) - before
}

/// The thing measured is a stretch of time.
fn window() -> Duration {
    Duration::from_secs(count(3, 10) as u64)
}

fn no_journald(lab: &Lab) -> String {
    lab.write("quiet.toml", "[log]\njournald = false\n")
}

#[test]
fn an_idle_agentsup_never_wakes_up_and_has_one_thread() {
    let lab = Lab::new();
    let config = no_journald(&lab);
    std::thread::scope(|scope| {
        for (nth, place) in Place::possible(&[Place::Plain, Place::Pid1]).into_iter().enumerate() {
            for verb in ["run", "init"] {
                let (lab, config) = (&lab, &config);
                scope.spawn(move || {
                    let session = format!("{verb}{nth}");
                    let launch = match verb {
                        "run" => Launch::session(lab, &session, [FAKE, "wait"]).with(["--config", config]),
                        _ => Launch::init([FAKE, "wait"]),
                    };
                    let sup = launch.at(place).start();
                    sup.wait_for_output("READY");
                    let pid = sup.pid();
                    assert_eq!(wake_ups(pid), 0, "{verb} {place:?}");
                    assert_eq!(procfs::threads(pid), 1, "{verb} {place:?}");
                    sup.signal(libc::SIGTERM);
                    sup.end().assert_code(143);
                });
            }
        }
    });
}

#[test]
fn a_terminal_a_wait_and_an_unread_stdout_cost_no_wake_ups_either() {
    let lab = Lab::new();
    let config = lab.write("slow.toml", "[log]\njournald = false\n[policy]\ntransient_wait = \"60s\"\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut terminal = Terminal::new(80, 24);
            let launch = Launch::session(&lab, "terminal", [FAKE, "paint"]).with(["--config", &config]);
            let pid = terminal.start(launch.to_command());
            terminal.expect("PAINTED");
            assert_eq!(wake_ups(pid), 0, "behind a terminal");
        });
        scope.spawn(|| {
            let (token, file) = ("MY_TOKEN=Y-12345678", lab.text("r.cast"));
            let launch = Launch::session(&lab, "recorded", [FAKE, "wait"]).with(["--config", &config]);
            let sup = launch.with(["--record", &file, "--env", token]).start();
            // It ends in what may be the beginning of a secret.
            lab.wait_for_file("r.cast", "READY");
            assert_eq!(wake_ups(sup.pid()), 0, "with a recording");
            sup.signal(libc::SIGTERM);
            sup.end().assert_code(143);
        });
        scope.spawn(|| {
            let launch = Launch::run(&lab, [FAKE, "exit", "1"]).with(["--config", &config]);
            let sup = launch.start();
            sup.wait_for("restart_scheduled");
            assert_eq!(wake_ups(sup.pid()), 0, "while a restart is due in a minute");
            sup.signal(libc::SIGTERM);
            sup.end().assert_code(1);
        });
        scope.spawn(|| {
            let launch =
                Launch::session(&lab, "unread", [FAKE, "flood"]).with(["--config", &config, "--grace", "1s"]);
            let sup = launch.stdout_unread().start();
            let pid = sup.pid();
            assert_eq!(wake_ups(pid), 0, "while nobody reads what a busy agent writes");
            sup.signal(libc::SIGTERM);
            sup.end();
        });
        scope.spawn(|| {
            // A pipe at its end is readable for ever.
            let launch =
                Launch::session(&lab, "eof", [FAKE, "wait"]).with(["--config", &config, "--io", "pty"]);
            let mut sup = launch.stdin(Stdio::piped()).start();
            drop(sup.child.stdin.take());
            sup.wait_for_output("READY");
            assert_eq!(wake_ups(sup.pid()), 0, "after the end of stdin");
            sup.signal(libc::SIGTERM);
            sup.end().assert_code(143);
        });
    });
}

#[test]
fn nobody_wakes_up_while_terminals_are_attached_and_nothing_happens() {
    let lab = Lab::new();
    let config = no_journald(&lab);
    let sup = Launch::run(&lab, [FAKE, "paint"]).with(["--config", &config, "--size", "80x24"]).start();
    sup.wait_for_output("PAINTED");
    let live = Viewer::attach(&lab, (80, 24), &[]);
    let painted = Viewer::attach(&lab, (50, 10), &["--readonly"]);
    for viewer in [&live, &painted] {
        viewer.until_shown("PAINTED");
        viewer.until_live();
    }
    std::thread::scope(|scope| {
        for (who, pid) in
            [("the supervisor", sup.pid()), ("a client", live.pid), ("one with frames", painted.pid)]
        {
            scope.spawn(move || assert_eq!(wake_ups(pid), 0, "{who}"));
        }
    });
    sup.signal(libc::SIGTERM);
    sup.end();
}

/// The same measure finds the wake-ups of a program that ticks.
#[test]
fn the_measure_finds_the_wake_ups_of_a_program_that_ticks() {
    let mut ticking = Command::new("sh").args(["-c", "while :; do sleep 0.3; done"]).spawn().expect("sh");
    let pid = ticking.id() as i32;
    let before = procfs::switches(pid);
    sys::pause(Duration::from_secs(1));
    let found = procfs::switches(pid) - before;
    ticking.kill().expect("our child");
    ticking.wait().expect("our child");
    assert!(found > 0);
}
