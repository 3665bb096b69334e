//! Who may do what. A seat-belt against an agent steering itself, not a sandbox.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A process of the agent's own tree.
    Agent,
    /// A process of another supervisor's tree in the same state dir.
    Peer,
    /// May look, may not touch.
    Observer,
    Operator,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Peer => "peer",
            Role::Observer => "observer",
            Role::Operator => "operator",
        }
    }

    /// Whether it does not matter who asks.
    pub fn all_may(method: &str) -> bool {
        [Role::Agent, Role::Peer, Role::Observer, Role::Operator].into_iter().all(|role| role.may(method))
    }

    pub fn may(self, method: &str) -> bool {
        match self {
            Role::Operator => true,
            Role::Observer => {
                matches!(
                    method,
                    "ping"
                        | "state"
                        | "pid"
                        | "screen"
                        | "events"
                        | "logs"
                        | "transcript"
                        | "wait"
                        | "stats"
                        | "metrics"
                        | "trigger.status"
                        | "trigger.list"
                        | "permission.list"
                        | "question.list"
                        | "tree"
                )
            }
            Role::Agent => {
                matches!(
                    method,
                    "ping"
                        | "state"
                        | "pid"
                        | "hook"
                        | "heartbeat"
                        | "ack"
                        | "progress"
                        | "permission.request"
                        | "question.request"
                        | "idle"
                        | "done"
                        | "describe"
                        | "claim"
                        | "tree"
                )
            }
            Role::Peer => matches!(method, "ping" | "state" | "trigger" | "trigger.status" | "tree"),
        }
    }
}

/// The caller, as the kernel names it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub pid: i32,
    pub uid: u32,
}

/// What a role depends on beside the caller.
pub struct Ground<'a> {
    pub own_pid: i32,
    pub own_uid: u32,
    /// Whether a process is another live supervisor of the state dir.
    pub is_supervisor: &'a dyn Fn(i32) -> bool,
    /// `[access] outside`: callers of another pid namespace.
    pub outside: Role,
    /// `[access] group`: another uid that the socket's mode let in.
    pub group: Role,
    /// The parent of a process; `None` when it is gone.
    pub parent: &'a dyn Fn(i32) -> Option<i32>,
}

/// How far up ancestry is followed: a torn view of /proc must not lead in circles.
const GENERATIONS: usize = 256;

pub fn role(caller: Caller, ground: &Ground) -> Role {
    if caller.pid != 0
        && let Some(kin) = kin(caller.pid, ground)
    {
        return kin;
    }
    if caller.uid != ground.own_uid && caller.uid != 0 {
        return ground.group;
    }
    if caller.pid == 0 { ground.outside } else { Role::Operator }
}

/// Agent or peer, by ancestry. A caller that is already gone might have been anybody of the tree.
fn kin(pid: i32, ground: &Ground) -> Option<Role> {
    let mut pid = pid;
    let mut is_peer = false;
    for _ in 0..GENERATIONS {
        let parent = match (ground.parent)(pid) {
            Some(parent) => parent,
            None => return Some(Role::Agent),
        };
        if parent == ground.own_pid {
            return Some(Role::Agent);
        }
        is_peer = is_peer || (ground.is_supervisor)(parent);
        if parent <= 1 {
            break;
        }
        pid = parent;
    }
    is_peer.then_some(Role::Peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: i32 = 100;

    /// 100 (this supervisor) ← 101 ← 102; 200 (another) ← 201; 300 a shell under 1.
    fn parent(pid: i32) -> Option<i32> {
        [(100, 50), (50, 1), (101, 100), (102, 101), (103, 100), (200, 50), (201, 200), (300, 1), (1, 0)]
            .into_iter()
            .find_map(|(child, parent)| (child == pid).then_some(parent))
    }

    fn role_of(pid: i32, uid: u32) -> Role {
        let ground = Ground {
            own_pid: ME,
            own_uid: 7,
            is_supervisor: &|pid| pid == 200,
            outside: Role::Operator,
            group: Role::Observer,
            parent: &parent,
        };
        role(Caller { pid, uid }, &ground)
    }

    #[test]
    fn ancestry_comes_before_uid() {
        for (pid, uid, expected) in [
            (101, 7, Role::Agent),
            (102, 0, Role::Agent),
            (103, 7, Role::Agent),
            (999, 7, Role::Agent),
            (201, 7, Role::Peer),
            (300, 7, Role::Operator),
            (300, 0, Role::Operator),
            (300, 8, Role::Observer),
            (0, 7, Role::Operator),
            (0, 8, Role::Observer),
            (100, 7, Role::Operator),
            (50, 7, Role::Operator),
        ] {
            assert_eq!(role_of(pid, uid), expected, "pid {pid} uid {uid}");
        }
    }

    #[test]
    fn what_each_role_may_not() {
        for method in [
            "restart",
            "stop",
            "inject",
            "send",
            "pause",
            "resume",
            "interrupt",
            "attach",
            "resize",
            "detach",
            "trigger.cancel",
            "thread.unblock",
            "child.add",
            "child.remove",
            "child.start",
            "child.stop",
            "child.restart",
        ] {
            for role in [Role::Agent, Role::Peer, Role::Observer] {
                assert!(!role.may(method), "{role:?} {method}");
            }
            assert!(Role::Operator.may(method));
        }
        // It only shows what `state` shows of each.
        assert!([Role::Agent, Role::Peer, Role::Observer].iter().all(|role| role.may("tree")));
        for method in ["screen", "logs", "transcript"] {
            assert!(Role::Observer.may(method) && !Role::Agent.may(method) && !Role::Peer.may(method));
        }
        for method in ["heartbeat", "ack", "progress", "claim"] {
            assert!(Role::Agent.may(method) && !Role::Peer.may(method) && !Role::Observer.may(method));
        }
        assert!(Role::Peer.may("trigger") && !Role::Agent.may("trigger") && !Role::Observer.may("trigger"));
        assert!(Role::Agent.may("hook") && !Role::Observer.may("hook") && !Role::Peer.may("hook"));
        assert!(Role::Agent.may("state") && Role::Peer.may("state") && Role::Observer.may("events"));
    }
}
