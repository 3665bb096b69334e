//! Bytes on their way. Readers stop asking for more while it is full; nothing is ever dropped here.

#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

/// Enough to keep a pty busy, little enough that a stalled reader costs nothing.
pub const FULL: usize = 64 * 1024;

impl Buffer {
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has_room(&self) -> bool {
        self.len() < FULL
    }

    /// What can be taken without growing past what a stalled reader may cost.
    pub fn room(&self) -> usize {
        FULL.saturating_sub(self.len())
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub fn consume(&mut self, n: usize) {
        self.start += n;
        if self.is_empty() {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}
