//! Verbs that move bytes.

use std::io::{Read, Write};

use crate::pattern::Pattern;
use crate::{leave, sys, tell};

pub enum Then {
    Leave,
    Stay,
}

/// `total` bytes of the pattern through a terminal in raw mode.
pub fn pattern(total: usize, then: Then) -> ! {
    sys::raw_mode();
    write_pattern(&mut sys::adopt(1), 1, total);
    match then {
        Then::Leave => sys::exit_now(0),
        Then::Stay => sys::pause_for_ever(),
    }
}

fn write_pattern(to: &mut std::fs::File, seed: u64, total: usize) {
    let mut pattern = Pattern::new(seed);
    let mut buffer = [0u8; 64 * 1024];
    let mut left = total;
    while left > 0 {
        let n = left.min(buffer.len());
        pattern.fill(&mut buffer[..n]);
        to.write_all(&buffer[..n]).expect("write");
        left -= n;
    }
}

/// Writes lines until nobody takes them any more.
pub fn flood() -> ! {
    let mut out = sys::adopt(1);
    let line = [b"0123456789abcdef".as_slice(); 64].concat();
    while out.write_all(&line).is_ok() {}
    sys::exit_now(0)
}

/// Raw mode; every byte comes back as it was typed, until 'q'.
pub fn echo_raw() -> ! {
    sys::raw_mode();
    tell("READY");
    let mut input = sys::adopt(0);
    let mut output = sys::adopt(1);
    let mut buffer = [0u8; 4096];
    loop {
        let n = input.read(&mut buffer).unwrap_or(0);
        if n == 0 {
            sys::exit_now(9);
        }
        output.write_all(&buffer[..n]).expect("write");
        if buffer[..n].contains(&b'q') {
            sys::exit_now(0);
        }
    }
}

/// Lines as the terminal gathers them, each into the file as it came.
pub fn lines(file: &str) -> ! {
    tell("READY\n");
    let mut record = std::fs::File::create(file).expect("the record");
    for line in std::io::stdin().lines() {
        record.write_all(format!("{}\n", line.expect("text")).as_bytes()).expect("write");
    }
    sys::exit_now(0)
}

/// Tells the terminal's size, and again after each WINCH.
pub fn size() -> ! {
    let mut changes = std::fs::File::from(sys::arrivals([libc::SIGWINCH].into_iter()));
    loop {
        let (cols, rows) = sys::terminal_size();
        tell(&format!("SIZE {cols}x{rows}\n"));
        changes.read_exact(&mut [0u8; 1]).expect("own pipe");
    }
}

/// What a full-screen agent does to a terminal: raw mode, alternate screen, hidden cursor, mouse,
/// focus reports, bracketed paste. It never undoes any of it.
pub fn paint(code: Option<i32>) -> ! {
    sys::raw_mode();
    tell("\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[2J\x1b[HPAINTED");
    match code {
        Some(code) => leave(code),
        None => sys::pause_for_ever(),
    }
}

/// Stdin to stdout unchanged, and a pattern of the same length to stderr, at the same time.
pub fn stdio_binary(bytes: usize) -> ! {
    if let sys::Side::Child = sys::fork() {
        write_pattern(&mut sys::adopt(2), 2, bytes);
        sys::exit_now(0);
    }
    let copied = std::io::copy(&mut sys::adopt(0), &mut sys::adopt(1)).expect("copy");
    sys::wait_for(-1);
    sys::exit_now(if copied == bytes as u64 { 0 } else { 1 })
}
