//! An agent that says it may not go on for a while: it is waited for, and blamed for nothing.

use super::*;
use crate::policy::crash::Limit;

fn limited(with: u8, reset: Option<u64>) -> Event {
    Event::Exited(End { limit: Some(Limit { reset }), ..code(with) })
}

#[test]
fn it_is_waited_for_until_the_reset_at_most_an_hour() {
    let mut story = Story::runs(rules());
    let now = story.now.epoch;
    for (reset, wait) in [
        (Some(now + 90), secs(90)),
        (Some(now + 3600), secs(3600)),
        (Some(now + 3601), secs(3600)),
        (Some(u64::MAX), secs(3600)),
        // Not named, or named and over.
        (None, secs(30)),
        (Some(now), secs(30)),
        (Some(0), secs(30)),
    ] {
        story.now.epoch = now;
        story.hears(limited(1, reset));
        assert_eq!(story.armed(), Some((wait, Why::RateLimit)), "{reset:?}");
        assert_eq!((story.last_exit().class, story.life.health()), (Class::RateLimited, Health::Healthy));
        story.reaches_deadline();
    }
    let numbers = Numbers { flapping_wait: secs(7200), ..Numbers::default() };
    let mut story = Story::runs(Rules { numbers, ..rules() });
    story.hears(limited(1, None));
    assert_eq!(story.armed(), Some((secs(3600), Why::RateLimit)));
}

#[test]
fn it_counts_neither_in_a_row_nor_for_flapping() {
    let mut story = Story::runs(rules());
    story.exits(1);
    story.reaches_deadline();
    for _ in 0..20 {
        story.hears(limited(1, Some(story.now.epoch + 1)));
        assert_eq!(story.sequel(), Waits(secs(1), Next::Continue));
        assert_eq!(story.life.history().in_a_row(), 1);
        story.reaches_deadline();
    }
    story.exits(1);
    assert_eq!((story.last_exit().class, story.life.history().in_a_row()), (Class::Transient, 2));
    // A long run that ends so is a long run.
    story.reaches_deadline();
    story.runs_for(secs(121)).hears(limited(1, None));
    assert_eq!(story.life.history().in_a_row(), 0);
}

#[test]
fn a_continue_that_meets_a_limit_has_not_failed_at_continuing() {
    let mut story = Story::runs(rules());
    story.exits(1);
    story.reaches_deadline();
    assert_eq!(story.runs_as(), Next::Continue);
    let effects = story.hears(limited(1, None));
    assert!(!effects.contains(&Effect::TellContinueFailed), "{effects:?}");
    assert_eq!(story.sequel(), Waits(secs(30), Next::Continue));
}

#[test]
fn who_ends_otherwise_is_judged_as_ever() {
    let (end, limit) = (code(1), Some(Limit { reset: None }));
    for (end, class) in [
        (End { limit, ..code(0) }, Class::Clean),
        (End { limit, asked: true, ..code(130) }, Class::Asked),
        (End { limit, oom: true, ..code(137) }, Class::Transient),
        (end, Class::Transient),
    ] {
        let mut story = Story::runs(rules());
        story.hears(Event::Exited(end));
        assert_eq!(story.last_exit().class, class);
    }
}

#[test]
fn without_restarts_it_ends_with_its_code_and_an_operator_need_not_wait() {
    let mut story = Story::runs(Rules { restart: Restart::No, ..rules() });
    story.hears(limited(1, None));
    assert_eq!((story.sequel(), story.last_exit().class), (Ends(1), Class::RateLimited));
    let mut story = Story::runs(rules());
    story.hears(limited(1, None));
    assert_eq!(story.only_hears(Event::Retry), [Effect::Spawn(Next::Continue)]);
}
