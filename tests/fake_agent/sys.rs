//! Small safe functions over Linux; all `unsafe` of the fake agent lives here.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

pub enum Side {
    Child,
    Parent(i32),
}

/// The program has one thread, so the child may go on like any program.
pub fn fork() -> Side {
    // SAFETY: one thread: no lock can be held by another one.
    match unsafe { libc::fork() } {
        0 => Side::Child,
        pid if pid > 0 => Side::Parent(pid),
        _ => panic!("fork: {}", std::io::Error::last_os_error()),
    }
}

/// The same where a limit may refuse it.
pub fn try_fork() -> Option<Side> {
    // SAFETY: one thread: no lock can be held by another one.
    match unsafe { libc::fork() } {
        0 => Some(Side::Child),
        pid if pid > 0 => Some(Side::Parent(pid)),
        _ => None,
    }
}

/// A grandchild whose parent is already gone. Returns in the grandchild as `Child` and in the
/// caller, after the one between has been waited for, as `Parent` of nobody.
pub fn fork_orphan() -> Side {
    match fork() {
        Side::Parent(between) => {
            wait_for(between);
            Side::Parent(0)
        }
        Side::Child => match fork() {
            Side::Parent(_) => exit_now(0),
            Side::Child => Side::Child,
        },
    }
}

pub fn wait_for(pid: i32) {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
}

/// Without exit handlers, so that a forked child flushes nothing of its parent's.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(code) }
}

pub fn setsid() {
    // SAFETY: plain call.
    unsafe { libc::setsid() };
}

pub fn setpgid() {
    // SAFETY: plain call.
    unsafe { libc::setpgid(0, 0) };
}

pub fn pause_for_ever() -> ! {
    loop {
        // SAFETY: plain call.
        unsafe { libc::pause() };
    }
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe().expect("pipe")
}

pub fn die_by(signal: i32) -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct outlives the call; default dispositions and raise are always sound.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    panic!("still alive after signal {signal}");
}

pub fn ignore(signal: i32) {
    // SAFETY: plain disposition.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

static ARRIVALS: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: i32) {
    let byte = signal as u8;
    // SAFETY: write is async-signal-safe; the byte lives on this stack. errno is put back because the
    // code that was interrupted may be about to read it.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        libc::write(ARRIVALS.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *errno = kept;
    }
}

/// From now on each arrival of one of `signals` is one byte on the returned pipe.
pub fn arrivals(signals: impl Iterator<Item = i32>) -> OwnedFd {
    let (read, write) = pipe();
    ARRIVALS.store(std::os::fd::IntoRawFd::into_raw_fd(write), Ordering::Relaxed);
    for signal in signals {
        // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(
                libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
                0,
                "signal {signal}"
            );
        }
    }
    read
}

/// Which of the two can be read, waiting for ever.
pub fn readable(first: RawFd, second: RawFd) -> (bool, bool) {
    let mut fds = [first, second].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: two entries, as announced. EINTR leaves revents at 0, which the caller takes as neither.
    unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
    (fds[0].revents != 0, fds[1].revents != 0)
}

/// Whether it can be read before the time is over.
pub fn readable_before(source: &std::fs::File, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut entry = libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as announced.
        let ready = unsafe { libc::poll(&raw mut entry, 1, left.as_millis() as i32) };
        if ready > 0 || left.is_zero() {
            return ready > 0;
        }
    }
}

pub fn raw_mode() {
    let stdin = std::io::stdin();
    let mut mode = nix::sys::termios::tcgetattr(&stdin).expect("a terminal on stdin");
    nix::sys::termios::cfmakeraw(&mut mode);
    nix::sys::termios::tcsetattr(&stdin, nix::sys::termios::SetArg::TCSANOW, &mode).expect("raw mode");
}

pub fn terminal_size() -> (u16, u16) {
    // SAFETY: zeroed winsize is valid and outlives the call.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size);
        (size.ws_col, size.ws_row)
    }
}

/// Stdin, stdout and stderr become /dev/null, so that we hold nobody's terminal or pipe open.
pub fn let_go_of_stdio() {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").expect("/dev/null");
    for fd in 0..3 {
        // SAFETY: `null` is open; the numbers are ours to replace.
        unsafe { libc::dup2(null.as_raw_fd(), fd) };
    }
}

/// A descriptor of this process by number.
pub fn adopt(fd: RawFd) -> std::fs::File {
    // SAFETY: the caller names an open descriptor that nothing else closes; the file is never dropped
    // by callers before they exit.
    unsafe { std::fs::File::from_raw_fd(fd) }
}

/// From here on, in whatever is executed too, these system calls fail with `errno` and do nothing.
pub fn deny(calls: &[libc::c_long], errno: i32) {
    // The offset of the number in what the kernel shows to a filter.
    const NUMBER: u32 = 0;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let answer = |k| step(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    let mut filter = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER)];
    for call in calls {
        filter.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, *call as u32));
        filter.push(answer(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its steps outlive the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(done, 0, "seccomp: {}", std::io::Error::last_os_error());
}

/// Whether a system call that a filter may deny is denied.
pub fn is_denied(call: libc::c_long) -> bool {
    // SAFETY: all of those asked for take these numbers as no descriptor and no process.
    let got = unsafe { libc::syscall(call, -1, 0, 0, 0, 0, 0) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    got == -1 && matches!(errno, Some(libc::ENOSYS | libc::EPERM))
}
