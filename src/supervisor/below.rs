//! What a child of a node, or a node that is no more, left behind. Called by `node` and `perform`; hands on
//! processes for `sweep` to end, and ends nothing itself.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::{kin, record, start};
use crate::os::procfs::{self, Process};
use crate::session::StateDir;

/// In the environment of every supervisor that a node starts, so that those of a node which was killed are
/// found; agents are known by their own variables.
pub const MARK: &str = "AGENTSUP_CHILD";

/// In that of a child which its node has started before: its session goes on.
const AGAIN: &str = "AGENTSUP_CHILD_AGAIN";

/// Far more than a lock ever holds.
const LONGEST: u64 = 1 << 10;

/// The variable that marks the supervisor of `session`.
pub fn mark(dir: &Path, session: &str) -> (OsString, OsString) {
    (MARK.into(), OsString::from_vec(place(dir, session)))
}

pub fn again() -> (OsString, OsString) {
    (AGAIN.into(), "1".into())
}

/// Whether a node started us, and has before.
pub fn is_again(env: &[(OsString, OsString)]) -> bool {
    is_marked(env) && env.iter().any(|(name, _)| name == AGAIN)
}

/// Whether a node started us.
pub fn is_marked(env: &[(OsString, OsString)]) -> bool {
    env.iter().any(|(name, _)| name == MARK)
}

/// What the socket of `session`, and those of all sessions below it, begin with.
fn place(dir: &Path, session: &str) -> Vec<u8> {
    [dir.join("supervisor").join(session).as_os_str().as_bytes(), b"."].concat()
}

/// What an environment says of its process.
struct Said {
    session: String,
    /// It is the supervisor of that, or a command of its; else something of its agent.
    by_node: bool,
}

/// What the child with this session, or anything below it, left behind: supervisors that die with their
/// node, and what their agents started.
pub fn left(dir: &StateDir, session: &str) -> Vec<Process> {
    let sockets = [dir.path.join("supervisor").as_os_str().as_bytes(), b"/"].concat();
    let place = place(&dir.path, session);
    let is_below = |id: &[u8]| {
        id.strip_prefix(session.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    };
    let found = procfs::by_environment(|vars| {
        let marked = value(vars, MARK).filter(|mark| mark.starts_with(&place));
        let marked = marked.and_then(|mark| mark.strip_prefix(&*sockets)?.strip_suffix(b"."));
        let of = || {
            let of = value(vars, "AGENT_DOC_SESSION").filter(|id| is_below(id))?;
            value(vars, "AGENTSUP_SOCKET").filter(|socket| socket.starts_with(&place)).and(Some(of))
        };
        let id = marked.or_else(of)?;
        Some(Said { session: String::from_utf8_lossy(id).into_owned(), by_node: marked.is_some() })
    });
    let by_node: HashSet<i32> = found.iter().filter(|(_, said)| said.by_node).map(|(p, _)| p.pid).collect();
    let is_anothers = |pid: i32, said: &Said| {
        let below_us = above(&said.session).take_while(|id| id.len() >= session.len());
        below_us.into_iter().any(|id| has_another_supervisor(pid, dir, id, &by_node))
    };
    found.into_iter().filter(|(p, said)| !is_anothers(p.pid, said)).map(|(p, _)| p).collect()
}

/// The session, its node's, that one's node's …
fn above(session: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(session), |id| Some(id.rsplit_once('.')?.0))
}

fn value<'a>(vars: &HashSet<&'a [u8]>, name: &str) -> Option<&'a [u8]> {
    vars.iter().find_map(|var| var.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Anybody may start a session, or a whole tree, under a name that begins like a node's: as long as its
/// supervisor lives, and is not one of the node's own that is about to die, what runs below that is not ours.
fn has_another_supervisor(pid: i32, dir: &StateDir, id: &str, ours: &HashSet<i32>) -> bool {
    let me = std::process::id().cast_signed();
    let text = |file| std::io::read_to_string(std::io::Read::take(file, LONGEST)).ok();
    let holder = record::open_plain(&dir.lock(id)).and_then(text).and_then(|text| start::holder_here(&text));
    // One that is dying has no environment any more, and so would not be among ours.
    let lives = |pid: &i32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| !env.is_empty());
    let is_another = |holder: &i32| *holder != me && !ours.contains(holder) && kin::descends(pid, *holder);
    holder.filter(is_another).as_ref().is_some_and(lives)
}

/// What has come to us since `since` although nobody told us of it: the orphans of a dead child that cleared
/// their environment, or wrote over it, with all below them. `ours` are the children that we started, and
/// what says to be of another session is left to that. What entered a container by itself comes to us in the
/// same way, but the kernel would not take it before us, as it would whatever an agent has started.
pub fn orphans(dir: &StateDir, session: &str, ours: &HashSet<i32>, since: u64) -> Vec<Process> {
    let me = std::process::id().cast_signed();
    let all = procfs::processes().unwrap_or_default();
    let is_orphan = |p: &&Process| p.parent == me && !ours.contains(&p.pid) && p.started >= since;
    let own = procfs::own_oom_score_adj().filter(|adj| *adj < procfs::MOST_OOM_SCORE_ADJ);
    let is_agents = |p: &&Process| own.is_none_or(|adj| procfs::goes_before(p.pid, adj));
    let roots: Vec<Process> = all.iter().filter(is_orphan).filter(is_agents).copied().collect();
    let below = roots.iter().flat_map(|root| procfs::descendants(&all, root.pid));
    let place = place(&dir.path, session);
    let is_anothers = |p: &Process| {
        let environ = std::fs::read(format!("/proc/{}/environ", p.pid)).unwrap_or_default();
        let vars: HashSet<&[u8]> = environ.split(|&b| b == 0).collect();
        let says = value(&vars, MARK).or(value(&vars, "AGENTSUP_SOCKET"));
        says.is_some_and(|says| !says.starts_with(&place))
    };
    roots.iter().copied().chain(below).filter(|p| !p.zombie && !is_anothers(p)).collect()
}
