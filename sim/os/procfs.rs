//! Who is alive; in some lives there is no /proc.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use agentsup::os::procfs::{Process, Usage, descendants, variable};

use crate::world;

pub fn processes() -> Option<Vec<Process>> {
    world::with(|world| world.mood.has_proc.then(|| world.processes.all()))
}

pub fn process(pid: i32) -> Option<Process> {
    world::with(|world| world.mood.has_proc.then(|| world.processes.look_at(pid)).flatten())
}

pub fn parent_of(pid: i32) -> Option<i32> {
    process(pid).map(|process| process.parent)
}

pub fn with_environment(_wanted: &[OsString]) -> Vec<Process> {
    world::with(|world| if world.mood.has_proc { world.processes.marked() } else { Vec::new() })
}

/// Only a node asks for it, and no life is one.
pub fn by_environment<T>(_tell: impl Fn(&HashSet<&[u8]>) -> Option<T>) -> Vec<(Process, T)> {
    Vec::new()
}

pub fn is_ours() -> bool {
    world::with(|world| world.mood.has_proc)
}

pub fn usage(pid: i32) -> Option<Usage> {
    let (cpu_ms, reaped_cpu_ms) = world::with(|world| world.processes.cpu(pid));
    Some(Usage { cpu_ms, reaped_cpu_ms, rss_bytes: 1 << 20 })
}

/// Here a processor is always free.
pub fn waited_for_cpu(_pid: i32) -> Duration {
    Duration::ZERO
}

pub fn open_files() -> u64 {
    7
}

pub fn has_open(_pid: i32, _end: &Path) -> bool {
    false
}

pub fn name(_pid: i32) -> Option<Vec<u8>> {
    Some(b"sh".to_vec())
}

pub fn is_ignoring(pid: i32, _signal: i32) -> bool {
    pid % 5 == 0
}

pub fn command_line(pid: i32) -> String {
    format!("process {pid}")
}

pub const MOST_OOM_SCORE_ADJ: i32 = 1000;

pub fn goes_before(_pid: i32, _adj: i32) -> bool {
    true
}

pub fn own_oom_score_adj() -> Option<i32> {
    Some(0)
}
