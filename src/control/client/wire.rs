//! A connection that carries a terminal: bytes both ways, and frames beside them. Never blocks: the
//! terminal at this end must be served too.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::super::frame::{self, Decoder, Frame, Framing, REQUEST_MAX};
use super::super::protocol::{AttachFrame, Call, Error, Reply, Request};
use super::{CHUNK, is_passing};

/// What may wait for a supervisor that does not read: a large paste. What is typed beyond is lost, as
/// the kernel loses it when a terminal's own queue is full.
const TYPED_MAX: usize = 1024 * 1024;

pub struct Wire {
    stream: UnixStream,
    decoder: Decoder,
    out: VecDeque<u8>,
}

/// What came from the other end.
#[derive(Debug)]
pub enum Said {
    Output(Vec<u8>),
    Frame(AttachFrame),
    Refused(Error),
    /// Nothing more will come.
    End,
}

impl Wire {
    /// `decoder` may hold what came behind the reply to `attach`.
    pub(super) fn new(stream: UnixStream, decoder: Decoder) -> io::Result<Wire> {
        stream.set_nonblocking(true)?;
        Ok(Wire { stream, decoder, out: VecDeque::new() })
    }

    /// Call it at once, and whenever there may be something to read.
    pub fn read(&mut self) -> Vec<Said> {
        let mut chunk = [0; CHUNK];
        let ended = match self.stream.read(&mut chunk) {
            Ok(0) => true,
            Ok(n) => {
                self.decoder.push(&chunk[..n]);
                false
            }
            Err(error) => !is_passing(&error),
        };
        let mut said = Vec::new();
        loop {
            match self.decoder.next() {
                Ok(Some(Frame::Raw(bytes))) => said.push(Said::Output(bytes)),
                // A reply to `resize`, or a frame of a newer supervisor, is no news.
                Ok(Some(Frame::Json(json))) => {
                    match Reply::<AttachFrame>::parse(&json).map(|reply| reply.result) {
                        Ok(Ok(frame)) => said.push(Said::Frame(frame)),
                        Ok(Err(error)) => said.push(Said::Refused(error)),
                        Err(_) => {}
                    }
                }
                Ok(None) if !ended => return said,
                Ok(None) | Err(_) => {
                    said.push(Said::End);
                    return said;
                }
            }
        }
    }

    pub fn type_in(&mut self, bytes: &[u8]) {
        if self.out.len() + bytes.len() <= TYPED_MAX {
            self.out.extend(frame::encode_raw(bytes, REQUEST_MAX));
        }
        self.write();
    }

    pub fn send(&mut self, call: Call) {
        let request = Request { id: None, call };
        if let Ok(frame) = request.to_frame(Framing::LengthPrefixed) {
            self.out.extend(frame);
        }
        self.write();
    }

    /// As much as is taken now. A supervisor that is gone is found out by reading.
    pub fn write(&mut self) {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match self.stream.write(front) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
