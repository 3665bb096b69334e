//! `[[rule]]`: what could never be met or done is refused, not ignored.

use super::{Chosen, Failure, Picker};
use crate::cli::config::rule::shown_as;
use crate::policy::rules::{Rule, Then, When};
use crate::session::Profile;
use crate::supervisor::settings::Io;

pub(super) fn settle(
    pick: &mut Picker,
    rules: &[Rule],
    profile: Profile,
    io: &Chosen<Io>,
    has_screen: bool,
) -> Result<(), Failure> {
    let file = pick.file();
    for rule in rules {
        let inherits = io.value == Io::Inherit;
        let why = match (&rule.when, &rule.then) {
            (When::SilentFor(_) | When::ScreenContains(_), _) if inherits => Some(format!(
                "`{}` needs the agent's output, and io inherit ({}) leaves it alone; use --io pty",
                rule.when.name(),
                io.source
            )),
            (_, Then::Warn(_)) if inherits => Some(format!(
                "`warn` is typed into the agent's terminal, and with io inherit ({}) it has none of its own; \
                 use --io pty",
                io.source
            )),
            (When::ScreenContains(_), _) if !has_screen => {
                Some("`screen_contains` needs the screen; leave out [screen] enabled = false".to_owned())
            }
            (When::MaxTokens(_), _) if profile != Profile::Claude => Some(
                "`max_tokens` is counted from claude's own transcript, and the agent is another; --agent \
                 claude is for a claude of another name"
                    .to_owned(),
            ),
            _ => None,
        };
        if let Some(why) = why {
            return Err(Failure::refused(format!("rule {} ({file}): {why}", rule.name)));
        }
        pick.note(&format!("rule {}", rule.name), &file, || shown_as(rule));
    }
    Ok(())
}
