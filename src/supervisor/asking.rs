//! Permissions and questions: the agent asks, a caller answers, and without an answer it is a no.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::calls::{Answer, Answered, refuse};
use super::knowing::QUESTION_TOOL;
use super::waits::ForWhat;
use super::{Supervisor, now};
use crate::control::protocol::{
    self, Body, Code, Decision, Error, PermissionAsked, PermissionList, QuestionAsked, QuestionList,
    Responded, Verdict,
};
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::activity::Word;
use crate::policy::requests::{self, Kind, Refusal, Request};

/// A name, a question, a reason: each is read by a human.
const LONGEST: usize = 4 * 1024;

impl Supervisor {
    pub(super) fn ask_permission(&mut self, tool: &str, input: &Value, key: Option<String>) -> Answered {
        limit("permission.request", "tool", tool)?;
        self.note_heartbeat();
        if tool == QUESTION_TOOL {
            self.activity.says(Word::AsksQuestion, Instant::now());
            return Ok(Answer::Now(Body::Decision(Decision { decision: Verdict::NoOpinion, reason: None })));
        }
        self.ask_somebody(Kind::Permission, key, (tool.to_owned(), input.to_string()))
    }

    pub(super) fn ask_question(&mut self, text: &str, choices: &[String], key: Option<String>) -> Answered {
        if text.trim().is_empty() {
            return refuse(Code::BadParams, "`question.request`: param `text`: there is nothing in it");
        }
        limit("question.request", "text", text)?;
        let choices = choices.join("\n");
        limit("question.request", "choices", &choices)?;
        self.note_heartbeat();
        self.ask_somebody(Kind::Question, key, (text.to_owned(), choices))
    }

    fn ask_somebody(&mut self, kind: Kind, key: Option<String>, what: (String, String)) -> Answered {
        if self.is_leaving() {
            return self.stopping();
        }
        let title = what.0.clone();
        let (id, is_new) = match self.requests.ask(kind, key, what, now()) {
            Ok(asked) => asked,
            Err(_) => return refuse(Code::TooMany, "too many requests wait for an answer"),
        };
        if is_new {
            let (name, key) = match kind {
                Kind::Permission => (Name::PermissionRequested, "tool"),
                Kind::Question => (Name::QuestionRequested, "text"),
            };
            self.log.record(LogEvent::new(name).with("request_id", &id).with(key, &title));
        }
        self.requests_changed();
        Ok(Answer::Later(ForWhat::Answer { kind, id }, None))
    }

    pub(super) fn respond_permission(
        &mut self,
        id: Option<&str>,
        allow: bool,
        reason: Option<String>,
        peer: Peer,
    ) -> Answered {
        limit("permission.respond", "reason", reason.as_deref().unwrap_or_default())?;
        let answer = match allow {
            true => requests::Answer::Allow,
            false => requests::Answer::Deny(reason.unwrap_or_default()),
        };
        self.respond(Kind::Permission, id, answer, peer)
    }

    pub(super) fn respond_question(&mut self, id: Option<&str>, answer: &str, peer: Peer) -> Answered {
        limit("question.respond", "answer", answer)?;
        let one_of = |request: &Request| request.detail.lines().any(|choice| choice == answer);
        let asked = self.requests.list(Kind::Question).find(|request| id.is_none_or(|id| request.id == id));
        if let Some(asked) = asked.filter(|asked| !asked.detail.is_empty() && !one_of(asked)) {
            let choices = asked.detail.lines().collect::<Vec<_>>().join(", ");
            return refuse(
                Code::BadParams,
                format!("`question.respond`: param `answer`: expected one of {choices}"),
            );
        }
        self.respond(Kind::Question, id, requests::Answer::Text(answer.to_owned()), peer)
    }

    fn respond(&mut self, kind: Kind, id: Option<&str>, answer: requests::Answer, peer: Peer) -> Answered {
        let word = match kind {
            Kind::Permission => "permission",
            Kind::Question => "question",
        };
        let (said, reason) = in_words(&answer);
        let reason = reason.map(str::to_owned);
        let (request_id, title) = match self.requests.respond(kind, id, answer) {
            Ok(request) => {
                if kind == Kind::Permission {
                    let (yes, key) = (said == "allow", request.key.as_deref());
                    self.activity.permitted(yes, &request.title, key, Instant::now());
                }
                (request.id.clone(), request.title.clone())
            }
            Err(refusal) => return refuse_response(word, id, refusal),
        };
        let (name, key) = match kind {
            Kind::Permission => (Name::PermissionAnswered, "tool"),
            Kind::Question => (Name::QuestionAnswered, "text"),
        };
        let event = LogEvent::new(name)
            .with("request_id", &request_id)
            .with(key, &title)
            .maybe("answer", (kind == Kind::Permission).then_some(said))
            .maybe("reason", reason.filter(|reason| !reason.is_empty()))
            .with("uid", peer.uid)
            .with("pid", peer.pid);
        self.log.record(event);
        self.requests_changed();
        Ok(Answer::Now(Body::Responded(Responded { request_id })))
    }

    pub(super) fn list_permissions(&self) -> Answered {
        let permissions = self.requests.list(Kind::Permission).map(|request| {
            let input = self.log.mask(&request.detail);
            PermissionAsked {
                request_id: request.id.clone(),
                tool: self.log.mask(&request.title),
                // Masked it may be no JSON any more: then it is the text of it.
                input: serde_json::from_str(&input).unwrap_or(Value::String(input)),
                asked_at: request.asked_at as f64,
                expires_in_ms: left(request),
            }
        });
        Ok(Answer::Now(Body::PermissionList(PermissionList { permissions: permissions.collect() })))
    }

    pub(super) fn list_questions(&self) -> Answered {
        let questions = self.requests.list(Kind::Question).map(|request| QuestionAsked {
            request_id: request.id.clone(),
            text: self.log.mask(&request.title),
            choices: request.detail.lines().map(str::to_owned).collect(),
            asked_at: request.asked_at as f64,
            expires_in_ms: left(request),
        });
        Ok(Answer::Now(Body::QuestionList(QuestionList { questions: questions.collect() })))
    }

    /// The answer to who asked, once there is one.
    pub(super) fn answer_to_agent(&self, kind: Kind, id: &str) -> Option<Result<Body, Error>> {
        let nobody = || format!("nobody answered within {:?}", self.requests.timeout());
        let denied = |reason: String| {
            let reason = Some(reason).filter(|reason| !reason.is_empty());
            Ok(Body::Decision(Decision { decision: Verdict::Deny, reason }))
        };
        Some(match (kind, self.requests.answer(id)) {
            (_, None) if self.requests.is_pending(id) && !self.is_leaving() => return None,
            (Kind::Permission, None) if self.is_leaving() => {
                denied("the supervisor is on its way out".to_owned())
            }
            // The agent went on without it.
            (Kind::Permission, None) => {
                Ok(Body::Decision(Decision { decision: Verdict::NoOpinion, reason: None }))
            }
            (Kind::Question, None) if self.is_leaving() => self.stopping(),
            (Kind::Question, None) => Err(Error::new(Code::NotRunning, "the agent that asked has ended")),
            (Kind::Permission, Some(requests::Answer::Allow)) => {
                Ok(Body::Decision(Decision { decision: Verdict::Allow, reason: None }))
            }
            (Kind::Permission, Some(requests::Answer::Deny(reason))) => denied(reason.clone()),
            (Kind::Question, Some(requests::Answer::Text(text))) => {
                Ok(Body::Answer(protocol::Answer { answer: text.clone() }))
            }
            (Kind::Permission, Some(requests::Answer::Expired | requests::Answer::Text(_))) => {
                denied(nobody())
            }
            (Kind::Question, Some(_)) => Err(Error::new(Code::Timeout, nobody())),
        })
    }

    /// Before who waits is answered: what has waited too long is a no.
    pub(super) fn deny_overdue(&mut self) {
        for request in self.requests.due(now()) {
            let (name, key) = match request.kind {
                Kind::Permission => (Name::PermissionAnswered, "tool"),
                Kind::Question => (Name::QuestionAnswered, "text"),
            };
            let event = LogEvent::new(name)
                .with("request_id", &request.id)
                .with(key, &request.title)
                .with("answer", "expired");
            self.log.record(event);
            // Who asked a question may well be a tool, which goes on without the answer.
            if request.kind == Kind::Permission {
                self.activity.permitted(false, &request.title, request.key.as_deref(), Instant::now());
            }
        }
        self.requests_changed();
    }

    /// After who waits was answered: who asked and has gone asks no more.
    pub(super) fn drop_unasked(&mut self) {
        if self.requests.wake().is_none() {
            return;
        }
        let waiting = self.calls.as_ref().map_or(&[][..], |calls| &calls.waiting[..]);
        let is_waited_for = |id: &str| {
            waiting.iter().any(|w| matches!(&w.for_what, ForWhat::Answer { id: asked, .. } if asked == id))
        };
        let gone = self.requests.keep(is_waited_for);
        self.tell_withdrawn(&gone);
    }

    /// The agent has gone on: with this tool, or with another turn.
    pub(super) fn overtake_requests(&mut self, key: Option<&str>) {
        let over = self.requests.overtaken(key);
        self.tell_withdrawn(&over);
    }

    /// Of an agent that has ended, whatever still waits for the answers.
    pub(super) fn drop_requests(&mut self) {
        let gone = self.requests.agent_ended();
        self.tell_withdrawn(&gone);
    }

    fn tell_withdrawn(&mut self, requests: &[Request]) {
        for request in requests {
            let name = match request.kind {
                Kind::Permission => Name::PermissionAnswered,
                Kind::Question => Name::QuestionAnswered,
            };
            self.log.record(LogEvent::new(name).with("request_id", &request.id).with("answer", "withdrawn"));
        }
        self.requests_changed();
    }

    fn requests_changed(&mut self) {
        self.activity.pending(self.requests.pending(), Instant::now());
    }
}

fn left(request: &Request) -> u64 {
    let left: Duration = request.until.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}

fn in_words(answer: &requests::Answer) -> (&'static str, Option<&str>) {
    match answer {
        requests::Answer::Allow => ("allow", None),
        requests::Answer::Deny(reason) => ("deny", Some(reason)),
        requests::Answer::Text(_) => ("answered", None),
        requests::Answer::Expired => ("expired", None),
    }
}

fn refuse_response(word: &str, id: Option<&str>, refusal: Refusal) -> Answered {
    let id = id.unwrap_or_default();
    match refusal {
        Refusal::NotFound if id.is_empty() => {
            refuse(Code::NotFound, format!("no {word} waits for an answer"))
        }
        Refusal::NotFound | Refusal::TooMany => {
            let list = format!("`agentsup {word} ls` lists those that wait");
            refuse(Code::NotFound, format!("no {word} `{id}` waits for an answer; {list}"))
        }
        Refusal::Answered => {
            refuse(Code::TooLate, format!("{word} `{id}` was answered already, or its time is over"))
        }
        Refusal::Ambiguous => {
            refuse(Code::BadParams, format!("several wait: say which; `agentsup {word} ls` lists them"))
        }
    }
}

fn limit(method: &str, param: &str, text: &str) -> Result<(), Error> {
    match text.len() > LONGEST {
        true => Err(Error::new(Code::BadParams, format!("`{method}`: param `{param}`: it is over 4 KiB"))),
        false => Ok(()),
    }
}
