//! The options of the verbs for tickets, and for what was committed.

use argh::ArgsInfo;

use crate::cli::given::{Declared, FromGiven, Given};
use crate::cli::words::Word;

client_verb! {
    #[argh(
        name = "claim",
        description = "make a ticket this session's own, or say whose it is",
        example = "{command_name} ISSUE-12 && echo 'it is ours'\n\
                   {command_name} my-session owner/repo#7\n\
                   {command_name} --release ISSUE-12",
        note = "A TICKET is one line of any text. It stays the session's when its agent is\n\
                restarted. When its supervisor has gone, whoever claims it next has it.\n"
    )]
    "claim" Claim, usage "[options] [SESSION] TICKET",
    timeout "DURATION that the answer may take (default: 5s)", codes
    "Exit codes: 0 when it is the session's own, also when it was before, or\n\
     \u{20}   1  another live session has claimed it; or refused\n\
     \u{20}   2  usage error, or more than one session to choose from\n\
     \u{20}  69  no supervisor answers\n\
     \u{20} 124  no answer in time; the request was sent, so it may be done\n"
    {
        /// it is to be nobody's again; only the session that claimed it can
        #[argh(switch)]
        pub release: bool,
    }
}

verb! {
    #[argh(
        subcommand,
        name = "claims",
        description = "the tickets that sessions of the state dir have claimed",
        example = "{command_name}\n{command_name} --json | jq -r '.[] | select(.live) | .ticket'",
        note = "Who, since when (UTC), and whether that session's supervisor lives. If not,\n\
                whoever claims the ticket next has it; `agentsup prune` removes the claim.\n",
        note = "Exit codes: 0, or\n\
                \u{20}   1  the state dir cannot be read, or stdout not written\n\
                \u{20}   2  usage error"
    )]
    "claims" Claims, usage "[options]" {
        /// PATH of the state dir (default: as for `agentsup ls`)
        #[argh(option, arg_name = "PATH")]
        pub dir: Option<Word>,

        /// print a JSON array instead of a table
        #[argh(switch)]
        pub json: bool,

        #[argh(positional, greedy, arg_name = "NOTHING")]
        pub words: Vec<Word>,
    }
}

client_verb! {
    #[argh(
        name = "commits",
        description = "what was committed since the session began",
        example = "{command_name}\n{command_name} my-session --json | jq -r '.[].hash'",
        note = "Newest first: what the refs of the repository in the agent's directory lead to\n\
                now, and did not lead to then; what was fetched too, stashes and notes not.\n\
                Asks git, not the supervisor: the session may have ended.\n",
        note = "The session begins with its supervisor, not with each agent. One that is\n\
                started with --start continue, or after one that was killed, goes on with it.\n"
    )]
    "commits" Commits, usage "[options] [SESSION]",
    timeout "DURATION that git may take (default: 30s)", codes
    "Exit codes: 0, or\n\
     \u{20}   1  git cannot tell, and why; or stdout cannot be written\n\
     \u{20}   2  usage error, or more than one session to choose from\n\
     \u{20}  69  no such session\n\
     \u{20} 124  git took too long\n"
    {}
}
