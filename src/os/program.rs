//! What was executed to make this process.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path that `execve` was given, which needs no /proc to be known; relative to where that was.
pub fn started_as() -> Option<&'static Path> {
    // SAFETY: it looks in a list that the kernel gave us, and nothing is changed by that.
    let place = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if place.is_null() {
        return None;
    }
    // SAFETY: the kernel has put that text with its NUL above the stack, where it stays.
    let path = unsafe { CStr::from_ptr(place) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_proc_says() {
        let own = started_as().expect("the kernel tells everybody").canonicalize().expect("it is there");
        assert_eq!(own, std::env::current_exe().expect("/proc").canonicalize().expect("it is there"));
    }
}
