//! DESIGN §4 “Stop” and the exit codes of §2, from every phase.

use super::*;

const DOCKER: i32 = 0;
const SHELL: i32 = 4242;

/// One story for each phase in which a stop can find it, and the code that an ending then has: the
/// agent's last one, 0 if it never ran.
pub(super) fn every_phase(timeout: Option<Duration>) -> Vec<(&'static str, Story, u8)> {
    let rules = || Rules { timeout, on_clean: OnClean::Prompt, ..rules() };
    let asks = || Rules { asks_before_spawn: true, ..rules() };

    let clearing = Story::begins(rules());
    let mut preparing = Story::begins(asks());
    preparing.hears(Event::LeftoversGone);
    let mut preparing_again = Story::begins(asks());
    preparing_again.hears(Event::LeftoversGone);
    preparing_again.hears(Event::Prepared { agreed: true });
    preparing_again.exits(3);
    preparing_again.reaches_deadline();
    let mut waiting = Story::runs(rules());
    waiting.exits(4);
    let mut away = Story::runs(rules());
    away.hears(Event::AwayAsked);
    away.hears(Event::Exited(code(6)));
    let mut asking = Story::runs(rules());
    asking.exits(0);
    let no_retry = Numbers { no_retry: vec![5], ..Numbers::default() };
    let mut halted = Story::runs(Rules { numbers: no_retry.clone(), ..rules() });
    halted.exits(5);
    let mut telling =
        Story::runs(Rules { numbers: no_retry, on_halt: OnHalt::Exit, notifies: true, ..rules() });
    telling.exits(5);
    let mut cannot_start = Story::begins(Rules { notifies: true, ..rules() });
    cannot_start.only_hears(Event::LeftoversGone);
    cannot_start.fails_to_spawn(127);
    assert!(matches!(cannot_start.life.phase(), Phase::Telling { .. }));
    vec![
        ("clearing", clearing, 0),
        ("preparing", preparing, 0),
        ("preparing again", preparing_again, 3),
        ("waiting", waiting, 4),
        ("away", away, 6),
        ("asking", asking, 0),
        ("halted", halted, 5),
        ("telling", telling, 5),
        ("telling that it cannot start", cannot_start, 127),
    ]
}

/// The phases with an agent to end.
pub(super) fn with_an_agent(timeout: Option<Duration>) -> Vec<(&'static str, Story)> {
    let rules = || Rules { timeout, ..rules() };
    let mut starting = Story::begins(rules());
    starting.only_hears(Event::LeftoversGone);
    let running = Story::runs(rules());
    let mut running_again = Story::runs(rules());
    running_again.exits(1);
    running_again.reaches_deadline();
    vec![("starting", starting), ("running", running), ("running again", running_again)]
}

fn stopping(timed_out: bool) -> [Effect; 2] {
    [Effect::TellStopping { timed_out }, Effect::Tree(Order::Term)]
}

#[test]
fn a_stop_without_an_agent_ends_with_the_last_code() {
    for (phase, mut story, code) in every_phase(None) {
        assert_eq!(story.stop_is_asked_by(DOCKER), stopping(false), "{phase}");
        assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)), "{phase}");
        assert_eq!(story.sequel(), Ends(code), "{phase}");
    }
}

#[test]
fn a_stop_with_an_agent_ends_with_the_code_of_that_end() {
    for exit in [0, 7, 143] {
        for (phase, mut story) in with_an_agent(None) {
            assert_eq!(story.stop_is_asked_by(DOCKER), stopping(false), "{phase}");
            let kept = story.life.history().exits().count();
            story.passes(secs(1));
            let effects = story.hears(Event::Exited(code(exit)));
            let (class, ran) = (Class::Asked, story.last_exit().ran);
            assert_eq!(
                effects,
                [Effect::TellExit { class, end: code(exit), ran }, Effect::Tree(Order::Term)],
                "{phase}"
            );
            assert_eq!(ran, secs(1));
            assert_eq!(story.life.history().exits().count(), kept + 1);
            assert_eq!(story.sequel(), Ends(exit), "{phase}");
        }
    }
}

#[test]
fn an_exit_that_was_asked_for_counts_as_none() {
    let mut story = Story::runs(rules());
    story.exits(1);
    story.reaches_deadline();
    story.stop_is_asked_by(DOCKER);
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.life.history().in_a_row(), 1);
}

#[test]
fn a_spawn_that_fails_while_stopping_gives_its_code() {
    let mut story = Story::begins(rules());
    story.only_hears(Event::LeftoversGone);
    story.stop_is_asked_by(DOCKER);
    story.hears(Event::SpawnFailed { code: 127 });
    assert_eq!(story.sequel(), Ends(127));
}

#[test]
fn the_grace_is_spent_on_the_agent_then_on_the_rest_then_given_up() {
    let mut story = Story::runs(rules());
    story.stop_is_asked_by(DOCKER);
    assert_eq!(story.reaches_deadline(), [Effect::Tree(Order::KillAgent), Effect::Tree(Order::Term)]);
    story.hears(Event::Exited(code(137)));
    assert_eq!(story.armed(), Some((secs(2), Why::GraceOver)));
    assert_eq!(story.reaches_deadline(), [Effect::Tree(Order::KillAll)]);
    assert_eq!(story.armed(), Some((secs(1), Why::GraceOver)));
    assert_eq!(story.reaches_deadline(), [Effect::Tree(Order::GiveUp), Effect::End(137)]);
}

#[test]
fn an_agent_that_survives_kill_ends_as_killed() {
    for (phase, mut story) in with_an_agent(None) {
        story.stop_is_asked_by(DOCKER);
        story.passes(GRACE);
        story.hears(Event::Due);
        assert_eq!(story.reaches_deadline().last(), Some(&Effect::End(137)), "{phase}");
    }
}

#[test]
fn a_timeout_ends_with_124_whatever_it_finds() {
    let timeout = Some(secs(1_000));
    let with_an_agent = with_an_agent(timeout).into_iter().map(|(phase, story)| (phase, story, 143));
    for (phase, mut story, _) in every_phase(timeout).into_iter().chain(with_an_agent) {
        story.passes(secs(1_000));
        assert_eq!(story.hears(Event::Due), stopping(true), "{phase}");
        story.hears(Event::Exited(code(143)));
        assert_eq!(story.sequel(), Ends(124), "{phase}");
    }
}

#[test]
fn a_timeout_is_armed_from_the_start_and_across_restarts() {
    let mut story = Story::begins(Rules { timeout: Some(secs(5)), ..rules() });
    assert_eq!(story.armed(), Some((secs(5), Why::Timeout)));
    story.hears(Event::LeftoversGone);
    story.runs_for(secs(1)).exits(1);
    assert_eq!(story.armed(), Some((secs(2), Why::Restart)));
    story.reaches_deadline();
    assert_eq!(story.armed(), Some((secs(2), Why::Timeout)));
    assert_eq!(story.reaches_deadline(), stopping(true));
}

#[test]
fn a_timeout_does_not_cut_a_stop_short_nor_change_its_code() {
    let mut story = Story::runs(Rules { timeout: Some(secs(5)), ..rules() });
    story.passes(secs(4));
    story.stop_is_asked_by(DOCKER);
    story.passes(secs(2));
    assert_eq!(story.hears(Event::Due), []);
    assert_eq!(story.armed(), Some((secs(4), Why::GraceOver)));
    story.hears(Event::Exited(code(0)));
    assert_eq!(story.sequel(), Ends(0));
}

#[test]
fn a_second_request_hurries_but_one_that_came_twice_does_not() {
    let hurried = vec![Effect::Tree(Order::KillAll)];
    for (sender, later, effects) in [
        (SHELL, NO_TIME, vec![]),
        (SHELL, millis(19), vec![]),
        (SHELL, millis(20), hurried.clone()),
        (SHELL, secs(3), hurried.clone()),
        (DOCKER, NO_TIME, hurried.clone()),
        (DOCKER, millis(19), hurried),
    ] {
        let mut story = Story::runs(rules());
        story.stop_is_asked_by(SHELL);
        story.passes(later);
        assert_eq!(story.stop_is_asked_by(sender), effects, "{sender} after {later:?}");
    }
}

#[test]
fn a_hurried_stop_ends_within_a_second_and_hears_no_third_request() {
    let mut story = Story::runs(rules());
    story.stop_is_asked_by(SHELL);
    story.passes(secs(1));
    story.stop_is_asked_by(SHELL);
    story.passes(millis(500));
    assert_eq!(story.stop_is_asked_by(SHELL), []);
    assert_eq!(story.armed(), Some((millis(500), Why::GraceOver)));
    story.hears(Event::Exited(code(137)));
    assert_eq!(story.reaches_deadline(), [Effect::Tree(Order::GiveUp), Effect::End(137)]);
}

#[test]
fn the_first_request_after_an_end_that_nobody_asked_for_does_not_hurry() {
    let mut ended_by_itself = Story::runs(rules());
    ended_by_itself.exits(0);
    let mut timed_out = Story::runs(Rules { timeout: Some(secs(1)), ..rules() });
    timed_out.reaches_deadline();
    for mut story in [ended_by_itself, timed_out] {
        story.passes(secs(1));
        assert_eq!(story.stop_is_asked_by(SHELL), []);
        story.passes(secs(1));
        assert_eq!(story.stop_is_asked_by(SHELL), [Effect::Tree(Order::KillAll)]);
    }
}

#[test]
fn a_long_grace_and_a_long_timeout_are_as_good_as_any() {
    let mut story =
        Story::runs(Rules { grace: LONGEST, leftovers: LONGEST, timeout: Some(LONGEST), ..rules() });
    story.stop_is_asked_by(SHELL);
    assert_eq!(story.armed(), Some((LONGEST * 3 / 4, Why::GraceOver)));
    for _ in 0..3 {
        story.reaches_deadline();
    }
    assert_eq!(story.life.phase(), &Phase::Ended);
}

#[test]
fn a_closing_window_says_so_several_times_and_is_not_impatient() {
    let mut story = Story::runs(rules());
    assert_eq!(story.only_hears(Event::TerminalGone).last(), Some(&Effect::Tree(Order::Term)));
    assert_eq!(story.only_hears(Event::TerminalGone), []);
    story.passes(Duration::from_secs(1));
    assert_eq!(story.only_hears(Event::TerminalGone), []);
    assert_eq!(story.only_hears(Event::StopAsked { sender: 7 }), []);
    story.passes(Duration::from_secs(1));
    assert_eq!(story.only_hears(Event::StopAsked { sender: 7 }), [Effect::Tree(Order::KillAll)]);
}
