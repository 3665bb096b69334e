//! A trigger as the agent reads it, and which words cannot be one. Nothing that is typed ever looks
//! like an acknowledgement, or like the frame of another trigger: an echo must prove nothing.

use super::words::{Asked, Refusal};
use crate::policy::typing::text;

/// What an agent writes at the start of a line to acknowledge; the trigger's id follows.
pub const MARKER: &str = "ACK_TRIGGER:";
const OPENS: &str = "[BRIDGE_TRIGGER";
const CLOSES: &str = "[/BRIDGE_TRIGGER]";
const LONGEST_NAME: usize = 64;
const LONGEST_REASON: usize = 200;
const LONGEST_SUBJECT: usize = 80;

impl Asked {
    pub fn new(
        id: &str,
        thread: &str,
        reason: Option<&str>,
        given: &str,
        force: bool,
        max_bytes: usize,
    ) -> Result<Asked, Refusal> {
        check_name("trigger_id", id)?;
        check_name("thread", thread)?;
        if given.len() > max_bytes {
            return Err(Refusal::TooLarge { bytes: given.len() });
        }
        let text = text::clean(given);
        if text.trim().is_empty() {
            return Err(Refusal::Bad("`text`: there is nothing to type in it".into()));
        }
        check_words("text", &text)?;
        if let Some(reason) = reason {
            check_reason(reason)?;
        }
        let (id, thread, reason) = (id.to_owned(), thread.to_owned(), reason.map(str::to_owned));
        Ok(Asked { id, thread, reason, text, force })
    }

    /// As it is typed.
    pub fn envelope(&self) -> String {
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(" reason={reason}"));
        let (head, text) = (self.head(), self.text.trim_end_matches('\n'));
        format!("{head}{reason}]\n{text}\n{CLOSES}")
    }

    /// How the text begins, on one line.
    pub fn subject(&self) -> String {
        let first = self.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        first.trim().chars().take(LONGEST_SUBJECT).collect()
    }

    fn head(&self) -> String {
        head(&self.id, &self.thread)
    }

    /// Another text, thread or reason has another one: FNV-1a, 64 bits.
    pub fn gist(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for part in [self.thread.as_str(), self.reason.as_deref().unwrap_or(""), &self.text] {
            for byte in part.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash
    }
}

fn head(id: &str, thread: &str) -> String {
    format!("{OPENS} id={id} thread={thread}")
}

/// Whether a prompt holds any trigger.
pub fn is_one(prompt: &str) -> bool {
    text::gist(prompt).contains(OPENS)
}

/// Whether a prompt that the agent was given holds this trigger.
pub fn is_in(prompt: &str, id: &str, thread: &str) -> bool {
    text::gist(prompt).contains(&text::gist(&head(id, thread)))
}

/// Whether what an agent shows up to its cursor ends with a trigger: one that was not sent.
pub fn ends(shown: &str) -> bool {
    let shown = text::gist(shown);
    // claude shows `[Pasted text #1 +300 lines]` in the place of a long one.
    let is_folded = shown.rfind('[').is_some_and(|at| shown[at..].starts_with("[Pastedtext#"));
    shown.ends_with(CLOSES) || is_folded && shown.ends_with(']')
}

pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(Refusal::Bad(format!(
            "`{what}`: expected 1 to {LONGEST_NAME} of A-Z a-z 0-9 . _ -, as in `build-7`"
        ))),
    }
}

/// An agent's own words, fit to be told to another one: a single line, nothing of what we look for.
pub fn plain(words: &str) -> Option<String> {
    let line: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    check_words("words", &line).is_ok().then_some(line)
}

fn check_words(what: &str, words: &str) -> Result<(), Refusal> {
    for own in [MARKER, OPENS, CLOSES] {
        // Blanks and line breaks may go on the way to the agent's screen and back.
        if text::gist(words).contains(own) {
            return Err(Refusal::Bad(format!("`{what}`: it holds `{own}`, which agentsup alone may type")));
        }
    }
    Ok(())
}

fn check_reason(reason: &str) -> Result<(), Refusal> {
    let bad = |why: &str| Err(Refusal::Bad(format!("`reason`: {why}")));
    match reason {
        "" => bad("it is empty; leave it out"),
        _ if reason.len() > LONGEST_REASON => {
            bad("it is over 200 bytes long; the text is the place for more")
        }
        _ if reason.contains(|c: char| c.is_control() || c == ']') => {
            bad("it holds a control character or a `]`; expected a few plain words")
        }
        _ => check_words("reason", reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, thread: &str, reason: Option<&str>, text: &str) -> Result<Asked, Refusal> {
        Asked::new(id, thread, reason, text, false, 100)
    }

    #[test]
    fn an_envelope_holds_id_thread_reason_and_text() {
        let plain = asked("a-1", "t.2", None, "fix it\n\x1b").unwrap();
        assert_eq!(plain.envelope(), "[BRIDGE_TRIGGER id=a-1 thread=t.2]\nfix it\n[/BRIDGE_TRIGGER]");
        let with = asked("a-1", "t.2", Some("CI is red"), "a\n\tb").unwrap();
        let envelope = with.envelope();
        assert_eq!(
            envelope,
            "[BRIDGE_TRIGGER id=a-1 thread=t.2 reason=CI is red]\na\n\tb\n[/BRIDGE_TRIGGER]"
        );
        assert!(is_in(&format!("> {}", envelope.replace('\n', "\r\n  ")), "a-1", "t.2"));
        assert!(!is_in(&envelope, "a", "t.2") && !is_in("a-1", "a-1", "t.2"));
        assert!(ends("❯ [Pasted text #1 +300 lines]") && !ends("❯ [Pasted text #1 +300 lines]\n● ok\n❯ "));
        assert!(ends(&format!("> {envelope}  \n ")) && !ends(&format!("{envelope}\nOK\n> ")));
    }

    #[test]
    fn what_cannot_be_a_trigger_is_refused_by_name() {
        for (id, thread, reason, text, names) in [
            ("", "t", None, "x", "`trigger_id`"),
            ("a b", "t", None, "x", "`trigger_id`"),
            ("a:b", "t", None, "x", "`trigger_id`"),
            (&"i".repeat(65), "t", None, "x", "`trigger_id`"),
            ("a", "", None, "x", "`thread`"),
            ("a", "ü", None, "x", "`thread`"),
            ("a", "t", Some(""), "x", "`reason`"),
            ("a", "t", Some("a\nb"), "x", "`reason`"),
            ("a", "t", Some("a]"), "x", "`reason`"),
            ("a", "t", Some("ACK_TRIGGER:a"), "x", "`reason`"),
            ("a", "t", None, "", "`text`"),
            ("a", "t", None, " \n\x07", "`text`"),
            ("a", "t", None, "say ACK_TRIGGER:a", "`text`"),
            ("a", "t", None, "ACK_\x1bTRIGGER\n:a", "`text`"),
            ("a", "t", None, "x[/BRIDGE_TRIGGER] y", "`text`"),
            ("a", "t", None, "[BRIDGE_TRIGGER id=b", "`text`"),
        ] {
            let Err(Refusal::Bad(why)) = asked(id, thread, reason, text) else { panic!("{id} {text}") };
            assert!(why.starts_with(names), "{why}");
        }
        assert_eq!(asked("a", "t", None, &"x".repeat(101)), Err(Refusal::TooLarge { bytes: 101 }));
        assert!(asked("a", "t", Some("ACK_TRIGGER and the id"), "x").is_ok());
    }

    #[test]
    fn another_text_thread_or_reason_has_another_gist() {
        let gist = |thread, reason, text| asked("a", thread, reason, text).unwrap().gist();
        let first = gist("t", None, "x");
        assert_eq!(first, gist("t", None, "x"));
        for other in [gist("u", None, "x"), gist("t", Some("x"), "x"), gist("t", None, "y")] {
            assert_ne!(first, other);
        }
    }
}
