//! `agentsup explain`: what `run` would do with the same words, and where every value comes from.
//! Asks the same functions as `run` does, up to the first one that would change something.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::Serialize;

use super::args::{self, Explain, Run};
use super::ground::{ground, refused};
use super::settings::Origin;
use super::words::{self, Cut};
use super::world::World;
use super::{Failure, print, show_help};
use crate::session::program::{self, NotRunnable};
use crate::session::{Conversation, Environment, SpawnPlan, Start, profile, state_dir};
use crate::supervisor::settings::Settings;

mod mask;
mod text;

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
    /// What would be executed; without it `error` says why not.
    program: Option<String>,
    profile: &'static str,
    cwd: Sourced,
    session: Sourced,
    document: Option<String>,
    config: Option<String>,
    state_dir: Sourced,
    socket: String,
    log: String,
    settings: Vec<Setting>,
    env: Vec<Variable>,
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

#[derive(Debug, Serialize)]
struct Variable {
    name: String,
    value: String,
    source: String,
}

pub fn explain(argv: &[OsString]) -> Result<u8, Failure> {
    let own = args::options::<Explain>();
    let all: Vec<_> = own.iter().copied().chain(args::options::<Run>()).collect();
    let cut = words::cut(&all, argv)?;
    if cut.help {
        return show_help(Some("explain"));
    }
    // Two declarations share one command line: explain's own options, and those of run.
    let is_own = |name: &str| own.iter().any(|flag| flag.long == name);
    let (own, run) = cut.options.into_iter().partition(|(name, _)| is_own(name));
    let explain: Explain = words::through_argh("explain", &Cut { options: own, ..Cut::default() })?;
    let run = Cut { options: run, command: cut.command, help: false };

    let (report, failure) = report(&run, &World::look()?)?;
    match explain.json {
        true => print(&(serde_json::to_string_pretty(&report).unwrap_or_default() + "\n")),
        false => print(&text::render(&report)),
    }
    failure.map_or(Ok(0), Err)
}

/// The report, and with it the reason why the command cannot be run. A refusal before that leaves
/// nothing to report.
fn report(run: &Cut, world: &World) -> Result<(Report, Option<Failure>), Failure> {
    let ground = ground("explain", run, world)?;
    let state_dir = state_dir::choose(&ground.dirs).map_err(refused)?;
    let origins = ground.choices.origins.clone();
    let settings = ground.settings(state_dir, world);
    let wish = &settings.wish;

    let plan = crate::session::plan(wish, Start::Fresh, &Conversation::default(), CONVERSATION).map_err(refused)?;
    let again = continue_line(&settings, &plan)?;
    let program = program::find(&wish.command[0], plan.env.get("PATH"), &plan.cwd.value);
    let failure = program.as_ref().err().map(not_runnable);

    let mask = Mask::new(&plan.env);
    let path = |path: &Path| mask.text(&path.to_string_lossy());
    let line = |words: &[OsString]| words.iter().map(|word| mask.text(&word.to_string_lossy())).collect();
    let report = Report {
        fresh: line(&plan.argv),
        again: line(&again),
        program: program.ok().map(|program| path(&program)),
        profile: plan.profile.name(),
        cwd: Sourced { value: path(&plan.cwd.value), source: with_file(plan.cwd.source, "cwd", &origins) },
        session: Sourced {
            value: wish.session.id.clone(),
            source: with_file(wish.session.source, "session", &origins),
        },
        document: plan.document.as_deref().map(path),
        config: settings.config.as_deref().map(path),
        socket: path(&wish.socket),
        log: path(&settings.state_dir.log(&wish.session.id)),
        state_dir: Sourced {
            value: path(&settings.state_dir.path),
            source: with_file(settings.state_dir.source, "dir", &origins),
        },
        settings: origins.iter().filter(|origin| !is_shown_resolved(origin)).map(|o| setting(o, &mask)).collect(),
        env: variables(&plan.env, &origins, &mask),
        env_fingerprint: plan.env.fingerprint(),
        dropped: plan.env.dropped.clone(),
        error: failure.as_ref().map(|failure| failure.message.clone()),
    };
    Ok((report, failure))
}

/// As it will be once there is a conversation to continue; `plan` would look for its transcript
/// and, finding none, start afresh.
fn continue_line(settings: &Settings, plan: &SpawnPlan) -> Result<Vec<OsString>, Failure> {
    let wish = &settings.wish;
    let ask = profile::Ask {
        command: &wish.command,
        prompt: wish.prompt.as_deref(),
        continue_args: &wish.continue_args,
        start: Start::Continue,
        conversation: &plan.conversation,
        new_id: CONVERSATION,
        has_transcript: &|_| true,
    };
    plan.profile.command_line(&ask).map(|line| line.argv).map_err(refused)
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
    matches!(name, "document" | "session" | "cwd" | "dir") || name.starts_with("env ")
}

/// `session` knows only flags; a value that the config file gave in a flag's place says so.
fn with_file(source: &str, name: &str, origins: &[Origin]) -> String {
    let origin = origins.iter().find(|origin| origin.name == name);
    match origin.filter(|origin| origin.source.starts_with("config ")) {
        Some(origin) if source == "config" => origin.source.clone(),
        Some(origin) => format!("{source}, {}", origin.source),
        None => source.to_string(),
    }
}

fn setting(origin: &Origin, mask: &Mask) -> Setting {
    Setting { name: origin.name.clone(), value: mask.text(&origin.value), source: origin.source.clone() }
}

fn variables(env: &Environment, origins: &[Origin], mask: &Mask) -> Vec<Variable> {
    let shown = |text: &OsStr| text.to_string_lossy().into_owned();
    let variable = |var: &crate::session::EnvVar| {
        let name = shown(&var.name);
        let source = match var.source {
            "--env" => with_file("--env", &format!("env {name}"), origins),
            other => other.to_string(),
        };
        Variable { value: mask.value(&name, &shown(&var.value)), name, source }
    };
    env.vars.iter().map(variable).collect()
}

#[cfg(test)]
mod tests;
