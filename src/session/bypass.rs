//! Ways around the agent's terminal, for a text that must reach the agent and was not taken there: a
//! one-shot call in its conversation or in a copy of it, or a new conversation that begins with the
//! text. Called by `supervisor`; settled from scratch as every spawn is.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Conversation, Environment, Hooked, Refusal, Settled, SpawnPlan, Start, Wish, profile, program};

/// Where a one-shot call answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In the conversation itself. One process at a time: the agent must have ended.
    Resume,
    /// In a copy, so that the agent can stay.
    Fork,
}

/// What is possible now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    pub resume: bool,
    pub fork: bool,
    /// `plan_anew`.
    pub spawn: bool,
}

/// A one-shot call. The text comes on its stdin, at once and with an end: on the command line everybody
/// could read it, and claude waits 3 s for its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlan {
    pub argv: Vec<OsString>,
    /// Canonical.
    pub cwd: PathBuf,
    pub env: Environment,
    pub hooks: Hooked,
}

pub fn ways(wish: &Wish, conversation: &Conversation) -> Result<Ways, Refusal> {
    let settled = Settled::of(wish)?;
    let can = |how| settled.call_line(wish, conversation, how).is_some();
    Ok(Ways { resume: can(How::Resume), fork: can(How::Fork), spawn: settled.base().is_some() })
}

/// Whether the program is still there: one that was started may have been removed, or be in the middle
/// of an update.
pub fn is_runnable(wish: &Wish) -> bool {
    let found = |s: &Settled| program::find(&s.hooks.command[0], s.env.get("PATH"), &s.cwd.value).is_ok();
    Settled::of(wish).as_ref().is_ok_and(found)
}

pub fn call(wish: &Wish, conversation: &Conversation, how: How) -> Result<CallPlan, Refusal> {
    let settled = Settled::of(wish)?;
    let argv = settled.call_line(wish, conversation, how).ok_or_else(|| {
        let what = match how {
            How::Resume => "nothing to resume",
            How::Fork => "nothing to fork",
        };
        Refusal(format!("no one-shot call of {}: there is {what}", settled.profile.name()))
    })?;
    Ok(CallPlan { argv, cwd: settled.cwd.value, env: settled.env, hooks: settled.hooks })
}

/// A new conversation whose first words are these, instead of the user's own prompt and of whatever
/// conversation they picked.
pub fn plan_anew(wish: &Wish, prompt: &str, new_conversation_id: &str) -> Result<SpawnPlan, Refusal> {
    let settled = Settled::of(wish)?;
    let base = settled.base().ok_or_else(|| {
        let command = wish.command[0].display();
        Refusal(format!("`{command}` cannot be given a prompt: it is no agent that can be talked to"))
    })?;
    let line = settled.profile.command_line(&profile::Ask {
        command: &base,
        prompt: Some(&as_words(prompt)),
        continue_args: &[],
        start: Start::Fresh,
        conversation: &Conversation::default(),
        new_id: new_conversation_id,
        has_transcript: &|_| false,
    })?;
    Ok(settled.plan(line))
}

/// claude runs `/status` and `doctor` instead of reading them, but not behind a space.
fn as_words(prompt: &str) -> String {
    let is_command = prompt.starts_with('/') || !prompt.contains(char::is_whitespace);
    format!("{}{prompt}", if is_command { " " } else { "" })
}

impl Settled {
    fn base(&self) -> Option<Vec<OsString>> {
        self.profile.base(&self.hooks.command)
    }

    fn call_line(&self, wish: &Wish, conversation: &Conversation, how: How) -> Option<Vec<OsString>> {
        // They say by themselves which conversation goes on: it need not be the one we know of.
        if !wish.continue_args.is_empty() {
            return None;
        }
        self.profile.call(&profile::CallAsk {
            base: &self.base()?,
            how,
            conversation,
            has_transcript: &|id| self.has_transcript(id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NEW, wish};
    use super::*;
    use crate::session::Profile;
    use crate::session::testing::Scratch;

    const OLD: &str = "22222222-2222-4222-8222-222222222222";

    fn known(id: &str) -> Conversation {
        Conversation { id: Some(id.to_owned()) }
    }

    /// `_` stands for a space inside a word.
    fn command(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(|word| word.replace('_', " ").into()).collect()
    }

    fn shown(argv: &[OsString]) -> String {
        let words: Vec<String> = argv.iter().map(|word| word.to_str().unwrap().replace(' ', "_")).collect();
        words.join(" ").replace(OLD, "OLD").replace(NEW, "NEW")
    }

    /// A home in which the known conversation has been written down.
    fn home() -> Scratch {
        let scratch = Scratch::new();
        scratch.file(&format!(".claude/projects/-x/{OLD}.jsonl"), "{}\n");
        scratch
    }

    fn asked(scratch: &Scratch, line: &str) -> Wish {
        Wish { command: command(line), prompt: Some("theirs".into()), ..wish(scratch.path()) }
    }

    #[test]
    fn claude_is_called_as_the_user_would_without_their_prompt_and_pick() {
        let s = home();
        for (line, resumed) in [
            ("claude", "claude -p --resume OLD"),
            ("claude do_it", "claude -p --resume OLD"),
            (
                "claude --model opus --permission-mode plan -- -do_it",
                "claude -p --resume OLD --model opus --permission-mode plan",
            ),
            (
                "claude --add-dir /a /b --mcp-config m.json",
                "claude -p --resume OLD --add-dir /a /b --mcp-config m.json",
            ),
            ("claude -c", "claude -p --resume OLD"),
            ("claude --resume abc --fork-session do_it", "claude -p --resume OLD"),
            ("claude -rabc --verbose", "claude -p --resume OLD --verbose"),
            ("claude --session-id=x --from-pr 5", "claude -p --resume OLD"),
            ("claude --teleport x --resume-session-at y", "claude -p --resume OLD"),
            ("claude --prefill draft --output-format stream-json", "claude -p --resume OLD"),
            ("claude --worktree feat do_it", "claude -p --resume OLD --worktree feat"),
        ] {
            let wish = asked(&s, line);
            let argv = |how| shown(&call(&wish, &known(OLD), how).unwrap().argv);
            assert_eq!(argv(How::Resume), resumed, "{line}");
            let forked = resumed.replace("--resume OLD", "--resume OLD --fork-session");
            assert_eq!(argv(How::Fork), forked, "{line}");
            let ways = ways(&wish, &known(OLD)).unwrap();
            assert_eq!(ways, Ways { resume: true, fork: true, spawn: true }, "{line}");
        }
    }

    #[test]
    fn codex_is_called_behind_its_options_and_has_no_fork() {
        let s = Scratch::new();
        for (line, id, resumed) in [
            ("codex", None, "codex exec --skip-git-repo-check resume --last -"),
            ("codex -m x do_it", Some("i"), "codex -m x exec --skip-git-repo-check resume i -"),
            (
                "codex --yolo -i a.png b.png -- do_it",
                None,
                "codex --yolo exec --skip-git-repo-check resume --last -",
            ),
        ] {
            let (wish, conversation) = (asked(&s, line), Conversation { id: id.map(str::to_owned) });
            let plan = call(&wish, &conversation, How::Resume).unwrap();
            assert_eq!(shown(&plan.argv), resumed);
            assert_eq!(ways(&wish, &conversation).unwrap(), Ways { resume: true, fork: false, spawn: true });
            assert!(call(&wish, &conversation, How::Fork).unwrap_err().0.contains("nothing to fork"));
        }
        let worktree = ways(&asked(&s, "codex --worktree"), &Conversation::default()).unwrap();
        assert_eq!(worktree, Ways { spawn: true, ..Ways::default() });
    }

    #[test]
    fn a_conversation_that_cannot_be_resumed_leaves_the_spawn() {
        let s = home();
        s.file(&format!(".claude/projects/-x/{NEW}.jsonl"), "");
        let spawn = Ways { spawn: true, ..Ways::default() };
        let claude = asked(&s, "claude");
        for conversation in [known(NEW), known("lost"), known("../-x/OLD"), Conversation::default()] {
            assert_eq!(ways(&claude, &conversation).unwrap(), spawn, "{conversation:?}");
            let refusal = call(&claude, &conversation, How::Resume).unwrap_err();
            assert_eq!(refusal.0, "no one-shot call of claude: there is nothing to resume");
        }
        let continued = Wish { continue_args: vec!["--go".into()], ..claude };
        assert_eq!(ways(&continued, &known(OLD)).unwrap(), spawn);
    }

    #[test]
    fn what_nobody_talks_to_has_no_way() {
        let s = home();
        for line in [
            "claude -p hi",
            "claude mcp list",
            "claude --version",
            "claude --no-session-persistence",
            "claude --bg do_it",
            "claude --remote",
            "claude --worktree w --tmux",
            "claude -cn name",
            "codex exec hi",
            "codex resume abc",
            "codex --remote ws://x",
            "codex -V",
            "aider",
        ] {
            let wish = asked(&s, line);
            assert_eq!(ways(&wish, &known(OLD)).unwrap(), Ways::default(), "{line}");
            assert!(call(&wish, &known(OLD), How::Resume).is_err(), "{line}");
            assert!(plan_anew(&wish, "a text", NEW).unwrap_err().0.contains("cannot be given a prompt"));
        }
    }

    #[test]
    fn a_new_conversation_begins_with_the_text_alone() {
        let s = home();
        for (line, text, anew) in [
            ("claude --resume abc do_it", "a b", "claude --session-id NEW -- a_b"),
            ("claude -c --model opus --", "a\nb", "claude --session-id NEW --model opus -- a\nb"),
            (
                "claude --session-id x --add-dir /a -- y",
                "-a b",
                "claude --session-id NEW --add-dir /a -- -a_b",
            ),
            ("claude", "/status", "claude --session-id NEW -- _/status"),
            ("claude", "/a b", "claude --session-id NEW -- _/a_b"),
            ("claude", "doctor", "claude --session-id NEW -- _doctor"),
            ("codex -m x -i a.png -- do_it", "resume", "codex -m x -- _resume"),
        ] {
            let plan = plan_anew(&asked(&s, line), text, NEW).unwrap();
            assert_eq!(shown(&plan.argv), anew);
            assert_eq!((plan.start, plan.why_fresh), (Start::Fresh, None));
            let id = (plan.profile == Profile::Claude).then(|| NEW.to_owned());
            assert_eq!(plan.conversation, Conversation { id });
        }
    }

    #[test]
    fn a_call_is_settled_as_a_spawn_is_and_has_its_hooks() {
        let s = home();
        s.file("mine.json", "{\"model\":\"x\"}");
        s.file("docs/task.md", "---\nagent_doc_cwd: ..\nenv: {A: b}\n---\n");
        let wish = Wish {
            document: Some("docs/task.md".into()),
            hooks: Some(crate::session::HookWish {
                agentsup: "/bin/agentsup".into(),
                permission_timeout: std::time::Duration::from_secs(300),
            }),
            ..asked(&s, "claude --settings mine.json do_it")
        };
        let plan = call(&wish, &known(OLD), How::Resume).unwrap();
        assert_eq!(shown(&plan.argv), "claude -p --resume OLD --settings /state/supervisor/s1.settings");
        let spawned =
            super::super::plan(&Wish { prompt: None, ..wish.clone() }, Start::Continue, &known(OLD), NEW)
                .unwrap();
        assert!(plan.hooks.is_on && plan.hooks.file.is_some());
        assert_eq!((plan.hooks, plan.env, plan.cwd), (spawned.hooks, spawned.env, spawned.cwd.value));
        let elsewhere = Wish { cwd: Some("none".into()), ..wish };
        assert!(ways(&elsewhere, &known(OLD)).unwrap_err().0.starts_with("--cwd flag: path does not exist"));
    }
}
