//! What somebody asks of one child.

use super::*;

#[test]
fn a_stopped_child_stays_away_until_it_is_started() {
    let mut story = Story::runs(Strategy::OneForAll, children("a b", Keep::Permanent));
    let effects = story.tree.stop("b", story.now).unwrap();
    story.perform(&effects);
    story.exits("b", 143);
    story.passes(secs(1000));
    assert_eq!((story.told().as_str(), story.states().as_str()), ("-b ~b", "ready stopped"));
    let effects = story.tree.start("b", story.now).unwrap();
    story.perform(&effects);
    assert_eq!((story.told().as_str(), story.tree.recent(story.now)), ("+b", 0));
    assert_eq!(story.tree.named("b").unwrap().restarts, 1);
}

/// Over the child's own socket, so that the node learns of it when it has ended.
#[test]
fn a_child_whose_own_supervisor_was_asked_to_stop_rests_and_counts_as_nothing() {
    for (strategy, keep) in
        Strategy::ALL.into_iter().flat_map(|strategy| Keep::ALL.map(|keep| (strategy, keep)))
    {
        let mut story = Story::runs(strategy, children("a b", keep));
        for _ in 0..9 {
            let key = story.key("a");
            let effects = story.hears(Event::Dismissed(key, 143));
            assert!(effects.contains(&Effect::TellExit(key, 143, Sequel::Dismissed)), "{effects:?}");
            story.hears(Event::Cleared(key));
            assert_eq!((story.told().as_str(), story.states().as_str()), ("~a", "stopped ready"));
            story.passes(secs(1000));
            let effects = story.tree.start("a", story.now).unwrap();
            story.perform(&effects);
            story.all_get_ready();
            assert_eq!((story.told().as_str(), story.ended), ("+a", None), "{strategy:?} {keep:?}");
        }
        assert_eq!(story.tree.recent(story.now), 0);
    }
}

#[test]
fn what_the_node_wants_of_a_child_goes_before_what_a_caller_of_that_wanted() {
    let mut story = Story::runs(Strategy::OneForAll, children("a b", Keep::Permanent));
    story.tree.restart("a", story.now).unwrap();
    let key = story.key("a");
    story.hears(Event::Dismissed(key, 143));
    story.hears(Event::Cleared(key));
    assert_eq!(story.state("a"), "starting");
    story.all_get_ready();
    story.exits("b", 1);
    story.hears(Event::Dismissed(key, 143));
    story.hears(Event::Cleared(key));
    story.passes(secs(1));
    assert_eq!(story.states(), "starting queued", "it was to be started again with the other");
    story.hears(Event::Stop);
    story.hears(Event::Dismissed(key, 143));
    assert_eq!(story.ended, Some(0));
}

#[test]
fn a_restart_that_was_asked_for_is_no_failure_and_of_it_alone() {
    let mut story = Story::runs(Strategy::OneForAll, children("a b", Keep::Permanent));
    for _ in 0..20 {
        let effects = story.tree.restart("a", story.now).unwrap();
        story.perform(&effects);
        story.exits("a", 143);
        story.all_get_ready();
        assert_eq!(story.told(), "-a ~a +a");
    }
    assert_eq!(story.tree.recent(story.now), 0);
}

#[test]
fn the_last_word_counts() {
    let mut story = Story::runs(Strategy::OneForOne, children("a b", Keep::Permanent));
    story.tree.stop("a", story.now).unwrap();
    story.tree.start("a", story.now).unwrap();
    story.exits("a", 143);
    assert_eq!(story.state("a"), "starting");
    story.exits("b", 1);
    assert_eq!(story.state("b"), "backoff");
    story.tree.start("b", story.now).unwrap();
    assert_eq!(story.state("b"), "starting", "whoever asks does not wait");
    story.exits("b", 1);
    story.tree.stop("b", story.now).unwrap();
    assert_eq!((story.state("b"), story.armed()), ("stopped", None));
}

#[test]
fn only_a_pool_takes_in_and_lets_go() {
    let mut story = Story::runs(Strategy::OneForOne, children("a", Keep::Permanent));
    assert_eq!(story.tree.add(child("b", Keep::Permanent), story.now), Err(Refusal::NoPool));
    assert_eq!(story.tree.remove("a", story.now), Err(Refusal::NoPool));
    assert_eq!(story.tree.stop("z", story.now), Err(Refusal::Unknown));
    story.hears(Event::Stop);
    assert_eq!(story.tree.start("a", story.now), Err(Refusal::Leaving));
}

#[test]
fn a_pool_of_a_hundred_that_do_one_task_and_end() {
    let mut story = Story::begins(rules(Strategy::Pool), vec![]);
    for n in 0..100 {
        let (key, effects) = story.tree.add(child(&format!("d{n}"), Keep::Temporary), story.now).unwrap();
        assert_eq!(effects, [Effect::Spawn(key)]);
        story.gets_ready(&format!("d{n}"));
    }
    let twice = story.tree.add(child("d7", Keep::Temporary), story.now);
    assert_eq!(twice, Err(Refusal::Duplicate));
    for n in (0..100).rev() {
        story.exits(&format!("d{n}"), u8::from(n % 10 == 0));
    }
    assert_eq!((story.tree.kids().len(), story.tree.done, story.tree.failed), (0, 90, 10));
    assert_eq!((story.ended, story.tree.recent(story.now)), (None, 0));
}

#[test]
fn whoever_was_refused_takes_no_place_in_a_pool() {
    let rules = Rules { max_children: 2, ..rules(Strategy::Pool) };
    let mut story = Story::begins(rules, children("a b", Keep::Permanent));
    story.gets_ready("b");
    story.exits("a", 78);
    assert_eq!(story.states(), "refused ready");
    assert!(story.tree.add(child("c", Keep::Permanent), story.now).is_ok());
    assert_eq!(story.tree.add(child("d", Keep::Permanent), story.now), Err(Refusal::TooMany));
    story.exits("c", 78);
    for id in ["d", "e", "f"] {
        story.tree.add(child(id, Keep::Permanent), story.now).unwrap();
        story.exits(id, 78);
    }
    assert_eq!(story.states(), "ready refused refused refused", "who was refused first is forgotten");
}

#[test]
fn a_pool_has_a_limit_and_a_removed_child_makes_room() {
    let rules = Rules { max_children: 2, ..rules(Strategy::Pool) };
    let mut story = Story::begins(rules, children("a b", Keep::Permanent));
    story.all_get_ready();
    assert_eq!(story.tree.add(child("c", Keep::Permanent), story.now), Err(Refusal::TooMany));
    story.tree.remove("a", story.now).unwrap();
    assert_eq!(story.state("a"), "stopping");
    let effects = story.exits("a", 143);
    assert!(effects.contains(&Effect::Forget(0)), "{effects:?}");
    assert_eq!(story.state("a"), "gone");
    assert!(story.tree.add(child("c", Keep::Permanent), story.now).is_ok());
}

/// What people are told while it is being cleared is still true when it is.
#[test]
fn whoever_can_be_called_back_is_there_to_be_started() {
    use Keep::{Permanent, Temporary};
    let begins = |strategy, specs: Vec<Spec>| Story::begins(rules(strategy), specs);
    let waits = || vec![child("t", Temporary), needing("w", &["t"])];
    for strategy in Strategy::ALL {
        let is_pool = strategy == Strategy::Pool;
        for (others, code, is_ready, expected) in [
            (children("b", Permanent), 1, true, !is_pool),
            (children("b", Permanent), 78, false, true),
            (vec![], 1, true, false),
            (vec![], 78, false, is_pool),
        ] {
            let mut story = begins(strategy, [vec![child("t", Temporary)], others].concat());
            if is_ready {
                story.all_get_ready();
            }
            let t = story.key("t");
            story.hears(Event::Exited(t, code));
            assert_eq!(story.tree.can_be_called_back(t), expected, "{strategy:?} {code} {is_ready}");
            story.hears(Event::Cleared(t));
            assert_eq!(story.tree.start("t", story.now).is_ok(), expected, "{strategy:?} {code} {is_ready}");
        }
    }
    // Whoever waits for it in vain keeps no node, and whoever was stopped does.
    let mut story = begins(Strategy::OneForOne, waits());
    let t = story.key("t");
    story.hears(Event::Exited(t, 1));
    assert!(!story.tree.can_be_called_back(t));
    let mut story = begins(Strategy::OneForOne, waits());
    story.tree.stop("w", story.now).unwrap();
    story.hears(Event::Exited(t, 1));
    assert!(story.tree.can_be_called_back(t));
}
