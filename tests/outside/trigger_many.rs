//! Many triggers: those that arrive, and those that may not.

use std::collections::BTreeSet;

use crate::support::bridge::{PATIENT, claude, prompts, stop, until_prompts, up};
use crate::support::{Caller, Lab, count, log, procfs};
use serde_json::{Value, json};

/// Connections at once.
const CALLERS: usize = 8;

fn resident_kib(pid: i32) -> u64 {
    let text = procfs::status(pid, "VmRSS").expect("it lives");
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// What a caller of a flood was told.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<String>,
    refused: usize,
}

fn flood(lab: &Lab, caller: usize, each: usize) -> Told {
    let mut connection = Caller::of(lab);
    let mut told = Told::default();
    for batch in (0..each).step_by(100) {
        for n in batch..(batch + 100).min(each) {
            let id = format!("{caller}-{n}");
            let params = json!({"thread": format!("t{}", n % 3), "trigger_id": id, "text": "x".repeat(2000), "wait": false});
            connection.send(&json!({"id": id, "method": "trigger", "params": params}));
        }
        for n in batch..(batch + 100).min(each) {
            let reply = connection.receive().expect("an answer");
            assert_eq!(reply["id"], format!("{caller}-{n}"), "each is answered, in order");
            match reply["ok"].as_bool().unwrap() {
                true => drop(told.accepted.insert(reply["trigger_id"].as_str().unwrap().to_owned())),
                false => {
                    assert_eq!(reply["error"]["code"], "TRIGGER_RATE_LIMITED", "{reply}");
                    told.refused += 1;
                }
            }
        }
    }
    told
}

#[test]
fn ten_thousand_at_once_are_limited_counted_and_what_was_accepted_arrives() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, ""), &lab);
    let before = resident_kib(sup.pid());
    let told = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..CALLERS)
            .map(|n| {
                scope.spawn({
                    let lab = &lab;
                    move || flood(lab, n, 10_000 / CALLERS)
                })
            })
            .collect();
        floods.into_iter().map(|it| it.join().unwrap()).fold(Told::default(), |mut all, one| {
            all.accepted.extend(one.accepted);
            all.refused += one.refused;
            all
        })
    });
    let after = resident_kib(sup.pid());
    assert_eq!(told.accepted.len(), 3 * 6, "six a minute for each thread");
    assert_eq!(told.refused, 10_000 - 3 * 6);
    assert!(after < before + 8 * 1024, "{before} KiB, then {after}");
    for id in &told.accepted {
        let n: usize = id.split_once('-').unwrap().1.parse().unwrap();
        let params = json!({"thread": format!("t{}", n % 3), "trigger_id": id, "text": "x".repeat(2000)});
        assert_eq!(caller.get("trigger", params)["state"], "delivered");
    }
    assert_eq!(until_prompts(&lab, told.accepted.len()).len(), told.accepted.len());
    // Each refusal is in the log, and all of them together do not fill it.
    let log = sup.log.clone();
    stop(sup, &mut caller);
    let refused = log.events("trigger_refused");
    let more: usize = refused.iter().filter_map(|line| log::field(line, "more")?.parse::<usize>().ok()).sum();
    let first = refused.iter().filter(|line| log::field(line, "more").is_none()).count();
    assert_eq!(first + more, told.refused);
    assert!(log.text().len() < 64 * 1024, "{} lines", log.lines().len());
    assert!(
        refused[0].contains("error=TRIGGER_RATE_LIMITED") && refused[0].contains("trigger_id="),
        "{refused:?}"
    );
}

/// An agent swallows an Enter that comes within 120 ms of a burst, and redraws with every key. Several
/// of them at once, because what takes the time is waiting.
#[test]
fn nearly_all_of_many_arrive_and_none_twice() {
    const AGENTS: usize = 4;
    let each = count(3, 250);
    let delivered: usize = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS).map(|_| scope.spawn(move || deliver(each))).collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).sum()
    });
    let total = each * AGENTS;
    assert!(delivered * 1000 >= total * 999, "{delivered} of {total}");
}

fn deliver(total: usize) -> usize {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let mut delivered = 0;
    for n in 0..total {
        let text = format!("do\n{n}\n{}", "and more ".repeat(n % 300));
        let reply: Value =
            caller.ask("trigger", json!({"thread": "many", "trigger_id": n.to_string(), "text": text}));
        delivered += usize::from(reply["state"] == "delivered");
    }
    until_prompts(&lab, delivered);
    let prompts = prompts(&lab);
    for n in 0..total {
        let own = prompts.iter().filter(|p| p.contains(&format!("id={n} thread="))).count();
        assert!(own <= 1, "{n} came {own} times");
    }
    assert!(prompts.iter().all(|prompt| prompt.matches("[BRIDGE_TRIGGER").count() == 1), "one a prompt");
    stop(sup, &mut caller);
    delivered
}
