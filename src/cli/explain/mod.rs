//! `agentsup explain`: what `run` would do with the same words, and where every value comes from.
//! Asks the same functions as `run` does, up to the first one that would change something.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::args::{self, Explain, Run};
use super::ground::{ground, refused};
use super::settings::{Origin, Origins};
use super::words::{self, Cut};
use super::world::World;
use super::{Failure, print, show_help};
use crate::os::lock;
use crate::session::program::{self, NotRunnable};
use crate::session::{Conversation, EnvVar, Environment, SpawnPlan, Start, profile, state_dir};
use crate::supervisor;
use crate::supervisor::settings::Settings;

mod mask;
pub(super) mod text;

use mask::Mask;

/// Stands for the conversation's id, which is new at every fresh start.
const CONVERSATION: &str = "CONVERSATION-ID";

/// Text is lossy where bytes are not UTF-8; secrets are masked.
#[derive(Debug, Serialize)]
struct Report {
    /// The first start uses `settings.start`'s line, restarts the other one.
    fresh: Vec<String>,
    #[serde(rename = "continue")]
    again: Vec<String>,
    /// The settings among both by which the agent tells of itself; they are long.
    hooks: Option<String>,
    /// Why there are none, although they were wanted.
    hooks_off: Option<String>,
    /// Why a continue starts afresh all the same, in `session`'s words.
    continue_is_fresh: Option<&'static str>,
    /// What would be executed; without it `error` says why not.
    program: Option<String>,
    profile: Sourced,
    cwd: Sourced,
    session: Sourced,
    document: Option<Sourced>,
    config: Option<Sourced>,
    state_dir: Sourced,
    /// None: no callers are answered.
    socket: Option<String>,
    log: String,
    settings: Vec<Setting>,
    env: Vec<Setting>,
    env_fingerprint: String,
    dropped: Vec<String>,
    /// Why `run` would not start it.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Sourced {
    value: String,
    source: String,
}

#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    value: String,
    source: String,
}

#[inline(never)]
pub fn explain(argv: &[OsString]) -> Result<u8, Failure> {
    let own = args::options::<Explain>();
    let all: Vec<_> = own.iter().copied().chain(args::options::<Run>()).collect();
    let cut = words::cut("explain", &all, argv)?;
    if cut.help {
        return show_help(Some("explain"));
    }
    // Two declarations share one command line: explain's own options, and those of run.
    let is_own = |name: &str| own.iter().any(|flag| flag.long == name);
    let (own, run) = cut.options.into_iter().partition(|(name, _)| is_own(name));
    let explain: Explain = words::through_argh("explain", &Cut { options: own, ..Cut::default() })?;
    let run = Cut { options: run, command: cut.command, help: false };

    let (report, failure) = report(&run, World::look()?)?;
    let text = match explain.json {
        true => serde_json::to_string_pretty(&report).expect("strings and lists always become JSON") + "\n",
        false => text::render(&report),
    };
    print(&text)?;
    failure.map_or(Ok(0), Err)
}

/// The report, and with it the reason why the command cannot be run. A refusal before that leaves
/// nothing to report.
fn report(run: &Cut, world: World) -> Result<(Report, Option<Failure>), Failure> {
    let ground = ground("explain", run, &world, Origins::OfAll)?;
    let state_dir = state_dir::choose(&ground.dirs).map_err(refused)?;
    let origins = ground.choices.origins.clone();
    let settings = ground.settings(state_dir, world);
    let wish = &settings.wish;

    let plan =
        crate::session::plan(wish, Start::Fresh, &Conversation::default(), CONVERSATION).map_err(refused)?;
    let again = continue_line(&settings, &plan)?;
    let program = program::find(&wish.command[0], plan.env.get("PATH"), &plan.cwd.value);
    let failure = program.as_ref().err().map(not_runnable).or_else(|| taken(&settings));

    let mask = Mask::new(&plan.env);
    let path = |path: &Path| mask.text(&path.to_string_lossy());
    let line = |words: &[OsString]| words.iter().map(|word| mask.text(&word.to_string_lossy())).collect();
    let sourced = |value: String, source: &str, name: &str| Sourced {
        value,
        source: with_file(source, name, &origins),
    };
    let by_config_flag = run.options.iter().any(|(name, _)| *name == "--config");
    let report = Report {
        fresh: line(&plan.argv),
        again: line(&again.argv),
        hooks: hooks_word(&plan).map(|word| mask.text(&word)),
        hooks_off: plan.hooks.warning.as_deref().map(|why| mask.text(why)),
        continue_is_fresh: again.why_fresh,
        program: program.ok().map(|program| path(&program)),
        profile: sourced(
            plan.profile.name().to_string(),
            if wish.agent.is_some() { "--agent" } else { "by the name of COMMAND" },
            "agent",
        ),
        cwd: sourced(path(&plan.cwd.value), plan.cwd.source, "cwd"),
        session: sourced(wish.session.id.clone(), wish.session.source, "session"),
        document: plan.document.as_deref().map(|document| sourced(path(document), "--document", "document")),
        config: settings.config.as_deref().map(|config| Sourced {
            value: path(config),
            source: if by_config_flag { "--config" } else { "$AGENTSUP_CONFIG" }.to_string(),
        }),
        socket: settings.socket.map(|_| path(&wish.socket)),
        log: path(&settings.state_dir.log(&wish.session.id)),
        state_dir: sourced(path(&settings.state_dir.path), settings.state_dir.source, "dir"),
        settings: origins
            .iter()
            .filter(|origin| !is_shown_resolved(origin))
            .map(|o| setting(o, &mask))
            .collect(),
        env: variables(&plan.env, &origins, &mask),
        env_fingerprint: plan.env.fingerprint(),
        dropped: plan.env.dropped.clone(),
        error: failure.as_ref().map(|failure| failure.message.clone()),
    };
    Ok((report, failure))
}

/// Another supervisor has the session.
fn taken(settings: &Settings) -> Option<Failure> {
    let id = &settings.wish.session.id;
    let lock = settings.state_dir.lock(id);
    if !lock::is_held(&lock).is_ok_and(|held| held) {
        return None;
    }
    let holder = fs::read_to_string(&lock).unwrap_or_default();
    Some(supervisor::already_supervised(id, holder.trim()).into())
}

/// As it will be once there is a conversation to continue; `plan` would look for its transcript
/// and, finding none, start afresh.
fn continue_line(settings: &Settings, plan: &SpawnPlan) -> Result<profile::Line, Failure> {
    let wish = &settings.wish;
    let ask = profile::Ask {
        command: &plan.hooks.command,
        prompt: wish.prompt.as_deref(),
        continue_args: &wish.continue_args,
        start: Start::Continue,
        conversation: &plan.conversation,
        new_id: CONVERSATION,
        has_transcript: &|_| true,
    };
    plan.profile.command_line(&ask).map_err(refused)
}

/// The word that `with_hooks` added or changed. In a file it is short, and left as it is.
fn hooks_word(plan: &SpawnPlan) -> Option<String> {
    let is_ours = |word: &&OsString| word.to_string_lossy().contains("\"hooks\":");
    let word = plan.hooks.command.iter().find(is_ours).filter(|_| plan.hooks.is_on)?;
    Some(word.to_string_lossy().into_owned())
}

fn not_runnable(why: &NotRunnable) -> Failure {
    let code = match why {
        NotRunnable::NotFound(_) => 127,
        NotRunnable::NotExecutable(_) => 126,
    };
    Failure { code, message: why.to_string() }
}

/// These are reported as what became of them, with the source that `session` names.
fn is_shown_resolved(origin: &Origin) -> bool {
    let name = origin.name.as_str();
    matches!(name, "document" | "session" | "cwd" | "dir" | "agent") || name.starts_with("env ")
}

/// `session` and the flags' names know nothing of config files; a value that came from one says so.
fn with_file(source: &str, name: &str, origins: &[Origin]) -> String {
    let origin = origins.iter().find(|origin| origin.name == name);
    match origin.filter(|origin| origin.source.starts_with("config ")) {
        // The source tags of the cwd are a contract, so the tag stays.
        Some(origin) if source == "cli_flag" => format!("{source}, {}", origin.source),
        Some(origin) => origin.source.clone(),
        None => source.to_string(),
    }
}

fn setting(origin: &Origin, mask: &Mask) -> Setting {
    // The names of settings are ours: `screen.detach_key` is no secret.
    let is_given = ["env ", "label "].iter().any(|kind| origin.name.starts_with(kind));
    let value = match is_given {
        true => mask.value(&origin.name, &origin.value),
        false => mask.text(&origin.value),
    };
    Setting { name: origin.name.clone(), value, source: origin.source.clone() }
}

fn variables(env: &Environment, origins: &[Origin], mask: &Mask) -> Vec<Setting> {
    let variable = |var: &EnvVar| {
        let name = var.name.to_string_lossy().into_owned();
        let source = match var.source {
            "--env" => with_file("--env", &format!("env {name}"), origins),
            other => other.to_string(),
        };
        Setting { value: mask.value(&name, &var.value.to_string_lossy()), name, source }
    };
    env.vars.iter().map(variable).collect()
}

#[cfg(test)]
mod tests;
