//! Whether what a session has left in the state dir is true of what lives there. Pure: `ls` looks.

pub const CODE: &str = "REGISTRY_DRIFT";

/// What each that speaks of a session says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub lock: Lock,
    /// The supervisor that the record names, and the phase it was in.
    pub record: Option<(u32, String)>,
    pub socket: Socket,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// Not ours to look at.
    #[default]
    Unknown,
    Free,
    /// By this pid, if it says.
    Held(Option<u32>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Socket {
    /// There is none, or nothing can be said about it.
    #[default]
    Unknown,
    NobodyListens,
    Answers {
        session: String,
        supervisor: u32,
    },
}

/// What does not fit together, in words.
pub fn drift(session: &str, said: &Said) -> Option<String> {
    let recorded = said.record.as_ref().map(|(pid, _)| *pid);
    match (&said.socket, said.lock) {
        (Socket::Answers { session: other, .. }, _) if other != session => {
            Some(format!("its socket answers as session {other}"))
        }
        (Socket::Answers { supervisor, .. }, Lock::Free) => {
            Some(format!("supervisor {supervisor} answers, but does not hold the lock"))
        }
        (Socket::Answers { supervisor, .. }, Lock::Held(Some(holder))) if *supervisor != holder => {
            Some(format!("supervisor {supervisor} answers, but {holder} holds the lock"))
        }
        (Socket::Answers { supervisor, .. }, _) => {
            let other = recorded.filter(|pid| pid != supervisor)?;
            Some(format!("its record names supervisor {other}, but {supervisor} answers"))
        }
        (Socket::NobodyListens, Lock::Held(_)) => {
            Some("a supervisor holds the lock, but nobody listens on its socket".to_owned())
        }
        (Socket::Unknown, Lock::Held(Some(holder))) => {
            let other = recorded.filter(|pid| *pid != holder)?;
            Some(format!("its record names supervisor {other}, but {holder} holds the lock"))
        }
        (Socket::NobodyListens | Socket::Unknown, Lock::Free) => {
            let (_, phase) = said.record.as_ref().filter(|(_, phase)| phase != "ended")?;
            Some(format!("its record says `{phase}`, but no supervisor lives"))
        }
        (Socket::Unknown, Lock::Held(None)) | (Socket::NobodyListens | Socket::Unknown, Lock::Unknown) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Lock = Lock::Held(Some(7));

    fn answers(session: &str, supervisor: u32) -> Socket {
        Socket::Answers { session: session.into(), supervisor }
    }

    fn judged(lock: Lock, record: Option<(u32, &str)>, socket: Socket) -> String {
        let record = record.map(|(pid, phase)| (pid, phase.to_owned()));
        drift("s", &Said { lock, record, socket }).unwrap_or_default()
    }

    #[test]
    fn what_fits_together_is_no_drift() {
        for (lock, record, socket) in [
            (HELD, Some((7, "running")), answers("s", 7)),
            (HELD, None, answers("s", 7)),
            (Lock::Held(None), Some((7, "running")), answers("s", 7)),
            (Lock::Unknown, Some((7, "running")), answers("s", 7)),
            // Started without a socket, or it hangs.
            (HELD, Some((7, "running")), Socket::Unknown),
            (Lock::Held(None), Some((7, "running")), Socket::Unknown),
            (Lock::Free, Some((7, "ended")), Socket::Unknown),
            (Lock::Free, None, Socket::NobodyListens),
            // Another user's: nothing can be said.
            (Lock::Unknown, Some((7, "running")), Socket::Unknown),
        ] {
            assert_eq!(judged(lock, record, socket.clone()), "", "{lock:?} {record:?} {socket:?}");
        }
    }

    #[test]
    fn what_does_not_is_said_in_words() {
        for (lock, record, socket, said) in [
            (HELD, Some((7, "running")), answers("t", 7), "its socket answers as session t"),
            (Lock::Unknown, None, answers("t", 7), "its socket answers as session t"),
            (Lock::Free, None, answers("s", 7), "supervisor 7 answers, but does not hold the lock"),
            (HELD, Some((8, "running")), answers("s", 8), "supervisor 8 answers, but 7 holds the lock"),
            (HELD, Some((8, "ended")), answers("s", 7), "its record names supervisor 8, but 7 answers"),
            (
                HELD,
                Some((8, "running")),
                Socket::Unknown,
                "its record names supervisor 8, but 7 holds the lock",
            ),
            (
                HELD,
                Some((7, "running")),
                Socket::NobodyListens,
                "a supervisor holds the lock, but nobody listens on its socket",
            ),
            (
                Lock::Free,
                Some((7, "running")),
                Socket::NobodyListens,
                "its record says `running`, but no supervisor lives",
            ),
        ] {
            assert_eq!(judged(lock, record, socket), said);
        }
    }
}
