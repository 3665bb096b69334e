//! What a file of a node may say, and what is said about one that does not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::child::Kind;
use super::file::{Origin, Plan, load, parse};
use super::show;
use crate::cli::config;
use crate::policy::Now;
use crate::policy::crash::{Backoff, End, History, Numbers, Verdict};
use crate::policy::tree::{Keep, Strategy};

fn read(text: &str) -> Result<Plan, String> {
    parse(Path::new("team.toml"), text, &Origin::root(None)).map_err(|failure| {
        assert_eq!(failure.code, 78);
        failure.message
    })
}

const TEAM: &str = r#"
[node]
session = "team"
strategy = "rest_for_one"
max_restarts = 5
max_seconds = "10m"
label = ["project=x"]

[halt]
notify = ["page-me"]

[[child]]
id = "worker"
command = ["codex", ""]
needs = "lead"
shutdown = "20s"
env = ["A=b",
       "C=d"]

[child.policy]
window = "9s"

[[child.rule]]
name = "budget"
when = { max_runtime = "1h" }
then = "log"

[[child]]
id = "lead"
preset = "eternal"
command = ["claude"]
grace = "5s"
"#;

#[test]
fn a_file_is_read_in_the_order_of_needs() {
    let plan = read(TEAM).unwrap();
    assert_eq!((plan.session.as_str(), plan.rules.strategy), ("team", Strategy::RestForOne));
    assert_eq!((plan.rules.max_restarts, plan.rules.max_seconds), (5, Duration::from_secs(600)));
    assert_eq!(plan.config.halt_notify, ["page-me"]);
    assert_eq!(plan.config.run.label, [("project".into(), "x".into())]);
    let [lead, worker] = &plan.children[..] else { panic!("two children") };
    assert_eq!((lead.spec.id.as_str(), lead.spec.keep), ("lead", Keep::Permanent));
    assert_eq!(lead.spec.shutdown, Duration::from_secs(7), "its grace and two seconds");
    assert_eq!(
        (worker.spec.needs.as_slice(), worker.spec.shutdown),
        (&["lead".to_owned()][..], Duration::from_secs(20))
    );
    let Kind::Agent { command, config, .. } = &worker.kind else { panic!("an agent") };
    assert_eq!(command, &["codex", ""]);
    let config = config::parse(Path::new("x"), &config.text).unwrap();
    assert_eq!(config.run.env.len(), 2);
    assert_eq!((config.policy.numbers().window, config.rules.len()), (Duration::from_secs(9), 1));
}

#[test]
fn defaults_are_those_of_the_design() {
    let plan = read("[[child]]\nid = \"a\"\ncommand = [\"x\"]\n").unwrap();
    assert_eq!(plan.session, "team", "the file's name");
    assert_eq!((plan.rules.max_restarts, plan.rules.max_seconds), (3, Duration::from_secs(300)));
    assert_eq!(plan.rules.strategy, Strategy::OneForOne);
    let spec = &plan.children[0].spec;
    assert_eq!((spec.keep, spec.shutdown), (Keep::Permanent, Duration::from_secs(10)));
}

/// Where there is no header of the file's own, what is read instead has one, and so more lines.
#[test]
fn a_complaint_names_the_line_of_the_file_whatever_its_shape() {
    for (lines, complaint) in [
        ("policy = { halt_after = \"x\" }", "team.toml:4: invalid type: string"),
        ("policy.halt_after = \"x\"", "team.toml:4: invalid type: string"),
        ("halt_after = 1\npolicy.base = \"x\"", "team.toml:4: unknown key `halt_after`"),
        ("policy.max = \"x\"\nprompt = \"\"\"\na\n\"\"\"\ngrace = \"1s\"", "team.toml:4: `x` is no"),
        ("prompt = \"\"\"\na\n\"\"\"\ngrace = \"x\"\npolicy.max = 1", "team.toml:7: `x` is no"),
        ("rule = [\n{ nam = 1 }]", "team.toml:5: unknown key `nam`"),
        ("id = \"b\"", "team.toml:4: duplicate key `id`; expected it once"),
    ] {
        let said = read(&format!("[[child]]\nid = \"a\"\ncommand = [\"x\"]\n{lines}\n")).unwrap_err();
        assert!(said.contains(complaint), "{lines}: {said}");
    }
    let said = read("halt.notify = 3\n[[child]]\nid = \"a\"\ncommand = [\"x\"]\n").unwrap_err();
    assert!(said.starts_with("team.toml:1: invalid type"), "{said}");
}

fn policy_of(lines: &str) -> (Keep, Numbers) {
    let plan = read(&format!("[[child]]\nid = \"a\"\ncommand = [\"x\"]\n{lines}")).unwrap();
    let Kind::Agent { config, .. } = &plan.children[0].kind else { panic!("an agent") };
    let numbers = config::parse(Path::new("x"), &config.text).unwrap().policy.numbers();
    (plan.children[0].spec.keep, numbers)
}

/// The waits before each restart of an agent that fails at once, until its supervisor halts.
fn waits(numbers: Numbers) -> Vec<u64> {
    let mut history = History::new(numbers, 1);
    let mut now = Now { at: std::time::Instant::now(), epoch: 0 };
    let end = End { code: 1, signal: None, oom: false, asked: false, spoke: false, limit: None };
    let mut waits = vec![];
    while let (_, Verdict::Wait(wait)) = history.judge(end, Duration::ZERO, now) {
        waits.push(wait.as_secs());
        now.at += wait;
    }
    waits
}

#[test]
fn presets_and_their_numbers() {
    let (keep, numbers) = policy_of("preset = \"eternal\"\n");
    assert_eq!(keep, Keep::Permanent);
    assert_eq!(
        waits(numbers),
        [5, 10, 20, 40, 80, 160, 300, 300, 300, 300],
        "10 in an hour, doubling to 300 s"
    );
    let (keep, numbers) = policy_of("preset = \"mortal\"\n");
    assert_eq!(keep, Keep::Transient);
    assert_eq!(waits(numbers), [2, 4, 8], "3 in 300 s");
    let (keep, numbers) = policy_of("preset = \"drone\"\n");
    assert_eq!((keep, numbers.window), (Keep::Temporary, Duration::from_secs(60)));
    assert_eq!(waits(numbers).len(), 1, "1 in 60 s");
    for (preset, within) in [("eternal", 3600), ("mortal", 300), ("drone", 60)] {
        let (_, numbers) = policy_of(&format!("preset = {preset:?}\n"));
        assert_eq!(numbers.halt_within, Some(Duration::from_secs(within)), "{preset}");
    }
    // Mortal's 60 s are reached by whoever may try more often.
    let (_, numbers) = policy_of("preset = \"mortal\"\n[child.policy]\nhalt_after = 9\n");
    assert_eq!(waits(numbers), [2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn a_preset_gives_what_a_key_of_the_file_needs_and_nothing_that_one_forbids() {
    let (_, numbers) = policy_of("preset = \"eternal\"\n[child.policy]\nmax = \"40s\"\n");
    assert_eq!(waits(numbers), [5, 10, 20, 40, 40, 40, 40, 40, 40, 40]);
    let (_, numbers) = policy_of("preset = \"eternal\"\n[child.policy]\nbackoff = \"fixed\"\n");
    assert_eq!((numbers.backoff.clone(), waits(numbers).len()), (Backoff::Fixed, 10));
}

#[test]
fn what_the_file_says_wins_over_its_preset() {
    let (keep, numbers) =
        policy_of("preset = \"drone\"\nrestart = \"permanent\"\n[child.policy]\nhalt_after = 7\n");
    assert_eq!((keep, numbers.halt_after, numbers.window), (Keep::Permanent, 7, Duration::from_secs(60)));
}

#[test]
fn complaints_name_file_line_and_what_was_expected() {
    let child = "[[child]]\nid = \"a\"\ncommand = [\"x\"]\n";
    let of = |text: &str| read(text).unwrap_err();
    for (text, expected) in [
        ("", "team.toml:1: there is no [[child]]; expected one or more"),
        ("x = [", "team.toml:1: unclosed array"),
        (
            &format!("[node]\nx = {}\n", "[".repeat(300)),
            "team.toml:2: nested too deeply; expected tables and lists that a person can follow",
        ),
        (
            &format!("a.b = 1\n[node]\nx{} = 1\n", ".a".repeat(300)),
            "team.toml:3: nested too deeply; expected tables and lists that a person can follow",
        ),
        ("[nod]\n", "team.toml:1: unknown key `nod`; expected `node`?"),
        ("[node]\nstratgy = 1\n", "team.toml:2: unknown key `stratgy`; expected `strategy`?"),
        (
            "[node]\n\nstrategy = \"all\"\n",
            "team.toml:3: `strategy`: `all` is not a choice; expected one_for_one, one_for_all, rest_for_one or pool",
        ),
        (
            "[node]\nmax_restarts = \"3\"\n",
            "team.toml:2: `max_restarts`: invalid type: string; expected a whole number",
        ),
        (
            "[node]\nmax_restarts = -1\n",
            "team.toml:2: `max_restarts`: -1 is out of range; expected 0 to 1000000",
        ),
        (
            "[node]\nmax_seconds = \"soon\"\n",
            "team.toml:2: `max_seconds`: `soon` is not a duration; expected something like 8, 8s, 500ms, 5m or 2h",
        ),
        (
            "[node]\nsession = \"a b\"\n",
            "team.toml:2: `session`: session id may hold only A-Z a-z 0-9 . _ -: \"a b\"",
        ),
        ("[node]\nsize = 3\n", "team.toml:2: `size` is for a pool; expected strategy = \"pool\" with it"),
        ("[halt]\nnotfy = []\n", "team.toml:2: unknown key `notfy`; expected `notify`?"),
        ("child = 3\n", "team.toml:1: invalid type: integer; expected tables [[child]]"),
        ("[[child]]\ncommand = [\"x\"]\n", "team.toml:1: the child has no `id`; expected one"),
        (
            "[[child]]\nid = \"a.b\"\n",
            "team.toml:2: `a.b` is no id of a child; expected 1 to 32 of A-Z a-z 0-9 _ -",
        ),
        (
            "[[child]]\nid = \"a\"\n",
            "team.toml:1: child `a` has neither; expected `command`, or `file` for a node",
        ),
        (
            "[[child]]\nid = \"a\"\ncommand = \"claude\"\n",
            "team.toml:3: `command`: invalid type: string; expected a list of words: the program and its arguments",
        ),
        (
            "[[child]]\nid = \"a\"\ncommand = []\n",
            "team.toml:3: `command`: it is empty; expected a list of words: the program and its arguments",
        ),
        (
            "[[child]]\nid = \"a\"\ncommand = [\"x\"]\nfile = \"y\"\n",
            "team.toml:4: `command` and `file` are both given; expected one of them",
        ),
        (
            "[[child]]\nid = \"a\"\nfile = \"nowhere.toml\"\n",
            "team.toml:3: `file`: there is no file `nowhere.toml`; expected that of a node",
        ),
        (
            &format!("{child}restart = \"always\"\n"),
            "team.toml:4: `restart`: `always` is not a choice; expected permanent, transient or temporary",
        ),
        (
            &format!("{child}preset = \"immortal\"\n"),
            "team.toml:4: `preset`: `immortal` is not a choice; expected eternal, mortal or drone",
        ),
        (&format!("{child}shutdwon = 3\n"), "team.toml:4: unknown key `shutdwon`; expected `shutdown`?"),
        (
            &format!("{child}session = \"x\"\n"),
            "team.toml:4: `session` is given by the node; expected none here",
        ),
        // What is `run`'s is read, and complained about, as in any config file.
        (
            &format!("{child}\n\nio = \"tty\"\n"),
            "team.toml:6: `tty` is not a choice; expected pty or inherit",
        ),
        (&format!("{child}env = [\"A\n"), "team.toml:4: "),
        (
            &format!("{child}\n[child.policy]\n# why\nwindw = \"3s\"\n"),
            "team.toml:7: unknown key `windw`; expected `window`?",
        ),
        (
            &format!("{child}\n{child}"),
            "team.toml:5: the id `a` is given twice, first in line 1; expected another",
        ),
        (
            &format!("{child}document = \"nowhere.md\"\n"),
            "team.toml:4: `document`: there is no file `nowhere.md`; expected one that exists",
        ),
        (
            &format!("{child}prompt = \"@nowhere.txt\"\n"),
            "team.toml:4: `prompt`: there is no file `nowhere.txt`; expected one that exists",
        ),
        (
            &format!("{child}needs = \"b\"\n"),
            "team.toml:4: `needs`: there is no child `b`; expected one of this file",
        ),
        (
            &format!("{child}needs = 3\n"),
            "team.toml:4: `needs`: invalid type: integer; expected the id of a child, or a list of them",
        ),
        (
            &format!("[node]\nstrategy = \"pool\"\n{child}{}", child.replace("\"a\"", "\"b\"")),
            "team.toml:6: a pool has one [[child]], the template of all; expected no second one",
        ),
        (&format!("[node]\nsession = \"{}\"\n{child}", "s".repeat(63)), "team.toml:3: the session `"),
    ] {
        let message = of(text);
        assert!(message.starts_with(expected), "{text}\n  says     {message}\n  expected {expected}");
    }
}

/// Each would end its child with 78 at the start, and nothing on the machine could change that.
#[test]
fn settings_of_a_child_that_contradict_one_another_are_refused_in_their_line() {
    for (lines, expected) in [
        ("agent = \"gpt\"", "5: agent: unknown agent \"gpt\": use claude, codex or other"),
        ("on_clean = \"prompt\"", "5: on_clean prompt ("),
        ("watch = true\nio = \"inherit\"", "5: watch ("),
        ("grace = \"1s\"\nrecord_input = true", "6: record_input ("),
        ("restart = \"transient\"\nio = \"inherit\"\nrecord = \"x\"", "7: record ("),
        (
            "grace = \"1s\"\n[[child.rule]]\nname = \"b\"\nwhen = { screen_contains = \"b\" }\nthen = \"log\"\n[child.screen]\nenabled = false",
            "6: rule b (",
        ),
    ] {
        let said = read(&format!("\n[[child]]\nid = \"a\"\ncommand = [\"x\"]\n{lines}\n")).unwrap_err();
        assert!(said.starts_with(&format!("team.toml:{expected}")), "{lines}: {said}");
    }
    let said = read(
        "[[child]]\nid = \"a\"\ncommand = [\"claude\", \"-p\"]\nrestart = \"permanent\"\non_clean = \"restart\"\n",
    );
    let said = said.unwrap_err();
    assert!(said.starts_with("team.toml:5: "), "the agent's restart is not the child's: {said}");
    read("[[child]]\nid = \"a\"\ncommand = [\"x\"]\nio = \"inherit\"\non_clean = \"restart\"\n").unwrap();
}

#[test]
fn a_file_name_that_is_no_session_is_blamed_on_the_file_name() {
    let text = "[[child]]\nid = \"a\"\ncommand = [\"x\"]\n";
    let said = parse(Path::new("d/my team.toml"), text, &Origin::root(None)).unwrap_err().message;
    assert_eq!(
        said,
        "tree file d/my team.toml: its name gives the session, and session id may hold only A-Z a-z 0-9 . _ -: \"my team\"; \
         give another with --session, or as `session` in [node]"
    );
}

#[test]
fn a_circle_of_needs_is_named() {
    let child =
        |id: &str, needs: &str| format!("[[child]]\nid = \"{id}\"\ncommand = [\"x\"]\nneeds = [{needs}]\n");
    let text = [child("w", "\"a\""), child("a", "\"b\""), child("b", "\"c\""), child("c", "\"a\"")].concat();
    let message = read(&text).unwrap_err();
    assert_eq!(message, "team.toml:8: `needs` leads in a circle: a → b → c → a; expected an end");
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("agentsup-tree-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nodes_nest_by_file_and_complaints_name_the_right_one() {
    let dir = Dir::new("nested");
    let root = dir.write("root.toml", "[[child]]\nid = \"pool\"\nfile = \"pool.toml\"\n");
    dir.write("pool.toml", "[node]\nstrategy = \"pool\"\nsize = 2\n[[child]]\nid = \"d\"\npreset = \"drone\"\ncommand = [\"x\"]\n");
    let plan = load(&root, &Origin::root(Some("team".into()))).unwrap();
    let Kind::Node(pool) = &plan.children[0].kind else { panic!("a node") };
    assert_eq!((pool.session.as_str(), pool.size, plan.agents()), ("team.pool", 2, 2));
    assert_eq!(plan.children[0].spec.shutdown, pool.grace() + Duration::from_secs(2));
    let shown = show::text(&plan);
    assert!(
        shown.contains("team.pool (") && shown.contains("d: x (temporary, drone, shutdown 10s)"),
        "{shown}"
    );

    dir.write("pool.toml", "\n[node]\nstrategy = 3\n");
    let message = load(&root, &Origin::root(None)).unwrap_err().message;
    assert!(message.contains("pool.toml:3: `strategy`: invalid type: integer; expected text"), "{message}");
    dir.write("pool.toml", "[[child]]\nid = \"up\"\nfile = \"root.toml\"\n");
    let message = load(&root, &Origin::root(None)).unwrap_err().message;
    assert!(
        message.contains("pool.toml:3: `file`: ")
            && message.ends_with("is above itself; expected another file"),
        "{message}"
    );
    let gone = load(&dir.0.join("gone.toml"), &Origin::root(None)).unwrap_err().message;
    assert!(gone.contains("gone.toml: cannot be read: ") && gone.ends_with("expected a TOML file"), "{gone}");
}

/// `child.add` puts its variables there, whatever the template has.
#[test]
fn variables_find_their_place_in_the_config_of_a_child() {
    let more =
        [("AGAIN", "new"), ("ODD", "a \"b\" \\ c\n\u{7f}ü")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    for (keys, own) in [
        ("", 0),
        ("grace = \"3s\"\n", 0),
        ("[child.policy]\nhalt_after = 3\n", 0),
        ("env = []\n", 0),
        (
            "env = [\"KEPT=1\", # why\n  'AGAIN=old',\n]\ngrace = \"3s\"\n[[child.rule]]\nwhen = { idle_for = \"1s\" }\nthen = \"log\"\n",
            1,
        ),
        ("[child.screen]\nscrollback = 7\n", 0),
    ] {
        let plan = read(&format!("[[child]]\nid = \"a\"\ncommand = [\"x\"]\n{keys}")).unwrap();
        let Kind::Agent { config, .. } = &plan.children[0].kind else { panic!("an agent") };
        assert_eq!(config.with_env(&[]), config.text);
        let plain = config::parse(Path::new("x"), &config.text).unwrap();
        let with = config.with_env(&more);
        let parsed =
            config::parse(Path::new("x"), &with).unwrap_or_else(|e| panic!("{}:\n{with}", e.message));
        let has =
            |name: &str| parsed.run.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        assert_eq!(parsed.run.env.len(), own + 2, "{with}");
        assert_eq!((has("AGAIN"), has("ODD")), (Some("new".into()), Some((&more[1].1).into())), "{with}");
        assert_eq!((parsed.run.grace, parsed.rules.len()), (plain.run.grace, plain.rules.len()), "{with}");
        assert_eq!(parsed.policy.numbers(), plain.policy.numbers(), "{with}");
    }
}
