//! Each strategy × each type of restart × each end.

use super::*;

/// The second of three ends; what is done to whom until all is quiet, and where they are then.
fn second_of_three_ends(strategy: Strategy, keep: Keep, code: u8) -> (String, String) {
    let mut story = Story::runs(strategy, children("a b c", keep));
    story.exits("b", code);
    story.the_told_end();
    while story.armed().is_some() {
        story.reaches_deadline();
        story.all_get_ready();
    }
    (story.told(), story.states())
}

#[test]
fn the_table() {
    use Keep::*;
    use Strategy::*;
    const CLEAN: u8 = 0;
    const FAILED: u8 = 1;
    const KILLED: u8 = 137;
    let all = "ready ready ready";
    let alone = ("~b +b", all);
    let with_all = ("~b -c ~c -a ~a +a +b +c", all);
    let with_rest = ("~b -c ~c +b +c", all);
    let stays = ("~b", "ready ended ready");
    // Whoever has ended in a pool makes room.
    let leaves = ("~b", "ready ready");
    for (strategy, keep, code, expected) in [
        (OneForOne, Permanent, CLEAN, alone),
        (OneForOne, Permanent, FAILED, alone),
        (OneForOne, Permanent, KILLED, alone),
        (OneForOne, Transient, CLEAN, stays),
        (OneForOne, Transient, FAILED, alone),
        (OneForOne, Transient, KILLED, alone),
        (OneForOne, Temporary, CLEAN, stays),
        (OneForOne, Temporary, FAILED, stays),
        (OneForOne, Temporary, KILLED, stays),
        (OneForAll, Permanent, CLEAN, with_all),
        (OneForAll, Permanent, FAILED, with_all),
        (OneForAll, Permanent, KILLED, with_all),
        (OneForAll, Transient, CLEAN, stays),
        (OneForAll, Transient, FAILED, with_all),
        (OneForAll, Transient, KILLED, with_all),
        (OneForAll, Temporary, CLEAN, stays),
        (OneForAll, Temporary, FAILED, stays),
        (OneForAll, Temporary, KILLED, stays),
        (RestForOne, Permanent, CLEAN, with_rest),
        (RestForOne, Permanent, FAILED, with_rest),
        (RestForOne, Permanent, KILLED, with_rest),
        (RestForOne, Transient, CLEAN, stays),
        (RestForOne, Transient, FAILED, with_rest),
        (RestForOne, Transient, KILLED, with_rest),
        (RestForOne, Temporary, CLEAN, stays),
        (RestForOne, Temporary, FAILED, stays),
        (RestForOne, Temporary, KILLED, stays),
        (Pool, Permanent, CLEAN, alone),
        (Pool, Permanent, FAILED, alone),
        (Pool, Permanent, KILLED, alone),
        (Pool, Transient, CLEAN, leaves),
        (Pool, Transient, FAILED, alone),
        (Pool, Transient, KILLED, alone),
        (Pool, Temporary, CLEAN, leaves),
        (Pool, Temporary, FAILED, leaves),
        (Pool, Temporary, KILLED, leaves),
    ] {
        let (told, states) = second_of_three_ends(strategy, keep, code);
        assert_eq!((told.as_str(), states.as_str()), expected, "{strategy:?} {keep:?} {code}");
    }
}

#[test]
fn a_restart_of_all_ends_one_after_the_other_and_starts_none_before_all_are_gone() {
    let mut story = Story::runs(Strategy::OneForAll, children("a b c", Keep::Permanent));
    story.exits("a", 1);
    assert_eq!(story.told(), "~a -c");
    let c = story.key("c");
    story.hears(Event::Exited(c, 143));
    assert_eq!(story.told(), "~c -b", "the next goes when the process is gone");
    story.exits("b", 143);
    story.passes(secs(1));
    assert_eq!((story.told().as_str(), story.states().as_str()), ("~b", "queued queued clearing"));
    story.hears(Event::Cleared(c));
    story.all_get_ready();
    assert_eq!(story.told(), "+a +b +c", "nobody meets what another left behind");
}

#[test]
fn what_has_ended_for_good_is_not_called_back_by_the_end_of_another() {
    let mut specs = children("a b", Keep::Permanent);
    specs.extend([child("once", Keep::Transient), child("drone", Keep::Temporary)]);
    let mut story = Story::runs(Strategy::OneForAll, specs);
    story.exits("once", 0);
    story.exits("drone", 1);
    story.exits("a", 1);
    story.the_told_end();
    story.reaches_deadline();
    story.all_get_ready();
    assert_eq!(story.told(), "~once ~drone ~a -b ~b +a +b");
    assert_eq!(story.states(), "ready ready ended ended");
}

/// With its own end it would have been gone for good; this one was not its own.
#[test]
fn a_temporary_child_that_is_stopped_for_another_is_started_with_it() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut specs = children("a", Keep::Permanent);
        specs.extend([child("t", Keep::Temporary), needing("c", &["t"])]);
        let mut story = Story::runs(strategy, specs);
        story.exits("a", 1);
        story.the_told_end();
        story.reaches_deadline();
        assert_eq!(story.told(), "~a -c ~c -t ~t +a", "{strategy:?}: c does not go before t");
        story.all_get_ready();
        assert_eq!(story.told(), "+t +c", "{strategy:?}");
    }
}

#[test]
fn a_failure_while_others_are_being_stopped_is_part_of_the_same_restart() {
    let mut story = Story::runs(Strategy::OneForAll, children("a b c", Keep::Permanent));
    story.exits("b", 1);
    let effects = story.exits("a", 1);
    assert!(effects.contains(&Effect::TellExit(0, 1, Sequel::WithOthers)), "{effects:?}");
    assert_eq!(story.tree.recent(story.now), 1);
    story.the_told_end();
    story.reaches_deadline();
    story.all_get_ready();
    assert_eq!(story.told(), "~b -c ~a ~c +a +b +c");
}

#[test]
fn a_failure_before_the_tail_that_is_being_restarted_makes_it_longer() {
    let mut story = Story::runs(Strategy::RestForOne, children("a b c d", Keep::Permanent));
    story.exits("c", 1);
    assert_eq!(story.told(), "~c -d");
    story.exits("b", 1);
    story.the_told_end();
    assert_eq!(story.tree.recent(story.now), 2);
    story.reaches_deadline();
    story.all_get_ready();
    assert_eq!(story.told(), "~b ~d +b +c +d");
    assert_eq!(story.state("a"), "ready");
}

#[test]
fn each_further_restart_of_a_child_waits_twice_as_long_up_to_the_cap() {
    let rules = Rules { max_restarts: 9, wait: secs(2), max_wait: secs(10), ..rules(Strategy::OneForOne) };
    let mut story = Story::begins(rules, children("a b", Keep::Permanent));
    story.all_get_ready();
    for expected in [2, 4, 8, 10, 10] {
        story.exits("a", 1);
        assert_eq!(story.armed(), Some(secs(expected)));
        story.reaches_deadline();
        story.all_get_ready();
    }
    story.exits("b", 1);
    assert_eq!(story.armed(), Some(secs(2)), "each counts its own");
    story.reaches_deadline();
    story.passes(secs(300));
    story.exits("a", 1);
    assert_eq!(story.armed(), Some(secs(2)), "what is long ago is forgotten");
}
