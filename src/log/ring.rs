//! A bounded ring between the loop and a sink that may block: the loop never waits for the sink,
//! a full ring drops and counts. One thread empties it, and sleeps while there is nothing to do.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::event::Event;
use super::{Loss, Sink};
use crate::os::mask::Blocked;

/// Enough for every restart of a bad hour.
const CAPACITY: usize = 256;

/// What a hung sink may cost in memory: a command line with a prompt in it can be long.
const CAPACITY_BYTES: usize = 256 * 1024;

/// A debug build, whose frames are the largest, was seen to work with a quarter of it.
const STACK: usize = 64 * 1024;

/// The far end. It may block, and it lives on the ring's thread only.
pub trait Deliver: Send + 'static {
    fn deliver(&mut self, event: &Event) -> io::Result<()>;
}

pub struct Ring {
    shared: Arc<Shared>,
    /// How much of the ended loss was handed out by [`Ring::ended_loss`].
    told: u64,
}

struct Shared {
    state: Mutex<State>,
    /// Something is queued, or the end is asked for.
    work: Condvar,
    /// The thread has ended.
    over: Condvar,
}

/// Held for a push or a pop, never while something is delivered.
struct State {
    queue: VecDeque<Entry>,
    /// Of all values in the queue.
    bytes: usize,
    /// Dropped since the last event that found room.
    dropped: u64,
    /// An event is on its way; it is lost if it never arrives.
    busy: bool,
    closing: bool,
    over: bool,
    /// All that was lost so far.
    lost: u64,
    /// The part of it that is followed by something delivered.
    ended: u64,
    /// The last reason for a loss.
    error: String,
}

struct Entry {
    event: Event,
    /// What is missing right before this event, so that the gap is told where it is.
    dropped_before: u64,
}

impl Ring {
    pub fn start(sink: Sink, far_end: impl Deliver) -> Ring {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                bytes: 0,
                dropped: 0,
                busy: false,
                closing: false,
                over: false,
                lost: 0,
                ended: 0,
                error: String::new(),
            }),
            work: Condvar::new(),
            over: Condvar::new(),
        });
        let thread_side = Arc::clone(&shared);
        if let Err(error) = spawn(sink.as_str(), move || serve(&thread_side, sink, far_end)) {
            // A sink that cannot be served is a sink that loses everything, no reason to stop.
            let mut state = shared.lock();
            state.over = true;
            state.error = error.to_string();
        }
        Ring { shared, told: 0 }
    }

    pub fn push(&self, event: Event) {
        let size = size(&event);
        let mut state = self.shared.lock();
        // A single event is never too large: an empty ring takes it.
        let full =
            state.queue.len() >= CAPACITY || (!state.queue.is_empty() && state.bytes + size > CAPACITY_BYTES);
        if state.over {
            state.lost += 1;
        } else if full {
            state.lost += 1;
            state.dropped += 1;
            state.error = "too slow".to_owned();
        } else {
            let dropped_before = std::mem::take(&mut state.dropped);
            state.bytes += size;
            state.queue.push_back(Entry { event, dropped_before });
            self.shared.work.notify_one();
        }
    }

    pub fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// A loss that is over: the sink takes events again. Each is handed out once.
    pub fn ended_loss(&mut self) -> Option<Loss> {
        let state = self.shared.lock();
        let lost = state.ended - self.told;
        self.told = state.ended;
        (lost > 0).then(|| Loss { lost, error: state.error.clone() })
    }

    #[cfg(test)]
    pub fn settled(&self) -> bool {
        let state = self.shared.lock();
        state.queue.is_empty() && !state.busy
    }

    /// Gives the thread `limit` to empty the ring, then leaves it behind: it may be blocked for
    /// good, and ends with the process. Returns what was not told yet.
    pub fn close(&mut self, limit: Duration) -> Option<Loss> {
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.work.notify_one();
        let waited = self.shared.over.wait_timeout_while(state, limit, |state| !state.over);
        state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        if !state.over {
            state.over = true;
            state.lost += state.queue.len() as u64 + u64::from(state.busy);
            state.queue.clear();
            state.error = "too slow".to_owned();
        }
        let lost = state.lost - self.told;
        self.told = state.lost;
        (lost > 0).then(|| Loss { lost, error: state.error.clone() })
    }
}

impl Shared {
    /// A panic on one side must not become one on the other; the counts are valid at any moment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sleeps until there is work: an event, what was dropped before it, or both. None: the end.
    fn next(&self) -> Option<(Option<Event>, u64)> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if let Some(Entry { event, dropped_before }) = state.queue.pop_front() {
                state.bytes -= size(&event);
                state.busy = true;
                return Some((Some(event), dropped_before));
            }
            if state.dropped > 0 {
                return Some((None, std::mem::take(&mut state.dropped)));
            }
            if state.closing {
                state.over = true;
                self.over.notify_all();
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

fn size(event: &Event) -> usize {
    event.fields().iter().map(|(_, value)| value.len()).sum()
}

fn serve(shared: &Shared, sink: Sink, mut far_end: impl Deliver) {
    // Losses the far end has not heard of.
    let mut untold = 0;
    while let Some((event, dropped)) = shared.next() {
        untold += dropped;
        let mut told = 0;
        let mut outcome = Ok(());
        if untold > 0 {
            let error = shared.lock().error.clone();
            outcome = far_end.deliver(&Loss { lost: untold, error }.event(sink));
            if outcome.is_ok() {
                told = std::mem::take(&mut untold);
            }
        }
        if let (Some(event), Ok(())) = (&event, &outcome) {
            outcome = far_end.deliver(event);
        }

        let mut state = shared.lock();
        if state.over {
            return; // `close` has counted the rest.
        }
        state.busy = false;
        state.ended += told;
        if let Err(error) = outcome {
            state.error = error.to_string();
            if event.is_some() {
                state.lost += 1;
                untold += 1;
            }
        }
    }
}

/// The loop's thread is the one that takes signals: this one starts with all of them blocked.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = Blocked::all();
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body).map(drop)
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
