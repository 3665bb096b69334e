//! Whoever started us and wants to know when the agent runs: systemd through `$NOTIFY_SOCKET`, s6 and
//! its kin through `--ready-fd`. One that does not listen is never waited for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::below;
use super::settings::{CannotStart, ManagerSettings};
use crate::os::notify::{NotifySocket, Told, adopt};
use crate::os::sink::{Sink, Wrote};

#[derive(Default)]
pub(super) struct Manager {
    socket: Option<NotifySocket>,
    ready_fd: Option<OwnedFd>,
    watchdog: Option<Watchdog>,
    news: News,
    /// Not told to the operator yet.
    trouble: Option<String>,
}

struct Watchdog {
    every: Duration,
    next: Instant,
}

/// What is to be said, the newest of each kind; sent as one message.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    ready: bool,
    stopping: bool,
    alive: bool,
    status: Option<String>,
}

/// Of a refusal: what a pipe takes as a whole.
const LONGEST: usize = 4000;

/// Whether a node started us.
pub(super) fn is_child() -> bool {
    std::env::var_os(below::MARK).is_some()
}

/// The same as [`Manager::refused`], while there is no supervisor yet.
pub fn refused_at(ready_fd: i32, why: &str) -> bool {
    is_child() && adopt(ready_fd).is_ok_and(|fd| tell_why(&fd, why))
}

/// In one line, which is not empty: that would say that we are ready.
fn tell_why(fd: &OwnedFd, why: &str) -> bool {
    let mut why: String =
        why.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    why.truncate(why.floor_char_boundary(LONGEST));
    !why.is_empty() && matches!(Sink::on(fd.as_fd()).write(why.as_bytes()), Wrote::Bytes(_))
}

impl Manager {
    pub(super) fn open(settings: &ManagerSettings) -> Result<Manager, CannotStart> {
        let ready_fd = settings.ready_fd.map(|number| {
            adopt(number).map_err(|error| CannotStart {
                code: 78,
                message: format!(
                    "ready_fd: descriptor {number}: {error}; open it for agentsup, or leave it out"
                ),
            })
        });
        // A variable that outlived its manager, in a shell for one, keeps no agent from running.
        let socket = settings.notify_socket.as_deref().map(|address| {
            NotifySocket::open(address).map_err(|error| {
                let address = address.display();
                format!("NOTIFY_SOCKET: `{address}`: {error}; unset it where no service manager listens")
            })
        });
        let (socket, trouble) = match socket {
            Some(Ok(socket)) => (Some(socket), None),
            Some(Err(trouble)) => (None, Some(trouble)),
            None => (None, None),
        };
        let every = settings.watchdog.filter(|_| socket.is_some()).map(|limit| limit / 2);
        Ok(Manager {
            ready_fd: ready_fd.transpose()?,
            watchdog: every.map(|every| Watchdog { every, next: Instant::now() }),
            socket,
            news: News::default(),
            trouble,
        })
    }

    /// The agent runs. Said once; later agents are news for the status only.
    pub(super) fn ready(&mut self) {
        self.news.ready = true;
        if let Some(fd) = self.ready_fd.take() {
            // A pipe that is full already has more than this to tell its reader.
            let _ = Sink::on(fd.as_fd()).write(b"\n");
        }
    }

    /// A node that waits for its child learns why it waits in vain. False: nobody was told.
    pub(super) fn refused(&mut self, why: &str) -> bool {
        is_child() && self.ready_fd.take().is_some_and(|fd| tell_why(&fd, why))
    }

    pub(super) fn stopping(&mut self) {
        self.news.stopping = true;
    }

    pub(super) fn status(&mut self, status: String) {
        self.news.status = Some(status);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.watchdog.as_ref().map(|watchdog| watchdog.next)
    }

    /// Set while there is something that its queue has no room for.
    pub(super) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().filter(|_| self.news != News::default()).map(AsFd::as_fd)
    }

    /// After every turn: what is new goes out. Why it never will again, when that is so.
    pub(super) fn tell(&mut self, now: Instant) -> Option<String> {
        if let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| now >= watchdog.next) {
            watchdog.next = now + watchdog.every;
            self.news.alive = true;
        }
        let Some(socket) = self.socket.as_ref() else {
            self.news = News::default();
            return self.trouble.take();
        };
        let message = self.news.message()?;
        match socket.send(&message) {
            Told::Yes => self.news = News::default(),
            Told::Later => {}
            Told::Never(errno) => {
                self.socket = None;
                self.watchdog = None;
                return Some(format!("the service manager cannot be told any more: {}", errno.desc()));
            }
        }
        None
    }
}

impl News {
    /// As sd_notify(3) has it; nothing without news.
    fn message(&self) -> Option<String> {
        let mut lines = Vec::new();
        if self.ready {
            lines.push("READY=1".to_owned());
            // In a container's namespace our number means nothing to who reads it.
            let pid = std::process::id();
            lines.extend((pid != 1).then(|| format!("MAINPID={pid}")));
        }
        lines.extend(self.stopping.then(|| "STOPPING=1".to_owned()));
        lines.extend(self.alive.then(|| "WATCHDOG=1".to_owned()));
        lines.extend(self.status.as_ref().map(|status| format!("STATUS={status}")));
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn managed(watchdog: Option<Duration>) -> (Manager, UnixDatagram) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("agentsup-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let notify_socket = Some(format!("@{name}").into());
        let settings = ManagerSettings { notify_socket, watchdog, ready_fd: None };
        (Manager::open(&settings).unwrap(), socket)
    }

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 4096];
        std::iter::from_fn(|| {
            socket.recv(&mut buffer).ok().map(|n| String::from_utf8_lossy(&buffer[..n]).into())
        })
        .collect()
    }

    #[test]
    fn the_news_of_a_turn_is_one_message() {
        let (mut manager, socket) = managed(None);
        let now = Instant::now();
        assert_eq!(manager.tell(now), None);
        assert_eq!((heard(&socket), manager.deadline()), (vec![], None));
        manager.status("starting".into());
        manager.ready();
        manager.status("running, pid 7".into());
        manager.tell(now);
        let expected = format!("READY=1\nMAINPID={}\nSTATUS=running, pid 7", std::process::id());
        assert_eq!(heard(&socket), [expected]);
        assert!(manager.waits_for().is_none());
        manager.stopping();
        manager.tell(now);
        assert_eq!(heard(&socket), ["STOPPING=1"]);
    }

    #[test]
    fn the_watchdog_is_fed_at_half_its_time() {
        let (mut manager, socket) = managed(Some(Duration::from_secs(10)));
        let start = manager.deadline().expect("at once");
        for (after, expected) in [(0, 1), (1, 0), (4, 0), (5, 1), (6, 0), (30, 1), (34, 0), (35, 1)] {
            manager.tell(start + Duration::from_secs(after));
            assert_eq!(heard(&socket), vec!["WATCHDOG=1"; expected], "after {after} s");
        }
        assert_eq!(manager.deadline(), Some(start + Duration::from_secs(40)));
    }

    #[test]
    fn one_that_does_not_listen_gets_the_newest_later_and_one_that_is_gone_nothing() {
        let (mut manager, socket) = managed(None);
        let now = Instant::now();
        for n in 0..1000 {
            manager.status(format!("status {n}"));
            assert_eq!(manager.tell(now), None);
        }
        assert!(manager.waits_for().is_some(), "its queue is full");
        manager.ready();
        let held = heard(&socket);
        assert!(held.len() < 1000);
        assert_eq!(manager.tell(now), None);
        let last = heard(&socket).pop().unwrap();
        assert!(last.starts_with("READY=1\n") && last.ends_with("STATUS=status 999"), "{last}");
        drop(socket);
        manager.stopping();
        assert!(manager.tell(now).is_some_and(|why| why.contains("refused")));
        manager.stopping();
        assert_eq!((manager.tell(now), manager.waits_for().is_none()), (None, true));
    }
}
