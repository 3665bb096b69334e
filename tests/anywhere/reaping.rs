//! Issue point 1: no zombie stays, and the agent's own status is never mistaken for an orphan's.

use std::time::Duration;

use crate::support;
use crate::support::{FAKE, LIMIT, Lab, Launch, Place, count, holds_within, in_parallel, procfs, sys};

const EVERYWHERE: [Place; 4] = [Place::Plain, Place::Pid1, Place::Nested, Place::NestedInPid1];

/// The agent and its orphans below `root`: those that run, and those that nobody has waited for.
fn agents_and_zombies(root: i32) -> (usize, usize) {
    let is_agent = |pid| procfs::exe(pid).is_some_and(|exe| exe.ends_with("fake-agent"));
    let (zombies, others): (Vec<_>, Vec<_>) =
        procfs::descendants(root).into_iter().partition(|process| process.state == 'Z');
    (others.iter().filter(|process| is_agent(process.pid)).count(), zombies.len())
}

/// What is left once the last orphan has ended, or the wait.
fn left_after(root: i32, limit: Duration) -> (usize, usize) {
    holds_within(limit, || agents_and_zombies(root) == (1, 0));
    agents_and_zombies(root)
}

#[test]
fn five_thousand_orphans_leave_no_zombie_while_the_agent_lives() {
    for place in Place::possible(&EVERYWHERE) {
        let lab = Lab::new();
        let sup = Launch::run(&lab, [FAKE, "orphans", "5000"]).at(place).start();
        sup.wait_for_output("ORPHANS 5000");
        let root = sup.child.id() as i32;
        assert_eq!(left_after(root, LIMIT), (1, 0), "{place:?}\n{}", sup.so_far());
        sup.signal(libc::SIGTERM);
        sup.end().assert_code(128 + libc::SIGTERM);
    }
}

#[test]
fn init_leaves_no_zombie_either() {
    for place in Place::possible(&EVERYWHERE) {
        let sup = Launch::init([FAKE, "orphans", "5000"]).at(place).start();
        sup.wait_for_output("ORPHANS 5000");
        assert_eq!(left_after(sup.child.id() as i32, LIMIT), (1, 0), "{place:?}");
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
        .args([
            "--exact",
            "reaping::the_zombie_check_finds_those_of_a_parent_that_does_not_reap",
            "--nocapture",
        ])
        .env("NOT_REAPING", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("ourselves");
    let root = parent.id() as i32;
    let out = support::stream::Stream::of(parent.stdout.take().expect("piped"));
    assert!(out.position_after(0, "ORPHANS 50", LIMIT).is_some());
    let left = left_after(root, Duration::from_millis(300));
    for process in procfs::descendants(root) {
        sys::kill(process.pid, libc::SIGKILL);
    }
    parent.kill().expect("our child");
    parent.wait().expect("our child");
    assert_eq!(left, (1, 50));
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
