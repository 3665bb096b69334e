//! Linux behind small safe functions. Called by `supervisor` (and `cli` for facts about the world);
//! hands back facts, never policy. All `unsafe` of the crate lives here, each with its reason.
//!
//! | module      | what it wraps                                                        |
//! |-------------|----------------------------------------------------------------------|
//! | `inherited` | signal mask and dispositions as they were before Rust's runtime      |
//! | `signals`   | every signal as a wake-up, counted, with who sent it                 |
//! | `mask`      | which signals are blocked                                            |
//! | `wait`      | the one place that reaps                                             |
//! | `spawn`     | fork, the steps in the child, and which of them failed               |
//! | `pty`       | the agent's terminal, seen from the master                           |
//! | `tty`       | the operator's terminal: raw mode, size, foreground group            |
//! | `front`     | in front of that terminal, or stopped until we are                   |
//! | `rescue`    | that terminal, given back on a panic                                 |
//! | `poll`      | sleep until something happens or a deadline passes                   |
//! | `sink`      | writing to an inherited descriptor without ever blocking             |
//! | `procfs`    | who is alive, whose child, whose session                             |
//! | `program`   | what was executed to make us, without /proc                          |
//! | `pidfd`     | waiting for processes that are not our children                      |
//! | `clock`     | clocks that std has not got                                          |
//! | `code`      | the pages of our own code                                            |
//! | `heap`      | memory, in the static binary                                         |
//! | `cgroup`    | the kernel's count of OOM kills                                      |
//! | `freezer`   | a tree that stands still in a cgroup of its own                      |
//! | `lock`      | the file lock that decides who owns a session                        |
//! | `socket`    | Unix sockets: modes, long paths, who is at the other end             |
//! | `inotify`   | being told when files change                                         |
//! | `sched`     | short turns on a busy machine                                        |
//! | `notify`    | telling a service manager                                            |
//! | `random`    | UUIDs                                                                |
//! | `unwind`    | backtraces that end at once                                          |

pub mod cgroup;
pub mod clock;
pub mod code;
pub mod freezer;
pub mod front;
#[cfg(target_env = "musl")]
pub mod heap;
pub mod inherited;
pub mod inotify;
pub mod lock;
pub mod mask;
pub mod notify;
pub mod pidfd;
pub mod poll;
pub mod procfs;
pub mod program;
pub mod pty;
pub mod random;
pub mod rescue;
pub mod sched;
pub mod signals;
pub mod sink;
pub mod socket;
pub mod spawn;
pub mod tty;
mod unwind;
pub mod wait;
