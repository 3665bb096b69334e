//! Somebody who is attached: with `agentsup attach` on a terminal, or by the protocol alone.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use agentsup::screen::{Capture, Queries, Screen};
use serde_json::{Value, json};

use super::{AGENTSUP, LIMIT, Lab, SESSION, Terminal, caller, eventually};

/// `agentsup attach` on a terminal of its own.
pub struct Viewer {
    pub terminal: Terminal,
    pub size: (u16, u16),
    pub pid: i32,
}

pub fn command(lab: &Lab, options: &[&str]) -> Command {
    let mut command = Command::new(AGENTSUP);
    command.arg("attach").args(options).arg("--dir").arg(lab.state_dir()).arg(SESSION);
    for name in ["AGENTSUP_SESSION", "AGENTSUP_DIR", "AGENTSUP_SOCKET"] {
        command.env_remove(name);
    }
    command
}

impl Viewer {
    pub fn attach(lab: &Lab, size: (u16, u16), options: &[&str]) -> Viewer {
        let mut terminal = Terminal::new(size.0, size.1);
        let pid = terminal.start(command(lab, options));
        Viewer { terminal, size, pid }
    }

    /// What a person would see.
    pub fn capture(&self) -> Capture {
        capture(&self.terminal.screen.bytes(), self.size)
    }

    /// What would switch off the modes that are on.
    pub fn left_on(&self) -> String {
        let screen = screen(&self.terminal.screen.bytes(), self.size);
        String::from_utf8(screen.modes_off()).expect("text")
    }

    pub fn shown(&self) -> String {
        self.capture().text()
    }

    #[track_caller]
    pub fn until(&self, what: &str, seen: impl Fn(&str) -> bool) {
        let mut last = String::new();
        let is_seen = super::holds_within(LIMIT, || {
            last = self.shown();
            seen(&last)
        });
        assert!(
            is_seen,
            "never seen: {what}; the screen:\n{last}\n{}",
            self.terminal.screen.text().escape_debug()
        );
    }

    #[track_caller]
    pub fn until_shown(&self, text: &str) {
        self.until(text, |seen| seen.contains(text));
    }

    /// The hint is gone, and with it the frames: the output comes as it is.
    #[track_caller]
    pub fn until_live(&self) {
        self.until("no hint any more", |seen| {
            !seen.is_empty() && !seen.contains("detaches") && !seen.contains("leaves")
        });
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.size = (cols, rows);
        self.terminal.resize(cols, rows);
    }

    /// By the key; the exit code.
    #[track_caller]
    pub fn detach(&mut self) -> Option<i32> {
        self.terminal.type_in("\x1c\x1c");
        self.terminal.end().code()
    }
}

pub fn capture(bytes: &[u8], size: (u16, u16)) -> Capture {
    screen(bytes, size).capture(None, |_| Vec::new()).expect("it is on")
}

fn screen(bytes: &[u8], (cols, rows): (u16, u16)) -> Screen {
    let mut screen = Screen::new(Queries::Terminal, Some(0));
    screen.begin(cols, rows);
    screen.feed(bytes);
    screen
}

/// By the protocol alone, without a hint.
pub struct Wire {
    pub stream: UnixStream,
    seen: Vec<u8>,
    pub output: Vec<u8>,
    pub frames: VecDeque<Value>,
    pub size: (u16, u16),
}

impl Wire {
    pub fn connect(lab: &Lab) -> Wire {
        let caller = caller::Caller::at(&caller::socket(lab), caller::Framing::Prefixed);
        Wire {
            stream: caller.stream,
            seen: Vec::new(),
            output: Vec::new(),
            frames: VecDeque::new(),
            size: (0, 0),
        }
    }

    /// The same connection once more, to write to from another thread.
    pub fn again(&self) -> Wire {
        let stream = self.stream.try_clone().expect("dup");
        Wire { stream, seen: Vec::new(), output: Vec::new(), frames: VecDeque::new(), size: self.size }
    }

    #[track_caller]
    pub fn attach(lab: &Lab, (cols, rows): (u16, u16), readonly: bool) -> Wire {
        let mut wire = Wire::connect(lab);
        wire.size = (cols, rows);
        wire.send(&json!({"id": "attach", "method": "attach", "params": {"rows": rows, "cols": cols, "readonly": readonly}}));
        let reply = wire.frame();
        assert_eq!(reply["attached"], true, "{reply}");
        wire
    }

    pub fn send(&mut self, request: &Value) {
        self.send_frame(request.to_string().as_bytes());
    }

    pub fn type_in(&mut self, bytes: &[u8]) {
        self.send_frame(&[b"\x01", bytes].concat());
    }

    fn send_frame(&mut self, frame: &[u8]) {
        let frame = [&(frame.len() as u32).to_be_bytes(), frame].concat();
        self.stream.write_all(&frame).expect("the supervisor reads");
    }

    /// False at the end of the connection.
    pub fn read(&mut self) -> bool {
        let mut buffer = [0u8; 64 * 1024];
        let n = match self.stream.read(&mut buffer) {
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            // A read with a time-out is interrupted even by a stop and a continue of all of us.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return true,
            Err(error) => panic!("nothing within {LIMIT:?}: {error}; so far {:?}", self.text()),
        };
        self.seen.extend_from_slice(&buffer[..n]);
        while let Some(length) =
            self.seen.get(..4).map(|it| u32::from_be_bytes(it.try_into().expect("four")) as usize)
            && self.seen.len() >= 4 + length
        {
            let frame: Vec<u8> = self.seen.drain(..4 + length).skip(4).collect();
            match frame.split_first() {
                Some((1, output)) => self.output.extend_from_slice(output),
                _ => self.frames.push_back(serde_json::from_slice(&frame).expect("JSON")),
            }
        }
        n > 0
    }

    /// The next that is not for the terminal.
    #[track_caller]
    pub fn frame(&mut self) -> Value {
        while self.frames.is_empty() {
            assert!(self.read(), "the connection is closed; {:?}", self.text());
        }
        self.frames.pop_front().expect("just seen")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Until terminal bytes hold this.
    #[track_caller]
    pub fn until(&mut self, text: &str) {
        while !self.text().contains(text) {
            assert!(self.read(), "the connection is closed; no {text:?} in {:?}", self.text());
        }
    }

    pub fn shown(&self) -> String {
        capture(&self.output, self.size).text()
    }

    #[track_caller]
    pub fn until_shown(&mut self, text: &str) {
        while !self.shown().contains(text) {
            assert!(self.read(), "the connection is closed; no {text:?} on the screen:\n{}", self.shown());
        }
    }
}

/// Until so many are attached.
#[track_caller]
pub fn until_attached(caller: &mut super::Caller, count: u64) {
    eventually(&format!("{count} are attached"), || caller.state()["operator"]["attached"] == count);
}
