//! The same question to many supervisors at once, in one `poll`: one that hangs holds up nobody.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::frame::{Decoder, Frame, Framing};
use super::super::protocol::{Call, Code, Error, Request, reply};
use super::{CHUNK, CallError, in_words, no_reply, typed};
use crate::os::poll::{Sources, Want};
use crate::os::socket;

/// A listener takes a caller at once unless its backlog is full, and then it hangs anyway.
const TO_CONNECT: Duration = Duration::from_millis(5);
/// Open at a time: far below the 1024 descriptors that a process may usually have.
const AT_ONCE: usize = 256;

/// The answers in the order of `paths`. Each batch of [`AT_ONCE`] is over after `patience` at most.
pub fn ask_all<B: DeserializeOwned>(
    paths: &[PathBuf],
    call: &Call,
    patience: Duration,
) -> Vec<Result<B, CallError>> {
    let request = Request { id: None, call: call.clone() };
    match request.to_frame(Framing::LengthPrefixed) {
        Ok(frame) => {
            let bodies = paths.chunks(AT_ONCE).flat_map(|batch| ask_batch(batch, &frame, patience));
            bodies.map(|body| typed(&body?)).collect()
        }
        Err(error) => {
            let refused = CallError::Refused(Error::new(Code::TooLarge, error.to_string()));
            paths.iter().map(|_| Err(refused.clone())).collect()
        }
    }
}

fn ask_batch(paths: &[PathBuf], request: &[u8], patience: Duration) -> Vec<Result<Value, CallError>> {
    let mut asked: Vec<Asked> = paths.iter().map(|path| Asked::begin(path, request)).collect();
    let deadline = Instant::now() + patience;
    let mut sources = Sources::new();
    loop {
        sources.clear();
        let mut open = 0;
        for (n, one) in asked.iter().enumerate() {
            if let Asked::Open(one) = one {
                sources.add(n, one.stream.as_fd(), one.want());
                open += 1;
            }
        }
        if open == 0 || Instant::now() >= deadline {
            break;
        }
        for (n, _) in sources.wait(Some(deadline)) {
            asked[n].go_on();
        }
    }
    asked.into_iter().map(|one| one.end(patience)).collect()
}

enum Asked {
    Open(Open),
    Done(Result<Value, CallError>),
}

struct Open {
    stream: UnixStream,
    path: PathBuf,
    unsent: Vec<u8>,
    decoder: Decoder,
}

impl Asked {
    fn begin(path: &Path, request: &[u8]) -> Asked {
        let connected = socket::connect_to(path, TO_CONNECT)
            .and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        match connected {
            Ok(stream) => {
                let (path, unsent) = (path.to_owned(), request.to_vec());
                let mut asked = Asked::Open(Open { stream, path, unsent, decoder: Decoder::for_replies() });
                asked.go_on();
                asked
            }
            Err(error) => {
                let (path, why) = (path.to_owned(), in_words(&error));
                Asked::Done(Err(CallError::CouldNotConnect { path, why }))
            }
        }
    }

    fn go_on(&mut self) {
        if let Asked::Open(open) = self
            && let Some(result) = open.go_on()
        {
            *self = Asked::Done(result);
        }
    }

    fn end(self, patience: Duration) -> Result<Value, CallError> {
        match self {
            Asked::Done(result) => result,
            Asked::Open(open) if open.unsent.is_empty() => {
                Err(CallError::TimedOutAfterSend { after: patience })
            }
            Asked::Open(open) => Err(open.not_taken("it does not read".to_owned())),
        }
    }
}

impl Open {
    fn want(&self) -> Want {
        if self.unsent.is_empty() { Want::Read } else { Want::Write }
    }

    fn not_taken(&self, why: String) -> CallError {
        CallError::CouldNotConnect { path: self.path.clone(), why }
    }

    /// As far as it goes now; the result once there is one.
    fn go_on(&mut self) -> Option<Result<Value, CallError>> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(self.not_taken(in_words(&error)))),
            }
        }
        let broken = |why: String| Some(Err(CallError::Broken(why)));
        let mut chunk = [0; CHUNK];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return broken("the supervisor closed the connection without an answer".to_owned()),
                Ok(n) => self.decoder.push(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return broken(in_words(&error)),
            }
            match self.decoder.next() {
                Ok(Some(Frame::Json(json))) => {
                    return Some(match reply::untyped(&json) {
                        Ok(reply) => reply.result.map_err(CallError::Refused),
                        Err(why) => Err(no_reply(why)),
                    });
                }
                Ok(Some(Frame::Raw(_)) | None) => {}
                Err(error) => return broken(error.to_string()),
            }
        }
    }
}
