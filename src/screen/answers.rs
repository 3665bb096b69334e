//! What a terminal says when it is asked, in the place of one that is not there.

use super::emulator::Emulator;
use super::modes::Modes;
use super::parser::{Csi, End};

/// There are no pixels; programs that ask only want the shape of a cell.
const CELL_WIDTH: usize = 8;
const CELL_HEIGHT: usize = 16;
/// Light on dark, as most terminals are.
const FOREGROUND: u32 = 0xd0d0d0;
const BACKGROUND: u32 = 0x000000;

pub fn to_csi(csi: &Csi, emulator: &Emulator, modes: &Modes) -> Option<String> {
    let (rows, cols) = (emulator.rows(), emulator.cols());
    let (row, col) = emulator.reported_cursor();
    let first = csi.param(0);
    Some(match (csi.marker, csi.between, csi.last, first) {
        // A VT220 with colours.
        (0, 0, b'c', 0) => "\x1b[?62;22c".to_owned(),
        (b'>', 0, b'c', 0) => "\x1b[>1;10;0c".to_owned(),
        (b'=', 0, b'c', 0) => "\x1bP!|00000000\x1b\\".to_owned(),
        (b'>', 0, b'q', 0) => format!("\x1bP>|agentsup {}\x1b\\", env!("CARGO_PKG_VERSION")),
        (0, 0, b'n', 5) => "\x1b[0n".to_owned(),
        (0, 0, b'n', 6) => format!("\x1b[{row};{col}R"),
        (b'?', 0, b'n', 6) => format!("\x1b[?{row};{col}R"),
        // The colour scheme: dark.
        (b'?', 0, b'n', 996) => "\x1b[?997;1n".to_owned(),
        (0, 0, b't', 14) => format!("\x1b[4;{};{}t", rows * CELL_HEIGHT, cols * CELL_WIDTH),
        (0, 0, b't', 16) => format!("\x1b[6;{CELL_HEIGHT};{CELL_WIDTH}t"),
        (0, 0, b't', 18) => format!("\x1b[8;{rows};{cols}t"),
        (0, 0, b't', 19) => format!("\x1b[9;{rows};{cols}t"),
        // With a number it would be an answer, which an agent may echo.
        (b'?', 0, b'u', 0) if !csi.has_params() => format!("\x1b[?{}u", modes.kitty_flags()),
        (b'?', b'$', b'p', mode) => format!("\x1b[?{mode};{}$y", state(modes.is_set(mode))),
        (0, b'$', b'p', mode) => format!("\x1b[{mode};{}$y", state(emulator.is_ansi_mode_set(mode))),
        _ => return None,
    })
}

/// Set, reset, or not known.
fn state(mode: Option<bool>) -> u8 {
    match mode {
        Some(true) => 1,
        Some(false) => 2,
        None => 0,
    }
}

/// `OSC 10;?`, `OSC 11;?`, `OSC 12;?` and `OSC 4;n;?`: colours. One command may ask for several.
pub fn to_osc(command: &[u8], end: End) -> Option<String> {
    let mut words = std::str::from_utf8(command).ok()?.split(';');
    let code: u32 = words.next()?.parse().ok()?;
    let mut out = String::new();
    let mut tell = |name: String, colour: u32| {
        let part = |shift: u32| (colour >> shift & 0xff) * 0x101;
        let end = if end == End::Bell { "\x07" } else { "\x1b\\" };
        out += &format!("\x1b]{name};rgb:{:04x}/{:04x}/{:04x}{end}", part(16), part(8), part(0));
    };
    match code {
        // The next word is about the next colour: foreground, background, cursor.
        10..=12 => {
            for (code, word) in (code..=12).zip(words) {
                if word == "?" {
                    tell(code.to_string(), if code == 11 { BACKGROUND } else { FOREGROUND });
                }
            }
        }
        4 => {
            while let (Some(index), Some(word)) = (words.next(), words.next()) {
                if let Ok(index) = index.parse::<u8>()
                    && word == "?"
                {
                    tell(format!("4;{index}"), palette(index));
                }
            }
        }
        _ => {}
    }
    (!out.is_empty()).then_some(out)
}

/// The palette that xterm begins with.
fn palette(index: u8) -> u32 {
    const NAMED: [u32; 16] = [
        0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000,
        0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
    ];
    let index = u32::from(index);
    let step = |n: u32| if n == 0 { 0 } else { 55 + 40 * n };
    match index {
        0..16 => NAMED[index as usize],
        16..232 => {
            let cube = index - 16;
            step(cube / 36) << 16 | step(cube / 6 % 6) << 8 | step(cube % 6)
        }
        _ => (8 + 10 * (index - 232)) * 0x010101,
    }
}

/// Settings and capabilities by name: none is known, which is an answer too.
pub fn to_dcs(data: &[u8]) -> Option<String> {
    match data {
        [b'$', b'q', ..] => Some("\x1bP0$r\x1b\\".to_owned()),
        [b'+', b'q', ..] => Some("\x1bP0+r\x1b\\".to_owned()),
        _ => None,
    }
}
