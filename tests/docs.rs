//! The words people read against the code they speak of: what is built is written down, and what is
//! written down is built.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use agentsup::cli::config;
use agentsup::log::Name;
use agentsup::policy::crash::Numbers;
use agentsup::policy::trigger;
use agentsup::policy::watch;

const DOCUMENTS: [&str; 7] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/behaviour.md",
    "docs/nix.md",
    "docs/trees.md",
    "container/README.md",
];

/// The verbs that supervise, or tell how; the others ask.
const SUPERVISE: [&str; 4] = ["run", "init", "explain", "tree"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn help(verb: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_agentsup")).args(["help", verb]).output().unwrap();
    assert!(output.status.success(), "agentsup help {verb}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The long options that a verb's help lists, `--help` left out.
fn options_in_help(verb: &str) -> BTreeSet<String> {
    let help = help(verb);
    // `  --name  …` or `  -n, --name  …`
    let listed = help.lines().filter(|line| line.starts_with("  -"));
    let names = listed.filter_map(|line| line.split_whitespace().take(2).find(|word| word.starts_with("--")));
    let options: BTreeSet<String> = names.filter(|name| *name != "--help").map(str::to_owned).collect();
    // `hook` has none: it is for agents, which are told the whole line.
    assert!(!options.is_empty() || verb == "hook", "no options in the help of {verb}:\n{help}");
    options
}

/// The part of a document from one heading to the next of the same or a higher rank.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rank = heading.bytes().take_while(|b| *b == b'#').count();
    let start = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let body = &text[start + heading.len() + 2..];
    let ends = |line: &str| (1..=rank).any(|n| line.starts_with(&format!("{} ", "#".repeat(n))));
    let mut length = 0;
    let mut in_fence = false;
    for line in body.split_inclusive('\n') {
        in_fence ^= line.starts_with("```");
        if !in_fence && ends(line) {
            break;
        }
        length += line.len();
    }
    &body[..length]
}

/// The first cells of a section's table rows, without backticks, headings and rules.
fn first_cells(section: &str) -> BTreeSet<String> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split('|').next()).map(|cell| cell.trim().replace('`', ""));
    let heads = ["option", "variable", "code", "event", "file", "verb"];
    cells.filter(|cell| !heads.contains(&cell.as_str())).collect()
}

fn assert_same(written: &BTreeSet<String>, built: &BTreeSet<String>, what: &str) {
    let missing: Vec<_> = built.difference(written).collect();
    let invented: Vec<_> = written.difference(built).collect();
    assert!(
        missing.is_empty() && invented.is_empty(),
        "{what}: not written down: {missing:?}; not built: {invented:?}"
    );
}

/// The contents of the fenced blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

#[test]
fn the_changelog_names_the_current_version() {
    let heading = format!("\n## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(read("CHANGELOG.md").contains(&heading), "CHANGELOG.md has no {heading:?}");
}

#[test]
fn the_option_tables_are_the_options_of_the_help() {
    let readme = read("README.md");
    // One table for each verb, behind the paragraph that begins with its name.
    let tables = section(&readme, "## Options");
    let tables = tables.split("\n### ").next().unwrap();
    for verb in SUPERVISE {
        let at = tables.find(&format!("\n`{verb}` ")).unwrap_or_else(|| panic!("no paragraph on `{verb}`"));
        let behind = &tables[at..];
        let table = &behind[behind.find("\n\n|").unwrap() + 2..];
        let table = table.split("\n\n").next().unwrap();
        let written =
            first_cells(table).iter().map(|cell| cell.split(' ').next().unwrap().to_owned()).collect();
        assert_same(&written, &options_in_help(verb), &format!("README.md, options of {verb}"));
    }
}

/// Every verb that the help lists and that asks, in its order.
fn verbs_that_ask() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_agentsup")).arg("help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, list) = help.split_once("\nCommands:\n").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let lines = list.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let verbs = lines.filter_map(|line| line.split_whitespace().next());
    verbs.filter(|verb| !SUPERVISE.contains(verb)).map(str::to_owned).collect()
}

#[test]
fn the_table_of_verbs_that_ask_holds_each_with_its_options() {
    let readme = read("README.md");
    let asking = section(&readme, "### Asking a supervisor");
    let (verbs, common) = asking.split_once("\nAll but ").unwrap();
    let built = verbs_that_ask();
    assert_same(&first_cells(verbs), &built.iter().cloned().collect(), "README.md, verbs that ask");
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect()
    };
    let common: BTreeSet<String> =
        first_cells(common).iter().map(|cell| cell.split(' ').next().unwrap().to_owned()).collect();
    for verb in built {
        let row = verbs.lines().find(|line| line.starts_with(&format!("| `{verb}` |"))).unwrap();
        let mut written = words(row.rsplit('|').nth(1).unwrap());
        if !["hook", "claims", "ls", "prune"].contains(&verb.as_str()) {
            written.extend(common.iter().cloned());
        }
        assert_same(&written, &options_in_help(&verb), &format!("README.md, options of {verb}"));
    }
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help: Vec<String> =
        SUPERVISE.into_iter().map(str::to_owned).chain(verbs_that_ask()).map(|v| help(&v)).collect();
    let codes = help.iter().flat_map(|text| text.split_once("Exit codes:").unwrap().1.lines().skip(1));
    let first = codes.filter_map(|line| line.split_whitespace().next());
    let mut built: BTreeSet<String> =
        first.filter(|word| word.parse::<u8>().is_ok()).map(str::to_owned).collect();
    assert!(help[0].contains("128+n"));
    assert!(built.len() >= 6, "{built:?}");
    built.extend(["128+n".to_owned(), "the agent's own".to_owned()]);
    let readme = read("README.md");
    assert_same(&first_cells(section(&readme, "### Exit codes")), &built, "README.md, exit codes");
}

#[test]
fn the_environment_variables_are_those_of_the_help() {
    let lists = ["run", "state"].map(|verb| help(verb).split_once("Environment:\n").unwrap().1.to_owned());
    let names = lists.iter().flat_map(|list| list.lines()).filter_map(|line| line.split_whitespace().next());
    let is_name =
        |word: &&str| word.contains('_') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let built: BTreeSet<String> = names.filter(is_name).map(str::to_owned).collect();
    let readme = read("README.md");
    let written = first_cells(section(&readme, "### Environment variables"));
    assert_same(&written, &built, "README.md, environment variables");
}

#[test]
fn the_table_of_events_is_the_list_of_events() {
    let built = Name::ALL.iter().map(|name| name.as_str().to_owned()).collect();
    let behaviour = read("docs/behaviour.md");
    assert_same(&first_cells(section(&behaviour, "## Events")), &built, "docs/behaviour.md, events");
}

#[test]
fn log_lines_in_the_readme_are_of_events_that_exist() {
    let readme = read("README.md");
    let excerpt = section(&readme, "## The log");
    let words = excerpt.lines().filter_map(|line| line.split_once("] [supervisor] "));
    let names: Vec<&str> = words.filter_map(|(_, event)| event.split([' ', '=']).next()).collect();
    assert!(names.len() > 5, "the excerpt is gone");
    for name in names {
        assert!(Name::ALL.iter().any(|known| known.as_str() == name), "README.md: no event {name}");
    }
}

/// Every source file but tests, from `src/` on.
fn sources(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn the_map_names_every_file_and_no_other() {
    let mut built = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut built);
    let contributing = read("CONTRIBUTING.md");
    let map = section(&contributing, "## The map");
    assert_same(&first_cells(map), &built, "CONTRIBUTING.md, the map");
}

#[test]
fn config_examples_are_accepted_and_the_full_one_holds_the_defaults() {
    let parsed = |text: &str| {
        config::parse(Path::new("example"), text).unwrap_or_else(|failure| panic!("{}", failure.message))
    };
    let readme = read("README.md");
    let behaviour = read("docs/behaviour.md");
    for example in blocks(&readme, "toml") {
        parsed(example);
    }
    let [full] = blocks(&behaviour, "toml")[..] else { panic!("one example with all keys is expected") };
    let config = parsed(full);
    assert_eq!(config.policy.numbers(), Numbers::default());
    for key in [
        "window",
        "flapping_after",
        "transient_wait",
        "flapping_wait",
        "halt_after",
        "stable_after",
        "no_retry",
        "backoff",
    ] {
        assert!(config.policy.says(key), "docs/behaviour.md, config file: no {key}");
    }
    assert_eq!(config.watch.numbers(), watch::Numbers::default());
    for (key, _, is_said) in config.watch.shown() {
        assert!(is_said, "docs/behaviour.md, config file: no {key}");
    }
    assert_eq!(config.trigger.numbers(), trigger::Numbers::default());
    for (key, _) in config.trigger.shown() {
        assert!(config.trigger.says(key), "docs/behaviour.md, config file: no {key}");
    }
    assert!(config.log_max_bytes.is_some() && config.journald.is_some());
    assert_eq!((config.screen.enabled, config.screen.scrollback), (Some(true), Some(2000)));
    // Each option of `run` but `--config` is a key of `[run]`.
    for option in options_in_help("run") {
        let key = option.trim_start_matches("--").replace('-', "_");
        assert!(key == "config" || full.contains(&key), "docs/behaviour.md, config file: no {key}");
    }
}

#[test]
fn the_options_of_a_nixos_session_are_those_of_the_module() {
    let module = read("nix/module.nix");
    let (_, session) = module.split_once("  session =\n").unwrap();
    let (session, _) = session.split_once("config.settings.run =").unwrap();
    let built = session.lines().filter_map(|line| line.trim().strip_suffix(" = mkOption {"));
    let built = built.map(str::to_owned).collect();
    let nix = read("docs/nix.md");
    assert_same(&first_cells(section(&nix, "## NixOS")), &built, "docs/nix.md, options of a session");
}

/// The defaults stand as a list in the source; nothing else can be asked for them.
#[test]
fn the_list_of_variables_is_the_one_in_the_code() {
    let source = read("src/session/env.rs");
    let (_, list) = source.split_once("const ALLOWED: &[&str] = &[").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let built = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let behaviour = read("docs/behaviour.md");
    let [written] = blocks(section(&behaviour, "## Environment"), "text")[..] else {
        panic!("one block with the list is expected")
    };
    let written = written.split_whitespace().map(str::to_owned).collect();
    assert_same(&written, &built, "docs/behaviour.md, environment");
}

/// Options of other programs that the documents speak of.
const FOREIGN: [&str; 20] = [
    "--all-targets",
    "--check",
    "--example",
    "--path",
    "--release",
    "--target", // so far cargo
    "--build",
    "--build-arg",
    "--from",
    "--init",
    "--rm",
    "--time",  // so far docker
    "--last",  // codex
    "--model", // claude
    "--dangerously-skip-permissions",
    "--resume",
    "--session-id",
    "--settings",
    "--opt",          // `--opt=value`
    "--fork-session", // claude
];

#[test]
fn no_document_speaks_of_an_option_that_does_not_exist() {
    let mut known: BTreeSet<String> = SUPERVISE.iter().flat_map(|v| options_in_help(v)).collect();
    known.extend(verbs_that_ask().iter().flat_map(|verb| options_in_help(verb)));
    known.extend(FOREIGN.map(str::to_owned));
    for document in DOCUMENTS {
        for (n, line) in read(document).lines().enumerate() {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            for word in words.filter(|w| w.len() > 2 && w.starts_with("--") && !w.starts_with("---")) {
                assert!(known.contains(word), "{document}:{}: {word} is no option", n + 1);
            }
        }
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>()
            .replace(' ', "-")
    };
    for document in DOCUMENTS {
        let text = read(document);
        let folder = Path::new(document).parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { document.to_owned() } else { folder.join(file).display().to_string() };
            let target = read(&target);
            let found = target.lines().filter(|l| l.starts_with('#')).any(|l| anchor(l) == heading);
            assert!(heading.is_empty() || found, "{document}: ({link}) leads to no heading");
        }
    }
}

#[test]
fn help_fits_into_eighty_columns() {
    for verb in SUPERVISE {
        for line in help(verb).lines() {
            assert!(line.chars().count() <= 80, "help {verb}: {line}");
        }
    }
}

/// The example is one to run, and the document shows it as it is.
#[test]
fn the_tree_in_the_document_is_the_one_in_the_examples() {
    let team = read("examples/team/team.toml");
    let document = read("docs/trees.md");
    let [written] = blocks(&document, "toml")[..] else { panic!("one tree is expected") };
    assert_eq!(written.trim_end(), team.trim_end());
}
