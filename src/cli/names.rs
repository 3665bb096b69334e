//! The words of flags and config files for values that are enums, and the nearest word to a typo.

use crate::policy::crash::{OnClean, OnHalt, Restart};
use crate::session::Start;
use crate::supervisor::settings::Io;

pub trait Named: Copy + PartialEq + 'static {
    /// Every value with its word, in the order in which help and errors list them.
    const NAMES: &'static [(&'static str, Self)];

    fn parse(text: &str) -> Result<Self, String> {
        match Self::NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(*value),
            None => Err(format!("`{text}` is not a choice; expected {}", choices::<Self>())),
        }
    }

    fn name(self) -> &'static str {
        let entry = Self::NAMES.iter().find(|(_, value)| *value == self);
        entry.expect("every value of a Named enum is in NAMES").0
    }
}

impl Named for Start {
    const NAMES: &'static [(&'static str, Start)] = &[("fresh", Start::Fresh), ("continue", Start::Continue)];
}

impl Named for Io {
    const NAMES: &'static [(&'static str, Io)] = &[("pty", Io::Pty), ("inherit", Io::Inherit)];
}

impl Named for Restart {
    const NAMES: &'static [(&'static str, Restart)] =
        &[("on-failure", Restart::OnFailure), ("always", Restart::Always), ("no", Restart::No)];
}

impl Named for OnClean {
    const NAMES: &'static [(&'static str, OnClean)] =
        &[("exit", OnClean::Exit), ("prompt", OnClean::Prompt), ("restart", OnClean::Restart)];
}

impl Named for OnHalt {
    const NAMES: &'static [(&'static str, OnHalt)] = &[("exit", OnHalt::Exit), ("wait", OnHalt::Wait)];
}

fn choices<T: Named>() -> String {
    let mut text = String::new();
    for (n, (name, _)) in T::NAMES.iter().enumerate() {
        let last = n + 1 == T::NAMES.len();
        text += if n == 0 { "" } else if last { " or " } else { ", " };
        text += name;
    }
    text
}

/// The candidate that a typo most likely meant: at most two edits away, and not half of a short word.
pub fn nearest<'a>(typo: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = |candidate: &&str| edits(typo, candidate);
    candidates
        .into_iter()
        .map(|candidate| (close(&candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.trim_start_matches('-').len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, one row at a time.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let cheapest = (row[j].min(row[j + 1]) + 1).min(diagonal + usize::from(a != *b));
            diagonal = row[j + 1];
            row[j + 1] = cheapest;
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_back<T: Named + std::fmt::Debug>() {
        for (name, value) in T::NAMES {
            assert_eq!(T::parse(name), Ok(*value));
            assert_eq!(value.name(), *name);
        }
    }

    #[test]
    fn every_name_reads_back() {
        reads_back::<Start>();
        reads_back::<Io>();
        reads_back::<Restart>();
        reads_back::<OnClean>();
        reads_back::<OnHalt>();
    }

    #[test]
    fn a_wrong_choice_lists_the_right_ones() {
        let error = Restart::parse("never").unwrap_err();
        assert_eq!(error, "`never` is not a choice; expected on-failure, always or no");
    }

    #[test]
    fn nearest_helps_with_typos_and_keeps_quiet_otherwise() {
        let options = ["--cwd", "--dir", "--document", "--restart", "--on-clean"];
        for (typo, meant) in [
            ("--cdw", None), // two edits in three letters could be anything
            ("--cwdd", Some("--cwd")),
            ("--documnet", Some("--document")),
            ("--restrat", Some("--restart")),
            ("--on_clean", Some("--on-clean")),
            ("--frobnicate", None),
        ] {
            assert_eq!(nearest(typo, options), meant, "{typo}");
        }
    }
}
