//! The kernel's count of OOM kills in our cgroup.

use std::fs;
use std::path::{Path, PathBuf};

/// `None` where no memory controller can be read.
pub fn oom_kills() -> Option<u64> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    files(&memberships).iter().find_map(|file| count(&fs::read_to_string(file).ok()?))
}

/// Where the figure may stand. Inside a container the own cgroup is the root of /sys/fs/cgroup,
/// so each place is tried with and without the path that /proc names.
fn files(memberships: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (Path::new("/sys/fs/cgroup"), "memory.events"),
            c if c.split(',').any(|c| c == "memory") => {
                (Path::new("/sys/fs/cgroup/memory"), "memory.oom_control")
            }
            _ => continue,
        };
        files.push(root.join(path.trim_start_matches('/')).join(name));
        files.push(root.join(name));
    }
    files
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|n| n.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hierarchies_are_looked_for_inside_and_outside_a_container() {
        let v2 = files("0::/user.slice/x.scope\n");
        assert_eq!(v2[0], Path::new("/sys/fs/cgroup/user.slice/x.scope/memory.events"));
        assert_eq!(v2[1], Path::new("/sys/fs/cgroup/memory.events"));
        let v1 = files("7:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n");
        assert_eq!(v1[0], Path::new("/sys/fs/cgroup/memory/docker/1/memory.oom_control"));
        assert_eq!(v1.len(), 2);
    }

    #[test]
    fn oom_is_not_oom_kill() {
        assert_eq!(count("low 0\noom 9\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
        assert_eq!(count("oom_kill_disable 0\n"), None);
    }
}
