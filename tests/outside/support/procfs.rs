//! What /proc says about processes, asked from outside of every namespace.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub state: char,
    pub foreground: i32,
    /// A pid comes back when there have been enough others.
    pub started: u64,
}

impl Process {
    /// Stopped by a signal, or in a cgroup that is frozen.
    pub fn stands(&self) -> bool {
        let is_frozen = |dir: String| {
            std::fs::read_to_string(dir + "/cgroup.events").is_ok_and(|events| events.contains("frozen 1"))
        };
        self.state == 'T' || cgroup(self.pid).is_some_and(is_frozen)
    }
}

/// The directory of its cgroup, version 2.
pub fn cgroup(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(|root| format!("{root}{}", path.trim_end_matches('/')));
    places.into_iter().find(|dir| std::path::Path::new(dir).join("cgroup.procs").exists())
}

fn parse(stat: &str) -> Option<Process> {
    // The name may hold spaces and brackets; the last bracket ends it.
    let (front, rest) = stat.rsplit_once(')')?;
    let pid = front.split(' ').next()?.parse().ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    let mut number = || words.next()?.parse::<i32>().ok();
    let (parent, group, session, _terminal, foreground) =
        (number()?, number()?, number()?, number()?, number()?);
    let started = words.nth(13)?.parse().ok()?;
    Some(Process { pid, parent, group, session, state, foreground, started })
}

pub fn process(pid: i32) -> Option<Process> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

pub fn alive(pid: i32) -> bool {
    process(pid).is_some_and(|p| !matches!(p.state, 'Z' | 'X'))
}

pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Everything below `root`, which is not itself among them.
pub fn descendants(root: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at].pid).unwrap_or_default());
        at += 1;
    }
    found
}

pub fn zombies_below(root: i32) -> Vec<Process> {
    descendants(root).into_iter().filter(|p| p.state == 'Z').collect()
}

pub fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

pub fn status(pid: i32, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

pub fn threads(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Voluntary and forced switches of all threads: how often it has woken up.
pub fn switches(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("alive").flatten();
    tasks
        .map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let counts = text.lines().filter(|line| line.contains("ctxt_switches"));
            counts.filter_map(|line| line.split_ascii_whitespace().last()?.parse::<u64>().ok()).sum::<u64>()
        })
        .sum()
}

/// Resident memory now and at its highest, in KiB.
pub fn peak_kib(pid: i32) -> u64 {
    let text = status(pid, "VmHWM").unwrap_or_default();
    text.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Bytes that it has handed to write calls.
pub fn written(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// Asleep in the kernel: whatever it had to do before is done.
pub fn asleep(pid: i32) -> bool {
    process(pid).is_some_and(|p| p.state == 'S')
}

pub fn exe(pid: i32) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}
