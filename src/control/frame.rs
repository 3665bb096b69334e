//! Bytes into frames and back. Pure: the caller reads and writes.
//!
//! The first byte of a connection chooses its framing, in both directions, for good:
//!
//! ```text
//! 00 00 00 11 7b 22 …     length-prefixed: 4 bytes, big-endian, then that many bytes
//! 7b 22 6d 65 … 0a        anything else: one JSON object per line
//! ```
//!
//! The 0x00 is no marker of its own: it is the top byte of the first length. No legal length reaches
//! 2^24, so a length-prefixed connection always begins with it, and no line of JSON ever does.

use std::fmt;

use serde::Serialize;

use super::protocol::{Code, Error};

/// The longest request: JSON without its prefix or newline.
pub const REQUEST_MAX: usize = 64 * 1024;
pub const REPLY_MAX: usize = 1024 * 1024;

const PREFIX: usize = 4;
/// The first byte of a frame that holds terminal bytes; JSON cannot begin with it.
const RAW: u8 = 0x01;
/// What a buffer may keep for nothing; 256 callers that each sent one large request keep no more.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Also for a caller that has to be answered before it said a byte.
    #[default]
    Lines,
    LengthPrefixed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Not looked at yet.
    Json(Vec<u8>),
    /// Terminal bytes, without the byte that says so. Length-prefixed connections only.
    Raw(Vec<u8>),
}

/// After any of these nobody knows where the next frame begins: answer, then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Announced, or a line without an end.
    TooLarge { limit: usize },
    /// A length of zero.
    Empty,
    /// The stream ended within a frame.
    Truncated,
}

impl From<FrameError> for Error {
    fn from(why: FrameError) -> Error {
        let code = match why {
            FrameError::TooLarge { .. } => Code::TooLarge,
            FrameError::Empty | FrameError::Truncated => Code::BadFrame,
        };
        Error::new(code, why.to_string())
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLarge { limit } => write!(f, "the frame is too large, {limit} bytes are allowed"),
            FrameError::Empty => write!(f, "the frame has a length of zero"),
            FrameError::Truncated => write!(f, "the connection ended within a frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Takes bytes as they come. After each [`push`](Decoder::push) ask [`next`](Decoder::next) until it
/// has nothing more; then no more than one unfinished frame, within the limit, is held.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    framing: Option<Framing>,
    bytes: Vec<u8>,
    /// Where the next frame begins in `bytes`.
    start: usize,
    /// From `start` on: bytes known to hold no newline, so that a slow line is not read again and
    /// again.
    searched: usize,
    broken: Option<FrameError>,
}

impl Decoder {
    /// A supervisor's, for what callers send.
    pub fn for_requests() -> Decoder {
        Decoder::new(REQUEST_MAX)
    }

    /// A client's: replies come in the framing of the requests.
    pub fn for_replies() -> Decoder {
        Decoder::new(REPLY_MAX)
    }

    fn new(limit: usize) -> Decoder {
        Decoder { limit, framing: None, bytes: Vec::new(), start: 0, searched: 0, broken: None }
    }

    /// None until the first byte.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// What comes after an error is thrown away.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        if let (None, Some(first)) = (self.framing, bytes.first()) {
            self.framing = Some(if *first == 0 { Framing::LengthPrefixed } else { Framing::Lines });
        }
        self.forget_used();
        // No more than is there: what many have half sent must not take twice its size.
        self.bytes.reserve_exact(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame; an error is the last thing there is, and is said again when asked again.
    #[expect(clippy::should_implement_trait, reason = "an iterator that may go on after None misleads")]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let found = match (self.broken, self.framing) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(None),
            (None, Some(Framing::Lines)) => self.next_line(),
            (None, Some(Framing::LengthPrefixed)) => self.next_prefixed(),
        };
        match found {
            Ok(None) => self.forget_used(),
            Ok(Some(_)) => {}
            Err(error) => self.break_off(error),
        }
        found
    }

    /// At the end of the stream: a last line without a newline counts, half a prefixed frame is an
    /// error.
    pub fn finish(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(frame) = self.next()? {
            return Ok(Some(frame));
        }
        match (self.framing, self.is_partial()) {
            (_, false) => Ok(None),
            (Some(Framing::Lines), true) => {
                self.push(b"\n");
                self.next()
            }
            (_, true) => {
                self.break_off(FrameError::Truncated);
                Err(FrameError::Truncated)
            }
        }
    }

    /// A frame was begun and not finished, provided that [`next`](Decoder::next) has nothing more.
    pub fn is_partial(&self) -> bool {
        self.broken.is_none() && self.start < self.bytes.len()
    }

    /// The bytes of memory it holds, for the sum over all callers.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    fn next_line(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            let rest = &self.bytes[self.start..];
            let Some(more) = memchr::memchr(b'\n', &rest[self.searched..]) else {
                if rest.len() > self.limit {
                    return Err(FrameError::TooLarge { limit: self.limit });
                }
                self.searched = rest.len();
                return Ok(None);
            };
            let end = self.searched + more;
            if end > self.limit {
                return Err(FrameError::TooLarge { limit: self.limit });
            }
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            let frame = (!line.is_empty()).then(|| Frame::Json(line.to_vec()));
            self.consume(end + 1);
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    fn next_prefixed(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((prefix, rest)) = self.bytes[self.start..].split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        // Judged before a byte of it is kept.
        let length = match usize::try_from(u32::from_be_bytes(*prefix)) {
            Ok(0) => return Err(FrameError::Empty),
            Ok(length) if length <= self.limit => length,
            Ok(_) | Err(_) => return Err(FrameError::TooLarge { limit: self.limit }),
        };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = match payload {
            [RAW, raw @ ..] => Frame::Raw(raw.to_vec()),
            json => Frame::Json(json.to_vec()),
        };
        self.consume(PREFIX + length);
        Ok(Some(frame))
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.searched = 0;
    }

    /// Lets go of frames that were handed out, and of memory that only they needed. Never of what
    /// growing by doubling has just asked for, or each piece of a slow frame would copy all of it.
    fn forget_used(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
        let enough = self.bytes.len().max(KEPT);
        if self.bytes.capacity() > 2 * enough {
            self.bytes.shrink_to(enough);
        }
    }

    fn break_off(&mut self, error: FrameError) {
        self.broken = Some(error);
        self.bytes = Vec::new();
        self.start = 0;
        self.searched = 0;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    TooLarge { size: usize },
    Json(String),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooLarge { size } => write!(f, "{size} bytes of JSON are too many for a frame"),
            EncodeError::Json(why) => write!(f, "cannot be said in JSON: {why}"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// `longest` counts the JSON alone. What serde_json writes never holds a bare newline.
pub fn encode(framing: Framing, value: &impl Serialize, longest: usize) -> Result<Vec<u8>, EncodeError> {
    let mut frame = match framing {
        Framing::Lines => Vec::new(),
        Framing::LengthPrefixed => vec![0; PREFIX],
    };
    let before = frame.len();
    serde_json::to_writer(&mut frame, value).map_err(|why| EncodeError::Json(why.to_string()))?;
    let size = frame.len() - before;
    if size > longest {
        return Err(EncodeError::TooLarge { size });
    }
    match framing {
        Framing::Lines => frame.push(b'\n'),
        Framing::LengthPrefixed => {
            let length = u32::try_from(size).map_err(|_| EncodeError::TooLarge { size })?;
            frame[..PREFIX].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(frame)
}

/// Terminal bytes for a length-prefixed connection, in as many frames as they need: the other side
/// takes at most `longest` in one.
pub fn encode_raw(bytes: &[u8], longest: usize) -> Vec<u8> {
    let mut frames = Vec::with_capacity(bytes.len() + 2 * PREFIX);
    for chunk in bytes.chunks(longest.min(REPLY_MAX) - 1) {
        let length = u32::try_from(chunk.len() + 1).expect("a chunk is below 1 MiB");
        frames.extend_from_slice(&length.to_be_bytes());
        frames.push(RAW);
        frames.extend_from_slice(chunk);
    }
    frames
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
