//! What flags and file say about recording.

use std::path::PathBuf;

use super::{Chosen, Picker};
use crate::cli::Failure;
use crate::cli::names::Named;
use crate::supervisor::settings::{Io, RecordSettings};

/// The file, and whether what is typed is recorded too.
type Wants = (Option<PathBuf>, Option<bool>);

pub(super) fn settle(
    pick: &mut Picker,
    (flags, file): (Wants, Wants),
    io: &Chosen<Io>,
) -> Result<Option<RecordSettings>, Failure> {
    let shown = |path: &Option<PathBuf>| path.as_ref().map_or("none".to_owned(), |p| p.display().to_string());
    let record = pick.one("record", flags.0.map(Some), file.0.map(Some), (None, "default"), shown);
    let input = pick.one("record_input", flags.1, file.1, (false, "default"), bool::to_string);
    match record.value {
        Some(_) if io.value == Io::Inherit => Err(Failure::refused(format!(
            "record ({}) contradicts io {} ({}): a recording is of the agent's own terminal, and it would \
             have none; give it one with --io pty, or do not record",
            record.source,
            io.value.name(),
            io.source
        ))),
        Some(path) => Ok(Some(RecordSettings { file: path, input: input.value })),
        None if input.value => Err(Failure::refused(format!(
            "record_input ({}) means nothing without a recording; name its file with --record",
            input.source
        ))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::settings::tests::{settled, source};
    use crate::cli::world::Stdin::{Data, Null, Terminal};

    #[test]
    fn nothing_is_recorded_unless_asked_for_and_typing_only_if_asked_twice() {
        let of = |line: &str, file: &str| settled(line, Some(file), Null).unwrap();
        assert_eq!(of("sh", "").record, None);
        assert_eq!(source(&of("sh", ""), "record"), ("none", "default"));
        let plain = of("--record a.cast sh", "[run]\nrecord = \"b.cast\"");
        assert_eq!(plain.record, Some(RecordSettings { file: "a.cast".into(), input: false }));
        assert_eq!(source(&plain, "record"), ("a.cast", "flag"));
        let typed = of("--record-input sh", "[run]\nrecord = \"b.cast\"");
        assert_eq!(typed.record, Some(RecordSettings { file: "b.cast".into(), input: true }));
        assert_eq!(source(&typed, "record"), ("b.cast", "config a.toml"));
        assert_eq!(source(&typed, "record_input"), ("true", "flag"));
        assert_eq!(of("sh", "[run]\nrecord_input = false").record, None);
    }

    #[test]
    fn what_could_record_nothing_is_refused_and_says_what_to_do() {
        for (line, file, stdin, parts) in [
            ("--record a --io inherit sh", "", Null, ["record (flag)", "io inherit (flag)"]),
            ("--record a claude -p hi", "", Terminal, ["io inherit (default (one-shot call))", "--io pty"]),
            ("--record a sh", "", Data, ["io inherit (default (data on stdin))", "--io pty"]),
            ("claude -p hi", "[run]\nrecord = \"a\"", Null, ["record (config a.toml)", "--io pty"]),
            ("--record-input sh", "", Null, ["record_input (flag)", "--record"]),
            ("sh", "[run]\nrecord_input = true", Null, ["record_input (config a.toml)", "--record"]),
        ] {
            let failure = settled(line, Some(file), stdin).expect_err(line);
            assert_eq!(failure.code, 78, "{line}");
            for part in parts {
                assert!(failure.message.contains(part), "{line}: {}", failure.message);
            }
        }
        assert!(settled("--record a --io pty claude -p hi", None, Data).unwrap().record.is_some());
    }
}
