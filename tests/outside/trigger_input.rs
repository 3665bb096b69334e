//! What cannot be a trigger, and where nobody is to be triggered: the exit code, and the code printed.

use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::support;
use crate::support::bridge::{
    PATIENT, claude, envelope, launch, prompts, stop, until_prompts, up, verb, verb_with,
};
use crate::support::{AGENTSUP, Caller, FAKE, Lab, SESSION, sys};
use serde_json::{Value, json};

#[track_caller]
fn assert_told((code, out, err): (i32, String, String), (expected, word): (i32, &str), names: &str) {
    assert_eq!((code, out.as_str()), (expected, ""), "{err}");
    assert!(err.starts_with("agentsup: ") && err.ends_with('\n') && err.lines().count() == 1, "{err:?}");
    assert!(err.contains(&format!("({word})")) && err.contains(names), "no {word} or {names}: {err}");
}

#[test]
fn bad_input_is_refused_with_its_code_and_names_what_is_wrong() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let (long, longest) = ("x".repeat(17 * 1024), "i".repeat(65));
    let (bad, too_large) = ((65, "BAD_PARAMS"), (65, "TOO_LARGE"));
    for (words, stdin, told, names) in [
        (&["--thread", "t", ""][..], "", bad, "`text`"),
        (&["--thread", "t", " \t "], "", bad, "`text`"),
        (&["--thread", "t", "-"], "", bad, "`text`"),
        (&["--thread", "t", "-"], "\x1b\x07\x00\n", bad, "`text`"),
        (&["--thread", "t", "-"], &long, too_large, "17408"),
        (&["--thread", "t", &long], "", too_large, "17408"),
        (&["--thread", "a b", "x"], "", bad, "`thread`"),
        (&["--thread", &longest, "x"], "", bad, "`thread`"),
        (&["--thread", "t", "--id", "a/b", "x"], "", bad, "`trigger_id`"),
        (&["--thread", "t", "--id", "ü", "x"], "", bad, "`trigger_id`"),
        (&["--thread", "t", "--id", &longest, "x"], "", bad, "`trigger_id`"),
        (&["--thread", "t", "--reason", "a\nb", "x"], "", bad, "`reason`"),
        (&["--thread", "t", "--reason", "a]", "x"], "", bad, "`reason`"),
        (&["--thread", "t", "--reason", &long[..201], "x"], "", bad, "`reason`"),
        (&["--thread", "t", "ACK_TRIGGER:x"], "", bad, "`text`"),
        (&["--thread", "t", "-"], "ACK_\nTRIGGER:x", bad, "`text`"),
        (&["--thread", "t", "[/BRIDGE_TRIGGER]"], "", bad, "`text`"),
    ] {
        assert_told(verb_with(&lab, &[&["trigger"], words].concat(), stdin), told, names);
    }
    for words in [
        &["--thread", "", "x"][..],
        &["--thread", "t", "--id", "", "x"],
        &["--thread", "t", "--reason", "", "x"],
        &["--thread", "t"],
        &["x"],
        &["--thread", "t", "one", "two", "three"],
    ] {
        assert_eq!(verb(&lab, &[&["trigger"], words].concat()).0, 2, "{words:?}");
    }
    for (words, told) in [
        (&["trigger", "--thread", "t"][..], "TEXT is missing; `-` reads it from stdin"),
        (&["ack"], "ID is missing"),
        (&["unblock"], "THREAD is missing"),
    ] {
        let (code, _, err) = verb(&lab, words);
        assert_eq!((code, err), (2, format!("agentsup: {told}\n")));
    }
    // More than a request can hold; the end of stdin is not waited for.
    let endless = "x".repeat(1 << 20);
    assert_told(verb_with(&lab, &["trigger", "--thread", "t", "-"], &endless), too_large, "");
    assert_eq!(prompts(&lab), [""; 0], "none of it was typed");
    assert_eq!(caller.get("trigger.list", json!({}))["triggers"], json!([]));
    stop(sup, &mut caller);
}

#[test]
fn text_that_is_not_utf8_is_no_text() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let told = verb_with(&lab, &["trigger", "--thread", "t", "-"], b"a\xffb");
    assert_told(told, (65, "BAD_PARAMS"), "UTF-8");
    for (word, code) in [("TEXT", 65), ("--thread", 2)] {
        let odd = std::ffi::OsStr::from_bytes(b"a\xffb");
        let mut command = Command::new(AGENTSUP);
        command.args(["trigger", "--dir"]).arg(lab.state_dir()).stdin(Stdio::null());
        match word {
            "TEXT" => command.args(["--thread", "t"]).arg(odd),
            _ => command.arg("--thread").arg(odd).arg("x"),
        };
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && err.contains(word) && err.contains("UTF-8"), "{err}");
    }
    stop(sup, &mut caller);
}

#[test]
fn control_characters_are_left_out_and_stdin_is_read_to_its_end() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let given = "a\x1b[201~\x03b\r\n\tc\u{9b}6n\x7f\n\n";
    let words = ["trigger", "--thread", "t", "--id", "c", SESSION, "-"];
    assert_eq!(verb_with(&lab, &words, given), (0, "delivered c, by hook\n".into(), String::new()));
    assert_eq!(until_prompts(&lab, 1), [envelope("c", "t", "a[201~b\n\tc6n")]);
    // The longest there may be.
    let long = "x".repeat(16 * 1024);
    let words = ["trigger", "--thread", "t", "--id", "l", "-"];
    assert_eq!(verb_with(&lab, &words, &long).1, "delivered l, by hook\n");
    assert_eq!(until_prompts(&lab, 2)[1], envelope("l", "t", &long));
    stop(sup, &mut caller);
}

#[test]
fn an_id_that_was_given_to_another_and_a_thread_that_nobody_knows() {
    let lab = Lab::new();
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    let words = ["trigger", "--thread", "t", "--id", "a", "one"];
    assert_eq!(verb(&lab, &words).0, 0);
    assert_eq!(verb(&lab, &words).1, "delivered a, by hook\n", "the same is the same");
    for other in [
        &["trigger", "--thread", "t", "--id", "a", "another"][..],
        &["trigger", "--thread", "u", "--id", "a", "one"],
        &["trigger", "--thread", "t", "--id", "a", "--reason", "r", "one"],
    ] {
        assert_told(verb(&lab, other), (65, "DUPLICATE_ID"), "the id a");
    }
    let not_found = (1, "NOT_FOUND");
    for words in [
        &["unblock", "nobody"][..],
        &["unblock", "t"],
        &["unblock", "?"],
        &["ack", "nobody"],
        &["progress", "--id", "nobody"],
        &["triggers", "--cancel", "nobody"],
    ] {
        assert_told(verb(&lab, words), not_found, "no such");
    }
    assert_told(verb(&lab, &["triggers", "--cancel", "a"]), (1, "TOO_LATE"), "ended");
    assert_told(verb(&lab, &["progress", "--thread", "a b"]), (1, "BAD_PARAMS"), "`thread`");
    assert_eq!(until_prompts(&lab, 1).len(), 1);
    stop(sup, &mut caller);
}

#[test]
fn without_a_supervisor_there_is_no_target() {
    let lab = Lab::new();
    let target = (69, "TARGET_NOT_FOUND");
    std::fs::create_dir_all(lab.state_dir()).unwrap();
    let trigger = |more: &[&str]| verb(&lab, &[&["trigger", "--thread", "t", "--no-wait"], more].concat());
    assert_told(trigger(&["x"]), target, "no session lives");
    assert_told(trigger(&["nobody", "x"]), target, "nobody");
    let (sup, mut caller) = up(claude(&lab, PATIENT), &lab);
    stop(sup, &mut caller);
    assert_told(trigger(&[SESSION, "x"]), target, "has ended");
    let json = trigger(&["--json", "x"]);
    let error: Value = serde_json::from_str(&json.1).unwrap();
    assert_eq!((json.0, &error["error"]["code"]), (69, &json!("TARGET_NOT_FOUND")));
    // A socket on which nobody listens, and a supervisor that hangs.
    let (sup, _) = up(claude(&lab, PATIENT), &lab);
    let pid = sup.pid();
    sys::kill(pid, libc::SIGSTOP);
    assert_told(trigger(&["--timeout", "300ms", "x"]), target, "silent");
    sys::kill(pid, libc::SIGKILL);
    sup.end();
    let socket = support::caller::socket(&lab);
    let words = ["trigger", "--thread", "t", "--socket", socket.to_str().unwrap(), "x"];
    let output = Command::new(AGENTSUP).args(words).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(69) && err.contains("stale") && err.contains("(TARGET_NOT_FOUND)"),
        "{err}"
    );
}

/// It was there, and may have read it.
#[test]
fn a_supervisor_that_dies_while_it_is_waited_for_was_found() {
    let lab = Lab::new();
    let (sup, mut caller) = up(launch(&lab, PATIENT, &[FAKE, "echo-raw"]), &lab);
    let dies = std::thread::scope(|scope| {
        let told = scope.spawn(|| verb(&lab, &["trigger", "--thread", "t", "--id", "a", "x"]));
        sup.wait_for("trigger_sent");
        sys::kill(sup.pid(), libc::SIGKILL);
        told.join().unwrap()
    });
    assert!(dies.0 == 69 && !dies.2.contains("TARGET_NOT_FOUND"), "{dies:?}");
    assert!(dies.2.contains("may have been done") && dies.2.contains("--id a tells (BROKEN)"), "{dies:?}");
    assert!(caller.receive().is_none());
    sup.end();
    // The next one knows what became of it.
    let (sup, mut caller): (_, Caller) = up(claude(&lab, PATIENT), &lab);
    assert_told(
        verb(&lab, &["trigger", "--thread", "t", "--id", "a", "x"]),
        (70, "NOT_RUNNING"),
        "trigger a",
    );
    stop(sup, &mut caller);
}
