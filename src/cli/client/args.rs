//! The options of the client verbs and their help. Every verb that asks a supervisor has the same
//! words for finding it, so they are written down once.

use argh::ArgsInfo;

use crate::cli::given::{Declared, FromGiven, Given};
use crate::cli::words::Word;

/// What all verbs that ask one supervisor have in common.
pub struct Common {
    pub socket: Option<Word>,
    pub session: Option<Word>,
    pub dir: Option<Word>,
    pub timeout: Option<Word>,
    pub json: bool,
    /// The plain words: SESSION, and for some verbs more.
    pub words: Vec<Word>,
}

impl Common {
    /// After the verb has taken its own.
    pub fn from_given(given: &mut Given) -> Common {
        Common {
            socket: given.take(),
            session: given.take(),
            dir: given.take(),
            timeout: given.take(),
            json: given.take(),
            words: given.take(),
        }
    }
}

/// Declares a verb to argh, and has its fields filled in the order in which argh lists them; `$more` are
/// declared behind them, and filled by others. argh's own parser would be there once for each of the
/// thirty verbs, with 5 KB of code for each.
macro_rules! verb {
    (
        $(#[$($attribute:tt)*])*
        $name:literal $Verb:ident, usage $usage:literal
        { $($(#[$($about:tt)*])* pub $field:ident: $Kind:ident $(<$Of:ident>)?,)* }
        $({ $($more:tt)* })?
    ) => {
        pub struct $Verb {
            $(pub $field: $Kind $(<$Of>)?,)*
        }

        impl FromGiven for $Verb {
            const NAME: &'static str = $name;

            fn declared() -> Declared {
                #[derive(ArgsInfo)]
                $(#[$($attribute)*])*
                #[allow(dead_code, reason = "only declared")]
                struct All {
                    $($(#[$($about)*])* $field: $Kind $(<$Of>)?,)*
                    $($($more)*)?
                }

                Declared { usage: $usage, info: All::get_args_info() }
            }

            #[allow(unused_variables, reason = "some verbs have no options of their own")]
            fn from_given(given: &mut Given) -> Self {
                $Verb { $($field: given.take(),)* }
            }
        }
    };
}

/// `$timeout` is the help of `--timeout`, with its default; `$codes` that of the exit codes, where
/// they are not everybody's.
macro_rules! client_verb {
    (
        $(#[$($attribute:tt)*])*
        $name:literal $Verb:ident, usage $usage:literal, timeout $timeout:tt
        { $($fields:tt)* }
    ) => {
        client_verb! {
            $(#[$($attribute)*])*
            $name $Verb, usage $usage, timeout $timeout, codes
            "Exit codes: 0, or\n\
             \u{20}   1  refused, or the answer is no; or stdout cannot be written\n\
             \u{20}   2  usage error, or more than one session to choose from\n\
             \u{20}  69  no supervisor answers\n\
             \u{20} 124  no answer in time; the request was sent, so it may be done\n"
            { $($fields)* }
        }
    };
    (
        $(#[$($attribute:tt)*])*
        $name:literal $Verb:ident, usage $usage:literal, timeout $timeout:tt, codes $codes:tt
        { $($fields:tt)* }
    ) => {
        verb! {
            $(#[$($attribute)*])*
            #[argh(
                subcommand,
                note = "Without --socket and SESSION: $AGENTSUP_SOCKET, else $AGENTSUP_SESSION, else\n\
                        the only live session of the state dir. `agentsup ls` lists them. Durations\n\
                        are 8, 8s, 500ms, 5m or 2h.\n",
                note = $codes,
                note = "Environment:\n\
                        \u{20} AGENTSUP_DIR      the state dir, when --dir is not given\n\
                        \u{20} AGENTSUP_SESSION  the session, when nothing else names one\n\
                        \u{20} AGENTSUP_SOCKET   the socket, when neither --socket nor SESSION is given\n\
                        \u{20} NO_COLOR          set: no colours on a terminal"
            )]
            $name $Verb, usage $usage
            { $($fields)* }
            {
                /// PATH of the supervisor's socket
                #[argh(option, arg_name = "PATH")]
                socket: Option<Word>,

                /// ID of the session, the same as SESSION
                #[argh(option, arg_name = "ID")]
                session: Option<Word>,

                /// PATH of the state dir that holds the session (default: $AGENTSUP_DIR, else the first
                /// of .agent-doc of the project, /run/agentsup, $XDG_RUNTIME_DIR/agentsup and
                /// /tmp/agentsup-UID that does)
                #[argh(option, arg_name = "PATH")]
                dir: Option<Word>,

                #[doc = $timeout]
                #[argh(option, arg_name = "DURATION")]
                timeout: Option<Word>,

                /// print JSON instead of text for people
                #[argh(switch)]
                json: bool,

                #[argh(positional, greedy, arg_name = "SESSION")]
                words: Vec<Word>,
            }
        }
    };
}

mod asking;
mod bridge;
mod claims;
mod tree;

pub use asking::{Describe, Done, Idle, Permission, Question};
pub use bridge::{Ack, Heartbeat, Progress, Trigger, Triggers, Unblock};
pub use claims::{Claim, Claims, Commits};
pub use tree::Child;

client_verb! {
    #[argh(
        name = "state",
        description = "what the supervisor and its agent are doing",
        example = "{command_name}\n{command_name} --deep my-session\n{command_name} --json | jq .phase"
    )]
    "state" State, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// look at the whole process tree: zombies, CPU and memory
        #[argh(switch)]
        pub deep: bool,

        /// say what the conclusions rest on
        #[argh(switch)]
        pub why: bool,
    }
}

client_verb! {
    #[argh(
        name = "pid",
        description = "the agent's pid; 1 when none runs",
        example = "{command_name}\nkill -USR1 $({command_name} my-session)"
    )]
    "pid" Pid, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "ping",
        description = "ask whether a supervisor answers, and which version",
        example = "{command_name}\n{command_name} --socket /state/supervisor/a.sock"
    )]
    "ping" Ping, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "restart",
        description = "end the agent and start it again; prints the new pid",
        example = "{command_name}\n{command_name} --fresh my-session",
        note = "It is no failure of the agent. Answers when the new agent runs.\n"
    )]
    "restart" Restart, usage "[options] [SESSION]",
    timeout "DURATION that the new agent may take to run (default: 2m)" {
        /// fresh|continue: how it treats the conversation (default: continue)
        #[argh(option, arg_name = "fresh|continue")]
        pub mode: Option<Word>,

        /// the same as --mode fresh
        #[argh(switch)]
        pub fresh: bool,
    }
}

client_verb! {
    #[argh(
        name = "interrupt",
        description = "cancel what the agent is doing, as its own key would",
        note = "A claude that is idle is left alone: its key means something else then.\n",
        example = "{command_name}\n{command_name} my-session"
    )]
    "interrupt" Interrupt, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "pause",
        description = "freeze the agent and all it has started, until `resume`",
        example = "{command_name}\n{command_name} my-session"
    )]
    "pause" Pause, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "resume",
        description = "go on after a halt or a pause; prints the pid",
        example = "{command_name}\n{command_name} my-session"
    )]
    "resume" Resume, usage "[options] [SESSION]",
    timeout "DURATION that the agent may take to run (default: 2m)" {}
}

client_verb! {
    #[argh(
        name = "stop",
        description = "end the agent, all it has started, and the supervisor",
        example = "{command_name}\n{command_name} --now my-session",
        note = "Answers at once; the end takes at most the supervisor's --grace.\n"
    )]
    "stop" Stop, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// kill at once, without the grace
        #[argh(switch)]
        pub now: bool,
    }
}

client_verb! {
    #[argh(
        name = "send",
        description = "type a text into the agent's line and press Enter",
        example = "{command_name} 'fix the build'\n{command_name} my-session - < task.md\n\
                   {command_name} --no-submit 'a draft'",
        note = "Text up to 16 KiB, several lines too; control characters are left out. `-`\n\
                reads stdin to its end. One word is the TEXT, two are SESSION and TEXT. It\n\
                is refused while somebody's draft stands in the line.\n",
        note = "Prints how far it came: `confirmed` when the agent itself says that it was\n\
                given this prompt (claude), `submitted` when Enter was pressed and nobody\n\
                knows more, `written` with --no-submit.\n"
    )]
    "send" Send, usage "[options] [SESSION] (TEXT|-)",
    timeout "DURATION that the answer may take (default: 40s)" {
        /// leave out the Enter: the text stands in the line
        #[argh(switch)]
        pub no_submit: bool,

        /// type it although a draft stands in the line
        #[argh(switch)]
        pub force: bool,
    }
}

client_verb! {
    #[argh(
        name = "inject",
        description = "type raw bytes into the agent's terminal",
        example = "{command_name} y\nprintf 'hello\\r' | {command_name} -\n{command_name} my-session -- -v",
        note = "Exactly as given, up to 48 KiB: nothing is added, no Enter either. `-` reads\n\
                stdin to its end. One word is the TEXT, two are SESSION and TEXT.\n"
    )]
    "inject" Inject, usage "[options] [SESSION] (TEXT|-)",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "screen",
        description = "what the agent's terminal shows",
        example = "{command_name}\n{command_name} --ansi my-session\n{command_name} --lines 200 | less",
        note = "Without an agent it is the last one's. Secrets are shown as asterisks.\n"
    )]
    "screen" Screen, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// the last N lines that hold something, also of what scrolled off (default: the screen)
        #[argh(option, short = 'n', arg_name = "N")]
        pub lines: Option<Word>,

        /// with colours and attributes
        #[argh(switch)]
        pub ansi: bool,
    }
}

client_verb! {
    #[argh(
        name = "attach",
        description = "be at the agent's terminal",
        example = "{command_name}\n{command_name} --readonly my-session",
        note = "From any terminal, any number at once. It shows all that the terminal does,\n\
                secrets too. The newest one that may type has its size.\n",
        note = "Ctrl-\\ twice detaches (or the supervisor's [screen] detach_key), and so does\n\
                closing the terminal; the agent goes on. Ctrl-Z suspends this client alone.\n\
                While no agent runs, Enter starts it.\n"
    )]
    "attach" Attach, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)", codes
    "Exit codes: 0 when detached or the session has ended, 128+n after a signal, or\n\
     \u{20}   1  refused\n\
     \u{20}   2  usage error, no terminal, or more than one session to choose from\n\
     \u{20}  69  no supervisor answers, or the connection was lost\n\
     \u{20} 124  no answer in time\n"
    {
        /// only watch: nothing that is typed reaches the agent; Ctrl-C leaves
        #[argh(switch)]
        pub readonly: bool,
    }
}

client_verb! {
    #[argh(
        name = "events",
        description = "what happened, one event a line",
        example = "{command_name}\n{command_name} -f my-session\n{command_name} --json --since 42 -f",
        note = "The last events are held in memory. With --since nothing is missed after a\n\
                reconnect while they still are; a gap is told with its size.\n"
    )]
    "events" Events, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// only events after number N (default: with -f new ones, else all that are held)
        #[argh(option, arg_name = "N")]
        pub since: Option<Word>,

        /// go on with new ones until the supervisor ends
        #[argh(switch, short = 'f')]
        pub follow: bool,
    }
}

client_verb! {
    #[argh(
        name = "logs",
        description = "the last lines of the log",
        example = "{command_name}\n{command_name} -n 20 -f my-session"
    )]
    "logs" Logs, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// how many lines (default: 100)
        #[argh(option, short = 'n', arg_name = "N")]
        pub lines: Option<Word>,

        /// go on with new ones until the supervisor ends
        #[argh(switch, short = 'f')]
        pub follow: bool,
    }
}

client_verb! {
    #[argh(
        name = "transcript",
        description = "what was said, from the agent's own transcript",
        example = "{command_name}\n{command_name} -n 20 -f my-session\n{command_name} --json | jq -r .text",
        note = "Only claude's, so far. What tools gave back is cut to a few lines; --json has\n\
                all of it. Secrets are masked. -f goes on over restarts of the agent.\n"
    )]
    "transcript" Transcript, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// how many entries: what somebody said, a tool that was used, what it gave back (default:
        /// 100)
        #[argh(option, short = 'n', arg_name = "N")]
        pub lines: Option<Word>,

        /// go on with new ones until the supervisor ends
        #[argh(switch, short = 'f')]
        pub follow: bool,
    }
}

client_verb! {
    #[argh(
        name = "wait",
        description = "wait until the agent is where it should be",
        example = "{command_name} --for ready --timeout 30s\n{command_name} --for exit my-session; echo $?",
        note = "`--for exit` ends with the agent's own code, or 128+n when signal n ended it.\n"
    )]
    "wait" Wait, usage "--for WHAT [options] [SESSION]",
    timeout "DURATION after which to give up with 124 (default: never)" {
        /// ready|exit|halted|idle: what to wait for; idle is when it has nothing to do, by its own word
        #[argh(option, long = "for", arg_name = "ready|exit|halted|idle")]
        pub until: Option<Word>,
    }
}

client_verb! {
    #[argh(
        name = "health",
        description = "for probes: 0 healthy, 1 not, and one line of reason",
        example = "{command_name}\nHEALTHCHECK CMD [\"/agentsup\", \"health\"]",
        note = "Halted, stopping, paused, no answer in time and no supervisor are 1. Degraded\n\
                and waiting to restart are 0: the supervisor is at work.\n"
    )]
    "health" Health, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)", codes
    "Exit codes: 0 when healthy, or\n\
     \u{20}   1  not healthy, or nobody to ask; or stdout cannot be written\n\
     \u{20}   2  usage error, or more than one session to choose from\n"
    {}
}

client_verb! {
    #[argh(
        name = "stats",
        description = "figures since the supervisor started",
        example = "{command_name}\n{command_name} --json my-session"
    )]
    "stats" Stats, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "metrics",
        description = "the figures as Prometheus text",
        example = "{command_name}\n{command_name} --textfile /var/lib/node_exporter/agent.prom"
    )]
    "metrics" Metrics, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// FILE to write them to, replaced as a whole, for a collector
        #[argh(option, arg_name = "FILE")]
        pub textfile: Option<Word>,
    }
}

verb! {
    #[argh(
        subcommand,
        name = "hook",
        description = "for the agent itself: tell the supervisor what happens",
        example = "{command_name} UserPromptSubmit < event.json",
        note = "`agentsup run` makes claude and codex call it (--no-hooks: not). Tells\n\
                $AGENTSUP_SOCKET what the JSON on stdin, or its second word, says. Whatever\n\
                happens it ends with 0 within half a second of that: an agent must not suffer\n\
                from it. A terminal on stdin is not read.\n",
        note = "PermissionRequest waits for `agentsup permission allow` or `deny` and prints\n\
                the answer as claude reads it; without a supervisor nothing, and claude asks.\n",
        note = "Exit codes: 0, or\n\
                \u{20}   2  usage error"
    )]
    "hook" Hook, usage "EVENT [JSON]" {
        #[argh(positional, greedy, arg_name = "EVENT")]
        pub words: Vec<Word>,
    }
}

verb! {
    #[argh(
        subcommand,
        name = "ls",
        description = "the sessions of the state dir, dead ones too",
        example = "{command_name}\n{command_name} --tree\n{command_name} --dir /state --json",
        note = "Health is `dead` without a supervisor, and `silent` when one does not answer\n\
                within half a second. On a narrow terminal a session that is a UUID is shown\n\
                by its first 8 characters; every verb takes those too.\n",
        note = "Lines below the table that end in REGISTRY_DRIFT tell of a record, a lock or a\n\
                socket that is not true of what lives, as a kill leaves them: the session's\n\
                next start mends that, `agentsup prune` removes what is dead.\n",
        note = "Exit codes: 0, or\n\
                \u{20}   1  the state dir cannot be read, or stdout not written\n\
                \u{20}   2  usage error"
    )]
    "ls" Ls, usage "[options]" {
        /// PATH of the state dir (default: $AGENTSUP_DIR, else .agent-doc of the project,
        /// /run/agentsup, $XDG_RUNTIME_DIR/agentsup and /tmp/agentsup-UID together)
        #[argh(option, arg_name = "PATH")]
        pub dir: Option<Word>,

        /// live sessions alone, and the children of a node below it
        #[argh(switch)]
        pub tree: bool,

        /// print a JSON array instead of a table
        #[argh(switch)]
        pub json: bool,

        #[argh(positional, greedy, arg_name = "NOTHING")]
        pub words: Vec<Word>,
    }
}

verb! {
    #[argh(
        subcommand,
        name = "prune",
        description = "remove what dead sessions left behind, and nothing that lives",
        example = "{command_name} --dry-run\n{command_name} --logs --dir /state",
        note = "Sockets, locks, triggers, records and claims of sessions without a supervisor.\n\
                With its record a session's conversation is forgotten: its next start is a\n\
                fresh one. Logs stay unless --logs. Safe to run twice, and to interrupt.\n",
        note = "Exit codes: 0, or\n\
                \u{20}   1  something could not be removed, or stdout not written\n\
                \u{20}   2  usage error"
    )]
    "prune" Prune, usage "[options]" {
        /// PATH of the state dir (default: as for `agentsup ls`)
        #[argh(option, arg_name = "PATH")]
        pub dir: Option<Word>,

        /// remove their logs too
        #[argh(switch)]
        pub logs: bool,

        /// only say what would be removed
        #[argh(switch)]
        pub dry_run: bool,

        /// print a JSON array instead of text for people
        #[argh(switch)]
        pub json: bool,

        #[argh(positional, greedy, arg_name = "NOTHING")]
        pub words: Vec<Word>,
    }
}
