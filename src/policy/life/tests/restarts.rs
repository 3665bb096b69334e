//! A restart or a kill that a caller asks for, from every phase.

use super::stops::{every_phase, with_an_agent};
use super::*;

const FRESH: Event = Event::RestartAsked { next: Next::Fresh };

fn is_restarting(story: &Story) -> bool {
    matches!(story.life.phase(), Phase::Restarting { .. })
}

#[test]
fn a_restart_ends_a_running_agent_and_starts_it_as_asked() {
    for next in [Next::Fresh, Next::Continue] {
        let mut story = Story::runs(rules());
        story.passes(secs(3));
        assert_eq!(story.hears(Event::RestartAsked { next }), [Effect::EndAgent(Order::Term)]);
        assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)));
        story.passes(secs(1));
        let told = Effect::TellExit { class: Class::Asked, end: code(143), ran: secs(4) };
        assert_eq!(story.only_hears(Event::Exited(code(143))), [told, Effect::Spawn(next)]);
        assert_eq!((story.life.restarts(), story.life.history().in_a_row()), (1, 0));
    }
}

#[test]
fn an_agent_that_ignores_the_restart_is_killed_at_three_quarters_of_the_grace() {
    let mut story = Story::runs(rules());
    story.hears(FRESH);
    assert_eq!(story.reaches_deadline(), [Effect::EndAgent(Order::KillAgent)]);
    assert_eq!(story.armed(), None);
    story.hears(Event::Exited(code(137)));
    story.is_running();
}

#[test]
fn two_restarts_at_once_are_one() {
    let mut story = Story::runs(rules());
    story.hears(FRESH);
    assert_eq!(story.hears(Event::RestartAsked { next: Next::Continue }), []);
    story.hears(Event::Exited(code(143)));
    assert_eq!((story.life.restarts(), story.runs_as()), (1, Next::Fresh));
}

#[test]
fn a_restart_without_an_agent_starts_one_now_or_joins_the_start_under_way() {
    for (phase, mut story, _) in every_phase(None) {
        let restarts = story.life.restarts();
        let effects = story.only_hears(FRESH);
        let starts = effects.contains(&Effect::Spawn(Next::Fresh));
        let waits_for_somebody = matches!(phase, "waiting" | "asking" | "halted");
        assert_eq!(starts, waits_for_somebody, "{phase}: {effects:?}");
        assert_eq!(story.life.restarts(), restarts + u64::from(starts), "{phase}");
        assert_eq!(effects.contains(&Effect::TellResumed), phase == "halted");
    }
    let (_, mut starting) = with_an_agent(None).swap_remove(0);
    assert_eq!(starting.only_hears(FRESH), []);
}

#[test]
fn a_restart_out_of_a_halt_forgives() {
    let mut story = Story::runs(rules());
    for _ in 0..4 {
        story.exits(1);
        story.reaches_deadline();
    }
    story.exits(1);
    assert_eq!(story.life.health(), Health::Halted);
    story.hears(FRESH);
    assert_eq!((story.life.health(), story.life.history().in_a_row()), (Health::Healthy, 0));
    story.exits(1);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
}

#[test]
fn many_restarts_never_halt() {
    let mut story = Story::runs(rules());
    for _ in 0..50 {
        story.hears(Event::RestartAsked { next: Next::Continue });
        story.hears(Event::Exited(code(143)));
    }
    story.is_running();
    assert_eq!((story.life.health(), story.life.history().in_a_row()), (Health::Healthy, 0));
}

#[test]
fn a_stop_comes_before_a_restart() {
    let mut story = Story::runs(rules());
    story.hears(FRESH);
    let stopped = story.stop_is_asked_by(7);
    assert_eq!(stopped, [Effect::TellStopping { timed_out: false }, Effect::Tree(Order::Term)]);
    assert_eq!(story.hears(FRESH), []);
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.sequel(), Ends(143));
}

#[test]
fn a_timeout_ends_a_restart_too() {
    let mut story = Story::runs(Rules { timeout: Some(secs(5)), ..rules() });
    story.hears(FRESH);
    assert!(is_restarting(&story));
    assert_eq!(story.armed(), Some((secs(5), Why::Timeout)));
    story.reaches_deadline();
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.sequel(), Ends(124));
}

#[test]
fn a_kill_takes_everything_at_once_and_asks_nobody() {
    let killed = [Effect::TellStopping { timed_out: false }, Effect::Tree(Order::KillAll)];
    for (phase, mut story, last) in every_phase(None) {
        assert_eq!(story.hears(Event::KillAsked), killed, "{phase}");
        assert_eq!(story.armed(), Some((secs(1), Why::GraceOver)), "{phase}");
        assert_eq!(story.sequel(), Ends(last), "{phase}");
    }
    for (phase, mut story) in with_an_agent(None) {
        assert_eq!(story.hears(Event::KillAsked), killed, "{phase}");
        story.hears(Event::Exited(code(137)));
        assert_eq!(story.sequel(), Ends(137), "{phase}");
    }
}

#[test]
fn a_kill_ends_the_patience_of_a_stop_and_a_second_one_changes_nothing() {
    let mut story = Story::runs(rules());
    story.stop_is_asked_by(7);
    assert_eq!(story.hears(Event::KillAsked), [Effect::Tree(Order::KillAll)]);
    assert_eq!(story.hears(Event::KillAsked), []);
}

#[test]
fn an_agent_that_makes_room_stays_away_until_it_is_called() {
    for next in [Next::Fresh, Next::Continue] {
        let mut story = Story::runs(rules());
        story.exits(1);
        story.reaches_deadline();
        story.passes(secs(3));
        assert_eq!(story.hears(Event::AwayAsked), [Effect::EndAgent(Order::Term)]);
        assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)));
        assert_eq!(story.reaches_deadline(), [Effect::EndAgent(Order::KillAgent)]);
        let told = Effect::TellExit { class: Class::Asked, end: code(137), ran: secs(9) };
        assert_eq!(story.only_hears(Event::Exited(code(137))), [told]);
        assert_eq!((story.life.phase(), story.armed()), (&Phase::Away { asked: None }, None));
        for others in [Event::Retry, Event::Quit, Event::AwayAsked, Event::Due] {
            assert_eq!(story.only_hears(others), [], "{others:?}");
        }
        assert_eq!(story.only_hears(Event::BackAsked { next }), [Effect::Spawn(next)]);
        assert_eq!((story.life.restarts(), story.life.history().in_a_row()), (2, 1), "it counts as none");
    }
}

#[test]
fn one_that_waits_for_its_restart_makes_room_and_no_other_phase_does() {
    for (phase, mut story, _) in every_phase(None) {
        let before = story.life.phase().clone();
        assert_eq!(story.only_hears(Event::AwayAsked), [], "{phase}");
        let goes = phase == "waiting" || phase == "away";
        assert_eq!(matches!(story.life.phase(), Phase::Away { .. }), goes, "{phase}");
        assert!(goes || *story.life.phase() == before, "{phase}");
        if phase != "waiting" && phase != "away" {
            assert_eq!(story.only_hears(Event::BackAsked { next: Next::Fresh }), [], "{phase}");
        }
    }
}

#[test]
fn a_restart_that_is_asked_for_meanwhile_is_what_comes_back() {
    let away = |first: Event, second: Event| {
        let mut story = Story::runs(rules());
        story.hears(first);
        assert_eq!(story.hears(second), []);
        story.hears(Event::Exited(code(143)));
        assert!(matches!(story.life.phase(), Phase::Away { asked: Some(Next::Fresh) }));
        story
    };
    let mut late = Story::runs(rules());
    late.hears(Event::AwayAsked);
    late.hears(Event::Exited(code(143)));
    assert_eq!(late.only_hears(FRESH), []);
    for mut story in [away(Event::AwayAsked, FRESH), away(FRESH, Event::AwayAsked), late] {
        let back = story.only_hears(Event::BackAsked { next: Next::Continue });
        assert_eq!(back, [Effect::Spawn(Next::Fresh)]);
    }
}

#[test]
fn first_words_that_could_not_be_said_are_not_said_by_the_next_start() {
    let mut story = Story::runs(rules());
    story.hears(Event::AwayAsked);
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.only_hears(Event::BackAsked { next: Next::Anew }), [Effect::Spawn(Next::Anew)]);
    story.fails_to_spawn(126);
    assert!(matches!(story.life.phase(), Phase::Waiting { next: Next::Continue, .. }));
}

#[test]
fn what_a_rule_restarts_waits_as_often_as_that_happens_and_never_halts() {
    let mut story = Story::runs(rules());
    for (turn, wait, health) in [
        (0, secs(2), Health::Healthy),
        (1, secs(2), Health::Healthy),
        (2, secs(30), Health::Degraded),
        (3, secs(30), Health::Degraded),
        // Two are a minute old by now.
        (4, secs(2), Health::Healthy),
        (5, secs(30), Health::Degraded),
    ] {
        assert_eq!(story.hears(Event::RuleRestarts), [Effect::EndAgent(Order::Term)], "{turn}");
        assert_eq!(story.hears(Event::RuleRestarts), [], "{turn}");
        let (class, next) = (Class::Asked, Next::Continue);
        let told = Effect::TellExit { class, end: code(143), ran: NO_TIME };
        let effects = story.hears(Event::Exited(code(143)));
        assert_eq!(effects, [told, Effect::TellRestart { class, wait, next }], "{turn}");
        assert_eq!((story.sequel(), story.life.health()), (Waits(wait, next), health), "{turn}");
        story.reaches_deadline();
        story.hears(Event::ExecDone { ran_as: next });
    }
    assert_eq!(story.life.history().in_a_row(), 0);
    // Long enough, it needs no wait.
    story.passes(secs(121));
    story.hears(Event::RuleRestarts);
    assert_eq!(story.hears(Event::Exited(code(143))).last(), Some(&Effect::Spawn(Next::Continue)));
}

#[test]
fn whoever_else_wants_it_restarted_does_not_wait_for_the_rule() {
    let mut story = Story::runs(rules());
    story.hears(Event::RuleRestarts);
    assert_eq!(story.hears(Event::RestartAsked { next: Next::Fresh }), []);
    assert_eq!(story.hears(Event::Exited(code(143))).last(), Some(&Effect::Spawn(Next::Fresh)));

    let mut story = Story::runs(rules());
    story.hears(Event::RuleRestarts);
    assert_eq!(story.hears(Event::AwayAsked), []);
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.life.phase(), &Phase::Away { asked: None });
}
