//! What a file says, for `agentsup tree --check`.

use super::child::{Child, Kind};
use super::file::Plan;
use crate::cli::duration;
use crate::cli::explain::text::visible;
use crate::cli::names::Named;
use crate::policy::tree::Strategy;

pub fn text(plan: &Plan) -> String {
    let mut text = String::new();
    node(plan, 0, &mut text);
    // What the node itself says when it stops.
    let longest = duration::show(plan.grace());
    let agents = match plan.agents() {
        1 => "1 agent".to_owned(),
        n => format!("{n} agents"),
    };
    text += &format!("{agents}; a stop takes {longest} at most\n");
    text
}

fn node(plan: &Plan, depth: usize, text: &mut String) {
    let rules = &plan.rules;
    let (name, window) = (Named::name(rules.strategy), duration::show(rules.max_seconds));
    let pool = match rules.strategy {
        Strategy::Pool => format!(", {} at first", plan.size),
        Strategy::OneForOne | Strategy::OneForAll | Strategy::RestForOne => String::new(),
    };
    let indent = "  ".repeat(depth);
    *text += &format!(
        "{indent}{} ({}): {name}{pool}, {} restarts in {window}\n",
        plan.session,
        plan.path.display(),
        rules.max_restarts
    );
    for child in &plan.children {
        *text += &line(child, depth + 1);
        if let Kind::Node(plan) = &child.kind {
            node(plan, depth + 2, text);
        }
    }
}

fn line(child: &Child, depth: usize) -> String {
    let spec = &child.spec;
    let what = match &child.kind {
        Kind::Agent { command, .. } => visible(&command.join(" ")),
        Kind::Node(_) => "node".to_owned(),
    };
    let preset = child.preset.map_or(String::new(), |preset| format!(", {}", Named::name(preset)));
    let needs =
        if spec.needs.is_empty() { String::new() } else { format!(", needs {}", spec.needs.join(" ")) };
    let (keep, shutdown) = (Named::name(spec.keep), duration::show(spec.shutdown));
    let indent = "  ".repeat(depth);
    format!("{indent}{}: {what} ({keep}{preset}{needs}, shutdown {shutdown})\n", spec.id)
}
