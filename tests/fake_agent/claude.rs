//! As claude is called: a line of input, or with `-p` one answer to what comes on stdin. What it is told
//! lies in the directory `$FAKE_CLAUDE`, and so does what it is to do.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::PathBuf;

use serde_json::json;

use crate::tui::{self, First, Given};
use crate::{sys, tell};

/// `starts` gets a line for each start: pid and arguments as JSON. `calls` gets one for each call, the
/// text as JSON, unless there is a file `fails`; with a file `hangs` a call never ends. The transcript
/// of the conversation is begun with its first prompt, or as claude begins it. `$FAKE_SCRIPT` is run with
/// each prompt; `$TRANSCRIPT` is its file there.
pub fn claude(words: Vec<String>) -> ! {
    let place = PathBuf::from(std::env::var_os("FAKE_CLAUDE").expect("$FAKE_CLAUDE"));
    let add = |file: &str, line: String| {
        let file = OpenOptions::new().create(true).append(true).open(place.join(file));
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("$FAKE_CLAUDE can be written");
    };
    add("starts", format!("{}\n", json!({"pid": std::process::id(), "args": words})));
    let after = |name: &str| Some(words.get(words.iter().position(|word| word == name)? + 1)?.clone());
    let mut settings = words.windows(2).filter(|pair| pair[0] == "--settings").flatten().cloned().collect();
    let given = Given::take(&mut settings);
    if words.iter().any(|word| word == "-p") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).expect("UTF-8");
        if place.join("fails").exists() {
            tell("thinking\nAPI Error: 529 overloaded\n");
            sys::exit_now(1);
        }
        given.tell_prompt(&text);
        add("calls", format!("{}\n", json!(text)));
        if place.join("hangs").exists() {
            crate::signals::wait();
        }
        tell("done\n");
        sys::exit_now(0);
    }
    let id = after("--session-id").or(after("--resume")).expect("a conversation");
    let transcripts = PathBuf::from(std::env::var_os("HOME").expect("$HOME")).join(".claude/projects/x");
    std::fs::create_dir_all(&transcripts).expect("$HOME can be written");
    let transcript = transcripts.join(format!("{id}.jsonl"));
    std::fs::write(&transcript, "{}\n").expect("a transcript");
    if let Some(prompt) = after("--") {
        given.tell_prompt(&prompt);
        add("first", format!("{}\n", json!(prompt)));
    }
    let script = std::env::var("FAKE_SCRIPT").ok();
    let script = script.map(|script| format!("TRANSCRIPT='{}'; {script}", transcript.display()));
    tui::tui(place.join("record").to_str().expect("UTF-8"), &given, script.as_deref(), First::Heard);
}
