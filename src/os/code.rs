//! The pages of our own code.

/// Gives back all of them. What is used again is mapped again then, out of the page cache; an idle
/// supervisor holds the few that waiting needs, and not all that its start did.
#[cfg(target_env = "musl")]
pub fn give_back() {
    unsafe extern "C" {
        // The linker's: code and constants lie between the two.
        static __executable_start: u8;
        static etext: u8;
    }
    const SMALLEST_PAGE: usize = 4096;
    let begin = (&raw const __executable_start).addr();
    let end = (&raw const etext).addr() & !(SMALLEST_PAGE - 1);
    // SAFETY: there is the binary's file, mapped so that nobody can write to it: each page is read again as
    // it was. Where pages are larger, the call fails and nothing happens.
    unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED) };
}

/// Other binaries than the static one lie elsewhere, and begin with pages that are not only read.
#[cfg(not(target_env = "musl"))]
pub fn give_back() {}
