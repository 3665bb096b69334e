use super::*;
use crate::session::SessionId;

fn wish(parent: &[(&str, &str)]) -> Wish {
    Wish {
        started_in: "/".into(),
        command: vec!["claude".into()],
        document: None,
        session: SessionId { id: "s1".into(), source: "--session" },
        cwd: None,
        env: vec![],
        pass_env: vec![],
        parent_env: parent.iter().map(|(n, v)| (n.into(), v.into())).collect(),
        agent: None,
        prompt: None,
        continue_args: vec![],
        allowed_dirs: vec![],
        socket: "/state/supervisor/s1.sock".into(),
        uid: 1000,
        hooks: None,
    }
}

fn document(env: &[(&str, &str)]) -> Document {
    Document {
        path: "/w/task.md".into(),
        env: env.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        ..Document::default()
    }
}

fn built(wish: &Wish, document: Option<&Document>) -> Environment {
    build(wish, document, Path::new("/w")).unwrap()
}

fn shown(env: &Environment) -> Vec<String> {
    let show = |v: &EnvVar| format!("{}={} ({})", v.name.display(), v.value.display(), v.source);
    env.vars.iter().map(show).collect()
}

#[test]
fn from_an_empty_parent_only_our_own_are_left() {
    let env = built(&wish(&[]), None);
    assert_eq!(
        shown(&env),
        [
            "AGENTSUP_SOCKET=/state/supervisor/s1.sock (agentsup)",
            "AGENT_DOC_SESSION=s1 (agentsup)",
            "PWD=/w (agentsup)",
            "TERM=xterm-256color (agentsup)",
        ]
    );
    assert!(env.dropped.is_empty());
}

#[test]
fn the_list_passes_and_the_rest_is_named() {
    let parent = [
        ("HOME", "/h"),
        ("LC_ALL", "C"),
        ("http_proxy", "p"),
        ("GIT_AUTHOR_NAME", "n"),
        ("ANTHROPIC_API_KEY", "k"),
        ("TERM", "dumb"),
        ("ZOO", "1"),
        ("LD_PRELOAD", "x"),
        ("GIT_DIR", "/g"),
        ("GIT_WORK_TREE", "/g"),
        ("GIT_INDEX_FILE", "/g"),
        ("PWD", "/p"),
        ("OLDPWD", "/o"),
        ("AGENTSUP_SOCKET", "/old"),
        ("HOMER", "no"),
    ];
    let env = built(&wish(&parent), None);
    for name in ["HOME", "LC_ALL", "http_proxy", "GIT_AUTHOR_NAME", "ANTHROPIC_API_KEY"] {
        assert!(env.get(name).is_some(), "{name}");
    }
    assert_eq!(env.get("TERM"), Some(OsStr::new("dumb")));
    assert_eq!(env.get("PWD"), Some(OsStr::new("/w")));
    assert_eq!(env.get("OLDPWD"), None);
    let dropped = ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "HOMER", "LD_PRELOAD", "ZOO"];
    assert_eq!(env.dropped, dropped);
}

#[test]
fn pass_env_adds_but_never_what_is_true_of_the_parent_only() {
    let parent = [
        ("ZOO", "1"),
        ("GIT_DIR", "/g"),
        ("PWD", "/p"),
        ("OLDPWD", "/o"),
        ("AGENT_DOC_SESSION", "old"),
        ("AGENT_DOC_DOCUMENT", "old"),
        ("AGENTSUP_SOCKET", "old"),
    ];
    let mut wish = wish(&parent);
    wish.pass_env = vec!["*".into()];
    let env = built(&wish, None);
    assert_eq!(env.get("ZOO"), Some(OsStr::new("1")));
    assert_eq!(env.get("GIT_DIR"), Some(OsStr::new("/g")));
    assert_eq!(env.get("OLDPWD"), None);
    assert_eq!(env.get("AGENT_DOC_DOCUMENT"), None);
    assert_eq!(env.get("AGENT_DOC_SESSION"), Some(OsStr::new("s1")));
    assert!(env.dropped.is_empty());

    wish.pass_env = vec!["GIT_DIR".into()];
    let env = built(&wish, None);
    assert!(env.get("GIT_DIR").is_some() && env.get("ZOO").is_none());
}

#[test]
fn later_layers_win_and_our_own_last() {
    let mut wish = wish(&[("LANG", "C"), ("PATH", "/bin"), ("TERM", "dumb")]);
    let doc = document(&[
        ("A", "1"),
        ("PATH", "/opt:$PATH"),
        ("B", "${A}2"),
        ("LANG", "de"),
        ("PWD", "/evil"),
        ("AGENT_DOC_SESSION", "evil"),
    ]);
    wish.env = vec![("LANG".into(), "fr".into()), ("AGENTSUP_SOCKET".into(), "evil".into())];
    let env = built(&wish, Some(&doc));
    assert_eq!(
        shown(&env),
        [
            "A=1 (frontmatter)",
            "AGENTSUP_SOCKET=/state/supervisor/s1.sock (agentsup)",
            "AGENT_DOC_DOCUMENT=/w/task.md (agentsup)",
            "AGENT_DOC_SESSION=s1 (agentsup)",
            "B=12 (frontmatter)",
            "LANG=fr (--env)",
            "PATH=/opt:/bin (frontmatter)",
            "PWD=/w (agentsup)",
            "TERM=dumb (parent)",
        ]
    );
}

#[test]
fn a_name_for_env_is_never_empty() {
    let mut wish = wish(&[]);
    wish.env = vec![("".into(), "x".into())];
    assert!(build(&wish, None, Path::new("/w")).unwrap_err().0.starts_with("--env: "));
}

#[test]
fn expansion() {
    let value_of = |name: &str| match name {
        "A" => Some(OsStr::new("one")),
        "A_2" => Some(OsStr::new("two")),
        _ => None,
    };
    for (text, want) in [
        ("$A", "one"),
        ("${A}", "one"),
        ("$A_2", "two"),
        ("${A}_2", "one_2"),
        ("x$A-y", "xone-y"),
        ("$NONE.", "."),
        ("${NONE}", ""),
        ("$$A", "$A"),
        ("$$$A", "$one"),
        ("$", "$"),
        ("a$ b", "a$ b"),
        ("$1", "$1"),
        ("${", "${"),
        ("${A", "${A"),
        ("${}", "${}"),
        ("${A:-x}", "${A:-x}"),
        ("ä$Aä", "äoneä"),
        ("", ""),
        ("100$", "100$"),
    ] {
        assert_eq!(expand(text, value_of), Some(OsString::from(want)), "{text}");
    }
}

#[test]
fn expansion_sees_only_what_the_agent_gets() {
    let wish = wish(&[("HIDDEN", "x")]);
    let env = built(&wish, Some(&document(&[("V", "[$HIDDEN]"), ("V2", "$V2$V")])));
    assert_eq!(env.get("V"), Some(OsStr::new("[]")));
    assert_eq!(env.get("V2"), Some(OsStr::new("[]")));
}

#[test]
fn bytes_survive_and_the_first_of_two_wins() {
    let raw = OsString::from_vec(b"/caf\xE9".to_vec());
    let mut wish = wish(&[]);
    wish.parent_env = vec![("HOME".into(), raw.clone()), ("HOME".into(), "/second".into())];
    let env = built(&wish, Some(&document(&[("DIR", "$HOME/x")])));
    assert_eq!(env.get("HOME"), Some(raw.as_os_str()));
    assert_eq!(env.get("DIR").unwrap().as_bytes(), b"/caf\xE9/x");
}

#[test]
fn the_fingerprint_is_fnv_1a_and_sees_every_change() {
    assert_eq!(Environment::default().fingerprint(), "cbf29ce484222325");
    let var = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into(), source: "parent" };
    let of = |vars| Environment { vars, dropped: vec![] }.fingerprint();
    let one = of(vec![var("A", "b")]);
    assert_eq!(one.len(), 16);
    assert_ne!(one, of(vec![var("A", "c")]));
    assert_ne!(of(vec![var("A", "b"), var("C", "")]), of(vec![var("A", "b=C")]));
}

#[test]
fn secrets_are_long_values_of_telling_names() {
    let parent = [
        ("ANTHROPIC_API_KEY", "sk-12345678"),
        ("GH_TOKEN", "short"),
        ("AWS_SECRET_ID", "12345678"),
        ("CLAUDE_password", "correct horse"),
        ("GITHUB_TOKEN", "sk-12345678"),
        ("HOME", "/home/me"),
        ("OPENAI_KEY", "ääääääää"),
    ];
    let env = built(&wish(&parent), None);
    assert_eq!(env.secrets(), ["correct horse", "sk-12345678", "ääääääää"]);
}

#[test]
fn a_few_lines_that_double_each_other_are_refused_before_memory_runs_out() {
    let mut bomb = "x".repeat(64);
    for _ in 0..11 {
        let before = std::mem::take(&mut bomb);
        match expand("$A$A", |_| Some(OsStr::new(&before))) {
            Some(value) => bomb = value.into_string().unwrap(),
            None => return,
        }
    }
    panic!("{} bytes and no end", bomb.len());
}
