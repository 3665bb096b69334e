//! `docs/protocol.schema.json` against the types it is made from, and against real documents.
//! `AGENTSUP_BLESS=1 cargo test --test protocol_schema` writes it anew.

use std::fs;
use std::path::Path;

use agentsup::control::frame::{Decoder, Frame};
use agentsup::control::protocol::{
    Ack, Activity, Answer, AttachFrame, Attached, Body, Call, Child, Claim, ClaimOutcome, Code, Conversation,
    ConversationFrame, Decision, Dropped, End, Entry, EntryKind, Event, EventFrame, Exit, Health, Hook,
    HookEvent, Id, Injected, Interrupted, Key, LogLine, METHODS, Metrics, Mode, News, Node, NodeInShort,
    Over, PermissionAsked, PermissionList, Phase, Pid, Pong, QuestionAsked, QuestionList, Receipt, Reply,
    Request, Responded, Sent, Skipped, SkippedFrame, SkippedWhy, Speaker, Start, State, Stopped, StreamFrame,
    Suspend, Tool, Tree, Trigger, TriggerList, UNBUILT, Verdict, WaitFor, Waited, Wake, schema,
};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

const FILE: &str = "docs/protocol.schema.json";

#[test]
fn the_schema_in_the_docs_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let built = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("AGENTSUP_BLESS").is_some() {
        fs::write(&path, &built).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == built,
        "{FILE} is not the schema of the types: AGENTSUP_BLESS=1 cargo test --test protocol_schema"
    );
}

/// One part of the schema, to hold documents against.
struct Part {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Part {
    fn of(name: &str) -> Part {
        let mut compiler = Compiler::new();
        compiler.add_resource("mem:///protocol.json", schema()).unwrap();
        let mut schemas = Schemas::new();
        let index = compiler.compile(&format!("mem:///protocol.json#/$defs/{name}"), &mut schemas).unwrap();
        Part { schemas, index }
    }

    fn takes(&self, document: &Value) -> bool {
        self.schemas.validate(document, self.index).is_ok()
    }

    fn must_take(&self, document: &Value) {
        if let Err(why) = self.schemas.validate(document, self.index) {
            panic!("{document:#}\n{why:#}");
        }
    }
}

fn calls() -> Vec<Call> {
    vec![
        Call::Ping,
        Call::State { why: true, deep: false },
        Call::Pid,
        Call::Restart { mode: Mode::Fresh },
        Call::Interrupt,
        Call::Pause,
        Call::Resume,
        Call::Inject { bytes: b"\x03\xff".to_vec() },
        Call::Send { text: "fix it\n".into(), submit: false, force: true },
        Call::Hook(Hook {
            event: HookEvent::UserPromptSubmit,
            prompt: Some("fix it".into()),
            tool: Some("Bash".into()),
            tool_use_id: Some("toolu_1".into()),
            kind: Some("idle_prompt".into()),
            error: Some("rate_limit".into()),
            key: Some("k".into()),
            conversation: Some("c".into()),
            text: Some("later".into()),
        }),
        Call::PermissionRequest {
            tool: "Bash".into(),
            input: json!({"command": "make"}),
            key: Some("k".into()),
        },
        Call::PermissionRespond { request_id: Some("p1".into()), allow: false, reason: Some("no".into()) },
        Call::PermissionList,
        Call::QuestionRequest {
            text: "Which?".into(),
            choices: vec!["a".into(), "b".into()],
            key: Some("k".into()),
        },
        Call::QuestionRespond { request_id: None, answer: "a".into() },
        Call::QuestionList,
        Call::Idle,
        Call::Done { text: Some("it builds".into()) },
        Call::Describe { text: "fixes the build".into() },
        Call::Claim { ticket: "owner/repo#7".into(), release: true },
        Call::Trigger {
            thread: "ci".into(),
            text: "fix it".into(),
            reason: Some("red".into()),
            trigger_id: Some("a".into()),
            force: true,
            why: Some("on call".into()),
            wait: false,
        },
        Call::TriggerStatus { trigger_id: "a".into() },
        Call::TriggerList,
        Call::TriggerCancel { trigger_id: "a".into() },
        Call::Ack { trigger_id: None, thread: Some("ci".into()) },
        Call::Progress { trigger_id: Some("a".into()), thread: None, finding: Some("x".into()) },
        Call::Heartbeat,
        Call::ThreadUnblock { thread: "ci".into() },
        Call::Stop { graceful: false },
        Call::Screen { lines: Some(5), ansi: true },
        Call::Screen { lines: None, ansi: false },
        Call::Attach { rows: 24, cols: 80, readonly: true, hint: true, suspend: true },
        Call::Resize { rows: 24, cols: 80 },
        Call::Detach,
        Call::Events { since: Some(7), follow: true },
        Call::Events { since: None, follow: false },
        Call::Logs { lines: 3, follow: true },
        Call::Transcript { lines: 3, follow: true },
        Call::Wait { until: WaitFor::Exit, timeout_ms: Some(1) },
        Call::Wait { until: WaitFor::Ready, timeout_ms: None },
        Call::Stats,
        Call::Metrics,
        Call::Tree,
        Call::ChildAdd {
            id: Some("d".into()),
            prompt: Some("fix it".into()),
            env: [("A".to_owned(), "b".to_owned())].into(),
            args: vec!["-x".into()],
        },
        Call::ChildRemove { id: "d".into() },
        Call::ChildStart { id: "d".into() },
        Call::ChildStop { id: "d".into() },
        Call::ChildRestart { id: "d".into() },
    ]
}

#[test]
fn what_a_client_sends_fits_the_schema_and_is_understood() {
    let requests = Part::of("Request");
    let mut seen = Vec::new();
    for call in calls() {
        for id in [None, Some(Id::from(7)), Some(Id::Text("a".into())), Some(Id::Bool(true)), Some(Id::Null)]
        {
            let request = Request { id, call: call.clone() };
            let document = serde_json::to_value(&request).unwrap();
            assert_eq!(document["method"], call.method());
            requests.must_take(&document);
            assert_eq!(Request::parse(document.to_string().as_bytes()), Ok(request));
        }
        seen.push(call.method());
    }
    seen.dedup();
    assert_eq!(seen, METHODS);
    assert!(UNBUILT.iter().all(|name| !METHODS.contains(name)));
}

#[test]
fn schema_and_parser_agree_on_what_is_wrong() {
    let requests = Part::of("Request");
    let agreed = [
        (json!({"method": "ping"}), None),
        (json!({"method": "ping", "params": {}}), None),
        (json!({"method": "ping", "trace": "x"}), None),
        (json!({"method": "restart"}), None),
        (json!({"method": "stop", "params": {}}), None),
        (json!({"method": "wait", "params": {"for": "halted"}}), None),
        (json!({"method": "ping", "params": {"x": 1}}), Some(Code::BadParams)),
        (json!({"method": "ping", "params": [1]}), Some(Code::BadParams)),
        (json!({"method": "restart", "params": {"mode": "hard"}}), Some(Code::BadParams)),
        (json!({"method": "restart", "params": {"Mode": "fresh"}}), Some(Code::BadParams)),
        (json!({"method": "stop", "params": {"graceful": "no"}}), Some(Code::BadParams)),
        (json!({"method": "inject"}), Some(Code::BadParams)),
        (json!({"method": "inject", "params": {"bytes": 3}}), Some(Code::BadParams)),
        (json!({"method": "send", "params": {"text": "x"}}), None),
        (json!({"method": "send"}), Some(Code::BadParams)),
        (json!({"method": "send", "params": {"text": "x", "submit": 1}}), Some(Code::BadParams)),
        (json!({"method": "hook", "params": {"event": "UserPromptSubmit"}}), None),
        (json!({"method": "hook", "params": {"event": 5}}), Some(Code::BadParams)),
        (json!({"method": "trigger", "params": {"thread": "t", "text": "x"}}), None),
        (json!({"method": "trigger", "params": {"text": "x"}}), Some(Code::BadParams)),
        (json!({"method": "trigger.status", "params": {"id": "x"}}), Some(Code::BadParams)),
        (json!({"method": "wait", "params": {"timeout_ms": 5}}), Some(Code::BadParams)),
        (json!({"method": "events", "params": {"since": -1}}), Some(Code::BadParams)),
        (json!({"method": "sing"}), Some(Code::UnknownMethod)),
        (json!({"method": "attach"}), None),
        (json!({"method": "attach", "params": {"rows": -1}}), Some(Code::BadParams)),
        (json!({"method": "resize", "params": {"rows": 24}}), Some(Code::BadParams)),
        (json!({"method": "claim", "params": {"ticket": "t"}}), None),
        (json!({"method": "claim", "params": {"ticket": 7}}), Some(Code::BadParams)),
        (json!({"method": "tree"}), None),
        (json!({"method": "child.add"}), None),
        (json!({"method": "child.add", "params": {"env": ["A=b"]}}), Some(Code::BadParams)),
        (json!({"method": "child.stop"}), Some(Code::BadParams)),
        (json!({"method": 7}), Some(Code::BadRequest)),
        (json!({"id": [1], "method": "ping"}), Some(Code::BadRequest)),
        (json!({"id": 1}), Some(Code::BadRequest)),
        (json!(["ping"]), Some(Code::BadRequest)),
    ];
    for (document, code) in agreed {
        let parsed = Request::parse(document.to_string().as_bytes());
        assert_eq!(parsed.err().map(|(_, error)| error.code), code, "{document}");
        assert_eq!(requests.takes(&document), code.is_none(), "{document}");
    }
}

fn state() -> State {
    State {
        session: "s".into(),
        pid: Some(42),
        running: true,
        phase: Phase::Running,
        health: Health::Healthy,
        activity: Activity::Unknown,
        last_exit: Some(137),
        exits: vec![Exit { at: 1.5, code: 137, signal: Some("SIGKILL".into()), ..Exit::default() }],
        wake: Some(Wake { at: 2.0, in_ms: 5, why: "restart".into() }),
        tree: Some(Tree::default()),
        node: Some(NodeInShort { strategy: "pool".into(), children: 2, ready: 1, trouble: None }),
        ..State::default()
    }
}

/// Each method with each of its answers.
fn answers() -> Vec<(&'static str, Body)> {
    let stream = |frame| Body::Stream(frame);
    let permission = PermissionAsked {
        request_id: "p1".into(),
        tool: "Bash".into(),
        input: json!({"command": "make"}),
        asked_at: 1.0,
        expires_in_ms: 5,
    };
    let question = QuestionAsked {
        request_id: "q1".into(),
        text: "Which?".into(),
        choices: vec!["a".into()],
        asked_at: 1.0,
        expires_in_ms: 5,
    };
    let claim = Claim {
        outcome: ClaimOutcome::Claimed,
        ticket: "owner/repo#7".into(),
        session: "s".into(),
        claimed_at: 1.0,
        from: Some("gone".into()),
    };
    let waited = Waited { reason: WaitFor::Exit, code: Some(3), pid: None };
    let conversation = Conversation { id: "c".into(), news: News::Changed, empty: true };
    let tool = Tool { id: "t".into(), name: Some("Bash".into()), input: Some(json!({"command": "ls"})) };
    let (role, kind) = (Speaker::Assistant, EntryKind::ToolUse);
    let entry = Entry { role, kind, text: "ls".into(), at: Some(1.5), tool: Some(tool), ..Entry::default() };
    let skipped = Skipped { why: SkippedWhy::TooLong, bytes: 5_000_000 };
    let attached = Attached {
        attached: true,
        session: "s".into(),
        readonly: false,
        detach_key: "ctrl-\\".into(),
        rows: 24,
        cols: 80,
    };
    let child =
        Child { child: "lead".into(), pid: Some(7), last_exit: Some(1), in_ms: Some(5), ..Child::default() };
    let event = Event { seq: 1, at: 1.25, name: "claude_exit".into(), ..Event::default() };
    vec![
        ("ping", Body::Pong(Pong { version: "0.1.0".into(), protocol: 1, session: "s".into() })),
        ("state", Body::State(Box::new(state()))),
        ("pid", Body::Pid(Pid { pid: 42 })),
        ("restart", Body::Pid(Pid { pid: 42 })),
        ("interrupt", Body::Interrupted(Interrupted { key: Key::Already })),
        ("pause", Body::Ack(Ack {})),
        ("resume", Body::Pid(Pid { pid: 42 })),
        ("inject", Body::Injected(Injected { n: 3 })),
        ("send", Body::Sent(Sent { receipt: Receipt::Confirmed })),
        ("hook", Body::Ack(Ack {})),
        (
            "permission.request",
            Body::Decision(Decision { decision: Verdict::Deny, reason: Some("no".into()) }),
        ),
        ("permission.respond", Body::Responded(Responded { request_id: "p1".into() })),
        ("permission.list", Body::PermissionList(PermissionList { permissions: vec![permission] })),
        ("question.request", Body::Answer(Answer { answer: "a".into() })),
        ("question.respond", Body::Responded(Responded { request_id: "q1".into() })),
        ("question.list", Body::QuestionList(QuestionList { questions: vec![question] })),
        ("idle", Body::Ack(Ack {})),
        ("done", Body::Ack(Ack {})),
        ("describe", Body::Ack(Ack {})),
        ("claim", Body::Claim(claim)),
        ("trigger", Body::Trigger(Box::default())),
        (
            "trigger.status",
            Body::Trigger(Box::new(Trigger { code: Some(Code::AckTimeout), ..Trigger::default() })),
        ),
        ("trigger.list", Body::TriggerList(TriggerList::default())),
        ("trigger.cancel", Body::Trigger(Box::default())),
        ("ack", Body::Trigger(Box::default())),
        ("progress", Body::Ack(Ack {})),
        ("heartbeat", Body::Ack(Ack {})),
        ("thread.unblock", Body::Ack(Ack {})),
        ("stop", Body::Stopped(Stopped { already: true })),
        ("screen", Body::Screen(Box::default())),
        ("attach", Body::Attach(AttachFrame::Attached(attached))),
        ("attach", Body::Attach(AttachFrame::Suspend(Suspend { suspend: true }))),
        ("attach", Body::Attach(AttachFrame::Over(Over { ended: true }))),
        ("resize", Body::Ack(Ack {})),
        ("detach", Body::Ack(Ack {})),
        ("events", stream(StreamFrame::Start(Start { start: true, started_at: 1.0, newest: 0 }))),
        ("events", stream(StreamFrame::Event(EventFrame { event }))),
        ("events", stream(StreamFrame::Dropped(Dropped { dropped: 3 }))),
        ("logs", stream(StreamFrame::Log(LogLine { line: "[1] [supervisor] halted".into() }))),
        ("logs", stream(StreamFrame::End(End { end: true }))),
        ("transcript", stream(StreamFrame::Conversation(ConversationFrame { conversation }))),
        ("transcript", stream(StreamFrame::Entry(Box::new(entry)))),
        ("transcript", stream(StreamFrame::Skipped(SkippedFrame { skipped }))),
        ("wait", Body::Waited(waited)),
        ("stats", Body::Stats(Box::default())),
        ("metrics", Body::Metrics(Metrics { text: String::new() })),
        ("tree", Body::Node(Box::new(Node { children: vec![child.clone()], ..Node::default() }))),
        ("child.add", Body::Child(Box::new(child.clone()))),
        ("child.remove", Body::Child(Box::new(child.clone()))),
        ("child.start", Body::Child(Box::new(child.clone()))),
        ("child.stop", Body::Child(Box::new(child.clone()))),
        ("child.restart", Body::Child(Box::new(child))),
    ]
}

#[test]
fn what_a_supervisor_answers_fits_the_schema_of_its_method() {
    let mut seen = Vec::new();
    let replies = Part::of("Reply");
    for (method, body) in answers() {
        let part = Part::of(&format!("replies.{method}"));
        for id in [None, Some(Id::from(7)), Some(Id::Null)] {
            let document = serde_json::to_value(Reply::ok(id, body.clone())).unwrap();
            part.must_take(&document);
            replies.must_take(&document);
        }
        for code in Code::ALL {
            let refusal = serde_json::to_value(Reply::error(Some(Id::from(7)), *code, "why")).unwrap();
            assert_eq!(refusal["error"]["code"], code.as_str());
            part.must_take(&refusal);
        }
        let other = json!({"ok": true, "error": {"code": "INTERNAL", "message": ""}});
        assert!(!part.takes(&other), "{method} takes {other}");
        seen.push(method);
    }
    seen.dedup();
    assert_eq!(seen, METHODS);
    let pid = Part::of("replies.pid");
    assert!(!pid.takes(&json!({"ok": true})));
    assert!(!pid.takes(&json!({"ok": false, "error": {"code": "ODD", "message": ""}})));
}

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/protocol.md")).unwrap()
}

/// The document's part below one heading, up to the next of that rank.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    below.split("\n## ").next().unwrap()
}

#[test]
fn every_example_in_the_document_is_true() {
    let document = document();
    let mut method = None;
    let mut examples = 0;
    let requests = Part::of("Request");
    for line in document.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let value: Value = serde_json::from_str(request).unwrap_or_else(|why| panic!("{line}: {why}"));
            requests.must_take(&value);
            method = Some(Request::parse(request.as_bytes()).unwrap().call.method());
            examples += 1;
        } else if let Some(reply) = line.strip_prefix("< ") {
            let value: Value = serde_json::from_str(reply).unwrap_or_else(|why| panic!("{line}: {why}"));
            let method = method.expect("a request stands before each reply");
            Part::of(&format!("replies.{method}")).must_take(&value);
            Reply::<Value>::parse(reply.as_bytes()).unwrap();
        }
    }
    assert!(examples > METHODS.len(), "{examples}");
}

#[test]
fn the_bytes_in_the_document_are_frames() {
    let document = document();
    let mut frames = Vec::new();
    for block in document.split("```hex\n").skip(1) {
        let lines = block.split("\n```").next().unwrap().lines();
        let words = lines.flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let mut decoder = Decoder::for_requests();
        decoder.push(&bytes);
        let Ok(Some(Frame::Json(json))) = decoder.next() else { panic!("no frame: {block}") };
        assert!(!decoder.is_partial(), "{block}");
        frames.push(json);
    }
    let [request, reply, line] = &frames[..] else { panic!("{} frames", frames.len()) };
    assert_eq!(request, line);
    assert_eq!(Request::parse(request).unwrap().call, Call::Ping);
    assert!(Reply::<Pong>::parse(reply).unwrap().result.is_ok());
}

#[test]
fn the_document_names_every_method_and_code_and_no_other() {
    let document = document();
    let methods = section(&document, "Methods");
    let headings = methods.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    assert_eq!(headings.collect::<Vec<_>>(), METHODS);
    let errors = section(&document, "Errors");
    let codes = errors.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let built: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.collect::<Vec<_>>(), built);
    let (_, taken) = errors.split_once("answer `UNSUPPORTED`:").unwrap();
    assert_eq!(taken.split('`').skip(1).step_by(2).collect::<Vec<_>>(), UNBUILT);
}
