//! `agentsup ls`: the sessions of the state dir, asked all at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::drift::{self, Lock, Said, Socket};
use super::look::{Colour, Look, cut_end, cut_front, span};
use super::ls_tree::Forest;
use super::reach::{first_group, is_uuid};
use super::sessions::{self, Life};
use super::state::{health_word, phase_word};
use super::{args, print_json};
use crate::cli::explain::text::visible;
use crate::cli::given::{FromGiven, Given};
use crate::cli::words::Word;
use crate::cli::world::World;
use crate::cli::{Failure, asked, print, show_help};
use crate::control::client::many::ask_all;
use crate::control::json;
use crate::control::protocol::{Call, State};
use crate::session::StateDir;

/// For each; they are asked at the same time.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// A line of the table, and an element of the array.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    session: String,
    dir: PathBuf,
    /// None: the lock is not ours to look at.
    live: Option<bool>,
    pid: Option<i32>,
    /// As in `state`; `silent` when it does not answer, `dead` when there is no supervisor.
    health: String,
    phase: Option<String>,
    activity: Option<String>,
    /// What the agent says that it is about.
    description: Option<String>,
    restart_count: Option<u64>,
    uptime_ms: Option<u64>,
    cwd: Option<String>,
    /// Why it did not answer, or what does not fit together.
    error: Option<String>,
    /// [`drift::CODE`] in the second case.
    code: Option<&'static str>,
}

/// For the tree.
impl Row {
    pub fn session(&self) -> &str {
        &self.session
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn live(&self) -> Option<bool> {
        self.live
    }

    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    pub fn phase(&self) -> Option<&str> {
        self.phase.as_deref()
    }

    pub fn health(&self) -> &str {
        &self.health
    }

    pub fn activity(&self) -> Option<&str> {
        self.activity.as_deref()
    }

    pub fn restarts(&self) -> Option<u64> {
        self.restart_count
    }

    pub fn uptime(&self) -> Option<u64> {
        self.uptime_ms
    }

    #[cfg(test)]
    pub fn waiting(session: &str, restarts: u64) -> Row {
        let (phase, health) = (Some("backoff".into()), "degraded".into());
        Row { phase, health, restart_count: Some(restarts), ..Row::named(session) }
    }

    #[cfg(test)]
    pub fn named(session: &str) -> Row {
        Row { session: session.to_owned(), live: Some(true), phase: Some("running".into()), ..Row::default() }
    }
}

/// What is used of `SESSION.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Recorded {
    supervisor_pid: Option<u32>,
    pid: Option<i32>,
    phase: Option<String>,
    health: Option<String>,
    restart_count: Option<u64>,
    cwd: Option<String>,
}

pub fn ls(argv: &[OsString]) -> Result<u8, Failure> {
    let Some(mut given) = Given::read("ls", argv)? else {
        return show_help(Some("ls"));
    };
    let verb = args::Ls::from_given(&mut given);
    let dirs = dirs_for(verb.dir, verb.words)?;
    let rows = look(&dirs)?;
    if verb.tree {
        let forest = Forest::ask(rows, &dirs);
        match verb.json {
            true => print_json(&forest.json())?,
            false => print(&forest.text(Look::of_stdout()))?,
        }
        return Ok(0);
    }
    match verb.json {
        true => print_json(&json!(rows))?,
        false => print(&text(&rows, Look::of_stdout()))?,
    }
    Ok(0)
}

/// Of a verb that takes no plain words.
pub fn dirs_for(dir: Option<Word>, words: Vec<Word>) -> Result<Vec<StateDir>, Failure> {
    if let Some(Word(word)) = words.first() {
        return Err(Failure::usage(format!("one word too many: `{}`", word.display())));
    }
    let flag = dir.map(|word| asked::path("--dir", word)).transpose()?;
    let dirs = sessions::dirs(flag.as_deref(), &World::look()?);
    match (&flag, dirs.first()) {
        (Some(_), Some(dir)) if !dir.path.is_dir() => {
            Err(Failure::usage(format!("--dir: there is no directory {}", dir.path.display())))
        }
        _ => Ok(dirs),
    }
}

pub fn look(dirs: &[StateDir]) -> Result<Vec<Row>, Failure> {
    let mut found = vec![];
    for dir in dirs {
        match sessions::all(dir) {
            Ok(ids) => found.extend(ids.into_iter().map(|id| (dir, id))),
            // Of the places nobody named, those of other users are none of our business.
            Err(_) if dirs.len() > 1 => {}
            Err(error) => {
                let message = format!("{} cannot be read: {error}", dir.path.display());
                return Err(Failure { code: 1, message });
            }
        }
    }
    let mut rows: Vec<Row> = found.iter().map(|(dir, id)| recorded(dir, id)).collect();
    let sockets: Vec<PathBuf> = found.iter().map(|(dir, id)| dir.socket(id)).collect();
    let answers = ask_all::<State>(&sockets, &Call::State { why: false, deep: false }, PATIENCE);
    for ((row, (dir, session)), answer) in rows.iter_mut().zip(&found).zip(answers) {
        let was_live = row.live;
        let socket = match &answer {
            Ok(state) => Socket::Answers { session: state.session.clone(), supervisor: state.supervisor_pid },
            Err(_) if sessions::nobody_listens(dir, session) => Socket::NobodyListens,
            Err(_) => Socket::Unknown,
        };
        match answer {
            Ok(state) => answered(row, &state),
            Err(_) if row.live == Some(false) => {}
            // Started with --no-socket: the record is all there is to know, and it is kept up.
            Err(_) if !dir.socket(session).exists() => {
                row.error = Some("it has no control socket".to_owned());
            }
            Err(error) => {
                row.health = "silent".to_owned();
                row.error = Some(error.to_string());
            }
        }
        let said = said(dir, session, socket);
        // One that began or ended while we looked has told us about two lives.
        let is_one_life = lives(&said.lock) == was_live;
        if let Some(words) = drift::drift(session, &said).filter(|_| is_one_life) {
            row.error = Some(words);
            row.code = Some(drift::CODE);
        }
    }
    Ok(rows)
}

fn lives(lock: &Lock) -> Option<bool> {
    match lock {
        Lock::Held(_) => Some(true),
        Lock::Free => Some(false),
        Lock::Unknown => None,
    }
}

/// By lock and record, read behind the answer: who answers has written both.
fn said(dir: &StateDir, session: &str, socket: Socket) -> Said {
    let lock = match sessions::life(dir, session) {
        Life::Live => Lock::Held(sessions::holder(dir, session)),
        Life::Dead => Lock::Free,
        Life::Unknown => Lock::Unknown,
    };
    let record = read_record(dir, session);
    Said { lock, record: record.supervisor_pid.zip(record.phase), socket }
}

fn read_record(dir: &StateDir, session: &str) -> Recorded {
    let text = sessions::read_plain(&dir.record(session)).unwrap_or_default();
    json::read_bytes(&text).unwrap_or_default()
}

fn recorded(dir: &StateDir, session: &str) -> Row {
    let life = sessions::life(dir, session);
    let record = read_record(dir, session);
    let is_dead = life == Life::Dead;
    Row {
        session: session.to_owned(),
        dir: dir.path.clone(),
        live: match life {
            Life::Live => Some(true),
            Life::Dead => Some(false),
            Life::Unknown => None,
        },
        pid: record.pid.filter(|_| !is_dead),
        health: if is_dead { "dead".into() } else { record.health.unwrap_or_else(|| "unknown".into()) },
        phase: record.phase.filter(|_| !is_dead),
        restart_count: record.restart_count,
        cwd: record.cwd,
        ..Row::default()
    }
}

fn answered(row: &mut Row, state: &State) {
    row.live = Some(true);
    row.pid = state.pid;
    row.health = health_word(state.health).to_owned();
    row.phase = Some(phase_word(state.phase).to_owned());
    row.activity = Some(state.activity.name().to_owned());
    row.description.clone_from(&state.description);
    row.restart_count = Some(state.restart_count);
    row.uptime_ms = Some(state.uptime_ms);
    row.cwd.clone_from(&state.cwd);
}

const HEADS: [&str; 8] = ["SESSION", "PID", "HEALTH", "PHASE", "ACTIVITY", "RESTARTS", "UPTIME", "CWD"];
/// Behind them, where an agent has said it and there is room.
const ABOUT: &str = "ABOUT";
const SESSION: usize = 0;
const HEALTH: usize = 2;
const CWD: usize = 7;
/// What a shortened column keeps at least.
const LEAST: usize = 12;

pub fn text(rows: &[Row], look: Look) -> String {
    if rows.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut cells: Vec<[String; 8]> = vec![HEADS.map(str::to_owned)];
    cells.extend(rows.iter().map(cells_of));
    fit(&mut cells, look.width);
    let widths: [usize; 8] = std::array::from_fn(|n| width_of(&cells, n));
    let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(widths.iter().sum::<usize>() + 8));
    let is_told = room >= LEAST && rows.iter().any(|row| row.description.is_some());

    let many = rows.windows(2).any(|pair| pair[0].dir != pair[1].dir);
    let mut out = String::new();
    for (n, line) in cells.iter().enumerate() {
        let row = n.checked_sub(1).map(|n| &rows[n]);
        if let Some(row) = row.filter(|row| many && (n == 1 || rows[n - 2].dir != row.dir)) {
            out += &format!("{}:\n", visible(&row.dir.display().to_string()));
        }
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let padded = format!("{cell:<width$}", width = widths[column]);
            let colour = row.filter(|_| column == HEALTH).and_then(|row| colour(&row.health));
            text += &look.paint(colour, &padded);
            text.push(' ');
        }
        match row {
            None if is_told => text += ABOUT,
            Some(Row { description: Some(about), .. }) if is_told => text += &cut_end(&visible(about), room),
            _ => {}
        }
        out += text.trim_end();
        out.push('\n');
    }
    for row in rows {
        if let (Some(code), Some(error)) = (row.code, &row.error) {
            out += &format!("{}: {} ({code})\n", row.session, visible(error));
        }
    }
    out
}

fn cells_of(row: &Row) -> [String; 8] {
    let or_dash = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| visible(&text));
    [
        row.session.clone(),
        or_dash(row.pid.map(|pid| pid.to_string())),
        visible(&row.health),
        or_dash(row.phase.clone()),
        or_dash(row.activity.clone()),
        or_dash(row.restart_count.map(|n| n.to_string())),
        or_dash(row.uptime_ms.map(|ms| span(Duration::from_millis(ms)))),
        or_dash(row.cwd.clone()),
    ]
}

fn width_of(cells: &[[String; 8]], column: usize) -> usize {
    cells.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
}

/// First UUIDs become their first group, then paths lose their beginning, then names their end.
fn fit(cells: &mut [[String; 8]], width: Option<usize>) {
    let Some(width) = width else { return };
    let over = |cells: &[[String; 8]]| {
        let whole: usize = (0..HEADS.len()).map(|column| width_of(cells, column) + 1).sum();
        (whole - 1).saturating_sub(width)
    };
    let room_for_path = width_of(cells, CWD).min(LEAST);
    if over(cells) > width_of(cells, CWD) - room_for_path {
        for line in cells.iter_mut().filter(|line| is_uuid(&line[SESSION])) {
            line[SESSION] = first_group(&line[SESSION]).to_owned();
        }
    }
    for (column, cut) in [(CWD, cut_front as fn(&str, usize) -> String), (SESSION, cut_end)] {
        let now = width_of(cells, column);
        let then = now.saturating_sub(over(cells)).max(LEAST.min(now));
        for line in cells.iter_mut() {
            line[column] = cut(&line[column], then);
        }
    }
}

fn colour(health: &str) -> Option<Colour> {
    match health {
        "healthy" => Some(Colour::Green),
        "degraded" => Some(Colour::Yellow),
        "halted" | "silent" => Some(Colour::Red),
        "dead" => Some(Colour::Dim),
        _ => None,
    }
}

#[cfg(test)]
#[path = "ls_tests.rs"]
mod tests;
