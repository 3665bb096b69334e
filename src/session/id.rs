//! Session ids: which rule gives one, and what one may look like. Pure.

use super::{Document, Refusal, SessionId};

/// The source of an id that nobody has used before.
pub const NEW: &str = "generated";

/// An id becomes a file name and a log value, so it is kept to characters that need no quoting in
/// either, and cannot be hidden or climb out of its directory.
pub fn check(id: &str) -> Result<(), String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if id.is_empty() {
        return Err("session id is empty: use 1 to 64 of A-Z a-z 0-9 . _ -".into());
    }
    if id.len() > 64 {
        return Err(format!("session id is {} bytes long, 64 are allowed: {id:.80}", id.len()));
    }
    if id.starts_with('.') {
        return Err(format!("session id must not start with a dot: {id}"));
    }
    if !id.bytes().all(fine) {
        return Err(format!("session id may hold only A-Z a-z 0-9 . _ -: {id:?}"));
    }
    Ok(())
}

/// First that applies; a bad id is an error of its source, never a reason to try the next.
/// An empty `$AGENTSUP_SESSION` counts as unset: compose files and shells produce it easily.
pub fn settle(
    flag: Option<&str>,
    document: Option<&Document>,
    env: Option<&str>,
    fresh_uuid: &str,
) -> Result<SessionId, Refusal> {
    let written = document.and_then(|d| d.session.as_deref());
    let (id, source) = match (flag, written, env.filter(|id| !id.is_empty())) {
        (Some(id), _, _) => (id, "--session"),
        (None, Some(id), _) => (id, "frontmatter"),
        (None, None, Some(id)) => (id, "$AGENTSUP_SESSION"),
        (None, None, None) => (fresh_uuid, NEW),
    };
    match (check(id), document) {
        (Ok(()), _) => Ok(SessionId { id: id.to_owned(), source }),
        (Err(why), Some(document)) if source == "frontmatter" => {
            Err(Refusal(format!("agent_doc_session frontmatter of {}: {why}", document.path.display())))
        }
        (Err(why), _) => Err(Refusal(format!("{source}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(session: Option<&str>) -> Document {
        Document { path: "/w/task.md".into(), session: session.map(str::to_owned), cwd: None, env: vec![] }
    }

    #[test]
    fn ids_are_plain_file_names() {
        for good in ["a", "A.b_c-9", "018f5c3e-8c1b-4b53-9d7e-3f1f2a1b2c3d", &"x".repeat(64)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "ä", "a\0", "a\n", &"x".repeat(65)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn first_rule_that_applies_gives_the_id() {
        let doc = document(Some("doc"));
        let of = |flag, document, env| {
            let id = settle(flag, document, env, "uuid").unwrap();
            (id.id, id.source)
        };
        assert_eq!(of(Some("f"), Some(&doc), Some("e")), ("f".into(), "--session"));
        assert_eq!(of(None, Some(&doc), Some("e")), ("doc".into(), "frontmatter"));
        let silent = document(None);
        assert_eq!(of(None, Some(&silent), Some("e")), ("e".into(), "$AGENTSUP_SESSION"));
        assert_eq!(of(None, None, Some("")), ("uuid".into(), "generated"));
        assert_eq!(of(None, None, None), ("uuid".into(), "generated"));
    }

    #[test]
    fn a_bad_id_names_its_source_and_does_not_fall_through() {
        let doc = document(Some("../up"));
        let why = settle(None, Some(&doc), Some("fine"), "uuid").unwrap_err().0;
        assert!(why.starts_with("agent_doc_session frontmatter of /w/task.md: "), "{why}");
        let why = settle(Some(".x"), None, Some("fine"), "uuid").unwrap_err().0;
        assert_eq!(why, "--session: session id must not start with a dot: .x");
        let why = settle(None, None, Some("a b"), "uuid").unwrap_err().0;
        assert!(why.starts_with("$AGENTSUP_SESSION: "), "{why}");
    }
}
