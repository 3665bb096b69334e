//! What a dead agent left behind, where the next one is not to meet it.

use super::*;

fn clears() -> Rules {
    Rules { ends_leftovers: true, ..always() }
}

fn orders(order: Order) -> Effect {
    Effect::Leftovers(Whose::Agent, order)
}

#[test]
fn the_next_agent_waits_for_the_end_of_what_the_last_one_left() {
    for with in [0, 1, 137] {
        let mut story = Story::runs(clears());
        story.exits(with);
        assert_eq!(story.reaches_deadline(), [orders(Order::Term)], "{with}");
        assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)));
        assert_eq!(story.hears(Event::LeftoversGone)[..1], [Effect::Spawn(Next::Continue)], "{with}");
        story.is_running();
        assert_eq!(story.life.restarts(), 1);
    }
}

#[test]
fn what_is_deaf_is_killed_when_the_grace_is_over_and_then_holds_nobody_up() {
    let mut story = Story::runs(clears());
    story.exits(1);
    for expected in [vec![Order::Term], vec![Order::Term], vec![Order::KillAll]] {
        assert_eq!(story.reaches_deadline(), expected.into_iter().map(orders).collect::<Vec<_>>());
    }
    let last = story.reaches_deadline();
    assert_eq!(last[..2], [orders(Order::GiveUp), Effect::Spawn(Next::Continue)]);
    story.is_running();
}

#[test]
fn so_it_is_when_somebody_asked_for_another_agent_and_before_anybody_is_asked_about_it() {
    let mut story = Story::begins(Rules { asks_before_spawn: true, ..clears() });
    story.hears(Event::LeftoversGone);
    story.hears(Event::Prepared { agreed: true });
    story.is_running();
    story.hears(Event::RestartAsked { next: Next::Fresh });
    assert_eq!(story.hears(Event::Exited(code(143))).last(), Some(&orders(Order::Term)));
    assert_eq!(story.hears(Event::LeftoversGone), [Effect::AskBeforeSpawn(Next::Fresh)]);
}

#[test]
fn a_stop_meanwhile_is_a_stop_and_starts_nobody() {
    let mut story = Story::runs(clears());
    story.exits(7);
    story.reaches_deadline();
    story.stop_is_asked_by(5);
    assert!(matches!(story.life.phase(), Phase::Stopping { .. }));
    assert_eq!(story.hears(Event::LeftoversGone), []);
    assert_eq!(story.sequel(), Ends(7));
}

#[test]
fn without_that_rule_what_an_agent_left_goes_on() {
    let mut story = Story::runs(always());
    story.exits(1);
    assert_eq!(story.reaches_deadline()[..1], [Effect::Spawn(Next::Continue)]);
}
