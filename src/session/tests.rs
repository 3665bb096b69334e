use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::testing::Scratch;
use super::*;

pub(super) const NEW: &str = "11111111-1111-4111-8111-111111111111";

pub(super) fn wish(started_in: &Path) -> Wish {
    Wish {
        started_in: started_in.to_owned(),
        command: vec!["claude".into()],
        document: None,
        session: SessionId { id: "s1".into(), source: "--session" },
        cwd: None,
        env: vec![],
        pass_env: vec![],
        parent_env: vec![("HOME".into(), started_in.into()), ("PATH".into(), "/bin".into())],
        agent: None,
        prompt: None,
        continue_args: vec![],
        allowed_dirs: vec![],
        socket: "/state/supervisor/s1.sock".into(),
        uid: 1000,
        hooks: None,
    }
}

fn planned(wish: &Wish) -> Result<SpawnPlan, Refusal> {
    plan(wish, Start::Fresh, &Conversation::default(), NEW)
}

fn cwd(wish: &Wish) -> (PathBuf, &'static str) {
    let plan = planned(wish).unwrap();
    assert_eq!(plan.env.get("PWD"), Some(plan.cwd.value.as_os_str()));
    (plan.cwd.value, plan.cwd.source)
}

fn refused(wish: &Wish) -> String {
    planned(wish).unwrap_err().0
}

/// started_in, with a document two directories below that has no project root inside.
fn with_document(s: &Scratch, frontmatter: &str) -> Wish {
    s.file("proj/docs/task.md", format!("---\n{frontmatter}\n---\nbody\n"));
    Wish { document: Some("proj/docs/task.md".into()), ..wish(s.path()) }
}

#[test]
fn a_plan_holds_everything_and_its_sources() {
    let s = Scratch::new();
    let plan = planned(&with_document(&s, "env: {A: $HOME/x}")).unwrap();
    let document = s.path().join("proj/docs/task.md");
    assert_eq!(plan.argv, ["claude", "--session-id", NEW]);
    assert_eq!((plan.start, plan.why_fresh, plan.profile), (Start::Fresh, None, Profile::Claude));
    assert_eq!(plan.conversation.id.as_deref(), Some(NEW));
    assert_eq!(plan.env.get("AGENT_DOC_DOCUMENT"), Some(document.as_os_str()));
    assert_eq!(plan.env.get("A"), Some(s.path().join("x").as_os_str()));
    assert_eq!(plan.document, Some(document));
}

#[test]
fn cwd_rules_in_their_order() {
    let s = Scratch::new();
    let root = s.path();
    s.dir("proj/docs/work");
    let flag = s.dir("flag");

    let mut wish = with_document(&s, "agent_doc_cwd: work");
    assert_eq!(cwd(&wish), (root.join("proj/docs/work"), "frontmatter"));
    wish.cwd = Some("flag".into());
    assert_eq!(cwd(&wish), (flag.clone(), "cli_flag"));
    wish.cwd = Some(flag.clone());
    assert_eq!(cwd(&wish), (flag.clone(), "cli_flag"));

    let wish = with_document(&s, "agent_doc_cwd: ../../flag");
    assert_eq!(cwd(&wish), (flag.clone(), "frontmatter"));
    let wish = with_document(&s, &format!("agent_doc_cwd: {}", flag.display()));
    assert_eq!(cwd(&wish), (flag, "frontmatter"));

    let wish = with_document(&s, "a: b");
    assert_eq!(cwd(&wish), (root.join("proj/docs"), "document_parent"));
    s.file("proj/docs/.agent-doc", "a file makes no project");
    s.dir("proj/.agent-doc");
    assert_eq!(cwd(&wish), (root.join("proj"), "project_root"));

    assert_eq!(cwd(&super::tests::wish(root)), (root.to_owned(), "invocation"));
}

#[test]
fn a_named_cwd_that_is_no_directory_names_its_source() {
    let s = Scratch::new();
    let root = s.path().display().to_string();
    s.file("proj/docs/file", "");
    s.file("file", "");
    s.dir("proj/.agent-doc");

    for (path, what) in [
        ("none", "path does not exist"),
        ("file", "path is not a directory"),
        ("file/x", "path is not a directory"),
    ] {
        let mut wish = with_document(&s, "a: b");
        wish.cwd = Some(path.into());
        let refusal = refused(&wish);
        assert!(refusal.starts_with(&format!("--cwd flag: {what}: {root}/{path};")), "{refusal}");
        let wish = with_document(&s, &format!("agent_doc_cwd: {path}"));
        let want = format!("agent_doc_cwd frontmatter: {what}: {root}/proj/docs/{path}");
        let refusal = refused(&wish);
        assert!(refusal.starts_with(&want), "{refusal}");
    }
    let mut wish = wish(s.path());
    wish.cwd = Some("/no-such-w".into());
    assert_eq!(
        refused(&wish),
        "--cwd flag: path does not exist: /no-such-w; make it, or give another with --cwd"
    );
}

#[test]
fn cwd_is_canonical_and_settled_again_at_every_plan() {
    let s = Scratch::new();
    let (one, two) = (s.dir("one"), s.dir("two"));
    let link = s.path().join("link");
    symlink(&one, &link).unwrap();
    let wish = Wish { cwd: Some("./link/../link".into()), ..wish(s.path()) };
    assert_eq!(cwd(&wish).0, one);
    fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert_eq!(cwd(&wish).0, two);
    fs::remove_file(&link).unwrap();
    assert!(refused(&wish).starts_with("--cwd flag: path does not exist: "));
}

#[test]
fn the_document_is_read_again_at_every_plan() {
    let s = Scratch::new();
    let wish = with_document(&s, "env: {A: one}");
    assert_eq!(planned(&wish).unwrap().env.get("A").unwrap(), "one");
    with_document(&s, "env: {A: two}");
    assert_eq!(planned(&wish).unwrap().env.get("A").unwrap(), "two");
    let path = s.path().join("proj/docs/task.md");
    fs::remove_file(&path).unwrap();
    assert!(refused(&wish).starts_with(&format!("document: path does not exist: {};", path.display())));
}

#[test]
fn a_symlinked_document_works_where_the_real_one_lives() {
    let s = Scratch::new();
    let mut wish = with_document(&s, "a: b");
    symlink(s.path().join("proj/docs/task.md"), s.path().join("link.md")).unwrap();
    wish.document = Some("link.md".into());
    assert_eq!(cwd(&wish), (s.path().join("proj/docs"), "document_parent"));
}

#[test]
fn allowed_dirs_bound_the_cwd() {
    let s = Scratch::new();
    let root = s.path();
    s.dir("work/a/b");
    symlink(root.join("work"), root.join("alias")).unwrap();
    let try_it = |cwd: &str, allowed: &str| {
        let allowed_dirs = vec!["/nowhere/**".into(), allowed.replace("ROOT", root.to_str().unwrap())];
        planned(&Wish { cwd: Some(cwd.into()), allowed_dirs, ..wish(root) }).map(|_| ())
    };
    for (cwd, allowed) in [
        ("work/a", "ROOT/work/**"),
        ("work", "ROOT/work/**"),
        ("work/a/b", "ROOT/work/*"),
        ("work/a/b", "ROOT/work"),
        ("work/a", "work/*"),
        ("work/a", "./work/?"),
        ("work/a", "~/work/*"),
        ("work/a", "~"),
        ("work/a", "alias/*"),
        ("alias/a", "ROOT/work"),
        ("work/a/b", "**/b"),
        ("work", "/**"),
    ] {
        assert_eq!(try_it(cwd, allowed), Ok(()), "{cwd} in {allowed}");
    }
    for (cwd, allowed) in [
        ("work", "ROOT/work/*"),
        ("work", "ROOT/wor"),
        (".", "ROOT/work/**"),
        ("work/..", "ROOT/work/**"),
        ("work/a", "ROOT/*/b"),
        ("work", "~other/**"),
    ] {
        let why = try_it(cwd, allowed).unwrap_err().0;
        assert!(why.contains("allowed_dirs [/nowhere/**, "), "{why}");
        assert!(why.starts_with("cwd /"), "{why}");
    }
}

#[test]
fn a_continue_looks_into_the_agents_own_home() {
    let s = Scratch::new();
    let known = Conversation { id: Some("22222222-2222-4222-8222-222222222222".into()) };
    let go_on = || plan(&wish(s.path()), Start::Continue, &known, NEW).unwrap();
    assert_eq!((go_on().start, go_on().why_fresh), (Start::Fresh, Some("no_transcript")));
    s.file(".claude/projects/-x/22222222-2222-4222-8222-222222222222.jsonl", "{}");
    let plan = go_on();
    assert_eq!((plan.start, plan.why_fresh), (Start::Continue, None));
    assert_eq!(plan.conversation, known);
    assert_eq!(plan.argv, ["claude", "--resume", "22222222-2222-4222-8222-222222222222"]);
}

#[test]
fn conversations_are_remembered_as_json() {
    let known = Conversation { id: Some("x".into()) };
    let json = serde_json::to_string(&known).unwrap();
    assert_eq!(json, r#"{"id":"x"}"#);
    assert_eq!(serde_json::from_str::<Conversation>(&json).unwrap(), known);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the parent holds and in whatever order, two plans agree to the byte.
    #[test]
    fn two_plans_give_the_same_environment(
        parent in prop::collection::vec(("[A-Z_]{1,6}", prop::collection::vec(1u8.., 0..12)), 0..30),
        pass in prop::collection::vec("[A-Z*_]{1,4}", 0..4),
        written in "[A-Za-z$ {}]{0,20}",
    ) {
        use std::os::unix::ffi::OsStringExt;
        let s = Scratch::new();
        let mut wish = with_document(&s, &format!("env: {{ A: '{written}', B: '$A' }}"));
        let vars = parent.into_iter().map(|(n, v)| (n.into(), OsString::from_vec(v)));
        wish.parent_env.extend(vars);
        wish.pass_env = pass;
        let (one, two) = (planned(&wish).unwrap(), planned(&wish).unwrap());
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(one.env.fingerprint(), two.env.fingerprint());
        prop_assert!(one.env.vars.is_sorted_by(|a, b| a.name < b.name), "sorted, each name once");
    }
}
