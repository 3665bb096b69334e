//! `agentsup ls --tree`: nodes with their children below them, as each node tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::look::{Colour, Look, cut_end, span};
use super::ls::{PATIENCE, Row};
use crate::cli::explain::text::visible;
use crate::control::client::many::ask_all;
use crate::control::protocol::{Call, Child, Node};
use crate::session::StateDir;

/// Of one place: its live sessions, and what those of them that are nodes say.
pub struct Forest {
    rows: BTreeMap<(PathBuf, String), Row>,
    nodes: BTreeMap<(PathBuf, String), Node>,
}

/// Name, state, pid, restarts, and the rest.
type Line = [String; 5];
const HEADS: [&str; 5] = ["NAME", "STATE", "PID", "RESTARTS", "WHAT"];
const STATE: usize = 1;
/// What a shortened name keeps at least. The rest goes first: by its name a child is asked for.
const LEAST: usize = 16;

impl Forest {
    pub fn ask(rows: Vec<Row>, dirs: &[StateDir]) -> Forest {
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.live() != Some(false)).collect();
        let place =
            |row: &Row| dirs.iter().find(|dir| dir.path == row.dir()).map(|dir| dir.socket(row.session()));
        let sockets: Vec<PathBuf> = rows.iter().filter_map(place).collect();
        let answers = ask_all::<Node>(&sockets, &Call::Tree, PATIENCE);
        let key = |row: &Row| (row.dir().to_owned(), row.session().to_owned());
        let nodes =
            rows.iter().map(key).zip(answers).filter_map(|(key, node)| Some((key, node.ok()?))).collect();
        Forest { rows: rows.into_iter().map(|row| (key(&row), row)).collect(), nodes }
    }

    #[cfg(test)]
    pub fn of(rows: Vec<Row>, nodes: Vec<Node>) -> Forest {
        let dir = rows[0].dir().to_owned();
        let nodes = nodes.into_iter().map(|node| ((dir.clone(), node.session.clone()), node)).collect();
        Forest {
            rows: rows.into_iter().map(|row| ((dir.clone(), row.session().to_owned()), row)).collect(),
            nodes,
        }
    }

    /// Those that no node speaks of.
    fn roots(&self) -> Vec<&(PathBuf, String)> {
        let below: BTreeSet<(PathBuf, String)> = self
            .nodes
            .iter()
            .flat_map(|((dir, _), node)| {
                node.children.iter().map(|child| (dir.clone(), child.session.clone()))
            })
            .collect();
        self.rows.keys().filter(|key| !below.contains(key)).collect()
    }

    pub fn text(&self, look: Look) -> String {
        let mut lines = vec![HEADS.map(str::to_owned)];
        for (dir, session) in self.roots() {
            self.add_root(dir, session, &mut lines);
        }
        match lines.len() {
            1 => "no sessions\n".to_owned(),
            _ => table(&mut lines, look),
        }
    }

    fn add_root(&self, dir: &PathBuf, session: &str, lines: &mut Vec<Line>) {
        let key = (dir.clone(), session.to_owned());
        let Some(row) = self.rows.get(&key) else { return };
        let restarts = row.restarts().map_or("-".to_owned(), |n| n.to_string());
        let state = row.phase().unwrap_or("unknown").to_owned();
        match self.nodes.get(&key) {
            Some(node) => {
                lines.push([
                    session.to_owned(),
                    state,
                    "-".into(),
                    node.recent_restarts.to_string(),
                    in_short(node),
                ]);
                self.add_children(dir, node, "", lines);
            }
            None => lines.push([session.to_owned(), state, pid(row.pid()), restarts, doing(row)]),
        }
    }

    fn add_children(&self, dir: &PathBuf, node: &Node, indent: &str, lines: &mut Vec<Line>) {
        for (nth, child) in node.children.iter().enumerate() {
            let is_last = nth + 1 == node.children.len();
            let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let key = (dir.clone(), child.session.clone());
            let nested = self.nodes.get(&key);
            let what = match (nested, self.rows.get(&key)) {
                (Some(node), _) => in_short(node),
                (None, Some(row)) => doing(row),
                (None, None) => gone(child),
            };
            let name = format!("{indent}{branch}{}", visible(&child.child));
            // Its supervisor is ready for as long as it lives; what its agent does is said by nobody else.
            let own = self.rows.get(&key).and_then(Row::phase).filter(|_| child.state == "ready");
            let state = own.filter(|phase| *phase != "running").unwrap_or(&child.state);
            lines.push([name, visible(state), pid(child.pid), child.restarts.to_string(), what]);
            if let Some(nested) = nested {
                self.add_children(dir, nested, &format!("{indent}{below}"), lines);
            }
        }
    }

    pub fn json(&self) -> Value {
        let trees = self.roots().into_iter().map(|(dir, session)| self.tree_json(dir, session));
        trees.collect()
    }

    fn tree_json(&self, dir: &PathBuf, session: &str) -> Value {
        let key = (dir.clone(), session.to_owned());
        let mut value = json!({"session": session, "state": self.rows.get(&key)});
        if let Some(node) = self.nodes.get(&key) {
            value["node"] = json!(node);
            let children = node.children.iter().map(|child| {
                let mut below = self.tree_json(dir, &child.session);
                below["child"] = json!(child);
                below
            });
            value["children"] = children.collect();
        }
        value
    }
}

fn in_short(node: &Node) -> String {
    let ready = node.children.iter().filter(|child| child.state == "ready").count();
    let gone = match (node.done, node.failed) {
        (0, 0) => String::new(),
        (done, 0) => format!(", {done} done"),
        (done, failed) => format!(", {done} done, {failed} failed"),
    };
    format!("{}, {ready} of {} ready{gone}", visible(&node.strategy), node.children.len())
}

fn doing(row: &Row) -> String {
    if let Some(phase) = row.phase().filter(|phase| *phase != "running") {
        let restarts = row.restarts().map_or(String::new(), |n| format!(", restart {} of its own", n + 1));
        let next = if phase == "backoff" { restarts } else { String::new() };
        return format!("agent, {}{next}", visible(row.health()));
    }
    let up = row.uptime().map_or(String::new(), |ms| format!(", up {}", span(Duration::from_millis(ms))));
    format!("agent, {}{up}", visible(row.activity().unwrap_or("unknown")))
}

fn gone(child: &Child) -> String {
    if let Some(why) = &child.why {
        return format!("{}, {}", visible(&child.kind), visible(why));
    }
    let wait = child.in_ms.map(|ms| format!(", again in {}", span(Duration::from_millis(ms))));
    let exit = child.last_exit.map(|code| format!(", last exit {code}"));
    format!("{}{}{}", visible(&child.kind), exit.unwrap_or_default(), wait.unwrap_or_default())
}

fn pid(pid: Option<i32>) -> String {
    pid.map_or("-".to_owned(), |pid| pid.to_string())
}

fn table(lines: &mut [Line], look: Look) -> String {
    let width_of = |lines: &[Line], column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    if let Some(width) = look.width {
        let last = HEADS.len() - 1;
        let name = width_of(lines, 0);
        let between: usize = (1..last).map(|column| width_of(lines, column) + 1).sum::<usize>() + 1;
        let room = width.saturating_sub(between + HEADS[last].len());
        let kept = name.min(room.max(LEAST));
        lines.iter_mut().for_each(|line| line[0] = cut_end(&line[0], kept));
        let rest = between + kept;
        lines.iter_mut().for_each(|line| line[last] = cut_end(&line[last], width.saturating_sub(rest)));
    }
    let widths: Vec<usize> = (0..HEADS.len()).map(|column| width_of(lines, column)).collect();
    let mut out = String::new();
    for (nth, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let padded = format!("{cell:<width$}", width = widths[column]);
            let colour = (nth > 0 && column == STATE).then(|| colour(cell)).flatten();
            text += &look.paint(colour, &padded);
            text.push(' ');
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

fn colour(state: &str) -> Option<Colour> {
    match state {
        "ready" | "running" => Some(Colour::Green),
        "backoff" | "starting" | "queued" | "clearing" | "stopping" => Some(Colour::Yellow),
        "refused" | "blocked" | "halted" => Some(Colour::Red),
        "ended" | "stopped" => Some(Colour::Dim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(id: &str, session: &str, state: &str, pid: Option<i32>) -> Child {
        Child {
            child: id.into(),
            session: session.into(),
            kind: "agent".into(),
            state: state.into(),
            pid,
            last_exit: (state == "backoff").then_some(137),
            in_ms: (state == "backoff").then_some(4000),
            ..Child::default()
        }
    }

    fn forest() -> Forest {
        let rows = ["team", "team.lead", "team.pool", "team.pool.drone-1", "alone"];
        let root = Node {
            session: "team".into(),
            strategy: "one_for_one".into(),
            children: vec![
                child("lead", "team.lead", "ready", Some(12)),
                child("pool", "team.pool", "ready", Some(13)),
                child("worker", "team.worker", "backoff", None),
            ],
            ..Node::default()
        };
        let pool = Node {
            session: "team.pool".into(),
            strategy: "pool".into(),
            done: 7,
            children: vec![child("drone-1", "team.pool.drone-1", "ready", Some(4_194_304))],
            ..Node::default()
        };
        Forest::of(rows.map(Row::named).to_vec(), vec![root, pool])
    }

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let text = forest().text(Look { colours: false, width: None });
        let expected = "\
NAME          STATE   PID     RESTARTS WHAT
alone         running -       -        agent, unknown
team          running -       0        one_for_one, 2 of 3 ready
├─ lead       ready   12      0        agent, unknown
├─ pool       ready   13      0        pool, 1 of 1 ready, 7 done
│  └─ drone-1 ready   4194304 0        agent, unknown
└─ worker     backoff -       0        agent, last exit 137, again in 4s
";
        assert_eq!(text, expected);
    }

    /// Its supervisor is ready all the while.
    #[test]
    fn an_agent_that_waits_for_its_next_start_is_shown_as_ls_has_it() {
        let mut forest = forest();
        let lead = forest.rows.values_mut().find(|row| row.session() == "team.lead").unwrap();
        *lead = Row::waiting("team.lead", 3);
        let text = forest.text(Look { colours: false, width: None });
        assert!(
            text.contains("├─ lead       backoff 12      0        agent, degraded, restart 4 of its own\n"),
            "{text}"
        );
    }

    #[test]
    fn it_fits_a_terminal_whatever_the_names() {
        let mut forest = forest();
        for node in forest.nodes.values_mut() {
            node.children[0].child = "n".repeat(32);
        }
        for width in [80, 60] {
            let text = forest.text(Look { colours: false, width: Some(width) });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("…"), "{text}");
        }
    }
    /// It is the ids that the other verbs are told.
    #[test]
    fn a_long_reason_takes_no_room_from_the_names() {
        let mut forest = forest();
        let root = forest.nodes.values_mut().find(|node| node.session == "team").unwrap();
        root.children[0].child = "lead-of-all-the-others".into();
        root.children[2].why = Some("exec failed: ".repeat(20));
        for (width, name) in [(80, "├─ lead-of-all-the-others ready"), (48, "├─ lead-of-all-th… ready")]
        {
            let text = forest.text(Look { colours: false, width: Some(width) });
            assert!(text.contains(name), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }
}
