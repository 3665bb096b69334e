//! Bytes on their way. Readers stop asking for more while it is full; nothing is ever dropped here.

use std::collections::VecDeque;

/// A ring: what is left of a full one is not moved for each little that was taken.
#[derive(Default)]
pub struct Buffer {
    bytes: VecDeque<u8>,
}

/// Enough to keep a pty busy, little enough that a stalled reader costs nothing.
pub const FULL: usize = 64 * 1024;
/// What is read in one go.
pub const PIECE: usize = 4096;

impl Buffer {
    /// What is next: all of it, or as much as lies in one piece.
    pub fn pending(&self) -> &[u8] {
        self.bytes.as_slices().0
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// For a piece more.
    pub fn has_room(&self) -> bool {
        self.len() + PIECE <= FULL
    }

    /// What can be taken without growing past what a stalled reader may cost.
    pub fn room(&self) -> usize {
        FULL.saturating_sub(self.len())
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub fn consume(&mut self, n: usize) {
        self.bytes.drain(..n);
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}
