//! An agent that does what the test says while it runs: a shell that reads its script from a fifo.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::{AGENTSUP, Caller, Lab, Launch, Running};

pub struct Directed {
    pub sup: Running,
    pub caller: Caller,
    script: File,
}

impl Directed {
    /// With hooks that `--agent claude` gets it would be a claude: this one is of no known kind.
    pub fn start(lab: &Lab, config: &str) -> Directed {
        Directed::with(lab, config, |launch| launch)
    }

    pub fn with(lab: &Lab, config: &str, more: impl Fn(Launch) -> Launch) -> Directed {
        Directed::begin(lab, config, more(Launch::run(lab, ["sh", &lab.text("script")])))
    }

    /// One that is taken for claude, and does nothing with the arguments that claude is given.
    pub fn claude(lab: &Lab, config: &str) -> Directed {
        let agent = lab.write("agent", &format!("#!/bin/sh\n. {}\n", lab.text("script")));
        std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).expect("it is ours");
        Directed::begin(lab, config, Launch::run(lab, [agent.as_str()]).with(["--agent", "claude"]))
    }

    fn begin(lab: &Lab, config: &str, launch: Launch) -> Directed {
        let fifo = lab.path("script");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        let config = lab.write("config.toml", config);
        let sup = launch.with(["--config", &config]).start();
        let mut caller = Caller::of(lab);
        caller.wait_for("ready");
        let script = OpenOptions::new().write(true).open(&fifo).expect("the agent reads it");
        Directed { sup, caller, script }
    }

    /// The same supervisor with its next agent, which reads what comes from now on.
    pub fn again(self, lab: &Lab) -> Directed {
        let Directed { sup, caller, script: old } = self;
        let script = OpenOptions::new().write(true).open(lab.path("script")).expect("the agent reads it");
        // Not before: it may have opened its end already, and would see ours closed.
        drop(old);
        Directed { sup, caller, script }
    }

    /// A line of shell; it may run in the background.
    pub fn does(&mut self, line: &str) {
        writeln!(self.script, "{line}").expect("the agent reads it");
    }

    /// The agent calls `agentsup hook EVENT`, and what that printed goes to `out`.
    pub fn hooks(&mut self, event: &str, told: &str, out: &str) {
        self.does(&format!("printf '%s' '{told}' | {AGENTSUP} hook {event} >{out}.new; mv {out}.new {out}"));
    }

    /// The same without waiting for it.
    pub fn hooks_beside(&mut self, event: &str, told: &str, out: &str) {
        self.does(&format!(
            "{{ printf '%s' '{told}' | {AGENTSUP} hook {event} >{out}.new; mv {out}.new {out}; }} &"
        ));
    }

    pub fn until_activity(&mut self, activity: &str) {
        let caller = &mut self.caller;
        super::eventually(activity, || caller.state()["activity"] == activity);
    }

    pub fn stop(mut self) {
        self.caller.get("stop", serde_json::json!({"graceful": false}));
        self.sup.end();
    }
}
