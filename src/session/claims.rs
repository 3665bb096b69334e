//! Claims: a ticket that is one session's own, as a file of the state dir. Reads and names them; who may
//! change one is decided by the lock of the session that it names.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{StateDir, id};
use crate::control::json;

/// Of a file name. What file systems take less the room for those that add something of their own.
const LONGEST_NAME: usize = 200;
/// Far more than a claim ever holds.
const LONGEST: u64 = 1 << 16;

/// What stands in the file, always as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub ticket: String,
    pub session: String,
    /// Seconds since 1970.
    pub since: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Claim(Claim),
    /// Whatever lies there, it is nobody's.
    Junk,
}

/// Any line of text can be a ticket: `ISSUE-12`, `owner/repo#7`, an address. In its file name only what
/// a shell and `ls` show as it is stays as it is, so that two tickets never share a file.
pub fn file_name(ticket: &str) -> Result<String, String> {
    if ticket.is_empty() {
        return Err("the ticket is empty: name one".to_owned());
    }
    if ticket.trim() != ticket || ticket.chars().any(char::is_control) {
        return Err(format!("a ticket is one line of text without blanks around it: {ticket:?}"));
    }
    let mut name = String::new();
    for (at, byte) in ticket.bytes().enumerate() {
        match byte {
            // What begins with a dot is no claim.
            b'.' if at == 0 => name += "%2E",
            b'/' | b'%' => name += &format!("%{byte:02X}"),
            byte if byte.is_ascii_graphic() => name.push(char::from(byte)),
            byte => name += &format!("%{byte:02X}"),
        }
    }
    match name.len() {
        ..=LONGEST_NAME => Ok(name),
        long => Err(format!(
            "the ticket is too long: {long} bytes as a file name, {LONGEST_NAME} are allowed (blanks, / and % \
             count as three, so does each byte that is not ASCII)"
        )),
    }
}

/// What a file of that name says. One that was copied from another's place says nothing.
pub fn parse(name: &str, text: &[u8]) -> Option<Claim> {
    let claim: Claim = json::read_bytes(text).ok()?;
    let is_own = file_name(&claim.ticket).is_ok_and(|own| own == name);
    (is_own && id::check(&claim.session).is_ok()).then_some(claim)
}

pub fn read(path: &Path) -> io::Result<Found> {
    // A fifo of that name must not hold up who looks.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Found::Junk),
        file => file?,
    };
    let mut text = Vec::new();
    if file.metadata()?.is_file() {
        file.take(LONGEST).read_to_end(&mut text)?;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(parse(name, &text).map_or(Found::Junk, Found::Claim))
}

/// All of a state dir, in the order of their names.
pub fn all(dir: &StateDir) -> io::Result<Vec<(PathBuf, Found)>> {
    let entries = match fs::read_dir(dir.claims()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let mut found = vec![];
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match read(&entry.path())? {
            // Released while we looked.
            Found::Nothing => {}
            what => found.push((entry.path(), what)),
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Scratch;

    #[test]
    fn every_ticket_has_a_file_of_its_own() {
        for (ticket, name) in [
            ("ISSUE-12", "ISSUE-12"),
            ("owner/repo#7", "owner%2Frepo#7"),
            ("owner%2Frepo#7", "owner%252Frepo#7"),
            ("..", "%2E."),
            (".a", "%2Ea"),
            ("fix it", "fix%20it"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(file_name(ticket).as_deref(), Ok(name));
        }
        assert!(file_name(&"x".repeat(200)).is_ok());
        for bad in ["", " ", "a ", "a\nb", "a\0", &"x".repeat(201), &"/".repeat(67)] {
            assert!(file_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_whole_claim_in_its_own_place_names_somebody() {
        let text = br#"{"ticket":"a/b","session":"s","since":5}"#;
        let claim = Claim { ticket: "a/b".into(), session: "s".into(), since: 5 };
        assert_eq!(parse("a%2Fb", text), Some(claim));
        assert_eq!(parse("other", text), None);
        assert_eq!(parse("a%2Fb", &text[..20]), None);
        assert_eq!(parse("a", br#"{"ticket":"a","session":"../s","since":5}"#), None);
    }

    #[test]
    fn what_is_no_claim_is_listed_as_junk_and_temporary_files_are_not() {
        let s = Scratch::new();
        let dir = StateDir { path: s.path().to_owned(), source: "--dir" };
        assert_eq!(all(&dir).unwrap(), []);
        s.file("claims/b", r#"{"ticket":"b","session":"s","since":5}"#);
        s.file("claims/a", "");
        s.file("claims/.s.new", "half");
        s.dir("claims/d");
        std::os::unix::fs::symlink("b", s.path().join("claims/l")).unwrap();
        let listed = all(&dir).unwrap();
        let names: Vec<_> = listed.iter().map(|(path, _)| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a", "b", "d", "l"]);
        assert!(matches!(&listed[1].1, Found::Claim(claim) if claim.session == "s"));
        assert!(listed.iter().filter(|(_, found)| *found == Found::Junk).count() == 3);
    }
}
