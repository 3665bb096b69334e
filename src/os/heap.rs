//! The heap of the static binary: dlmalloc in the place of musl's allocator, which maps and unmaps pages for
//! nearly every size that is asked for. With it a start has a third fewer page faults.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// Not the crate's own global one: its lock is the C library's, which is a tenth of what a start executes.
pub struct Heap(Mutex<Dlmalloc>);

impl Heap {
    #[allow(clippy::new_without_default, reason = "there is one, and it is a static")]
    pub const fn new() -> Heap {
        Heap(Mutex::new(Dlmalloc::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: dlmalloc gives out memory of the size and alignment asked for, which is nobody else's until it is
// freed; callers of `GlobalAlloc` promise what it asks in return. The lock never allocates.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above, for this and those below.
        unsafe { self.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: see `alloc`.
        unsafe { self.lock().free(at, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `alloc`.
        unsafe { self.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see `alloc`.
        unsafe { self.lock().realloc(at, layout.size(), layout.align(), size) }
    }
}
