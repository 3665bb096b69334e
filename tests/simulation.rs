//! The simulator (`sim/`) in small: what `ci/run` does with millions of events, and seeds that once found
//! something.

use std::path::PathBuf;
use std::process::Command;

/// Each found a fault, which is mended. A seed stands for its life only as long as the simulator draws on
/// chance as it did then; `ci/mutate` puts the same faults back, and looks for them anew.
/// All but 9031 were found so since agents hang and state dirs are tidied; 9031 is from before, and its life is
/// another one now: a minute's search has found no other.
const FOUND: [(u64, &str); 7] = [
    (788, "`stats`, asked at the very end, was read and not answered"),
    (9031, "of three requests, sent in one go at the very end, the last was read and not answered"),
    (412, "an Enter that was typed to an agent that had just ended undid a halt that nobody had seen"),
    (1506, "an agent that stayed away got well, and neither log nor record said so"),
    (1086, "with an `ack_timeout` of nothing a paused agent was looked at all the time"),
    (3401, "an agent was started in a session that another supervisor had taken meanwhile"),
    (10052, "`state` said of an agent that went in the turn of a TERM that it had no pid, and was running"),
];

/// Not `CARGO_BIN_EXE_…`, which examples have not got; and always the one of this code.
fn simulator() -> PathBuf {
    let build = ["build", "--quiet", "--locked", "--example", "simulate"];
    let built =
        Command::new(env!("CARGO")).args(build).current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(built.success(), "the simulator does not compile");
    // `target/debug/deps/simulation-…`
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(|deps| deps.parent()).unwrap().join("examples/simulate")
}

fn simulate(words: &[&str]) -> String {
    let ran = Command::new(simulator()).args(words).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "simulate {}:\n{told}", words.join(" "));
    told
}

#[test]
fn all_invariants_hold_for_a_while() {
    simulate(&["--events", "40000"]);
}

#[test]
fn a_seed_replays_exactly_and_its_trace_changes_nothing() {
    let digest = |words: &[&str]| {
        let told = simulate(words);
        told.lines().find(|line| line.contains("digest")).unwrap().to_owned()
    };
    for seed in ["5", "29", "111"] {
        let once = digest(&["--seed", seed]);
        assert_eq!(once, digest(&["--seed", seed]));
        assert_eq!(once, digest(&["--seed", seed, "--trace"]));
    }
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for (seed, _) in FOUND {
        simulate(&["--seed", &seed.to_string()]);
    }
}
