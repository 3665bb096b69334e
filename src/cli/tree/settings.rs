//! From a plan to what the node's supervisor has to know.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::child::{Child, Kind};
use super::file::Plan;
use super::word;
use crate::cli::Failure;
use crate::cli::args;
use crate::cli::asked::{self, Asked};
use crate::cli::ground::Ground;
use crate::cli::settings::{Origins, settle};
use crate::cli::world::World;
use crate::policy::crash::{OnClean, OnHalt, Restart};
use crate::policy::tree::Strategy;
use crate::session::SessionId;
use crate::supervisor::settings::{ChildKind, ChildSettings, Io, NodeSettings};

/// True of the node alone: who started it is told by it, and each child has its own.
const OF_THE_NODE: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "AGENTSUP_SESSION",
    "AGENTSUP_CONFIG",
    "AGENTSUP_SOCKET",
    "AGENTSUP_DIR",
];

/// The children of a node that goes on do so too; those of a pool have a number, and are new ones.
const OF_OTHERS_THAN_A_POOL: &str = "AGENTSUP_CHILD_AGAIN";

pub fn flags(verb: args::Tree) -> Result<Asked, Failure> {
    Ok(Asked {
        session: word("--session", verb.session)?,
        dir: verb.dir.map(|word| asked::path("--dir", word)).transpose()?,
        ready_fd: verb.ready_fd.map(|word| asked::read("--ready-fd", word, asked::descriptor)).transpose()?,
        // A node has no agent of its own whose end could be answered otherwise.
        io: Some(Io::Inherit),
        restart: Some(Restart::OnFailure),
        on_clean: Some(OnClean::Exit),
        on_halt: Some(OnHalt::Exit),
        ..Asked::default()
    })
}

pub fn session_from(world: &World) -> Option<String> {
    world.var("AGENTSUP_SESSION").map(|id| id.to_string_lossy().into_owned())
}

pub fn ground(plan: Plan, mut flags: Asked, world: &World) -> Result<Ground, Failure> {
    let grace = plan.grace();
    flags.grace = Some(grace);
    let session = SessionId { id: plan.session.clone(), source: "tree" };
    let node = node(&plan, world)?;
    let mut choices =
        settle(vec!["agentsup".into()], flags, Some(plan.config), world.stdin, Origins::OfFiles)?;
    choices.command = vec![];
    // One end is one too many: what may be tried again, the node itself has tried.
    choices.crash.halt_after = 1;
    Ground::of_node(choices, session, node, world)
}

fn node(plan: &Plan, world: &World) -> Result<NodeSettings, Failure> {
    // One that has been replaced since it was started is still to be had there.
    let programs = world.own_binary.iter().map(PathBuf::as_path).chain([Path::new("/proc/self/exe")]);
    let program = programs.into_iter().find(|path| path.exists()).ok_or_else(|| {
        Failure::refused(
            "agentsup cannot find its own program, which each child is; mount /proc, or start it by its whole path",
        )
    })?;
    let path = world.started_in.join(&plan.path);
    let beside = path.parent().unwrap_or(Path::new("/"));
    let child = |child: &Child| ChildSettings {
        spec: child.spec.clone(),
        kind: match &child.kind {
            Kind::Agent { command, config, agent, says_start } => ChildKind::Agent {
                command: command.iter().map(OsString::from).collect(),
                config: config.clone(),
                agent: agent.clone(),
                says_start: *says_start,
            },
            Kind::Node(nested) => ChildKind::Node { file: beside.join(world.started_in.join(&nested.path)) },
        },
        output: child.output.as_ref().map(|output| world.started_in.join(output)),
    };
    let mut children: Vec<ChildSettings> = plan.children.iter().map(child).collect();
    let template = match plan.rules.strategy {
        Strategy::Pool => children.pop(),
        Strategy::OneForOne | Strategy::OneForAll | Strategy::RestForOne => None,
    };
    let is_pool = plan.rules.strategy == Strategy::Pool;
    let is_own = |name: &OsString| {
        OF_THE_NODE.iter().any(|own| name == own) || is_pool && name == OF_OTHERS_THAN_A_POOL
    };
    Ok(NodeSettings {
        rules: plan.rules.clone(),
        children,
        template,
        size: plan.size,
        leftovers: plan.leftovers(),
        program: program.to_owned(),
        env: world.env.iter().filter(|(name, _)| !is_own(name)).cloned().collect(),
        file: path,
    })
}
