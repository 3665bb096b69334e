//! Whether the agent's command can be run, before a child is spent on finding out.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRunnable {
    /// Exit code 127.
    NotFound(String),
    /// Exit code 126.
    NotExecutable(String),
}

impl fmt::Display for NotRunnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (NotRunnable::NotFound(why) | NotRunnable::NotExecutable(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for NotRunnable {}

/// What execvp searches without `$PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Finds what execvp would, with the agent's own `$PATH` and cwd: a name with a slash is a path,
/// an empty entry of `$PATH` is the cwd, and a file that may not be executed is remembered but
/// does not end the search.
pub fn find(command0: &OsStr, path_var: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, NotRunnable> {
    let name = command0.display();
    if command0.is_empty() {
        return Err(NotRunnable::NotFound("the command is an empty word: name a program".into()));
    }
    if command0.as_bytes().contains(&b'/') {
        let path = cwd.join(command0);
        return match look(&path) {
            Look::Runnable => Ok(path),
            Look::Absent => Err(NotRunnable::NotFound(format!(
                "{name}: no such file (looked for {}): install it there, or give another path",
                path.display()
            ))),
            Look::NoInterpreter(interpreter) => Err(no_interpreter(&path, &interpreter)),
            Look::Unusable(why) => Err(NotRunnable::NotExecutable(format!("{name}: {why}"))),
        };
    }
    let search = path_var.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut unusable = None;
    for dir in search.as_bytes().split(|b| *b == b':') {
        let path = cwd.join(OsStr::from_bytes(dir)).join(command0);
        match look(&path) {
            Look::Runnable => return Ok(path),
            Look::Absent => {}
            Look::NoInterpreter(interpreter) => return Err(no_interpreter(&path, &interpreter)),
            Look::Unusable(why) => {
                unusable.get_or_insert(format!("{}: {why}", path.display()));
            }
        }
    }
    Err(match unusable {
        Some(why) => NotRunnable::NotExecutable(why),
        None => NotRunnable::NotFound(format!(
            "{name}: not found: install it, or give its path (PATH is {})",
            search.display()
        )),
    })
}

fn no_interpreter(script: &Path, interpreter: &str) -> NotRunnable {
    let script = script.display();
    NotRunnable::NotFound(format!(
        "{script}: its interpreter {interpreter} does not exist: install it, or mend the script's first line"
    ))
}

/// The `#!` of a script that leads nowhere: the kernel would only say that "it" does not exist,
/// although the script does.
fn missing_interpreter(path: &Path) -> Option<String> {
    let mut head = [0u8; 256];
    let n = File::open(path).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..n].strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let word = line.split(|&b| b == b' ' || b == b'\t' || b == b'\r').find(|w| !w.is_empty())?;
    let interpreter = Path::new(OsStr::from_bytes(word));
    (interpreter.is_absolute() && !interpreter.exists()).then(|| interpreter.display().to_string())
}

enum Look {
    Runnable,
    NoInterpreter(String),
    Absent,
    Unusable(String),
}

fn look(path: &Path) -> Look {
    match fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Look::Unusable(format!("cannot be reached ({e}): let this user into the directories above it"))
        }
        Err(_) => Look::Absent,
        Ok(meta) if meta.is_dir() => Look::Unusable("is a directory: name a program in it".into()),
        Ok(meta) if !meta.is_file() => Look::Unusable("is not a regular file: name a program".into()),
        Ok(_) => match eaccess(path, AccessFlags::X_OK) {
            Ok(()) => match missing_interpreter(path) {
                Some(interpreter) => Look::NoInterpreter(interpreter),
                None => Look::Runnable,
            },
            Err(e) => Look::Unusable(format!(
                "may not be executed ({}): chmod +x it, or look for a noexec mount",
                e.desc()
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::session::testing::Scratch;

    fn program(scratch: &Scratch, name: &str, mode: u32) -> PathBuf {
        let path = scratch.file(name, "#!/bin/sh\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn path_is_searched_in_order_and_an_unusable_file_does_not_end_it() {
        let s = Scratch::new();
        program(&s, "a/tool", 0o644);
        let good = program(&s, "b/tool", 0o755);
        let cwd = s.path();
        let path = format!("{0}/none:{0}/a:{0}/b", cwd.display());
        assert_eq!(find(OsStr::new("tool"), Some(OsStr::new(&path)), cwd), Ok(good.clone()));
        assert_eq!(find(OsStr::new("tool"), Some(OsStr::new("b")), cwd), Ok(good));

        let only_bad = find(OsStr::new("tool"), Some(OsStr::new("none:a")), cwd).unwrap_err();
        assert!(matches!(&only_bad, NotRunnable::NotExecutable(w) if w.contains("chmod")));
        let none = find(OsStr::new("tool"), Some(OsStr::new("none")), cwd).unwrap_err();
        assert!(matches!(&none, NotRunnable::NotFound(w) if w.contains("PATH is none")));
    }

    #[test]
    fn a_slash_means_a_path_from_the_cwd() {
        let s = Scratch::new();
        let good = program(&s, "bin/tool", 0o755);
        s.dir("bin/dir");
        let of = |name: &str| find(OsStr::new(name), Some(OsStr::new("/bin")), s.path());
        assert_eq!(of("bin/tool"), Ok(good.clone()));
        assert_eq!(of("./bin/tool").unwrap().canonicalize().unwrap(), good);
        assert_eq!(of(good.to_str().unwrap()), Ok(good));
        assert!(matches!(of("bin/none"), Err(NotRunnable::NotFound(_))));
        assert!(matches!(of("bin/tool/x"), Err(NotRunnable::NotFound(_))));
        assert!(matches!(of("bin/dir"), Err(NotRunnable::NotExecutable(_))));
        assert!(matches!(of(""), Err(NotRunnable::NotFound(_))));
    }

    #[test]
    fn empty_entries_mean_the_cwd_and_no_path_means_the_usual_places() {
        let s = Scratch::new();
        let here = program(&s, "tool", 0o755);
        assert_eq!(find(OsStr::new("tool"), Some(OsStr::new("/none:")), s.path()), Ok(here));
        assert!(find(OsStr::new("sh"), None, s.path()).is_ok());
    }

    #[test]
    fn a_script_without_its_interpreter_names_it() {
        let s = Scratch::new();
        let script = program(&s, "b/script", 0o755);
        std::fs::write(&script, "#! /no/such/sh -e\necho\n").unwrap();
        for name in ["script", "b/script"] {
            let why = find(OsStr::new(name), Some(OsStr::new("b")), s.path()).unwrap_err();
            assert!(matches!(&why, NotRunnable::NotFound(w) if w.contains("/no/such/sh")), "{why}");
        }
    }
}
