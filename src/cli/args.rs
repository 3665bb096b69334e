//! What can be said on the command line, and its help. argh declares and prints it; `words` feeds it.

use argh::{ArgsInfo, FlagInfo, FromArgs};

use super::client as verbs;
use super::words::Word;
use super::{Failure, help};

/// Verbs that the design names and that do not work yet.
pub const UNBUILT_VERBS: [&str; 0] = [];

/// Those that supervise, or tell how; `client::VERBS` are the others.
pub const VERBS: [&str; 4] = ["run", "init", "explain", "tree"];

const USAGE: &str = "VERB [options] [--] [COMMAND [ARGS...]]";

#[derive(ArgsInfo)]
#[argh(
    description = "An init-style supervisor for one AI coding agent: runs it behind a pty, as PID 1\n\
                   or as a plain process, with a working directory and an environment that are\n\
                   always the same, restarts it by a written policy, reaps every orphan and logs\n\
                   what it does.",
    example = "{command_name} run -- claude\n\
               {command_name} run --restart always --cwd /work -- codex\n\
               {command_name} init -- make test\n\
               {command_name} explain -- claude -p 'fix the build'\n\
               {command_name} ls\n\
               {command_name} restart my-session",
    note = "`{command_name} help VERB` shows a verb's options, exit codes and examples."
)]
#[allow(dead_code, reason = "verbs are told apart before argh; declared for the help")]
struct Top {
    /// print the version and exit
    #[argh(switch)]
    version: bool,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "run",
    description = "supervise an agent",
    usage = "[options] [--] COMMAND [ARGS...]",
    help_triggers("-h", "--help"),
    example = "{command_name} -- claude\n\
               {command_name} --document plan.md -- claude\n\
               {command_name} --restart always --prompt @task.txt -- claude\n\
               {command_name} --env LOG=debug --pass-env 'MY_*' -- ./agent.sh\n\
               {command_name} --timeout 30m -- claude -p 'fix the build' > answer.txt",
    note = "Durations are 8, 8s, 500ms, 5m or 2h. `--opt=value` works too. The first word\n\
            that is no option is the COMMAND; everything after it belongs to it. Relative\n\
            paths, also those in the config file, start where agentsup was started.\n",
    note = "Options that are not given come from the config file, then from the defaults.\n\
            `agentsup explain` shows which, and why. A one-shot call (claude -p,\n\
            codex exec) defaults to --io inherit --restart no.\n",
    note = "Exit codes: the agent's own, or 128+n when signal n ended it.\n\
            \u{20}   2  usage error\n\
            \u{20}  78  configuration refused: a bad path, document, config file or session\n\
            \u{20} 124  --timeout passed\n\
            \u{20} 125  agentsup itself failed\n\
            \u{20} 126  COMMAND cannot be executed\n\
            \u{20} 127  COMMAND was not found\n",
    note = "Environment:\n\
            \u{20} AGENTSUP_CONFIG   the config file, when --config is not given\n\
            \u{20} AGENTSUP_DIR      the state dir, when --dir is not given\n\
            \u{20} AGENTSUP_SESSION  the session id, when neither --session nor the\n\
            \u{20}                   document gives one\n\
            \u{20} NOTIFY_SOCKET     systemd's: it is told when the agent runs\n\
            \u{20} WATCHDOG_USEC     systemd's: it is told in time that agentsup lives\n\
            \u{20} XDG_RUNTIME_DIR   holds the state dir when /run cannot"
)]
pub struct Run {
    /// PATH of a markdown file whose frontmatter describes the session
    #[argh(option, arg_name = "PATH")]
    pub document: Option<Word>,

    /// session ID, 1 to 64 of A-Z a-z 0-9 . _ - (default: the document's agent_doc_session, else
    /// $AGENTSUP_SESSION, else a new UUID)
    #[argh(option, arg_name = "ID")]
    pub session: Option<Word>,

    /// KEY=VALUE that callers see on the session; repeatable
    #[argh(option, arg_name = "KEY=VALUE")]
    pub label: Vec<Word>,

    /// PATH to run the agent in (default: the document says, else its project root, else where
    /// agentsup was started)
    #[argh(option, arg_name = "PATH")]
    pub cwd: Option<Word>,

    /// PATH of the state dir, for sockets, logs and state (default: $AGENTSUP_DIR, else .agent-doc
    /// of the project, /run/agentsup, $XDG_RUNTIME_DIR/agentsup or /tmp/agentsup-UID)
    #[argh(option, arg_name = "PATH")]
    pub dir: Option<Word>,

    /// NAME=VALUE to set in the agent's environment; repeatable
    #[argh(option, arg_name = "NAME=VALUE")]
    pub env: Vec<Word>,

    /// PATTERN of further variables to let through, like 'MY_*'; '*' lets all through; repeatable
    #[argh(option, arg_name = "PATTERN")]
    pub pass_env: Vec<Word>,

    /// claude|codex|other: what to treat COMMAND as (default: by its base name)
    #[argh(option, arg_name = "claude|codex|other")]
    pub agent: Option<Word>,

    /// TEXT, or @FILE to read it from, given to the agent at a fresh start only (@@ for a text that
    /// starts with @)
    #[argh(option, arg_name = "TEXT|@FILE")]
    pub prompt: Option<Word>,

    /// fresh|continue: how the first start treats the conversation (default: fresh)
    #[argh(option, arg_name = "fresh|continue")]
    pub start: Option<Word>,

    /// pty|inherit: give the agent a terminal of its own, or agentsup's stdin, stdout and stderr
    /// (default: pty; inherit for a one-shot call, and for data on stdin with a command that is no
    /// known agent)
    #[argh(option, arg_name = "pty|inherit")]
    pub io: Option<Word>,

    /// COLSxROWS of the agent's terminal while there is none on stdin (default: 120x40)
    #[argh(option, arg_name = "COLSxROWS")]
    pub size: Option<Word>,

    /// on-failure|always|no: when to start an ended agent again (default: on-failure; no for a
    /// one-shot call)
    #[argh(option, arg_name = "on-failure|always|no")]
    pub restart: Option<Word>,

    /// exit|prompt|restart: what a clean exit leads to (default: follows --restart; prompt for
    /// on-failure with a terminal on stdin)
    #[argh(option, arg_name = "exit|prompt|restart")]
    pub on_clean: Option<Word>,

    /// exit|wait: what to do when the agent failed too often in a row; a wait ends with a key or
    /// `agentsup resume` (default: wait with a terminal on stdin, else exit)
    #[argh(option, arg_name = "exit|wait")]
    pub on_halt: Option<Word>,

    /// DURATION that a stop may take before what is left is killed; 0 kills at once (default: 8s)
    #[argh(option, arg_name = "DURATION")]
    pub grace: Option<Word>,

    /// DURATION after which everything is stopped and 124 returned (default: never)
    #[argh(option, arg_name = "DURATION")]
    pub timeout: Option<Word>,

    /// OCTAL mode of the control socket: 0600, 0660, 0606 or 0666 (default: 0600; 0660
    /// with --socket-group)
    #[argh(option, arg_name = "OCTAL")]
    pub socket_mode: Option<Word>,

    /// GID or NAME of the group that the control socket belongs to; its members may look, and more
    /// only where [access] in the config file says so
    #[argh(option, arg_name = "GID|NAME")]
    pub socket_group: Option<Word>,

    /// answer no callers: no verb reaches this supervisor
    #[argh(switch)]
    pub no_socket: bool,

    /// descriptor N, left open for agentsup, gets a newline when the agent runs, and is closed
    #[argh(option, arg_name = "N")]
    pub ready_fd: Option<Word>,

    /// do not make claude call `agentsup hook` about the prompts it is given: what is sent is then
    /// never confirmed
    #[argh(switch)]
    pub no_hooks: bool,

    /// an agent at work that shows no sign of it is told to continue, then killed; [watch] in the
    /// config file says after how long (2m and 4m)
    #[argh(switch)]
    pub watch: bool,

    /// FILE, in asciicast v2, to record the agent's terminal to, without secrets; `asciinema play`
    /// replays it; one that is there is kept as FILE.1 (default: no recording)
    #[argh(option, arg_name = "FILE")]
    pub record: Option<Word>,

    /// record what is typed too, with --record
    #[argh(switch)]
    pub record_input: bool,

    /// FILE in TOML with [run], [policy], [halt], [access] and [log]; a flag wins over it (default:
    /// $AGENTSUP_CONFIG, else none)
    #[argh(option, arg_name = "FILE")]
    pub config: Option<Word>,

    #[argh(positional, greedy, arg_name = "COMMAND")]
    pub command: Vec<Word>,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "init",
    description = "only be a good PID 1: stdio inherited, no pty, no restart, no socket",
    usage = "[options] [--] COMMAND [ARGS...]",
    help_triggers("-h", "--help"),
    example = "{command_name} -- make test\n\
               ENTRYPOINT [\"/agentsup\", \"init\", \"--\"]",
    note = "Signals are forwarded, orphans are reaped, and what outlives the command is\n\
            ended before agentsup is. The environment is passed on untouched.\n",
    note = "Exit codes: the command's own, or 128+n when signal n ended it.\n\
            \u{20}   2  usage error\n\
            \u{20} 125  agentsup itself failed\n\
            \u{20} 126  COMMAND cannot be executed\n\
            \u{20} 127  COMMAND was not found"
)]
pub struct Init {
    /// DURATION that a stop may take before what is left is killed; 0 kills at once (default: 8s)
    #[argh(option, arg_name = "DURATION")]
    pub grace: Option<Word>,

    #[argh(positional, greedy, arg_name = "COMMAND")]
    pub command: Vec<Word>,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "explain",
    description = "print what `run` would do and where every value comes from; start nothing",
    usage = "[--json] [run options] [--] COMMAND [ARGS...]",
    help_triggers("-h", "--help"),
    example = "{command_name} -- claude\n\
               {command_name} --document plan.md --restart always -- claude\n\
               {command_name} --json -- claude -p hi",
    note = "Takes every option of `agentsup run`; see `agentsup help run`. Starts nothing\n\
            and creates nothing. Values of variables named *KEY*, *TOKEN*, *SECRET* or\n\
            *PASSWORD* are shown as ***.\n",
    note = "Exit codes: 0, or the one with which `run` would refuse to start.\n\
            \u{20}   1  stdout cannot be written\n\
            \u{20}   2  usage error\n\
            \u{20}  78  configuration refused\n\
            \u{20} 126  COMMAND cannot be executed\n\
            \u{20} 127  COMMAND was not found\n",
    note = "Environment: as for `agentsup run`."
)]
pub struct Explain {
    /// print one JSON object instead of text for people
    #[argh(switch)]
    pub json: bool,

    #[argh(positional, greedy, arg_name = "COMMAND")]
    #[allow(dead_code, reason = "the command is read with run's options; declared for the help")]
    pub command: Vec<Word>,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "tree",
    description = "many agents, each with its own supervisor, from one file",
    usage = "[options] FILE",
    help_triggers("-h", "--help"),
    example = "{command_name} team.toml\n\
               {command_name} --check team.toml\n\
               ENTRYPOINT [\"/agentsup\", \"tree\", \"/etc/team.toml\"]",
    note = "FILE, in TOML, has [node] and a [[child]] for each agent or further node;\n\
            docs/trees.md explains it. `agentsup ls --tree` shows who is there, and\n\
            `agentsup child` starts, stops and adds. A stop goes from child to child:\n\
            --check says how long that may take, for `docker stop --time`.\n",
    note = "Exit codes: 0 after a stop, or when all children have ended well; else\n\
            \u{20}   2  usage error\n\
            \u{20}  70  more restarts than max_restarts in max_seconds: the node gave up\n\
            \u{20}  78  the file is refused, or no child could be started\n\
            \u{20} 125  agentsup itself failed\n\
            \u{20} and the code of the last child that ended for good and not well.\n",
    note = "Environment: AGENTSUP_DIR and AGENTSUP_SESSION, as for `agentsup run`."
)]
pub struct Tree {
    /// read the file and all that it names, say what it means, and start nothing
    #[argh(switch)]
    pub check: bool,

    /// session ID of the node; a child's is ID.CHILD (default: the file's `session`, else
    /// the file's name without .toml)
    #[argh(option, arg_name = "ID")]
    pub session: Option<Word>,

    /// PATH of the state dir, for the node and all its children (default: as for `agentsup run`)
    #[argh(option, arg_name = "PATH")]
    pub dir: Option<Word>,

    /// descriptor N, left open for agentsup, gets a newline when each child is ready or
    /// cannot be started
    #[argh(option, arg_name = "N")]
    pub ready_fd: Option<Word>,

    #[argh(positional, greedy, arg_name = "FILE")]
    pub words: Vec<Word>,
}

/// argh's own list of a verb's options: the only table of what exists and what takes a value.
pub fn options<T: ArgsInfo>() -> Vec<&'static FlagInfo<'static>> {
    without_help(T::get_args_info().flags)
}

/// Once, not once for every verb.
#[inline(never)]
pub fn without_help(flags: &'static [FlagInfo<'static>]) -> Vec<&'static FlagInfo<'static>> {
    flags.iter().filter(|flag| flag.long != "--help").collect()
}

/// Help for a verb, or for all of agentsup.
pub fn help(verb: Option<&str>) -> Result<String, Failure> {
    let text = match verb {
        None => top_help(),
        Some("run") => help_of::<Run>("run"),
        Some("init") => help_of::<Init>("init"),
        Some("explain") => help_of::<Explain>("explain"),
        Some("tree") => help_of::<Tree>("tree"),
        Some(other) => {
            let verb = verbs::declared(other).ok_or_else(|| unknown_verb(other))?;
            help::text(&format!("agentsup {other}"), verb.usage, &verb.info, "-h, --help", &[])
        }
    };
    Ok(text)
}

fn top_help() -> String {
    let own = [Run::get_args_info(), Init::get_args_info(), Explain::get_args_info(), Tree::get_args_info()];
    let asking = verbs::VERBS.iter().filter_map(|verb| Some(verbs::declared(verb)?.info));
    let all: Vec<_> = own.into_iter().chain(asking).map(|info| (info.name, info.description)).collect();
    help::text("agentsup", USAGE, &Top::get_args_info(), "-h, --help, help", &all)
}

fn help_of<T: FromArgs>(verb: &str) -> String {
    let text = T::from_args(&["agentsup", verb], &["--help"]).err().map(|early| early.output);
    // argh indents the empty lines between notes too.
    text.unwrap_or_default().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Of those that work.
pub fn every_verb() -> impl Iterator<Item = &'static str> {
    VERBS.into_iter().chain(verbs::VERBS.iter().copied())
}

pub fn unknown_verb(word: &str) -> Failure {
    if UNBUILT_VERBS.contains(&word) {
        return Failure::usage(format!("the verb {word} is not built yet"));
    }
    let hint = match super::names::nearest(word, every_verb().chain(UNBUILT_VERBS)) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("to supervise it as a command: agentsup run -- {word}"),
    };
    Failure::usage(format!("unknown verb {word}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of `run` that DESIGN lists, in its order.
    #[rustfmt::skip]
    const DESIGNED: [&str; 26] = [
        "--document", "--session", "--label", "--cwd", "--dir", "--env", "--pass-env", "--agent", "--prompt",
        "--start", "--io", "--size", "--restart", "--on-clean", "--on-halt", "--grace", "--timeout",
        "--socket-mode", "--socket-group", "--no-socket", "--ready-fd", "--no-hooks", "--watch", "--record", "--record-input",
        "--config",
    ];

    #[test]
    fn run_has_exactly_the_designed_options_and_its_help_shows_each() {
        let names: Vec<&str> = options::<Run>().iter().map(|flag| flag.long).collect();
        assert_eq!(names, DESIGNED);
        let help = help(Some("run")).unwrap();
        for name in DESIGNED {
            assert!(help.contains(&format!("\n  {name} ")), "{name}");
        }
    }

    #[test]
    fn help_fits_80_columns_and_teaches() {
        for verb in [None].into_iter().chain(every_verb().map(Some)) {
            let text = help(verb).unwrap();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert_eq!(line, line.trim_end());
            }
            assert!(text.contains("\nExamples:\n  "), "{verb:?}");
            assert_eq!(text.contains("Exit codes:"), verb.is_some(), "{verb:?}");
        }
        for name in ["AGENTSUP_CONFIG", "AGENTSUP_DIR", "AGENTSUP_SESSION", "XDG_RUNTIME_DIR"] {
            assert!(help(Some("run")).unwrap().contains(&format!("\n    {name} ")), "{name}");
        }
    }

    #[test]
    fn top_help_lists_the_verbs() {
        let text = help(None).unwrap();
        for verb in every_verb() {
            assert!(text.contains(&format!("\n  {verb} ")), "{verb}");
            assert!(!UNBUILT_VERBS.contains(&verb));
        }
    }

    #[test]
    fn a_wrong_verb_gets_the_right_advice() {
        for (word, message) in [
            ("restrat", "unknown verb restrat; did you mean restart?"),
            ("rnu", "unknown verb rnu; did you mean run?"),
            ("explian", "unknown verb explian; did you mean explain?"),
            ("claude", "unknown verb claude; to supervise it as a command: agentsup run -- claude"),
        ] {
            assert_eq!(unknown_verb(word), Failure::usage(message));
        }
    }
}
