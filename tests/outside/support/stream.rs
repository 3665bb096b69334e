//! What comes out of a pipe or a terminal, kept by a reader of its own so that nobody is held up,
//! and waited for by its content.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    ended: bool,
}

#[derive(Clone, Default)]
pub struct Stream {
    shared: Arc<(Mutex<Seen>, Condvar)>,
}

impl Stream {
    pub fn of(source: impl Into<OwnedFd>) -> Stream {
        let stream = Stream::default();
        let keeper = stream.clone();
        let mut source = File::from(source.into());
        std::thread::spawn(move || {
            keeper.keep(&mut source);
        });
        stream
    }

    /// The reader lets go of its source when the returned end of a pipe is dropped.
    pub fn until_dropped(source: impl Into<OwnedFd>) -> (Stream, OwnedFd) {
        let stream = Stream::default();
        let keeper = stream.clone();
        let source = source.into();
        let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe");
        std::thread::spawn(move || {
            keeper.keep(&mut Until { source: File::from(source), stop });
        });
        (stream, stopper)
    }

    fn keep(&self, source: &mut impl Read) {
        let mut buffer = vec![0u8; 64 * 1024];
        let (seen, changed) = &*self.shared;
        loop {
            // A terminal's end is EIO, a pipe's is 0: both are the end.
            let n = source.read(&mut buffer).unwrap_or(0);
            let mut seen = seen.lock().unwrap();
            seen.bytes.extend_from_slice(&buffer[..n]);
            seen.ended = n == 0;
            changed.notify_all();
            if n == 0 {
                return;
            }
        }
    }

    /// Waits until `done` holds for (all bytes so far, at the end); tells whether it came to that.
    fn wait(&self, limit: Duration, mut done: impl FnMut(&[u8], bool) -> bool) -> bool {
        let (seen, changed) = &*self.shared;
        let until = Instant::now() + limit;
        let mut guard = seen.lock().unwrap();
        loop {
            if done(&guard.bytes, guard.ended) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || guard.ended {
                return false;
            }
            guard = changed.wait_timeout(guard, left).unwrap().0;
        }
    }

    /// Waits until `text` appears at or after `from`; the position behind it.
    pub fn position_after(&self, from: usize, text: &str, limit: Duration) -> Option<usize> {
        let mut at = None;
        self.wait(limit, |bytes, _| {
            let rest = bytes.get(from..).unwrap_or_default();
            at = find(rest, text.as_bytes()).map(|i| from + i + text.len());
            at.is_some()
        });
        at
    }

    pub fn holds_within(&self, limit: Duration, bytes: usize) -> bool {
        self.wait(limit, |seen, _| seen.len() >= bytes)
    }

    pub fn ended_within(&self, limit: Duration) -> bool {
        self.wait(limit, |_, ended| ended)
    }

    pub fn len(&self) -> usize {
        self.shared.0.lock().unwrap().bytes.len()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.shared.0.lock().unwrap().bytes.clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

struct Until {
    source: File,
    stop: OwnedFd,
}

impl Read for Until {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let entry = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [entry(self.source.as_fd()), entry(self.stop.as_fd())];
        poll(&mut fds, PollTimeout::NONE)?;
        match fds[1].any() {
            Some(true) => Ok(0),
            _ => self.source.read(buffer),
        }
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}
