//! What the agent finds in its environment: built from nothing, each variable with its source, so
//! that two spawns from the same inputs are byte-identical.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::{Document, Refusal, Wish, glob};
use crate::sorted::Sorted;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Sorted by the bytes of the name; each name once.
    pub vars: Vec<EnvVar>,
    /// Names of what the parent had and the agent does not get, sorted. `--pass-env` brings each
    /// of them back.
    pub dropped: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    pub name: OsString,
    pub value: OsString,
    /// `parent`, `frontmatter`, `--env` or `agentsup`.
    pub source: &'static str,
}

/// Passed on by default: what a terminal program, git and the agents' own clouds need.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    "HOME", "PATH", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_*",
    "LOCALE_ARCHIVE", "TZ", "USER", "LOGNAME", "SHELL", "EDITOR", "VISUAL", "HOSTNAME", "TMUX",
    "TMUX_PANE", "TMPDIR", "XDG_*", "SSH_AUTH_SOCK", "SSL_CERT_*", "NIX_*", "NODE_EXTRA_CA_CERTS",
    "*_PROXY", "*_proxy", "CI", "GH_TOKEN", "GITHUB_*", "GIT_*", "ANTHROPIC_*", "CLAUDE_*",
    "OPENAI_*", "CODEX_*", "MCP_*", "AWS_*", "GOOGLE_*", "VERTEX_*", "CLOUD_ML_REGION",
    "IS_SANDBOX", "DISABLE_*",
];

/// Set by git hooks and wrappers for their own repository: inherited, they would send every git
/// command of the agent there, whatever its cwd. Who wants that says so with `--pass-env`.
const NOT_BY_DEFAULT: &[&str] = &["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];

/// True of the parent only, so not even `--pass-env '*'` brings them over: they would name
/// another directory, session or socket than the agent's own.
#[rustfmt::skip]
const NEVER: &[&str] = &[
    "PWD", "OLDPWD", "AGENT_DOC_SESSION", "AGENT_DOC_DOCUMENT", "AGENTSUP_SOCKET", "AGENTSUP_CHILD",
    "AGENTSUP_CHILD_AGAIN",
];
/// A shell's, our own and those of the service manager that started us: to say that they were dropped
/// would tell nobody anything.
#[rustfmt::skip]
const NOISE: &[&str] = &[
    "_", "SHLVL", "AGENTSUP_DIR", "AGENTSUP_CONFIG", "AGENTSUP_SESSION", "NOTIFY_SOCKET", "WATCHDOG_PID",
    "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE", "STATE_DIRECTORY", "RUNTIME_DIRECTORY",
];
/// The kernel's limit for one string of an environment, with room for the name.
const LONGEST: usize = 120 * 1024;

pub(super) fn build(wish: &Wish, document: Option<&Document>, cwd: &Path) -> Result<Environment, Refusal> {
    let mut vars = Sorted::new();
    for (name, value) in &wish.parent_env {
        if passes(name, &wish.pass_env) {
            // A name that comes twice keeps its first value, the one getenv finds.
            vars.entry(name.clone()).or_insert((value.clone(), "parent"));
        }
    }
    for (name, value) in document.map_or(&[][..], |d| &d.env) {
        let value = expand(value, |name| vars.get(OsStr::new(name)).map(|(v, _)| v.as_os_str())).ok_or_else(
            || Refusal(format!("env frontmatter: {name} is longer than {LONGEST} bytes: put it into a file")),
        )?;
        vars.insert(name.into(), (value, "frontmatter"));
    }
    for (name, value) in &wish.env {
        if name.is_empty() || name.as_bytes().iter().any(|b| matches!(b, b'=' | 0)) {
            return Err(Refusal(format!("--env: not a name: {name:?}: write NAME=VALUE")));
        }
        vars.insert(name.clone(), (value.clone(), "--env"));
    }
    let mut own = |name: &str, value: &OsStr| {
        vars.insert(name.into(), (value.to_owned(), "agentsup"));
    };
    own("PWD", cwd.as_os_str());
    own("AGENT_DOC_SESSION", OsStr::new(&wish.session.id));
    own("AGENTSUP_SOCKET", wish.socket.as_os_str());
    match document {
        Some(document) => own("AGENT_DOC_DOCUMENT", document.path.as_os_str()),
        None => drop(vars.remove(OsStr::new("AGENT_DOC_DOCUMENT"))),
    }
    vars.entry("TERM".into()).or_insert(("xterm-256color".into(), "agentsup"));

    let mut dropped: Vec<String> = wish
        .parent_env
        .iter()
        .filter(|(name, _)| !vars.contains_key(name) && !NEVER.iter().chain(NOISE).any(|n| name == n))
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    dropped.sort_unstable();
    dropped.dedup();
    Ok(Environment {
        vars: vars.into_iter().map(|(name, (value, source))| EnvVar { name, value, source }).collect(),
        dropped,
    })
}

fn passes(name: &OsStr, pass_env: &[String]) -> bool {
    let is_in = |list: &[&str]| list.iter().any(|n| name == *n);
    let matches = |glob: &str| glob::matches_name(glob.as_bytes(), name.as_bytes());
    if name.is_empty() || is_in(NEVER) {
        return false;
    }
    pass_env.iter().any(|glob| matches(glob))
        || (!is_in(NOT_BY_DEFAULT) && ALLOWED.iter().any(|glob| matches(glob)))
}

/// `$NAME` and `${NAME}` become values (an unset one becomes nothing), `$$` a dollar. Any other
/// dollar stays as written: `${NAME:-x}` is shell, and half an imitation would surprise more.
///
/// `None` beyond what the kernel takes: each line may double the one before it.
fn expand<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a OsStr>) -> Option<OsString> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push(b'$');
            rest = tail;
            continue;
        }
        let braced = after.strip_prefix('{');
        let name = name_at_start(braced.unwrap_or(after));
        let tail = &braced.unwrap_or(after)[name.len()..];
        let tail = if braced.is_some() { tail.strip_prefix('}') } else { Some(tail) };
        match tail {
            Some(tail) if !name.is_empty() => {
                out.extend_from_slice(value_of(name).unwrap_or_default().as_bytes());
                if out.len() > LONGEST {
                    return None;
                }
                rest = tail;
            }
            _ => {
                out.push(b'$');
                rest = after;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(OsString::from_vec(out))
}

fn name_at_start(text: &str) -> &str {
    let end = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    if text.starts_with(|c: char| c.is_ascii_digit()) { "" } else { &text[..end] }
}

/// A variable whose value nobody should read.
pub fn is_secret_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let begins_here = |at: usize| {
        let word = match name[at].to_ascii_uppercase() {
            b'K' => "KEY",
            b'T' => "TOKEN",
            b'S' => "SECRET",
            b'P' => "PASSWORD",
            _ => return false,
        };
        name[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    (0..name.len()).any(begins_here)
}

impl Environment {
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let at = self.vars.binary_search_by(|var| var.name.as_os_str().cmp(OsStr::new(name)));
        at.ok().map(|at| self.vars[at].value.as_os_str())
    }

    /// 16 hex digits that change when any name or value does: FNV-1a, 64 bits, over
    /// `NAME=VALUE\0`. It makes drift visible; it proves nothing against an adversary.
    pub fn fingerprint(&self) -> String {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut eat = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for var in &self.vars {
            eat(var.name.as_bytes());
            eat(b"=");
            eat(var.value.as_bytes());
            eat(b"\0");
        }
        format!("{hash:016x}")
    }

    /// Values that logs must not show. Short ones and plain numbers are left out: masking them
    /// would blot out ordinary text and hide little.
    pub fn secrets(&self) -> Vec<String> {
        secrets(self.vars.iter().map(|var| (&var.name, &var.value)))
    }
}

/// Of an environment that is not an agent's.
pub fn secrets_of(vars: &[(OsString, OsString)]) -> Vec<String> {
    secrets(vars.iter().map(|(name, value)| (name, value)))
}

fn secrets<'a>(vars: impl Iterator<Item = (&'a OsString, &'a OsString)>) -> Vec<String> {
    let worth_masking = |v: &&str| v.chars().count() >= 8 && !v.bytes().all(|b| b.is_ascii_digit());
    let mut values: Vec<String> = vars
        .filter(|(name, _)| is_secret_name(name))
        .filter_map(|(_, value)| value.to_str())
        .filter(worth_masking)
        .map(str::to_owned)
        .collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests;
