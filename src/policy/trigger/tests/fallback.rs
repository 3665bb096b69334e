//! What happens when typing has not helped.

use super::*;

const ALL: Can = Can { resume: true, fork: true, spawn: true };

/// One that was typed and that nobody acknowledged, whatever was tried.
fn unacked(prepare: impl FnOnce(&mut Life)) -> Life {
    let mut life = Life::new();
    life.can = ALL;
    life.triggers.numbers.retry_waits.clear();
    life.sent("a");
    prepare(&mut life);
    life.pass(8);
    life
}

impl Life {
    fn goes_away(&mut self) {
        self.agent = Agent::Away;
        self.turn();
    }

    fn call_ends(&mut self, succeeded: bool) {
        self.is_called(if succeeded { Called::Answered } else { Called::Failed });
    }

    fn is_called(&mut self, called: Called) {
        let effects = self.triggers.call_ended(called, self.time());
        self.take(effects);
        self.turn();
    }
}

#[test]
fn the_agent_makes_room_a_call_carries_it_and_the_agent_returns() {
    let mut life = unacked(|_| {});
    assert_eq!((life.state("a"), &life.done[..]), (State::FallingBack, &["room"][..]));
    life.pass(3);
    assert_eq!(life.done, ["room"], "it takes its time to end");
    life.goes_away();
    life.pass(60);
    assert_eq!(life.done, ["room", "call"], "and the call to work");
    assert_eq!(life.news.last(), Some(&News::FallsBack("a".into(), Way::Resume)));
    life.call_ends(true);
    assert_eq!(life.state("a"), State::Delivered(By::Resume));
    assert_eq!((&life.done[..], life.ended("a")), (&["room", "call", "back"][..], 1));
    life.agent = Agent::Up;
    life.ask("b", "t");
    assert_eq!((life.typed.len(), life.state("b")), (2, State::Triggering), "typing goes on");
}

#[test]
fn a_call_that_fails_is_repeated_as_often_as_it_may_be() {
    let mut life = unacked(|_| {});
    life.goes_away();
    life.call_ends(false);
    assert_eq!((life.state("a"), &life.done[..]), (State::FallingBack, &["room", "call", "call"][..]));
    life.call_ends(false);
    assert_eq!(life.state("a"), State::Failed(Failure::ResumeFailed));
    assert_eq!(life.done, ["room", "call", "call", "back"]);
}

#[test]
fn a_call_that_cannot_be_made_or_is_cut_short_is_not_repeated() {
    for (called, failure) in
        [(Called::NotMade, Failure::ResumeFailed), (Called::CutShort, Failure::NotRunning)]
    {
        let mut life = unacked(|_| {});
        life.goes_away();
        life.is_called(called);
        assert_eq!(life.state("a"), State::Failed(failure));
        assert_eq!(life.done, ["room", "call", "back"]);
    }
}

#[test]
fn a_call_that_never_ends_is_ended_and_not_repeated() {
    let mut life = unacked(|_| {});
    life.goes_away();
    life.pass(30 * 60 - 1);
    assert_eq!(life.done, ["room", "call"]);
    life.pass(1);
    life.pass(1);
    assert_eq!(life.done, ["room", "call", "end call"]);
    life.call_ends(false);
    assert_eq!(life.state("a"), State::Failed(Failure::ResumeFailed));
    assert_eq!(life.done, ["room", "call", "end call", "back"]);
}

#[test]
fn an_agent_that_is_wanted_back_waits_for_no_call() {
    let mut life = unacked(|_| {});
    let effects = life.triggers.call_back(life.time());
    life.take(effects);
    life.goes_away();
    assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
    assert_eq!(life.done, ["room", "back"]);
    let mut life = unacked(|_| {});
    life.goes_away();
    for _ in 0..2 {
        let effects = life.triggers.call_back(life.time());
        life.take(effects);
    }
    assert_eq!(life.done, ["room", "call", "end call"]);
    life.call_ends(false);
    assert_eq!(life.state("a"), State::Failed(Failure::ResumeFailed));
    assert_eq!(life.done, ["room", "call", "end call", "back"]);
}

#[test]
fn what_the_call_says_counts_at_once_and_the_agent_waits_for_its_end() {
    let mut life = unacked(|_| {});
    life.goes_away();
    let text = life.typed[0].clone();
    let effects = life.triggers.prompt_taken(Some(&text), life.time());
    life.take(effects);
    life.turn();
    assert_eq!((life.state("a"), &life.done[..]), (State::Delivered(By::Resume), &["room", "call"][..]));
    life.ask("b", "t");
    life.pass(300);
    assert_eq!(life.state("b"), State::Queued, "nothing is lost meanwhile");
    life.call_ends(false);
    assert_eq!((&life.done[2..], life.ended("a")), (&["back"][..], 1));
    assert_eq!(life.state("a"), State::Delivered(By::Resume));
}

#[test]
fn an_acknowledgement_while_the_agent_ends_spares_the_call() {
    let mut life = unacked(|_| {});
    assert!(life.ack(For::Id("a"), By::Hook));
    life.goes_away();
    assert_eq!((life.state("a"), &life.done[..]), (State::Delivered(By::Hook), &["room", "back"][..]));
}

#[test]
fn nobody_takes_a_humans_terminal_away() {
    for prepare in [|life: &mut Life| life.has_draft = true, |life: &mut Life| life.key()] {
        let mut life = unacked(prepare);
        assert_eq!((life.state("a"), &life.done[..]), (State::FallingBack, &["fork"][..]));
        // What the agent itself says meanwhile is not about the fork.
        let effects = life.triggers.acked_in_flight(By::Heartbeat, life.time());
        life.take(effects);
        assert_eq!(life.state("a"), State::FallingBack);
        life.call_ends(true);
        assert_eq!((life.state("a"), &life.done[..]), (State::Delivered(By::Fork), &["fork"][..]));
        let mut life = unacked(|life| {
            prepare(life);
            life.can.fork = false;
        });
        assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
        life.turn();
        assert_eq!(life.done, [""; 0]);
    }
}

#[test]
fn what_a_human_holds_back_for_too_long_goes_into_a_fork_one_after_the_other() {
    let mut life = Life::new();
    life.can = ALL;
    life.has_draft = true;
    life.ask("a", "t");
    life.ask("b", "u");
    life.pass(60);
    assert_eq!((life.state("a"), life.state("b")), (State::FallingBack, State::Deferred));
    life.call_ends(true);
    assert_eq!((life.state("a"), life.state("b")), (State::Delivered(By::Fork), State::FallingBack));
    life.call_ends(false);
    life.call_ends(false);
    assert_eq!(life.state("b"), State::Failed(Failure::ResumeFailed));
    assert_eq!((life.done.len(), life.typed.len()), (3, 0), "{:?}", life.done);
}

#[test]
fn a_stale_conversation_and_one_that_keeps_failing_are_begun_anew() {
    let stale = |life: &mut Life| life.heard_at = EPOCH - 12 * 3600;
    let failing = |life: &mut Life| (0..3).for_each(|_| life.triggers.agent_failed(life.time()));
    let unknown = |life: &mut Life| life.can.resume = false;
    for prepare in [stale, failing, unknown] {
        let mut life = unacked(prepare);
        assert_eq!((life.state("a"), &life.done[..]), (State::FallingBack, &["room"][..]));
        assert_eq!(life.triggers.prompt(), None);
        life.goes_away();
        assert_eq!(life.done, ["room", "anew"]);
        let prompt = life.triggers.prompt().expect("one");
        assert!(prompt.contains("thread=t") && prompt.contains("do a"), "{prompt}");
        life.agent = Agent::Coming;
        life.turn();
        life.agent = Agent::Up;
        life.turn();
        assert_eq!(life.state("a"), State::FallingBack, "it has hooks to say so");
        let effects = life.triggers.prompt_taken(Some(&prompt), life.time());
        life.take(effects);
        assert_eq!((life.state("a"), life.triggers.prompt()), (State::Delivered(By::Spawn), None));
        life.turn();
        assert_eq!(life.done, ["room", "anew"], "it is back already");
    }
    // A human's terminal stays, whatever the conversation is worth.
    let life = unacked(|life| {
        stale(life);
        life.has_draft = true;
    });
    assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
}

#[test]
fn a_fresh_agent_without_hooks_has_its_prompt_when_it_is_ready() {
    let mut life = unacked(|life| life.can.resume = false);
    life.confirms = false;
    life.goes_away();
    life.agent = Agent::Up;
    life.is_ready = false;
    life.pass(5);
    assert_eq!(life.state("a"), State::FallingBack);
    life.is_ready = true;
    life.turn();
    assert_eq!(life.state("a"), State::Delivered(By::Spawn));
}

#[test]
fn a_fresh_agent_that_does_not_come_up_is_said_to() {
    for comes in [Agent::Down, Agent::Coming, Agent::Up] {
        let mut life = unacked(|life| life.can.resume = false);
        life.goes_away();
        life.agent = comes;
        life.pass(2 * 60);
        assert_eq!(life.state("a"), State::Failed(Failure::SpawnFailed), "{comes:?}");
    }
}

#[test]
fn failures_count_for_as_long_as_they_are_recent() {
    let mut life = unacked(|life| {
        life.triggers.agent_failed(life.time());
        life.triggers.agent_failed(life.time());
        life.now += Duration::from_secs(15 * 60);
        life.heard_at += 15 * 60;
        life.triggers.agent_failed(life.time());
    });
    life.goes_away();
    assert_eq!(life.done, ["room", "call"]);
    life.call_ends(false);
    life.call_ends(false);
    // With the two calls there are three.
    life.agent = Agent::Up;
    life.sent("b");
    life.pass(8);
    life.goes_away();
    assert_eq!(life.done, ["room", "call", "call", "back", "room", "anew"]);
}

#[test]
fn an_agent_in_the_middle_of_a_turn_is_not_ended_for_it() {
    let mut life = unacked(|life| life.is_working = true);
    life.pass(600);
    assert_eq!((life.state("a"), &life.done[..]), (State::AwaitingAck, &[""; 0][..]));
    let effects = life.triggers.at_work(false, life.time());
    life.take(effects);
    assert_eq!(life.state("a"), State::Delivered(By::Hook));

    let mut life = unacked(|life| life.is_working = true);
    life.pass(30 * 60);
    assert_eq!(life.done, ["room"], "half an hour without a word is another matter");
    let life = unacked(|life| {
        life.is_working = true;
        life.stands.set(true);
    });
    assert_eq!(life.done, ["room"], "it never took the text");
}

#[test]
fn a_sign_of_life_proves_nothing_while_the_text_stands_in_the_line() {
    let mut life = Life::new();
    life.sent("a");
    let effects = life.triggers.at_work(true, life.time());
    life.take(effects);
    assert_eq!(life.state("a"), State::AwaitingAck);
}

#[test]
fn an_agent_that_is_paused_or_ends_is_waited_for() {
    let mut life = unacked(|life| life.is_held = true);
    life.pass(100);
    assert_eq!((life.state("a"), &life.done[..]), (State::AwaitingAck, &[""; 0][..]));
    life.is_held = false;
    life.pass(8);
    assert_eq!(life.done, ["room"]);
    let mut life = unacked(|life| life.is_held = true);
    (0..30 * 8).for_each(|_| life.pass(8));
    assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
    assert_eq!(life.done, [""; 0], "whoever paused it wants it as it is");
}

#[test]
fn an_agent_that_is_paused_is_not_looked_at_all_the_time() {
    let mut life = Life::new();
    life.triggers.numbers.ack_timeout = Duration::ZERO;
    life.triggers.numbers.retry_waits.clear();
    life.is_held = true;
    life.sent("a");
    life.turn();
    assert_eq!(life.triggers.wake(), Some(life.now + BREATH));
}

#[test]
fn where_nothing_can_be_done_it_fails_as_before() {
    for prepare in [
        |life: &mut Life| life.can = Can::default(),
        |life: &mut Life| life.triggers.numbers.resume_attempts = 0,
    ] {
        let life = unacked(prepare);
        assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
        assert_eq!(life.done, [""; 0]);
    }
}

#[test]
fn one_that_ends_for_good_instead_of_making_room_is_told() {
    let mut life = unacked(|_| {});
    life.agent = Agent::Down;
    life.turn();
    assert_eq!(life.state("a"), State::Failed(Failure::NotRunning));
    let mut life = unacked(|_| {});
    life.pass(600);
    assert_eq!(life.state("a"), State::Failed(Failure::AckTimeout));
}

#[test]
fn an_agent_that_begins_anew_is_told_what_came_before_in_the_thread() {
    let mut life = Life::new();
    life.can = Can { spawn: true, ..Can::default() };
    life.triggers.numbers.retry_waits.clear();
    life.sent("first");
    life.ack(For::Id("first"), By::Ack);
    let effects = life.triggers.progress(For::Thread("t"), Some("a\nleak"), life.time());
    life.take(effects.expect("known"));
    life.ask("elsewhere", "u");
    life.typing_ends(Ok(()));
    life.ack(For::Id("elsewhere"), By::Ack);
    life.sent("a");
    life.pass(8);
    life.goes_away();
    let prompt = life.triggers.prompt().expect("one");
    assert!(
        prompt.contains("- first, delivered: do first\nWhat was found last: a leak\n[BRIDGE_TRIGGER id=a"),
        "{prompt}"
    );
    assert!(!prompt.contains("elsewhere"), "{prompt}");
}
