//! Those who are attached: whose size the agent's terminal has, who is told its output as it comes, who
//! gets frames painted instead, and who has stopped reading. Pure: the queue's state and the time come in.
//!
//! ```text
//!             painted whole, of the agent's size, and its output can be passed on
//!   Frames ───────────────────────────────────────────────────────────────────────► Output
//!          ◄───────────────────────────────────────────────────────────────────────
//!             its size is another, it has fallen behind, or the agent has ended
//! ```

use std::time::{Duration, Instant};

/// Columns and rows.
pub type Cells = (u16, u16);

/// Of a terminal that does not know its own.
const USUAL: Cells = (80, 24);
/// A larger terminal would only cost memory.
const MOST: Cells = (1000, 500);
/// How long a newcomer is told how to leave.
const NOTE: Duration = Duration::from_secs(2);
/// Fast enough for the eye.
const BETWEEN_FRAMES: Duration = Duration::from_millis(40);
/// Behind and without taking a byte for so long, somebody is not slow but gone.
const STUCK: Duration = Duration::from_secs(5);
/// What may wait for one of them, and for all together.
const QUEUE_MAX: usize = 256 * 1024;
const QUEUES_MAX: usize = 4 * 1024 * 1024;
/// Who was too slow once is told output again when less than this came since its last frame.
const CALM: usize = 16 * 1024;

/// How a viewer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Bytes that wait for it.
    pub unread: usize,
    /// Bytes that it has ever taken.
    pub taken: u64,
}

/// What there is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    pub size: Cells,
    /// An agent runs, and nothing of its output stands half said.
    pub flows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Output,
    Frames,
}

/// What is to be done for a viewer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// As much as fits, perhaps with the note on how to leave.
    Frame {
        note: bool,
    },
    /// All of it, and from here on the output.
    Whole,
    Drop,
}

#[derive(Debug)]
pub struct Viewer {
    /// `None` when it does not know.
    size: Option<Cells>,
    pub readonly: bool,
    shows: Shows,
    /// What it shows is not what there is.
    stale: bool,
    painted: Option<Instant>,
    note_until: Option<Instant>,
    taken: u64,
    /// When it last took a byte, or had none to take.
    moved: Instant,
    was_behind: bool,
    /// Output since the last frame.
    missed: usize,
}

/// What may wait for each of so many.
pub fn room(viewers: usize) -> usize {
    (QUEUES_MAX / viewers.max(1)).min(QUEUE_MAX)
}

impl Viewer {
    /// A side of 0 is one that nobody knows.
    pub fn new(size: Cells, readonly: bool, with_note: bool, now: Instant) -> Viewer {
        Viewer {
            size: known(size),
            readonly,
            shows: Shows::Frames,
            stale: true,
            painted: None,
            note_until: with_note.then(|| now + NOTE),
            taken: 0,
            moved: now,
            was_behind: false,
            missed: 0,
        }
    }

    /// As much of it as is painted.
    pub fn size(&self) -> Cells {
        let (cols, rows) = self.size.unwrap_or(USUAL);
        (cols.min(MOST.0), rows.min(MOST.1))
    }

    /// The size that the agent's terminal should have, as far as it is this one's to say.
    pub fn rules(&self) -> Option<Cells> {
        self.size.filter(|_| !self.readonly).map(|_| self.size())
    }

    pub fn resize(&mut self, size: Cells) {
        self.size = known(size);
        self.disturb();
    }

    /// Nothing that it was told holds any more.
    pub fn disturb(&mut self) {
        self.shows = Shows::Frames;
        self.stale = true;
    }

    /// The agent wrote something: whether it is to be told so, of which `room` may wait.
    pub fn on_output(&mut self, length: usize, queue: Queue, room: usize) -> bool {
        match self.shows {
            Shows::Output if queue.unread + length <= room => return true,
            Shows::Output => {
                self.was_behind = true;
                self.disturb();
            }
            Shows::Frames => self.stale = true,
        }
        self.missed = self.missed.saturating_add(length);
        false
    }

    /// Ask after every turn.
    pub fn next(&mut self, queue: Queue, stage: Stage, now: Instant) -> Next {
        if self.note_until.is_some_and(|until| now >= until) {
            self.note_until = None;
            self.stale = true;
        }
        let has_moved = std::mem::replace(&mut self.taken, queue.taken) != queue.taken;
        if has_moved || !self.stale || queue.unread == 0 {
            self.moved = now;
        }
        if !self.stale {
            return Next::Nothing;
        }
        if queue.unread > 0 {
            return if now >= self.moved + STUCK { Next::Drop } else { Next::Nothing };
        }
        if self.painted.is_some_and(|at| now < at + BETWEEN_FRAMES) {
            return Next::Nothing;
        }
        self.painted = Some(now);
        self.stale = false;
        let is_calm = !self.was_behind || self.missed < CALM;
        self.missed = 0;
        let fits = self.size.unwrap_or(USUAL) == stage.size;
        if stage.flows && fits && self.note_until.is_none() && is_calm {
            self.was_behind = false;
            self.shows = Shows::Output;
            return Next::Whole;
        }
        Next::Frame { note: self.note_until.is_some() }
    }

    /// When to ask although nothing has happened.
    pub fn deadline(&self, queue: Queue) -> Option<Instant> {
        let own = match (self.stale, queue.unread) {
            (false, _) => None,
            (true, 0) => self.painted.map(|at| at + BETWEEN_FRAMES),
            (true, _) => Some(self.moved + STUCK),
        };
        own.into_iter().chain(self.note_until).min()
    }
}

fn known(size: Cells) -> Option<Cells> {
    Some(size).filter(|(cols, rows)| *cols > 0 && *rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Cells = (100, 30);
    const STAGE: Stage = Stage { size: SIZE, flows: true };
    const READ: Queue = Queue { unread: 0, taken: 0 };

    fn unread(unread: usize) -> Queue {
        Queue { unread, taken: 0 }
    }

    fn viewer(now: Instant) -> Viewer {
        Viewer::new(SIZE, false, false, now)
    }

    #[test]
    fn of_the_agents_size_it_is_painted_once_and_told_the_rest() {
        let now = Instant::now();
        let mut it = viewer(now);
        assert!(!it.on_output(5, READ, QUEUE_MAX), "not before the first painting");
        assert_eq!(it.next(READ, STAGE, now), Next::Whole);
        assert!(it.on_output(5, READ, QUEUE_MAX));
        assert_eq!((it.next(READ, STAGE, now), it.deadline(READ)), (Next::Nothing, None));
    }

    #[test]
    fn of_another_size_it_gets_frames_and_none_while_nothing_changes() {
        let now = Instant::now();
        let mut it = Viewer::new((80, 24), false, false, now);
        assert_eq!(it.next(READ, STAGE, now), Next::Frame { note: false });
        assert_eq!(it.deadline(READ), None);
        for _ in 0..9 {
            assert!(!it.on_output(5, READ, QUEUE_MAX));
        }
        assert_eq!(it.next(READ, STAGE, now), Next::Nothing, "too soon");
        assert_eq!(it.deadline(READ), Some(now + BETWEEN_FRAMES));
        assert_eq!(it.next(READ, STAGE, now + BETWEEN_FRAMES), Next::Frame { note: false });
        assert_eq!(it.deadline(READ), None);
        it.resize(SIZE);
        assert_eq!(it.next(READ, STAGE, now + 2 * BETWEEN_FRAMES), Next::Whole);
    }

    #[test]
    fn between_two_agents_and_within_a_long_string_there_are_only_frames() {
        let now = Instant::now();
        let mut it = viewer(now);
        let quiet = Stage { flows: false, ..STAGE };
        assert_eq!(it.next(READ, quiet, now), Next::Frame { note: false });
        it.on_output(1, READ, QUEUE_MAX);
        assert_eq!(it.next(READ, STAGE, now + BETWEEN_FRAMES), Next::Whole);
        it.disturb();
        assert!(!it.on_output(1, READ, QUEUE_MAX));
        assert_eq!(it.next(READ, quiet, now + 2 * BETWEEN_FRAMES), Next::Frame { note: false });
    }

    #[test]
    fn the_note_goes_by_itself() {
        let now = Instant::now();
        let mut it = Viewer::new(SIZE, false, true, now);
        assert_eq!(it.next(READ, STAGE, now), Next::Frame { note: true });
        assert_eq!(it.deadline(READ), Some(now + NOTE));
        assert_eq!(it.next(READ, STAGE, now + NOTE), Next::Whole);
        assert_eq!(it.deadline(READ), None);
    }

    #[test]
    fn who_falls_behind_is_painted_when_it_has_caught_up() {
        let now = Instant::now();
        let mut it = viewer(now);
        it.next(READ, STAGE, now);
        assert!(it.on_output(4096, unread(QUEUE_MAX - 4096), QUEUE_MAX));
        assert!(!it.on_output(4096, unread(QUEUE_MAX), QUEUE_MAX));
        assert!(!it.on_output(1, unread(0), QUEUE_MAX), "there is a gap");
        let later = now + BETWEEN_FRAMES;
        assert_eq!(it.next(unread(9), STAGE, later), Next::Nothing);
        // While much comes it stays with frames.
        it.on_output(CALM, unread(9), QUEUE_MAX);
        assert_eq!(it.next(READ, STAGE, later), Next::Frame { note: false });
        it.on_output(5, READ, QUEUE_MAX);
        assert_eq!(it.next(READ, STAGE, later + BETWEEN_FRAMES), Next::Whole);
        assert!(it.on_output(5, READ, QUEUE_MAX));
    }

    #[test]
    fn who_is_behind_and_takes_nothing_is_dropped() {
        let now = Instant::now();
        let mut it = viewer(now);
        it.next(READ, STAGE, now);
        // It may leave unread what it was told, as long as it has not fallen behind.
        assert_eq!(it.next(unread(9), STAGE, now + 100 * STUCK), Next::Nothing);
        assert_eq!(it.deadline(unread(9)), None);
        let now = now + 100 * STUCK;
        it.on_output(1, unread(QUEUE_MAX), QUEUE_MAX);
        assert_eq!(it.next(unread(QUEUE_MAX), STAGE, now), Next::Nothing);
        assert_eq!(it.deadline(unread(QUEUE_MAX)), Some(now + STUCK));
        let slow = Queue { unread: QUEUE_MAX - 1, taken: 1 };
        assert_eq!(it.next(slow, STAGE, now + STUCK), Next::Nothing, "it takes a byte now and then");
        assert_eq!(it.next(slow, STAGE, now + 2 * STUCK - Duration::from_millis(1)), Next::Nothing);
        assert_eq!(it.next(slow, STAGE, now + 2 * STUCK), Next::Drop);
    }

    #[test]
    fn a_size_of_nothing_is_nobodys() {
        let now = Instant::now();
        for (size, readonly, rules, shown) in [
            ((0, 0), false, None, USUAL),
            ((0, 24), false, None, USUAL),
            (SIZE, true, None, SIZE),
            (SIZE, false, Some(SIZE), SIZE),
            ((u16::MAX, u16::MAX), false, Some(MOST), MOST),
        ] {
            let it = Viewer::new(size, readonly, false, now);
            assert_eq!((it.rules(), it.size()), (rules, shown), "{size:?} {readonly}");
        }
    }

    #[test]
    fn all_queues_together_are_bounded() {
        for viewers in 0..=256 {
            assert!(room(viewers) * viewers <= QUEUES_MAX && room(viewers) <= QUEUE_MAX);
        }
    }
}
