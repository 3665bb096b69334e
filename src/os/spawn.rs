//! Fork, then the steps in the child. The child reports the step that failed through a pipe that
//! closes on exec: EOF there means that the new program runs.
//!
//! Until its exec the child shares our memory, and we stand still, as with `vfork`: nothing of ours is
//! copied, neither the page tables nor, on both sides, each page that is written next.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::inherited::{self, KernelSigaction, MASK_BYTES};
use super::mask::{self, Blocked};
use super::signals::FIRST_REAL_TIME;

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
    pub fds: Fds<'a>,
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
    /// A session of its own, without a terminal, with these as stdin, stdout and stderr.
    Detached { stdin: BorrowedFd<'a>, stdout: BorrowedFd<'a>, stderr: BorrowedFd<'a> },
}

pub enum Signals {
    AllDefault,
    /// Blocked and ignored as agentsup was started with.
    AsWeWere,
}

pub enum Fds<'a> {
    OnlyStdio,
    /// And this one, by the number that it has here.
    StdioAnd(BorrowedFd<'a>),
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
    let child = Child {
        prepared: &prepared,
        parent: std::process::id().cast_signed(),
        report: child_report.as_raw_fd(),
    };
    // Also where nobody catches signals: one between fork and exec is for the agent, once it is as it should be.
    let all_blocked = Blocked::all();
    let forked = child.begin();
    drop(all_blocked);
    let pid = forked.map_err(fork_error)?;
    if matches!(spec.place, Place::OwnGroup { .. }) {
        // Both sides do it, so that neither depends on who runs first; after the exec it fails.
        let _ = nix::unistd::setpgid(nix::unistd::Pid::from_raw(pid), nix::unistd::Pid::from_raw(pid));
    }
    Ok(Spawning { pid, report })
}

/// What the child is told.
struct Child<'a> {
    prepared: &'a Prepared,
    parent: i32,
    report: RawFd,
}

/// Enough for a few calls of the C library, and to spare.
#[repr(align(16))]
struct ChildStack([MaybeUninit<u8>; 8 * 1024]);

impl Child<'_> {
    fn begin(&self) -> nix::Result<i32> {
        let mut stack = ChildStack([MaybeUninit::uninit(); _]);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child has a stack of its own, which it leaves where it lies, for we stand still until it
        // has its exec or is gone. It calls only `become_child`, which makes system calls on memory that is
        // prepared here, changes none of it but errno, and never returns. No handler runs in it: every
        // signal is blocked. Descriptors, dispositions and directory are its own.
        let pid = unsafe {
            let top = stack.0.as_mut_ptr_range().end;
            libc::clone(Child::main, top.cast(), flags, ptr::from_ref(self).cast_mut().cast())
        };
        Errno::result(pid)
    }

    extern "C" fn main(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `begin` gives itself, and stands still.
        let child = unsafe { &*child.cast::<Child>() };
        child.prepared.become_child(child.parent, child.report)
    }
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
    /// Signals whose disposition is set; those of them that are in `ignored` are ignored then.
    changes: u64,
    ignored: u64,
    blocked: u64,
    only_stdio: bool,
    kept: Option<RawFd>,
    oom_score_adj: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum PlaceFds {
    Terminal(RawFd),
    OwnGroup(Option<RawFd>),
    SameGroup,
    Detached(RawFd, RawFd, RawFd),
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
        let (changes, ignored, blocked) = match spec.signals {
            Signals::AllDefault => (inherited::changed() | inherited::ignored(), 0, 0),
            Signals::AsWeWere => {
                (inherited::changed(), inherited::ignored_before(), inherited::blocked_before())
            }
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
                Place::Detached { stdin, stdout, stderr } => {
                    PlaceFds::Detached(stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd())
                }
            },
            changes,
            ignored,
            blocked,
            only_stdio: !matches!(spec.fds, Fds::Inherit),
            kept: match spec.fds {
                Fds::StdioAnd(fd) => Some(fd.as_raw_fd()),
                Fds::OnlyStdio | Fds::Inherit => None,
            },
            oom_score_adj: spec.oom_score_adj.map(|adj| adj.to_string().into_bytes()),
        })
    }

    /// Runs in the child: async-signal-safe calls only, no allocation, no return.
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
                PlaceFds::Detached(stdin, stdout, stderr) => {
                    check(libc::setsid(), SpawnStep::Setsid)?;
                    // In this order: a stdout that is our own stderr is still there.
                    check(libc::dup2(stdout, 1), SpawnStep::Stdio)?;
                    check(libc::dup2(stderr, 2), SpawnStep::Stdio)?;
                    check(libc::dup2(stdin, 0), SpawnStep::Stdio)?;
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
            if let Some(kept) = self.kept {
                check(libc::fcntl(kept, libc::F_SETFD, 0), SpawnStep::Stdio)?;
            }
            // `environ` is what agentsup itself was started with: nothing here changes it.
            let env = self.env.as_ref().map_or(environ, |env| env.as_ptr());
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), env);
        }
        Err(SpawnStep::Exec)
    }

    /// Handlers end with the exec; only what is ignored stays so.
    fn reset_signals(&self) -> Result<(), SpawnStep> {
        for signal in (1..=64).filter(|&signal| self.changes & inherited::bit(signal) != 0) {
            let ignore = self.ignored & inherited::bit(signal) != 0;
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
            // What runs us may keep a real-time signal for itself.
            if set != 0 && signal < FIRST_REAL_TIME {
                return Err(SpawnStep::ResetSignals);
            }
        }
        mask::set(self.blocked);
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

/// A pipe by which a child says that it is ready: our end, which never blocks, and the child's.
pub fn ready_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((read, write))
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
