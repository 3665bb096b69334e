//! The agent's screen for whoever is not in front of it: callers, and the report of a halt.

use super::Supervisor;
use crate::screen::Capture;

impl Supervisor {
    /// Without secrets. `None` before the first agent, and where its output is not followed.
    fn capture(&self, last: Option<usize>) -> Option<Capture> {
        let mut capture = self.screen.capture(last, |text| self.log.hidden(text))?;
        capture.title = self.log.mask(&capture.title);
        Some(capture)
    }

    /// The agent's last lines that are not blank.
    pub(super) fn last_lines(&self, most: usize) -> Vec<String> {
        // A line may be wrapped over several rows, and blank ones do not count.
        let lines = self.capture(Some(usize::MAX)).map_or_else(Vec::new, |capture| capture.whole_lines());
        lines[lines.len().saturating_sub(most)..].to_vec()
    }
}
