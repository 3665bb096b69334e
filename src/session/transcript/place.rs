//! Where claude keeps its conversations: one file each, in a directory for each project.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::session::{Environment, id};

/// So many projects are looked through; a directory that somebody filled must not keep us busy.
const PROJECTS_MOST: usize = 1024;
/// Longer names end in a hash that is claude's own.
const NAME_MOST: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Holds a directory for each project.
    pub projects: PathBuf,
    /// The one of the agent's cwd, unless claude thinks otherwise.
    likely: OsString,
}

impl Place {
    /// `None` when the agent's environment does not tell.
    pub fn of_claude(env: &Environment, cwd: &Path) -> Option<Place> {
        let config = Place::config_of_claude(env, cwd)?;
        Some(Place { projects: config.join("projects"), likely: project_name(cwd) })
    }

    /// Where claude keeps what is the user's.
    pub(in crate::session) fn config_of_claude(env: &Environment, cwd: &Path) -> Option<PathBuf> {
        let set = |name| env.get(name).filter(|value| !value.is_empty());
        match (set("CLAUDE_CONFIG_DIR"), set("HOME")) {
            (Some(dir), _) => Some(cwd.join(dir)),
            (None, Some(home)) => Some(cwd.join(home).join(".claude")),
            (None, None) => None,
        }
    }

    /// The id may come from a record that anybody edited; it becomes a file name here.
    pub fn file_name(id: &str) -> Option<String> {
        id::check(id).ok().map(|()| format!("{id}.jsonl"))
    }

    /// Every place the conversation may be in. claude names a project's directory by rules of its
    /// own and moves a conversation with its directory, so all are looked through, likely ones first.
    pub fn candidates(&self, id: &str) -> impl Iterator<Item = PathBuf> {
        let name = Place::file_name(id);
        let dirs = name.is_some().then(|| self.directories()).into_iter().flatten();
        dirs.map(move |dir| dir.join(name.as_deref().unwrap_or_default()))
    }

    /// Those of the projects.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let likely = self.projects.join(&self.likely);
        let (projects, first) = (self.projects.clone(), likely.clone());
        // Not read at all when the first one is it.
        let entries = std::iter::once(projects).flat_map(fs::read_dir).flatten().flatten();
        let others = entries.take(PROJECTS_MOST).filter(|it| it.file_type().is_ok_and(|it| !it.is_file()));
        std::iter::once(likely).chain(others.map(|it| it.path()).filter(move |path| *path != first))
    }
}

/// As claude 2.1.197 does it: everything but letters and digits becomes a dash.
fn project_name(cwd: &Path) -> OsString {
    let dashed = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let text = OsStr::to_string_lossy(cwd.as_os_str());
    text.encode_utf16().map(dashed).take(NAME_MOST).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::{Scratch, env};

    #[test]
    fn the_config_dir_is_the_agents_own() {
        let cwd = Path::new("/w/a b");
        let of = |vars: &[(&str, &str)]| Place::of_claude(&env(vars), cwd).map(|place| place.projects);
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.claude/projects".into()));
        assert_eq!(of(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")]), Some("/c/projects".into()));
        assert_eq!(of(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "")]), Some("/h/.claude/projects".into()));
        assert_eq!(of(&[("HOME", "h")]), Some("/w/a b/h/.claude/projects".into()));
        assert_eq!(of(&[("HOME", "")]), None);
    }

    #[test]
    fn a_project_is_named_as_claude_names_it() {
        for (cwd, name) in [("/tmp/a.b_c/D9", "-tmp-a-b-c-D9"), ("/ä/日本/😀", "--------")] {
            assert_eq!(project_name(Path::new(cwd)), name, "{cwd}");
        }
        assert_eq!(project_name(Path::new(&"/x".repeat(200))).len(), NAME_MOST);
    }

    #[test]
    fn the_likely_place_comes_first_and_no_id_leads_out() {
        let scratch = Scratch::new();
        for project in ["-a", "-w", "-z"] {
            scratch.dir(&format!("c/projects/{project}"));
        }
        scratch.file("c/projects/file", "");
        let config = scratch.path().join("c");
        let place = Place::of_claude(&env(&[("CLAUDE_CONFIG_DIR", config.to_str().unwrap())]), "/w".as_ref());
        let place = place.unwrap();
        let found: Vec<PathBuf> = place.candidates("x").collect();
        assert_eq!(found[0], config.join("projects/-w/x.jsonl"));
        assert_eq!(found.len(), 3, "{found:?}");
        for id in ["", "..", "../x", "a/b", ".x", "a\nb"] {
            assert_eq!(place.candidates(id).count(), 0, "{id:?}");
        }
    }
}
