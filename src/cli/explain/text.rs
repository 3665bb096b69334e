//! The report for people: a name, a value, where it comes from.

use std::fmt::Write;

use super::{Report, Sourced};
pub use crate::log::line::visible;

const NAME_WIDTH: usize = 23;
const VALUE_WIDTH: usize = 20;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let line = |words: &[String]| {
        let short = |word: &String| match Some(word) == report.hooks.as_ref() {
            true => "HOOKS".to_owned(),
            false => word.clone(),
        };
        command_line(&words.iter().map(short).collect::<Vec<_>>())
    };
    row(&mut out, "fresh start", &line(&report.fresh), "");
    row(&mut out, "continue", &line(&report.again), "");
    if let Some(why) = report.continue_is_fresh {
        row(&mut out, "", &format!("(a fresh start again: {why})"), "");
    }
    if let Some(hooks) = &report.hooks {
        row(&mut out, "HOOKS", hooks, "");
    }
    if let Some(why) = &report.hooks_off {
        row(&mut out, "hooks", &format!("none: {why}"), "");
    }
    match &report.program {
        Some(program) => row(&mut out, "program", program, ""),
        None => row(&mut out, "program", "none: run would not start", ""),
    }
    for (name, value) in [
        ("profile", Some(&report.profile)),
        ("cwd", Some(&report.cwd)),
        ("session", Some(&report.session)),
        ("document", report.document.as_ref()),
        ("config file", report.config.as_ref()),
        ("state dir", Some(&report.state_dir)),
    ] {
        match value {
            Some(Sourced { value, source }) => row(&mut out, name, value, source),
            None => row(&mut out, name, "none", ""),
        }
    }
    row(&mut out, "socket", report.socket.as_deref().unwrap_or("none"), "");
    row(&mut out, "log", &report.log, "");

    out += "\nSettings\n";
    for setting in &report.settings {
        row(&mut out, &format!("  {}", setting.name), &setting.value, &setting.source);
    }
    let _ = writeln!(out, "\nEnvironment (fingerprint {})", report.env_fingerprint);
    for variable in &report.env {
        row(&mut out, &format!("  {}", variable.name), &variable.value, &variable.source);
    }
    if !report.dropped.is_empty() {
        out += "\nNot passed on (--pass-env NAME passes it)\n";
        list(&mut out, &report.dropped);
    }
    out
}

/// Columns while they fit; behind a long value the brackets show where the source begins.
fn row(out: &mut String, name: &str, value: &str, source: &str) {
    let value = visible(value);
    let source = if source.is_empty() { String::new() } else { format!("[{source}]") };
    let line = format!("{:<NAME_WIDTH$} {value:<VALUE_WIDTH$} {source}", visible(name));
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Words with blanks between them, in lines of at most 80 columns where that can be.
fn list(out: &mut String, words: &[String]) {
    let mut column = 0;
    for word in words.iter().map(|word| visible(word)) {
        let width = word.chars().count() + 1;
        if column > 0 && column + width > 80 {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.push(' ');
            column = 1;
        }
        out.push(' ');
        out.push_str(&word);
        column += width;
    }
    out.push('\n');
}

/// As a shell would take it.
pub fn command_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    match word {
        _ if !word.is_empty() && word.chars().all(is_plain) => word.to_string(),
        _ if word.chars().any(char::is_control) => {
            format!("$'{}'", word.chars().map(c_escape).collect::<String>())
        }
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// For bash's `$'…'`.
fn c_escape(c: char) -> String {
    match c {
        '\n' => "\\n".to_string(),
        '\t' => "\\t".to_string(),
        '\\' | '\'' => format!("\\{c}"),
        _ if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        _ => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        for (word, shown) in [
            ("claude", "claude"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("--opt=/x,y", "--opt=/x,y"),
            ("two\nlines", "$'two\\nlines'"),
            ("\u{1b}[31m'", "$'\\u001b[31m\\''"),
        ] {
            assert_eq!(shell_word(word), shown);
        }
    }

    #[test]
    fn long_lists_are_broken_into_lines() {
        let names: Vec<String> = (0..40).map(|n| format!("VARIABLE_{n}")).collect();
        let mut out = String::new();
        list(&mut out, &names);
        assert!(out.lines().all(|line| line.len() <= 80 && line.starts_with("  V")), "{out}");
        assert_eq!(out.split_whitespace().count(), 40);
    }
}
