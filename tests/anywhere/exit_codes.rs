//! Issue point 2: the exit code is the agent's own, and every refusal has its number and its reason.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support;
use crate::support::{AGENTSUP, FAKE, Lab, Launch, Place, in_parallel};

const FATAL: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT];

/// The same command through `init` and through `run --restart no`.
fn both(lab: &Lab, words: &[&str]) -> [Launch; 2] {
    [Launch::init(words), Launch::run(lab, words).with(["--restart", "no"])]
}

#[test]
fn all_256_codes_come_through() {
    in_parallel(256, |code| {
        let lab = Lab::new();
        for launch in both(&lab, &[FAKE, "exit", &code.to_string()]) {
            launch.end().assert_code(code as i32);
        }
    });
}

#[test]
fn codes_come_through_from_pid_1_and_from_below_another_agentsup() {
    for place in Place::possible(&[Place::Pid1, Place::Nested]) {
        for code in [0, 1, 2, 77, 78, 124, 125, 126, 127, 128, 143, 255] {
            let lab = Lab::new();
            for launch in both(&lab, &[FAKE, "exit", &code.to_string()]) {
                launch.at(place).end().assert_code(code);
            }
        }
    }
}

#[test]
fn a_signal_that_ended_the_agent_is_128_and_its_number() {
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        for signal in FATAL {
            let lab = Lab::new();
            for launch in both(&lab, &[FAKE, "die-by", &signal.to_string()]) {
                launch.at(place).end().assert_code(128 + signal);
            }
        }
    }
}

#[test]
fn a_missing_command_is_127_and_named() {
    for command in ["/nowhere/agent", "no-such-agent-anywhere"] {
        let lab = Lab::new();
        for launch in [Launch::init([command]), Launch::run(&lab, [command])] {
            let ended = launch.env("PATH", "/usr/bin:/bin").end();
            ended.assert_code(127);
            assert!(ended.stderr.contains(command), "{ended}");
            assert!(ended.stderr.contains("exec"), "the step that failed: {ended}");
        }
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_126_and_names_the_step() {
    let lab = Lab::new();
    let plain = lab.write("not-executable", "echo no");
    let junk = lab.write("junk", "\u{1}\u{2}\u{3} neither script nor program");
    std::fs::set_permissions(&junk, std::fs::Permissions::from_mode(0o755)).expect("our file");
    let orphan_script = lab.write("no-interpreter", "#!/nowhere/interpreter\n");
    std::fs::set_permissions(&orphan_script, std::fs::Permissions::from_mode(0o755)).expect("our file");
    let directory = lab.dir("a-directory");
    for (command, code) in [(plain, 126), (junk, 126), (directory, 126), (orphan_script, 127)] {
        for launch in [Launch::init([&command]), Launch::run(&lab, [&command])] {
            let ended = launch.end();
            ended.assert_code(code);
            assert!(ended.stderr.contains(&command), "{ended}");
            assert!(ended.stderr.contains("exec"), "the step that failed: {ended}");
        }
    }
}

#[test]
fn a_refused_configuration_is_78_and_says_what_is_wrong() {
    let lab = Lab::new();
    let unknown_key = lab.write("unknown-key.toml", "[run]\nrestrat = \"no\"\n");
    let not_toml = lab.write("not-toml.toml", "[run\n");
    let refusals: [(&[&str], &str); 6] = [
        (&["--cwd", "/nowhere/at/all"], "--cwd flag: path does not exist: /nowhere/at/all"),
        (&["--cwd", FAKE], "--cwd flag: path is not a directory"),
        (&["--document", "/nowhere/doc.md"], "/nowhere/doc.md"),
        (&["--config", &unknown_key], "restrat"),
        (&["--config", &not_toml], "not-toml.toml"),
        (&["--restart", "always", "--on-clean", "exit"], "contradicts"),
    ];
    for (options, reason) in refusals {
        let mark = lab.text("started");
        let ended = Launch::run(&lab, [FAKE, "crash-then", &mark, "9", "0"]).with(options).end();
        ended.assert_code(78);
        assert!(ended.stderr.contains(reason), "{reason}: {ended}");
        assert_eq!(ended.stderr.trim().lines().count(), 1, "one failure, one line: {ended}");
        assert!(!support::exists(&lab.path("started")), "nothing was started: {ended}");
    }
}

#[test]
fn a_session_that_is_already_supervised_is_78_and_names_its_supervisor() {
    let lab = Lab::new();
    let first = Launch::run(&lab, [FAKE, "wait"]).start();
    first.wait_for_output("READY");
    let second = Launch::run(&lab, [FAKE, "wait"]).end();
    second.assert_code(78);
    assert!(second.stderr.contains(&first.pid().to_string()), "{second}");
    assert!(first.is_running());
    first.signal(libc::SIGTERM);
    first.end().assert_code(143);
    // The lock goes with its owner.
    Launch::run(&lab, [FAKE, "exit", "0"]).end().assert_code(0);
}

#[test]
fn agentsups_own_failure_is_125() {
    let few_descriptors = ["sh", "-c", "ulimit -n 4; exec \"$@\"", "sh"].map(Into::into).to_vec();
    let lab = Lab::new();
    for launch in both(&lab, &[FAKE, "exit", "0"]) {
        let ended = launch.wrapped_in(few_descriptors.clone()).end();
        ended.assert_code(125);
        assert!(!ended.stderr.is_empty(), "it says why: {ended}");
        assert!(!ended.stderr.contains("panicked"), "{ended}");
    }
}

#[test]
fn a_usage_error_is_2() {
    let lab = Lab::new();
    let wrong: [&[&str]; 8] = [
        &["--no-such-option"],
        &["--grace", "soon"],
        &["--size", "80"],
        &["--restart", "sometimes"],
        &["--io", "smoke"],
        &["--record", ""],
        &["--watch=yes"],
        &["--env", "no-equals-sign"],
    ];
    for options in wrong {
        let ended = Launch::run(&lab, [FAKE, "exit", "0"]).with(options).end();
        ended.assert_code(2);
        let name = options[0].split('=').next().unwrap();
        assert!(ended.stderr.contains(name), "it names the option: {ended}");
    }
    let none: [&str; 0] = [];
    for launch in [Launch::init(none), Launch::run(&lab, none), Launch::init(["true"]).with(["--bogus"])] {
        launch.end().assert_code(2);
    }
    for line in [vec![], vec!["no-such-verb"]] {
        let output = std::process::Command::new(support::AGENTSUP).args(line).output().expect("agentsup");
        assert_eq!(output.status.code(), Some(2));
    }
}

/// The runtime opens /dev/null in its place, and that takes everything.
#[test]
fn who_prints_for_nobody_says_so() {
    let lab = Lab::new();
    let dir = lab.dir("state");
    for verb in [&["help", "run"][..], &["ls", "--dir", &dir], &["explain", "--dir", &dir, "--", "true"]] {
        let script = ["sh", "-c", "exec \"$@\" >&-", "sh", AGENTSUP];
        let output = Command::new(script[0]).args(&script[1..]).args(verb).output().expect("sh");
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("cannot write to stdout"), "{verb:?}: {said}");
    }
}
