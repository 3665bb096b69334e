//! The one place that waits for children.

/// A child that changed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    pub pid: i32,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Code(u8),
    /// Any signal, real-time ones too.
    Signal(i32),
    /// Not gone: stopped by job control.
    Stopped(i32),
    /// Not gone: it was stopped, and runs again.
    Continued,
}

impl How {
    /// What a shell would report.
    pub fn exit_code(self) -> u8 {
        match self {
            How::Code(code) => code,
            How::Signal(n) | How::Stopped(n) => 128u8.saturating_add(u8::try_from(n).unwrap_or(127)),
            How::Continued => 0,
        }
    }
}

pub enum Next {
    Child(Reaped),
    /// Children live, none has news.
    NoNews,
    /// No child is left, and so no descendant: orphans come back to PID 1 and to a subreaper.
    NoneLeft,
}

/// One child with news. SIGCHLD coalesces: call it until it has none.
pub fn next() -> Next {
    loop {
        let mut status = 0;
        let options = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
        // SAFETY: `status` is valid for writes. Not nix's wrapper: it fails on a death by a
        // real-time signal, after the kernel has already forgotten the child.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, options) };
        let how = match pid {
            0 => return Next::NoNews,
            -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => continue,
            -1 => return Next::NoneLeft,
            _ if libc::WIFEXITED(status) => How::Code((libc::WEXITSTATUS(status) & 0xff) as u8),
            _ if libc::WIFSIGNALED(status) => How::Signal(libc::WTERMSIG(status)),
            _ if libc::WIFSTOPPED(status) => How::Stopped(libc::WSTOPSIG(status)),
            _ if libc::WIFCONTINUED(status) => How::Continued,
            _ => continue,
        };
        return Next::Child(Reaped { pid, how });
    }
}

/// Whether there is any child, reaped or not. Without one PID 1 and a subreaper have no descendant either.
pub fn has_children() -> bool {
    // SAFETY: a siginfo of zeros is valid, and ours to be written to. WNOWAIT leaves the child as it is.
    let found = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
    };
    found == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
}

/// Orphaned descendants come to us instead of to PID 1.
pub fn become_subreaper() -> std::io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Whether they do: qemu-user (7.2) refuses, and so may a seccomp filter.
pub fn is_subreaper() -> bool {
    let mut set: libc::c_int = 0;
    // SAFETY: the kernel writes one `int`, which `set` is.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut set, 0, 0, 0) == 0 && set == 1 }
}
