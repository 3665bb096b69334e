//! The agents that tests supervise: one verb each, named events on stdout or in a file, no guessing.
//! `sys` holds every `unsafe`; the other files are the verbs by theme.

mod claude;
mod faults;
mod files;
mod processes;
mod signals;
mod streams;
mod sys;
mod tui;

#[path = "../outside/support/pattern.rs"]
mod pattern;

use std::io::Write;

const USAGE: &str = "fake-agent VERB …
  exit CODE [--after MS]           say TEXT CODE               wait
  die-by SIGNAL                    ignore SIGNAL,…             record-signals FILE
  orphans N [--exit CODE]          die-with-orphans CODE N     leftover FILE WORK_MS [--exit CODE] [--deaf]
  hold-tty CODE                    tree PIDFILE [--deaf]       crash-then FILE N CODE
  pattern BYTES [--stay]           flood                       flood-and-record FILE
  echo-raw                         size                        paint [CODE]
  stdio-binary BYTES               env0 FILE [CODE]            fill FILE
  tui FILE [SCRIPT]                lines FILE
  tui-deaf-once FILE SCRIPT        zombies N                   fork-bomb FILE [--deaf]
  hog FILE                         denying ERRNO CALL,… COMMAND…
Called by the name `claude` it is one: a `tui`, or a one-shot call with -p; see claude.rs.";

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if std::env::args().next().is_some_and(|name| name.rsplit('/').next() == Some("claude")) {
        claude::claude(args);
    }
    let given = tui::Given::take(&mut args);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["exit", code] => leave(number(code)),
        ["exit", code, "--after", ms] => {
            std::thread::sleep(std::time::Duration::from_millis(number(ms) as u64));
            leave(number(code))
        }
        ["say", text, code] => {
            tell(text);
            leave(number(code))
        }
        ["wait"] => signals::wait(),
        ["die-by", signal] => sys::die_by(number(signal)),
        ["ignore", list] => signals::ignore(list.split(',').map(number)),
        ["record-signals", file] => signals::record(file),
        ["orphans", n] => processes::orphans(number(n), None),
        ["orphans", n, "--exit", code] => processes::orphans(number(n), Some(number(code))),
        ["die-with-orphans", code, n] => processes::die_with_orphans(number(code), number(n)),
        ["leftover", file, ms, rest @ ..] => {
            let (exit, deaf) = leftover_options(rest);
            processes::leftover(file, number(ms) as u64, exit, deaf)
        }
        ["hold-tty", code] => processes::hold_tty(number(code)),
        ["tree", file] => processes::tree(file, processes::Ears::Open),
        ["tree", file, "--deaf"] => processes::tree(file, processes::Ears::Deaf),
        ["crash-then", file, n, code] => files::crash_then(file, number(n) as usize, number(code)),
        ["pattern", bytes] => streams::pattern(number(bytes) as usize, streams::Then::Leave),
        ["pattern", bytes, "--stay"] => streams::pattern(number(bytes) as usize, streams::Then::Stay),
        ["flood"] => streams::flood(),
        ["flood-and-record", file] => signals::flood_and_record(file),
        ["echo-raw"] => streams::echo_raw(),
        ["size"] => streams::size(),
        ["paint"] => streams::paint(None),
        ["paint", code] => streams::paint(Some(number(code))),
        ["stdio-binary", bytes] => streams::stdio_binary(number(bytes) as usize),
        ["env0", file, code] => files::env0(file, Some(number(code))),
        ["env0", file] => files::env0(file, None),
        ["fill", file] => files::fill(file),
        ["tui", file] => tui::tui(file, &given, None, tui::First::Heard),
        ["tui", file, script] => tui::tui(file, &given, Some(script), tui::First::Heard),
        ["tui-deaf-once", file, script] => tui::tui(file, &given, Some(script), tui::First::Swallowed),
        ["lines", file] => streams::lines(file),
        ["zombies", n] => faults::zombies(number(n)),
        ["fork-bomb", file] => faults::fork_bomb(file, processes::Ears::Open),
        ["fork-bomb", file, "--deaf"] => faults::fork_bomb(file, processes::Ears::Deaf),
        ["hog", file] => faults::hog(file),
        ["denying", errno, calls, command @ ..] => faults::denying(errno, calls, command),
        _ => {
            eprintln!("{USAGE}");
            leave(64)
        }
    }
}

fn leftover_options(words: &[&str]) -> (Option<i32>, processes::Ears) {
    match words {
        [] => (None, processes::Ears::Open),
        ["--deaf"] => (None, processes::Ears::Deaf),
        ["--exit", code] => (Some(number(code)), processes::Ears::Open),
        ["--exit", code, "--deaf"] => (Some(number(code)), processes::Ears::Deaf),
        _ => panic!("leftover: {words:?}"),
    }
}

fn number(text: &str) -> i32 {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// An event for whoever reads our stdout, at once.
fn tell(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("stdout");
}

fn leave(code: i32) -> ! {
    std::process::exit(code)
}
