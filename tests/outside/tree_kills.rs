//! Whatever dies in a tree, nothing is left behind and nobody meets what was: as a plain process and as PID 1.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::caller::Framing;
use crate::support::log::{Log, number};
use crate::support::{Caller, FAKE, LIMIT, Lab, Launch, Place, Running, eventually, procfs, sys};
use serde_json::json;

/// An eternal lead with a family in sessions of their own, a pool of two drones, and a nested node.
fn team(lab: &Lab) -> String {
    let node = "[node]\nwait = \"50ms\"\n";
    lab.write("pool.toml", &format!("{node}strategy = \"pool\"\nsize = 2\n[[child]]\nid = \"d\"\npreset = \"drone\"\ncommand = [{FAKE:?}, \"wait\"]\n"));
    lab.write(
        "inner.toml",
        &format!("{node}[[child]]\nid = \"w\"\ncommand = [{FAKE:?}, \"tree\", {:?}]\n", lab.text("w")),
    );
    // With waits that a test has patience for.
    let lead = format!(
        "[[child]]\nid = \"lead\"\npreset = \"eternal\"\ncommand = [{FAKE:?}, \"tree\", {:?}]\n\
         [child.policy]\nbackoff = \"exponential\"\nbase = \"50ms\"\n",
        lab.text("lead")
    );
    let files =
        "[[child]]\nid = \"pool\"\nfile = \"pool.toml\"\n[[child]]\nid = \"inner\"\nfile = \"inner.toml\"\n";
    lab.write("team.toml", &format!("{node}{lead}{files}"))
}

struct Team<'l> {
    lab: &'l Lab,
    sup: Running,
}

impl<'l> Team<'l> {
    fn start(lab: &'l Lab, place: Place) -> Team<'l> {
        let sup = Launch::tree(lab, &team(lab)).at(place).start();
        let team = Team { lab, sup };
        team.sup.log.wait_for("state_changed from=starting to=running");
        for file in ["lead", "w"] {
            lab.wait_for_file(file, "\n");
        }
        team
    }

    fn log(&self, session: &str) -> Log {
        Log::named(&self.lab.state_dir(), session)
    }

    /// The real pid of a supervisor, by the session on its command line.
    fn supervisor(&self, session: &str) -> i32 {
        let mut found = None;
        eventually(&format!("a supervisor of {session}"), || {
            found = procfs::descendants(self.sup.pid()).into_iter().map(|p| p.pid).find(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
                words.windows(2).any(|pair| pair == [b"--session", session.as_bytes()])
            });
            found.is_some()
        });
        found.expect("just seen")
    }

    fn agent(&self, session: &str) -> i32 {
        let supervisor = self.supervisor(session);
        let mut agent = None;
        let is_fake = |pid: &i32| procfs::exe(*pid).is_some_and(|exe| exe == Path::new(FAKE));
        eventually(&format!("an agent of {session}"), || {
            agent = procfs::children(supervisor).into_iter().find(|pid| {
                // The orphans of its family are children of the supervisor too.
                is_fake(pid)
                    && procfs::process(*pid)
                        .is_some_and(|p| p.session == p.pid && !procfs::children(p.pid).is_empty())
            });
            agent.is_some()
        });
        agent.expect("just seen")
    }

    /// All fake agents and what they started.
    fn fakes(&self) -> Vec<i32> {
        let is_fake = |pid: &i32| procfs::exe(*pid).is_some_and(|exe| exe == Path::new(FAKE));
        procfs::descendants(self.sup.pid()).into_iter().map(|p| p.pid).filter(is_fake).collect()
    }

    /// Everybody is there: two families of five, two drones.
    fn is_whole(&self) {
        eventually("everybody is there, and nobody else", || {
            self.fakes().len() == 12 && procfs::zombies_below(self.sup.pid()).is_empty() || {
                sys::pause(Duration::from_millis(10));
                false
            }
        });
    }

    fn ends_empty(self) {
        self.ends_empty_but("nobody");
    }

    /// Whoever was killed had no time to remove its socket, and has no successor that does: `but`.
    fn ends_empty_but(self, but: &str) {
        let below: Vec<i32> = procfs::descendants(self.sup.pid()).into_iter().map(|p| p.pid).collect();
        let state_dir = self.lab.state_dir();
        let ended = self.sup.end();
        ended.assert_code(0);
        let alive: Vec<i32> = below.into_iter().filter(|pid| procfs::alive(*pid)).collect();
        assert_eq!(alive, Vec::<i32>::new(), "{ended}");
        let entries = std::fs::read_dir(state_dir.join("supervisor")).expect("the state dir").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> =
            names.filter(|name| name.ends_with(".sock") && !name.starts_with(but)).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(ended.log.lines().last().is_some_and(|line| line.contains(" shutdown ")), "{ended}");
    }
}

#[test]
fn an_agent_is_killed_and_its_own_supervisor_sees_to_it() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let team = Team::start(&lab, place);
        sys::kill(team.agent("t.lead"), libc::SIGKILL);
        team.log("t.lead").wait_for_nth(2, "claude_spawn");
        assert_eq!(team.sup.log.events("child_exit"), Vec::<String>::new(), "the node hears nothing of it");
        sys::kill(team.sup.pid(), libc::SIGTERM);
        team.ends_empty();
    }
}

#[test]
fn a_child_supervisor_is_killed_and_its_successor_meets_nothing_of_it() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let team = Team::start(&lab, place);
        team.is_whole();
        let supervisor = team.supervisor("t.lead");
        let before = procfs::descendants(supervisor).into_iter().map(|p| p.pid).collect::<Vec<_>>();
        assert_eq!(before.len(), 5, "the agent and its family");
        sys::kill(supervisor, libc::SIGKILL);
        team.sup.log.wait_for("leftovers_ended child=lead");
        let spawned = team.sup.log.events("child_spawn");
        let again = spawned.iter().filter(|line| line.contains("child=lead")).count();
        team.log("t.lead").wait_for_nth(2, "claude_spawn");
        assert!(again <= 2, "{spawned:?}");
        assert!(before.iter().all(|pid| !procfs::alive(*pid)), "its successor runs beside what it left");
        team.is_whole();
        sys::kill(team.sup.pid(), libc::SIGTERM);
        team.ends_empty();
    }
}

/// A daemon that clears its environment, or writes its title over it, does not say whose it is.
#[test]
fn what_does_not_say_whose_it_is_does_not_outlive_the_supervisor_of_its_agent() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let daemon = |time: &str| format!("env -i setsid sleep {time} & exec sleep 1000");
        let agents = ["7001", "7002"].map(|time| {
            format!("[[child]]\nid = \"a{time}\"\ncommand = [\"sh\", \"-c\", {:?}]\n", daemon(time))
        });
        let file = lab.write("team.toml", &format!("[node]\nwait = \"0s\"\n{}", agents.concat()));
        let sup = Launch::tree(&lab, &file).at(place).start();
        let daemons = |time: &str| {
            let line = format!("sleep\0{time}\0").into_bytes();
            let is_it = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|l| l == line);
            let below = procfs::descendants(sup.pid()).into_iter().map(|p| p.pid);
            below.filter(is_it).collect::<Vec<i32>>()
        };
        let mut before = vec![];
        for time in ["7001", "7002"] {
            eventually("a daemon", || daemons(time).len() == 1);
            before.extend(daemons(time));
        }
        let parent = |pid: i32| procfs::process(pid).expect("it lives").parent;
        sys::kill(parent(parent(before[0])), libc::SIGKILL);
        sup.log.wait_for_nth(3, "child_ready");
        eventually("another daemon", || !daemons("7001").is_empty());
        assert!(!procfs::alive(before[0]), "its successor runs beside it");
        assert_eq!(daemons("7002"), before[1..], "that of another child is none of its business");
        sys::kill(sup.pid(), libc::SIGTERM);
        sup.end().assert_code(0);
    }
}

#[test]
fn a_nested_node_is_killed_and_all_below_it_goes_and_comes_back() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let team = Team::start(&lab, place);
        team.is_whole();
        for session in ["t.inner", "t.pool"] {
            let node = team.supervisor(session);
            let before = procfs::descendants(node).into_iter().map(|p| p.pid).collect::<Vec<_>>();
            sys::kill(node, libc::SIGKILL);
            team.log(session).wait_for_nth(2, "state_changed from=starting to=running");
            assert!(before.iter().all(|pid| !procfs::alive(*pid)), "{session}: something of before lives");
        }
        team.is_whole();
        sys::kill(team.sup.pid(), libc::SIGTERM);
        team.ends_empty();
    }
}

#[test]
fn a_stop_in_the_middle_of_a_restart_leaves_nothing() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        for session in ["t.lead", "t.inner"] {
            let lab = Lab::new();
            let team = Team::start(&lab, place);
            team.is_whole();
            sys::kill(team.supervisor(session), libc::SIGKILL);
            team.sup.log.wait_for("child_exit");
            let began = Instant::now();
            sys::kill(team.sup.pid(), libc::SIGTERM);
            team.ends_empty_but(session);
            assert!(began.elapsed() < LIMIT / 2, "nobody waited for a time-out: {:?}", began.elapsed());
        }
    }
}

/// The node's own grace is the sum of what all its children may take: minutes, where there are many.
#[test]
fn what_a_dead_child_left_and_is_deaf_holds_nobody_up_for_the_grace_of_the_whole_node() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let script = "setsid sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 1; done' & exec sleep 1000";
        let more = "[[child]]\nid = \"n\"\nfile = \"inner.toml\"\n";
        let agents = |ids: &[&str], grace: &str| -> String {
            let one = |id: &&str| {
                format!("[[child]]\nid = {id:?}\ngrace = {grace:?}\ncommand = [\"sh\", \"-c\", {script:?}]\n")
            };
            ids.iter().map(one).collect()
        };
        lab.write("inner.toml", &agents(&["a", "b", "c"], "1s"));
        let node = "[node]\nwait = \"0s\"\n";
        let file = lab.write("team.toml", &(node.to_owned() + more));
        let sup = Launch::tree(&lab, &file).at(place).start();
        let deaf = || {
            let is_deaf = |pid: &i32| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.windows(8).any(|word| word == b"trap \"\" ") && !line.windows(6).any(|w| w == b"setsid")
            };
            let below = procfs::descendants(sup.pid()).into_iter().map(|p| p.pid);
            below.filter(is_deaf).collect::<Vec<i32>>()
        };
        sup.log.wait_for("state_changed from=starting to=running");
        eventually("three are deaf", || deaf().len() == 3);
        let began = Instant::now();
        let before = deaf();
        let kill_the_node = || {
            let is_node = |pid: &i32| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split(|b| *b == 0).any(|word| word == b"t.n")
            };
            let node = procfs::descendants(sup.pid()).into_iter().map(|p| p.pid).find(is_node);
            sys::kill(node.expect("the nested node"), libc::SIGKILL);
        };
        kill_the_node();
        Log::named(&lab.state_dir(), "t.n").wait_for_nth(2, "state_changed from=starting to=running");
        assert!(began.elapsed() < Duration::from_secs(8), "restarted after {:?}", began.elapsed());
        assert!(before.iter().all(|pid| !procfs::alive(*pid)));
        eventually("three are deaf again", || deaf().len() == 3);
        let before = deaf();
        kill_the_node();
        sup.log.wait_for_nth(2, "leftovers_ended");
        let began = Instant::now();
        sys::kill(sup.pid(), libc::SIGTERM);
        sup.end().assert_code(0);
        assert!(began.elapsed() < Duration::from_secs(8), "stopped after {:?}", began.elapsed());
        assert!(before.iter().all(|pid| !procfs::alive(*pid)));
    }
}

#[test]
fn the_root_is_killed_and_the_next_one_ends_what_it_left() {
    let lab = Lab::new();
    let team = Team::start(&lab, Place::Plain);
    team.is_whole();
    let below = procfs::descendants(team.sup.pid()).into_iter().map(|p| p.pid).collect::<Vec<_>>();
    sys::kill(team.sup.pid(), libc::SIGKILL);
    drop(team.sup.end());
    let sup = Launch::tree(&lab, &lab.text("team.toml")).start();
    sup.log.wait_for_nth(2, "state_changed from=starting to=running");
    assert!(below.iter().all(|pid| !procfs::alive(*pid)));
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end().assert_code(0);
}

/// Whoever likes may start one under a name that begins like that of a node, or of a child, or is one.
#[test]
fn a_session_that_no_node_started_is_no_leftover_of_one() {
    let lab = Lab::new();
    let child = |id: &str| format!("[[child]]\nid = {id:?}\ncommand = [{FAKE:?}, \"wait\"]\n");
    let file = lab.write("team.toml", &(child("a") + &child("taken")));
    let alone: Vec<Running> = ["t.a.other", "t.taken"]
        .map(|session| Launch::session(&lab, session, [FAKE, "wait"]).start())
        .into_iter()
        .inspect(|other| other.wait_for_output("READY"))
        .collect();
    let tree = Launch::team(&lab, "t.tree", &lab.write("other.toml", &child("b"))).start();
    let said = Log::named(&lab.state_dir(), "t.tree");
    said.wait_for("state_changed from=starting to=running");
    let others = || -> Vec<i32> {
        let below = alone.iter().chain([&tree]).flat_map(|other| procfs::descendants(other.pid()));
        below.map(|process| process.pid).collect()
    };
    let before = others();
    assert_eq!(before.len(), 4, "two agents, and a child with its own");

    let sup = Launch::tree(&lab, &file).start();
    sup.log.wait_for("state_changed from=starting to=running");
    sup.log.wait_for("child_refused child=taken");
    assert!(lab.state_dir().join("supervisor/t.tree.b.toml").exists());
    let a = sup.log.events("child_spawn")[0].split("pid=").nth(1).expect("a pid").to_owned();
    let a: i32 = a.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
    sys::kill(a, libc::SIGKILL);
    sup.log.wait_for_nth(2, "child_ready");
    sys::kill(sup.pid(), libc::SIGKILL);
    drop(sup.end());
    let sup = Launch::tree(&lab, &file).start();
    sup.log.wait_for_nth(2, "state_changed from=starting to=running");
    assert_eq!(others(), before, "they run on");
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.end().assert_code(0);
    for other in alone.into_iter().chain([tree]) {
        other.signal(libc::SIGTERM);
        other.end();
    }
}

#[test]
fn each_agents_own_stop_runs_within_its_grace() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        let lab = Lab::new();
        let work = |id: &str, ms: u64| {
            format!(
                "[[child]]\nid = {id:?}\ncommand = [{FAKE:?}, \"leftover\", {:?}, \"{ms}\"]\n",
                lab.text(id)
            )
        };
        let deaf =
            format!("[[child]]\nid = \"deaf\"\ngrace = \"1s\"\ncommand = [{FAKE:?}, \"ignore\", \"15,2\"]\n");
        let file = lab.write("team.toml", &[work("one", 300), work("two", 300), deaf].concat());
        let sup = Launch::tree(&lab, &file).at(place).start();
        sup.log.wait_for("state_changed from=starting to=running");
        for session in ["t.one", "t.two", "t.deaf"] {
            // Its agent says when its leftover has ears.
            let socket = lab.state_dir().join("supervisor").join(format!("{session}.sock"));
            let mut caller = Caller::at(&socket, Framing::Lines);
            eventually("READY on its screen", || {
                caller.get("screen", json!({}))["text"].as_str().is_some_and(|text| text.contains("READY"))
            });
        }
        sys::kill(sup.pid(), libc::SIGTERM);
        let log = sup.log.clone();
        let ended = sup.end();
        ended.assert_code(0);
        for id in ["one", "two"] {
            assert_eq!(lab.read(id), "TERM\nDONE\n", "{id} had its time, and one TERM: {ended}");
        }
        let exits = log.events("child_exit");
        assert_eq!(exits.len(), 3, "{ended}");
        assert_eq!(number(&exits[0], "code"), 137, "the deaf one: {exits:?}");
        assert!(
            log.events("child_stop").iter().all(|line| line.contains("signal=TERM")),
            "no supervisor was killed"
        );
    }
}

#[test]
fn whoever_stops_twice_is_in_a_hurry() {
    let lab = Lab::new();
    let file = lab.write(
        "team.toml",
        &format!("[[child]]\nid = \"deaf\"\ncommand = [{FAKE:?}, \"ignore\", \"15,2\"]\n"),
    );
    let sup = Launch::tree(&lab, &file).start();
    sup.log.wait_for("state_changed from=starting to=running");
    sys::kill(sup.pid(), libc::SIGTERM);
    sup.log.wait_for("child_stop");
    let (pid, began) = (sup.pid(), Instant::now());
    let below = procfs::descendants(pid);
    let mut caller = Caller::of(&lab);
    assert_eq!(caller.get("stop", json!({"graceful": false}))["already"], true);
    sup.end();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(below.iter().all(|process| !procfs::alive(process.pid)));
}
