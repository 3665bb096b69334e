//! The options of the verbs for what the agent asks, and what it says of itself.

use argh::ArgsInfo;

use crate::cli::given::{Declared, FromGiven, Given};
use crate::cli::words::Word;

client_verb! {
    #[argh(
        name = "permission",
        description = "what the agent asks to be allowed, and the answer",
        example = "{command_name} ls\n\
                   {command_name} allow\n\
                   {command_name} deny p3 --reason 'not on the main branch'",
        note = "ID may be left out when one waits. What nobody answers within [permission]\n\
                timeout (5m) is denied. The agent cannot allow its own requests. A session is\n\
                named by --session.\n"
    )]
    "permission" Permission, usage "[options] (ls|allow|deny) [ID]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// REASON for a deny, which the agent reads
        #[argh(option, arg_name = "REASON")]
        pub reason: Option<Word>,
    }
}

client_verb! {
    #[argh(
        name = "question",
        description = "what the agent wants to know, and the answer",
        example = "{command_name} ls\n\
                   {command_name} answer blue\n\
                   {command_name} answer q3 'after the tests pass'\n\
                   {command_name} ask 'Which colour?' --choice red --choice blue",
        note = "`ask` is for the agent: it waits, and prints the answer. What nobody answers\n\
                within [permission] timeout (5m) ends with 124. ID may be left out when one\n\
                waits. A session is named by --session.\n"
    )]
    "question" Question, usage "[options] (ls|answer [ID] TEXT|ask TEXT)",
    timeout "DURATION that the answer may take (default: 5s; without end for `ask`)" {
        /// one of the answers that will do; repeatable
        #[argh(option, arg_name = "CHOICE")]
        pub choice: Vec<Word>,
    }
}

client_verb! {
    #[argh(
        name = "idle",
        description = "for the agent: it has nothing to do",
        example = "{command_name}"
    )]
    "idle" Idle, usage "[options] [SESSION]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "done",
        description = "for the agent: what it was started for is done",
        example = "{command_name}\n{command_name} 'all tests pass'",
        note = "A session is named by --session.\n"
    )]
    "done" Done, usage "[options] [TEXT]",
    timeout "DURATION that the answer may take (default: 5s)" {}
}

client_verb! {
    #[argh(
        name = "describe",
        description = "for the agent: what it is about, for `state` and `ls`",
        example = "{command_name} 'fixes the build'"
    )]
    "describe" Describe, usage "[options] [SESSION] TEXT",
    timeout "DURATION that the answer may take (default: 5s)" {}
}
