use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::control::frame::{Decoder, Frame, Framing, REPLY_MAX};

fn parse(text: &str) -> Result<Request, (Option<Id>, Error)> {
    Request::parse(text.as_bytes())
}

fn refused(text: &str) -> (Option<Id>, Code, String) {
    let (id, error) = parse(text).expect_err(text);
    (id, error.code, error.message)
}

#[test]
fn params_have_their_defaults() {
    let call = |text| parse(text).unwrap().call;
    assert_eq!(call(r#"{"method":"restart"}"#), Call::Restart { mode: Mode::Continue });
    assert_eq!(call(r#"{"method":"stop","params":null}"#), Call::Stop { graceful: true });
    assert_eq!(call(r#"{"method":"state","params":{}}"#), Call::State { why: false, deep: false });
    assert_eq!(call(r#"{"method":"events"}"#), Call::Events { since: None, follow: false });
    assert_eq!(
        call(r#"{"method":"logs","params":{"lines":null}}"#),
        Call::Logs { lines: 100, follow: false }
    );
    let wait = Call::Wait { until: WaitFor::Exit, timeout_ms: None };
    assert_eq!(call(r#"{"method":"wait","params":{"for":"exit"}}"#), wait);
}

#[test]
fn any_scalar_is_an_id_and_comes_back_as_it_was() {
    for id in ["7", "-1", "1.5", "18446744073709551615", r#""a\u0000ü""#, "true", "null"] {
        let request = parse(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap();
        let reply = serde_json::to_value(Reply::ok(request.id, Body::Ack(Ack {}))).unwrap();
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!(reply, json!({"id": expected, "ok": true}));
    }
    assert_eq!(parse(r#"{"method":"ping"}"#).unwrap().id, None);
    let long = "x".repeat(Id::LONGEST + 1);
    let (id, code, message) = refused(&format!(r#"{{"id":"{long}","method":"ping"}}"#));
    assert_eq!((id, code, &message[..]), (None, Code::BadRequest, "`id` is 257 bytes long, 256 are allowed"));
}

#[test]
fn a_refusal_carries_the_id_and_says_what_is_wrong() {
    let seven = Some(Id::from(7));
    let of =
        |method: &str, params: &str| refused(&format!(r#"{{"id":7,"method":"{method}","params":{params}}}"#));
    let bad = |message: &str| (seven.clone(), Code::BadParams, message.to_owned());
    assert_eq!(of("ping", r#"{"x":1}"#), bad("`ping` has no param `x`; it takes none"));
    assert_eq!(of("state", r#"{"wy":true}"#), bad("`state` has no param `wy`; it takes `why`, `deep`"));
    assert_eq!(of("stop", "[]"), bad("`stop`: `params` must be an object"));
    assert_eq!(
        of("restart", r#"{"mode":"hard"}"#),
        bad("`restart`: param `mode`: unknown variant `hard`, expected `fresh` or `continue`")
    );
    assert_eq!(of("logs", r#"{"lines":4294967296}"#).1, Code::BadParams);
    assert_eq!(of("wait", "{}"), bad("`wait`: param `for`: it is missing"));
    assert!(of("inject", r#"{"bytes":"=Q"}"#).2.starts_with("`inject`: param `bytes`: no base64: "));
    let (id, code, message) = refused(r#"{"id":7,"method":"sing"}"#);
    assert_eq!((id, code, &message[..]), (seven.clone(), Code::UnknownMethod, "there is no method `sing`"));
    assert_eq!(refused(r#"{"id":7}"#).0, seven);
    for name in UNBUILT {
        assert_eq!(of(name, "[]").1, Code::Unsupported, "{name}");
    }
}

#[test]
fn what_is_said_back_is_short_and_harmless() {
    let name = "\\u001b[31mé".repeat(5000);
    let (_, code, message) = refused(&format!(r#"{{"method":"{name}"}}"#));
    assert_eq!(code, Code::UnknownMethod);
    assert!(message.len() < 120 && !message.contains('\x1b'), "{message:?}");
    let (_, code, message) = refused(&format!(r#"{{"method":"restart","params":{{"mode":"{name}"}}}}"#));
    assert_eq!(code, Code::BadParams);
    assert!(message.len() < 300 && !message.contains('\x1b'), "{message:?}");
    let (_, code, message) = refused(&format!(r#"{{"method":"ping","params":{{"{name}":1}}}}"#));
    assert_eq!(code, Code::BadParams);
    assert!(message.len() < 160 && !message.contains('\x1b'), "{message:?}");
}

#[test]
fn no_json_is_told_from_no_request() {
    for text in ["{", "nope", "{\"method\":\"ping\"} x", "{'method':1}", "1e999"] {
        assert_eq!(refused(text).1, Code::BadJson, "{text}");
    }
    for bytes in [&b"\xff\xfe"[..], b"{\"method\":\"\xc3\x28\"}", b""] {
        assert_eq!(Request::parse(bytes).unwrap_err().1.code, Code::BadJson);
    }
    for text in ["1", "null", "[]", "\"ping\""] {
        assert_eq!(refused(text).1, Code::BadRequest, "{text}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    // As deep as a request of 64 KiB allows, and the 100,000 that would need a larger one.
    for depth in [30_000, 100_000] {
        let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(refused(&arrays).1, Code::BadJson);
        let params = format!(
            r#"{{"id":7,"method":"ping","params":{}1{}}}"#,
            r#"{"a":"#.repeat(depth),
            "}".repeat(depth)
        );
        assert_eq!(refused(&params).1, Code::BadJson);
        let elsewhere = format!(r#"{{"method":"ping","x":{arrays}}}"#);
        assert_eq!(refused(&elsewhere).1, Code::BadJson);
    }
}

#[test]
fn bytes_come_through_base64_with_or_without_padding() {
    for (text, bytes) in [("AQ==", &b"\x01"[..]), ("AQ", b"\x01"), ("", b""), ("Aw0K/w==", b"\x03\r\n\xff")] {
        let request = parse(&format!(r#"{{"method":"inject","params":{{"bytes":"{text}"}}}}"#)).unwrap();
        assert_eq!(request.call, Call::Inject { bytes: bytes.to_vec() });
    }
    for text in ["A", "A Q=", "AQ==\\n", "-_==", "AR=="] {
        let (_, code, _) = refused(&format!(r#"{{"method":"inject","params":{{"bytes":"{text}"}}}}"#));
        assert_eq!(code, Code::BadParams, "{text}");
    }
}

#[test]
fn a_reply_that_is_too_large_becomes_an_error_with_its_id() {
    let text = "x".repeat(REPLY_MAX);
    let frame = Reply::ok(Some(Id::from(7)), Body::Metrics(Metrics { text })).to_frame(Framing::Lines);
    let back: Reply<Metrics> = Reply::parse(&frame).unwrap();
    assert_eq!((back.id, back.result.unwrap_err().code), (Some(Id::from(7)), Code::TooLarge));
}

#[test]
fn a_client_reads_what_a_newer_supervisor_says() {
    let text = br#"{"id":1,"ok":false,"error":{"code":"FROM_THE_FUTURE","message":"m","more":1}}"#;
    let reply: Reply<Pid> = Reply::parse(text).unwrap();
    assert_eq!(reply.result, Err(Error::new(Code::Other, "m")));
    let reply: Reply<Pid> = Reply::parse(br#"{"ok":true,"pid":3,"more":[1]}"#).unwrap();
    assert_eq!(reply, Reply { id: None, result: Ok(Pid { pid: 3 }) });
    let mut state = serde_json::to_value(Reply::ok(None, Body::State(Box::default()))).unwrap();
    state["phase"] = "dreaming".into();
    state["health"] = "radiant".into();
    let reply: Reply<State> = Reply::parse(state.to_string().as_bytes()).unwrap();
    let state = reply.result.unwrap();
    assert_eq!((state.phase, state.health), (Phase::Unknown, Health::Unknown));
    for text in ["{}", r#"{"ok":false}"#, r#"{"ok":1}"#, r#"{"ok":true}"#, "[]"] {
        assert!(Reply::<Pid>::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn frames_of_a_stream_are_told_apart() {
    let event = Event { seq: 3, at: 1.5, name: "halted".into(), fields: [("why".into(), "x".into())].into() };
    for frame in [
        StreamFrame::Start(Start { start: true, started_at: 1.0, newest: 9 }),
        StreamFrame::Event(EventFrame { event }),
        StreamFrame::Log(LogLine { line: "l".into() }),
        StreamFrame::Dropped(Dropped { dropped: 2 }),
        StreamFrame::End(End { end: true }),
    ] {
        let bytes = Reply::ok(Some(Id::from(1)), Body::Stream(frame.clone())).to_frame(Framing::Lines);
        let back: Reply<StreamFrame> = Reply::parse(&bytes).unwrap();
        assert_eq!(back, Reply { id: Some(Id::from(1)), result: Ok(frame) });
    }
}

#[test]
fn a_new_kind_of_stream_frame_does_not_end_the_stream() {
    let reply: Reply<StreamFrame> = Reply::parse(br#"{"id":1,"ok":true,"weather":"fine"}"#).unwrap();
    assert!(matches!(reply.result, Ok(StreamFrame::Other(_))));
}

#[test]
fn codes_are_screaming_and_distinct() {
    for (i, code) in Code::ALL.iter().enumerate() {
        let word = code.as_str();
        assert!(word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'), "{word}");
        assert!(Code::ALL[..i].iter().all(|other| other.as_str() != word), "{word} twice");
        assert_eq!(serde_json::from_value::<Code>(word.into()).unwrap(), *code);
    }
}

fn any_call() -> impl Strategy<Value = Call> {
    let until = prop_oneof![Just(WaitFor::Ready), Just(WaitFor::Exit), Just(WaitFor::Halted)];
    prop_oneof![
        prop::sample::select(vec![Call::Ping, Call::Pid, Call::Pause, Call::Resume, Call::Interrupt]),
        prop::sample::select(vec![Call::Stats, Call::Metrics]),
        any::<(bool, bool)>().prop_map(|(why, deep)| Call::State { why, deep }),
        prop_oneof![Just(Mode::Fresh), Just(Mode::Continue)].prop_map(|mode| Call::Restart { mode }),
        any::<Vec<u8>>().prop_map(|bytes| Call::Inject { bytes }),
        any::<bool>().prop_map(|graceful| Call::Stop { graceful }),
        any::<(Option<u32>, bool)>().prop_map(|(lines, ansi)| Call::Screen { lines, ansi }),
        any::<(Option<u64>, bool)>().prop_map(|(since, follow)| Call::Events { since, follow }),
        any::<(u32, bool)>().prop_map(|(lines, follow)| Call::Logs { lines, follow }),
        (until, any::<Option<u64>>()).prop_map(|(until, timeout_ms)| Call::Wait { until, timeout_ms }),
    ]
}

fn any_id() -> impl Strategy<Value = Option<Id>> {
    prop_oneof![
        Just(None),
        Just(Some(Id::Null)),
        any::<bool>().prop_map(|it| Some(Id::Bool(it))),
        any::<u64>().prop_map(|it| Some(Id::from(it))),
        any::<f64>().prop_map(|it| serde_json::Number::from_f64(it).map(Id::Number)),
        ".{0,60}".prop_map(|it| Some(Id::Text(it))),
    ]
}

proptest! {
    #[test]
    fn a_request_survives_both_framings(
        id in any_id(),
        call in any_call(),
        framing in prop_oneof![Just(Framing::Lines), Just(Framing::LengthPrefixed)],
    ) {
        let request = Request { id, call };
        let mut decoder = Decoder::for_requests();
        decoder.push(&request.to_frame(framing).unwrap());
        prop_assert_eq!(decoder.framing(), Some(framing));
        let Ok(Some(Frame::Json(json))) = decoder.next() else { panic!("no frame") };
        prop_assert_eq!(Request::parse(&json), Ok(request));
    }

    #[test]
    fn no_bytes_are_too_odd_to_be_answered(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        for bytes in [&bytes, text.as_bytes()] {
            if let Err(refusal) = Request::parse(bytes) {
                let frame = Reply::from(refusal).to_frame(Framing::Lines);
                prop_assert!(Reply::<Ack>::parse(&frame).unwrap().result.is_err());
            }
        }
    }
}
