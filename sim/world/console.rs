//! Stdin, stdout and stderr: an operator who types, readers that stop reading, a terminal that goes.

use std::collections::VecDeque;

use nix::errno::Errno;

use super::World;
use crate::mood::{Mood, Stdin};
use crate::os::sink::Wrote;

/// What operators type.
const KEYS: [&[u8]; 16] = [
    b"\r",
    b"\r",
    b"q",
    b"\x03",
    b"\x1a",
    b"\x1b",
    b"hello",
    b"hello\r",
    b"\x7f\x7f",
    b"\x15",
    b"\x1b[A",
    b"\x1b[200~pasted\ntext\x1b[201~",
    b"\x1b[<0;3;4M",
    b"\x1b[I",
    b"\x1b[",
    b"\xc3",
];

pub struct Console {
    stdin: Stdin,
    typed: VecDeque<u8>,
    is_gone: bool,
    is_at_end: bool,
    pub in_front: bool,
    size: Option<(u16, u16)>,
    out: [Reader; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Reads,
    Rests,
    Left,
}

impl Console {
    pub fn new(mood: &Mood) -> Console {
        Console {
            stdin: mood.stdin,
            typed: VecDeque::new(),
            is_gone: false,
            is_at_end: mood.stdin == Stdin::Closed,
            in_front: true,
            size: Some((80, 24)),
            out: [Reader::Reads; 2],
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.stdin == Stdin::Terminal
    }

    pub fn answers(&self) -> bool {
        self.is_terminal() && !self.is_gone
    }

    pub fn size(&self) -> Option<(u16, u16)> {
        self.size.filter(|_| self.answers())
    }

    pub fn is_readable(&self) -> bool {
        !self.typed.is_empty() || self.is_at_end || self.is_gone
    }

    pub fn is_writable(&self, fd: i32) -> bool {
        self.out[fd as usize - 1] != Reader::Rests
    }

    pub fn rest(&mut self, fd: usize) {
        if self.out[fd - 1] == Reader::Reads {
            self.out[fd - 1] = Reader::Rests;
        }
    }

    pub fn read_on(&mut self, fd: usize) {
        if self.out[fd - 1] == Reader::Rests {
            self.out[fd - 1] = Reader::Reads;
        }
    }
}

impl World {
    pub fn operator_types(&mut self) {
        if self.console.is_at_end || self.console.is_gone {
            return;
        }
        match self.rng.below(60) {
            0 if self.console.stdin == Stdin::Stream => {
                self.console.is_at_end = true;
                self.story.event("stdin", "end", 0);
            }
            0 if self.deeds_left < 200 => self.terminal_goes(),
            1 => {
                self.console.size =
                    self.rng.pick(&[None, Some((80, 24)), Some((120, 50)), Some((1, 1))]).to_owned();
                self.story.event("stdin", "resized", 0);
                self.arrives(libc::SIGWINCH, false);
            }
            2 => self.console.in_front = self.rng.once_in(2),
            _ => {
                let keys = self.some_keys();
                self.console.typed.extend(keys);
                self.story.event("stdin", "typed", keys.len() as i64);
            }
        }
    }

    /// With an Enter among them they may be meant for the supervisor.
    pub fn some_keys(&mut self) -> &'static [u8] {
        let keys = *self.rng.pick(&KEYS);
        if keys.iter().any(|key| matches!(key, b'\r' | b'\n')) {
            self.facts.may_start_again();
        }
        keys
    }

    /// Its window was closed.
    pub fn terminal_goes(&mut self) {
        self.console.is_gone = true;
        self.story.event("stdin", "gone", 0);
        self.arrives(libc::SIGHUP, true);
    }

    pub fn read_stdin(&mut self, buffer: &mut [u8]) -> nix::Result<usize> {
        self.facts.moved += 1;
        if self.console.typed.is_empty() {
            return match (self.console.is_gone, self.console.is_at_end) {
                (true, _) => Err(Errno::EIO),
                (false, true) => Ok(0),
                (false, false) => Err(Errno::EAGAIN),
            };
        }
        if self.mood.is_faulty && self.rng.once_in(16) {
            self.story.event("stdin", "EAGAIN", 0);
            return Err(*self.rng.pick(&[Errno::EINTR, Errno::EAGAIN]));
        }
        let most = self.console.typed.len().min(buffer.len());
        let count = if self.rng.once_in(4) { 1 + self.rng.index(most) } else { most };
        for (to, byte) in buffer.iter_mut().zip(self.console.typed.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    pub fn write_out(&mut self, fd: i32, bytes: &[u8]) -> Wrote {
        match self.console.out[fd as usize - 1] {
            Reader::Rests => Wrote::Full,
            Reader::Left => {
                self.facts.moved += 1;
                Wrote::Broken
            }
            Reader::Reads => {
                self.facts.moved += 1;
                if self.mood.is_faulty && self.rng.once_in(8) {
                    self.story.event("out", "short write", fd.into());
                    return Wrote::Bytes(1 + self.rng.index(bytes.len()));
                }
                Wrote::Bytes(bytes.len())
            }
        }
    }

    pub fn reader_leaves(&mut self) {
        let fd = self.rng.index(2);
        self.console.out[fd] = Reader::Left;
        self.story.event("reader", "left", fd as i64 + 1);
    }
}
