//! The restart intensity, and children that are refused.

use super::*;

fn fails_at_once(story: &mut Story, id: &str) -> Vec<Effect> {
    let effects = story.exits(id, 1);
    if story.armed().is_some() && !story.tree.is_leaving() {
        story.reaches_deadline();
    }
    story.all_get_ready();
    effects
}

#[test]
fn one_restart_too_many_ends_the_node_with_70_and_its_children_before() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b c", Keep::Permanent));
    for _ in 0..3 {
        fails_at_once(&mut story, "b");
    }
    story.told();
    let b = story.key("b");
    let effects = fails_at_once(&mut story, "b");
    assert!(effects.contains(&Effect::TellExit(b, 1, Sequel::GiveUp)), "{effects:?}");
    assert!(effects.contains(&Effect::TellGaveUp(b)), "{effects:?}");
    assert_eq!((story.told().as_str(), story.ended), ("-c", None));
    story.the_told_end();
    assert_eq!((story.told().as_str(), story.ended), ("-a", Some(GAVE_UP)));
    assert_eq!(story.tree.wake(), None);
}

#[test]
fn restarts_count_for_the_node_whoever_they_were_of() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b c d", Keep::Permanent));
    for id in ["a", "b", "c"] {
        fails_at_once(&mut story, id);
    }
    fails_at_once(&mut story, "d");
    story.the_told_end();
    assert_eq!(story.ended, Some(GAVE_UP));
}

#[test]
fn restarts_of_long_ago_do_not_count() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b", Keep::Permanent));
    for _ in 0..20 {
        fails_at_once(&mut story, "a");
        story.passes(secs(100));
    }
    assert_eq!((story.ended, story.states().as_str()), (None, "ready ready"));
}

#[test]
fn no_restarts_at_all_may_be_meant() {
    let rules = Rules { max_restarts: 0, ..rules(Strategy::OneForOne) };
    let mut story = Story::begins(rules, children("a", Keep::Permanent));
    story.exits("a", 1);
    assert_eq!(story.ended, Some(GAVE_UP));
}

#[test]
fn a_refused_child_is_no_failure_and_is_tried_again_when_asked() {
    for code in [2, 78, 126, 127] {
        let mut story = Story::begins(rules(Strategy::OneForAll), children("a b", Keep::Permanent));
        story.gets_ready("a");
        assert!(!story.up);
        let effects = story.exits("b", code);
        assert!(effects.contains(&Effect::TellExit(1, code, Sequel::Refused)), "{effects:?}");
        assert_eq!((story.states().as_str(), story.tree.recent(story.now)), ("ready refused", 0));
        assert!(story.up, "all that can run do");
        story.tree.start("b", story.now).unwrap();
        assert_eq!(story.state("b"), "starting");
    }
}

#[test]
fn the_same_code_of_one_that_ran_is_a_failure() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b", Keep::Permanent));
    story.exits("b", 78);
    assert_eq!(story.state("b"), "backoff");
    // And 125, which another try may change, is one always.
    let mut story = Story::begins(rules(Strategy::OneForOne), children("a", Keep::Permanent));
    story.exits("a", 125);
    assert_eq!(story.state("a"), "backoff");
}

#[test]
fn a_node_of_which_nothing_can_run_ends_with_78() {
    let mut story = Story::begins(rules(Strategy::OneForOne), vec![needing("a", &[]), needing("b", &["a"])]);
    story.exits("a", 78);
    assert_eq!((story.ended, story.up), (Some(REFUSED), false));
}

#[test]
fn a_node_ends_when_all_have_ended_and_says_how() {
    let ends = |codes: [u8; 2]| {
        let mut story = Story::runs(Strategy::OneForOne, children("a b", Keep::Temporary));
        story.exits("a", codes[0]);
        assert_eq!(story.ended, None);
        story.exits("b", codes[1]);
        story.ended
    };
    assert_eq!(ends([0, 0]), Some(0));
    assert_eq!(ends([3, 0]), Some(3));
    assert_eq!(ends([0, 137]), Some(137));
}

#[test]
fn a_pool_and_a_node_with_one_that_was_stopped_wait_for_more() {
    let mut story = Story::begins(rules(Strategy::Pool), vec![]);
    assert!(story.up, "an empty pool is ready");
    story.passes(secs(1000));
    assert_eq!(story.ended, None);
    let mut story = Story::runs(Strategy::OneForOne, children("a b", Keep::Transient));
    story.tree.stop("a", story.now).unwrap();
    story.exits("a", 0);
    story.exits("b", 0);
    assert_eq!((story.ended, story.states().as_str()), (None, "stopped ended"));
}
