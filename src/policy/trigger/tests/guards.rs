//! Limits, and threads that go round in circles.

use super::*;

#[test]
fn a_thread_has_its_rate_and_all_together_ten_times_as_much() {
    let mut life = Life::new();
    life.triggers = Triggers::new(Numbers::default());
    life.has_draft = true;
    let ask = |life: &mut Life, n: u32, thread: &str| {
        life.triggers.ask(Life::asked(&format!("{thread}-{n}"), thread, false), life.time())
    };
    for n in 0..6 {
        assert_eq!(ask(&mut life, n, "t"), Ok(true));
        life.now += Duration::from_secs(1);
    }
    let wait = Duration::from_secs(54);
    assert_eq!(ask(&mut life, 6, "t"), Err(Refusal::RateLimited { wait }));
    assert_eq!(ask(&mut life, 3, "t"), Ok(false), "a known one is not counted");
    for n in 0..54 {
        assert_eq!(ask(&mut life, n, &format!("u{}", n % 9)), Ok(true));
    }
    assert!(matches!(ask(&mut life, 0, "new"), Err(Refusal::RateLimited { .. })));
    life.now += wait;
    assert_eq!(ask(&mut life, 6, "t"), Ok(true));
    assert_eq!(life.triggers.counts.refused, 2);
}

#[test]
fn the_queue_has_an_end_in_number_and_in_bytes() {
    let mut life = Life::new();
    life.triggers.numbers.rate_per_minute = 1_000_000;
    life.has_draft = true;
    for n in 0..MOST_QUEUED {
        life.triggers.ask(Life::asked(&format!("{n}"), "t", false), life.time()).unwrap();
    }
    let one_more = life.triggers.ask(Life::asked("more", "t", false), life.time());
    assert_eq!(one_more, Err(Refusal::QueueFull));

    let mut life = Life::new();
    life.has_draft = true;
    let long = "x".repeat(16384);
    let asked = |n: usize| Asked::new(&format!("{n}"), "t", None, &long, false, 16384).unwrap();
    for n in 0..MOST_QUEUED_BYTES / 16384 {
        life.triggers.ask(asked(n), life.time()).unwrap();
    }
    assert_eq!(life.triggers.ask(asked(9999), life.time()), Err(Refusal::QueueFull));
}

#[test]
fn what_has_ended_is_forgotten_in_the_end() {
    let mut life = Life::new();
    life.triggers.numbers.rate_per_minute = 1_000_000;
    for n in 0..=MOST_ENDED {
        let id = format!("{n}");
        life.sent(&id);
        life.ack(For::Id(&id), By::Ack);
    }
    assert!(life.triggers.status("0").is_none() && life.triggers.status("1").is_some());
}

fn delivered(life: &mut Life, id: &str) {
    life.sent(id);
    life.ack(For::Id(id), By::Ack);
}

fn turn_ends(life: &mut Life) {
    let effects = life.triggers.turn_ended(life.time());
    life.take(effects);
}

fn progress(life: &mut Life, whom: For, finding: Option<&str>) -> bool {
    let effects = life.triggers.progress(whom, finding, life.time());
    let known = effects.is_some();
    life.take(effects.unwrap_or_default());
    known
}

#[test]
fn turns_without_progress_block_the_thread_that_was_served_last() {
    let mut life = Life::new();
    turn_ends(&mut life);
    assert_eq!(life.news, [], "nobody's turn");
    delivered(&mut life, "a");
    for _ in 0..19 {
        turn_ends(&mut life);
    }
    assert!(progress(&mut life, For::Id("a"), None));
    for _ in 0..19 {
        turn_ends(&mut life);
    }
    assert_eq!(life.triggers.blocked().count(), 0);
    life.has_draft = true;
    life.ask("b", "t");
    life.ask("c", "u");
    turn_ends(&mut life);
    let blocked = News::Blocked { thread: "t".into(), why: Guard::NoProgress };
    assert!(life.news.contains(&blocked));
    assert_eq!((life.state("b"), life.state("c")), (State::Failed(Failure::ThreadBlocked), State::Deferred));
    let refused = life.triggers.ask(Life::asked("d", "t", true), life.time());
    assert_eq!(refused, Err(Refusal::ThreadBlocked));
    turn_ends(&mut life);
    assert_eq!(life.news.iter().filter(|news| **news == blocked).count(), 1, "blocked once");
    assert!(!life.triggers.unblock("u") && !life.triggers.unblock("nobody"));
    assert!(life.triggers.unblock("t") && !life.triggers.unblock("t"));
    assert_eq!(life.triggers.ask(Life::asked("d", "t", true), life.time()), Ok(true));
}

#[test]
fn equal_findings_in_a_row_block_and_others_do_not() {
    let mut life = Life::new();
    for finding in ["x", "x", "y", "x", "x"] {
        assert!(progress(&mut life, For::Thread("t"), Some(finding)));
    }
    assert_eq!(life.news, []);
    progress(&mut life, For::Thread("t"), None);
    progress(&mut life, For::Thread("t"), Some("x"));
    assert_eq!(life.news, [News::Blocked { thread: "t".into(), why: Guard::IdenticalFindings }]);
    assert!(!progress(&mut life, For::Id("unknown"), None));
}

#[test]
fn progress_acknowledges() {
    let mut life = Life::new();
    life.sent("a");
    assert!(progress(&mut life, For::Thread("t"), Some("x")));
    assert_eq!(life.state("a"), State::Delivered(By::Progress));
}

#[test]
fn an_agent_that_speaks_of_ever_new_threads_is_not_remembered_without_end() {
    let mut life = Life::new();
    delivered(&mut life, "a");
    for times in [1, 3] {
        for n in 0..5000 {
            for _ in 0..times {
                assert!(progress(&mut life, For::Thread(&format!("{times}-{n}")), Some("x")));
            }
        }
    }
    let blocked = life.triggers.blocked().count();
    assert!((1..=1024).contains(&blocked), "{blocked}");
    assert_eq!(life.news.iter().filter(|news| matches!(news, News::Blocked { .. })).count(), blocked);
    for _ in 0..20 {
        turn_ends(&mut life);
    }
    assert!(life.triggers.blocked().any(|thread| thread == "t"), "that of a trigger is guarded all the same");
    life.ask("b", "new");
}

#[test]
fn turns_of_somebody_elses_prompts_are_not_the_threads() {
    let mut life = Life::new();
    life.sent("a");
    life.ack(For::Id("a"), By::Ack);
    let numbers = life.triggers.numbers().no_progress_turns;
    for prompt in [Some(life.typed[0].clone()), Some("a human's own".into())] {
        let effects = life.triggers.prompt_taken(prompt.as_deref(), life.time());
        life.take(effects);
        for _ in 1..numbers {
            let effects = life.triggers.turn_ended(life.time());
            life.take(effects);
        }
    }
    assert_eq!(life.triggers.blocked().count(), 0);
}
