//! What the agent asks and somebody else has to answer: permissions and questions. Each is answered once,
//! withdrawn with whoever asked, or denied when its time is over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Now;
use super::activity::Pending;

/// At once, over all: an agent that asks more asks in a circle.
const MOST: usize = 64;
/// Answers that are remembered, for who asks again or answers twice.
const KEPT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Permission,
    Question,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Allow,
    Deny(String),
    Text(String),
    /// Its time was over: as good as a no.
    Expired,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub id: String,
    pub kind: Kind,
    /// Given by whoever asks: the same again is the same request.
    pub key: Option<String>,
    /// The tool, or the question.
    pub title: String,
    /// Its input as JSON, or the answers to choose from, one a line.
    pub detail: String,
    pub asked_at: u64,
    pub until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    TooMany,
    NotFound,
    /// Somebody was faster, or its time was over.
    Answered,
    /// None was named, and there are several.
    Ambiguous,
}

/// Since the supervisor started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub asked: u64,
    pub allowed: u64,
    pub denied: u64,
    pub expired: u64,
    pub questions: u64,
    pub answered: u64,
}

#[derive(Debug)]
pub struct Requests {
    timeout: Duration,
    pending: Vec<Request>,
    answers: VecDeque<(Request, Answer)>,
    last: u64,
    pub counts: Counts,
}

impl Requests {
    pub fn new(timeout: Duration) -> Requests {
        Requests {
            timeout,
            pending: Vec::new(),
            answers: VecDeque::new(),
            last: 0,
            counts: Counts::default(),
        }
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The id under which it can be answered; that of the first when it is asked again.
    pub fn ask(
        &mut self,
        kind: Kind,
        key: Option<String>,
        (title, detail): (String, String),
        now: Now,
    ) -> Result<(String, bool), Refusal> {
        let known = self.pending.iter().find(|r| r.kind == kind && key.is_some() && r.key == key);
        if let Some(known) = known {
            return Ok((known.id.clone(), false));
        }
        if self.pending.len() >= MOST {
            return Err(Refusal::TooMany);
        }
        self.last += 1;
        let letter = match kind {
            Kind::Permission => 'p',
            Kind::Question => 'q',
        };
        let id = format!("{letter}{}", self.last);
        match kind {
            Kind::Permission => self.counts.asked += 1,
            Kind::Question => self.counts.questions += 1,
        }
        let until = now.at + self.timeout;
        self.pending.push(Request { id: id.clone(), kind, key, title, detail, asked_at: now.epoch, until });
        Ok((id, true))
    }

    pub fn pending(&self) -> Pending {
        let of = |kind| self.pending.iter().filter(|request| request.kind == kind).count();
        Pending { permissions: of(Kind::Permission), questions: of(Kind::Question) }
    }

    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Request> {
        self.pending.iter().filter(move |request| request.kind == kind)
    }

    /// Without an id the only one there is.
    pub fn respond(&mut self, kind: Kind, id: Option<&str>, answer: Answer) -> Result<&Request, Refusal> {
        let at = match id {
            Some(id) => match self.pending.iter().position(|r| r.kind == kind && r.id == id) {
                Some(at) => at,
                None if self.answers.iter().any(|(r, _)| r.kind == kind && r.id == id) => {
                    return Err(Refusal::Answered);
                }
                None => return Err(Refusal::NotFound),
            },
            None => {
                let mut of_kind = self.pending.iter().enumerate().filter(|(_, r)| r.kind == kind);
                match (of_kind.next(), of_kind.next()) {
                    (Some((at, _)), None) => at,
                    (None, _) => return Err(Refusal::NotFound),
                    (Some(_), Some(_)) => return Err(Refusal::Ambiguous),
                }
            }
        };
        match &answer {
            Answer::Allow => self.counts.allowed += 1,
            Answer::Deny(_) => self.counts.denied += 1,
            Answer::Text(_) => self.counts.answered += 1,
            Answer::Expired => self.counts.expired += 1,
        }
        let request = self.pending.remove(at);
        if self.answers.len() == KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back((request, answer));
        Ok(&self.answers[self.answers.len() - 1].0)
    }

    pub fn answer(&self, id: &str) -> Option<&Answer> {
        self.answers.iter().rev().find(|(request, _)| request.id == id).map(|(_, answer)| answer)
    }

    pub fn is_pending(&self, id: &str) -> bool {
        self.pending.iter().any(|request| request.id == id)
    }

    pub fn wake(&self) -> Option<Instant> {
        self.pending.iter().map(|request| request.until).min()
    }

    /// Those whose time is over.
    pub fn due(&mut self, now: Now) -> Vec<Request> {
        let over: Vec<Request> = self.pending.iter().filter(|r| now.at >= r.until).cloned().collect();
        for request in &over {
            // It is pending, so this cannot be refused.
            let _ = self.respond(request.kind, Some(&request.id), Answer::Expired);
        }
        over
    }

    /// The agent goes on without an answer: a human gave it one in a dialog of its own.
    pub fn overtaken(&mut self, key: Option<&str>) -> Vec<Request> {
        let is_over = |request: &Request| match (request.kind, key) {
            (Kind::Permission, None) => true,
            (Kind::Permission, Some(key)) => request.key.as_deref() == Some(key),
            (Kind::Question, _) => false,
        };
        self.pending.extract_if(.., |request| is_over(request)).collect()
    }

    /// Nobody is there to hear an answer.
    pub fn agent_ended(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.pending)
    }

    /// Nobody waits for the others any more: who asked has gone.
    pub fn keep(&mut self, is_waited_for: impl Fn(&str) -> bool) -> Vec<Request> {
        self.pending.extract_if(.., |request| !is_waited_for(&request.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: u64) -> Now {
        Now { at: start + Duration::from_secs(seconds), epoch: seconds }
    }

    fn ask(requests: &mut Requests, kind: Kind, key: Option<&str>, now: Now) -> (String, bool) {
        requests.ask(kind, key.map(str::to_owned), ("Bash".into(), "{}".into()), now).unwrap()
    }

    #[test]
    fn each_is_answered_once() {
        let start = Instant::now();
        let mut requests = Requests::new(Duration::from_secs(300));
        let (one, _) = ask(&mut requests, Kind::Permission, None, at(start, 0));
        let (two, _) = ask(&mut requests, Kind::Permission, None, at(start, 1));
        assert_ne!(one, two);
        assert_eq!(requests.respond(Kind::Permission, None, Answer::Allow), Err(Refusal::Ambiguous));
        assert_eq!(requests.respond(Kind::Question, Some(&one), Answer::Allow), Err(Refusal::NotFound));
        assert!(requests.respond(Kind::Permission, Some(&two), Answer::Deny("no".into())).is_ok());
        assert_eq!(requests.respond(Kind::Permission, Some(&two), Answer::Allow), Err(Refusal::Answered));
        assert_eq!(requests.answer(&two), Some(&Answer::Deny("no".into())));
        assert_eq!(requests.answer(&one), None);
        assert!(requests.respond(Kind::Permission, None, Answer::Allow).is_ok());
        assert_eq!(requests.pending(), Pending::default());
        assert_eq!((requests.counts.asked, requests.counts.allowed, requests.counts.denied), (2, 1, 1));
    }

    #[test]
    fn asked_again_it_is_the_same_until_it_is_answered() {
        let now = at(Instant::now(), 0);
        let mut requests = Requests::new(Duration::from_secs(300));
        let (one, is_new) = ask(&mut requests, Kind::Permission, Some("k"), now);
        assert!(is_new);
        assert_eq!(ask(&mut requests, Kind::Permission, Some("k"), now), (one.clone(), false));
        assert_ne!(ask(&mut requests, Kind::Question, Some("k"), now).0, one);
        requests.respond(Kind::Permission, Some(&one), Answer::Allow).unwrap();
        assert_ne!(ask(&mut requests, Kind::Permission, Some("k"), now).0, one);
    }

    #[test]
    fn its_time_is_over_once_and_then_it_is_a_no() {
        let start = Instant::now();
        let mut requests = Requests::new(Duration::from_secs(300));
        let (one, _) = ask(&mut requests, Kind::Permission, None, at(start, 0));
        assert_eq!(requests.wake(), Some(start + Duration::from_secs(300)));
        assert!(requests.due(at(start, 299)).is_empty());
        assert_eq!(requests.due(at(start, 300)).len(), 1);
        assert!(requests.due(at(start, 301)).is_empty());
        assert_eq!((requests.answer(&one), requests.wake()), (Some(&Answer::Expired), None));
        assert_eq!(requests.respond(Kind::Permission, Some(&one), Answer::Allow), Err(Refusal::Answered));
    }

    #[test]
    fn who_has_gone_takes_the_request_along() {
        let now = at(Instant::now(), 0);
        let mut requests = Requests::new(Duration::from_secs(300));
        let (one, _) = ask(&mut requests, Kind::Permission, None, now);
        let (two, _) = ask(&mut requests, Kind::Question, None, now);
        let gone = requests.keep(|id| id == two);
        assert_eq!(gone.len(), 1);
        assert_eq!(requests.respond(Kind::Permission, Some(&one), Answer::Allow), Err(Refusal::NotFound));
        assert_eq!(requests.pending(), Pending { permissions: 0, questions: 1 });
    }

    #[test]
    fn what_a_human_answered_elsewhere_is_over() {
        let now = at(Instant::now(), 0);
        let mut requests = Requests::new(Duration::from_secs(300));
        ask(&mut requests, Kind::Permission, Some("a"), now);
        ask(&mut requests, Kind::Permission, Some("b"), now);
        ask(&mut requests, Kind::Question, Some("a"), now);
        assert_eq!(requests.overtaken(Some("a")).len(), 1);
        assert_eq!(requests.overtaken(Some("a")).len(), 0);
        assert_eq!(requests.pending(), Pending { permissions: 1, questions: 1 });
        assert_eq!(requests.overtaken(None).len(), 1);
        assert_eq!(requests.pending(), Pending { permissions: 0, questions: 1 });
    }

    #[test]
    fn there_is_a_most() {
        let now = at(Instant::now(), 0);
        let mut requests = Requests::new(Duration::from_secs(300));
        for _ in 0..MOST {
            ask(&mut requests, Kind::Permission, None, now);
        }
        let more = requests.ask(Kind::Question, None, (String::new(), String::new()), now);
        assert_eq!(more, Err(Refusal::TooMany));
    }
}
