use super::*;

struct Agent {
    activity: Activity,
    now: Instant,
}

impl Agent {
    fn hooked() -> Agent {
        let now = Instant::now();
        let mut activity = Activity::new(now);
        activity.began(true, now);
        Agent { activity, now }
    }

    fn says(&mut self, word: Word) -> Doing {
        self.now += Duration::from_secs(1);
        self.activity.says(word, self.now);
        self.activity.doing()
    }
}

const BASH: Word = Word::ToolBegins { tool: "Bash", id: Some("t1"), key: Some("k1") };
const READ: Word = Word::ToolBegins { tool: "Read", id: Some("t2"), key: Some("k2") };

#[test]
fn a_turn_with_a_tool_and_a_permission() {
    let mut agent = Agent::hooked();
    assert_eq!(agent.activity.doing(), Doing::Starting);
    assert_eq!(agent.says(Word::SessionStart), Doing::Idle);
    assert_eq!(agent.says(Word::PromptTaken), Doing::Working);
    assert_eq!(agent.says(BASH), Doing::Tool);
    agent.activity.pending(Pending { permissions: 1, questions: 0 }, agent.now);
    assert_eq!(agent.activity.doing(), Doing::WaitingPermission);
    agent.activity.pending(Pending::default(), agent.now);
    assert_eq!(agent.activity.doing(), Doing::Tool);
    assert_eq!(agent.says(Word::ToolEnded { id: Some("t1") }), Doing::Working);
    assert_eq!(agent.says(Word::TurnEnded), Doing::Idle);
    assert_eq!(agent.activity.counts, Counts { prompts: 1, turns: 1, failed_turns: 0, tools: 1 });
}

#[test]
fn what_each_word_leads_to_from_each_place() {
    use Doing::*;
    let words = [
        (Word::SessionStart, [Idle, Working, Tool, Idle, Idle, Idle, Idle]),
        (Word::PromptTaken, [Working; 7]),
        (BASH, [Tool; 7]),
        (Word::ToolEnded { id: None }, [Working; 7]),
        (Word::AsksPermission, [WaitingPermission; 7]),
        (Word::AsksQuestion, [WaitingAnswer; 7]),
        (Word::TurnEnded, [Idle; 7]),
        (Word::TurnFailed, [Idle; 7]),
        (Word::Idle, [Idle; 7]),
        (Word::Heartbeat, [Starting, Working, Tool, Idle, WaitingPermission, WaitingAnswer, Unknown]),
        (Word::Sign, [Starting, Working, Tool, Idle, WaitingPermission, WaitingAnswer, Unknown]),
    ];
    let places = [Starting, Working, Tool, Idle, WaitingPermission, WaitingAnswer, Unknown];
    for (word, expected) in words {
        for (place, expected) in places.into_iter().zip(expected) {
            let mut agent = Agent::hooked();
            agent.activity.own = place;
            assert_eq!(agent.says(word), expected, "{place:?} {word:?}");
            assert_eq!(agent.activity.heard(), Some(agent.now));
        }
    }
}

#[test]
fn without_hooks_a_heartbeat_is_work_until_it_says_idle() {
    let mut agent = Agent::hooked();
    agent.activity.began(false, agent.now);
    assert_eq!(agent.activity.doing(), Doing::Unknown);
    assert_eq!(agent.says(Word::Heartbeat), Doing::Working);
    assert_eq!(agent.says(Word::Idle), Doing::Idle);
    assert_eq!(agent.says(Word::Heartbeat), Doing::Working);
}

#[test]
fn two_tools_at_once_are_one_until_both_have_ended() {
    let mut agent = Agent::hooked();
    agent.says(Word::PromptTaken);
    agent.says(BASH);
    agent.says(READ);
    assert_eq!(agent.says(Word::ToolEnded { id: Some("t1") }), Doing::Tool);
    assert_eq!(agent.says(Word::ToolEnded { id: Some("t2") }), Doing::Working);
}

#[test]
fn a_cancelled_turn_is_believed_when_the_screen_says_so() {
    let mut agent = Agent::hooked();
    agent.says(Word::SessionStart);
    agent.activity.cancelled(agent.now);
    agent.activity.looked(false, agent.now);
    assert!(!agent.activity.because().contains("cancelled"), "nothing was under way");
    agent.says(Word::PromptTaken);
    agent.activity.cancelled(agent.now);
    assert_eq!(agent.activity.wake(), Some(agent.now + CANCELLED));
    agent.activity.looked(true, agent.now);
    assert_eq!((agent.activity.doing(), agent.activity.wake()), (Doing::Working, None));
    agent.activity.cancelled(agent.now);
    agent.activity.looked(false, agent.now);
    assert_eq!((agent.activity.doing(), agent.activity.wake()), (Doing::Idle, None));
    agent.says(Word::PromptTaken);
    agent.activity.cancelled(agent.now);
    agent.says(BASH);
    assert_eq!(agent.activity.wake(), None, "it has told by itself that it goes on");
}

#[test]
fn the_key_is_pressed_for_a_turn_and_for_nothing_else() {
    use Doing::*;
    const PRESS: Cancel = Cancel::Press;
    const IDLE: Cancel = Cancel::Idle;
    let places = [Starting, Working, Tool, Idle, WaitingPermission, WaitingAnswer, Unknown];
    let seen = [
        (Seen::Turn, [PRESS; 7]),
        (Seen::Dialog, [IDLE, PRESS, PRESS, IDLE, PRESS, PRESS, PRESS]),
        (Seen::Rest, [IDLE, PRESS, PRESS, IDLE, PRESS, PRESS, IDLE]),
        (Seen::Unclear, [IDLE, PRESS, PRESS, IDLE, PRESS, PRESS, PRESS]),
    ];
    for (seen, expected) in seen {
        for (place, expected) in places.into_iter().zip(expected) {
            let mut agent = Agent::hooked();
            agent.activity.own = place;
            assert_eq!(agent.activity.cancel(seen, agent.now), expected, "{place:?} {seen:?}");
        }
    }
}

#[test]
fn a_second_key_waits_until_it_is_known_what_the_first_has_done() {
    let mut agent = Agent::hooked();
    agent.says(Word::PromptTaken);
    let pressed = agent.now;
    agent.activity.cancelled(pressed);
    let cancel = |agent: &Agent, at| agent.activity.cancel(Seen::Turn, at);
    assert_eq!(cancel(&agent, pressed), Cancel::Already);
    // The next prompt, which waited for the end of that turn, is not what it was meant for.
    agent.activity.says(Word::PromptTaken, pressed + CANCELLED / 2);
    assert_eq!(cancel(&agent, pressed + CANCELLED / 2), Cancel::Already);
    assert_eq!(cancel(&agent, pressed + CANCELLED), Cancel::Press);
    agent.activity.began(true, pressed);
    assert_eq!(cancel(&agent, pressed), Cancel::Press, "that was another agent's");
}

#[test]
fn a_key_pressed_while_it_stood_still_is_looked_for_when_it_goes_on() {
    let mut agent = Agent::hooked();
    agent.says(Word::PromptTaken);
    agent.activity.delayed(agent.now);
    assert_eq!(agent.activity.wake(), None, "nothing was pressed");
    agent.activity.cancelled(agent.now);
    let later = agent.now + CANCELLED * 9;
    agent.activity.delayed(later);
    assert_eq!(agent.activity.wake(), Some(later + CANCELLED));
    assert_eq!(agent.activity.cancel(Seen::Turn, later), Cancel::Already);
}

#[test]
fn since_moves_only_when_it_does_something_else() {
    let mut agent = Agent::hooked();
    agent.says(Word::PromptTaken);
    let began = agent.now;
    agent.says(Word::Sign);
    agent.says(Word::PromptTaken);
    assert_eq!(agent.activity.since(), began);
    agent.says(Word::TurnEnded);
    assert_eq!(agent.activity.since(), agent.now);
}

#[test]
fn a_denied_tool_is_none_that_runs() {
    let mut agent = Agent::hooked();
    agent.says(BASH);
    agent.activity.permitted(true, "Bash", Some("k1"), agent.now);
    assert_eq!(agent.activity.doing(), Doing::Tool);
    agent.activity.permitted(false, "Bash", Some("k1"), agent.now);
    assert_eq!(agent.activity.doing(), Doing::Working);
    agent.says(Word::AsksPermission);
    agent.activity.permitted(true, "Bash", None, agent.now);
    assert_eq!(agent.activity.doing(), Doing::Tool, "its own dialog is gone with the answer");
}

#[test]
fn beside_a_denied_tool_another_goes_on() {
    for dialog in [false, true] {
        let mut agent = Agent::hooked();
        agent.says(BASH);
        agent.says(READ);
        if dialog {
            agent.says(Word::AsksPermission);
        }
        agent.activity.permitted(false, "Bash", Some("k1"), agent.now);
        assert_eq!(agent.activity.doing(), Doing::Tool);
        assert_eq!(agent.says(Word::ToolEnded { id: Some("t2") }), Doing::Working);
    }
    // Asked for under no key it may be any of them.
    let mut agent = Agent::hooked();
    agent.says(BASH);
    agent.activity.permitted(false, "Bash", None, agent.now);
    assert_eq!(agent.activity.doing(), Doing::Working);
}

#[test]
fn a_dialog_that_a_human_answered_with_yes_is_a_tool_in_use() {
    let mut agent = Agent::hooked();
    agent.says(BASH);
    agent.says(Word::AsksPermission);
    agent.activity.went_on(agent.now);
    assert_eq!(agent.activity.doing(), Doing::Tool);
    assert_eq!(agent.says(Word::ToolEnded { id: Some("t1") }), Doing::Working);
    agent.activity.went_on(agent.now);
    assert_eq!(agent.activity.doing(), Doing::Working, "there was no dialog");
    agent.says(Word::AsksQuestion);
    agent.activity.went_on(agent.now);
    assert_eq!(agent.activity.doing(), Doing::Working);
}

#[test]
fn an_answer_to_who_asked_without_a_tool_counts_too() {
    let now = Instant::now();
    let mut activity = Activity::new(now);
    activity.began(true, now);
    activity.says(Word::PromptTaken, now);
    activity.permitted(false, "Write", Some("k"), now);
    assert_eq!(activity.doing(), Doing::Working);
    assert_eq!(activity.because(), "what it wanted to do was denied");
    activity.permitted(true, "Bash", Some("k"), now);
    assert_eq!((activity.doing(), activity.because().as_str()), (Doing::Tool, "it was allowed to use Bash"));
    activity.says(Word::ToolEnded { id: Some("1") }, now);
    assert_eq!(activity.doing(), Doing::Working);
    activity.says(Word::TurnEnded, now);
    activity.permitted(true, "Bash", None, now);
    assert_eq!(activity.doing(), Doing::Idle, "that came too late");
}
