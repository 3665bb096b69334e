//! Every transition, and every code.

use super::*;

type Step = fn(&mut Life);

#[test]
fn every_way_leads_to_its_end() {
    let delivered = |by| State::Delivered(by);
    let failed = |failure| State::Failed(failure);
    let table: [(&str, Step, State); 25] = [
        (
            "queued while no agent runs",
            |l| {
                l.agent = Agent::Down;
                l.ask("a", "t")
            },
            State::Queued,
        ),
        (
            "queued while the agent comes up",
            |l| {
                l.is_ready = false;
                l.ask("a", "t")
            },
            State::Queued,
        ),
        (
            "deferred by a draft",
            |l| {
                l.has_draft = true;
                l.ask("a", "t")
            },
            State::Deferred,
        ),
        (
            "deferred by a key",
            |l| {
                l.key();
                l.ask("a", "t")
            },
            State::Deferred,
        ),
        ("typed at once", |l| l.ask("a", "t"), State::Triggering),
        (
            "typed when it is quiet",
            |l| {
                l.key();
                l.ask("a", "t");
                l.pass(20)
            },
            State::Triggering,
        ),
        (
            "not a moment sooner",
            |l| {
                l.key();
                l.ask("a", "t");
                l.pass(19)
            },
            State::Deferred,
        ),
        ("Enter is pressed", |l| l.sent("a"), State::AwaitingAck),
        (
            "ack by id",
            |l| {
                l.sent("a");
                l.ack(For::Id("a"), By::Ack);
            },
            delivered(By::Ack),
        ),
        (
            "ack by thread",
            |l| {
                l.sent("a");
                l.ack(For::Thread("t"), By::Ack);
            },
            delivered(By::Ack),
        ),
        (
            "ack while it is typed",
            |l| {
                l.ask("a", "t");
                l.ack(For::Id("a"), By::Ack);
            },
            delivered(By::Ack),
        ),
        (
            "ack while it waits",
            |l| {
                l.key();
                l.ask("a", "t");
                l.ack(For::Id("a"), By::Ack);
            },
            delivered(By::Ack),
        ),
        (
            "ack between two tries",
            |l| {
                l.sent("a");
                l.pass(9);
                l.ack(For::Id("a"), By::Ack);
            },
            delivered(By::Ack),
        ),
        (
            "nobody acknowledges",
            |l| {
                l.sent("a");
                l.pass(8);
                l.pass(2);
                l.pass(8);
                l.pass(4);
                l.pass(8)
            },
            failed(Failure::AckTimeout),
        ),
        (
            "one retry is left",
            |l| {
                l.sent("a");
                l.pass(8);
                l.pass(2);
                l.pass(8);
                l.pass(4);
                l.pass(7)
            },
            State::AwaitingAck,
        ),
        (
            "a draft for all of max_defer",
            |l| {
                l.has_draft = true;
                l.ask("a", "t");
                l.pass(60)
            },
            failed(Failure::DeferTimeout),
        ),
        (
            "no agent for all of it",
            |l| {
                l.agent = Agent::Down;
                l.ask("a", "t");
                l.pass(60)
            },
            failed(Failure::NotRunning),
        ),
        (
            "an agent that never comes up",
            |l| {
                l.is_ready = false;
                l.ask("a", "t");
                l.pass(60)
            },
            failed(Failure::NotReady),
        ),
        (
            "the agent dies while awaited",
            |l| {
                l.sent("a");
                l.agent = Agent::Down;
                l.turn()
            },
            failed(Failure::NotRunning),
        ),
        (
            "the agent dies while it is typed",
            |l| {
                l.ask("a", "t");
                l.typing_ends(Err(NotTyped::EndedMeanwhile))
            },
            failed(Failure::NotRunning),
        ),
        (
            "a line is too long",
            |l| {
                l.ask("a", "t");
                l.typing_ends(Err(NotTyped::LineTooLong { line: 1 }))
            },
            failed(Failure::LineTooLong),
        ),
        (
            "the agent does not read",
            |l| {
                l.ask("a", "t");
                l.typing_ends(Err(NotTyped::InputFull))
            },
            failed(Failure::WriteFailed),
        ),
        (
            "a draft came first",
            |l| {
                l.ask("a", "t");
                l.has_draft = true;
                l.typing_ends(Err(NotTyped::OperatorBusy));
                l.pass(1)
            },
            State::Deferred,
        ),
        (
            "and went again",
            |l| {
                l.ask("a", "t");
                l.typing_ends(Err(NotTyped::OperatorBusy));
                l.pass(1)
            },
            State::Triggering,
        ),
        (
            "cancelled",
            |l| {
                l.key();
                l.ask("a", "t");
                let e = l.triggers.cancel("a", l.time());
                l.take(e.unwrap())
            },
            failed(Failure::Cancelled),
        ),
    ];
    for (what, steps, end) in table {
        let mut life = Life::new();
        steps(&mut life);
        assert_eq!(life.state("a"), end, "{what}");
        assert_eq!(life.ended("a"), usize::from(end.is_final()), "{what}");
        assert!(life.triggers.wake().is_none_or(|at| at > life.now), "{what}: a deadline is never behind");
        if end.is_final() {
            assert!(!life.triggers.has_work() && life.triggers.wake().is_none(), "{what}: nothing is armed");
        }
    }
}

#[test]
fn the_text_is_typed_once_and_enter_again_only_where_it_stands() {
    let mut life = Life::new();
    life.sent("a");
    life.pass(8);
    assert_eq!((life.typed.len(), life.asked_screen.get()), (1, 0), "it rests first");
    life.stands.set(true);
    life.pass(2);
    assert_eq!(life.typed[1..], ["<Enter>"]);
    life.typing_ends(Ok(()));
    assert_eq!(life.triggers.status("a").unwrap().attempts, 2);
    life.stands.set(false);
    life.pass(8);
    life.pass(4);
    assert_eq!(life.typed.len(), 2, "what was sent needs no Enter");
    life.pass(8);
    assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
    let counts = life.triggers.counts;
    assert_eq!((counts.attempts, counts.retries, counts.timeouts, counts.failed), (1, 2, 3, 1));
}

#[test]
fn no_enter_is_pressed_for_what_an_operator_may_have_touched() {
    for touch in [|life: &mut Life| life.has_draft = true, |life: &mut Life| life.key()] {
        let mut life = Life::new();
        life.sent("a");
        life.stands.set(true);
        life.pass(3);
        touch(&mut life);
        life.pass(5);
        life.pass(2);
        assert_eq!(life.typed.len(), 1);
    }
}

#[test]
fn an_enter_that_could_not_be_pressed_is_no_end() {
    let mut life = Life::new();
    life.sent("a");
    life.stands.set(true);
    life.pass(8);
    life.pass(2);
    life.typing_ends(Err(NotTyped::OperatorBusy));
    assert_eq!(life.state("a"), State::AwaitingAck);
    assert!(life.ack(For::Thread("t"), By::Progress));
    assert_eq!(life.state("a"), State::Delivered(By::Progress));
}

#[test]
fn a_late_ack_is_told_and_changes_no_end() {
    let mut life = Life::new();
    life.sent("a");
    life.agent = Agent::Down;
    life.turn();
    assert!(life.ack(For::Id("a"), By::Ack));
    assert_eq!(life.state("a"), State::Failed(Failure::NotRunning));
    assert!(life.triggers.status("a").unwrap().acked_late);
    assert_eq!(life.news.last(), Some(&News::Acked { id: "a".into(), by: By::Ack, late: true }));
    let told = life.news.len();
    assert!(life.ack(For::Id("a"), By::Ack) && life.news.len() == told, "once");
    assert!(!life.ack(For::Id("b"), By::Ack) && !life.ack(For::Thread("t"), By::Ack));
}

#[test]
fn signs_of_life_count_behind_the_enter_only() {
    let mut life = Life::new();
    life.ask("a", "t");
    let effects = life.triggers.acked_in_flight(By::Heartbeat, life.time());
    assert_eq!(effects, []);
    assert!(!life.ack(For::Thread("t"), By::Ack), "an ack of the thread's last trigger");
    life.typing_ends(Ok(()));
    let effects = life.triggers.acked_in_flight(By::Heartbeat, life.time());
    life.take(effects);
    assert_eq!(life.state("a"), State::Delivered(By::Heartbeat));
}

#[test]
fn only_the_prompt_that_holds_the_trigger_proves_it() {
    let mut life = Life::new();
    life.sent("a");
    for (prompt, proves) in [("fix the build", false), ("[BRIDGE_TRIGGER id=a2 thread=t]\nx", false)] {
        let effects = life.triggers.prompt_taken(Some(prompt), life.time());
        assert_eq!(!effects.is_empty(), proves, "{prompt}");
    }
    let text = life.typed[0].replace('\n', "\r\n");
    let effects = life.triggers.prompt_taken(Some(&text), life.time());
    life.take(effects);
    assert_eq!(life.state("a"), State::Delivered(By::Hook));
    assert_eq!(life.triggers.prompt_taken(Some(&text), life.time()), [], "nothing is told twice");

    life.sent("b");
    let effects = life.triggers.prompt_taken(None, life.time());
    life.take(effects);
    assert_eq!(life.state("b"), State::Delivered(By::Hook), "a prompt too long to be told");
}

#[test]
fn the_same_id_is_the_same_trigger() {
    let mut life = Life::new();
    life.sent("a");
    let again = life.triggers.ask(Life::asked("a", "t", false), life.time());
    assert_eq!(again, Ok(false));
    let other = Asked::new("a", "t", None, "another text", false, 99).unwrap();
    assert_eq!(life.triggers.ask(other, life.time()), Err(Refusal::DuplicateId));
    life.ack(For::Id("a"), By::Ack);
    assert_eq!(life.triggers.ask(Life::asked("a", "t", false), life.time()), Ok(false));
    assert_eq!((life.state("a"), life.typed.len()), (State::Delivered(By::Ack), 1));
}

#[test]
fn one_at_a_time_and_each_thread_in_order() {
    let mut life = Life::new();
    for (id, thread) in [("a", "t"), ("b", "u"), ("c", "t")] {
        life.ask(id, thread);
    }
    assert_eq!(life.typed.len(), 1);
    for id in ["a", "b", "c"] {
        life.typing_ends(Ok(()));
        assert_eq!(life.state(id), State::AwaitingAck);
        life.ack(For::Id(id), By::Ack);
    }
    assert_eq!(life.typed.len(), 3);
    assert_eq!(life.triggers.last(), Some("c"));
}

#[test]
fn force_overtakes_the_operator_but_nobody_of_its_thread() {
    let mut life = Life::new();
    life.has_draft = true;
    life.ask("a", "t");
    for (id, thread) in [("b", "t"), ("c", "u")] {
        life.triggers.ask(Life::asked(id, thread, true), life.time()).unwrap();
    }
    life.turn();
    assert_eq!((life.state("b"), life.state("c")), (State::Queued, State::Triggering));
    life.agent = Agent::Down;
    life.typing_ends(Err(NotTyped::NotRunning));
    assert_eq!(life.state("c"), State::Queued, "force needs an agent all the same");
}

#[test]
fn each_has_all_of_max_defer_for_itself() {
    let mut life = Life::new();
    life.has_draft = true;
    life.ask("a", "t");
    life.pass(40);
    life.ask("b", "t");
    life.go_to_next_deadline();
    assert_eq!((life.state("a"), life.state("b")), (State::Failed(Failure::DeferTimeout), State::Deferred));
    life.go_to_next_deadline();
    assert_eq!(
        (life.state("b"), (life.now - life.began).as_secs()),
        (State::Failed(Failure::DeferTimeout), 100)
    );
    assert_eq!(life.triggers.counts.deferred, 2);
}

#[test]
fn what_was_typed_or_has_ended_cannot_be_cancelled() {
    let mut life = Life::new();
    life.sent("a");
    assert_eq!(life.triggers.cancel("a", life.time()), None);
    life.ack(For::Id("a"), By::Ack);
    assert_eq!(life.triggers.cancel("a", life.time()), None);
    assert_eq!(life.triggers.cancel("b", life.time()), None);
}

#[test]
fn a_new_supervisor_goes_on_with_what_waits_and_tells_of_what_was_under_way() {
    let mut life = Life::new();
    life.sent("ended");
    life.ack(For::Id("ended"), By::Ack);
    let ended = vec![life.triggers.status("ended").unwrap().clone()];
    let one = |id| (Life::asked(id, "t", false), 7);
    let blocked = vec!["u".to_owned()];
    let left = Left { waiting: vec![one("a"), one("b")], under_way: vec![one("typed")], ended, blocked };
    let mut life = Life::new();
    let effects = life.triggers.restore(left, life.time());
    life.take(effects);
    assert_eq!(life.news, [News::Ended("typed".into())]);
    assert_eq!(life.state("typed"), State::Failed(Failure::NotRunning));
    assert_eq!(life.triggers.ask(Life::asked("ended", "t", false), life.time()), Ok(false));
    assert_eq!(life.triggers.ask(Life::asked("x", "u", false), life.time()), Err(Refusal::ThreadBlocked));
    life.turn();
    assert_eq!((life.state("a"), life.state("b"), life.typed.len()), (State::Triggering, State::Queued, 1));
    assert_eq!(life.triggers.kept().map(|(asked, _)| asked.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn what_can_never_be_typed_is_given_up() {
    let mut life = Life::new();
    life.ask("a", "t");
    for _ in 1..MOST_TRIES {
        life.typing_ends(Err(NotTyped::TooMany));
        assert_eq!(life.state("a"), State::Queued);
        life.pass(1);
    }
    life.typing_ends(Err(NotTyped::TooMany));
    assert_eq!(life.state("a"), State::Failed(Failure::WriteFailed));
}

#[test]
fn one_that_waits_can_be_forced_and_none_that_does_not() {
    let mut life = Life::new();
    life.has_draft = true;
    life.ask("a", "t");
    life.ask("b", "u");
    assert_eq!(life.state("b"), State::Deferred);
    assert!(life.triggers.force("b") && !life.triggers.force("b") && !life.triggers.force("?"));
    life.turn();
    assert_eq!((life.state("a"), life.state("b")), (State::Deferred, State::Triggering));
    assert!(life.triggers.status("b").unwrap().force && !life.triggers.force("b"));
}
