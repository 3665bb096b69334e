//! `agentsup run` at an operator's terminal: used like the agent itself, and always given back.

use crate::support;
use crate::support::{AGENTSUP, FAKE, Lab, Launch, Terminal, log, procfs, sys};

/// What a painting agent switched on, switched off again.
const OFF: [&str; 5] = ["\x1b[?1049l", "\x1b[?25h", "\x1b[?1000l", "\x1b[?1004l", "\x1b[?2004l"];

#[track_caller]
fn assert_given_back(terminal: &Terminal, before: &nix::sys::termios::Termios, how: &str) {
    assert_eq!(&terminal.modes(), before, "{how}: line settings");
    let screen = terminal.screen.text();
    let after = screen.split("\x1b[HPAINTED").last().unwrap_or_default();
    for off in OFF {
        assert!(after.contains(off), "{how}: no {off:?} after the agent, {}", screen.escape_debug());
    }
}

/// The command line for a shell.
fn line(launch: &Launch) -> String {
    let words: Vec<String> =
        launch.line().iter().map(|word| format!("'{}'", word.to_str().expect("text"))).collect();
    format!("{}\n", words.join(" "))
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    type End = fn(agentsup: i32, agent: i32);
    let nothing: End = |_, _| ();
    type Ending = (&'static str, &'static [&'static str], &'static [&'static str], End, i32);
    let endings: [Ending; 5] = [
        ("a clean exit", &["paint", "0"], &["--on-clean", "exit"], nothing, 0),
        ("a failure", &["paint", "3"], &["--restart", "no"], nothing, 3),
        (
            "kill -9 of the agent",
            &["paint"],
            &["--restart", "no"],
            |_, agent| sys::kill(agent, libc::SIGKILL),
            137,
        ),
        ("TERM", &["paint"], &[], |agentsup, _| sys::kill(agentsup, libc::SIGTERM), 143),
        ("a halt", &["paint", "4"], &["--on-halt", "exit", "--config", "CONFIG"], nothing, 4),
    ];
    for (how, agent, options, end, code) in endings {
        let lab = Lab::new();
        let config = lab.write("once.toml", "[policy]\nhalt_after = 1\n");
        let mut terminal = Terminal::new(80, 24);
        let before = terminal.modes();
        let words = [FAKE].into_iter().chain(agent.iter().copied());
        let options = options.iter().map(|option| if *option == "CONFIG" { config.as_str() } else { option });
        let agentsup = terminal.start(Launch::run(&lab, words).with(options).to_command());
        terminal.expect("PAINTED");
        let spawn = log::Log::of(&lab.state_dir()).wait_for("claude_spawn");
        end(agentsup, log::number(&spawn, "pid"));
        let status = terminal.end();
        assert_eq!(status.code(), Some(code), "{how}: {}", terminal.screen.text().escape_debug());
        assert_given_back(&terminal, &before, how);
    }
}

#[test]
fn the_terminal_is_raw_while_the_agent_has_it_and_every_byte_passes() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(Launch::run(&lab, [FAKE, "echo-raw"]).with(["--on-clean", "exit"]).to_command());
    terminal.expect("READY");
    assert!(terminal.is_raw());
    let from = terminal.screen.len();
    // Mouse, focus, paste, colours, Ctrl-C, Ctrl-D, Ctrl-\, and whatever else there is. Ctrl-Z too: nobody
    // could continue us here, so it is only a key.
    let all: Vec<u8> = (0..=255u8).filter(|b| *b != b'q').collect();
    terminal.type_in(&all);
    assert!(terminal.screen.holds_within(support::LIMIT, from + all.len()));
    assert_eq!(terminal.screen.bytes()[from..], all);
    terminal.type_in("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn ctrl_c_reaches_the_agent() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(Launch::run(&lab, [FAKE, "wait"]).with(["--restart", "no"]).to_command());
    terminal.expect("READY");
    terminal.type_in("\x03");
    assert_eq!(terminal.end().code(), Some(130));
}

#[test]
fn after_a_clean_exit_enter_starts_again_and_q_quits() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    terminal.start(Launch::run(&lab, [FAKE, "paint", "0"]).to_command());
    for _ in 0..3 {
        terminal.expect("PAINTED");
        terminal.expect("q");
        terminal.type_in("x\r");
    }
    terminal.expect("PAINTED");
    terminal.expect("[supervisor]");
    terminal.type_in("q");
    assert_eq!(terminal.end().code(), Some(0));
    assert_given_back(&terminal, &before, "q");
    let log = log::Log::of(&lab.state_dir());
    assert_eq!(log.events("claude_spawn").len(), 4, "{}", log.text());
    assert_eq!(log.events("user_action=restart").len(), 3, "{}", log.text());
}

#[test]
fn after_a_halt_enter_tries_again_and_q_quits_with_the_last_code() {
    let lab = Lab::new();
    let config = lab.write("once.toml", "[policy]\nhalt_after = 1\n");
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    terminal.start(Launch::run(&lab, [FAKE, "paint", "5"]).with(["--config", &config]).to_command());
    for _ in 0..2 {
        terminal.expect("PAINTED");
        terminal.expect("supervisor halted — run 'agentsup resume t' to retry");
        terminal.expect("q: quit");
        terminal.type_in("\r");
    }
    terminal.expect("supervisor halted");
    terminal.expect("q: quit");
    terminal.type_in("q");
    assert_eq!(terminal.end().code(), Some(5));
    assert_given_back(&terminal, &before, "q");
}

#[test]
fn a_closed_window_stops_everything() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.start(Launch::run(&lab, [FAKE, "leftover", &lab.text("leftover"), "100"]).to_command());
    terminal.expect("READY ");
    let agent = log::number(&log::Log::of(&lab.state_dir()).wait_for("claude_spawn"), "pid");
    terminal.hang_up();
    terminal.end();
    assert!(!procfs::alive(agent));
    assert_eq!(lab.read("leftover"), "TERM\nDONE\n");
}

#[test]
fn ctrl_z_and_fg_work_for_cat() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    let shell = terminal.shell();
    let before = terminal.modes();
    terminal.type_in(line(&Launch::run(&lab, ["cat"]).with(["--on-clean", "exit"])));
    let log = log::Log::of(&lab.state_dir());
    let cat = log::number(&log.wait_for("claude_spawn"), "pid");
    let agentsup = procfs::children(shell)[0];
    for word in ["first", "second", "third"] {
        terminal.type_in(format!("{word}\n"));
        terminal.expect(&format!("{word}\r\n{word}\r\n"));
        terminal.type_in("\x1a");
        terminal.expect("Stopped");
        terminal.expect("PROMPT> ");
        for pid in [agentsup, cat] {
            assert_eq!(procfs::process(pid).map(|p| p.state), Some('T'), "{word}: pid {pid}");
        }
        assert_eq!(terminal.modes(), before, "{word}: the shell has its terminal back");
        terminal.type_in("fg\n");
        terminal.expect(AGENTSUP);
    }
    terminal.type_in("last\n");
    terminal.expect("last\r\nlast\r\n");
    terminal.type_in("\x04");
    terminal.expect("PROMPT> ");
    terminal.type_in("echo code=$?\n");
    terminal.expect("code=0\r\n");
    assert_eq!(terminal.modes(), before);
    assert_eq!((log.events("suspended").len(), log.events("continued").len()), (3, 3), "{}", log.text());
}

#[test]
fn ctrl_z_and_fg_work_for_vim() {
    let found = ["vim", "vim.tiny"].into_iter().find(|name| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).exists())
    });
    let Some(vim) = found else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "ci has a vim");
        eprintln!("*** SKIPPED: no vim on this machine ***");
        return;
    };
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    let before = terminal.modes();
    let words = [vim, "-u", "NONE", "-N", "-n", "-i", "NONE", &lab.text("text")];
    terminal.type_in(line(&Launch::run(&lab, words).with(["--on-clean", "exit"])));
    terminal.expect("\x1b[?1049h");
    terminal.expect("~");
    terminal.type_in("ihello\x1b");
    terminal.expect("hello");
    for _ in 0..2 {
        terminal.type_in("\x1a");
        terminal.expect("\x1b[?1049l");
        terminal.expect("Stopped");
        terminal.expect("PROMPT> ");
        assert_eq!(terminal.modes(), before, "the shell has its terminal back");
        terminal.type_in("fg\n");
        terminal.expect("\x1b[?1049h");
        terminal.expect("hello");
    }
    terminal.type_in("a world\x1b:wq\r");
    terminal.expect("PROMPT> ");
    assert_eq!(lab.read("text"), "hello world\n");
    assert_eq!(terminal.modes(), before);
}

/// As curses programs are, which the key makes leave their screen and draw it again at once: a stop that the kernel
/// discards looks to them like one that is over.
#[test]
fn fg_shows_the_screen_of_a_program_that_does_not_draw_it_again() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    let draw = "printf '\\033[?1049h\\033[2J\\033[3;5Hnever drawn again\\033[7;9H'";
    let script = format!(
        "draw() {{ {draw}; }}; trap 'printf \"\\033[?1049l\"; draw' TSTP; draw; sleep 60 & wait; wait; wait"
    );
    let script = lab.write("curses", &script);
    terminal.type_in(line(&Launch::run(&lab, ["bash", &script]).with(["--on-clean", "exit"])));
    terminal.expect("never drawn again");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("PROMPT> ");
    terminal.type_in("fg\n");
    terminal.expect("\x1b[?1049h");
    terminal.expect("never drawn again");
    // And the cursor where it was.
    terminal.expect("\x1b[7;9H");
    log::Log::of(&lab.state_dir()).wait_for("continued");
}

#[test]
fn ctrl_z_with_another_group_in_front_is_the_agents_own_affair() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    terminal.shell();
    let inner = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    terminal.type_in(line(&Launch::run(&lab, inner).with(["--env", "PS1=INNER> ", "--on-clean", "exit"])));
    // The line itself holds the prompt too.
    terminal.expect("'-i'\r\n");
    terminal.expect("INNER> ");
    terminal.type_in("cat\n");
    terminal.type_in("first\n");
    terminal.expect("first\r\nfirst\r\n");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("INNER> ");
    terminal.type_in("fg\n");
    terminal.expect("cat");
    terminal.type_in("second\n");
    terminal.expect("second\r\nsecond\r\n");
    terminal.type_in("\x04");
    terminal.expect("INNER> ");
    terminal.type_in("exit 0\n");
    terminal.expect("PROMPT> ");
}

#[test]
fn a_stop_while_suspended_ends_everything() {
    let lab = Lab::new();
    let mut terminal = Terminal::new(80, 24);
    let shell = terminal.shell();
    terminal.type_in(line(&Launch::run(&lab, ["cat"])));
    let log = log::Log::of(&lab.state_dir());
    let cat = log::number(&log.wait_for("claude_spawn"), "pid");
    let agentsup = procfs::children(shell)[0];
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("PROMPT> ");
    // As a shell's `kill %1` does: TERM, then CONT, to the whole group.
    terminal.type_in("kill %1\n");
    let ended = sys::Pidfd::open(agentsup).is_none_or(|handle| handle.ended_within(support::LIMIT));
    assert!(ended, "{}\n{}", terminal.screen.text().escape_debug(), log.text());
    assert!(!procfs::alive(cat));
    assert!(log.text().contains("shutdown"), "{}", log.text());
}
