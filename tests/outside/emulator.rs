//! A second opinion: what the emulator shows of real programs is what tmux shows of the same bytes
//! on a terminal of the same size, at the end and on the way there.
//!
//! `recordings/*.raw` is what `agentsup run --size 100x30 -- PROGRAM > FILE` wrote without a terminal,
//! while `agentsup inject` typed: claude in a conversation with a loopback server, codex at its
//! sign-in, vim with split windows, htop in a pid namespace of its own, less, and a page of
//! wide and combining characters with marks in fixed columns.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::Lab;
use agentsup::screen::{Queries, Screen};

const COLS: u16 = 100;
const ROWS: u16 = 30;
/// Places at which a recording is cut off and looked at.
const CUTS: usize = 12;

/// tmux on a socket of its own, so that nobody else's is touched.
struct Tmux<'a>(&'a Lab);

impl<'a> Tmux<'a> {
    /// `None`, said loudly, where there is no tmux.
    fn start(lab: &'a Lab) -> Option<Tmux<'a>> {
        if let Err(error) = Command::new("tmux").arg("-V").output() {
            assert!(std::env::var_os("CI").is_none(), "tmux: {error}");
            eprintln!("SKIPPED: no tmux on this machine");
            return None;
        }
        // A server that outlives its sessions, and panes without a status line.
        lab.write("tmux.conf", "set -g status off\nset -g exit-empty off\n");
        let tmux = Tmux(lab);
        tmux.run(&["start-server"]);
        Some(tmux)
    }

    fn run(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-u").arg("-S").arg(self.0.path("tmux")).arg("-f").arg(self.0.path("tmux.conf"));
        tmux.env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        let output = tmux.args(words).output().expect("tmux runs");
        assert!(output.status.success(), "tmux {words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The lines and the cursor that a pane shows after these bytes.
    fn shows(&self, bytes: &[u8]) -> (String, String) {
        fs::write(self.0.path("bytes"), bytes).expect("a file");
        // The title is the last that tmux reads from the pane.
        let pane = format!(
            "stty raw -echo; cat {0}; printf '\\033]2;seen\\007'; exec sleep 1000",
            self.0.text("bytes")
        );
        let (cols, rows) = (COLS.to_string(), ROWS.to_string());
        self.run(&["new-session", "-d", "-s", "p", "-x", &cols, "-y", &rows, &pane]);
        support::eventually("tmux has read it", || {
            self.run(&["display-message", "-p", "-t", "p", "#{pane_title}"]).trim() == "seen"
        });
        let text = self.run(&["capture-pane", "-p", "-t", "p"]);
        let cursor = self.run(&["display-message", "-p", "-t", "p", "#{cursor_y} #{cursor_x}"]);
        self.run(&["kill-session", "-t", "p"]);
        // In tmux a full row leaves the cursor behind its last column.
        let cursor = cursor.trim().replace(&format!(" {COLS}"), &format!(" {}", COLS - 1));
        (tidy(&text), cursor)
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end_matches('\n').to_owned()
}

fn ours(bytes: &[u8]) -> (String, String) {
    let mut screen = Screen::new(Queries::Terminal, Some(100));
    screen.begin(COLS, ROWS);
    screen.feed(bytes);
    let capture = screen.capture(None, |_| Vec::new()).expect("a screen");
    (tidy(&capture.text()), format!("{} {}", capture.row, capture.col))
}

#[test]
fn real_programs_look_as_they_do_in_tmux() {
    let lab = Lab::new();
    let Some(tmux) = Tmux::start(&lab) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("recordings") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "raw") {
            continue;
        }
        let (name, bytes) = (path.file_stem().expect("a name").display(), fs::read(&path).expect("bytes"));
        for cut in 1..=CUTS {
            let until = whole(&bytes, bytes.len() * cut / CUTS);
            let ((text, cursor), (tmux_text, tmux_cursor)) = (ours(until), tmux.shows(until));
            let at = until.len();
            if text != tmux_text {
                panic!("{name} at {at}:\n{}", difference(&text, &tmux_text));
            }
            assert_eq!(cursor, tmux_cursor, "{name} at {at}: the cursor (left: ours)");
        }
        seen += 1;
    }
    assert_eq!(seen, 6, "recordings");
}

/// Behind a screen full of numbered lines. Left out is where tmux is not the terminal that we say we
/// are: it inserts lines outside the region and in the column where the cursor is, inserts no more
/// blanks than fit, and captures line drawing as letters.
const SEQUENCES: [&str; 38] = [
    "\x1b[5;10r\x1b[10;1H\n\n\nx",
    "\x1b[5;10r\x1b[5;1H\x1bM\x1bMx",
    "\x1b[1;10r\x1b[10;1H\r\na\r\nb\r\nc",
    "\x1b[5;10r\x1b[20;1H\n\nx\x1b[30;1H\n\ny",
    "\x1b[5;10r\x1b[?6h\x1b[3;3Hx\x1b[99;99Hy\x1b[99Az",
    "\x1b[5;10r\x1b[7;3H\x1b[9Ax\x1b[9By",
    "\x1b[5;10r\x1b[2;3H\x1b[9Ax\x1b[9By",
    "\x1b[5;10r\x1b[7;3H\x1b[2L\rx",
    "\x1b[5;10r\x1b[7;3H\x1b[2M\rx",
    "\x1b[5;10r\x1b[3Sx",
    "\x1b[5;10r\x1b[3Tx",
    "\x1b[10;5r\x1b[7;7Hx",
    "\x1b[3;4H\x1b7\x1b[9;9H\x1b8x",
    "\x1b[3;4H\x1b[s\x1b[9;9H\x1b[ux",
    "\x1b[3;4H\x1b[?1049hx\x1b[5;5Hy",
    "\x1b[3;4H\x1b[?1049hx\x1b[5;5Hy\x1b[?1049lz",
    "\x1b[3;4H\x1b[?1047hx\x1b[?1047lz",
    "\x1b[3;4H\x1b[?7l\x1b[3;95Habcdefghijk",
    "\x1b[3;95Habcdefghijk",
    "\x1b[3;95Habcdef\rx",
    "\x1b[3;95Habcde日x",
    "\x1b[30;95Habcdefghijk",
    "\x1b[3;3Ha\x1b[5bz",
    "\x1b[3;3H\tx\ty\x1b[2Zz",
    "\x1b[3;17H\x1bH\x1b[3g\x1b[3;1H\tx",
    "\x1b[3;4H\x1b[1K",
    "\x1b[3;4H\x1b[1J",
    "\x1b[3;4H\x1b[J",
    "\x1b[2Jx",
    "\x1b[3;4H\x1b[2@x",
    "\x1b[3;4H\x1b[2Px",
    "\x1b[3;4H\x1b[2Xx",
    "\x1b[3;4H\x1b[20@x\x1b[4;4H\x1b[200P\x1b[5;4H\x1b[200X",
    "\x1b[3;1H\x1b[4habc\x1b[4ld",
    "\x1b[3;3H日本\x08x\x1b[4;3H日本\x1b[4;4Hy\x1b[5;3H日本\x1b[5;5H\x1b[K",
    "\x1b[3;3H👩\u{200d}🚀|e\u{301}|❤\u{fe0f}|\u{301}|",
    "\x1b[41m\x1b[3;3H\x1b[K\x1b[5;5H\x1b[2X\x1b[m",
    "\x1b[3;3Hab\x1b[5Ccd\x1b[2Def\x1b[3Gg\x1b[7dh\x1b[Ei\x1b[2Fj",
];

#[test]
fn sequences_do_what_they_do_in_tmux() {
    let lab = Lab::new();
    let Some(tmux) = Tmux::start(&lab) else { return };
    let full: String = (1..=ROWS).map(|n| format!("\x1b[{n}Hline {n} {}", "abcdefghij".repeat(5))).collect();
    let mut wrong = String::new();
    for sequence in SEQUENCES {
        let bytes = format!("{full}{sequence}").into_bytes();
        let ((text, cursor), (tmux_text, tmux_cursor)) = (ours(&bytes), tmux.shows(&bytes));
        if text != tmux_text || cursor != tmux_cursor {
            let difference = difference(&text, &tmux_text);
            wrong += &format!("{sequence:?}: cursor {cursor}, tmux {tmux_cursor}\n{difference}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Up to the next escape sequence or line: within one, tmux would take our mark for a part of it.
fn whole(bytes: &[u8], at: usize) -> &[u8] {
    let next = bytes[at..].iter().position(|b| matches!(b, 0x1b | b'\n'));
    &bytes[..next.map_or(bytes.len(), |next| at + next)]
}

fn difference(ours: &str, theirs: &str) -> String {
    let rows = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (rows(ours), rows(theirs));
    let row = |rows: &[String], n: usize| rows.get(n).cloned().unwrap_or_default();
    let differing = (0..ours.len().max(theirs.len())).filter(|n| row(&ours, *n) != row(&theirs, *n));
    differing.map(|n| format!("{n:2} ours {:?}\n   tmux {:?}\n", row(&ours, n), row(&theirs, n))).collect()
}
