use std::path::Path;

use super::super::parse;
use super::*;

fn parsed(text: &str) -> Vec<Rule> {
    parse(Path::new("a.toml"), text).unwrap_or_else(|failure| panic!("{}", failure.message)).rules
}

fn complaint(text: &str) -> String {
    let failure = parse(Path::new("a.toml"), text).expect_err(text);
    assert_eq!(failure.code, 78);
    failure.message
}

#[test]
fn every_when_and_every_then_arrives() {
    let rules = parsed(
        r#"
[[rule]]
name = "budget"
when = { max_tokens = 200000 }
then = { warn = "wrap up" }
[[rule]]
when = { max_runtime = "8h" }
then = "reap"
[[rule]]
when.max_restarts = 0
then.notify = ["tell", ""]
[[rule]]
when = { silent_for = 90 }
then = "restart"
[[rule]]
when = { idle_for = "500ms" }
then = "pause"
[[rule]]
when = { screen_contains = "out of credit" }
then = "log"
"#,
    );
    let told: Vec<(&str, String)> = rules.iter().map(|rule| (rule.name, shown_as(rule))).collect();
    let expected = [
        ("budget", r#"when { max_tokens = 200000 } then { warn = "wrap up" }"#),
        ("rule-2", r#"when { max_runtime = "8h" } then "reap""#),
        ("rule-3", r#"when { max_restarts = 0 } then { notify = ["tell", ""] }"#),
        ("rule-4", r#"when { silent_for = "90s" } then "restart""#),
        ("rule-5", r#"when { idle_for = "500ms" } then "pause""#),
        ("rule-6", r#"when { screen_contains = "out of credit" } then "log""#),
    ];
    assert_eq!(told, expected.map(|(name, text)| (name, text.to_owned())));
}

#[test]
fn complaints_name_the_line_and_what_was_expected() {
    for (rule, line, what) in [
        ("then = 'log'", 1, "rule `rule-1` has no `when`; expected max_runtime, max_tokens"),
        ("when = { max_tokens = 1 }", 1, "rule `rule-1` has no `then`; expected log, notify, warn"),
        ("when = {}\nthen = 'log'", 2, "`when` is empty; expected max_runtime"),
        ("when = { max_token = 1 }\nthen = 'log'", 2, "unknown key `max_token`; expected `max_tokens`?"),
        ("when = { max_tokens = 0 }\nthen = 'log'", 2, "0 is out of range; expected 1 or more"),
        ("when = { max_restarts = -1 }\nthen = 'log'", 2, "-1 is out of range; expected 0 or more"),
        ("when = { max_runtime = '0s' }\nthen = 'log'", 2, "expected more than zero"),
        ("when = { screen_contains = ' ' }\nthen = 'log'", 2, "expected a piece of a line"),
        ("when = { screen_contains = \"a\\nb\" }\nthen = 'log'", 2, "expected a piece of a line"),
        ("when = 'max_tokens'\nthen = 'log'", 2, "invalid type: string"),
        (
            "when = { max_tokens = 1, idle_for = 1 }\nthen = 'log'",
            2,
            "`when` holds both `max_tokens` and `idle_for`; expected one of them",
        ),
        ("when = { idle_for = 1 }\nthen = 'reep'", 3, "`reep` is not a choice; expected `reap`?"),
        ("when = { idle_for = 1 }\nthen = 'explode'", 3, "expected one of log, notify, warn"),
        ("when = { idle_for = 1 }\nthen = 'warn'", 3, "`warn` needs a text; expected { warn = \"TEXT\" }"),
        ("when = { idle_for = 1 }\nthen = 'notify'", 3, "`notify` needs a command"),
        ("when = { idle_for = 1 }\nthen = { warn = '' }", 3, "there is nothing to type in it"),
        ("when = { idle_for = 1 }\nthen = { notify = [] }", 3, "the command is empty"),
        ("when = { idle_for = 1 }\nthen = { notify = [''] }", 3, "the program is an empty word"),
        ("when = { idle_for = 1 }\nthen = { shout = 'x' }", 3, "expected either { notify"),
        ("when = { idle_for = 1 }\nthen = { warn = 'x', notify = ['x'] }", 3, "expected either { notify"),
        ("when = { idle_for = 1 }\nthen = 7", 3, "expected \"log\", \"pause\", \"restart\", \"reap\""),
        ("when = { max_restarts = 1 }\nthen = 'restart'", 3, "expected another `then`"),
        ("wen = 1", 2, "unknown key `wen`; expected `when`?"),
        ("name = ''\nwhen = { idle_for = 1 }\nthen = 'log'", 2, "is no name of a rule"),
    ] {
        let said = complaint(&format!("[[rule]]\n{rule}\n"));
        assert!(said.starts_with(&format!("a.toml:{line}: ")), "{rule}: {said}");
        assert!(said.contains(what), "{rule}: {said}");
    }
    let one = "[[rule]]\nname = 'a'\nwhen = { idle_for = 1 }\nthen = 'log'\n";
    assert!(complaint(&one.repeat(2)).starts_with("a.toml:6: a second rule is called `a`"));
    assert!(complaint("[rule]\nwhen = 1\n").starts_with("a.toml:1: "), "{}", complaint("[rule]\nwhen = 1\n"));
    let many = "[[rule]]\nwhen = { idle_for = 1 }\nthen = 'log'\n".repeat(65);
    assert!(complaint(&many).contains("more than 64 rules"));
}
