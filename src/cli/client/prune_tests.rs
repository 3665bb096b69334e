use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::cli::client::tests::{hold, state_dir};
use crate::control::client::testing::Dir;
use crate::os::lock::Taken;

const PLAIN: Wanted = Wanted { logs: false, dry_run: false };

fn leave(place: &StateDir, session: &str) -> Vec<PathBuf> {
    let record = place.record(session);
    let log = place.log(session);
    let (new, old) = (record.with_extension("json.new"), log.with_extension("log.1"));
    let files = vec![place.socket(session), new, record, place.lock(session), old, log];
    for file in &files {
        if !file.exists() {
            fs::write(file, "x").unwrap();
        }
    }
    files
}

fn there(files: &[PathBuf]) -> Vec<bool> {
    files.iter().map(|file| file.exists()).collect()
}

#[test]
fn the_config_of_a_child_goes_when_neither_it_nor_its_node_lives() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    let config = |session: &str| place.socket(session).with_extension("toml");
    let sessions = ["dead.a", "node.a", "dead.b", "alone"];
    for session in sessions {
        fs::write(config(session), "x").unwrap();
    }
    fs::write(config("dead.a").with_extension("toml.new"), "x").unwrap();
    let _node = hold(&dir, "node");
    let _child = hold(&dir, "dead.b");
    let gone = [config("dead.a").with_extension("toml.new"), config("dead.a")];
    let would = prune_dir(&place, Wanted { dry_run: true, ..PLAIN });
    assert_eq!((would.len(), &would[0].removed[..]), (1, &gone[..]));
    let pruned = prune_dir(&place, PLAIN);
    assert_eq!((pruned.len(), pruned[0].session.as_deref()), (1, Some("dead.a")));
    assert_eq!(pruned[0].removed, gone);
    let left: Vec<PathBuf> = sessions.map(config).into();
    assert_eq!(there(&left), [false, true, true, true], "a node that lives may be about to start one");
    assert!(!place.lock("dead").exists(), "not even a lock is left");
}

#[test]
fn the_dead_go_and_the_living_stay() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    let _lock = hold(&dir, "live");
    let living = leave(&place, "live");
    let dead = leave(&place, "de.ad");
    let foreign = dir.0.join("supervisor/.hidden.sock");
    fs::write(&foreign, "").unwrap();

    let dry = Wanted { dry_run: true, ..PLAIN };
    let would = prune_dir(&place, dry);
    assert_eq!(there(&dead), [true; 6]);
    assert_eq!(would.len(), 1);
    assert_eq!(would[0].removed, dead[..4]);
    assert!(text(&would, dry).starts_with("would remove /"));

    let pruned = prune_dir(&place, PLAIN);
    assert_eq!((pruned.len(), pruned[0].session.as_deref(), &pruned[0].error), (1, Some("de.ad"), &None));
    assert_eq!(pruned[0].removed, dead[..4]);
    assert_eq!(there(&dead), [false, false, false, false, true, true], "logs stay");
    assert_eq!(there(&living), [true; 6]);
    assert!(foreign.exists(), "no session has such a name");
    assert_eq!(prune_dir(&place, PLAIN), []);
    assert_eq!(text(&[], PLAIN), "nothing to remove\n");

    let logs = Wanted { logs: true, ..PLAIN };
    let pruned = prune_dir(&place, logs);
    assert_eq!(pruned.len(), 1);
    assert_eq!(pruned[0].removed, dead[4..]);
    assert_eq!(there(&dead), [false; 6], "not even a lock is left");
    assert_eq!(there(&living), [true; 6]);
}

#[test]
fn what_cannot_be_removed_is_said() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    fs::create_dir(place.socket("s")).unwrap();
    fs::write(place.record("s"), "{}").unwrap();
    let pruned = prune_dir(&place, PLAIN);
    assert_eq!(pruned[0].removed, [place.record("s")]);
    assert!(pruned[0].error.as_ref().unwrap().contains("s.sock"));
    assert!(text(&pruned, PLAIN).contains("could not remove "));
}

#[test]
fn claims_go_with_the_session_that_they_name_and_junk_with_nobody() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    fs::create_dir_all(place.claims()).unwrap();
    let _lock = hold(&dir, "live");
    let claim = |ticket: &str, session: &str| {
        let path = place.claims().join(ticket);
        let text = format!(r#"{{"ticket":"{ticket}","session":"{session}","since":5}}"#);
        fs::write(&path, text).unwrap();
        path
    };
    // The dead one has left nothing else.
    let files =
        [claim("a", "live"), place.claim_new("live"), claim("b", "gone"), place.claims().join("junk")];
    fs::write(&files[1], "").unwrap();
    fs::write(&files[3], "{").unwrap();
    let dry = Wanted { dry_run: true, ..PLAIN };
    let would: Vec<PathBuf> = prune_dir(&place, dry).into_iter().flat_map(|one| one.removed).collect();
    assert_eq!(would, files[2..]);
    let pruned = prune_dir(&place, PLAIN);
    assert_eq!(pruned.iter().map(|one| one.session.as_deref()).collect::<Vec<_>>(), [Some("gone"), None]);
    assert_eq!(there(&files), [true, true, false, false]);
    assert_eq!(prune_dir(&place, PLAIN), []);
}

/// A supervisor that starts over and over takes its lock, then makes its files: while it holds the
/// lock they stay, and no prune ever makes it fail to start.
#[test]
fn a_supervisor_that_starts_meanwhile_keeps_what_is_its_own() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    let over = AtomicBool::new(false);
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for its threads.
        let _over = Over(&over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    prune_dir(&place, PLAIN);
                }
            });
        }
        for n in 0..200 {
            let lock = match Lock::take(&place.lock("s"), "pid=1", |_| false).unwrap() {
                Taken::Ours(lock) => lock,
                Taken::Theirs(holder) => panic!("start {n} refused, held by {holder:?}"),
            };
            let files = [place.socket("s"), place.record("s")];
            for file in &files {
                fs::write(file, "x").unwrap();
            }
            std::thread::yield_now();
            assert_eq!(there(&files), [true, true], "start {n}");
            match n % 2 {
                0 => lock.killed(),
                _ => drop(lock),
            }
        }
    });
    prune_dir(&place, PLAIN);
    assert!(sessions::all(&place).unwrap().is_empty());
}
