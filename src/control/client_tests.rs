use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::testing::{Dir, Says, serve};
use super::*;
use crate::control::protocol::{
    Ack, Body, Dropped, End, Event, EventFrame, Mode, Pid, Pong, Start, State, WaitFor, Waited,
};

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(20);

fn fake(answer: impl Fn(&Call) -> Says + Send + Sync + 'static) -> (Dir, PathBuf) {
    let dir = Dir::new();
    let path = dir.0.join("supervisor/s.sock");
    serve(&path, answer);
    (dir, path)
}

#[test]
fn answers_come_back_typed_one_after_the_other() {
    let (_dir, path) = fake(|call| match call {
        Call::Ping => Says::Body(Body::Pong(Pong { version: "1".into(), protocol: 1, session: "s".into() })),
        Call::Restart { mode: Mode::Fresh } => Says::Body(Body::Pid(Pid { pid: 7 })),
        Call::Restart { mode: Mode::Continue } => Says::No(Code::Stopping),
        _ => Says::Body(Body::Ack(Ack {})),
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    assert_eq!(client.call::<Pong>(Call::Ping).unwrap().session, "s");
    assert_eq!(client.call::<Pid>(Call::Restart { mode: Mode::Fresh }).unwrap().pid, 7);
    let refused = client.call::<Pid>(Call::Restart { mode: Mode::Continue }).unwrap_err();
    assert_eq!(refused, CallError::Refused(Error::new(Code::Stopping, "no")));
    client.call::<Ack>(Call::Pause).unwrap();
    let all: serde_json::Value = client.call(Call::Ping).unwrap();
    assert_eq!(all["session"], "s");
}

#[test]
fn a_call_that_was_sent_is_sent_once_and_ends_in_time() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let (_dir, path) = fake(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Says::Nothing
    });
    let began = Instant::now();
    let error = Client::connect(&path, SHORT).unwrap().call::<Ack>(Call::Pause).unwrap_err();
    assert_eq!(error, CallError::TimedOutAfterSend { after: SHORT });
    assert!(began.elapsed() >= SHORT && began.elapsed() < LONG);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn bytes_that_trickle_in_buy_no_time() {
    // A frame of 200 bytes is announced and never finished.
    let (_dir, path) = fake(|_| Says::Bytes(vec![0, 0, 0, 200, b'{']));
    let error = Client::connect(&path, SHORT).unwrap().call::<Ack>(Call::Pause).unwrap_err();
    assert_eq!(error, CallError::TimedOutAfterSend { after: SHORT });
}

#[test]
fn what_is_no_answer_is_broken_and_said_so() {
    for bytes in [&b"\0\0\0\x03{} "[..], b"\0\0\0\x02no", b"\0\xff\0\0", b"\0\0\0\0", b"HTTP/1.1 400 Bad\n"] {
        let (_dir, path) = fake(move |_| Says::Bytes(bytes.to_vec()));
        let error = Client::connect(&path, LONG).unwrap().call::<Pid>(Call::Pid).unwrap_err();
        assert!(matches!(error, CallError::Broken(_)), "{bytes:?}: {error:?}");
    }
    let (_dir, path) = fake(|_| Says::HangUp);
    let error = Client::connect(&path, LONG).unwrap().call::<Pid>(Call::Pid).unwrap_err();
    assert!(matches!(error, CallError::Broken(why) if why.contains("without an answer")));
}

#[test]
fn nobody_there_is_could_not_connect() {
    let dir = Dir::new();
    let path = dir.0.join("supervisor/s.sock");
    let no_file = Client::connect(&path, SHORT).err().unwrap();
    assert!(no_file.to_string().contains("no such socket"), "{no_file}");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let stale = Client::connect(&path, SHORT).err().unwrap();
    assert!(stale.to_string().contains("nobody listens"), "{stale}");
    assert!(matches!(stale, CallError::CouldNotConnect { path: named, .. } if named == path));
}

#[test]
fn a_full_backlog_is_nobody_there_in_time() {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket as make,
    };
    use std::os::fd::AsRawFd;
    let dir = Dir::new();
    let path = dir.0.join("supervisor/s.sock");
    let fd = make(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
    bind(fd.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&fd, Backlog::new(0).unwrap()).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let began = Instant::now();
    let error = Client::connect(&path, SHORT).err().unwrap();
    assert!(matches!(error, CallError::CouldNotConnect { .. }), "{error:?}");
    assert!(began.elapsed() < LONG);
}

#[test]
fn too_large_a_request_is_refused_before_it_is_sent() {
    let (_dir, path) = fake(|_| Says::Nothing);
    let bytes = vec![0; 64 * 1024];
    let error = Client::connect(&path, LONG).unwrap().call::<Ack>(Call::Inject { bytes }).unwrap_err();
    assert!(matches!(error, CallError::Refused(Error { code: Code::TooLarge, .. })), "{error:?}");
}

fn event(seq: u64) -> StreamFrame {
    StreamFrame::Event(EventFrame { event: Event { seq, name: "halted".into(), ..Event::default() } })
}

const START: StreamFrame = StreamFrame::Start(Start { start: true, started_at: 1.0, newest: 2 });

#[test]
fn a_stream_ends_with_its_end() {
    let frames = vec![
        START,
        StreamFrame::Dropped(Dropped { dropped: 3 }),
        event(4),
        StreamFrame::End(End { end: true }),
    ];
    let told = frames.clone();
    let (_dir, path) = fake(move |_| Says::Stream(told.clone()));
    let stream = Client::connect(&path, LONG).unwrap().events(Some(0), false).unwrap();
    let seen: Vec<_> = stream.map(Result::unwrap).collect();
    assert_eq!(seen, frames);
}

#[test]
fn a_stream_that_hangs_ends_in_time_unless_it_is_followed() {
    let (_dir, path) = fake(|_| Says::Stream(vec![START, event(1)]));
    let stream = Client::connect(&path, SHORT).unwrap().events(None, false).unwrap();
    let last = stream.last().unwrap().unwrap_err();
    assert_eq!(last, CallError::TimedOutAfterSend { after: SHORT });

    // Followed: silence is no failure, and the supervisor's end is the stream's.
    let (_dir, path) = fake(|call| match call {
        Call::Events { follow: true, .. } => Says::Stream(vec![START]),
        _ => Says::HangUp,
    });
    let client = Client::connect(&path, SHORT).unwrap();
    let other_end = client.stream.try_clone().unwrap();
    let mut stream = client.events(None, true).unwrap();
    assert_eq!(stream.next(), Some(Ok(START)));
    std::thread::spawn(move || {
        std::thread::sleep(SHORT * 3);
        other_end.shutdown(std::net::Shutdown::Read).unwrap();
    });
    assert_eq!(stream.next(), None);
    assert_eq!(stream.next(), None);
}

#[test]
fn a_refused_stream_is_an_error_of_the_call() {
    let (_dir, path) = fake(|_| Says::No(Code::Forbidden));
    let error = Client::connect(&path, LONG).unwrap().logs(5, true).err().unwrap();
    assert!(matches!(error, CallError::Refused(Error { code: Code::Forbidden, .. })));
}

#[test]
fn a_wait_may_be_longer_than_the_patience() {
    let (_dir, path) = fake(|_| {
        std::thread::sleep(SHORT * 2);
        Says::Body(Body::Waited(Waited { reason: WaitFor::Exit, code: Some(3), pid: None }))
    });
    let mut client = Client::connect(&path, SHORT).unwrap();
    let wait = Call::Wait { until: WaitFor::Exit, timeout_ms: None };
    assert_eq!(client.call_within::<Waited>(wait, Patience::Endless).unwrap().code, Some(3));
}

#[test]
fn many_are_asked_at_once_and_one_that_hangs_holds_up_nobody() {
    let dir = Dir::new();
    let paths: Vec<PathBuf> = (0..200).map(|n| dir.0.join(format!("supervisor/{n}.sock"))).collect();
    for (n, path) in paths.iter().enumerate() {
        match n {
            50 => continue,
            100 => serve(path, |_| Says::Nothing),
            150 => serve(path, |_| Says::HangUp),
            _ => serve(path, move |_| {
                let state = State { session: n.to_string(), ..State::default() };
                Says::Body(Body::State(Box::new(state)))
            }),
        }
    }
    let patience = Duration::from_millis(500);
    let call = Call::State { why: false, deep: false };
    let began = Instant::now();
    let answers = many::ask_all::<State>(&paths, &call, patience);
    assert!(began.elapsed() < patience * 4, "{:?}", began.elapsed());
    assert_eq!(answers.len(), 200);
    for (n, answer) in answers.into_iter().enumerate() {
        match (n, answer) {
            (50, Err(CallError::CouldNotConnect { .. })) => {}
            (100, Err(CallError::TimedOutAfterSend { .. })) => {}
            (150, Err(CallError::Broken(_))) => {}
            (_, Ok(state)) => assert_eq!(state.session, n.to_string()),
            (n, Err(error)) => panic!("{n}: {error}"),
        }
    }
}
