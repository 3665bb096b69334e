use std::ops::Deref;
use std::path::Path;
use std::time::Instant;

use super::*;

/// A directory that goes with the test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        let template = std::env::temp_dir().join("agentsup-log-XXXXXX");
        Dir(nix::unistd::mkdtemp(&template).expect("made"))
    }
}

impl Deref for Dir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for what another thread brings about, with a limit.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::yield_now();
    }
}

impl Log {
    /// The journald thread has nothing left to do.
    pub fn settled(&self) -> bool {
        self.journald.as_ref().is_none_or(Ring::settled)
    }
}

fn file_only(path: PathBuf) -> Opening<'static> {
    let redactor = Redactor::new(vec!["hunter22".into(), "say \"x\" x".into()]);
    Opening { path: Some(path), session: "s-1", max_bytes: 1 << 20, journald: false, redactor }
}

#[test]
fn a_record_is_a_line_with_the_time_of_day() {
    let dir = Dir::new();
    let mut log = Log::open(file_only(dir.join("s.log"))).expect("opens");
    let before = epoch();
    log.record(Event::new(Name::SessionStart).with("session", "s-1"));
    log.record(Event::new(Name::Halted).with("code", 1));
    assert_eq!(log.close(), Losses::default());
    let text = std::fs::read_to_string(dir.join("s.log")).expect("readable");
    let stamp: u64 = text[1..].split(']').next().and_then(|n| n.parse().ok()).expect("a stamp");
    assert!((before..=epoch()).contains(&stamp));
    let heads: Vec<&str> = text.lines().filter_map(|line| line.split_once("] ")).map(|(_, l)| l).collect();
    assert_eq!(heads, ["session_start session=s-1", "[supervisor] halted code=1"]);
}

#[test]
fn secrets_are_masked_before_they_are_quoted() {
    let dir = Dir::new();
    let mut log = Log::open(file_only(dir.join("s.log"))).expect("opens");
    log.record(Event::new(Name::Halted).with("why", "<say \"x\" x>").with("argv", "-k hunter22"));
    log.set_redactor(Redactor::new(vec!["swordfish".into()]));
    log.record(Event::new(Name::Halted).with("why", "hunter22").with("argv", "swordfish"));
    let text = std::fs::read_to_string(dir.join("s.log")).expect("readable");
    assert!(text.contains("halted why=<***> argv=\"-k ***\"\n"), "{text}");
    assert!(text.contains("halted why=hunter22 argv=***\n"), "{text}");
}

#[test]
fn a_log_that_cannot_be_says_what_and_why() {
    let error = Log::open(file_only("/nowhere/s.log".into())).err().expect("refused");
    assert_eq!(
        error,
        "log file: cannot open `/nowhere/s.log`: No such file or directory (os error 2); choose another place with --dir"
    );
}

#[test]
fn no_log_takes_everything_and_keeps_nothing() {
    let mut log = Log::none();
    log.record(Event::new(Name::Shutdown));
    assert_eq!(log.close(), Losses::default());
}

#[test]
fn close_says_what_the_file_lost_and_ends_the_log() {
    let dir = Dir::new();
    let logs = dir.join("logs");
    std::fs::create_dir(&logs).expect("made");
    let mut log = Log::open(file_only(logs.join("s.log"))).expect("opens");
    std::fs::remove_dir_all(&logs).expect("removed");
    log.record(Event::new(Name::Shutdown));
    std::fs::create_dir(&logs).expect("made");
    assert_eq!(log.close(), Losses { file: 1, journald: 0 });
    log.record(Event::new(Name::Shutdown));
    let text = std::fs::read_to_string(logs.join("s.log")).expect("readable");
    assert!(text.contains("log_lost sink=file lost=1") && text.lines().count() == 1, "{text}");
}
