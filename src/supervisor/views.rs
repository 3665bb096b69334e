//! The agent's screen for whoever is not in front of it: callers, and the report of a halt.

use super::Supervisor;
use super::calls::{Answer, Answered, refuse};
use super::console::Console;
use super::settings::Io;
use crate::control::protocol::{Body, Code, Cursor, Screen};
use crate::screen::{Capture, Queries};

/// Whoever is at the terminal on stdin has its answers, and the agent must not get two. A terminal
/// without a size has nobody at it yet: a detached container's, until somebody attaches.
pub(super) fn queries(console: &Console) -> Queries {
    if console.has_sized_terminal() { Queries::Terminal } else { Queries::Us }
}

impl Supervisor {
    /// Without secrets. `None` before the first agent, and where its output is not followed.
    fn capture(&self, last: Option<usize>) -> Option<Capture> {
        let mut capture = self.screen.capture(last, |text| self.log.hidden(text))?;
        capture.title = self.log.mask(&capture.title);
        Some(capture)
    }

    /// Of the agent that runs, or else of the last one.
    pub(super) fn show_screen(&self, lines: Option<u32>, ansi: bool) -> Answered {
        if self.io() == Io::Inherit {
            return refuse(Code::NoPty, "the agent has no terminal of its own (--io inherit), so no screen");
        }
        if !self.screen.is_on() {
            return refuse(Code::Unsupported, "the screen is not followed ([screen] enabled = false)");
        }
        let Some(capture) = self.capture(lines.map(|lines| lines as usize)) else {
            return refuse(Code::NotRunning, "no agent has run yet, so there is no screen");
        };
        // No side of a terminal is longer than 4096.
        let short = |number: usize| number as u32;
        Ok(Answer::Now(Body::Screen(Box::new(Screen {
            text: if ansi { capture.ansi() } else { capture.text() },
            cursor: Cursor {
                row: short(capture.row),
                col: short(capture.col),
                visible: capture.cursor_is_visible,
            },
            rows: short(capture.rows),
            cols: short(capture.cols),
            title: capture.title,
        }))))
    }

    /// The agent's last lines that are not blank.
    pub(super) fn last_lines(&self, most: usize) -> Vec<String> {
        // A line may be wrapped over several rows, and blank ones do not count.
        let lines = self.capture(Some(usize::MAX)).map_or_else(Vec::new, |capture| capture.whole_lines());
        lines[lines.len().saturating_sub(most)..].to_vec()
    }
}
