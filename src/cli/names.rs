//! The words of flags and config files for values that are enums, and the nearest word to a typo.

use crate::control::access::Role;
use crate::control::protocol::{Mode, WaitFor};
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

/// `[access] group` has only the last two.
impl Named for Role {
    const NAMES: &'static [(&'static str, Role)] = &[
        ("agent", Role::Agent),
        ("peer", Role::Peer),
        ("observer", Role::Observer),
        ("operator", Role::Operator),
    ];
}

impl Named for Mode {
    const NAMES: &'static [(&'static str, Mode)] = &[("fresh", Mode::Fresh), ("continue", Mode::Continue)];
}

impl Named for WaitFor {
    const NAMES: &'static [(&'static str, WaitFor)] = &[
        ("ready", WaitFor::Ready),
        ("exit", WaitFor::Exit),
        ("halted", WaitFor::Halted),
        ("idle", WaitFor::Idle),
    ];
}

fn choices<T: Named>() -> String {
    let mut text = String::new();
    for (n, (name, _)) in T::NAMES.iter().enumerate() {
        let last = n + 1 == T::NAMES.len();
        text += if n == 0 {
            ""
        } else if last {
            " or "
        } else {
            ", "
        };
        text += name;
    }
    text
}

/// The candidate that a typo most likely meant: at most two edits away, and not half of a short word.
pub fn nearest<'a>(typo: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edits(typo, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.trim_start_matches('-').len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, drop, change or swap with their neighbour to come from one word to the other.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let changed = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
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
        reads_back::<Role>();
        reads_back::<Mode>();
        reads_back::<WaitFor>();
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
            ("--cdw", Some("--cwd")),
            ("--cxx", None), // two edits in three letters could be anything
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
