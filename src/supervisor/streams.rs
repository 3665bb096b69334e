//! `events` and `logs`: what a caller follows. Fed only while its reader takes it, from the ring of
//! the last events, so that a slow reader costs no memory: it is told how many it missed.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::{Rc, Weak};

use super::{Supervisor, record};
use crate::control::protocol::{
    Body, Dropped, End, Event, EventFrame, Id, LogLine, Reply, Start, StreamFrame,
};
use crate::control::server::CallerId;
use crate::log::Log;
use crate::log::recent::Kept;

/// How far back in a file lines are looked for.
const BACK_MOST: u64 = 512 * 1024;
/// Read from a file in one go; a line that is longer comes in pieces.
const PIECE: usize = 32 * 1024;

pub(super) struct Stream {
    pub(super) caller: CallerId,
    id: Option<Id>,
    kind: Kind,
    /// The last event that was sent, or that is in the file.
    sent: u64,
    /// The last event to be sent; `None`: followed for ever.
    last: Option<u64>,
    /// Old lines that come first, out of the files.
    old: VecDeque<Section>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Events,
    Lines,
}

/// A part of a file. The open file stays itself when its name goes to another.
struct Section {
    file: Rc<File>,
    at: u64,
    end: u64,
}

/// Files that are read by streams, each open once however many readers it has: descriptors are for
/// callers and for the agent.
#[derive(Default)]
pub(super) struct Files(Vec<Weak<File>>);

impl Files {
    pub(super) fn open(&mut self, path: &Path) -> Option<Rc<File>> {
        let file = record::open_plain(path)?;
        let identity = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let wanted = identity(&file)?;
        self.0.retain(|held| held.strong_count() > 0);
        let known = self.0.iter().filter_map(Weak::upgrade).find(|held| identity(held) == Some(wanted));
        Some(known.unwrap_or_else(|| {
            let file = Rc::new(file);
            self.0.push(Rc::downgrade(&file));
            file
        }))
    }
}

impl Stream {
    pub(super) fn of_events(
        caller: CallerId,
        id: Option<Id>,
        since: Option<u64>,
        follow: bool,
        log: &Log,
    ) -> Stream {
        let newest = log.recent().newest();
        let sent = match (since, follow) {
            // A number of another life counts as none.
            (Some(seq), _) if seq > newest => 0,
            (Some(seq), _) => seq,
            (None, true) => newest,
            // All that are held; those before are not missing.
            (None, false) => log.recent().after(0).map_or(newest, |(gone, _)| gone),
        };
        let last = (!follow).then_some(newest);
        Stream { caller, id, kind: Kind::Events, sent, last, old: VecDeque::new() }
    }

    /// Every event so far stands in the file, so the ring takes over without gap or repetition.
    pub(super) fn of_lines(
        caller: CallerId,
        id: Option<Id>,
        file: &Path,
        lines: u32,
        follow: bool,
        (log, files): (&Log, &mut Files),
    ) -> Stream {
        let newest = log.recent().newest();
        let mut before = file.as_os_str().to_owned();
        before.push(".1");
        let mut old = VecDeque::new();
        let mut missing = u64::from(lines);
        for path in [file, Path::new(&before)] {
            if missing == 0 {
                break;
            }
            if let Some((section, found)) = Section::of_last_lines(files.open(path), missing) {
                old.push_front(section);
                missing -= found;
            }
        }
        let last = (!follow).then_some(newest);
        Stream { caller, id, kind: Kind::Lines, sent: newest, last, old }
    }

    /// What comes next; nothing when the reader is up to date.
    fn next(&mut self, log: &Log) -> Vec<StreamFrame> {
        while let Some(section) = self.old.front_mut() {
            match section.next_lines() {
                Some(lines) => {
                    return lines.into_iter().map(|line| StreamFrame::Log(LogLine { line })).collect();
                }
                None => drop(self.old.pop_front()),
            }
        }
        if self.last.is_some_and(|last| self.sent >= last) {
            return vec![StreamFrame::End(End { end: true })];
        }
        let Some((gone, kept)) = log.recent().after(self.sent) else { return vec![] };
        self.sent = kept.seq;
        let missed = (gone > 0).then_some(StreamFrame::Dropped(Dropped { dropped: gone }));
        let frame = match self.kind {
            Kind::Events => StreamFrame::Event(EventFrame { event: event(kept) }),
            Kind::Lines => StreamFrame::Log(LogLine { line: kept.line.clone() }),
        };
        missed.into_iter().chain([frame]).collect()
    }
}

/// First in every stream.
pub(super) fn start(log: &Log, started_at: f64) -> StreamFrame {
    StreamFrame::Start(Start { start: true, started_at, newest: log.recent().newest() })
}

fn event(kept: &Kept) -> Event {
    let fields = kept.event.fields().iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    Event { seq: kept.seq, at: kept.at, name: kept.event.name.as_str().to_owned(), fields: fields.collect() }
}

impl Section {
    /// The last `lines` of a file, or as many as are near its end; and how many these are.
    fn of_last_lines(file: Option<Rc<File>>, lines: u64) -> Option<(Section, u64)> {
        let file = file?;
        let end = file.metadata().ok()?.len();
        let floor = end.saturating_sub(BACK_MOST);
        let mut piece = vec![0u8; PIECE];
        let (mut at, mut found) = (end, 0);
        while at > floor {
            let size = (at - floor).min(PIECE as u64) as usize;
            let from = at - size as u64;
            file.read_exact_at(&mut piece[..size], from).ok()?;
            for (i, _) in piece[..size].iter().enumerate().rev().filter(|(_, b)| **b == b'\n') {
                let behind = from + i as u64 + 1;
                // The newline that ends the file begins no line.
                if behind == end {
                    continue;
                }
                found += 1;
                if found == lines {
                    return Some((Section { file, at: behind, end }, found));
                }
            }
            at = from;
        }
        if floor == 0 && end > 0 {
            return Some((Section { file, at: 0, end }, found + 1));
        }
        // Cut off within a line: the next whole one is the first.
        let mut section = Section { file, at: floor, end };
        section.skip_line();
        Some((section, lines.min(found)))
    }

    fn skip_line(&mut self) {
        let mut piece = vec![0u8; PIECE];
        while self.at < self.end {
            let size = self.read(&mut piece);
            match piece[..size].iter().position(|b| *b == b'\n') {
                Some(i) => return self.at += i as u64 + 1,
                None if size == 0 => return,
                None => self.at += size as u64,
            }
        }
    }

    fn read(&self, piece: &mut [u8]) -> usize {
        let size = (self.end - self.at).min(piece.len() as u64) as usize;
        self.file.read_at(&mut piece[..size], self.at).unwrap_or(0)
    }

    fn next_lines(&mut self) -> Option<Vec<String>> {
        let mut piece = vec![0u8; PIECE];
        let size = self.read(&mut piece);
        if size == 0 {
            return None;
        }
        let whole = piece[..size].iter().rposition(|b| *b == b'\n').map_or(size, |i| i + 1);
        self.at += whole as u64;
        let text = String::from_utf8_lossy(&piece[..whole]);
        Some(text.lines().map(str::to_owned).collect())
    }
}

impl Supervisor {
    /// After every turn: whatever is new, to whoever has room for it.
    pub(super) fn feed_streams(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        for mut stream in std::mem::take(&mut calls.streams) {
            if calls.server.is_here(stream.caller) && !feed(&mut stream, calls, &self.log) {
                calls.streams.push(stream);
            }
        }
        self.feed_transcripts();
    }
}

/// True when the stream has come to its end.
fn feed(stream: &mut Stream, calls: &mut super::calls::Calls, log: &Log) -> bool {
    while calls.server.has_room(stream.caller) {
        let frames = stream.next(log);
        if frames.is_empty() {
            return false;
        }
        for frame in frames {
            let ends = matches!(frame, StreamFrame::End(_));
            calls.server.reply(stream.caller, &Reply::ok(stream.id.clone(), Body::Stream(frame)));
            if ends {
                calls.server.release(stream.caller);
                return true;
            }
        }
    }
    false
}
