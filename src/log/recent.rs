//! The last events, for callers that follow them. Bounded: who reads too slowly is told how many it
//! missed.

use std::collections::VecDeque;

use super::event::Event;

const MOST: usize = 1024;
const MOST_BYTES: usize = 512 * 1024;

#[derive(Default)]
pub struct Recent {
    held: VecDeque<Kept>,
    bytes: usize,
    newest: u64,
}

/// An event as the sinks got it, its secrets masked.
#[derive(Debug, PartialEq)]
pub struct Kept {
    /// 1, 2, 3 … in each life of a supervisor.
    pub seq: u64,
    /// Seconds since 1970.
    pub at: f64,
    pub event: Event,
    /// As it stands in the file.
    pub line: String,
}

impl Kept {
    fn size(&self) -> usize {
        let fields: usize = self.event.fields().iter().map(|(_, value)| value.len() + 48).sum();
        std::mem::size_of::<Kept>() + self.line.len() + fields
    }
}

impl Recent {
    pub(super) fn keep(&mut self, event: Event, at: f64, line: String) {
        self.newest += 1;
        let kept = Kept { seq: self.newest, at, event, line };
        self.bytes += kept.size();
        self.held.push_back(kept);
        while self.held.len() > MOST || self.bytes > MOST_BYTES && self.held.len() > 1 {
            self.bytes -= self.held.pop_front().map_or(0, |oldest| oldest.size());
        }
    }

    /// The `seq` of the newest event, 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The first event after `seq` that is still held, and how many before it are not.
    pub fn after(&self, seq: u64) -> Option<(u64, &Kept)> {
        let oldest = self.held.front()?.seq;
        let wanted = (seq + 1).max(oldest);
        let kept = self.held.get(usize::try_from(wanted - oldest).ok()?)?;
        Some((wanted - seq - 1, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Name;

    fn keep(recent: &mut Recent, line: &str) {
        recent.keep(Event::new(Name::Notify).with("pid", 1), 0.5, line.to_owned());
    }

    #[test]
    fn a_reader_that_keeps_up_misses_nothing() {
        let mut recent = Recent::default();
        assert_eq!((recent.newest(), recent.after(0)), (0, None));
        keep(&mut recent, "a");
        keep(&mut recent, "b");
        let lines = [0, 1].map(|seq| recent.after(seq).map(|(missed, kept)| (missed, kept.seq, &*kept.line)));
        assert_eq!(lines, [Some((0, 1, "a")), Some((0, 2, "b"))]);
        assert_eq!(recent.after(2), None);
        assert_eq!(recent.after(99), None);
    }

    #[test]
    fn a_reader_that_lags_is_told_how_many_are_gone() {
        let mut recent = Recent::default();
        for n in 0..MOST + 10 {
            keep(&mut recent, &n.to_string());
        }
        let (missed, first) = recent.after(3).expect("the ring is full");
        assert_eq!((missed, first.seq), (7, 11));
        assert_eq!(recent.after(recent.newest() - 1).map(|(missed, _)| missed), Some(0));
    }

    #[test]
    fn long_lines_do_not_grow_it_and_the_newest_always_stays() {
        let mut recent = Recent::default();
        for _ in 0..8 {
            keep(&mut recent, &"x".repeat(MOST_BYTES / 3));
        }
        assert_eq!(recent.held.len(), 2);
        keep(&mut recent, &"x".repeat(2 * MOST_BYTES));
        assert_eq!((recent.held.len(), recent.newest()), (1, 9));
    }
}
