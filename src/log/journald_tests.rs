use std::fs;
use std::time::{Duration, Instant};

use super::*;
use crate::log::tests::{Dir, until};
use crate::log::{Log, Losses, Name, Opening, Redactor, sandbox};

const LIMIT: Duration = Duration::from_secs(20);

/// A journald that answers at the real path, in a `/run` that only this test sees.
struct Fake(UnixDatagram);

impl Fake {
    fn start() -> Fake {
        let _ = fs::remove_file(SOCKET);
        let socket = UnixDatagram::bind(SOCKET).expect("bound");
        socket.set_read_timeout(Some(LIMIT)).expect("set");
        Fake(socket)
    }

    /// The fields of the next entry, in journald's native protocol. The layer's first datagram is
    /// an empty one.
    fn entry(&self) -> Vec<(String, String)> {
        let mut buffer = vec![0; 1 << 16];
        let length = loop {
            match self.0.recv(&mut buffer).expect("an entry") {
                0 => {}
                length => break length,
            }
        };
        let mut rest = &buffer[..length];
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let name_end = rest.iter().position(|b| *b == b'\n').expect("a name");
            let (name, after) = rest.split_at(name_end);
            let (size, after) = after[1..].split_at(8);
            let size = u64::from_le_bytes(size.try_into().expect("8 bytes")) as usize;
            let (value, after) = after.split_at(size);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
            fields.push((text(name), text(value)));
            rest = &after[1..];
        }
        fields
    }

    fn message(&self) -> String {
        self.entry().into_iter().find(|(name, _)| name == "MESSAGE").expect("MESSAGE").1
    }
}

fn own_run(test: &str) -> bool {
    if !sandbox::own_mounts(&format!("log::journald::tests::{test}")) {
        return false;
    }
    sandbox::disk(Path::new("/run"), "1m");
    fs::create_dir_all(Path::new(SOCKET).parent().expect("a directory")).expect("made");
    true
}

fn log(dir: &Dir) -> Log {
    Log::open(Opening {
        path: Some(dir.join("s.log")),
        session: "s-1",
        max_bytes: 1 << 20,
        journald: true,
        redactor: Redactor::new(vec!["hunter22".into()]),
    })
    .expect("opens")
}

fn numbered(n: usize) -> Event {
    Event::new(Name::Notify).with("count", n)
}

fn file_says(dir: &Dir, what: &str) -> usize {
    let text = fs::read_to_string(dir.join("s.log")).expect("readable");
    text.lines().filter(|line| line.contains(what)).count()
}

/// The count, when the line is about journald's losses.
fn lost_in(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("log_lost sink=journald lost=")?;
    rest.split(' ').next()?.parse().ok()
}

#[test]
fn an_event_is_an_entry_with_its_fields() {
    if !own_run("an_event_is_an_entry_with_its_fields") {
        return;
    }
    let fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());

    log.record(Event::new(Name::SessionStart).with("file", "a b\nhunter22").with("session", "s-1"));
    let mut entry = fake.entry();
    entry.sort();
    assert_eq!(
        entry,
        [
            pair("AGENTSUP_EVENT", "session_start"),
            pair("AGENTSUP_FILE", "a b\n***"),
            pair("AGENTSUP_SESSION", "s-1"),
            pair("MESSAGE", r#"session_start file="a b\n***" session=s-1"#),
            pair("PRIORITY", "6"),
            pair("SYSLOG_IDENTIFIER", "agentsup"),
            pair("TARGET", "agentsup"),
        ]
    );
    for (name, priority) in [(Name::LogLost, "4"), (Name::Halted, "3")] {
        log.record(Event::new(name));
        assert!(fake.entry().contains(&pair("PRIORITY", priority)), "{name:?}");
    }
    // Every key at once reaches journald, so none is missing from the field list.
    let full = KEYS.iter().fold(Event::new(Name::Notify), |event, key| event.with(key, key));
    log.record(full);
    let entry = fake.entry();
    for key in KEYS.iter().filter(|key| **key != "session") {
        assert!(entry.contains(&pair(&format!("AGENTSUP_{}", key.to_uppercase()), key)), "{key}");
    }
    assert_eq!(log.close(), Losses::default());
}

#[test]
fn a_hung_journald_costs_events_but_no_time() {
    if !own_run("a_hung_journald_costs_events_but_no_time") {
        return;
    }
    let fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    let events = 600;
    for n in 0..events {
        log.record(numbered(n)); // Would stand still here for ever, were it to wait.
    }
    assert_eq!(file_says(&dir, "notify"), events, "the file has them all");
    until("the ring is full", || log.losses().journald > 0);

    // There may be more than one gap: the thread took the first few at its own pace.
    let (mut arrived, mut lost) = (0, 0);
    while arrived + lost < events {
        match lost_in(&fake.message()) {
            Some(gap) => lost += gap,
            None => arrived += 1,
        }
    }
    assert_eq!(arrived + lost, events);
    assert_eq!(log.losses(), Losses { file: 0, journald: lost as u64 });

    log.record(numbered(events));
    assert_eq!(fake.message(), format!("notify count={events}"));
    log.record(numbered(events + 1));
    assert_eq!(log.close(), Losses { file: 0, journald: lost as u64 });
    let file = fs::read_to_string(dir.join("s.log")).expect("readable");
    let told: usize = file.lines().filter_map(lost_in).sum();
    assert_eq!(told, lost, "the file was told too");
}

#[test]
fn a_hung_journald_does_not_hold_up_the_end() {
    if !own_run("a_hung_journald_does_not_hold_up_the_end") {
        return;
    }
    let _fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    for n in 0..100 {
        log.record(numbered(n));
    }
    let start = Instant::now();
    let losses = log.close();
    assert!(start.elapsed() < Duration::from_secs(5));
    // The kernel took a few into the socket's queue; whether they are read nobody can know.
    assert!((80..100).contains(&losses.journald), "{losses:?}");
    assert_eq!(file_says(&dir, &format!("log_lost sink=journald lost={} ", losses.journald)), 1);
}

#[test]
fn a_dead_journald_is_told_the_count_when_it_is_back() {
    if !own_run("a_dead_journald_is_told_the_count_when_it_is_back") {
        return;
    }
    let fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    log.record(numbered(0));
    assert_eq!(fake.message(), "notify count=0");
    // The entry is here before the thread has asked whether we still are.
    until("the thread sleeps", || log.settled());

    drop(fake); // The path stays: connection refused.
    log.record(numbered(1));
    log.record(numbered(2));
    until("two are lost", || log.losses().journald == 2);
    fs::remove_file(SOCKET).expect("removed"); // And now there is not even a path.
    log.record(numbered(3));
    until("three are lost", || log.losses().journald == 3);

    let fake = Fake::start();
    log.record(numbered(4));
    assert_eq!(
        fake.message(),
        "log_lost sink=journald lost=3 error=\"No such file or directory (os error 2)\""
    );
    assert_eq!(fake.message(), "notify count=4");
    until("the thread sleeps", || log.settled());
    log.record(numbered(5));
    assert_eq!(file_says(&dir, "log_lost sink=journald lost=3 "), 1);
    assert_eq!(fake.message(), "notify count=5");
    assert_eq!(log.close(), Losses { file: 0, journald: 3 });
    assert_eq!(file_says(&dir, "log_lost"), 1, "told once");
}

#[test]
fn what_the_file_lost_is_told_to_journald() {
    if !own_run("what_the_file_lost_is_told_to_journald") {
        return;
    }
    let fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    fs::remove_dir_all(&*dir).expect("removed");
    log.record(numbered(0));
    fs::create_dir(&*dir).expect("made");
    log.record(numbered(1));
    assert_eq!(fake.message(), "notify count=0");
    assert_eq!(fake.message(), "log_lost sink=file lost=1 error=\"No such file or directory (os error 2)\"");
    assert_eq!(fake.message(), "notify count=1");
    assert_eq!(log.close(), Losses { file: 1, journald: 0 });
}

#[test]
fn an_entry_too_large_for_a_datagram_fits_the_threads_stack() {
    if !own_run("an_entry_too_large_for_a_datagram_fits_the_threads_stack") {
        return;
    }
    let fake = Fake::start();
    let dir = Dir::new();
    let mut log = log(&dir);
    log.record(Event::new(Name::ClaudeSpawn).with("argv", "x".repeat(1 << 20)));
    // The layer greets with an empty datagram; a large entry is a descriptor and no bytes.
    for _ in 0..2 {
        assert_eq!(fake.0.recv(&mut [0; 8]).expect("a datagram"), 0);
    }
    assert_eq!(log.close(), Losses::default());
}

#[test]
fn without_a_journald_there_is_no_thread_and_no_loss() {
    if !own_run("without_a_journald_there_is_no_thread_and_no_loss") {
        return;
    }
    let dir = Dir::new();
    let mut log = log(&dir);
    log.record(numbered(0));
    assert!(log.journald.is_none());
    assert_eq!(log.close(), Losses::default());
}
