//! Waiting for processes that are not our children.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Readable when the process has ended.
pub struct PidFd(OwnedFd);

impl PidFd {
    /// `None` when it is gone, on a kernel before 5.3, where a filter denies it, or out of descriptors.
    pub fn open(pid: i32) -> Option<PidFd> {
        // SAFETY: plain integers; the new descriptor (close-on-exec by design) is nobody else's.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            (fd >= 0).then(|| PidFd(OwnedFd::from_raw_fd(fd as i32)))
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
