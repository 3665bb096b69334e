//! What a word says about a child: how long it is meant to live, and so its `[policy]`.

use crate::cli::names::Named;
use crate::policy::tree::Keep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Always there: a lead.
    Eternal,
    /// There until its work is done: a worker.
    Mortal,
    /// One task.
    Drone,
}

impl Named for Preset {
    const NAMES: &'static [(&'static str, Preset)] =
        &[("eternal", Preset::Eternal), ("mortal", Preset::Mortal), ("drone", Preset::Drone)];
}

const OF_EXPONENTIAL: [&str; 4] = ["base", "factor", "max", "jitter"];

impl Preset {
    /// Lines of `[policy]`, where the child's own say nothing else. So many restarts within so long, as a node
    /// has it: one failure more within that time halts. Nobody restarts many like it at once, so the first wait
    /// is the one that is written there, without jitter.
    pub fn policy(self, backoff: Option<&str>) -> Vec<(&'static str, &'static str)> {
        // With fixed waits these would be refused, and nobody has written them.
        let is_meant =
            |key: &str| matches!(backoff, None | Some("exponential")) || !OF_EXPONENTIAL.contains(&key);
        self.lines().iter().copied().filter(|(key, _)| is_meant(key)).collect()
    }

    fn lines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Preset::Eternal => &[
                ("halt_after", "11"),
                ("halt_within", "\"1h\""),
                ("window", "\"1h\""),
                ("stable_after", "\"1h\""),
                ("backoff", "\"exponential\""),
                ("base", "\"5s\""),
                ("factor", "2.0"),
                ("max", "\"300s\""),
                ("jitter", "0.0"),
            ],
            Preset::Mortal => &[
                ("halt_after", "4"),
                ("halt_within", "\"300s\""),
                ("window", "\"300s\""),
                ("stable_after", "\"300s\""),
                ("backoff", "\"exponential\""),
                ("base", "\"2s\""),
                ("factor", "2.0"),
                ("max", "\"60s\""),
                ("jitter", "0.0"),
            ],
            Preset::Drone => &[
                ("halt_after", "2"),
                ("halt_within", "\"60s\""),
                ("window", "\"60s\""),
                ("stable_after", "\"60s\""),
            ],
        }
    }

    /// Where `restart` is not given.
    pub fn keep(self) -> Keep {
        match self {
            Preset::Eternal => Keep::Permanent,
            Preset::Mortal => Keep::Transient,
            Preset::Drone => Keep::Temporary,
        }
    }
}
