//! `agentsup claim` and `claims`: tickets that are one session's own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::look::{age, utc};
use super::ls::dirs_for;
use super::sessions::{self, Life};
use super::{Caller, Trouble, args, print_json};
use crate::cli::explain::text::visible;
use crate::cli::given::{FromGiven, Given};
use crate::cli::words::Word;
use crate::cli::{Failure, asked, print, show_help};
use crate::control::CallError;
use crate::control::protocol::{self, Call, ClaimOutcome, Code};
use crate::session::StateDir;
use crate::session::claims::{self, Found};

/// After how long a ticket that others are taking is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

pub fn claim(verb: args::Claim, caller: &Caller) -> Result<u8, Trouble> {
    let ticket = asked::text("TICKET", Word(caller.texts[0].clone()))?;
    claims::file_name(&ticket).map_err(Failure::usage)?;
    let mut client = caller.connect_to_ask(caller.patience())?;
    // Whoever is in the way has it, or is gone, after a few file operations of its own.
    let until = Instant::now() + caller.patience();
    loop {
        match client.call(Call::Claim { ticket: ticket.clone(), release: verb.release }) {
            Err(CallError::Refused(refusal)) if refusal.code == Code::Busy && Instant::now() < until => {
                std::thread::sleep(ASK_AGAIN);
            }
            answer => return caller.say(answer?, said),
        }
    }
}

fn said(claim: &protocol::Claim) -> String {
    let (ticket, session) = (visible(&claim.ticket), visible(&claim.session));
    match (claim.outcome, &claim.from) {
        (ClaimOutcome::Released, _) => format!("{ticket} is nobody's\n"),
        (ClaimOutcome::Already, _) => {
            format!("{ticket} is yours already, session {session}, since {} UTC\n", utc(claim.claimed_at))
        }
        (ClaimOutcome::Claimed, None) => format!("{ticket} is yours, session {session}\n"),
        (ClaimOutcome::Claimed, Some(from)) => {
            format!("{ticket} is yours, session {session}; {} had it and has gone\n", visible(from))
        }
    }
}

/// A line of the table, and an element of the array.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    ticket: String,
    /// None: the file cannot be read as a claim.
    session: Option<String>,
    claimed_at: Option<u64>,
    /// None: the lock is not ours to look at.
    live: Option<bool>,
    dir: PathBuf,
}

pub fn claims(argv: &[OsString]) -> Result<u8, Failure> {
    let Some(mut given) = Given::read("claims", argv)? else {
        return show_help(Some("claims"));
    };
    let verb = args::Claims::from_given(&mut given);
    let rows = look(&dirs_for(verb.dir, verb.words)?)?;
    match verb.json {
        true => print_json(&json!(rows))?,
        false => print(&text(&rows))?,
    }
    Ok(0)
}

fn look(dirs: &[StateDir]) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![];
    for dir in dirs {
        match claims::all(dir) {
            Ok(all) => rows.extend(all.into_iter().map(|(path, found)| row(dir, path, found))),
            // Of the places nobody named, those of other users are none of our business.
            Err(_) if dirs.len() > 1 => {}
            Err(error) => {
                let message = format!("{} cannot be read: {error}", dir.claims().display());
                return Err(Failure { code: 1, message });
            }
        }
    }
    Ok(rows)
}

fn row(dir: &StateDir, path: PathBuf, found: Found) -> Row {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let empty =
        Row { ticket: name, session: None, claimed_at: None, live: Some(false), dir: dir.path.clone() };
    let Found::Claim(claim) = found else { return empty };
    let live = match sessions::life(dir, &claim.session) {
        Life::Live => Some(true),
        Life::Dead => Some(false),
        Life::Unknown => None,
    };
    Row { ticket: claim.ticket, session: Some(claim.session), claimed_at: Some(claim.since), live, ..empty }
}

fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no claims\n".to_owned();
    }
    let mut cells = vec![["TICKET", "SESSION", "SINCE", "AGE", "OWNER"].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let or_dash = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| visible(&text));
        let owner = match (row.live, &row.session) {
            (_, None) => "unreadable",
            (Some(true), _) => "lives",
            (Some(false), _) => "has gone",
            (None, _) => "unknown",
        };
        let at = row.claimed_at.map(|at| at as f64);
        let session = or_dash(row.session.clone());
        [visible(&row.ticket), session, or_dash(at.map(utc)), or_dash(at.map(age)), owner.to_owned()]
    }));
    let width = |n: usize| cells.iter().map(|line| line[n].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |line: &[String; 5]| {
        let padded = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$} "));
        padded.collect::<String>().trim_end().to_owned() + "\n"
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_who_since_when_and_whether_that_lives() {
        let row = |ticket: &str, session: Option<&str>, live| Row {
            ticket: ticket.into(),
            session: session.map(str::to_owned),
            claimed_at: session.map(|_| 951_782_400),
            live,
            dir: "/d".into(),
        };
        let rows = [
            row("owner/repo#7", Some("a"), Some(true)),
            row("b\x1b", Some("long-session"), Some(false)),
            row("junk", None, Some(false)),
        ];
        let text = text(&rows);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["TICKET", "SESSION", "SINCE", "AGE", "OWNER"]);
        assert_eq!(lines[1][..4], ["owner/repo#7", "a", "2000-02-29", "00:00:00"]);
        assert_eq!(lines[1].last(), Some(&"lives"));
        assert_eq!((lines[2][0], lines[2][6]), ("b\\u{1b}", "gone"));
        assert_eq!(lines[3], ["junk", "-", "-", "-", "unreadable"]);
        assert_eq!(super::text(&[]), "no claims\n");
    }
}
