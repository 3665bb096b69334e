//! Issue point 1: no zombie stays, and the agent's own status is never mistaken for an orphan's.

mod support;

use std::time::Duration;

use support::{FAKE, LIMIT, Lab, Launch, Place, count, holds_within, in_parallel, procfs, sys};

const EVERYWHERE: [Place; 4] = [Place::Plain, Place::Pid1, Place::Nested, Place::NestedInPid1];

/// How many zombies are left below `root` once the wait is over.
fn zombies_left(root: i32, limit: Duration) -> usize {
    holds_within(limit, || procfs::zombies_below(root).is_empty());
    procfs::zombies_below(root).len()
}

#[test]
fn five_thousand_orphans_leave_no_zombie_while_the_agent_lives() {
    for place in Place::possible(&EVERYWHERE) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "orphans", "5000"]).at(place).start();
        sup.wait_for_output("ORPHANS 5000");
        let root = sup.child.id() as i32;
        assert_eq!(zombies_left(root, LIMIT), 0, "{place:?}\n{}", sup.so_far());
        let agents = procfs::descendants(root)
            .into_iter()
            .filter(|p| procfs::exe(p.pid).is_some_and(|e| e.ends_with("fake-agent")));
        assert_eq!(agents.count(), 1, "{place:?}: the agent itself lives");
        sup.signal(libc::SIGTERM);
        sup.end().assert_code(128 + libc::SIGTERM);
    }
}

#[test]
fn init_leaves_no_zombie_either() {
    for place in Place::possible(&EVERYWHERE) {
        let sup = Launch::init([FAKE, "orphans", "5000"]).at(place).start();
        sup.wait_for_output("ORPHANS 5000");
        assert_eq!(zombies_left(sup.child.id() as i32, LIMIT), 0, "{place:?}");
        sup.signal(libc::SIGTERM);
        sup.end().assert_code(128 + libc::SIGTERM);
    }
}

/// The same check against a parent that takes orphans in and never waits for them.
#[test]
fn the_zombie_check_finds_those_of_a_parent_that_does_not_reap() {
    if std::env::var_os("NOT_REAPING").is_some() {
        sys::become_subreaper();
        let mut agent =
            std::process::Command::new(FAKE).args(["orphans", "50"]).spawn().expect("the fake agent");
        agent.wait().expect("until the test ends us");
        return;
    }
    let own = std::env::current_exe().expect("our own path");
    let mut parent = std::process::Command::new(own)
        .args(["--exact", "the_zombie_check_finds_those_of_a_parent_that_does_not_reap", "--nocapture"])
        .env("NOT_REAPING", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("ourselves");
    let root = parent.id() as i32;
    let out = support::stream::Stream::of(parent.stdout.take().expect("piped"));
    assert!(out.position_after(0, "ORPHANS 50", LIMIT).is_some());
    let left = zombies_left(root, Duration::from_millis(300));
    for process in procfs::descendants(root) {
        sys::kill(process.pid, libc::SIGKILL);
    }
    parent.kill().expect("our child");
    parent.wait().expect("our child");
    assert_eq!(left, 50);
}

#[test]
fn the_status_is_the_agents_own_when_it_dies_together_with_a_hundred_orphans() {
    for place in Place::possible(&[Place::Plain, Place::Pid1, Place::Nested]) {
        in_parallel(count(40, 1000), |i| {
            // Never 99, which is what the orphans exit with.
            let code = (i % 90) as i32;
            let lab = Lab::new();
            let words = [FAKE, "die-with-orphans", &code.to_string(), "100"];
            let launch = match i % 2 {
                0 => Launch::init(words),
                _ => Launch::run(&lab, words).with(["--restart", "no"]),
            };
            launch.at(place).end().assert_code(code);
        });
    }
}
