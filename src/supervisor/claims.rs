//! Claims: tickets that are one session's own. A claim that names a session is changed by nobody but the
//! one who holds that session's lock: its supervisor, or for a moment, when that has gone, whoever takes
//! the ticket over or clears up. So no lock of its own is needed, and no two of them can win.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::calls::{Answer, Answered, refuse};
use super::{Charge, Supervisor, now};
use crate::control::protocol::{self, Body, ClaimOutcome, Code};
use crate::log::{Event, Name};
use crate::os::clock;
use crate::os::lock::{self, Lock, Passing};
use crate::os::socket::Peer;
use crate::session::StateDir;
use crate::session::claims::{self, Claim, Found};

/// How often a claim is looked at anew because others are at it. One of those may be held up for long, so
/// it is not us who wait for it: the caller asks again.
const TRIES: usize = 32;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is ours now; the session it was abandoned by.
    Claimed(Claim, Option<String>),
    Already(Claim),
    /// Of a session that lives.
    Theirs(Claim),
    /// It is nobody's yet, and others are taking it: one of them will have it, or it stays free.
    Busy,
}

/// Call it as the owner of `claim.session`'s lock.
pub fn claim(dir: &StateDir, claim: Claim) -> Result<Outcome, String> {
    let path = dir.claims().join(claims::file_name(&claim.ticket)?);
    take(dir, &path, claim).map_err(|error| format!("{}: {error}", path.display()))
}

fn take(dir: &StateDir, path: &Path, claim: Claim) -> io::Result<Outcome> {
    for _ in 0..TRIES {
        let found = match claims::read(path)? {
            Found::Nothing => match put(dir, path, &claim, |new| fs::hard_link(new, path)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                put => return put.map(|()| Outcome::Claimed(claim, None)),
            },
            Found::Junk => {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if !lock::remove_junk(path, |text| claims::parse(name, text).is_none())? {
                    std::thread::yield_now();
                }
                continue;
            }
            Found::Claim(found) if found.session == claim.session => return Ok(Outcome::Already(found)),
            Found::Claim(found) => found,
        };
        match Lock::take_in_passing(&dir.lock(&found.session))? {
            Passing::Owned => return Ok(Outcome::Theirs(found)),
            Passing::Contended => std::thread::yield_now(),
            // Somebody else may have been faster, and it is another session's by now.
            Passing::Held(_held) if claims::read(path)? == Found::Claim(found.clone()) => {
                put(dir, path, &claim, |new| fs::rename(new, path))?;
                return Ok(Outcome::Claimed(claim, Some(found.session)));
            }
            Passing::Held(_) => {}
        }
    }
    Ok(Outcome::Busy)
}

/// Written beside it first, so that it is there as a whole or not at all.
fn put(
    dir: &StateDir,
    path: &Path,
    claim: &Claim,
    place: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let new = dir.claim_new(&claim.session);
    debug_assert_ne!(new, path);
    // Never written to: after a kill it may be another name of a claim that stands.
    let _ = fs::remove_file(&new);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(&serde_json::to_vec(claim)?))
        .and_then(|()| place(&new));
    let _ = fs::remove_file(&new);
    written
}

#[derive(Debug, PartialEq, Eq)]
pub enum Released {
    Ours(Claim),
    Theirs(Claim),
    Nobodys,
}

/// Call it as the owner of `session`'s lock.
pub fn release(dir: &StateDir, ticket: &str, session: &str) -> Result<Released, String> {
    let path = dir.claims().join(claims::file_name(ticket)?);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    match claims::read(&path).map_err(failed)? {
        Found::Claim(claim) if claim.session == session => {
            fs::remove_file(&path).map_err(failed)?;
            Ok(Released::Ours(claim))
        }
        Found::Claim(claim) => Ok(Released::Theirs(claim)),
        Found::Nothing | Found::Junk => Ok(Released::Nobodys),
    }
}

impl Supervisor {
    pub(super) fn claim(&mut self, ticket: &str, is_release: bool, peer: Peer) -> Answered {
        // By our lock others see that we live: without it they would take over what we claim.
        self.footing.look();
        self.keep_footing();
        if let Some(why) = self.footing.lost() {
            return refuse(Code::Internal, format!("the state dir is not ours to change: {why}"));
        }
        let Charge::Run(run) = &self.charge else { return refuse(Code::Internal, "no session") };
        let (dir, session) = (&run.settings.state_dir, &run.settings.wish.session.id);
        if let Err(why) = claims::file_name(ticket) {
            return refuse(Code::BadParams, format!("`claim`: param `ticket`: {why}"));
        }
        let (claim, outcome, from) = if is_release {
            match release(dir, ticket, session) {
                Ok(Released::Ours(claim)) => (claim, ClaimOutcome::Released, None),
                Ok(Released::Theirs(claim)) => return refuse(Code::Claimed, not_ours(&claim)),
                Ok(Released::Nobodys) => {
                    return refuse(Code::NotFound, format!("nobody has claimed {ticket}"));
                }
                Err(why) => {
                    return refuse(Code::Internal, format!("{ticket} cannot be released: {why}"));
                }
            }
        } else {
            let wish = Claim { ticket: ticket.to_owned(), session: session.clone(), since: now().epoch };
            match claim(dir, wish) {
                Ok(Outcome::Claimed(claim, from)) => (claim, ClaimOutcome::Claimed, from),
                Ok(Outcome::Already(claim)) => (claim, ClaimOutcome::Already, None),
                Ok(Outcome::Theirs(claim)) => return refuse(Code::Claimed, not_ours(&claim)),
                Ok(Outcome::Busy) => {
                    return refuse(
                        Code::Busy,
                        format!("others are taking {ticket} at this moment; ask again"),
                    );
                }
                Err(why) => return refuse(Code::Internal, format!("{ticket} cannot be claimed: {why}")),
            }
        };
        let name = match outcome {
            ClaimOutcome::Claimed => Some(Name::Claimed),
            ClaimOutcome::Released => Some(Name::ClaimReleased),
            ClaimOutcome::Already => None,
        };
        if let Some(name) = name {
            let event = Event::new(name).with("ticket", ticket).maybe("from", from.as_ref());
            self.log.record(event.with("uid", peer.uid).with("pid", peer.pid));
        }
        Ok(Answer::Now(Body::Claim(protocol::Claim {
            outcome,
            ticket: claim.ticket,
            session: claim.session,
            claimed_at: claim.since as f64,
            from,
        })))
    }
}

fn not_ours(claim: &Claim) -> String {
    let Claim { ticket, session, since } = claim;
    format!("{ticket} is claimed by session {session}, since {} UTC", clock::utc(*since as f64))
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
