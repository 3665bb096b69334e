//! A caller on the control socket that shares no code with the product.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Ended, FAKE, LIMIT, Lab, Launch, Running, SESSION, sys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Lines,
    Prefixed,
}

pub struct Caller {
    pub stream: UnixStream,
    framing: Framing,
    seen: Vec<u8>,
}

pub fn socket(lab: &Lab) -> PathBuf {
    lab.state_dir().join("supervisor").join(format!("{SESSION}.sock"))
}

impl Caller {
    /// By lines, as soon as somebody listens.
    pub fn of(lab: &Lab) -> Caller {
        Caller::at(&socket(lab), Framing::Lines)
    }

    pub fn at(path: &Path, framing: Framing) -> Caller {
        let mut stream = None;
        super::eventually("a supervisor listens", || {
            stream = connect(path).ok();
            stream.is_some()
        });
        Caller::on(stream.expect("just made"), framing)
    }

    /// A connection that was made before.
    pub fn on(stream: UnixStream, framing: Framing) -> Caller {
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        stream.set_write_timeout(Some(LIMIT)).expect("a time-out");
        Caller { stream, framing, seen: Vec::new() }
    }

    pub fn send(&mut self, request: &Value) {
        let text = request.to_string();
        let frame = match self.framing {
            Framing::Lines => [text.as_bytes(), b"\n"].concat(),
            Framing::Prefixed => [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat(),
        };
        self.send_raw(&frame);
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the supervisor reads");
    }

    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("connected");
    }

    /// The next frame; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.take_frame() {
                return Some(serde_json::from_slice(&frame).expect("replies are JSON"));
            }
            let mut buffer = [0u8; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.seen.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // A stop and a continue of the test itself does that to a read with a time-out.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer within {LIMIT:?}: {error}"),
            }
        }
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let (from, to) = match self.framing {
            Framing::Lines => {
                let end = self.seen.iter().position(|b| *b == b'\n')?;
                (end, end + 1)
            }
            Framing::Prefixed => {
                let prefix: [u8; 4] = self.seen.get(..4)?.try_into().expect("four");
                let length = u32::from_be_bytes(prefix) as usize;
                self.seen.get(4..4 + length)?;
                self.seen.drain(..4);
                (length, length)
            }
        };
        let frame = self.seen[..from].to_vec();
        self.seen.drain(..to);
        Some(frame)
    }

    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"id": method, "method": method, "params": params}));
        let reply = self.receive().unwrap_or_else(|| panic!("no answer to {method}"));
        assert_eq!(reply["id"], method, "{reply}");
        reply
    }

    /// The answer to a request that is granted.
    #[track_caller]
    pub fn get(&mut self, method: &str, params: Value) -> Value {
        let reply = self.ask(method, params);
        assert_eq!(reply["ok"], true, "{method}: {reply}");
        reply
    }

    /// The code of a refusal.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: Value) -> String {
        let reply = self.ask(method, params);
        assert_eq!(reply["ok"], false, "{method}: {reply}");
        reply["error"]["code"].as_str().expect("a code").to_owned()
    }

    #[track_caller]
    pub fn wait_for(&mut self, what: &str) -> Value {
        self.get("wait", json!({"for": what, "timeout_ms": LIMIT.as_millis() as u64}))
    }

    pub fn state(&mut self) -> Value {
        self.get("state", json!({}))
    }

    /// Until the phase is this one.
    #[track_caller]
    pub fn until_phase(&mut self, phase: &str) -> Value {
        let mut state = self.state();
        super::holds_within(LIMIT, || {
            state = self.state();
            state["phase"] == phase || {
                sys::pause(Duration::from_millis(5));
                false
            }
        });
        assert_eq!(state["phase"], phase, "{state}");
        state
    }
}

/// A path may be longer than an address can hold.
pub fn connect(path: &Path) -> std::io::Result<UnixStream> {
    if path.as_os_str().len() < 100 {
        return UnixStream::connect(path);
    }
    use std::os::fd::AsRawFd;
    let dir = std::fs::File::open(path.parent().expect("a directory"))?;
    let name = path.file_name().expect("a name").to_str().expect("plain");
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// A supervisor whose agent waits, and a caller.
pub fn waiting(lab: &Lab) -> (Running, Caller) {
    let sup = Launch::run(lab, [FAKE, "wait"]).start();
    sup.wait_for_output("READY");
    let mut caller = Caller::of(lab);
    caller.wait_for("ready");
    (sup, caller)
}

pub fn pid_of(reply: &Value) -> i32 {
    reply["pid"].as_i64().unwrap_or_else(|| panic!("no pid in {reply}")) as i32
}

pub fn stop(sup: Running, caller: &mut Caller) -> Ended {
    assert_eq!(caller.get("stop", json!({}))["already"], false);
    sup.end()
}
