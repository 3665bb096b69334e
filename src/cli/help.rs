//! Help as argh lays it out, from what is declared to it: argh's own would bring a parser for each verb.

use argh::CommandInfoWithArgs;

const INDENT: &str = "  ";
const COLUMN: usize = 20;
const WIDTH: usize = 80;

/// `triggers` are the words that ask for it; `commands` are names and what they are for.
pub fn text(
    command_name: &str,
    usage: &str,
    info: &CommandInfoWithArgs,
    triggers: &str,
    commands: &[(&str, &str)],
) -> String {
    let mut out = format!("Usage: {command_name} {usage}\n\n{}\n\nOptions:", info.description);
    for flag in info.flags.iter().filter(|flag| flag.long != "--help") {
        let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        entry(&mut out, &format!("{short}{}", flag.long), flag.description);
    }
    entry(&mut out, triggers, "display usage information");
    if !commands.is_empty() {
        out += "\n\nCommands:";
        for (name, description) in commands {
            entry(&mut out, name, description);
        }
    }
    section(&mut out, "Examples:", info.examples);
    section(&mut out, "Notes:", info.notes);
    out += "\n";
    out.replace("{command_name}", command_name)
}

/// A name, and in a column of its own what it is for.
fn entry(out: &mut String, name: &str, description: &str) {
    let mut line = format!("\n{INDENT}{name}");
    let mut width = line.chars().count() - 1;
    if width >= COLUMN {
        line.push('\n');
        width = 0;
    }
    let mut gap = COLUMN - width;
    for word in description.split(' ') {
        let length = word.chars().count();
        if width + gap + length > WIDTH {
            line.push('\n');
            (width, gap) = (0, COLUMN);
        }
        line.extend(std::iter::repeat_n(' ', gap));
        line += word;
        width += gap + length;
        gap = 1;
    }
    *out += &line;
}

fn section(out: &mut String, heading: &str, texts: &[&str]) {
    if texts.is_empty() {
        return;
    }
    *out += "\n\n";
    *out += heading;
    for line in texts.iter().flat_map(|text| text.split('\n')) {
        *out += "\n";
        if !line.is_empty() {
            *out += INDENT;
            *out += line;
        }
    }
}
