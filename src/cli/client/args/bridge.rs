//! The options of the verbs between callers and the agent: triggers, and what the agent says of them.

use argh::ArgsInfo;

use crate::cli::given::{Declared, FromGiven, Given};
use crate::cli::words::Word;

client_verb! {
    #[argh(
        name = "trigger",
        description = "a message for the agent that must arrive, and whether it did",
        example = "{command_name} --thread ci 'the build is red'\n\
                   {command_name} --thread ci --id build-7 my-session - < log.txt\n\
                   {command_name} --thread ci --force --why 'on call' 'stop that'",
        note = "Text up to 16 KiB; `-` reads stdin to its end. It is typed into the agent's\n\
                line with a frame around it, never while an operator is at work, and has\n\
                arrived when the agent acknowledges it: by its hook (claude), by `agentsup\n\
                ack`, `progress` or `heartbeat`, or by a line of output that begins with\n\
                ACK_TRIGGER:ID.\n",
        note = "A claude or codex that does not acknowledge it is ended, a one-shot call\n\
                brings it into the conversation, and the agent returns; while a human\n\
                types, a fork of the conversation gets it instead.\n",
        note = "The same --id again is the same trigger: what became of it is said, and\n\
                nothing is typed twice. Whoever stops waiting (Ctrl-C) leaves it waiting:\n\
                `agentsup triggers --cancel ID` takes back what was not typed yet.\n"
    )]
    "trigger" Trigger, usage "--thread T [options] [SESSION] (TEXT|-)",
    timeout "DURATION that all of it may take (default: 10m)", codes
    "Exit codes: 0 when delivered, or accepted with --no-wait, or\n\
     \u{20}   1  stdout cannot be written\n\
     \u{20}   2  usage error, or more than one session to choose from\n\
     \u{20}  65  bad input: the text, the id, the thread, the reason, or no --why\n\
     \u{20}  69  no supervisor answers (TARGET_NOT_FOUND), or it ended meanwhile\n\
     \u{20}  70  it failed; the code in brackets says why\n\
     \u{20}  75  not now: an operator is at work (with --no-wait it comes later\n\
     \u{20}      by itself), or there are too many\n\
     \u{20}  77  forbidden\n\
     \u{20} 124  no answer in time; `agentsup triggers` tells what became of it\n"
    {
        /// what the message is about; a thread's triggers come in order
        #[argh(option, arg_name = "T")]
        pub thread: Option<Word>,

        /// a few words for the agent
        #[argh(option, arg_name = "R")]
        pub reason: Option<Word>,

        /// ID of the trigger (default: a new one)
        #[argh(option, arg_name = "ID")]
        pub id: Option<Word>,

        /// type it although an operator is at work; for operators, with --why
        #[argh(switch)]
        pub force: bool,

        /// WHY it is forced, for the log
        #[argh(option, arg_name = "WHY")]
        pub why: Option<Word>,

        /// do not wait until it has arrived
        #[argh(switch)]
        pub no_wait: bool,
    }
}

client_verb! {
    #[argh(
        name = "triggers",
        description = "the triggers that wait and the last that have ended",
        example = "{command_name}\n{command_name} --json my-session\n{command_name} --cancel build-7"
    )]
    "triggers" Triggers, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// ID of a trigger that is not to be typed any more
        #[argh(option, arg_name = "ID")]
        pub cancel: Option<Word>,
    }
}

client_verb! {
    #[argh(
        name = "ack",
        description = "for the agent: the trigger with this ID has arrived",
        example = "{command_name} build-7"
    )]
    "ack" Ack, usage "[options] [SESSION] ID",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "progress",
        description = "for the agent: a thread gets on",
        example = "{command_name} --thread ci\n{command_name} --id build-7 --finding 'the cache is stale'",
        note = "Acknowledges the thread's trigger too. The same finding again is no progress:\n\
                three in a row block the thread, as do 20 turns without any.\n"
    )]
    "progress" Progress, usage "(--thread T|--id ID) [options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// the thread
        #[argh(option, arg_name = "T")]
        pub thread: Option<Word>,

        /// ID of a trigger of the thread
        #[argh(option, arg_name = "ID")]
        pub id: Option<Word>,

        /// FINDING, in a sentence
        #[argh(option, arg_name = "FINDING")]
        pub finding: Option<Word>,
    }
}

client_verb! {
    #[argh(
        name = "heartbeat",
        description = "for the agent: it lives, and has the trigger that was typed",
        example = "{command_name}"
    )]
    "heartbeat" Heartbeat, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "unblock",
        description = "free a thread that the loop guard has blocked",
        example = "{command_name} ci\n{command_name} my-session ci"
    )]
    "unblock" Unblock, usage "[options] [SESSION] THREAD",
    timeout "DURATION that the answer may take (default: 5s)" {}
}
