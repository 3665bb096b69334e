//! The agent: its terminal, what it writes, reads and says of itself, and how it ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;

use super::processes::Role;
use super::{Deed, World};
use crate::os::pty::Read;
use crate::os::wait::How;

/// What agents write. The mode of bracketed paste is how a known agent shows its line of input.
const OUTPUT: [&[u8]; 12] = [
    b"\x1b[?2004h",
    b"\x1b[?2004h> ",
    b"\x1b[?2004l",
    b"working\r\n",
    b"\x1b[2J\x1b[H",
    b"\x1b[?1049h\x1b[?25l",
    b"\x1b[6n",
    b"\x1b[c\x1b[>q",
    b"plain text without an end",
    b"\r\nACK_TRIGGER:t1\r\n",
    b"You've hit your session limit - resets 3pm\r\n",
    b"\xf0\x9f\x98\x80\xff\xfe\x1b]0;title\x07",
];
/// What the line discipline holds.
const LINE: usize = 4096;
const BACKLOG: usize = 64 * 1024;

/// One terminal at a time, told from those before it by its number.
#[derive(Default)]
pub struct Pty {
    serial: u64,
    pub output: VecDeque<u8>,
    pub input: VecDeque<u8>,
    pub is_canonical: bool,
    agent: Option<i32>,
    /// The prompt that the agent has read and not told of.
    prompt: Vec<u8>,
}

impl Pty {
    pub fn is_readable(&self) -> bool {
        !self.output.is_empty()
    }

    pub fn is_writable(&self) -> bool {
        self.input.len() < LINE
    }
}

impl World {
    pub fn open_pty(&mut self) -> Option<u64> {
        if self.has_no_descriptors() || self.mood.is_faulty && self.rng.once_in(80) {
            self.story.event("pty", "refused", 0);
            return None;
        }
        let serial = self.pty.serial + 1;
        self.pty = Pty { serial, is_canonical: true, ..Pty::default() };
        Some(serial)
    }

    pub fn foreground(&self) -> Option<i32> {
        self.pty.agent
    }

    pub fn read_pty(&mut self, serial: u64, buffer: &mut [u8]) -> Read {
        if serial != self.pty.serial {
            return Read::HungUp;
        }
        let most = self.pty.output.len().min(buffer.len());
        if most == 0 || self.mood.is_faulty && self.rng.once_in(32) {
            self.facts.moved += 1;
            return Read::Nothing;
        }
        self.facts.moved += 1;
        let count = if self.rng.once_in(4) { 1 + self.rng.index(most) } else { most };
        if count < most {
            self.story.event("pty", "short read", count as i64);
        }
        for (to, byte) in buffer.iter_mut().zip(self.pty.output.drain(..count)) {
            *to = byte;
        }
        Read::Bytes(count)
    }

    pub fn write_pty(&mut self, serial: u64, bytes: &[u8]) -> usize {
        if serial != self.pty.serial || bytes.is_empty() {
            return 0;
        }
        let room = LINE.saturating_sub(self.pty.input.len()).min(bytes.len());
        let count = if room > 1 && self.rng.once_in(8) { 1 + self.rng.index(room) } else { room };
        self.facts.moved += count as u64;
        if count < bytes.len() {
            self.story.event("pty", "short write", count as i64);
        }
        self.pty.input.extend(&bytes[..count]);
        count
    }

    pub fn agent_is_forked(&mut self, pid: i32, argv: &[OsString]) {
        self.pty.agent = Some(pid);
        // claude writes a conversation down, and goes on only with what it finds there.
        let id = argv.iter().skip_while(|word| *word != "--session-id" && *word != "--resume").nth(1);
        if let Some(id) = id.filter(|_| self.mood.is_claude && !self.rng.once_in(4)) {
            let file = self.dir.join(format!("claude/projects/here/{}.jsonl", id.display()));
            // A full disk keeps it from doing so.
            let _ = std::fs::write(file, "{}\n");
        }
    }

    pub fn agent_begins(&mut self, pid: i32) {
        let minute = Duration::from_secs(60);
        let most = *self.rng.pick(&[minute / 60, minute / 6, minute * 5, minute * 600]);
        let most = if self.mood.is_bridged { minute * 600 } else { most };
        let lives = self.rng.span(most);
        let how = self.how_it_ends();
        self.agenda.after(lives, Deed::Ends(pid, how));
        self.agenda.after(Duration::from_millis(2), Deed::Acts(pid));
        if self.mood.is_pty && !self.rng.once_in(4) {
            // Its line of input.
            self.pty.output.extend(b"\x1b[?2004h> ");
        }
    }

    fn how_it_ends(&mut self) -> How {
        match self.rng.below(10) {
            0..3 => How::Code(0),
            3 => How::Signal(libc::SIGSEGV),
            4 => How::Code(130),
            5 => How::Code(*self.rng.pick(&[3, 126, 127, 78, 255])),
            _ => How::Code(1),
        }
    }

    pub fn agent_is_gone(&mut self, pid: i32) {
        if self.pty.agent == Some(pid) {
            self.pty.agent = None;
            self.pty.input.clear();
        }
    }

    pub fn agent_acts(&mut self, pid: i32) {
        if self.mood.watch.is_some() && (self.processes.hangs(pid) || self.rng.once_in(10)) {
            return self.agent_hangs(pid);
        }
        match self.rng.below(16) {
            0..4 => self.agent_writes(),
            4..7 => self.agent_reads(pid),
            7..10 => self.agent_speaks(pid),
            10 | 11 => {
                self.born_below(pid);
            }
            12 if !self.mood.is_bridged || self.rng.once_in(20) => {
                let how = self.how_it_ends();
                self.process_ends(pid, how);
            }
            13 if self.rng.once_in(4) => {
                self.oom_kills += 1;
                self.process_ends(pid, How::Signal(libc::SIGKILL));
            }
            14 if self.rng.once_in(8) => self.kill(pid, libc::SIGTSTP),
            _ => self.pty.is_canonical = self.rng.once_in(3),
        }
    }

    /// Its spinner may turn on. Some are helped by a word.
    fn agent_hangs(&mut self, pid: i32) {
        let is_helped = !self.pty.input.is_empty() && self.rng.once_in(3);
        self.processes.set_hangs(pid, !is_helped);
        self.story.event("agent", if is_helped { "goes on" } else { "hangs" }, i64::from(pid));
        if self.rng.once_in(2) && self.pty.output.len() < BACKLOG {
            let spinner = *self.rng.pick(&[b"|\x08", b"/\x08", b"-\x08"]);
            self.pty.output.extend(spinner);
        }
    }

    fn agent_writes(&mut self) {
        if !self.mood.is_pty || self.pty.output.len() > BACKLOG {
            return;
        }
        let mut written = 0;
        for _ in 0..=self.rng.below(3) {
            let text = *self.rng.pick(&OUTPUT);
            self.pty.output.extend(text);
            written += text.len();
        }
        if self.rng.once_in(200) {
            let flood = vec![b'x'; 1 + self.rng.index(20_000)];
            self.pty.output.extend(&flood);
        }
        self.story.event("agent", "writes", written as i64);
    }

    /// It takes what was typed, shows it, and an Enter begins a turn.
    fn agent_reads(&mut self, pid: i32) {
        let count = self.pty.input.len();
        if count == 0 {
            return;
        }
        let taken: Vec<u8> = self.pty.input.drain(..).collect();
        self.story.event("agent", "reads", count as i64);
        if self.pty.output.len() < BACKLOG && !self.rng.once_in(4) {
            self.pty.output.extend(&taken);
        }
        self.pty.prompt.extend(&taken);
        self.pty.prompt.truncate(20_000);
        if taken.ends_with(b"\r") {
            let prompt = String::from_utf8_lossy(&std::mem::take(&mut self.pty.prompt)).into_owned();
            let prompt = prompt.replace("\u{1b}[200~", "").replace("\u{1b}[201~", "");
            if !self.rng.once_in(3) {
                self.calls_once(pid, "hook", json!({"event": "UserPromptSubmit", "prompt": prompt.trim()}));
            }
        }
    }

    fn agent_speaks(&mut self, pid: i32) {
        let (method, params) = self.agents_words();
        self.calls_once(pid, method, params);
    }

    /// A call that carries a trigger has hooks, too; `before_spawn` may ask what it likes.
    pub fn helper_speaks(&mut self, pid: i32) {
        let (method, params) = self.agents_words();
        self.calls_once(pid, method, params);
    }

    /// Leftovers of an earlier supervisor, and whoever entered the namespace from outside.
    pub fn settle_strangers(&mut self) {
        for _ in 0..self.mood.leftovers {
            self.born(Role::Leftover, 0);
        }
        if self.mood.is_pid_1 {
            for _ in 0..self.rng.below(3) {
                self.born(Role::Outsider, 0);
            }
        }
    }
}
