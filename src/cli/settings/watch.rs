//! What flags and file say about agents that are stuck.

use super::{Chosen, Picker};
use crate::cli::Failure;
use crate::cli::config::watch::Watch;
use crate::policy::watch::Numbers;
use crate::supervisor::settings::Io;

pub(super) fn settle(
    pick: &mut Picker,
    (flag, run): (Option<bool>, Option<bool>),
    file: &Watch,
    io: &Chosen<Io>,
    has_screen: bool,
) -> Result<Option<Numbers>, Failure> {
    let watch = pick.one("watch", flag, run.or(file.enabled), (false, "default"), bool::to_string);
    if pick.shows_all() {
        for (key, value, is_said) in file.shown() {
            pick.note_part(("watch", key), value, is_said);
        }
    }
    let needs = |what: String| Err(Failure::refused(format!("watch ({}) {what}", watch.source)));
    match watch.value {
        true if io.value == Io::Inherit => needs(format!(
            "looks at the agent's screen and types into its terminal, and with io inherit ({}) it has none of \
             its own; use --io pty",
            io.source
        )),
        true if !has_screen => {
            needs("looks at the agent's screen; leave out [screen] enabled = false".to_owned())
        }
        is_on => Ok(is_on.then(|| file.numbers())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::settings::tests::{settled, source};
    use crate::cli::world::Stdin::{Null, Terminal};

    #[test]
    fn nobody_is_watched_unless_asked_for_by_flag_or_file() {
        let of = |line: &str, file: &str| settled(line, Some(file), Null).unwrap();
        assert_eq!(of("sh", "").watch, None);
        assert_eq!(of("sh", "[watch]\nkill_after = \"5m\"").watch, None);
        assert_eq!(of("--watch sh", "").watch, Some(Numbers::default()));
        assert_eq!(of("sh", "[run]\nwatch = true").watch, Some(Numbers::default()));
        assert_eq!(of("--watch sh", "[watch]\nenabled = false").watch, Some(Numbers::default()));
        assert_eq!(of("sh", "[run]\nwatch = false\n[watch]\nenabled = true").watch, None);
        let said = of("sh", "[watch]\nenabled = true\ncontinue_after = \"9s\"\ntool_after = 60");
        let expected = Numbers {
            continue_after: Duration::from_secs(9),
            tool_after: Duration::from_secs(60),
            ..Numbers::default()
        };
        assert_eq!(said.watch, Some(expected));
        assert_eq!(source(&said, "watch"), ("true", "config a.toml"));
        assert_eq!(source(&said, "watch.continue_after"), ("9s", "config a.toml"));
        assert_eq!(source(&said, "watch.kill_after"), ("4m", "default"));
    }

    #[test]
    fn what_could_see_nothing_is_refused_and_says_what_to_do() {
        for (line, file, part) in [
            ("--watch --io inherit sh", "", "watch (flag) looks at the agent's screen and types"),
            ("--watch claude -p hi", "", "io inherit (default (one-shot call))"),
            ("sh", "[watch]\nenabled = true\n[screen]\nenabled = false", "watch (config a.toml)"),
        ] {
            let failure = settled(line, Some(file), Terminal).expect_err(line);
            assert!(failure.code == 78 && failure.message.contains(part), "{line}: {}", failure.message);
        }
    }
}
