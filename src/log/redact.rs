//! Secrets never reach a sink.

use std::borrow::Cow;
use std::ops::Range;

const MASK: &str = "***";
/// A shorter line of a secret is no secret of its own: `}` or `EOF`.
const LINE_LEAST: usize = 8;

/// Knows the values that must not be shown. Which variables are secret is `session`'s to say.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    pub fn new(secrets: Vec<String>) -> Redactor {
        let mut secrets: Vec<String> = secrets.iter().flat_map(|secret| guises(secret)).collect();
        secrets.retain(|secret| !secret.is_empty());
        secrets.sort();
        secrets.dedup();
        Redactor { secrets }
    }

    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let hidden = self.hidden(text.as_bytes());
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        // A match of whole characters inside whole characters starts and ends between two of them.
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for Range { start, end } in hidden {
            out.push_str(&text[shown..start]);
            out.push_str(MASK);
            shown = end;
        }
        out.push_str(&text[shown..]);
        Cow::Owned(out)
    }

    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let hidden = self.hidden(bytes);
        if hidden.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut shown = 0;
        for Range { start, end } in hidden {
            out.extend_from_slice(&bytes[shown..start]);
            out.extend_from_slice(MASK.as_bytes());
            shown = end;
        }
        out.extend_from_slice(&bytes[shown..]);
        Cow::Owned(out)
    }

    /// Every stretch that belongs to a secret, in order, those that overlap or touch joined into
    /// one. Replacing secret by secret would leave the tail of one that begins inside another.
    pub fn hidden(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for secret in &self.secrets {
            let secret = secret.as_bytes();
            let mut from = 0;
            while let Some(step) = bytes[from..].iter().position(|b| *b == secret[0]) {
                let start = from + step;
                if bytes[start..].starts_with(secret) {
                    found.push(start..start + secret.len());
                }
                from = start + 1;
            }
        }
        found.sort_by_key(|range| range.start);
        found.dedup_by(|next, kept| {
            let joins = next.start <= kept.end;
            if joins {
                kept.end = kept.end.max(next.end);
            }
            joins
        });
        found
    }
}

/// What a secret looks like where it is written down by others: as it is, as a text within JSON, once
/// or twice over and with or without what is not ASCII; and a secret of several lines line by line,
/// because who shows a file may put numbers before each.
fn guises(secret: &str) -> Vec<String> {
    let mut guises = vec![secret.to_owned()];
    let once = [escaped(secret, false), escaped(secret, true)];
    let twice = once.each_ref().map(|text| escaped(text, false));
    guises.extend(once.into_iter().chain(twice));
    if secret.contains('\n') {
        guises
            .extend(secret.lines().map(str::trim).filter(|line| line.len() >= LINE_LEAST).map(str::to_owned));
    }
    guises
}

/// As between the quotes of a JSON text.
fn escaped(text: &str, only_ascii: bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() || only_ascii && !c.is_ascii() => {
                let units = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                out.push_str(&units);
            }
            c => out.push(c),
        }
    }
    out
}

/// A secret must not be shown by printing what hides it either.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(secrets: &[&str], text: &str) -> String {
        let redactor = Redactor::new(secrets.iter().map(|s| s.to_string()).collect());
        let out = redactor.mask(text).into_owned();
        assert_eq!(redactor.mask_bytes(text.as_bytes()), out.as_bytes());
        out
    }

    #[test]
    fn nothing_secret_costs_nothing() {
        assert!(matches!(Redactor::default().mask("sk-12345678"), Cow::Borrowed(_)));
        assert!(matches!(Redactor::new(vec!["sk-1".into()]).mask("plain"), Cow::Borrowed(_)));
        assert_eq!(masked(&[""], "plain"), "plain");
    }

    #[test]
    fn every_occurrence_goes() {
        assert_eq!(masked(&["sk-12345678"], "a sk-12345678 b sk-12345678"), "a *** b ***");
        assert_eq!(masked(&["päss wörd"], "«päss wörd»"), "«***»");
    }

    #[test]
    fn the_longer_of_two_secrets_leaves_no_tail() {
        assert_eq!(masked(&["abcdefgh", "abcdefghijkl"], "abcdefghijkl"), "***");
        assert_eq!(masked(&["abcdefgh", "efghijkl"], "<abcdefghijkl>"), "<***>");
        assert_eq!(masked(&["abab"], "ababab"), "***");
    }

    #[test]
    fn a_secret_is_known_in_every_guise() {
        let secret = "p\"ä\\ss\nwörd12";
        assert_eq!(masked(&[secret], secret), "***");
        for only_ascii in [false, true] {
            let json = escaped(secret, only_ascii);
            assert_eq!(serde_json::from_str::<String>(&format!("\"{json}\"")).unwrap(), secret);
            assert_eq!(masked(&[secret], &format!("{{\"k\":\"{json}\"}}")), "{\"k\":\"***\"}");
            assert_eq!(masked(&[secret], &escaped(&json, false)), "***");
        }
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n}\n";
        assert_eq!(masked(&[key], "1 -----BEGIN KEY-----\n2 MIIEvQIBADANBg\n3 }"), "1 ***\n2 ***\n3 }");
        assert_eq!(Redactor::new(vec!["plain-secret".into()]).secrets.len(), 1);
    }

    #[test]
    fn bytes_need_not_be_text() {
        let redactor = Redactor::new(vec!["hunter22".into()]);
        assert_eq!(&*redactor.mask_bytes(b"\xff hunter22\xfe"), b"\xff ***\xfe");
    }

    #[test]
    fn debug_output_tells_no_secret() {
        assert_eq!(format!("{:?}", Redactor::new(vec!["hunter22".into()])), "Redactor(1 secrets)");
    }

    proptest! {
        #[test]
        fn no_secret_survives(
            secrets in prop::collection::vec("[abc]{3,6}", 1..4),
            text in "[abcd]{0,60}",
        ) {
            let out = Redactor::new(secrets.clone()).mask(&text).into_owned();
            for secret in &secrets {
                prop_assert!(!out.contains(secret.as_str()), "{out} still has {secret}");
            }
        }
    }
}
