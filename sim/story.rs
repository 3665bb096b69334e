//! What has happened in a life: counted, the last of it kept, and all of it summed up in one number, so
//! that two runs of a seed can be compared.

use std::collections::VecDeque;
use std::fmt;

use crate::clock;

/// Shown when an invariant does not hold.
const KEPT: usize = 30;

/// One thing that happened: its name, and what is needed to tell it from others.
#[derive(Clone, Debug)]
pub struct Moment {
    at: u64,
    what: &'static str,
    which: &'static str,
    number: i64,
    text: Option<String>,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>16.6} s  {:<10} {:<18}", self.at as f64 / 1e9 - 1_000.0, self.what, self.which)?;
        match &self.text {
            Some(text) => write!(f, " {} {text}", self.number),
            None => write!(f, " {}", self.number),
        }
    }
}

#[derive(Debug)]
pub struct Story {
    pub events: u64,
    pub digest: u64,
    last: VecDeque<Moment>,
    is_traced: bool,
}

impl Story {
    pub fn new(is_traced: bool) -> Story {
        Story { events: 0, digest: 0xcbf2_9ce4_8422_2325, last: VecDeque::new(), is_traced }
    }

    /// Something happened to the supervisor, or in it.
    pub fn event(&mut self, what: &'static str, which: &'static str, number: i64) {
        self.events += 1;
        self.keep(Moment { at: clock::now(), what, which, number, text: None });
    }

    /// Told and not counted: what the supervisor said or did because of it.
    pub fn note(&mut self, what: &'static str, which: &'static str, number: i64, text: &str) {
        self.keep(Moment { at: clock::now(), what, which, number, text: Some(text.to_owned()) });
    }

    fn keep(&mut self, moment: Moment) {
        self.mix(&moment.at.to_le_bytes());
        self.mix(moment.what.as_bytes());
        self.mix(moment.which.as_bytes());
        self.mix(&moment.number.to_le_bytes());
        if self.is_traced {
            println!("{moment}");
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(moment);
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn last(&self) -> Vec<String> {
        self.last.iter().map(Moment::to_string).collect()
    }
}
