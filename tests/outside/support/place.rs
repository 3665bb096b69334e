//! Where the binary runs: as a plain process, as PID 1 of a real pid namespace, or under another
//! supervisor.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::AGENTSUP;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Plain,
    Pid1,
    /// Below an `agentsup init` that is a plain process.
    Nested,
    /// Below an `agentsup init` that is PID 1.
    NestedInPid1,
    /// As a plain process, and as PID 1, with nothing at /proc.
    PlainWithoutProc,
    Pid1WithoutProc,
}

impl Place {
    /// The places that this machine allows. A machine that forbids namespaces is told aloud, and is
    /// a failure in ci.
    pub fn possible(wanted: &[Place]) -> Vec<Place> {
        let needs = |place: &Place| !matches!(place, Place::Plain | Place::Nested);
        wanted.iter().copied().filter(|place| !needs(place) || namespaces_are_allowed()).collect()
    }

    /// What stands in front of the agentsup that is under test.
    pub fn prefix(self) -> Vec<OsString> {
        let own = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let outer = own(&[AGENTSUP, "init", "--"]);
        match self {
            Place::Plain => vec![],
            Place::Pid1 => own(&unshare()),
            Place::Nested => outer,
            Place::NestedInPid1 => [own(&unshare()), outer].concat(),
            Place::PlainWithoutProc => own_mounts(NO_PROC),
            Place::Pid1WithoutProc => {
                let mut words = unshare();
                words.retain(|word| *word != "--mount-proc");
                [own(&words), own_mounts(NO_PROC)].concat()
            }
        }
    }
}

const NO_PROC: &str = "mount -t tmpfs none /proc && exec \"$@\"";

/// `--kill-child`: a test that dies takes its namespace with it.
fn unshare() -> Vec<&'static str> {
    let mut words = vec!["unshare"];
    if !nix::unistd::geteuid().is_root() {
        words.push("-Ur");
    }
    words.extend(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    words
}

/// A command in the namespaces of `pid`, with pipes for stdin and stdout.
pub fn enter(pid: i32, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    if !nix::unistd::geteuid().is_root() {
        command.args(["-U", "--preserve-credentials"]);
    }
    command.args(["--target", &pid.to_string(), "--pid", "--mount", "--"]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A shell command in a mount namespace of its own, where it may mount.
pub fn own_mounts(script: &str) -> Vec<OsString> {
    let mut words = vec!["unshare"];
    if !nix::unistd::geteuid().is_root() {
        words.push("-Ur");
    }
    words.extend(["--mount", "--", "sh", "-c", script, "sh"]);
    words.into_iter().map(OsString::from).collect()
}

pub fn namespaces_are_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let words = unshare();
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").stderr(Stdio::piped()).output();
        let why = match tried {
            Ok(output) if output.status.success() => return true,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let text = format!("PID 1 CASES SKIPPED: this machine allows no pid namespace ({})", why.trim());
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{text}");
        // Past the test harness, which would keep it for itself.
        let _ = std::fs::OpenOptions::new()
            .write(true)
            .open("/proc/self/fd/2")
            .and_then(|mut e| writeln!(e, "\n*** {text} ***\n"));
        false
    })
}
