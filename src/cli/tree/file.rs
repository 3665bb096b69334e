//! The file of a node: `[node]`, its `[[child]]`ren, and what a config file has for a supervisor itself
//! (`[halt]`, `[access]`, `[log]`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::carve::Carved;
use super::child::{self, Child, Kind};
use super::source::{self, Source, Table, Value, wrong};
use crate::cli::Failure;
use crate::cli::config::{self, Config};
use crate::cli::names::Named;
use crate::policy::tree::{Keep, OrderError, Rules, Strategy, Tree, order};
use crate::session::id;

/// `[node]` has these for the node's own socket, beside those of a node.
const OF_RUN: [&str; 3] = ["label", "socket_mode", "socket_group"];
const TABLES: [&str; 3] = ["halt", "access", "log"];
/// A node in a node in a node …
const DEEPEST: usize = 16;
/// As `id::check` has it.
const LONGEST_SESSION: usize = 64;
/// For what its children left behind, when all of them are gone.
const TO_SWEEP: Duration = Duration::from_secs(4);

impl Named for Strategy {
    const NAMES: &'static [(&'static str, Strategy)] = &[
        ("one_for_one", Strategy::OneForOne),
        ("one_for_all", Strategy::OneForAll),
        ("rest_for_one", Strategy::RestForOne),
        ("pool", Strategy::Pool),
    ];
}

impl Named for Keep {
    const NAMES: &'static [(&'static str, Keep)] =
        &[("permanent", Keep::Permanent), ("transient", Keep::Transient), ("temporary", Keep::Temporary)];
}

/// Where in a tree a file is read.
pub struct Origin {
    /// Of the node, when it is known: of a root `--session`.
    pub session: Option<String>,
    /// `$AGENTSUP_SESSION`, where the root's file names none.
    from_env: Option<String>,
    /// The files above, canonical.
    above: Vec<PathBuf>,
}

impl Origin {
    pub fn root(session: Option<String>) -> Origin {
        Origin { session, from_env: None, above: vec![] }
    }

    pub fn or_env(self, from_env: Option<String>) -> Origin {
        Origin { from_env, ..self }
    }

    pub fn below(&self, id: &str, path: &Path) -> Result<Origin, String> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.above.contains(&path) {
            return Err(format!("`file`: {} is above itself; expected another file", path.display()));
        }
        if self.above.len() >= DEEPEST {
            return Err(format!("`file`: more than {DEEPEST} nodes in one another; expected fewer"));
        }
        let session = self.session.as_ref().map(|session| format!("{session}.{id}"));
        if let Some(session) = session.as_ref().filter(|session| session.len() > LONGEST_SESSION) {
            return Err(too_long(session, session.len()));
        }
        Ok(Origin { session, from_env: None, above: self.above.iter().cloned().chain([path]).collect() })
    }
}

/// A node as its file has it.
#[derive(Debug)]
pub struct Plan {
    pub path: PathBuf,
    pub session: String,
    pub rules: Rules,
    /// In the order of their start; of a pool the one template.
    pub children: Vec<Child>,
    /// How many a pool begins with.
    pub size: usize,
    /// What it says about the node's own supervisor.
    pub config: Config,
}

impl Plan {
    /// What its supervisor gives a stop: three quarters for all children, the rest for what they left.
    pub fn grace(&self) -> Duration {
        let shutdowns = self.children.iter().map(|child| child.spec.shutdown);
        let whole = Tree::longest_stop(&self.rules, shutdowns).saturating_mul(4) / 3;
        // Whole seconds: people read it, and it is the sum of what is below.
        Duration::from_secs(whole.as_secs().saturating_add(1)).saturating_add(TO_SWEEP)
    }

    /// What a stop, or a start after a kill, gives to all that is left of its children.
    pub fn leftovers(&self) -> Duration {
        self.children.iter().map(|child| child.spec.leftovers).max().unwrap_or_default()
    }

    /// Of all nodes below too.
    pub fn agents(&self) -> usize {
        let of = |child: &Child| match &child.kind {
            Kind::Agent { .. } if self.rules.strategy == Strategy::Pool => self.size,
            Kind::Agent { .. } => 1,
            Kind::Node(plan) => plan.agents(),
        };
        self.children.iter().map(of).sum()
    }
}

pub fn load(path: &Path, origin: &Origin) -> Result<Plan, Failure> {
    let text =
        source::read(path).map_err(|why| Failure::refused(format!("tree file {}: {why}", path.display())))?;
    parse(path, &text, origin)
}

pub fn parse(path: &Path, text: &str, origin: &Origin) -> Result<Plan, Failure> {
    let source = Source { path, text };
    let parsed = source.parse()?;
    let mut top = Table::new(source, 0, parsed.get_ref());
    let empty = Spanned::new(0..0, DeValue::Table(DeTable::new()));
    let node = top.find("node").unwrap_or(&empty);
    let children = top.find("child");
    top.done(&TABLES)?;

    let mut node = Table::of(source, node, "a table [node]")?;
    let named = node.text("session")?;
    let rules = rules(&mut node)?;
    let size = node.count("size", 0, 1000)?;
    node.done(&OF_RUN)?;
    if rules.strategy != Strategy::Pool
        && let Some(key) = ["size", "max_children"].iter().find(|key| node.place(key) != node.at)
    {
        return Err(source.refuse(
            node.place(key),
            format!("`{key}` is for a pool; expected strategy = \"pool\" with it"),
        ));
    }
    if size.is_some_and(|size| size > rules.max_children) {
        let why =
            format!("`size`: more than max_children = {}; expected so many at most", rules.max_children);
        return Err(source.refuse(node.place("size"), why));
    }
    if rules.max_seconds.is_zero() {
        let why = "`max_seconds`: within no time there is never one too many; expected more than 0";
        return Err(source.refuse(node.place("max_seconds"), why));
    }
    let session = session(source, origin, named, node.place("session"))?;
    let origin = Origin { session: Some(session.clone()), from_env: None, above: origin.above_with(path) };
    let config = own_config(source, parsed.get_ref())?;

    let children = read_children(source, children, &origin)?;
    check_children(source, &rules, &children, &session)?;
    let children = in_order(source, children)?;
    Ok(Plan { path: path.to_owned(), session, rules, children, size: size.unwrap_or(0), config })
}

impl Origin {
    fn above_with(&self, path: &Path) -> Vec<PathBuf> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut above = self.above.clone();
        if !above.contains(&path) {
            above.push(path);
        }
        above
    }
}

/// A bad id is an error of its source, never a reason to try the next.
fn session(source: Source, origin: &Origin, named: Option<String>, at: usize) -> Result<String, Failure> {
    let check = |id: String, refuse: &dyn Fn(String) -> Failure| match id::check(&id) {
        Ok(()) => Ok(id),
        Err(why) => Err(refuse(why)),
    };
    let Origin { session, from_env, .. } = origin;
    match (session.clone(), named, from_env.clone()) {
        // Of a node below it is its parent's and an id.
        (Some(id), _, _) => check(id, &|why| Failure::refused(format!("--session: {why}"))),
        (None, Some(id), _) => check(id, &|why| source.refuse(at, format!("`session`: {why}"))),
        (None, None, Some(id)) => check(id, &|why| Failure::refused(format!("$AGENTSUP_SESSION: {why}"))),
        (None, None, None) => {
            let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            check(stem.unwrap_or_default(), &|why| {
                Failure::refused(format!(
                    "tree file {}: its name gives the session, and {why}; give another with --session, or as \
                     `session` in [node]",
                    source.path.display()
                ))
            })
        }
    }
}

fn rules(node: &mut Table) -> Result<Rules, Failure> {
    let usual = Rules::default();
    let max_restarts = node.count("max_restarts", 0, 1_000_000)?;
    Ok(Rules {
        strategy: node.choice("strategy")?.unwrap_or(usual.strategy),
        max_restarts: max_restarts.map_or(usual.max_restarts, |count| count as u32),
        max_seconds: node.duration("max_seconds")?.unwrap_or(usual.max_seconds),
        wait: node.duration("wait")?.unwrap_or(usual.wait),
        max_wait: node.duration("max_wait")?.unwrap_or(usual.max_wait),
        max_children: node.count("max_children", 1, 10_000)?.unwrap_or(usual.max_children),
    })
}

/// What `config` knows of the node's own supervisor.
fn own_config(source: Source, top: &DeTable) -> Result<Config, Failure> {
    let mut node = DeTable::new();
    let mut at = 0;
    for (key, value) in top {
        match (&**key.get_ref(), value.get_ref()) {
            ("node", DeValue::Table(keys)) => {
                at = value.span().start;
                let of_run = keys.iter().filter(|(key, _)| OF_RUN.contains(&&**key.get_ref()));
                node.extend(of_run.map(|(key, value)| (key.clone(), value.clone())));
            }
            (section, _) if TABLES.contains(&section) => {
                node.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    let cut = Carved::new(source).carve(&node, at, |_| false, &[]);
    config::parse_cut(source.path, &cut.text, |line| cut.line(line))
}

fn read_children<'a>(
    source: Source<'a>,
    value: Option<&Value<'a>>,
    origin: &Origin,
) -> Result<Vec<Child>, Failure> {
    let Some(value) = value else {
        return Err(source.refuse(0, "there is no [[child]]; expected one or more"));
    };
    let DeValue::Array(list) = value.get_ref() else {
        return Err(source.refuse(value.span().start, wrong(value.get_ref(), "tables [[child]]")));
    };
    if list.is_empty() {
        return Err(source.refuse(value.span().start, "`child` is empty; expected one or more [[child]]"));
    }
    list.iter().map(|value| child::read(source, value, origin)).collect()
}

fn check_children(source: Source, rules: &Rules, children: &[Child], session: &str) -> Result<(), Failure> {
    if let (Strategy::Pool, [_, second, ..]) = (rules.strategy, children) {
        let why = "a pool has one [[child]], the template of all; expected no second one";
        return Err(source.refuse(second.at, why));
    }
    for (nth, child) in children.iter().enumerate() {
        let id = &child.spec.id;
        if let Some(earlier) = children[..nth].iter().find(|other| other.spec.id == *id) {
            let line = source.line(earlier.at);
            return Err(source.refuse(
                child.at,
                format!("the id `{id}` is given twice, first in line {line}; expected another"),
            ));
        }
        if let (Strategy::Pool, Kind::Node(_)) = (rules.strategy, &child.kind) {
            return Err(source.refuse(child.at, "a pool is of agents; expected `command` instead of `file`"));
        }
        // Those of a pool have a number behind their id.
        let longest = session.len() + 1 + id.len() + if rules.strategy == Strategy::Pool { 8 } else { 0 };
        if longest > LONGEST_SESSION {
            return Err(source.refuse(child.at, too_long(&format!("{session}.{id}"), longest)));
        }
    }
    Ok(())
}

fn too_long(session: &str, bytes: usize) -> String {
    format!("the session `{session}` would be {bytes} bytes long; expected {LONGEST_SESSION} at most")
}

fn in_order(source: Source, children: Vec<Child>) -> Result<Vec<Child>, Failure> {
    let pairs: Vec<(&str, &[String])> =
        children.iter().map(|child| (child.spec.id.as_str(), child.spec.needs.as_slice())).collect();
    let order = order(&pairs).map_err(|error| match error {
        OrderError::Cycle(path) => {
            let first = children.iter().find(|child| child.spec.id == path[0]);
            let at = first.map_or(0, |child| child.needs_at);
            source.refuse(at, format!("`needs` leads in a circle: {}; expected an end", path.join(" → ")))
        }
        OrderError::Unknown { of, need } => {
            let why = format!("`needs`: there is no child `{need}`; expected one of this file");
            source.refuse(children[of].needs_at, why)
        }
    })?;
    let mut children: Vec<Option<Child>> = children.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| children[at].take()).collect())
}
