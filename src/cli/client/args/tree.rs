//! The options of the verb for the children of a node.

use argh::ArgsInfo;

use crate::cli::given::{Declared, FromGiven, Given};
use crate::cli::words::Word;

client_verb! {
    #[argh(
        name = "child",
        description = "start, stop or restart a child of a node; add to a pool or remove",
        example = "{command_name} restart lead --session team\n\
                   {command_name} add --session team.pool --prompt 'fix issue 7'\n\
                   {command_name} add d7 --session team.pool --env ISSUE=7",
        note = "The node is named by --session; `agentsup ls --tree` shows it and the ids of\n\
                its children. What is asked for here does not count as a restart of the\n\
                node's own. The answer comes when it is taken up, not when it is done.\n"
    )]
    "child" Child, usage "[options] (start|stop|restart|remove) ID | add [ID]",
    timeout "DURATION that the answer may take (default: 5s)" {
        /// TEXT for the first start of the added child, as `run --prompt`
        #[argh(option, arg_name = "TEXT")]
        pub prompt: Option<Word>,

        /// NAME=VALUE in the environment of the added child's agent; repeatable
        #[argh(option, arg_name = "NAME=VALUE")]
        pub env: Vec<Word>,

        /// ARG behind the command of the added child; repeatable
        #[argh(option, arg_name = "ARG")]
        pub arg: Vec<Word>,
    }
}
