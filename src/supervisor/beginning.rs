//! Where the repository stood when the session began, for `agentsup commits`: git is asked once, before
//! the first agent, and the agent waits for its answer as it waits for leftovers to go.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::helper::{Helper, Kind};
use super::record::Kept;
use super::settings::Settings;
use super::{Charge, Supervisor, below, now};
use crate::os::spawn::{self, Env, Fds, Place, Signals, Spec};
use crate::os::wait::How;
use crate::policy::life::{Event, Phase};
use crate::session::began::{self, Began, Refs};
use crate::session::{SpawnPlan, Start, program};

/// All tips there are: of every ref, and what each worktree has checked out.
const ASKED: [&str; 5] = ["git", "rev-list", "--all", "--no-walk=unsorted", "--ignore-missing"];
/// Of what git said when it failed.
const LAST_WORDS: u64 = 4096;

/// Whether git is still to be asked, is being asked, or need not be.
pub(super) enum Noting {
    Due(Question),
    UnderWay,
    Over,
}

/// As the agent would ask it.
pub(super) struct Question {
    cwd: PathBuf,
    path: Option<OsString>,
    env: Vec<(OsString, OsString)>,
}

/// The session begins with each supervisor, but one that goes on where another was stopped or killed, or that its
/// node started again.
pub(super) fn begin(settings: &Settings, plan: &SpawnPlan, found: &Kept) -> (Began, Noting) {
    let cwd = plan.cwd.value.clone();
    let dir = cwd.to_string_lossy().into_owned();
    let is_again = below::is_again(&settings.wish.parent_env);
    let goes_on = settings.start == Start::Continue || found.is_drift() || is_again;
    if let Some(began) = found.began().filter(|began| goes_on && began.holds_for(&dir)) {
        return (began, Noting::Over);
    }
    let began = Began { at: now().epoch, dir, ..Began::default() };
    if !began::is_in_repository(&cwd) {
        return (Began { refs: Refs::NoRepository, ..began }, Noting::Over);
    }
    // Without the session's marks: it is no leftover of it. The rest as the agent has it, so that both
    // find the same repository.
    let is_mark = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("AGENT"));
    let vars = plan.env.vars.iter().filter(|var| !is_mark(&var.name));
    let mut env: Vec<(OsString, OsString)> = vars.map(|var| (var.name.clone(), var.value.clone())).collect();
    env.extend([("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1")].map(|(k, v)| (k.into(), v.into())));
    (began, Noting::Due(Question { cwd, path: plan.env.get("PATH").map(OsString::from), env }))
}

impl Question {
    fn ask(&self, output: &File) -> Result<Helper, String> {
        let argv = ASKED.map(OsString::from);
        let program =
            program::find(&argv[0], self.path.as_deref(), &self.cwd).map_err(|error| error.to_string())?;
        let stdin = spawn::pipe_holding(b"").map_err(|error| format!("pipe: {error}"))?;
        let spec = Spec {
            program: &program,
            argv: &argv,
            env: Env::Exactly(&self.env),
            cwd: Some(&self.cwd),
            place: Place::Detached { stdin: stdin.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
            signals: Signals::AllDefault,
            fds: Fds::OnlyStdio,
            oom_score_adj: None,
        };
        let started = spawn::spawn(&spec).map_err(|error| error.to_string())?;
        Ok(Helper { pid: started.pid, kind: Kind::Refs, spawning: started })
    }
}

impl Supervisor {
    /// Nothing of an earlier supervisor is left: before the agent runs, git is asked.
    pub(super) fn on_leftovers_gone(&mut self) {
        let output = self.refs_being_written();
        let Charge::Run(session) = &mut self.charge else {
            return self.events.push_back(Event::LeftoversGone);
        };
        if let Noting::Due(question) = &session.noting {
            let _ = fs::remove_file(&output);
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&output);
            let asked = file.map_err(|error| format!("{}: {error}", output.display()));
            match asked.and_then(|file| question.ask(&file)) {
                Ok(helper) => {
                    self.helpers.push(helper);
                    session.noting = Noting::UnderWay;
                }
                Err(why) => self.refs_noted(Err(why)),
            }
        }
        if !self.is_noting() {
            self.events.push_back(Event::LeftoversGone);
        }
    }

    fn is_noting(&self) -> bool {
        matches!(&self.charge, Charge::Run(session) if matches!(session.noting, Noting::UnderWay))
    }

    pub(super) fn on_refs_helper_ended(&mut self, how: How) {
        if !self.is_noting() {
            return;
        }
        let new = self.refs_being_written();
        self.refs_noted(match how {
            How::Code(0) => fs::rename(&new, self.refs()).map_err(|error| error.to_string()),
            _ => Err(last_line(&new).unwrap_or_else(|| format!("git ended with code {}", how.exit_code()))),
        });
        if let Phase::Clearing { .. } = self.life.phase() {
            self.events.push_back(Event::LeftoversGone);
        }
    }

    /// The agent has waited for as long as it waits for leftovers.
    pub(super) fn stop_noting(&mut self) {
        let Charge::Run(session) = &self.charge else { return };
        let why = match session.noting {
            Noting::Due(_) => "what an earlier supervisor left did not end in time for it",
            Noting::UnderWay => "git took too long",
            Noting::Over => return,
        };
        for helper in self.helpers.iter().filter(|helper| helper.kind == Kind::Refs) {
            self.sweep.kill_under(helper.pid);
        }
        self.refs_noted(Err(why.to_owned()));
    }

    fn refs_noted(&mut self, noted: Result<(), String>) {
        let _ = fs::remove_file(self.refs_being_written());
        let Charge::Run(session) = &mut self.charge else { return };
        session.noting = Noting::Over;
        (session.record.began.refs, session.record.began.why) = match noted {
            Ok(()) => (Refs::Noted, None),
            Err(why) => (Refs::Failed, Some(why)),
        };
        self.write_record();
    }

    fn refs(&self) -> PathBuf {
        let Charge::Run(session) = &self.charge else { return PathBuf::new() };
        session.settings.state_dir.refs(&session.settings.wish.session.id)
    }

    /// Only the whole of it has its own name.
    fn refs_being_written(&self) -> PathBuf {
        self.refs().with_extension("refs.new")
    }
}

fn last_line(file: &std::path::Path) -> Option<String> {
    let mut text = Vec::new();
    super::record::open_plain(file)?.take(LAST_WORDS).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim_start_matches("fatal: ").to_owned())
}
