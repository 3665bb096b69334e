//! What callers ask for, and what agents say of themselves.

use serde_json::{Value, json};

use super::World;

const THREADS: [&str; 3] = ["build", "review", "deploy"];
const IDS: [&str; 6] = ["t1", "t2", "t3", "t4", "t5", "t6"];

impl World {
    /// What operators, observers and scripts ask for.
    pub fn callers_words(&mut self) -> (&'static str, Value) {
        let rng = &mut self.rng;
        let thread = *rng.pick(&THREADS);
        let id = *rng.pick(&IDS);
        let yes = rng.once_in(2);
        match rng.below(64) {
            0..14 => ("state", json!({"why": yes})),
            14 | 15 => ("ping", json!({})),
            16 => ("pid", json!({})),
            17..20 => ("restart", json!({"mode": if yes { "fresh" } else { "continue" }})),
            20 => ("interrupt", json!({})),
            21 => ("pause", json!({})),
            22..26 => ("resume", json!({})),
            26 => ("inject", json!({"bytes": "aGVsbG8N"})),
            27..31 => ("send", json!({"text": "do this", "submit": yes, "force": rng.once_in(4)})),
            31..40 => {
                let force = rng.once_in(4);
                let why = force.then_some("it matters");
                let id = if rng.once_in(3) { None } else { Some(format!("{id}-{}", rng.below(40))) };
                let text = *rng.pick(&["look at this", "look at that"]);
                let mut params = json!({"thread": thread, "text": text, "force": force, "wait": yes});
                if let Some(id) = id {
                    params["trigger_id"] = id.into();
                }
                if let Some(why) = why {
                    params["why"] = why.into();
                }
                ("trigger", params)
            }
            40 => ("trigger.list", json!({})),
            41 => ("trigger.status", json!({"trigger_id": id})),
            42 => ("trigger.cancel", json!({"trigger_id": format!("{id}-{}", rng.below(40))})),
            43 => ("thread.unblock", json!({"thread": thread})),
            44 => ("permission.list", json!({})),
            45 | 46 => ("permission.respond", json!({"allow": yes})),
            47 => ("question.list", json!({})),
            48 => ("question.respond", json!({"answer": "yes"})),
            49 => ("screen", json!({"ansi": yes})),
            50 => ("events", json!({"follow": yes})),
            51 => ("logs", json!({"lines": 5, "follow": yes})),
            52 => ("transcript", json!({"lines": 5, "follow": yes})),
            53..58 => {
                let what = *rng.pick(&["ready", "idle", "exit", "halted"]);
                ("wait", json!({"for": what, "timeout_ms": rng.below(100_000)}))
            }
            58 => ("stats", json!({})),
            59 => ("metrics", json!({})),
            60 => ("attach", json!({"rows": 24, "cols": 80, "readonly": yes, "hint": yes})),
            61 => ("resize", json!({"rows": 30, "cols": 90})),
            62 => ("detach", json!({})),
            _ if rng.once_in(12) => ("stop", json!({"graceful": yes})),
            _ => ("state", json!({"deep": true})),
        }
    }

    /// What an agent, or somebody that it started, says.
    pub fn agents_words(&mut self) -> (&'static str, Value) {
        let rng = &mut self.rng;
        let thread = *rng.pick(&THREADS);
        match rng.below(20) {
            0..4 => {
                let event = *rng.pick(&[
                    "SessionStart",
                    "PreToolUse",
                    "PostToolUse",
                    "PostToolUseFailure",
                    "Notification",
                    "PermissionRequest",
                    "Stop",
                    "Other",
                ]);
                ("hook", json!({"event": event, "tool": "Bash", "tool_use_id": "u1", "key": "k1"}))
            }
            4 => {
                ("hook", json!({"event": "StopFailure", "error": "rate_limit", "text": "limit - resets 3pm"}))
            }
            5 => ("hook", json!({"event": "Stop"})),
            6 => ("hook", json!({"event": "UserPromptSubmit", "prompt": "do this"})),
            7..10 => ("permission.request", json!({"tool": "Bash", "input": {"command": "ls"}, "key": "k1"})),
            10 => ("question.request", json!({"text": "which one?", "choices": ["yes", "no"]})),
            11 => ("ack", json!({"thread": thread})),
            12 => ("progress", json!({"thread": thread, "finding": "the same"})),
            13 | 14 => ("heartbeat", json!({})),
            15 => ("idle", json!({})),
            16 => ("done", json!({"text": "all of it"})),
            17 => ("describe", json!({"text": "it builds"})),
            // Not for agents.
            18 => ("restart", json!({})),
            _ => ("state", json!({})),
        }
    }
}
