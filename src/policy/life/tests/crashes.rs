//! DESIGN §5, row by row.

use super::*;
use crate::policy::crash::HaltReason;

/// Fails in no time until it has failed `times` in a row, and waits out what follows.
fn fails(story: &mut Story, times: u32) {
    for _ in 0..times {
        story.exits(1);
        story.reaches_deadline();
    }
}

fn halted(rules: Rules) -> Story {
    let mut story = Story::runs(rules);
    fails(&mut story, 4);
    story.exits(1);
    story
}

#[test]
fn an_exit_leads_where_restart_and_on_clean_say() {
    let soon = Waits(secs(2), Next::Continue);
    for (restart, on_clean, exit, sequel) in [
        (Restart::OnFailure, OnClean::Exit, 0, Ends(0)),
        (Restart::OnFailure, OnClean::Prompt, 0, Asks),
        (Restart::OnFailure, OnClean::Restart, 0, soon),
        (Restart::Always, OnClean::Exit, 0, Ends(0)),
        (Restart::Always, OnClean::Prompt, 0, Asks),
        (Restart::Always, OnClean::Restart, 0, soon),
        (Restart::No, OnClean::Exit, 0, Ends(0)),
        (Restart::No, OnClean::Prompt, 0, Ends(0)),
        (Restart::No, OnClean::Restart, 0, Ends(0)),
        (Restart::OnFailure, OnClean::Exit, 3, soon),
        (Restart::OnFailure, OnClean::Prompt, 3, soon),
        (Restart::OnFailure, OnClean::Restart, 3, soon),
        (Restart::Always, OnClean::Exit, 3, soon),
        (Restart::Always, OnClean::Prompt, 3, soon),
        (Restart::Always, OnClean::Restart, 3, soon),
        (Restart::No, OnClean::Exit, 3, Ends(3)),
        (Restart::No, OnClean::Prompt, 3, Ends(3)),
        (Restart::No, OnClean::Restart, 3, Ends(3)),
        (Restart::OnFailure, OnClean::Exit, 139, soon),
        (Restart::No, OnClean::Exit, 139, Ends(139)),
    ] {
        let mut story = Story::runs(Rules { restart, on_clean, ..rules() });
        story.exits(exit);
        assert_eq!(story.sequel(), sequel, "{restart:?} {on_clean:?} {exit}");
        assert_eq!(story.life.health(), Health::Healthy);
    }
}

#[test]
fn failures_are_transient_then_flapping_and_the_fifth_in_a_row_halts() {
    let mut story = Story::runs(rules());
    for (class, wait, health) in [
        (Class::Transient, secs(2), Health::Healthy),
        (Class::Transient, secs(2), Health::Healthy),
        (Class::Flapping, secs(30), Health::Degraded),
        (Class::Flapping, secs(30), Health::Degraded),
    ] {
        let effects = story.exits(1);
        let next = Next::Continue;
        assert_eq!(effects[0], Effect::TellExit { class, end: code(1), ran: NO_TIME });
        // Every second spawn is a continue, and it fails too soon to prove itself.
        let next = if effects.contains(&Effect::TellContinueFailed) { Next::Fresh } else { next };
        assert_eq!(effects.last(), Some(&Effect::TellRestart { class, wait, next }));
        assert_eq!(story.armed(), Some((wait, Why::Restart)));
        assert_eq!(story.life.health(), health);
        story.reaches_deadline();
    }
    let effects = story.exits(1);
    assert_eq!(
        effects,
        [
            Effect::TellExit { class: Class::Fatal, end: code(1), ran: NO_TIME },
            Effect::TellHalt(HaltReason::FailuresInARow(5)),
        ]
    );
    assert_eq!((story.life.phase(), story.life.health()), (&Phase::Halted, Health::Halted));
    assert_eq!(story.armed(), None);
    assert_eq!(story.life.restarts(), 4);
}

#[test]
fn failures_far_apart_stay_transient_and_still_halt() {
    let mut story = Story::runs(rules());
    for _ in 0..4 {
        story.runs_for(secs(119)).exits(1);
        assert_eq!(story.last_exit().class, Class::Transient);
        story.reaches_deadline();
    }
    story.runs_for(secs(119)).exits(1);
    assert_eq!(story.sequel(), Halts);
}

#[test]
fn waits_that_outgrow_the_window_do_not_hide_the_row() {
    let numbers = Numbers { transient_wait: secs(90), flapping_wait: secs(90), ..Numbers::default() };
    assert_eq!(halted(Rules { numbers, ..rules() }).sequel(), Halts);
}

#[test]
fn a_failure_is_flapping_while_two_others_are_less_than_a_window_old() {
    for (third_runs_for, class) in [(millis(55_999), Class::Flapping), (secs(56), Class::Transient)] {
        let mut story = Story::runs(rules());
        fails(&mut story, 2); // at 0 s and at 2 s; the third run begins at 4 s
        story.runs_for(third_runs_for).exits(1);
        assert_eq!(story.last_exit().class, class, "{third_runs_for:?}");
    }
}

#[test]
fn only_a_run_longer_than_stable_after_ends_the_row() {
    let mut story = Story::runs(rules());
    fails(&mut story, 4);
    story.runs_for(secs(120)).exits(1);
    assert_eq!(story.sequel(), Halts);

    let mut story = Story::runs(rules());
    fails(&mut story, 4);
    story.runs_for(millis(120_001)).exits(1);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
    assert_eq!(story.life.history().in_a_row(), 1);
    assert_eq!(story.life.health(), Health::Healthy);
}

#[test]
fn a_clean_exit_ends_the_row() {
    let mut story = Story::runs(always());
    fails(&mut story, 4);
    story.exits(0);
    assert_eq!(story.life.history().in_a_row(), 0);
    story.reaches_deadline();
    fails(&mut story, 4);
    story.exits(1);
    assert_eq!(story.sequel(), Halts);
}

#[test]
fn a_clean_exit_after_a_stable_run_waits_for_nothing() {
    let mut story = Story::runs(always());
    story.runs_for(millis(120_001)).exits(0);
    assert_eq!(story.armed(), Some((NO_TIME, Why::Restart)));
    story.reaches_deadline();
    assert_eq!(story.runs_as(), Next::Continue);
}

#[test]
fn early_clean_exits_wait_like_failures_of_the_same_frequency_and_never_halt() {
    let mut story = Story::runs(always());
    // The fifth comes at 64 s: only the one at 34 s is left beside it, so its wait is short again.
    for wait in [2, 2, 30, 30, 2, 30, 30, 2, 30, 30, 2] {
        story.exits(0);
        assert_eq!(story.sequel(), Waits(secs(wait), Next::Continue));
        assert_eq!((story.last_exit().class, story.life.health()), (Class::Clean, Health::Healthy));
        story.reaches_deadline();
    }
}

#[test]
fn early_clean_exits_make_a_failure_among_them_flap() {
    let mut story = Story::runs(always());
    for exit in [0, 0] {
        story.exits(exit);
        story.reaches_deadline();
    }
    story.exits(1);
    assert_eq!(story.last_exit().class, Class::Flapping);
    assert_eq!(story.armed(), Some((secs(30), Why::Restart)));
}

#[test]
fn a_code_in_no_retry_halts_at_once() {
    let numbers = Numbers { no_retry: vec![42, 137], ..Numbers::default() };
    for exit in [42, 137] {
        let mut story = Story::runs(Rules { numbers: numbers.clone(), ..rules() });
        assert!(story.exits(exit).contains(&Effect::TellHalt(HaltReason::NoRetry(exit))));
        assert_eq!((story.life.health(), story.armed()), (Health::Halted, None));
        assert_eq!(story.sequel(), Halts);
        story.hears(Event::Quit);
        assert_eq!(story.sequel(), Ends(exit));
    }
    let mut story = Story::runs(Rules { numbers: numbers.clone(), restart: Restart::No, ..rules() });
    story.exits(42);
    assert_eq!(story.sequel(), Ends(42));
    let mut story = Story::runs(Rules { numbers, ..rules() });
    story.exits(41);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
}

#[test]
fn on_halt_exit_ends_with_the_last_failures_code() {
    let mut story = Story::runs(Rules { on_halt: OnHalt::Exit, ..rules() });
    for failure in [1, 2, 3, 4] {
        story.exits(failure);
        story.reaches_deadline();
    }
    story.exits(5);
    assert_eq!(story.life.health(), Health::Halted);
    assert_eq!(story.sequel(), Ends(5));
}

#[test]
fn a_halt_is_notified_when_there_is_somebody_to_notify() {
    let notify = Effect::Notify(HaltReason::FailuresInARow(5));
    for (on_halt, notifies, notified) in [
        (OnHalt::Wait, true, true),
        (OnHalt::Wait, false, false),
        (OnHalt::Exit, true, true),
        (OnHalt::Exit, false, false),
    ] {
        let mut story = Story::runs(Rules { on_halt, notifies, ..rules() });
        fails(&mut story, 4);
        assert_eq!(story.exits(1).contains(&notify), notified, "{on_halt:?} {notifies}");
    }
}

#[test]
fn an_exit_after_a_halt_waits_for_the_notifier_but_not_for_long() {
    let mut story = halted(Rules { on_halt: OnHalt::Exit, notifies: true, ..rules() });
    assert_eq!(story.hears(Event::Notified), [Effect::Tree(Order::Term)]);
    assert_eq!(story.sequel(), Ends(1));

    let mut story = halted(Rules { on_halt: OnHalt::Exit, notifies: true, ..rules() });
    assert_eq!(story.armed(), Some((secs(10), Why::HelperTooSlow)));
    assert_eq!(story.reaches_deadline(), [Effect::AbandonHelper, Effect::Tree(Order::Term)]);
    assert_eq!(story.sequel(), Ends(1));
}

#[test]
fn what_cannot_be_started_ends_at_once_with_its_code() {
    for cause in [125, 126, 127, 78] {
        for (on_halt, restart) in
            [(OnHalt::Wait, Restart::Always), (OnHalt::Exit, Restart::OnFailure), (OnHalt::Wait, Restart::No)]
        {
            let mut story = Story::begins(Rules { on_halt, restart, ..rules() });
            assert_eq!(story.only_hears(Event::LeftoversGone), [Effect::Spawn(Next::Fresh)]);
            let effects = story.fails_to_spawn(cause);
            assert_eq!(effects[0], Effect::TellHalt(HaltReason::CannotStart(cause)));
            assert_eq!(story.last_exit().class, Class::Fatal);
            assert_eq!(story.sequel(), Ends(cause));
        }
    }
}

#[test]
fn a_failed_spawn_after_one_that_worked_counts_as_a_failure() {
    for cause in [126, 127, 78] {
        let mut story = Story::runs(rules());
        story.exits(1);
        for (n, wait) in [(2, 2), (3, 30), (4, 30)] {
            story.passes(story.armed().expect("a restart is armed").0);
            assert!(matches!(story.only_hears(Event::Due)[..], [Effect::Spawn(_)]));
            story.fails_to_spawn(cause);
            assert_eq!(story.armed(), Some((secs(wait), Why::Restart)));
            assert_eq!(story.life.history().in_a_row(), n);
        }
        story.reaches_deadline();
        story.exits(1);
        assert_eq!(story.sequel(), Halts);
    }
}

#[test]
fn an_agent_that_itself_exits_with_127_has_been_started() {
    let mut story = Story::runs(rules());
    story.exits(127);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
}

#[test]
fn before_spawn_is_asked_each_time_and_a_refusal_is_a_failed_spawn() {
    let asks = || Rules { asks_before_spawn: true, ..rules() };
    let mut story = Story::begins(asks());
    assert_eq!(story.hears(Event::LeftoversGone), [Effect::AskBeforeSpawn(Next::Fresh)]);
    story.hears(Event::Prepared { agreed: false });
    assert_eq!(story.sequel(), Ends(78));

    let mut story = Story::begins(asks());
    story.hears(Event::LeftoversGone);
    assert_eq!(story.armed(), Some((secs(60), Why::HelperTooSlow)));
    assert_eq!(story.reaches_deadline()[0], Effect::AbandonHelper);
    assert_eq!(story.sequel(), Ends(78));

    let mut story = Story::begins(asks());
    story.hears(Event::LeftoversGone);
    story.hears(Event::Prepared { agreed: true });
    story.runs_for(secs(60)).exits(1);
    assert_eq!(story.reaches_deadline(), [Effect::AskBeforeSpawn(Next::Continue)]);
    story.hears(Event::Prepared { agreed: false });
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
    assert_eq!(story.life.history().in_a_row(), 2);
}

#[test]
fn a_continue_that_fails_within_ten_seconds_makes_the_next_spawn_fresh() {
    for (first, ran, exit, next) in [
        (Next::Continue, millis(9_999), 1, Next::Fresh),
        (Next::Continue, secs(10), 1, Next::Continue),
        (Next::Continue, NO_TIME, 0, Next::Continue),
        (Next::Fresh, NO_TIME, 1, Next::Continue),
    ] {
        let mut story = Story::runs(Rules { first, ..always() });
        let effects = story.runs_for(ran).exits(exit);
        let told = effects.contains(&Effect::TellContinueFailed);
        assert_eq!(told, next == Next::Fresh, "{first:?} {ran:?} {exit}");
        assert_eq!(story.sequel(), Waits(secs(2), next));
        story.reaches_deadline();
        assert_eq!(story.runs_as(), next);
    }
}

#[test]
fn a_continue_that_has_spoken_did_not_fail() {
    let mut story = Story::runs(Rules { first: Next::Continue, ..always() });
    let effects = story.runs_for(secs(1)).hears(Event::Exited(End { spoke: true, ..code(137) }));
    assert!(!effects.contains(&Effect::TellContinueFailed), "{effects:?}");
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
}

#[test]
fn a_failed_continue_is_told_between_the_exit_and_the_restart() {
    let mut story = Story::runs(Rules { first: Next::Continue, ..rules() });
    let (class, next) = (Class::Transient, Next::Fresh);
    assert_eq!(
        story.exits(1),
        [
            Effect::TellExit { class, end: code(1), ran: NO_TIME },
            Effect::TellContinueFailed,
            Effect::TellRestart { class, wait: secs(2), next },
        ]
    );
}

#[test]
fn a_failed_continue_is_not_told_when_nothing_follows() {
    let mut story = Story::runs(Rules { first: Next::Continue, restart: Restart::No, ..rules() });
    assert!(!story.exits(1).contains(&Effect::TellContinueFailed));
}

#[test]
fn a_failed_continue_that_halts_makes_the_retry_fresh() {
    let mut story = halted(Rules { first: Next::Continue, ..rules() });
    assert_eq!(story.sequel(), Halts);
    assert_eq!(story.hears(Event::Retry), [Effect::TellResumed, Effect::Spawn(Next::Fresh)]);
}

#[test]
fn a_failed_spawn_leaves_the_conversation_as_it_was() {
    let mut story = Story::runs(Rules { first: Next::Continue, ..rules() });
    story.exits(1);
    story.passes(secs(2));
    assert_eq!(story.only_hears(Event::Due), [Effect::Spawn(Next::Fresh)]);
    story.fails_to_spawn(78);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Fresh));

    let mut story = Story::runs(rules());
    story.exits(1);
    story.passes(secs(2));
    assert_eq!(story.only_hears(Event::Due), [Effect::Spawn(Next::Continue)]);
    story.fails_to_spawn(78);
    assert_eq!(story.sequel(), Waits(secs(2), Next::Continue));
}

#[test]
fn a_retry_does_not_wait() {
    let mut story = Story::runs(rules());
    story.exits(1);
    assert_eq!(story.hears(Event::Retry), [Effect::Spawn(Next::Continue)]);
    assert_eq!((story.life.restarts(), story.armed()), (1, None));

    let mut story = Story::runs(Rules { on_clean: OnClean::Prompt, ..rules() });
    assert_eq!(story.exits(0).last(), Some(&Effect::Ask));
    assert_eq!(story.armed(), None);
    assert_eq!(story.hears(Event::Retry), [Effect::Spawn(Next::Continue)]);
    assert_eq!(story.life.restarts(), 1);
}

#[test]
fn a_retry_after_a_halt_has_all_its_failures_before_it() {
    let mut story = halted(rules());
    assert_eq!(story.hears(Event::Retry), [Effect::TellResumed, Effect::Spawn(Next::Continue)]);
    assert_eq!(story.life.health(), Health::Healthy);
    story.exits(1);
    assert_eq!(story.last_exit().class, Class::Transient);
    story.reaches_deadline();
    fails(&mut story, 3);
    story.exits(1);
    assert_eq!(story.sequel(), Halts);
}

#[test]
fn a_retry_or_quit_while_it_runs_changes_nothing() {
    for event in [Event::Retry, Event::Quit] {
        let mut story = Story::runs(rules());
        assert_eq!(story.hears(event), []);
        story.is_running();
    }
}

#[test]
fn quit_ends_with_the_last_code() {
    let mut story = Story::runs(Rules { on_clean: OnClean::Prompt, ..rules() });
    story.exits(0);
    assert_eq!(story.hears(Event::Quit), [Effect::Tree(Order::Term)]);
    assert_eq!(story.sequel(), Ends(0));

    let mut story = Story::runs(rules());
    story.exits(9);
    story.hears(Event::Quit);
    assert_eq!(story.sequel(), Ends(9));

    let mut story = halted(rules());
    story.hears(Event::Quit);
    assert_eq!(story.sequel(), Ends(1));
}

#[test]
fn leftovers_are_cleared_first_and_at_most_for_the_grace_and_a_second() {
    let mut story = Story::begins(rules());
    assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)));
    let orders = |order| Effect::Leftovers(Whose::EarlierSupervisor, order);
    assert_eq!(story.reaches_deadline(), [orders(Order::Term)]);
    assert_eq!(story.reaches_deadline(), [orders(Order::KillAll)]);
    assert_eq!(story.reaches_deadline(), [orders(Order::GiveUp), Effect::Spawn(Next::Fresh)]);
    story.is_running();
}

#[test]
fn the_last_ten_exits_are_kept() {
    let mut story = Story::runs(always());
    for n in 0..12 {
        story.runs_for(secs(200 + n)).exits(0);
        story.reaches_deadline();
    }
    let ran: Vec<u64> = story.life.history().exits().map(|exit| exit.ran.as_secs()).collect();
    assert_eq!(ran, (202..212).collect::<Vec<u64>>());
}

#[test]
fn a_continue_that_had_nothing_to_continue_did_not_fail_as_one() {
    let mut story = Story::begins(rules());
    story.only_hears(Event::LeftoversGone);
    story.only_hears(Event::ExecDone { ran_as: Next::Fresh });
    let effects = story.only_hears(Event::Exited(code(1)));
    assert!(!effects.contains(&Effect::TellContinueFailed), "{effects:?}");
}

#[test]
fn an_exit_that_the_operator_typed_counts_as_none_and_leads_where_a_clean_one_does() {
    let typed = Event::Exited(End { asked: true, ..code(130) });
    let mut story = Story::runs(Rules { on_clean: OnClean::Prompt, ..rules() });
    for _ in 0..20 {
        assert_eq!(story.hears(typed).last(), Some(&Effect::Ask));
        assert_eq!((story.last_exit().class, story.life.history().in_a_row()), (Class::Asked, 0));
        story.hears(Event::Retry);
    }
    let mut story = Story::runs(Rules { on_clean: OnClean::Exit, ..rules() });
    story.hears(typed);
    assert_eq!(story.sequel(), Ends(130));
}

#[test]
fn with_halt_within_only_the_failures_of_that_time_are_counted() {
    let numbers = Numbers { halt_after: 3, halt_within: Some(secs(100)), ..Numbers::default() };
    let within = || Rules { numbers: numbers.clone(), ..always() };
    // Each run is shorter than `stable_after`, and yet there are never three in 100 s.
    let mut story = Story::runs(within());
    for _ in 0..20 {
        story.runs_for(secs(60)).exits(1);
        assert!(matches!(story.sequel(), Waits(..)));
        assert!(story.life.history().in_a_row() <= 2);
        story.reaches_deadline();
    }
    story.exits(1);
    assert_eq!(story.sequel(), Halts, "at once behind two that were a minute apart");
    // A halt that was forgiven begins to count anew.
    story.hears(Event::Retry);
    for _ in 0..2 {
        story.exits(1);
        assert!(matches!(story.sequel(), Waits(..)));
        story.reaches_deadline();
    }
    story.exits(1);
    assert_eq!(story.sequel(), Halts);
    let mut story = Story::runs(Rules { numbers: Numbers { halt_within: None, ..numbers }, ..always() });
    for _ in 0..2 {
        story.runs_for(secs(60)).exits(1);
        story.reaches_deadline();
    }
    story.runs_for(secs(60)).exits(1);
    assert_eq!(story.sequel(), Halts, "without it all of them are");
}
