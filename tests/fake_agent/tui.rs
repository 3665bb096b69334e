//! An agent with a line of input, as claude and codex have one: raw mode, bracketed paste, an Enter
//! that comes with a burst of text is a part of it, and hooks that are called with each prompt.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{sys, tell};

/// How long after a burst an Enter is taken for a part of it.
const BURST: Duration = Duration::from_millis(120);
const PASTE: [&[u8]; 2] = [b"\x1b[200~", b"\x1b[201~"];

/// What the supervisor put on the command line.
#[derive(Default)]
pub struct Given {
    settings: Option<Value>,
}

impl Given {
    /// Takes an agent's own options off the front of its words.
    pub fn take(words: &mut Vec<String>) -> Given {
        let mut given = Given::default();
        while words.len() > 1 && words[0].starts_with("--") {
            if words[0] == "--settings" {
                let text = match words[1].starts_with('{') {
                    true => words[1].clone(),
                    false => std::fs::read_to_string(&words[1]).expect("the settings file"),
                };
                given.settings = Some(serde_json::from_str(&text).expect("settings are JSON"));
            }
            words.drain(..2);
        }
        given
    }

    /// All that listen to it are called, and waited for.
    pub fn tell_prompt(&self, prompt: &str) {
        let told = json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt});
        for hook in self.hooks("UserPromptSubmit") {
            let mut child =
                Command::new("sh").args(["-c", &hook]).stdin(Stdio::piped()).spawn().expect("sh runs");
            let mut stdin = child.stdin.take().expect("piped");
            let _ = stdin.write_all(told.to_string().as_bytes());
            drop(stdin);
            let ended = child.wait().expect("our child");
            assert!(ended.success(), "{hook}: {ended}");
        }
    }

    fn hooks(&self, event: &str) -> Vec<String> {
        let groups = self.settings.iter().flat_map(|s| s["hooks"][event].as_array()).flatten();
        let hooks = groups.flat_map(|group| group["hooks"].as_array()).flatten();
        hooks.filter_map(|hook| hook["command"].as_str().map(str::to_owned)).collect()
    }
}

/// What becomes of the very first Enter.
#[derive(PartialEq, Eq)]
pub enum First {
    Heard,
    /// It is a new line in the text.
    Swallowed,
}

struct Tui<'a> {
    line: Vec<u8>,
    /// The last one.
    prompt: Vec<u8>,
    swallows: bool,
    /// Run with each prompt, for a shell; `$TRIGGER_ID` is the trigger's in it, `$PROMPT` all of it.
    script: Option<String>,
    in_paste: bool,
    last_text: Option<Instant>,
    record: File,
    given: &'a Given,
    began: Instant,
}

/// Each prompt becomes a line of `file`: `PROMPT` and the text as a JSON string. Each read becomes a
/// line before it: `READ`, milliseconds since the start, and the bytes as a JSON string.
pub fn tui(file: &str, given: &Given, script: Option<&str>, first: First) -> ! {
    let record = OpenOptions::new().create(true).append(true).open(file).expect("the record");
    let mut tui = Tui {
        line: Vec::new(),
        prompt: Vec::new(),
        swallows: first == First::Swallowed,
        script: script.map(str::to_owned),
        in_paste: false,
        last_text: None,
        record,
        given,
        began: Instant::now(),
    };
    sys::raw_mode();
    tell("\x1b[?2004h\x1b[?1004hREADY\r\n> ");
    let mut input = sys::adopt(0);
    let mut buffer = [0u8; 4096];
    let mut rest = Vec::new();
    loop {
        let n = input.read(&mut buffer).unwrap_or(0);
        if n == 0 {
            sys::exit_now(9);
        }
        tui.note("READ", &format!("{} ", tui.began.elapsed().as_millis()), &buffer[..n]);
        if buffer[..n] == *b"\x1b" {
            tui.escape();
            continue;
        }
        rest.extend_from_slice(&buffer[..n]);
        tui.take(&mut rest);
        tell(&format!("\r\x1b[K> {}", String::from_utf8_lossy(&tui.line).replace('\n', "\r\n  ")));
    }
}

impl Tui<'_> {
    fn note(&mut self, what: &str, more: &str, bytes: &[u8]) {
        let text = json!(String::from_utf8_lossy(bytes));
        // In one go: whoever reads the record sees whole lines.
        self.record.write_all(format!("{what} {more}{text}\n").as_bytes()).expect("the record");
    }

    fn take(&mut self, bytes: &mut Vec<u8>) {
        while let Some(first) = bytes.first().copied() {
            let now = Instant::now();
            let mut used = 1;
            match first {
                0x1b => {
                    let is_string = bytes.get(1) == Some(&b']');
                    let ends = |b: &u8| match is_string {
                        true => *b == 0x07,
                        false => b.is_ascii_alphabetic() || *b == b'~',
                    };
                    let Some(end) = bytes.iter().skip(2).position(ends) else { return };
                    used = end + 3;
                    match &bytes[..used] {
                        start if start == PASTE[0] => self.in_paste = true,
                        end if end == PASTE[1] => self.in_paste = false,
                        _ => {}
                    }
                    self.last_text = Some(now);
                }
                b'\r' if self.in_paste => self.line.push(b'\n'),
                b'\r' if self.last_text.is_some_and(|at| now - at < BURST) => self.line.push(b'\n'),
                b'\r' if self.line.ends_with(b"\\") => *self.line.last_mut().expect("a backslash") = b'\n',
                b'\r' if std::mem::take(&mut self.swallows) => self.line.push(b'\n'),
                b'\r' => self.submit(),
                0x7f => drop(self.line.pop()),
                0x03 | 0x15 => self.line.clear(),
                0x04 => sys::exit_now(0),
                text => {
                    self.line.push(text);
                    self.last_text = Some(now);
                }
            }
            bytes.drain(..used);
        }
    }

    /// Cancels the turn, which its spinner tells of; with a file `puts_back` in `$FAKE_CLAUDE` the prompt
    /// is in the line again.
    fn escape(&mut self) {
        let place = std::env::var("FAKE_CLAUDE").unwrap_or_default();
        if std::path::Path::new(&place).join("puts_back").exists() {
            self.line.clone_from(&self.prompt);
        }
        tell(&format!("\x1b[2J\x1b[HESCAPED\r\n> {}", String::from_utf8_lossy(&self.line)));
    }

    fn submit(&mut self) {
        let prompt = std::mem::take(&mut self.line);
        self.prompt.clone_from(&prompt);
        self.given.tell_prompt(&String::from_utf8_lossy(&prompt));
        self.note("PROMPT", "", &prompt);
        tell("\r\nOK\r\n");
        if let Some(script) = &self.script {
            let text = String::from_utf8_lossy(&prompt).into_owned();
            let id = text.split(['=', ' ']).nth(2).unwrap_or_default().to_owned();
            let mut shell = Command::new("sh");
            let _ = shell
                .args(["-c", script])
                .env("TRIGGER_ID", id)
                .env("PROMPT", &text)
                .stdin(Stdio::null())
                .status();
        }
    }
}
