//! One caller of one supervisor. A request that was sent is never sent a second time: whether it
//! was done is for the user to find out, not for a library to guess.
//!
//! ```no_run
//! use std::{path::Path, time::Duration};
//! use agentsup::control::{Client, protocol::{Call, Mode, Pid}};
//!
//! let mut client = Client::connect(Path::new("/run/agentsup/supervisor/s.sock"), Duration::from_secs(5))?;
//! let agent: Pid = client.call(Call::Restart { mode: Mode::Continue })?;
//! println!("{}", agent.pid);
//! # Ok::<(), agentsup::control::CallError>(())
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::frame::{Decoder, Frame, Framing};
use super::json;
use super::protocol::{AttachFrame, Attached, Call, Code, Error, Id, Request, StreamFrame, reply};
use crate::os::poll::{Sources, Want};
use crate::os::signals::{self, Inbox};
use crate::os::socket;

pub mod many;
#[cfg(test)]
pub(crate) mod testing;
pub mod wire;

use wire::Wire;

const CHUNK: usize = 16 * 1024;
/// An answer may be on its way so long after the TERM of whoever waits for it.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// Why there is no answer. Only after the last two may the call have been done all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Nobody took the request; nothing was done.
    CouldNotConnect { path: PathBuf, why: String },
    /// The supervisor says no.
    Refused(Error),
    /// The request was sent; no answer came in time.
    TimedOutAfterSend { after: Duration },
    /// The request was sent; the connection ended, or what came back is no reply.
    Broken(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::CouldNotConnect { path, why } => {
                write!(f, "no supervisor answers at {}: {why}", path.display())
            }
            CallError::Refused(error) => write!(f, "{error}"),
            CallError::TimedOutAfterSend { after } => {
                // `50ms`, `5s`; what a clock adds to that tells nobody anything.
                let after = Duration::from_millis(after.as_micros().div_ceil(1000) as u64);
                write!(f, "no answer within {after:?}; the request was sent, so it may still be done")
            }
            CallError::Broken(why) => write!(f, "{why}; the request was sent, so it may have been done"),
        }
    }
}

impl std::error::Error for CallError {}

impl CallError {
    /// For a call that was one part of what had `whole` to end: that is the time people asked for.
    pub fn after_all(self, whole: Duration) -> CallError {
        match self {
            CallError::TimedOutAfterSend { .. } => CallError::TimedOutAfterSend { after: whole },
            other => other,
        }
    }
}

/// The body that belongs to the call.
pub fn typed<B: DeserializeOwned>(body: &Value) -> Result<B, CallError> {
    json::read(body).map_err(no_reply)
}

#[inline(never)]
fn no_reply(why: json::Wrong) -> CallError {
    CallError::Broken(format!("no reply to this call: {why}"))
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    For(Duration),
    /// For a `wait` without end, and between two frames of a stream that is followed.
    Endless,
}

impl Patience {
    fn deadline(self) -> Deadline {
        Deadline { patience: self, began: Instant::now() }
    }
}

struct Deadline {
    patience: Patience,
    began: Instant,
}

/// The deadline has passed.
struct Late;

impl Deadline {
    /// For the socket's own time-out, which takes no zero.
    fn left(&self) -> Result<Option<Duration>, Late> {
        match self.patience {
            Patience::Endless => Ok(None),
            Patience::For(whole) => match whole.checked_sub(self.began.elapsed()) {
                Some(left) if !left.is_zero() => Ok(Some(left)),
                Some(_) | None => Err(Late),
            },
        }
    }

    fn timed_out(&self) -> CallError {
        CallError::TimedOutAfterSend {
            after: match self.patience {
                Patience::For(whole) => whole,
                Patience::Endless => Duration::MAX,
            },
        }
    }
}

pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    decoder: Decoder,
    patience: Duration,
    last_id: u64,
    /// Where answers without end go: they are over when its reader has gone.
    output: Option<OwnedFd>,
    /// Where a TERM waits for the answer.
    term: Option<Inbox>,
}

/// What waiting for bytes came to.
enum Heard {
    Bytes,
    TheirEnd,
    /// Nobody is left who would read on.
    ReaderGone,
}

/// What may come first beside bytes, or instead of them.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Supervisor,
    Reader,
    Term,
}

impl Client {
    /// `patience` holds for this, and for each call that does not bring its own.
    pub fn connect(path: &Path, patience: Duration) -> Result<Client, CallError> {
        let stream = socket::connect_to(path, patience).map_err(|error| CallError::CouldNotConnect {
            path: path.to_owned(),
            why: why_not(path, &error),
        })?;
        Ok(Client {
            stream,
            path: path.to_owned(),
            decoder: Decoder::for_replies(),
            patience,
            last_id: 0,
            output: None,
            term: None,
        })
    }

    /// An answer goes before a TERM: the end of a container ends whoever is in it, and its last answers are
    /// to those who asked for it or waited for it. `term` is that of [`signals::hold`].
    pub fn answers_before(mut self, term: Inbox) -> Client {
        self.term = Some(term);
        self
    }

    /// Asks once. `B` is the body that belongs to the call, or `serde_json::Value` for all there is.
    pub fn call<B: DeserializeOwned>(&mut self, call: Call) -> Result<B, CallError> {
        self.call_within(call, Patience::For(self.patience))
    }

    pub fn call_within<B: DeserializeOwned>(
        &mut self,
        call: Call,
        patience: Patience,
    ) -> Result<B, CallError> {
        let id = self.send(call)?;
        self.reply(&id, &patience.deadline())?.ok_or_else(|| {
            CallError::Broken("the supervisor closed the connection without an answer".to_owned())
        })
    }

    pub fn events(self, since: Option<u64>, follow: bool) -> Result<Stream, CallError> {
        self.stream(Call::Events { since, follow }, follow)
    }

    pub fn logs(self, lines: u32, follow: bool) -> Result<Stream, CallError> {
        self.stream(Call::Logs { lines, follow }, follow)
    }

    pub fn transcript(self, lines: u32, follow: bool) -> Result<Stream, CallError> {
        self.stream(Call::Transcript { lines, follow }, follow)
    }

    /// Terminal bytes go both ways from here on; what is not for the terminal comes as frames.
    pub fn attach(mut self, call: Call) -> Result<(Attached, Wire), CallError> {
        let id = self.send(call)?;
        let first = self.reply(&id, &Patience::For(self.patience).deadline())?;
        let Some(AttachFrame::Attached(attached)) = first else {
            return Err(CallError::Broken("no reply to `attach`".to_owned()));
        };
        let wire =
            Wire::new(self.stream, self.decoder).map_err(|error| CallError::Broken(in_words(&error)))?;
        Ok((attached, wire))
    }

    /// The first frame is read here, so that a refusal is the error of the call itself.
    fn stream(mut self, call: Call, follow: bool) -> Result<Stream, CallError> {
        let id = self.send(call)?;
        let first = self.reply(&id, &Patience::For(self.patience).deadline())?;
        let first = first.ok_or_else(|| CallError::Broken("the stream ended before it began".to_owned()))?;
        Ok(Stream { client: self, id, follow, first: Some(first), over: false })
    }

    /// Half a request is never done: a caller that fails here may safely try again.
    fn send(&mut self, call: Call) -> Result<Id, CallError> {
        self.last_id += 1;
        let id = Id::from(self.last_id);
        let request = Request { id: Some(id.clone()), call };
        let frame = request.to_frame(Framing::LengthPrefixed).map_err(|error| {
            CallError::Refused(Error::new(Code::TooLarge, format!("the request cannot be sent: {error}")))
        })?;
        let deadline = Patience::For(self.patience).deadline();
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let left = deadline.left().map_err(|Late| self.not_taken("it does not read".to_owned()))?;
            match self.stream.set_write_timeout(left).and_then(|()| self.stream.write(rest)) {
                Ok(n) => rest = &rest[n..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(self.not_taken(in_words(&error))),
            }
        }
        Ok(id)
    }

    fn not_taken(&self, why: String) -> CallError {
        CallError::CouldNotConnect { path: self.path.clone(), why }
    }

    /// The next reply to `id`; `None` when the connection ended between two frames, or nobody reads
    /// what is made of them.
    fn reply<B: DeserializeOwned>(&mut self, id: &Id, deadline: &Deadline) -> Result<Option<B>, CallError> {
        self.untyped_reply(id, deadline)?.map(|body| typed(&body)).transpose()
    }

    /// The same for all bodies.
    fn untyped_reply(&mut self, id: &Id, deadline: &Deadline) -> Result<Option<Value>, CallError> {
        loop {
            let frame = self.decoder.next().map_err(|error| CallError::Broken(error.to_string()))?;
            match frame {
                Some(Frame::Json(json)) => {
                    let reply = reply::untyped(&json).map_err(no_reply)?;
                    // Without an id it is about the connection itself: too many callers, say.
                    if reply.id.as_ref().is_none_or(|it| it == id) {
                        return reply.result.map(Some).map_err(CallError::Refused);
                    }
                }
                Some(Frame::Raw(_)) => {}
                None => match self.read(deadline)? {
                    Heard::Bytes => {}
                    Heard::TheirEnd => {
                        let cut = |error: super::frame::FrameError| CallError::Broken(error.to_string());
                        self.decoder.finish().map_err(cut)?;
                        return Ok(None);
                    }
                    Heard::ReaderGone => return Ok(None),
                },
            }
        }
    }

    fn read(&mut self, deadline: &Deadline) -> Result<Heard, CallError> {
        let mut chunk = [0; CHUNK];
        loop {
            let left = deadline.left().map_err(|Late| deadline.timed_out())?;
            match self.first_to_come(deadline.patience, left) {
                Some(Side::Supervisor) => {}
                Some(Side::Reader) => return Ok(Heard::ReaderGone),
                Some(Side::Term) => {
                    self.term = None;
                    if self.first_to_come(deadline.patience, Some(ON_ITS_WAY)).is_none() {
                        signals::let_go(libc::SIGTERM);
                    }
                    continue;
                }
                None => continue,
            }
            match self.stream.set_read_timeout(left).and_then(|()| self.stream.read(&mut chunk)) {
                Ok(0) => return Ok(Heard::TheirEnd),
                Ok(n) => {
                    self.decoder.push(&chunk[..n]);
                    return Ok(Heard::Bytes);
                }
                Err(error) if is_passing(&error) => {}
                // The supervisor closed with something of ours unread: its end all the same.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Heard::TheirEnd),
                Err(error) => return Err(CallError::Broken(in_words(&error))),
            }
        }
    }

    /// `None` when nothing has come in time. What has come from the supervisor comes before all else.
    fn first_to_come(&self, patience: Patience, left: Option<Duration>) -> Option<Side> {
        let mut sources = Sources::new();
        sources.add(Side::Supervisor, self.stream.as_fd(), Want::Read);
        if let Some(term) = &self.term {
            sources.add(Side::Term, term.as_fd(), Want::Read);
        }
        // Only what has no end of its own is over with its reader.
        if let Some(output) = self.output.as_ref().filter(|_| patience == Patience::Endless) {
            sources.add(Side::Reader, output.as_fd(), Want::HangUp);
        }
        let ready = sources.wait(left.and_then(|left| Instant::now().checked_add(left)));
        ready.into_iter().map(|(side, _)| side).next()
    }
}

/// A time-out is judged by the deadline, which may not have passed yet.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Without `(os error 111)`, which tells a user nothing.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::ConnectionRefused => "the socket is stale, nobody listens on it".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not use the socket".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it takes no callers".to_owned(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => "it hung up".to_owned(),
        _ => match error.raw_os_error() {
            Some(errno) => nix::errno::Errno::from_raw(errno).desc().to_lowercase(),
            None => error.to_string(),
        },
    }
}

/// Why nobody could be reached at `path`. To the kernel, a file that is no socket is one on which
/// nobody listens.
fn why_not(path: &Path, error: &io::Error) -> String {
    let is_other = || std::fs::metadata(path).is_ok_and(|meta| !meta.file_type().is_socket());
    match error.kind() {
        io::ErrorKind::ConnectionRefused if is_other() => "it is no socket".to_owned(),
        _ => in_words(error),
    }
}

/// `events`, `logs` or `transcript`, frame by frame. Over after [`StreamFrame::End`]; one that is followed is
/// over when the supervisor ends.
pub struct Stream {
    client: Client,
    id: Id,
    follow: bool,
    first: Option<StreamFrame>,
    over: bool,
}

impl Stream {
    /// One that is followed is also over as soon as the reader of `output` has gone, and not only
    /// when a frame cannot be written to it: the next may come in a day.
    pub fn into_output(mut self, output: OwnedFd) -> Stream {
        self.client.output = Some(output);
        self
    }

    fn advance(&mut self) -> Result<Option<StreamFrame>, CallError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let patience = match self.follow {
            true => Patience::Endless,
            false => Patience::For(self.client.patience),
        };
        match (self.client.reply(&self.id, &patience.deadline())?, self.follow) {
            (Some(frame), _) => Ok(Some(frame)),
            (None, true) => Ok(None),
            (None, false) => Err(CallError::Broken("the stream was cut off".to_owned())),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<StreamFrame, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.advance().transpose();
        self.over = !matches!(item, Some(Ok(ref frame)) if !matches!(frame, StreamFrame::End(_)));
        item
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
