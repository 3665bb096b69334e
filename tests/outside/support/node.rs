//! Nodes and their children, as those who ask them see them.

use std::time::Duration;

use serde_json::{Value, json};

use super::caller::Framing;
use super::log::Log;
use super::{Caller, Lab, eventually, sys};

pub fn child(id: &str, command: &[&str], more: &str) -> String {
    format!("[[child]]\nid = {id:?}\ncommand = {command:?}\n{more}\n")
}

/// Whoever asks that supervisor: the node's, or a child's.
pub fn caller(lab: &Lab, session: &str) -> Caller {
    Caller::at(&lab.state_dir().join("supervisor").join(format!("{session}.sock")), Framing::Lines)
}

pub fn log(lab: &Lab, session: &str) -> Log {
    Log::named(&lab.state_dir(), session)
}

/// Where a child is, by the node's own word.
pub fn state(node: &mut Caller, id: &str) -> Value {
    let tree = node.get("tree", json!({}));
    let found =
        tree["children"].as_array().expect("children").iter().find(|child| child["child"] == id).cloned();
    found.unwrap_or(Value::Null)
}

pub fn until(node: &mut Caller, id: &str, wanted: &str) -> Value {
    let mut seen = Value::Null;
    eventually(&format!("{id} is {wanted}"), || {
        seen = state(node, id);
        seen["state"] == wanted || {
            sys::pause(Duration::from_millis(5));
            false
        }
    });
    seen
}
