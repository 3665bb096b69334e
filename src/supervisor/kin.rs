//! Who a caller is, by its place in the process tree.

use std::io::Read;
use std::sync::OnceLock;

use super::record;
use super::settings::Settings;
use crate::control::access::{self, Ground, Role};
use crate::os::procfs;
use crate::os::socket::{Peer, PeerLife};

/// More generations are a loop in a /proc that changes while it is read.
const DEEPEST: usize = 64;

pub(super) fn role_of(peer: Peer, life: PeerLife, settings: &Settings) -> Role {
    let Some(socket) = &settings.socket else { return Role::Agent };
    if life == PeerLife::Gone && peer.pid != 0 {
        // It might have been anybody of the tree.
        return Role::Agent;
    }
    let ground = Ground {
        own_pid: std::process::id().cast_signed(),
        own_uid: nix::unistd::geteuid().as_raw(),
        is_supervisor: &|pid| is_supervisor(pid, settings),
        outside: socket.access_outside,
        group: socket.access_group,
        parent: &|pid| parent_of(pid, peer),
    };
    access::role(access::Caller { pid: peer.pid, uid: peer.uid }, &ground)
}

/// Whether `ancestor` has started it, or something that did.
pub(super) fn descends(pid: i32, ancestor: i32) -> bool {
    ancestors(pid).any(|pid| pid == ancestor)
}

/// It, its parent, that one's …
pub(super) fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    let parents = std::iter::successors(Some(pid), |pid| procfs::process(*pid).map(|process| process.parent));
    parents.take_while(|pid| *pid > 1).take(DEEPEST)
}

fn parent_of(pid: i32, caller: Peer) -> Option<i32> {
    let process = procfs::process(pid)?;
    // The caller has ended, and its number has gone to another since.
    let is_another = pid == caller.pid && process.started > caller.since;
    (!is_another).then_some(process.parent)
}

/// Whether a live process is another supervisor of the state dir. Its name comes first: reading two
/// hundred locks for each caller would be felt.
fn is_supervisor(pid: i32, settings: &Settings) -> bool {
    static OWN: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let own = OWN.get_or_init(|| procfs::name(std::process::id().cast_signed()));
    let like_us = procfs::name(pid).is_some_and(|n| Some(&n) == own.as_ref() || n.starts_with(b"agentsup"));
    if !like_us {
        return false;
    }
    let lock = settings.state_dir.lock(&settings.wish.session.id);
    let Some(Ok(entries)) = lock.parent().map(std::fs::read_dir) else { return false };
    let holder = format!("pid={pid} host={} ", super::start::host_name());
    let others = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "lock"));
    others.filter(|path| *path != lock).filter_map(|path| record::open_plain(&path)).any(|file| {
        let mut text = Vec::new();
        file.take(holder.len() as u64).read_to_end(&mut text).is_ok() && text == holder.as_bytes()
    })
}
