use super::*;
use crate::cli::args;
use crate::policy::crash::Restart;

fn parsed(text: &str) -> Config {
    parse(Path::new("a.toml"), text).unwrap_or_else(|failure| panic!("{}", failure.message))
}

fn complaint(text: &str) -> String {
    let failure = parse(Path::new("a.toml"), text).expect_err(text);
    assert_eq!(failure.code, 78);
    failure.message
}

const EVERYTHING: &str = r#"
[run]
document = "d.md"
session = "s1"
label = ["a=b"]
cwd = "/w"
dir = "/s"
env = ["A=b=c"]
pass_env = ["X_*"]
agent = "claude"
prompt = "hi"
start = "continue"
io = "pty"
size = "80x24"
restart = "always"
on_clean = "restart"
on_halt = "exit"
grace = 0
timeout = "2h"
socket_mode = "0660"
socket_group = 100
no_socket = false
ready_fd = 7
no_hooks = true
watch = true
record = "r.cast"
record_input = true
allowed_dirs = ["/w/*"]
continue_args = ["--again", ""]
before_spawn = ["check", "it"]

[policy]
window = "61s"
flapping_after = 4
transient_wait = "3s"
flapping_wait = 31
halt_after = 6
halt_within = "1h"
stable_after = "2m"
no_retry = [2, 255]
backoff = "exponential"
base = "1s"
factor = 3
max = "90s"
jitter = 0.5

[halt]
notify = ["tell"]

[access]
group = "operator"
outside = "peer"

[log]
max_bytes = 4096
journald = false
"#;

#[test]
fn every_key_arrives() {
    let config = parsed(EVERYTHING);
    assert_eq!(config.run.restart, Some(Restart::Always));
    assert_eq!(config.run.grace, Some(Duration::ZERO));
    assert_eq!(config.run.env, [("A".into(), "b=c".into())]);
    assert_eq!(config.run.continue_args, ["--again", ""]);
    assert_eq!(
        config.policy.numbers(),
        Numbers {
            window: Duration::from_secs(61),
            flapping_after: 4,
            transient_wait: Duration::from_secs(3),
            flapping_wait: Duration::from_secs(31),
            halt_after: 6,
            halt_within: Some(Duration::from_secs(3600)),
            stable_after: Duration::from_secs(120),
            no_retry: vec![2, 255],
            backoff: Backoff::Exponential {
                base: Duration::from_secs(1),
                factor: 3.0,
                max: Duration::from_secs(90),
                jitter: 0.5
            },
        }
    );
    assert_eq!(config.halt_notify, ["tell"]);
    assert_eq!((config.run.socket_mode, config.run.socket_group.as_deref()), (Some(0o660), Some("100")));
    assert_eq!((config.access.group, config.access.outside), (Some(Role::Operator), Some(Role::Peer)));
    assert_eq!((config.log_max_bytes, config.journald), (Some(4096), Some(false)));
}

#[test]
fn every_flag_is_a_key() {
    let key = |option: &str| option.trim_start_matches('-').replace('-', "_");
    let run = EVERYTHING.split("[policy]").next().unwrap();
    for flag in args::options::<args::Run>() {
        // A file cannot name the file.
        if flag.long != "--config" {
            assert!(run.contains(&format!("\n{} = ", key(flag.long))), "{}", flag.long);
        }
    }
}

#[test]
fn nothing_said_is_the_defaults() {
    let config = parsed("");
    assert_eq!(config.run, Asked::default());
    assert_eq!(config.policy.numbers(), Numbers::default());
    assert_eq!(parsed("[run]\n[policy]\n[halt]\n[log]\n").run, Asked::default());
}

#[test]
fn exponential_has_defaults_of_its_own() {
    let wanted = Backoff::Exponential {
        base: Duration::from_secs(2),
        factor: 2.0,
        max: Duration::from_secs(60),
        jitter: 0.1,
    };
    assert_eq!(parsed("[policy]\nbackoff = \"exponential\"").policy.numbers().backoff, wanted);
}

#[test]
fn complaints_name_file_line_fault_and_what_was_expected() {
    for (text, message) in [
        ("[run]\ncwdd = \"/x\"", "a.toml:2: unknown key `cwdd`; expected `cwd`?"),
        ("[halt]\n\nfrob = 1", "a.toml:3: unknown key `frob`; expected one of notify"),
        ("\n[plicy]\nx = 1", "a.toml:2: unknown key `plicy`; expected `policy`?"),
        ("[run]\n\nwatch = 1", "a.toml:3: invalid type: integer `1`; expected a boolean"),
        ("[run]\nready_fd = 1", "a.toml:2: `1` is no descriptor to report on; expected a number from 3 on"),
        ("[run]\nsocket_mode = 660", "a.toml:2: invalid type: integer `660`; expected a string"),
        (
            "[run]\nsocket_mode = \"0755\"",
            "a.toml:2: `0755` is no mode for a socket; expected 0600, 0660, 0606 or 0666",
        ),
        (
            "[run]\nsocket_group = -1",
            "a.toml:2: invalid value: integer `-1`; expected the name or number of a group",
        ),
        ("[access]\ngroup = \"peer\"", "a.toml:2: `peer` is not a choice; expected observer or operator"),
        (
            "[access]\noutside = \"root\"",
            "a.toml:2: `root` is not a choice; expected agent, peer, observer or operator",
        ),
        (
            "[watch]\ncontinue_after = \"2m\"\nkill_after = \"2m\"",
            "a.toml:3: `kill_after` is 2m; expected more than `continue_after`, which is 2m",
        ),
        (
            "[watch]\n\ncontinue_after = \"5m\"",
            "a.toml:3: `kill_after` is 4m; expected more than `continue_after`, which is 5m",
        ),
        (
            "[screen]\ndetach_key = \"x\"",
            "a.toml:2: `x` is no key to detach with; expected ctrl- and a letter, or one of \\ ] ^ _, but not h, i, j or m",
        ),
        ("[screen]\nscrollback = -1", "a.toml:2: -1 lines are out of range; expected 0 to 100000"),
        (
            "[run]\nrestart = \"never\"",
            "a.toml:2: `never` is not a choice; expected on-failure, always or no",
        ),
        ("[run]\nrestart = 1", "a.toml:2: invalid type: integer `1`; expected a string"),
        (
            "[run]\nio = \"pty\"\ngrace = \"8x\"",
            "a.toml:3: `8x` is not a duration; expected something like 8, 8s, 500ms, 5m or 2h",
        ),
        (
            "[run]\ngrace = -1",
            "a.toml:2: invalid value: integer `-1`; expected a duration like \"8s\", \"500ms\" or 8",
        ),
        (
            "[run]\ngrace = 1.5",
            "a.toml:2: invalid type: floating point `1.5`; expected a duration like \"8s\", \"500ms\" or 8",
        ),
        ("[run]\ntimeout = 0", "a.toml:2: `0` is no time at all; expected more than zero"),
        (
            "[run]\nenv = [\"A\"]",
            "a.toml:2: `A` has no `=`; expected NAME=VALUE (to pass on a variable as it is: --pass-env A)",
        ),
        ("[run]\ncwd = \"\"", "a.toml:2: the value is empty; expected text"),
        ("[run]\ncwd = \"a\\u0000b\"", "a.toml:2: contains a NUL character; expected text"),
        ("[run]\nbefore_spawn = [\"\"]", "a.toml:2: the program is an empty word; expected its name or path"),
        ("[policy]\nhalt_after = 0", "a.toml:2: 0 is out of range; expected 1 or more"),
        ("[policy]\nwindow = 0", "a.toml:2: `0` is no time at all; expected more than zero"),
        ("[policy]\nno_retry = [256]", "a.toml:2: 256 is no exit code of a failure; expected 1 to 255"),
        ("[policy]\nno_retry = [0]", "a.toml:2: 0 is no exit code of a failure; expected 1 to 255"),
        ("[policy]\nbackoff = \"x\"", "a.toml:2: `x` is not a choice; expected fixed or exponential"),
        ("[log]\nmax_bytes = 1", "a.toml:2: 1 bytes are out of range; expected 4096 or more"),
        ("[log]\njournald = 1", "a.toml:2: invalid type: integer `1`; expected a boolean"),
    ] {
        assert_eq!(complaint(text), message, "{text}");
    }
}

#[test]
fn exponential_numbers_are_checked() {
    for (lines, message) in [
        ("factor = 0.5", "a.toml:3: the factor 0.5 is out of range; expected 1 or more"),
        ("factor = -inf", "a.toml:3: the factor -inf is out of range; expected 1 or more"),
        ("factor = 1e999", "a.toml:3: 1e999 is out of range"),
        ("factor = nan", "a.toml:3: the factor NaN is out of range; expected 1 or more"),
        ("factor = inf", "a.toml:3: the factor inf is out of range; expected 1 or more"),
        ("jitter = 1.1", "a.toml:3: the jitter 1.1 is out of range; expected 0 to 1"),
        ("jitter = -0.1", "a.toml:3: the jitter -0.1 is out of range; expected 0 to 1"),
        ("base = 0", "a.toml:3: `0` is no time at all; expected more than zero"),
        ("base = 5\nmax = \"1s\"", "a.toml:4: `max` is 1s, less than `base`; expected at least 5s"),
        ("base = \"2m\"", "a.toml:3: `max` is 1m, less than `base`; expected at least 2m"),
    ] {
        assert_eq!(complaint(&format!("[policy]\nbackoff = \"exponential\"\n{lines}")), message);
    }
    for head in ["", "backoff = \"fixed\"\n"] {
        for key in ["base = 1", "factor = 2.0", "max = 9", "jitter = 0.0"] {
            let message = complaint(&format!("[policy]\n{head}{key}"));
            assert!(message.contains("expected backoff = \"exponential\" with it"), "{message}");
        }
    }
}

#[test]
fn broken_toml_has_a_line_too() {
    for text in ["[run]\ncwd = ", "[run]\nx", "[run\n", "[run]\ncwd = \"a\"\ncwd = \"b\"", "run = 1", "\u{1}"]
    {
        let message = complaint(text);
        let after = message.strip_prefix("a.toml:").unwrap();
        assert!(after.starts_with(|c: char| c.is_ascii_digit()), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_refused_by_name() {
    let dir = std::env::temp_dir().join(format!("agentsup-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("bytes.toml");
    let failure = |path: &Path| {
        let failure = read(path).unwrap_err();
        assert_eq!(failure.code, 78);
        failure.message
    };
    assert!(failure(&dir.join("missing.toml")).contains("missing.toml: cannot be read: No such file"));
    assert!(failure(&dir).contains("cannot be read: Is a directory"));
    std::fs::write(&file, b"[run]\n# \xff").unwrap();
    assert!(failure(&file).ends_with("bytes.toml:2: not UTF-8 text; expected TOML"));
    std::fs::write(&file, vec![b'\n'; LARGEST as usize + 1]).unwrap();
    assert!(failure(&file).contains("larger than 1 MiB"));
    std::fs::write(&file, vec![b'\n'; LARGEST as usize]).unwrap();
    assert!(read(&file).is_ok());
    std::fs::remove_dir_all(&dir).unwrap();
}
