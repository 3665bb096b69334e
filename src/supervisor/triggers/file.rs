//! `<session>.triggers`: what was accepted and what became of it, a line each, so that neither a
//! restart of the agent nor one of the supervisor drops or doubles a trigger.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::record;
use crate::control::json;
use crate::policy::trigger::{Asked, Left, State, Status, Triggers};
use crate::sorted::Sorted;

/// Written anew beyond this: most lines are of triggers that have ended.
const LONG: u64 = 8 << 20;
/// Far more than we ever write.
const LONGEST: u64 = 64 << 20;

/// Where it is kept. Nothing is made before the first trigger.
pub(super) struct Kept {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Asked {
        id: String,
        thread: String,
        reason: Option<String>,
        text: String,
        force: bool,
        at: u64,
    },
    /// From here on some of it may have been read.
    Typing(String),
    /// Nothing of it was typed after all.
    Back(String),
    Ended {
        id: String,
        thread: String,
        reason: Option<String>,
        force: bool,
        subject: String,
        gist: u64,
        how: String,
        attempts: u32,
        late: bool,
        at: u64,
        ended: u64,
    },
    Blocked(String),
    Unblocked(String),
}

impl Kept {
    /// Call it as the owner of the session's lock.
    pub(super) fn open(path: PathBuf) -> (Kept, Left) {
        let mut text = Vec::new();
        let read = record::open_plain(&path).map(|file| file.take(LONGEST).read_to_end(&mut text));
        let left = if read.is_some() { replay(&text) } else { Left::default() };
        (Kept { path, file: None, size: 0 }, left)
    }

    pub(super) fn is_long(&self) -> bool {
        self.size > LONG
    }

    pub(super) fn append(&mut self, line: &Line) -> std::io::Result<()> {
        let bytes = bytes(line);
        if self.file.is_none() {
            let mut file = open(&self.path)?;
            // Whoever wrote the last line may have been killed in the middle of it.
            if file.metadata()?.len() > 0 {
                file.write_all(b"\n")?;
            }
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        // A line that was cut by a full disk must not take the next one with it.
        let written = file.write_all(&bytes);
        if written.is_err() {
            let _ = file.write_all(b"\n");
        }
        self.size += bytes.len() as u64;
        written
    }

    /// Only what still matters.
    pub(super) fn write_anew(&mut self, triggers: &Triggers) -> std::io::Result<()> {
        let ended = triggers.all().filter(|status| status.state.is_final()).filter_map(ended);
        let waiting = triggers.kept().map(|(asked, status)| self::asked(asked, status.accepted_at));
        let typing =
            triggers.kept().filter(|(_, status)| status.state == State::Triggering || status.attempts > 0);
        let typing = typing.map(|(_, status)| Line::Typing(status.id.clone()));
        let blocked = triggers.blocked().map(|thread| Line::Blocked(thread.to_owned()));
        let text: Vec<u8> =
            ended.chain(waiting).chain(typing).chain(blocked).flat_map(|line| bytes(&line)).collect();
        record::replace(&self.path, &text)?;
        self.size = text.len() as u64;
        self.file = None;
        Ok(())
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

fn bytes(line: &Line) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

pub(super) fn asked(asked: &Asked, at: u64) -> Line {
    let Asked { id, thread, reason, text, force } = asked.clone();
    Line::Asked { id, thread, reason, text, force, at }
}

/// `None` while it has not ended.
pub(super) fn ended(status: &Status) -> Option<Line> {
    let how = status.state.end_name()?.to_owned();
    Some(Line::Ended {
        id: status.id.clone(),
        thread: status.thread.clone(),
        reason: status.reason.clone(),
        force: status.force,
        subject: status.subject.clone(),
        gist: status.gist,
        how,
        attempts: status.attempts,
        late: status.acked_late,
        at: status.accepted_at,
        ended: status.ended_at.unwrap_or(status.accepted_at),
    })
}

/// Lines that cannot be read, a last one that was cut for one, are passed over; so is what would not be
/// accepted from a caller.
fn replay(text: &[u8]) -> Left {
    let (mut asked_for, mut ended) = (InOrder::default(), InOrder::default());
    let mut typing = HashSet::new();
    let mut blocked = Sorted::new();
    for line in text.split(|byte| *byte == b'\n') {
        match json::read_bytes(line) {
            Ok(Line::Asked { id, thread, reason, text, force, at }) => {
                ended.remove(&id);
                let asked = Asked::new(&id, &thread, reason.as_deref(), &text, force, usize::MAX);
                if let Some(asked) = asked.ok().filter(|_| !asked_for.holds(&id)) {
                    asked_for.put(id, (asked, at));
                }
            }
            Ok(Line::Typing(id)) => drop(typing.insert(id)),
            Ok(Line::Back(id)) => drop(typing.remove(&id)),
            Ok(Line::Ended {
                id,
                thread,
                reason,
                force,
                subject,
                gist,
                how,
                attempts,
                late,
                at,
                ended: end,
            }) => {
                asked_for.remove(&id);
                // Long after it was forgotten its id may be another one's.
                typing.remove(&id);
                let Some(state) = State::of_end(&how) else { continue };
                let status = Status {
                    id: id.clone(),
                    thread,
                    reason,
                    force,
                    subject,
                    gist,
                    state,
                    attempts,
                    accepted_at: at,
                    ended_at: Some(end),
                    acked_late: late,
                };
                ended.put(id, status);
            }
            Ok(Line::Blocked(thread)) => drop(blocked.insert(thread, ())),
            Ok(Line::Unblocked(thread)) => drop(blocked.remove(&thread)),
            Err(_) => {}
        }
    }
    let (under_way, waiting): (Vec<_>, Vec<_>) =
        asked_for.items().partition(|(asked, _)| typing.contains(&asked.id));
    Left {
        waiting,
        under_way,
        ended: ended.items().collect(),
        blocked: blocked.into_iter().map(|(thread, ())| thread).collect(),
    }
}

/// What was put last is last. Found by id: a file has room for tens of thousands.
struct InOrder<T> {
    items: Vec<Option<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for InOrder<T> {
    fn default() -> InOrder<T> {
        InOrder { items: Vec::new(), places: HashMap::new() }
    }
}

impl<T> InOrder<T> {
    fn holds(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    fn put(&mut self, id: String, item: T) {
        self.remove(&id);
        self.places.insert(id, self.items.len());
        self.items.push(Some(item));
    }

    fn remove(&mut self, id: &str) {
        if let Some(at) = self.places.remove(id) {
            self.items[at] = None;
        }
    }

    fn items(self) -> impl Iterator<Item = T> {
        self.items.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::trigger::Failure;

    fn one(id: &str) -> Asked {
        Asked { id: id.into(), thread: "t".into(), reason: None, text: "x\ny".into(), force: false }
    }

    fn end(id: &str, state: State) -> Status {
        Status {
            id: id.into(),
            thread: "t".into(),
            reason: Some("r".into()),
            force: true,
            subject: "fix it".into(),
            gist: u64::MAX,
            state,
            attempts: 2,
            accepted_at: 5,
            ended_at: Some(9),
            acked_late: true,
        }
    }

    fn text(lines: &[Line]) -> Vec<u8> {
        lines.iter().flat_map(bytes).collect()
    }

    #[test]
    fn what_waits_what_was_typed_and_what_ended_are_told_apart() {
        let cancelled = end("c", State::Failed(Failure::Cancelled));
        let lines = [
            asked(&one("a"), 1),
            asked(&one("b"), 2),
            asked(&one("c"), 3),
            asked(&one("d"), 4),
            Line::Typing("a".into()),
            Line::Typing("d".into()),
            Line::Back("d".into()),
            ended(&cancelled).unwrap(),
            Line::Blocked("t".into()),
            Line::Blocked("u".into()),
            Line::Unblocked("t".into()),
        ];
        let mut whole = text(&lines);
        let left = replay(&whole);
        assert_eq!(left.under_way, [(one("a"), 1)]);
        assert_eq!(left.waiting, [(one("b"), 2), (one("d"), 4)]);
        assert_eq!((&left.ended[..], &left.blocked[..]), (&[cancelled][..], &["u".to_owned()][..]));
        // Killed in the middle of a line, and whatever else may stand there.
        whole.extend(b"\n\xff{}\n{\"asked\":{\"id\":\"e\",\"thr");
        assert_eq!(replay(&whole), left);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_trigger() {
        let first = end("a", State::Failed(Failure::Cancelled));
        let lines =
            [asked(&one("a"), 1), Line::Typing("a".into()), ended(&first).unwrap(), asked(&one("a"), 7)];
        let left = replay(&text(&lines));
        assert_eq!((left.waiting, left.under_way, left.ended), (vec![(one("a"), 7)], vec![], vec![]));
    }

    #[test]
    fn every_end_comes_back_as_it_was() {
        let names = ["ack", "marker", "resume", "fork", "spawn", "ack_timeout", "resume_failed", "cancelled"];
        let ends = names.map(|name| State::of_end(name).expect("a known end"));
        for state in ends {
            let status = end("a", state);
            assert_eq!(replay(&text(&[ended(&status).unwrap()])).ended, [status]);
        }
        assert_eq!(ended(&end("a", State::Deferred)), None);
    }

    #[test]
    fn an_id_that_is_given_again_is_another_trigger_and_one_that_stands_twice_is_one() {
        let lines = [
            asked(&one("a"), 1),
            Line::Typing("a".into()),
            ended(&end("a", State::Failed(Failure::AckTimeout))).unwrap(),
            asked(&one("a"), 7),
            asked(&one("a"), 8),
        ];
        let left = replay(&text(&lines));
        assert_eq!((left.waiting, left.under_way), (vec![(one("a"), 7)], vec![]));
    }

    #[test]
    fn what_no_caller_could_ask_for_is_passed_over() {
        let marker = Asked { text: "ACK_TRIGGER:a".into(), ..one("a") };
        let name = Asked { thread: "t]".into(), ..one("b") };
        assert_eq!(replay(&text(&[asked(&marker, 1), asked(&name, 2)])), Left::default());
    }
}
