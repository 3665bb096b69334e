//! A rule reaps: the agent is ended, and nothing starts until somebody resumes.

use super::*;

const REAP: Event = Event::ReapAsked { rule: "budget" };
const WHY: HaltReason = HaltReason::Rule("budget");

#[test]
fn a_reaped_agent_is_ended_kindly_and_halts_as_no_crash() {
    let mut story = Story::runs(rules());
    story.exits(1);
    story.reaches_deadline();
    story.passes(secs(3));
    assert_eq!(story.hears(REAP), [Effect::EndAgent(Order::Term)]);
    assert_eq!(story.hears(REAP), []);
    assert_eq!(story.hears(Event::RestartAsked { next: Next::Fresh }), []);
    assert_eq!(story.armed(), Some((secs(6), Why::GraceOver)));
    assert_eq!(story.reaches_deadline(), [Effect::EndAgent(Order::KillAgent)]);
    let told = Effect::TellExit { class: Class::Asked, end: code(137), ran: secs(9) };
    assert_eq!(story.hears(Event::Exited(code(137))), [told, Effect::TellHalt(WHY)]);
    assert_eq!((story.life.phase(), story.armed()), (&Phase::Halted, None));
    assert_eq!((story.life.health(), story.life.history().in_a_row()), (Health::Halted, 1));
    assert_eq!(story.only_hears(Event::Retry), [Effect::TellResumed, Effect::Spawn(Next::Continue)]);
    assert_eq!(story.life.health(), Health::Healthy);
}

#[test]
fn the_halt_is_told_and_on_halt_decides_whatever_restart_says() {
    for restart in [Restart::OnFailure, Restart::Always, Restart::No] {
        let on_clean = if restart == Restart::Always { OnClean::Restart } else { OnClean::Exit };
        let halts = |on_halt, notifies| {
            let mut story = Story::runs(Rules { restart, on_clean, on_halt, notifies, ..rules() });
            story.hears(REAP);
            (story.hears(Event::Exited(code(0))), story)
        };
        let (effects, story) = halts(OnHalt::Wait, true);
        assert_eq!(effects[1..], [Effect::TellHalt(WHY), Effect::Notify(WHY)], "{restart:?}");
        assert_eq!(story.life.phase(), &Phase::Halted);
        let (effects, story) = halts(OnHalt::Exit, true);
        assert_eq!(effects[1..], [Effect::TellHalt(WHY), Effect::Notify(WHY)], "{restart:?}");
        assert!(matches!(story.life.phase(), Phase::Telling { .. }));
        let (_, story) = halts(OnHalt::Exit, false);
        assert!(matches!(story.life.phase(), Phase::Stopping { .. }), "{restart:?}");
    }
}

#[test]
fn one_that_waits_for_its_restart_is_not_started_any_more() {
    let mut story = Story::runs(rules());
    story.exits(1);
    assert_eq!(story.hears(REAP), [Effect::TellHalt(WHY)]);
    assert_eq!((story.life.phase(), story.armed()), (&Phase::Halted, None));
}

#[test]
fn a_reap_outdoes_a_restart() {
    let mut story = Story::runs(rules());
    story.hears(Event::RestartAsked { next: Next::Continue });
    assert_eq!(story.hears(REAP), []);
    story.hears(Event::Exited(code(143)));
    assert_eq!(story.life.phase(), &Phase::Halted);
}

#[test]
fn what_it_ends_with_is_its_last_failure_if_there_was_one() {
    for (fails, code) in [(true, 3), (false, 143)] {
        let mut story = Story::runs(Rules { on_halt: OnHalt::Exit, ..rules() });
        if fails {
            story.exits(3);
            story.reaches_deadline();
            story.hears(Event::ExecDone { ran_as: Next::Continue });
        }
        story.hears(REAP);
        story.hears(Event::Exited(super::code(143)));
        assert_eq!(story.hears(Event::TreeGone), [Effect::End(code)]);
    }
}
