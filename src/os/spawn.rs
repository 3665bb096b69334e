//! Fork, then the steps in the child. The child reports the step that failed through a pipe that
//! closes on exec: EOF there means that the new program runs.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::inherited::{Inherited, KernelSigaction, MASK_BYTES};

macro_rules! steps {
    ($($variant:ident $name:literal,)+) => {
        /// In the order in which they are taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SpawnStep {
            $($variant,)+
        }

        impl SpawnStep {
            /// A step crosses the pipe as its place in this list.
            const ALL: &'static [SpawnStep] = &[$(SpawnStep::$variant,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(SpawnStep::$variant => $name,)+
                }
            }
        }
    };
}

steps! {
    Prepare "prepare",
    Fork "fork",
    DeathSignal "death_signal",
    Setsid "setsid",
    ControllingTty "controlling_tty",
    ProcessGroup "process_group",
    Foreground "foreground",
    Stdio "stdio",
    Chdir "chdir",
    ResetSignals "reset_signals",
    Exec "exec",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnError {
    pub step: SpawnStep,
    pub errno: Errno,
}

impl SpawnError {
    pub fn exit_code(&self) -> u8 {
        match (self.step, self.errno) {
            (SpawnStep::Exec, Errno::ENOENT) => 127,
            (SpawnStep::Exec, _) => 126,
            (SpawnStep::Chdir, _) => 78,
            (
                SpawnStep::Prepare
                | SpawnStep::Fork
                | SpawnStep::DeathSignal
                | SpawnStep::Setsid
                | SpawnStep::ControllingTty
                | SpawnStep::ProcessGroup
                | SpawnStep::Foreground
                | SpawnStep::Stdio
                | SpawnStep::ResetSignals,
                _,
            ) => 125,
        }
    }
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {}", self.step.name(), self.errno.desc())
    }
}

pub struct Spec<'a> {
    pub program: &'a Path,
    pub argv: &'a [OsString],
    pub env: Env<'a>,
    pub cwd: Option<&'a Path>,
    pub place: Place<'a>,
    pub signals: Signals,
    pub fds: Fds,
    /// So that the kernel's OOM killer takes the agent before PID 1. Best effort.
    pub oom_score_adj: Option<i32>,
}

pub enum Env<'a> {
    /// Ours, untouched.
    Inherit,
    Exactly(&'a [(OsString, OsString)]),
}

/// Which session, process group and terminal the child gets.
pub enum Place<'a> {
    /// A session of its own with this terminal as stdin, stdout and stderr.
    Terminal(BorrowedFd<'a>),
    /// A process group of its own; in front on `terminal` if given, as a shell places a job.
    OwnGroup { terminal: Option<BorrowedFd<'a>> },
    /// Our own process group.
    SameGroup,
    /// A session of its own, without a terminal, with these as stdin and as stdout and stderr.
    Detached { stdin: BorrowedFd<'a>, output: BorrowedFd<'a> },
}

pub enum Signals {
    AllDefault,
    As(Inherited),
}

#[derive(PartialEq, Eq)]
pub enum Fds {
    OnlyStdio,
    Inherit,
}

/// A forked child whose exec has not been seen yet.
pub struct Spawning {
    pub pid: i32,
    report: OwnedFd,
}

impl Spawning {
    /// Call when the report is readable.
    pub fn outcome(&self) -> Result<(), SpawnError> {
        let mut report = [0u8; 5];
        let step = match nix::unistd::read(&self.report, &mut report) {
            Ok(0) => return Ok(()),
            Ok(_) => SpawnStep::ALL.get(usize::from(report[0])).copied().unwrap_or(SpawnStep::Fork),
            Err(errno) => return Err(SpawnError { step: SpawnStep::Fork, errno }),
        };
        let errno = i32::from_ne_bytes([report[1], report[2], report[3], report[4]]);
        Err(SpawnError { step, errno: Errno::from_raw(errno) })
    }
}

impl AsFd for Spawning {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

pub fn spawn(spec: &Spec) -> Result<Spawning, SpawnError> {
    let fork_error = |errno| SpawnError { step: SpawnStep::Fork, errno };
    // Everything that allocates happens before the fork: another thread may hold the allocator.
    let prepared = Prepared::new(spec).map_err(|errno| SpawnError { step: SpawnStep::Prepare, errno })?;
    let (report, child_report) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(fork_error)?;
    let parent = std::process::id().cast_signed();

    // A signal between fork and exec would run our handler in the child and appear on our pipe.
    let all_blocked = MaskGuard::block_all();
    // SAFETY: the child calls only `Prepared::become_child`, which makes system calls on memory
    // prepared here and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        prepared.become_child(parent, child_report.as_raw_fd());
    }
    let forked = Errno::result(pid);
    drop(all_blocked);
    let pid = forked.map_err(fork_error)?;
    if matches!(spec.place, Place::OwnGroup { .. }) {
        // Both sides do it, so that neither depends on who runs first; after the exec it fails.
        let _ = nix::unistd::setpgid(nix::unistd::Pid::from_raw(pid), nix::unistd::Pid::from_raw(pid));
    }
    Ok(Spawning { pid, report })
}

struct MaskGuard(u64);

impl MaskGuard {
    fn block_all() -> MaskGuard {
        MaskGuard(set_mask(u64::MAX))
    }
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

fn set_mask(new: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both sets are eight bytes, as announced. The raw call, because C libraries leave out
    // the signals they keep for themselves.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const new, &raw mut old, MASK_BYTES);
    }
    old
}

/// All that the child needs, as plain pointers and numbers.
struct Prepared {
    program: CString,
    _argv: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    _env: Vec<CString>,
    env: Option<Vec<*const libc::c_char>>,
    cwd: Option<CString>,
    place: PlaceFds,
    ignored: u64,
    blocked: u64,
    only_stdio: bool,
    oom_score_adj: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum PlaceFds {
    Terminal(RawFd),
    OwnGroup(Option<RawFd>),
    SameGroup,
    Detached(RawFd, RawFd),
}

impl Prepared {
    fn new(spec: &Spec) -> Result<Prepared, Errno> {
        let c = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL);
        let pointers =
            |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
        let args = spec.argv.iter().map(|a| c(a)).collect::<Result<Vec<_>, _>>()?;
        let vars = match spec.env {
            Env::Inherit => None,
            Env::Exactly(vars) => Some(
                vars.iter()
                    .map(|(name, value)| {
                        let mut pair = name.clone();
                        pair.push("=");
                        pair.push(value);
                        c(&pair)
                    })
                    .collect::<Result<Vec<_>, _>>()?,
            ),
        };
        let (ignored, blocked) = match spec.signals {
            Signals::AllDefault => (0, 0),
            Signals::As(Inherited { blocked, ignored }) => (ignored, blocked),
        };
        Ok(Prepared {
            program: c(spec.program.as_os_str())?,
            argv: pointers(&args),
            _argv: args,
            env: vars.as_deref().map(pointers),
            _env: vars.unwrap_or_default(),
            cwd: spec.cwd.map(|p| c(p.as_os_str())).transpose()?,
            place: match &spec.place {
                Place::Terminal(slave) => PlaceFds::Terminal(slave.as_raw_fd()),
                Place::OwnGroup { terminal } => PlaceFds::OwnGroup(terminal.map(|t| t.as_raw_fd())),
                Place::SameGroup => PlaceFds::SameGroup,
                Place::Detached { stdin, output } => {
                    PlaceFds::Detached(stdin.as_raw_fd(), output.as_raw_fd())
                }
            },
            ignored,
            blocked,
            only_stdio: spec.fds == Fds::OnlyStdio,
            oom_score_adj: spec.oom_score_adj.map(|adj| adj.to_string().into_bytes()),
        })
    }

    /// Runs in the forked child: async-signal-safe calls only, no allocation, no return.
    fn become_child(&self, parent: i32, report: RawFd) -> ! {
        let (step, errno) = match self.take_steps(parent) {
            Err(step) => (step, Errno::last_raw()),
        };
        let mut record = [0u8; 5];
        record[0] = step as u8;
        record[1..].copy_from_slice(&errno.to_ne_bytes());
        // SAFETY: async-signal-safe calls; `record` is valid for its length. `_exit` runs none of
        // the parent's exit handlers.
        unsafe {
            libc::write(report, record.as_ptr().cast(), record.len());
            libc::_exit(125)
        }
    }

    fn take_steps(&self, parent: i32) -> Result<std::convert::Infallible, SpawnStep> {
        let check = |result: libc::c_int, step| if result < 0 { Err(step) } else { Ok(()) };
        // SAFETY: only async-signal-safe calls on memory that `self` owns and on descriptors that
        // the caller keeps open across the fork.
        unsafe {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), SpawnStep::DeathSignal)?;
            if libc::getppid() != parent {
                // It died before the death signal was armed.
                libc::_exit(125);
            }
            match self.place {
                PlaceFds::Terminal(slave) => {
                    check(libc::setsid(), SpawnStep::Setsid)?;
                    check(libc::ioctl(slave, libc::TIOCSCTTY, 0), SpawnStep::ControllingTty)?;
                    for fd in 0..3 {
                        check(libc::dup2(slave, fd), SpawnStep::Stdio)?;
                    }
                }
                PlaceFds::OwnGroup(terminal) => {
                    check(libc::setpgid(0, 0), SpawnStep::ProcessGroup)?;
                    if let Some(tty) = terminal {
                        // All signals are blocked, so a background TTOU does not stop us here.
                        check(libc::tcsetpgrp(tty, libc::getpid()), SpawnStep::Foreground)?;
                    }
                }
                PlaceFds::SameGroup => {}
                PlaceFds::Detached(stdin, output) => {
                    check(libc::setsid(), SpawnStep::Setsid)?;
                    check(libc::dup2(output, 2), SpawnStep::Stdio)?;
                    check(libc::dup2(stdin, 0), SpawnStep::Stdio)?;
                    check(libc::dup2(2, 1), SpawnStep::Stdio)?;
                }
            }
            if let Some(adj) = &self.oom_score_adj {
                let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file >= 0 {
                    libc::write(file, adj.as_ptr().cast(), adj.len());
                    libc::close(file);
                }
            }
            if let Some(cwd) = &self.cwd {
                check(libc::chdir(cwd.as_ptr()), SpawnStep::Chdir)?;
            }
            self.reset_signals()?;
            if self.only_stdio {
                close_on_exec_from(3);
            }
            // `environ` is what agentsup itself was started with: nothing here changes it.
            let env = self.env.as_ref().map_or(environ, |env| env.as_ptr());
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), env);
        }
        Err(SpawnStep::Exec)
    }

    fn reset_signals(&self) -> Result<(), SpawnStep> {
        for signal in (1..=64).filter(|&n| n != libc::SIGKILL && n != libc::SIGSTOP) {
            let ignore = self.ignored & 1 << (signal - 1) != 0;
            let handler = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
            let action = KernelSigaction { handler, flags: 0, restorer: 0, mask: 0 };
            // SAFETY: the kernel's layout; default and ignore need no restorer.
            let set = unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    &raw const action,
                    ptr::null::<KernelSigaction>(),
                    MASK_BYTES,
                )
            };
            if set != 0 {
                return Err(SpawnStep::ResetSignals);
            }
        }
        set_mask(self.blocked);
        Ok(())
    }
}

unsafe extern "C" {
    static mut environ: *const *const libc::c_char;
}

/// Closing at exec instead of now keeps the report pipe open until then.
fn close_on_exec_from(first: RawFd) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: plain integers; descriptors that do not exist are passed over.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        // Kernels before 5.11.
        let limit = match libc::sysconf(libc::_SC_OPEN_MAX) {
            limit @ 256..65_536 => limit,
            // Unlimited, or more than anybody opens.
            _ => 65_536,
        };
        for fd in first..limit as RawFd {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// A pipe for a helper's stdin that already holds `text`, at its end.
pub fn pipe_holding(text: &[u8]) -> io::Result<OwnedFd> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // A pipe holds 64 KiB; more is cut rather than waited for.
    nix::unistd::write(&write, &text[..text.len().min(60_000)])?;
    let flags = OFlag::from_bits_truncate(nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_GETFL)?);
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(read)
}
