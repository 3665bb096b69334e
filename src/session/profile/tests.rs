use super::*;
use crate::session::testing::{Scratch, env};

const NEW: &str = "11111111-1111-4111-8111-111111111111";
const OLD: &str = "22222222-2222-4222-8222-222222222222";
const OWN: &str = "33333333-3333-4333-8333-333333333333";

/// One question; every conversation has a transcript unless `lost`.
struct Case {
    profile: Profile,
    prompt: Option<&'static str>,
    continue_args: Vec<String>,
    known: Option<&'static str>,
    lost: bool,
}

const CLAUDE: Case = case(Profile::Claude, Some(OLD));
const CODEX: Case = case(Profile::Codex, None);
const OTHER: Case = case(Profile::Other, None);

const fn case(profile: Profile, known: Option<&'static str>) -> Case {
    Case { profile, prompt: None, continue_args: vec![], known, lost: false }
}

impl Case {
    fn ask(&self, start: Start, command: &str) -> Result<Line, Refusal> {
        // `_` stands for a space inside a word.
        let words = command.split_whitespace().map(|word| word.replace('_', " ").into());
        let command: Vec<OsString> = words.collect();
        self.profile.command_line(&Ask {
            command: &command,
            prompt: self.prompt,
            continue_args: &self.continue_args,
            start,
            conversation: &Conversation { id: self.known.map(str::to_owned) },
            new_id: NEW,
            has_transcript: &|_| !self.lost,
        })
    }

    fn fresh(&self, command: &str) -> String {
        let line = self.ask(Start::Fresh, command).unwrap();
        assert_eq!((line.start, line.why_fresh), (Start::Fresh, None), "{command}");
        shown(&line)
    }

    fn go_on(&self, command: &str) -> String {
        let line = self.ask(Start::Continue, command).unwrap();
        assert_eq!((line.start, line.why_fresh), (Start::Continue, None), "{command}");
        shown(&line)
    }

    fn refused(&self, command: &str) -> String {
        self.ask(Start::Fresh, command).unwrap_err().0
    }
}

fn shown(line: &Line) -> String {
    let word = |w: &OsString| w.to_str().unwrap().replace(' ', "_");
    let words: Vec<String> = line.argv.iter().map(word).collect();
    words.join(" ").replace(NEW, "NEW").replace(OLD, "OLD").replace(OWN, "OWN")
}

#[test]
fn the_base_name_or_the_flag_gives_the_profile() {
    let of = |command: &str, flag| Profile::of(OsStr::new(command), flag);
    assert_eq!(of("claude", None), Ok(Profile::Claude));
    assert_eq!(of("/opt/bin/codex", None), Ok(Profile::Codex));
    assert_eq!(of("claude-wrapper", None), Ok(Profile::Other));
    assert_eq!(of("wrapper", Some("claude")), Ok(Profile::Claude));
    assert_eq!(of("claude", Some("other")), Ok(Profile::Other));
    assert!(of("x", Some("gemini")).unwrap_err().0.contains("claude, codex"));
    assert!(of("", None).is_ok_and(|profile| !profile.is_known() && profile.name() == "other"));
}

#[test]
fn claude_begins_with_a_new_id_and_goes_on_with_the_known_one() {
    assert_eq!(CLAUDE.fresh("claude"), "claude --session-id NEW");
    assert_eq!(CLAUDE.go_on("claude"), "claude --resume OLD");
    let line = CLAUDE.ask(Start::Fresh, "claude").unwrap();
    assert_eq!(line.conversation.id.as_deref(), Some(NEW));
    let line = CLAUDE.ask(Start::Continue, "claude").unwrap();
    assert_eq!(line.conversation.id.as_deref(), Some(OLD));
    assert_eq!(
        CLAUDE.go_on("claude --model opus --add-dir /a /b"),
        "claude --resume OLD --model opus --add-dir /a /b"
    );
}

#[test]
fn claude_with_nothing_to_continue_is_fresh_and_gets_its_prompt() {
    for nothing in [Case { lost: true, ..CLAUDE }, Case { known: None, ..CLAUDE }] {
        let line = nothing.ask(Start::Continue, "claude do_it").unwrap();
        assert_eq!((line.start, line.why_fresh), (Start::Fresh, Some("no_transcript")));
        assert_eq!(shown(&line), "claude --session-id NEW do_it");
        assert_eq!(line.conversation.id.as_deref(), Some(NEW));
    }
}

#[test]
fn claude_pays_for_a_prompt_once() {
    for (command, without) in [
        ("claude do_it", "claude --resume OLD"),
        ("claude --verbose do_it --model m", "claude --resume OLD --verbose --model m"),
        ("claude --add-dir /a /b -- do_it", "claude --resume OLD --add-dir /a /b"),
        ("claude do_it and_more", "claude --resume OLD"),
        ("claude -- -do_it", "claude --resume OLD"),
        ("claude --debug api do_it", "claude --resume OLD --debug api"),
        ("claude --new-option maybe_a_value", "claude --resume OLD --new-option maybe_a_value"),
    ] {
        let begun = command.replacen("claude", "claude --session-id NEW", 1);
        assert_eq!(CLAUDE.fresh(command), begun);
        assert_eq!(CLAUDE.go_on(command), without, "{command}");
    }
}

#[test]
fn prompt_option_goes_to_the_end_behind_a_separator() {
    let asked = Case { prompt: Some("-do it"), ..CLAUDE };
    assert_eq!(asked.fresh("claude --add-dir /a"), "claude --session-id NEW --add-dir /a -- -do_it");
    assert_eq!(asked.fresh("claude --"), "claude --session-id NEW -- -do_it");
    assert_eq!(asked.go_on("claude --add-dir /a"), "claude --resume OLD --add-dir /a");
    assert!(asked.refused("claude other").contains("prompt of its own (\"other\")"));
    assert!(asked.ask(Start::Continue, "claude other").is_err());
    assert!(asked.refused("claude mcp list").contains("`claude mcp`"));

    let doctor = Case { prompt: Some("doctor"), ..CLAUDE };
    assert!(doctor.refused("claude").contains("subcommand `doctor`"));
    assert_eq!(doctor.fresh("claude -p"), "claude --session-id NEW -p -- doctor");
}

#[test]
fn a_conversation_the_user_picked_is_left_alone() {
    for (command, again) in [
        ("claude -c", "claude -c"),
        ("claude --continue do_it", "claude --continue"),
        ("claude --resume", "claude --resume"),
        ("claude --resume abc do_it", "claude --resume abc"),
        ("claude --resume=abc do_it", "claude --resume=abc"),
        ("claude -rabc do_it", "claude -rabc"),
        ("claude --from-pr 5", "claude --from-pr 5"),
        ("claude --fork-session", "claude --continue --fork-session"),
        ("claude -c --fork-session", "claude -c --fork-session"),
        ("claude -r abc --fork-session x", "claude --continue --fork-session"),
    ] {
        assert_eq!(CLAUDE.fresh(command), command);
        assert_eq!(CLAUDE.go_on(command), again, "{command}");
    }
    let line = CLAUDE.ask(Start::Fresh, "claude -c").unwrap();
    assert_eq!(line.conversation.id, None, "which one it is, only claude knows");
    let line = CLAUDE.ask(Start::Fresh, &format!("claude -r {OWN}")).unwrap();
    assert_eq!(line.conversation.id.as_deref(), Some(OWN));
}

#[test]
fn a_session_id_of_the_user_is_resumed_at_the_second_start() {
    for id in [format!("--session-id {OWN}"), format!("--session-id={OWN}")] {
        let command = format!("claude --verbose {id} do_it");
        assert_eq!(CLAUDE.fresh(&command), command.replace(OWN, "OWN"));
        assert_eq!(CLAUDE.go_on(&command), "claude --resume OWN --verbose");
        let line = CLAUDE.ask(Start::Continue, &command).unwrap();
        assert_eq!(line.conversation.id.as_deref(), Some(OWN));

        let line = Case { lost: true, ..CLAUDE }.ask(Start::Continue, &command).unwrap();
        assert_eq!((line.start, line.why_fresh), (Start::Fresh, Some("no_transcript")));
        assert_eq!(shown(&line), command.replace(OWN, "OWN"));
    }
    let fork = format!("claude -r abc --fork-session --session-id {OWN}");
    assert_eq!(CLAUDE.go_on(&fork), "claude --resume OWN");
}

#[test]
fn what_has_no_conversation_is_the_same_command_again() {
    for command in [
        "claude mcp list",
        "claude --verbose doctor",
        "claude update",
        "claude -v",
        "claude --help",
        "claude -- mcp list",
    ] {
        assert_eq!(CLAUDE.fresh(command), command);
        assert_eq!(CLAUDE.go_on(command), command);
    }
    assert_eq!(CLAUDE.fresh("claude -p doctor"), "claude --session-id NEW -p doctor");
}

#[test]
fn a_one_shot_call_cannot_go_on_without_its_prompt() {
    for command in ["claude -p do_it", "claude --print do_it"] {
        let line = CLAUDE.ask(Start::Continue, command).unwrap();
        assert_eq!((line.start, line.why_fresh), (Start::Fresh, Some("one_shot")));
        assert_eq!(shown(&line), command.replacen("claude", "claude --session-id NEW", 1));
    }
    let stream = "claude -p --input-format=stream-json";
    assert_eq!(CLAUDE.go_on(stream), "claude --resume OLD -p --input-format=stream-json");
    let line = CLAUDE.ask(Start::Continue, &format!("{stream} --no-session-persistence")).unwrap();
    assert_eq!((line.start, line.why_fresh), (Start::Fresh, Some("not_persisted")));
    assert!(!shown(&line).contains("--session-id"));
}

#[test]
fn one_shot_calls_are_known() {
    let is = |profile: Profile, line: &str| {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        profile.is_one_shot(&args)
    };
    for line in ["-p hi", "--print", "hi -p", "-pc hi", "--model x -p", "--add-dir a -p"] {
        assert!(is(Profile::Claude, line), "{line}");
    }
    for line in ["", "hi", "-c", "--model -p", "-- -p", "mcp list", "--name -p"] {
        assert!(!is(Profile::Claude, line), "{line}");
    }
    for line in ["exec hi", "-m x e hi", "review", "-c a=b exec"] {
        assert!(is(Profile::Codex, line), "{line}");
    }
    for line in ["", "hi", "-p exec", "resume --last", "-- exec", "-i exec"] {
        assert!(!is(Profile::Codex, line), "{line}");
    }
    assert!(!is(Profile::Other, "-p exec"));
}

#[test]
fn codex_resumes_the_last_or_the_known_one() {
    assert_eq!(CODEX.fresh("codex -m x do_it"), "codex -m x do_it");
    assert_eq!(CODEX.go_on("codex -m x do_it"), "codex -m x resume --last");
    assert_eq!(CODEX.go_on("codex -i a.png b.png -- do_it"), "codex resume --last");
    let known = Case { known: Some(OLD), ..CODEX };
    assert_eq!(known.go_on("codex --search"), "codex --search resume OLD");
    let line = known.ask(Start::Fresh, "codex").unwrap();
    assert_eq!(line.conversation.id, None);

    let asked = Case { prompt: Some("resume"), ..CODEX };
    assert_eq!(asked.fresh("codex -i a.png"), "codex -i a.png -- resume");
    assert_eq!(asked.go_on("codex"), "codex resume --last");
    assert!(asked.refused("codex hello").contains("prompt of its own"));
    assert!(asked.refused("codex exec").contains("`codex exec`"));
}

#[test]
fn codex_subcommands_are_left_alone() {
    for command in ["codex resume abc", "codex -m x fork --last", "codex mcp list", "codex -V"] {
        assert_eq!(CODEX.fresh(command), command);
        assert_eq!(CODEX.go_on(command), command);
    }
    let line = CODEX.ask(Start::Continue, "codex exec do_it").unwrap();
    assert_eq!((line.start, line.why_fresh), (Start::Fresh, Some("one_shot")));
    assert_eq!(shown(&line), "codex exec do_it");
}

#[test]
fn anything_else_is_run_again() {
    assert_eq!(OTHER.fresh("aider --yes x"), "aider --yes x");
    assert_eq!(OTHER.go_on("aider --yes x"), "aider --yes x");
    let asked = Case { prompt: Some("x"), ..OTHER };
    assert!(asked.refused("aider").contains("--agent claude"));
}

#[test]
fn continue_args_override_what_the_profile_knows() {
    let with = |case: Case| Case { continue_args: vec!["--go".into(), "on".into()], ..case };
    assert_eq!(with(CLAUDE).go_on("claude -c --add-dir /a -- do_it"), "claude -c --add-dir /a --go on");
    assert_eq!(with(CLAUDE).go_on("claude -p do_it"), "claude -p --go on");
    assert_eq!(with(CLAUDE).go_on("claude mcp list"), "claude mcp list --go on");
    assert_eq!(with(CLAUDE).fresh("claude do_it"), "claude --session-id NEW do_it");
    assert_eq!(with(CODEX).go_on("codex -m x do_it"), "codex -m x --go on");
    assert_eq!(with(CODEX).go_on("codex exec do_it"), "codex exec do_it --go on");
    assert_eq!(with(OTHER).go_on("aider x"), "aider x --go on");
    assert_eq!(with(OTHER).fresh("aider x"), "aider x");
}

#[test]
fn a_transcript_is_found_in_any_project_of_the_agents_own_config() {
    let s = Scratch::new();
    s.file(&format!(".claude/projects/-w-x/{OLD}.jsonl"), "{}\n");
    s.file(&format!(".claude/projects/-w-x/{OWN}.jsonl"), "");
    s.file(&format!("cfg/projects/-y/{NEW}.jsonl"), "{}\n");
    let home = s.path().as_os_str();
    let has = |id: &str, vars: &[(&str, &OsStr)]| Profile::Claude.has_transcript(id, &env(vars), s.path());
    assert!(has(OLD, &[("HOME", home)]));
    assert!(!has(NEW, &[("HOME", home)]));
    assert!(!has(OWN, &[("HOME", home)]), "an empty transcript cannot be resumed");
    assert!(has(NEW, &[("CLAUDE_CONFIG_DIR", OsStr::new("cfg")), ("HOME", home)]));
    assert!(!has(OLD, &[("CLAUDE_CONFIG_DIR", OsStr::new("cfg")), ("HOME", home)]));
    assert!(!has(&format!("../-w-x/{OLD}"), &[("HOME", home)]));
    assert!(!has(OLD, &[]));
}
