//! Who is alive, whose child, in which group and session. One pass over /proc costs about 5 µs a
//! process: for a stop, not for every call.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Clock ticks since boot: with the pid, the identity of a process.
    pub started: u64,
    pub zombie: bool,
    pub stopped: bool,
}

/// Whether /proc speaks of our own pid namespace. One that was mounted outside (a chroot with the
/// host's, `unshare --pid` without a new mount) counts other processes under our numbers.
pub fn is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        fs::read_link("/proc/self")
            .is_ok_and(|me| me.as_os_str() == OsStr::new(&std::process::id().to_string()))
    })
}

/// `None` without a usable /proc.
pub fn processes() -> Option<Vec<Process>> {
    if !is_ours() {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?;
    let all: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(process)
        .collect();
    (!all.is_empty()).then_some(all)
}

pub fn process(pid: i32) -> Option<Process> {
    if !is_ours() {
        return None;
    }
    let mut stat = [0u8; 1024];
    parse(pid, read_short(&format!("/proc/{pid}/stat"), &mut stat)?)
}

/// A file that the kernel hands out in one read. Ancestry is looked up for every caller: no size is
/// asked for, nothing allocated.
fn read_short<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = fs::File::open(path).ok()?.read(buffer).ok()?;
    Some(&buffer[..length])
}

pub fn parent_of(pid: i32) -> Option<i32> {
    process(pid).map(|p| p.parent)
}

/// The command name may hold spaces and parentheses: fields count from the last `)`.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    let zombie = matches!(state, "Z" | "X" | "x");
    Some(Process { pid, parent, group, started, zombie, stopped: matches!(state, "T" | "t") })
}

/// Of `all`, those whose ancestry leads to `root`, itself left out.
pub fn descendants(all: &[Process], root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::from([root]));
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push(*child);
                queue.push(child.pid);
            }
        }
    }
    found
}

/// The processes of our own pid namespace whose environment holds all of `wanted` (`NAME=VALUE`),
/// this process left out.
pub fn with_environment(wanted: &[OsString]) -> Vec<Process> {
    let is_it = |vars: &HashSet<&[u8]>| wanted.iter().all(|w| vars.contains(w.as_bytes())).then_some(());
    by_environment(is_it).into_iter().map(|(process, ())| process).collect()
}

/// The same, with what `tell` makes of their variables (`NAME=VALUE`); `None` leaves one out.
pub fn by_environment<T>(tell: impl Fn(&HashSet<&[u8]>) -> Option<T>) -> Vec<(Process, T)> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(own) = namespace("self") else { return Vec::new() };
    let me = std::process::id().cast_signed();
    processes()
        .into_iter()
        .flatten()
        .filter(|p| p.pid != me && !p.zombie)
        .filter_map(|p| {
            let environ = fs::read(format!("/proc/{}/environ", p.pid)).ok()?;
            let vars: HashSet<&[u8]> = environ.split(|&b| b == 0).collect();
            Some((p, tell(&vars)?))
        })
        // A container's processes are seen from the host with the same paths in them: not ours.
        .filter(|(p, _)| namespace(&p.pid.to_string()).as_ref() == Some(&own))
        .collect()
}

/// What a process has used and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_ms: u64,
    /// Of its children that it has waited for, and of theirs.
    pub reaped_cpu_ms: u64,
    pub rss_bytes: u64,
}

pub fn usage(pid: i32) -> Option<Usage> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|&b| b == b')')?;
    let fields: Vec<u64> = std::str::from_utf8(&stat[end + 1..])
        .ok()?
        .split_ascii_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let millis =
        |at: usize| Some((fields.get(at)? + fields.get(at + 1)?) * 1000 / super::clock::ticks_a_second());
    Some(Usage {
        cpu_ms: millis(11)?,
        reaped_cpu_ms: millis(13)?,
        rss_bytes: fields.get(21)? * sysconf(libc::_SC_PAGESIZE, 4096),
    })
}

/// How long its threads were ready to run while others ran, or while its cgroup had used up its share. Nothing
/// where the kernel does not count it.
pub fn waited_for_cpu(pid: i32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: &fs::DirEntry| {
        let (mut path, mut text) = (thread.path(), [0u8; 128]);
        path.push("schedstat");
        waited_in(read_short(path.to_str()?, &mut text)?)
    };
    threads.filter_map(|thread| of(&thread)).sum()
}

/// Nanoseconds on a processor, in line for one, and how often it had one.
fn waited_in(schedstat: &[u8]) -> Option<Duration> {
    let waited = std::str::from_utf8(schedstat).ok()?.split_ascii_whitespace().nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

pub(super) fn sysconf(name: i32, usual: u64) -> u64 {
    // SAFETY: a plain integer; an unknown name is answered with -1.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|&n| n > 0).unwrap_or(usual)
}

/// Our own open descriptors.
pub fn open_files() -> u64 {
    // The listing itself has one open.
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

/// The name of its program, at most 15 bytes.
pub fn name(pid: i32) -> Option<Vec<u8>> {
    let mut name = [0u8; 64];
    let name = read_short(&format!("/proc/{pid}/comm"), &mut name)?;
    Some(name.strip_suffix(b"\n").unwrap_or(name).to_vec())
}

pub fn is_ignoring(pid: i32, signal: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// Whether it has a file open whose path ends so, wherever that was moved, and though it was removed since.
pub fn has_open(pid: i32, end: &Path) -> bool {
    let is_it = |open: PathBuf| {
        let open = open.as_os_str().as_bytes();
        Path::new(OsStr::from_bytes(open.strip_suffix(b" (deleted)").unwrap_or(open))).ends_with(end)
    };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(is_it)
}

/// Its command line, for a person to read.
pub fn command_line(pid: i32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = raw.split(|&b| b == 0).filter(|w| !w.is_empty()).collect();
    let text = words.join(&b' ');
    OsString::from_vec(text).as_os_str().to_string_lossy().chars().take(120).collect()
}

/// Nobody goes before whoever has this.
pub const MOST_OOM_SCORE_ADJ: i32 = 1000;

/// Our own figure, so that the agent's can be put above it.
pub fn own_oom_score_adj() -> Option<i32> {
    oom_score_adj("self")
}

/// Whoever is born below an agent has its figure, also without a variable of its environment.
pub fn goes_before(pid: i32, adj: i32) -> bool {
    oom_score_adj(&pid.to_string()).is_some_and(|its| its > adj)
}

fn oom_score_adj(pid: &str) -> Option<i32> {
    fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?.trim().parse().ok()
}

pub fn variable(name: &str, value: &OsStr) -> OsString {
    let mut pair = OsString::from(name);
    pair.push("=");
    pair.push(value);
    pair
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = b"7 (a) b (c) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 998877 0 0";
        let expected =
            Process { pid: 7, parent: 3, group: 4, started: 998_877, zombie: true, stopped: false };
        assert_eq!(parse(7, stat), Some(expected));
    }

    #[test]
    fn who_shares_a_processor_stands_in_line_for_it() {
        assert_eq!(waited_in(b"692531 3464658 2\n"), Some(Duration::from_nanos(3_464_658)));
        assert_eq!([&b""[..], b"1", b"1 x 2"].map(waited_in), [None; 3]);
        assert_eq!(waited_for_cpu(0), Duration::ZERO);
    }

    #[test]
    fn ticks_count_as_the_start_of_a_process_does() {
        let before = clock::ticks();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let started = process(child.id().cast_signed()).expect("it runs").started;
        let after = clock::ticks();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((before..=after).contains(&started), "{before} {started} {after}");
    }

    #[test]
    fn descendants_survive_a_cycle_in_a_torn_snapshot() {
        let p = |pid, parent| Process { pid, parent, group: 0, started: 0, zombie: false, stopped: false };
        let all = [p(2, 1), p(3, 2), p(4, 5), p(5, 4), p(1, 3)];
        let mut found: Vec<i32> = descendants(&all, 1).iter().map(|p| p.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3]);
    }
}
