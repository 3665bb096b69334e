//! The order of starts and stops, and how long they may take.

use super::*;
use crate::policy::tree::going::{AT_ONCE, PATIENCE};

#[test]
fn they_start_in_order_and_nobody_before_what_it_needs_is_ready() {
    let specs =
        vec![needing("db", &[]), needing("lead", &["db"]), needing("free", &[]), needing("w", &["lead"])];
    let mut story = Story::begins(rules(Strategy::OneForOne), specs);
    for id in ["db", "lead", "free", "w"] {
        assert_eq!((story.told(), story.up), (format!("+{id}"), false));
        story.gets_ready(id);
    }
    assert_eq!((story.told().as_str(), story.up), ("", true));
}

#[test]
fn one_that_hangs_on_its_way_up_does_not_hold_up_the_others_for_ever() {
    let mut specs = children("a b c", Keep::Permanent);
    specs.push(needing("w", &["a"]));
    let mut story = Story::begins(rules(Strategy::OneForOne), specs);
    assert_eq!((story.told().as_str(), story.armed()), ("+a", Some(PATIENCE)));
    story.passes(PATIENCE / 2);
    assert_eq!(story.told(), "");
    story.reaches_deadline();
    assert_eq!((story.told().as_str(), story.armed()), ("+b", Some(PATIENCE)));
    story.gets_ready("b");
    assert_eq!((story.told().as_str(), story.armed()), ("+c", None), "nobody waits for `a` but `w`");
    // Nor one that has ended.
    let mut story = Story::begins(rules(Strategy::OneForOne), children("a b", Keep::Permanent));
    story.exits("a", 1);
    assert_eq!(story.told(), "+a ~a +b");
}

#[test]
fn one_that_is_started_again_by_itself_waits_for_nobody() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b c", Keep::Permanent));
    story.exits("a", 1);
    story.exits("c", 1);
    story.reaches_deadline();
    assert_eq!((story.told().as_str(), story.states().as_str()), ("~a ~c +a +c", "starting ready starting"));
    // Somebody asks for it.
    let effects = story.tree.restart("b", story.now).unwrap();
    story.perform(&effects);
    story.exits("b", 143);
    assert_eq!((story.told().as_str(), story.state("a")), ("-b ~b +b", "starting"));
}

#[test]
fn those_of_a_pool_start_all_at_once() {
    let mut story = Story::begins(rules(Strategy::Pool), children("a b c", Keep::Permanent));
    assert_eq!(story.told(), "+a +b +c");
}

#[test]
fn one_that_did_its_work_is_as_good_as_one_that_is_ready() {
    let specs = vec![child("setup", Keep::Transient), needing("lead", &["setup"])];
    let mut story = Story::begins(rules(Strategy::OneForOne), specs);
    let setup = story.key("setup");
    story.hears(Event::Exited(setup, 0));
    assert_eq!(story.state("lead"), "queued", "not beside what it left behind");
    story.hears(Event::Cleared(setup));
    assert_eq!(story.state("lead"), "starting");
}

#[test]
fn they_stop_in_reverse_order_one_at_a_time() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b c", Keep::Permanent));
    story.hears(Event::Stop);
    assert_eq!(story.told(), "-c");
    story.hears(Event::Stop);
    assert_eq!(story.told(), "", "a second stop is the same one");
    let c = story.key("c");
    story.hears(Event::Exited(c, 0));
    assert_eq!(story.told(), "-b");
    story.the_told_end();
    assert_eq!((story.told().as_str(), story.ended), ("-a", Some(0)));
}

#[test]
fn each_has_its_own_time_and_then_kill() {
    let mut specs = children("a b", Keep::Permanent);
    specs[1].shutdown = secs(3);
    let mut story = Story::runs(Strategy::OneForOne, specs);
    story.hears(Event::Stop);
    assert_eq!(story.armed(), Some(secs(3)));
    story.passes(secs(2));
    assert_eq!(story.told(), "-b");
    story.reaches_deadline();
    assert_eq!((story.told().as_str(), story.armed()), ("!b", None));
    story.exits("b", 137);
    assert_eq!((story.told().as_str(), story.armed()), ("-a", Some(SHUTDOWN)));
}

#[test]
fn many_ways_lead_to_what_is_needed_and_none_is_walked_twice() {
    let ids: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let specs = ids.iter().enumerate().map(|(n, id)| {
        let before = &ids[n.saturating_sub(2)..n];
        needing(id, &before.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let specs = specs.chain([needing("x", &[])]).collect();
    let mut story = Story::begins(rules(Strategy::OneForOne), specs);
    let blocked = |story: &Story| (0..100).filter(|at| story.tree.is_blocked(*at)).count();
    assert_eq!(blocked(&story), 0, "the first is still on its way up");
    story.exits("c0", 78);
    assert_eq!((blocked(&story), story.state("x")), (99, "starting"));
}

#[test]
fn a_pool_starts_no_more_at_once_than_can_come_up() {
    let ids: Vec<String> = (0..AT_ONCE + 2).map(|n| format!("d{n}")).collect();
    let mut story = Story::begins(rules(Strategy::Pool), children(&ids.join(" "), Keep::Temporary));
    assert_eq!(story.told().split(' ').count(), AT_ONCE);
    story.gets_ready("d7");
    assert_eq!(story.told(), format!("+d{AT_ONCE}"));
    // Those that hang hold up the others for a moment, and not for ever.
    assert_eq!((story.armed(), story.up), (Some(PATIENCE), false));
    story.reaches_deadline();
    assert_eq!((story.told(), story.armed()), (format!("+d{}", AT_ONCE + 1), None));
    story.all_get_ready();
    assert!(story.up);
}

#[test]
fn a_pool_stops_all_at_once() {
    let mut story = Story::runs(Strategy::Pool, children("a b c", Keep::Permanent));
    story.hears(Event::Stop);
    assert_eq!(story.told(), "-c -b -a");
    story.the_told_end();
    assert_eq!(story.ended, Some(0));
}

#[test]
fn a_stop_in_the_middle_of_anything_ends_all() {
    let stops = |prepare: &dyn Fn(&mut Story)| {
        let mut story = Story::runs(Strategy::OneForAll, children("a b c", Keep::Permanent));
        prepare(&mut story);
        story.hears(Event::Stop);
        story.the_told_end();
        assert_eq!((story.ended, story.tree.wake()), (Some(0), None), "{}", story.states());
        assert!(!story.tree.kids().iter().any(|kid| kid.state.lives()));
    };
    stops(&|_| {});
    stops(&|story| drop(story.exits("b", 1)));
    stops(&|story| {
        story.exits("b", 1);
        story.the_told_end();
    });
    stops(&|story| {
        story.exits("b", 1);
        story.the_told_end();
        story.reaches_deadline();
    });
    stops(&|story| drop(story.tree.stop("b", story.now)));
    stops(&|story| drop(story.hears(Event::Exited(1, 1))));
}

#[test]
fn whoever_is_in_a_hurry_kills_all_at_once_and_never_twice() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b c", Keep::Permanent));
    story.hears(Event::Stop);
    story.hears(Event::Kill);
    assert_eq!(story.told(), "-c !a !b !c");
    story.hears(Event::Kill);
    assert_eq!((story.told().as_str(), story.armed()), ("", None));
    story.the_told_end();
    assert_eq!(story.ended, Some(0));
}

#[test]
fn what_a_dead_child_left_behind_has_its_time_before_the_next_start() {
    let spec = Spec { shutdown: secs(4000), ..child("a", Keep::Permanent) };
    let mut story = Story::runs(Strategy::OneForOne, vec![spec]);
    let a = story.key("a");
    story.hears(Event::Exited(a, 137));
    story.passes(SHUTDOWN - secs(1));
    assert_eq!((story.told().as_str(), story.state("a")), ("~a", "clearing"));
    assert_eq!(story.armed(), Some(secs(1)), "its own time, not that of the stop of all below it");
    story.reaches_deadline();
    assert_eq!(story.told(), "xa");
    story.reaches_deadline();
    assert_eq!(story.told(), "+a", "what survives KILL survives waiting too");
}
