//! Sleep until something happens or a deadline passes.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

/// No event tells that a limit was raised.
const REST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Read,
    Write,
    Both,
    /// Only the end of the other side, which is always told.
    HangUp,
}

/// What a source is ready for. Hang-ups and errors count as both: the next read or write tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub read: bool,
    pub write: bool,
    pub hung_up: bool,
}

/// The sources of one wait, each with the token that it will come back as.
pub struct Sources<T> {
    fds: Vec<libc::pollfd>,
    tokens: Vec<T>,
}

impl<T: Copy> Sources<T> {
    pub fn new() -> Sources<T> {
        Sources { fds: Vec::new(), tokens: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.fds.clear();
        self.tokens.clear();
    }

    pub fn add(&mut self, token: T, fd: BorrowedFd, want: Want) {
        let events = match want {
            Want::Read => libc::POLLIN,
            Want::Write => libc::POLLOUT,
            Want::Both => libc::POLLIN | libc::POLLOUT,
            Want::HangUp => 0,
        };
        self.fds.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
        self.tokens.push(token);
    }

    /// Returns at the first readiness, at `deadline`, or at a signal, whose record is then ready.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Vec<(T, Ready)> {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut ready = self.poll(timeout);
        // A signal's record is written after the sources were looked at, and we may have been stopped
        // for longer than the deadline. Another look, so that what came before it is not judged as late.
        let is_late = timeout != Some(Duration::ZERO) && deadline.is_some_and(|at| Instant::now() >= at);
        if is_late || ready == Err(Errno::EINTR) {
            ready = self.poll(Some(Duration::ZERO));
        }
        if ready == Err(Errno::EINVAL) {
            ready = self.poll_fewer(timeout);
        }
        if !ready.is_ok_and(|ready| ready > 0) {
            // A time-out; EINTR once more, and the next call comes at once; or ENOMEM, which nobody but
            // that one can do anything about.
            return Vec::new();
        }
        let both = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        self.fds
            .iter()
            .zip(&self.tokens)
            .filter(|(fd, _)| fd.revents != 0)
            .map(|(fd, &token)| {
                let is = |bits| fd.revents & (bits | both) != 0;
                (token, Ready { read: is(libc::POLLIN), write: is(libc::POLLOUT), hung_up: is(0) })
            })
            .collect()
    }

    /// Somebody has lowered our limit of descriptors below the number of sources. Those that were added
    /// first count most; the others wait until the limit is raised or some have gone.
    fn poll_fewer(&mut self, timeout: Option<Duration>) -> nix::Result<i32> {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let mut others = self.fds.split_off(self.fds.len().min(limit as usize));
        let ready = self.poll(Some(timeout.map_or(REST, |left| left.min(REST))));
        others.iter_mut().for_each(|fd| fd.revents = 0);
        self.fds.append(&mut others);
        ready
    }

    fn poll(&mut self, timeout: Option<Duration>) -> nix::Result<i32> {
        let timeout = timeout
            .map(|left| libc::timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |t| t as *const _);
        // SAFETY: the array is valid for its length, the timeout is null or valid, and a null mask
        // leaves the signal mask alone.
        Errno::result(unsafe {
            libc::ppoll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, timeout, std::ptr::null())
        })
    }
}

impl<T: Copy> Default for Sources<T> {
    fn default() -> Self {
        Sources::new()
    }
}
