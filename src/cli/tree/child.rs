//! One `[[child]]`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::carve::{Carved, SECTIONS};
use super::file::{self, Origin, Plan};
use super::preset::Preset;
use super::source::{Source, Table, Value, wrong};
use crate::cli::args::{self, Run};
use crate::cli::asked::Asked;
use crate::cli::config::Config;
use crate::cli::settings::{DEFAULT_GRACE, Origins, settle};
use crate::cli::world::Stdin;
use crate::cli::{Failure, config};
use crate::policy::crash::OnHalt;
use crate::policy::tree::{Keep, Spec};
use crate::supervisor::settings::ChildConfig;

/// What a child has beside the settings of `run`.
const OWN: [&str; 8] = ["id", "restart", "shutdown", "preset", "needs", "command", "file", "output"];
/// Settings of `run` that are the node's to give.
const GIVEN: [&str; 5] = ["session", "dir", "ready_fd", "on_halt", "config"];
/// And those that no flag has.
const WITHOUT_FLAG: [&str; 3] = ["allowed_dirs", "continue_args", "before_spawn"];
/// From the end of a child's own grace to its KILL.
const BEYOND_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Child {
    pub spec: Spec,
    pub preset: Option<Preset>,
    pub kind: Kind,
    /// Where its stdout goes.
    pub output: Option<PathBuf>,
    /// In the file.
    pub at: usize,
    pub needs_at: usize,
}

#[derive(Debug)]
pub enum Kind {
    Agent { command: Vec<String>, config: ChildConfig, agent: Option<String>, says_start: bool },
    Node(Box<Plan>),
}

pub fn read<'a>(source: Source<'a>, value: &Value<'a>, origin: &Origin) -> Result<Child, Failure> {
    let mut table = Table::of(source, value, "a table [[child]]")?;
    let at = table.at;
    let id = table.text("id")?.ok_or_else(|| source.refuse(at, "the child has no `id`; expected one"))?;
    check_id(&id).map_err(|why| source.refuse(table.place("id"), why))?;
    let preset: Option<Preset> = table.choice("preset")?;
    let keep: Option<Keep> = table.choice("restart")?;
    let shutdown = table.duration("shutdown")?;
    let needs = table.names("needs")?;
    let command = table.command("command")?;
    let nested = table.text("file")?;
    let output = table.text("output")?.map(PathBuf::from);
    let (kind, grace, leftovers) = match (command, nested) {
        (Some(command), None) => agent(source, &mut table, value, command, preset)?,
        (None, Some(nested)) => node(source, &mut table, &nested, &id, origin)?,
        (Some(_), Some(_)) => {
            let at = table.place("file");
            return Err(source.refuse(at, "`command` and `file` are both given; expected one of them"));
        }
        (None, None) => {
            return Err(source
                .refuse(at, format!("child `{id}` has neither; expected `command`, or `file` for a node")));
        }
    };
    let keep = keep.or(preset.map(Preset::keep)).unwrap_or(Keep::Permanent);
    let shutdown = shutdown.unwrap_or(grace.saturating_add(BEYOND_GRACE));
    let needs_at = table.place("needs");
    // Of a node, what all below it left is told at once, and so has the longest time of one, not the sum.
    let leftovers = leftovers.unwrap_or(shutdown);
    let spec = Spec { id, keep, shutdown, leftovers, needs };
    Ok(Child { spec, preset, kind, output, at, needs_at })
}

fn agent<'a>(
    source: Source<'a>,
    table: &mut Table<'_, 'a>,
    value: &Value<'a>,
    command: Vec<String>,
    preset: Option<Preset>,
) -> Result<(Kind, Duration, Option<Duration>), Failure> {
    if let Some((key, span, _)) = table.entries().iter().find(|(key, ..)| GIVEN.contains(key)) {
        return Err(source.refuse(span.start, format!("`{key}` is given by the node; expected none here")));
    }
    table.done(settings())?;
    if let Some((key, _, section)) = table.entries().iter().find(|(key, _, value)| is_no_table(key, value)) {
        let what = format!("a table [child.{key}]");
        return Err(
            source.refuse(section.span().start, format!("`{key}`: {}", wrong(section.get_ref(), &what)))
        );
    }
    let DeValue::Table(keys) = value.get_ref() else { return Err(source.refuse(table.at, "no table")) };
    let more = preset.map_or(vec![], |preset| preset.policy(backoff(keys)));
    let cut = Carved::new(source).carve(keys, table.at, |key| OWN.contains(&key), &more);
    let checked = config::parse_cut(source.path, &cut.text, |line| cut.line(line))?;
    exists(source, table, "document", checked.run.document.as_deref())?;
    let prompt = checked.run.prompt.as_ref().and_then(|prompt| prompt.to_str()?.strip_prefix('@'));
    exists(source, table, "prompt", prompt.filter(|file| !file.starts_with('@')).map(Path::new))?;
    let grace = checked.run.grace.unwrap_or(DEFAULT_GRACE);
    let (agent, says_start) = (checked.run.agent.clone(), checked.run.start.is_some());
    let config = ChildConfig { text: cut.text, env_at: cut.env_at, env: checked.run.env.clone() };
    check_together(source, table, &command, checked)?;
    Ok((Kind::Agent { command, config, agent, says_start }, grace, None))
}

/// As its supervisor will: settings that are fine one by one and cannot all be meant. What is on disk may
/// change until then, and is not looked at.
fn check_together(source: Source, table: &Table, command: &[String], config: Config) -> Result<(), Failure> {
    let given = Asked { on_halt: Some(OnHalt::Exit), ..Asked::default() };
    let command = command.iter().map(OsString::from).collect();
    let settled = settle(command, given, Some(config), Stdin::Null, Origins::OfFiles);
    settled.map(|_| ()).map_err(|failure| {
        let words = failure.message.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        // The complaint begins with what it is about; a child's `restart` is not that of its agent.
        let keys = words.filter(|word| !OWN.contains(word));
        let at = keys.map(|key| table.place(key)).find(|at| *at != table.at).unwrap_or(table.at);
        source.refuse(at, failure.message.trim_start_matches("--"))
    })
}

/// What the child's own `[child.policy]` says.
fn backoff<'t>(keys: &'t DeTable) -> Option<&'t str> {
    let DeValue::Table(policy) = keys.get("policy")?.get_ref() else { return None };
    policy.get("backoff")?.get_ref().as_str()
}

/// `watch` is a flag, too.
fn is_no_table(key: &str, value: &Value) -> bool {
    SECTIONS.contains(&key)
        && !matches!(
            (key, value.get_ref()),
            (_, DeValue::Table(_)) | ("rule", DeValue::Array(_)) | ("watch", DeValue::Boolean(_))
        )
}

/// Every key that `run` and its config file know, but those that are the node's.
fn settings() -> &'static [&'static str] {
    static KEYS: OnceLock<Vec<&'static str>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let flags = args::options::<Run>();
        let flags = flags.iter().map(|flag| flag.long.trim_start_matches('-').replace('-', "_"));
        // Kept for as long as the process lives: a handful of words.
        let keys = flags.map(|key| &*key.leak()).filter(|key| !GIVEN.contains(key));
        keys.chain(WITHOUT_FLAG).chain(SECTIONS).collect()
    })
}

fn exists(source: Source, table: &Table, key: &str, path: Option<&Path>) -> Result<(), Failure> {
    match path.filter(|path| !path.is_file()) {
        None => Ok(()),
        Some(path) => {
            let why = format!("`{key}`: there is no file `{}`; expected one that exists", path.display());
            Err(source.refuse(table.place(key), why))
        }
    }
}

fn node<'a>(
    source: Source<'a>,
    table: &mut Table<'_, 'a>,
    nested: &str,
    id: &str,
    origin: &Origin,
) -> Result<(Kind, Duration, Option<Duration>), Failure> {
    let also = ["preset", "output"];
    if let Some((key, span, _)) = table.entries().iter().find(|(key, ..)| also.contains(key)) {
        return Err(source
            .refuse(span.start, format!("`{key}` has no meaning for a node; expected `command` with it")));
    }
    table.done(&[])?;
    let at = table.place("file");
    let path = source.path.parent().unwrap_or(Path::new("")).join(nested);
    if !path.is_file() {
        let why = format!("`file`: there is no file `{}`; expected that of a node", path.display());
        return Err(source.refuse(at, why));
    }
    let below = origin.below(id, &path).map_err(|why| source.refuse(at, why))?;
    let plan = file::load(&path, &below)?;
    let (grace, leftovers) = (plan.grace(), plan.leftovers());
    Ok((Kind::Node(Box::new(plan)), grace, Some(leftovers)))
}

/// Without a dot: the session of a child is its node's with its id behind a dot.
pub fn check_id(id: &str) -> Result<(), String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    match id.len() {
        1..=32 if id.bytes().all(fine) => Ok(()),
        _ => Err(format!("`{id}` is no id of a child; expected 1 to 32 of A-Z a-z 0-9 _ -")),
    }
}
