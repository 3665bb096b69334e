//! The JSON Schema of requests and replies, made from the types: `docs/protocol.schema.json`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    Ack, Answer, AttachFrame, Child, Claim, Decision, Error, Heard, Id, Injected, Interrupted, METHODS,
    Metrics, Node, PROTOCOL, PermissionList, Pid, Pong, QuestionList, Request, Responded, Screen, Sent,
    State, Stats, Stopped, StreamFrame, Trigger, TriggerList, Waited,
};

/// A document is a request or a reply; `$defs` holds the parts, and `replies.METHOD` what may come
/// back from one method.
pub fn schema() -> Value {
    let mut requests = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut replies = SchemaSettings::draft2020_12().for_serialize().into_generator();
    requests.subschema_for::<Request>();
    let (id, error) = (replies.subschema_for::<Id>(), replies.subschema_for::<Error>());
    let by_method: Vec<(String, Value)> = METHODS
        .iter()
        .map(|method| {
            let answer = json!({"allOf": [reference("Answer"), body_of(method, &mut replies)]});
            (format!("replies.{method}"), json!({"oneOf": [answer, reference("Refusal")]}))
        })
        .collect();
    let any = by_method.iter().map(|(name, _)| reference(name)).collect::<Vec<_>>();

    let mut defs: Map<String, Value> = requests.take_definitions(true);
    close_params(defs.get_mut("Request").expect("it was asked for"));
    for (name, part) in replies.take_definitions(true) {
        let before = defs.insert(name.clone(), part);
        // A type that both sides use must mean the same to both.
        assert!(before.is_none_or(|before| before == defs[&name]), "two schemas for {name}");
    }
    defs.insert(
        "Answer".into(),
        json!({
            "description": "It was done.",
            "type": "object",
            "properties": {"id": id, "ok": {"const": true}},
            "required": ["ok"],
            "not": {"required": ["error"]},
        }),
    );
    defs.insert(
        "Refusal".into(),
        json!({
            "description": "It was not done, and why.",
            "type": "object",
            "properties": {"id": id, "ok": {"const": false}, "error": error},
            "required": ["ok", "error"],
        }),
    );
    defs.extend(by_method);
    defs.insert("Reply".into(), json!({"anyOf": any}));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("agentsup control protocol {PROTOCOL}"),
        "description": "Requests and replies on a supervisor's control socket; docs/protocol.md explains them.",
        "oneOf": [reference("Request"), reference("Reply")],
        "$defs": defs,
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn body_of(method: &str, generator: &mut SchemaGenerator) -> Value {
    fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
    match method {
        "ping" => of::<Pong>(generator),
        "state" => of::<State>(generator),
        "pid" | "restart" | "resume" => of::<Pid>(generator),
        "interrupt" => of::<Interrupted>(generator),
        "hook" => of::<Heard>(generator),
        "pause" | "idle" | "done" | "describe" | "resize" | "detach" | "progress" | "heartbeat"
        | "thread.unblock" => of::<Ack>(generator),
        "trigger" | "trigger.status" | "trigger.cancel" | "ack" => of::<Trigger>(generator),
        "trigger.list" => of::<TriggerList>(generator),
        "permission.request" => of::<Decision>(generator),
        "permission.list" => of::<PermissionList>(generator),
        "question.request" => of::<Answer>(generator),
        "question.list" => of::<QuestionList>(generator),
        "permission.respond" | "question.respond" => of::<Responded>(generator),
        "claim" => of::<Claim>(generator),
        "inject" => of::<Injected>(generator),
        "send" => of::<Sent>(generator),
        "stop" => of::<Stopped>(generator),
        "screen" => of::<Screen>(generator),
        "events" | "logs" | "transcript" => of::<StreamFrame>(generator),
        "attach" => of::<AttachFrame>(generator),
        "wait" => of::<Waited>(generator),
        "stats" => of::<Stats>(generator),
        "metrics" => of::<Metrics>(generator),
        "tree" => of::<Node>(generator),
        "child.add" | "child.remove" | "child.start" | "child.stop" | "child.restart" => {
            of::<Child>(generator)
        }
        _ => panic!("no schema for the reply to `{method}`"),
    }
}

/// What serde's attributes cannot say of a flattened enum: keys beside `params` are free, those
/// within are not, and `params` may be left out when none is needed.
fn close_params(request: &mut Value) {
    let methods = request["oneOf"].as_array_mut().expect("one schema for each method");
    for method in methods {
        let params = method["properties"].get("params").cloned();
        let named = params.as_ref().is_some_and(|params| params.get("$ref").is_some());
        let needed = named || params.as_ref().is_some_and(|params| params.get("required").is_some());
        let mut params = params.unwrap_or_else(|| json!({"type": "object"}));
        // Those of a type of its own are not seen from here by the simpler word.
        let closed = if named { "unevaluatedProperties" } else { "additionalProperties" };
        params[closed] = false.into();
        method["properties"]["params"] = params;
        if !needed {
            method["required"] = json!(["method"]);
        }
    }
}
