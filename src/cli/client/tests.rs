use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::reach::find;
use super::*;
use crate::cli::world::Stdin;
use crate::control::client::testing::{Dir, Says, serve};
use crate::control::protocol::{
    Ack, Body, Error, Health, Phase, Pid, Pong, State, StreamFrame, WaitFor, Waited,
};
use crate::os::lock::{Lock, Taken};
use crate::session::StateDir;

pub fn state_dir(dir: &Dir) -> StateDir {
    StateDir { path: dir.0.clone(), source: "--dir" }
}

/// A supervisor's lock, held until it is dropped.
pub fn hold(dir: &Dir, session: &str) -> Lock {
    match Lock::take(&state_dir(dir).lock(session), "pid=1", |_| false).unwrap() {
        Taken::Ours(lock) => lock,
        Taken::Theirs(holder) => panic!("held by {holder}"),
    }
}

/// With a socket file, on which nobody need listen.
fn live(dir: &Dir, session: &str) -> Lock {
    fs::write(state_dir(dir).socket(session), "").unwrap();
    hold(dir, session)
}

fn world(env: &[(&str, &Path)]) -> World {
    let env = env.iter().map(|(name, value)| ((*name).into(), value.into())).collect();
    World {
        stdin: Stdin::Null,
        env,
        started_in: "/w".into(),
        uid: nix::unistd::getuid().as_raw(),
        own_binary: None,
    }
}

fn reach(socket: Option<&str>, session: Option<&str>, dir: Option<&Path>) -> Reach {
    Reach {
        socket: socket.map(PathBuf::from),
        session: session.map(str::to_owned),
        dir: dir.map(Path::to_owned),
    }
}

#[test]
fn the_first_that_says_which_socket_decides() {
    let (dir, other) = (Dir::new(), Dir::new());
    let (_a, _b) = (live(&dir, "a"), live(&dir, "b"));
    let _c = live(&other, "c");
    let named = Path::new("/named.sock");
    let all = world(&[("AGENTSUP_DIR", &dir.0), ("AGENTSUP_SOCKET", named)]);
    let place = world(&[("AGENTSUP_DIR", &dir.0)]);
    let sock = |dir: &Dir, session| state_dir(dir).socket(session);

    assert_eq!(find(&reach(Some("x.sock"), None, None), &all).unwrap(), Path::new("/w/x.sock"));
    assert_eq!(find(&reach(None, Some("a"), None), &all).unwrap(), sock(&dir, "a"));
    assert_eq!(find(&reach(None, None, None), &all).unwrap(), named);
    let said = world(&[("AGENTSUP_DIR", &dir.0), ("AGENTSUP_SESSION", Path::new("b"))]);
    assert_eq!(find(&reach(None, None, None), &said).unwrap(), sock(&dir, "b"));
    assert_eq!(find(&reach(None, None, Some(&other.0)), &said).unwrap(), sock(&other, "c"));
    assert_eq!(find(&reach(None, None, Some(&other.0)), &all).unwrap(), sock(&other, "c"));
    assert_eq!(find(&reach(None, Some("b"), None), &place).unwrap(), sock(&dir, "b"));

    let failure = find(&reach(None, None, None), &place).unwrap_err();
    assert_eq!(failure.code, 2);
    assert!(failure.message.ends_with("choose one of them:\n  a\n  b"), "{}", failure.message);
    for both in [reach(Some("x"), Some("a"), None), reach(Some("x"), None, Some(&dir.0))] {
        assert_eq!(find(&both, &place).unwrap_err().code, 2);
    }
    assert_eq!(find(&reach(None, Some("../a"), None), &place).unwrap_err().code, 2);
}

#[test]
fn what_was_tried_is_said_when_nobody_is_there() {
    let dir = Dir::new();
    let place = world(&[("AGENTSUP_DIR", &dir.0)]);
    let complaint = |session: Option<&str>| {
        let failure = find(&reach(None, session, None), &place).unwrap_err();
        assert_eq!(failure.code, 69, "{}", failure.message);
        failure.message
    };
    let path = dir.0.display().to_string();
    assert!(complaint(None).contains(&path));
    assert!(complaint(Some("gone")).contains(&format!("no session gone in {path}")));
    // Left behind by a kill: neither file makes it live.
    fs::write(state_dir(&dir).record("dead"), "{}").unwrap();
    fs::write(state_dir(&dir).socket("dead"), "").unwrap();
    fs::write(state_dir(&dir).lock("dead"), "pid=1").unwrap();
    assert!(complaint(None).contains("no session lives"));
    assert!(complaint(Some("dead")).contains("has ended; its log is "));
    let _mute = hold(&dir, "mute");
    assert!(complaint(Some("mute")).contains("no control socket"));
    assert!(complaint(None).contains("no session lives"));
}

#[test]
fn only_a_uuid_may_be_shortened() {
    let dir = Dir::new();
    let uuid = "018f5c3e-8c1b-4b53-9d7e-3f1f2a1b2c3d";
    let _locks = [live(&dir, uuid), live(&dir, "agent-10"), live(&dir, "abcdef01")];
    let place = world(&[("AGENTSUP_DIR", &dir.0)]);
    let of = |session| find(&reach(None, Some(session), None), &place);
    assert_eq!(of("018f5c3e").unwrap(), state_dir(&dir).socket(uuid));
    assert_eq!(of("abcdef01").unwrap(), state_dir(&dir).socket("abcdef01"));
    for too_short in ["agent-1", "agent", "018f5c3", "018f5c3e-8c1b"] {
        assert_eq!(of(too_short).unwrap_err().code, 69, "{too_short}");
    }
    let _twin = live(&dir, "018f5c3e-0000-4000-8000-000000000000");
    assert_eq!(of("018f5c3e").unwrap_err().code, 2);
}

#[test]
fn a_session_is_found_where_it_lives_before_where_it_died() {
    let (first, second) = (Dir::new(), Dir::new());
    fs::write(state_dir(&first).record("s"), "{}").unwrap();
    let _lock = live(&second, "s");
    fs::create_dir_all(first.0.join("w/.agent-doc/supervisor")).unwrap();
    fs::rename(first.0.join("supervisor/s.json"), first.0.join("w/.agent-doc/supervisor/s.json")).unwrap();
    fs::create_dir_all(second.0.join("agentsup")).unwrap();
    fs::rename(second.0.join("supervisor"), second.0.join("agentsup/supervisor")).unwrap();
    let mut place = world(&[("XDG_RUNTIME_DIR", &second.0)]);
    place.started_in = first.0.join("w");
    let found = find(&reach(None, Some("s"), None), &place).unwrap();
    assert_eq!(found, second.0.join("agentsup/supervisor/s.sock"));
}

/// Runs a verb against a supervisor that gives one answer.
fn ends(line: &str, answer: impl Fn(&Call) -> Says + Send + Sync + 'static) -> Result<u8, u8> {
    let dir = Dir::new();
    let socket = dir.0.join("s.sock");
    serve(&socket, move |call| match call {
        Call::Ping => Says::Body(Body::Pong(Pong { version: "0".into(), protocol: 1, session: "s".into() })),
        call => answer(call),
    });
    let words = line.split(' ').chain(["--socket", socket.to_str().unwrap()]);
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let verb = words[0].to_str().unwrap();
    go(verb, &words[1..]).expect("a client verb").map_err(|failure| failure.code)
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let body = |body: Body| move |_: &Call| Says::Body(body.clone());
    let pid = Body::Pid(Pid { pid: 7 });
    assert_eq!(ends("pid", body(pid.clone())), Ok(0));
    assert_eq!(ends("ping --json", body(pid.clone())), Ok(0));
    assert_eq!(ends("pid", |_| Says::No(Code::NotRunning)), Err(1));
    assert_eq!(ends("resume --json", |_| Says::No(Code::NotHalted)), Err(1));
    assert_eq!(ends("pause --timeout 50ms", |_| Says::Nothing), Err(124));
    assert_eq!(ends("restart --timeout 50ms", |_| Says::Nothing), Err(124));
    assert_eq!(ends("pause", |_| Says::HangUp), Err(69));
    assert_eq!(ends("pause", |_| Says::Bytes(b"garbage\n".to_vec())), Err(69));
    assert_eq!(ends("logs --timeout 50ms", |_| Says::Stream(vec![])), Err(124));
    assert_eq!(ends("events --since 3", |_| Says::No(Code::Forbidden)), Err(1));
    for usage in [
        "wait",
        "wait --for ever",
        "restart --mode new",
        "restart --fresh --mode continue",
        "events --since x",
        "logs -n x",
        "screen -n -1",
        "pause --timeout 0",
        "pause a b",
        "pause a --session b",
        "inject",
        "inject a b c",
        "state --depe",
    ] {
        assert_eq!(ends(usage, body(pid.clone())), Err(2), "{usage}");
    }
    let exited = |code| Body::Waited(Waited { reason: WaitFor::Exit, code: Some(code), pid: None });
    assert_eq!(ends("wait --for exit", body(exited(139))), Ok(139));
    assert_eq!(ends("wait --for exit --json", body(exited(3))), Ok(3));
    assert_eq!(ends("wait --for ready --timeout 0", |_| Says::No(Code::Timeout)), Err(124));
    let nobody: Vec<OsString> = ["--socket", "/nonexistent/s.sock"].map(OsString::from).to_vec();
    assert_eq!(go("state", &nobody).unwrap().unwrap_err().code, 69);
    assert_eq!(go("health", &nobody).unwrap(), Ok(1));
}

#[test]
fn a_probe_gets_one_bit() {
    let state = |phase, health| {
        let state = State { phase, health, ..State::default() };
        move |_: &Call| Says::Body(Body::State(Box::new(state.clone())))
    };
    assert_eq!(ends("health", state(Phase::Running, Health::Healthy)), Ok(0));
    assert_eq!(ends("health", state(Phase::Backoff, Health::Degraded)), Ok(0));
    assert_eq!(ends("health --json", state(Phase::Halted, Health::Halted)), Ok(1));
    let began = Instant::now();
    assert_eq!(ends("health --timeout 50ms", |_| Says::Nothing), Ok(1));
    assert!(began.elapsed() < SOON);
}

#[test]
fn the_words_of_a_verb_reach_the_supervisor() {
    fn expect(line: &str, wanted: Call) {
        let expected = wanted.clone();
        let code = ends(line, move |call| match *call == expected {
            true => Says::Body(match call {
                Call::Restart { .. } | Call::Resume => Body::Pid(Pid { pid: 1 }),
                Call::Stop { .. } => Body::Stopped(crate::control::protocol::Stopped { already: false }),
                Call::Interrupt => {
                    let key = crate::control::protocol::Key::Pressed;
                    Body::Interrupted(crate::control::protocol::Interrupted { key })
                }
                Call::Inject { bytes } => {
                    Body::Injected(crate::control::protocol::Injected { n: bytes.len() as u64 })
                }
                Call::Events { .. } | Call::Logs { .. } => {
                    Body::Stream(StreamFrame::End(crate::control::protocol::End { end: true }))
                }
                Call::Screen { .. } => Body::Screen(Box::default()),
                Call::State { .. } => Body::State(Box::default()),
                _ => Body::Ack(Ack {}),
            }),
            false => Says::No(Code::BadParams),
        });
        assert_eq!(code, Ok(0), "{line}: {wanted:?}");
    }
    use crate::control::protocol::Mode;
    expect("restart", Call::Restart { mode: Mode::Continue });
    expect("restart --fresh", Call::Restart { mode: Mode::Fresh });
    expect("restart --mode=fresh", Call::Restart { mode: Mode::Fresh });
    expect("resume", Call::Resume);
    expect("stop", Call::Stop { graceful: true });
    expect("stop --now", Call::Stop { graceful: false });
    expect("state --deep", Call::State { why: false, deep: true });
    expect("state --why --json", Call::State { why: true, deep: false });
    expect("inject hi", Call::Inject { bytes: b"hi".to_vec() });
    expect("events -f --since 7", Call::Events { since: Some(7), follow: true });
    expect("logs -n 5", Call::Logs { lines: 5, follow: false });
    expect("logs", Call::Logs { lines: 100, follow: false });
    expect("interrupt", Call::Interrupt);
    expect("screen", Call::Screen { lines: None, ansi: false });
    expect("screen --ansi -n 7", Call::Screen { lines: Some(7), ansi: true });
}

#[test]
fn a_supervisor_that_hangs_is_never_told_to_restart() {
    let dir = Dir::new();
    let socket = dir.0.join("s.sock");
    serve(&socket, |call| match call {
        Call::Ping => Says::Nothing,
        call => panic!("was told to {}", call.method()),
    });
    let words = ["--socket", socket.to_str().unwrap(), "--timeout", "50ms"].map(OsString::from);
    assert_eq!(go("restart", &words).unwrap().unwrap_err().code, 69);
}

#[test]
fn each_failure_has_a_word_for_programs() {
    for (trouble, code, word) in [
        (Trouble::There(CallError::Refused(Error::new(Code::NotHalted, "x"))), 1, "NOT_HALTED"),
        (Trouble::There(CallError::Refused(Error::new(Code::Timeout, "x"))), 124, "TIMEOUT"),
        (Trouble::There(CallError::TimedOutAfterSend { after: SOON }), 124, "NO_ANSWER"),
        (
            Trouble::There(CallError::CouldNotConnect { path: "/x".into(), why: "y".into() }),
            69,
            "NO_SUPERVISOR",
        ),
        (Trouble::There(CallError::Broken("x".into())), 69, "BROKEN"),
        (Trouble::Here(Failure::usage("x")), 2, "USAGE"),
    ] {
        assert_eq!((trouble.failure().code, trouble.word()), (code, word));
    }
}

#[test]
fn metrics_for_a_collector_are_replaced_as_a_whole() {
    let dir = Dir::new();
    let file = dir.0.join("a.prom");
    let metrics = |text: &str| Body::Metrics(crate::control::protocol::Metrics { text: text.into() });
    let line = format!("metrics --textfile {}", file.display());
    for text in ["a 1\n", "a 2\n"] {
        let body = metrics(text);
        assert_eq!(ends(&line, move |_| Says::Body(body.clone())), Ok(0));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 3, "supervisor, logs and the file");
    let body = metrics("a 3\n");
    let nowhere = "metrics --textfile /nonexistent/a.prom";
    assert_eq!(ends(nowhere, move |_| Says::Body(body.clone())), Err(1));
}
