//! The few functions of the C library that the product calls by other ways than its `os` room: std's
//! clocks and files, and random bytes. The linker takes these instead of the library's. Outside of a
//! life they do what the library does.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};

use crate::clock;

thread_local! {
    static DISK: Cell<Disk> = const { Cell::new(Disk { is_full: false, no_descriptors: false, short: 0 }) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static PID: Cell<i32> = const { Cell::new(0) };
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen::new()) };
}

/// A line that nobody writes.
pub const HOLE: &[u8] = b"\nhole\n";

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    pub is_full: bool,
    /// EMFILE for every file that is to be opened.
    pub no_descriptors: bool,
    /// One write in so many takes only a part; 0: none.
    pub short: u32,
}

/// What was written to the files that tell of a life.
#[derive(Default)]
pub struct Seen {
    log_fds: Vec<i32>,
    record_fds: Vec<i32>,
    /// Whole writes to the log, and [`HOLE`] for each that failed or was cut.
    pub log: Vec<u8>,
    /// The text of the last record that took its place.
    pub record: Option<Vec<u8>>,
    next_record: Vec<u8>,
    pub writes: u64,
    pub faults: u64,
}

impl Seen {
    const fn new() -> Seen {
        Seen {
            log_fds: Vec::new(),
            record_fds: Vec::new(),
            log: Vec::new(),
            record: None,
            next_record: Vec::new(),
            writes: 0,
            faults: 0,
        }
    }
}

pub fn begin(seed: u64, pid: i32) {
    RANDOM.set(seed);
    PID.set(pid);
    DISK.set(Disk::default());
    SEEN.set(Seen::new());
}

pub fn end() {
    PID.set(0);
    DISK.set(Disk::default());
}

pub fn set_disk(disk: Disk) {
    DISK.set(disk);
}

pub fn disk() -> Disk {
    DISK.get()
}

pub fn seen<R>(look: impl FnOnce(&mut Seen) -> R) -> R {
    SEEN.with_borrow_mut(look)
}

fn random() -> u64 {
    let mut state = RANDOM.get();
    let drawn = crate::rng::splitmix(&mut state);
    RANDOM.set(state);
    drawn
}

fn failed(errno: c_int) -> c_int {
    // SAFETY: the C library's own place for it, valid in every thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

#[unsafe(no_mangle)]
extern "C" fn clock_gettime(id: libc::clockid_t, to: *mut libc::timespec) -> c_int {
    if !clock::is_simulated() {
        // SAFETY: the arguments are passed on as they came.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, id as c_long, to) as c_int };
    }
    let nanos = if id == libc::CLOCK_REALTIME { clock::wall() } else { clock::read() };
    let (tv_sec, tv_nsec) = ((nanos / 1_000_000_000) as _, (nanos % 1_000_000_000) as _);
    // SAFETY: whoever asks gives a place for the answer.
    unsafe { *to = libc::timespec { tv_sec, tv_nsec } };
    0
}

#[unsafe(no_mangle)]
extern "C" fn getpid() -> libc::pid_t {
    match PID.get() {
        // SAFETY: it has no arguments, and cannot fail.
        0 => unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t },
        pid => pid,
    }
}

#[unsafe(no_mangle)]
extern "C" fn getrandom(to: *mut c_void, length: usize, flags: c_uint) -> isize {
    if PID.get() == 0 {
        // SAFETY: the arguments are passed on as they came.
        return unsafe { libc::syscall(libc::SYS_getrandom, to, length, flags) as isize };
    }
    for at in 0..length {
        // SAFETY: the caller's buffer is `length` bytes long.
        unsafe { *to.cast::<u8>().add(at) = random() as u8 };
    }
    length as isize
}

#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let lives = PID.get() != 0;
    let errno = match DISK.get() {
        _ if !lives => None,
        Disk { no_descriptors: true, .. } => Some(libc::EMFILE),
        Disk { is_full: true, .. } if flags & libc::O_CREAT != 0 => Some(libc::ENOSPC),
        Disk { .. } => None,
    };
    // SAFETY: whoever opens a file gives a string.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    if let Some(errno) = errno {
        seen(|seen| {
            seen.faults += 1;
            if name.ends_with(b".log") {
                seen.log.extend_from_slice(HOLE);
            }
        });
        return failed(errno);
    }
    // SAFETY: the arguments are passed on as they came.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int };
    if lives && fd < 0 && flags & libc::O_CREAT != 0 && name.ends_with(b".log") {
        // Somebody has removed its directory.
        seen(|seen| seen.log.extend_from_slice(HOLE));
    }
    if lives && fd >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY {
        seen(|seen| {
            seen.log_fds.retain(|known| *known != fd);
            seen.record_fds.retain(|known| *known != fd);
            match () {
                _ if name.ends_with(b".log") => seen.log_fds.push(fd),
                _ if name.ends_with(b".json.new") => {
                    seen.record_fds.push(fd);
                    seen.next_record.clear();
                }
                _ => {}
            }
        });
    }
    fd
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, bytes: *const c_void, length: usize) -> isize {
    // SAFETY: the arguments are passed on, with a length that is at most what came.
    let plain = |length: usize| unsafe { libc::syscall(libc::SYS_write, fd, bytes, length) as isize };
    // What is told of a life must not change it.
    if PID.get() == 0 || length == 0 || fd <= 2 {
        return plain(length);
    }
    let disk = DISK.get();
    let is_short = disk.short > 0 && length > 1 && random().is_multiple_of(u64::from(disk.short));
    let taken = match (disk.is_full, is_short) {
        (true, _) => 0,
        (false, true) => 1 + random() as usize % (length - 1),
        (false, false) => length,
    };
    // SAFETY: the caller's bytes are that many.
    let text = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), taken) };
    seen(|seen| {
        let is_log = seen.log_fds.contains(&fd);
        seen.writes += 1;
        seen.faults += u64::from(taken < length);
        if is_log {
            seen.log.extend_from_slice(if taken == length { text } else { HOLE });
        } else if seen.record_fds.contains(&fd) {
            seen.next_record.extend_from_slice(text);
        }
    });
    if taken == 0 { failed(libc::ENOSPC) as isize } else { plain(taken) }
}

#[unsafe(no_mangle)]
extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if PID.get() != 0 {
        if DISK.get().is_full {
            seen(|seen| seen.faults += 1);
            return failed(libc::ENOSPC);
        }
        // SAFETY: whoever renames a file gives strings.
        let name = unsafe { CStr::from_ptr(from) }.to_bytes();
        if name.ends_with(b".json.new") {
            seen(|seen| seen.record = Some(std::mem::take(&mut seen.next_record)));
        }
    }
    // SAFETY: the arguments are passed on as they came.
    unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) as c_int }
}
