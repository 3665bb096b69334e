use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::session::testing::Scratch;

fn read(bytes: impl AsRef<[u8]>) -> Result<Document, String> {
    let s = Scratch::new();
    let path = s.file("task.md", bytes);
    let document = Document::read(&path).map_err(|why| why.0)?;
    assert_eq!(document.path, path);
    Ok(document)
}

/// The refusal without the directory: `task.md:LINE: what`.
fn refused(bytes: impl AsRef<[u8]>) -> String {
    let why = read(bytes).expect_err("must be refused");
    why.rsplit_once('/').map_or(why.clone(), |(_, rest)| rest.to_owned())
}

fn env(document: &Document) -> Vec<(&str, &str)> {
    document.env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect()
}

#[test]
fn reads_its_three_keys_and_ignores_the_rest() {
    let document = read(
        "---\ntitle: [a, {b: c}]\nagent_doc_session: abc-1\nagent_doc_cwd: ../x y\nenv:\n  B: 'two'\n  \
         A: one two\n  N: 0x10\n  T: true\n  E:\n  Z: ~\n  Q: \"~\"\ntags:\n  - x\n---\n# body\n",
    )
    .unwrap();
    assert_eq!(document.session.as_deref(), Some("abc-1"));
    assert_eq!(document.cwd.as_deref(), Some(Path::new("../x y")));
    let want =
        [("B", "two"), ("A", "one two"), ("N", "0x10"), ("T", "true"), ("E", ""), ("Z", ""), ("Q", "~")];
    assert_eq!(env(&document), want);
}

#[test]
fn what_is_no_frontmatter_is_an_empty_document() {
    let plain = [
        "",
        "# title\n",
        "\n---\nenv: 1\n---\n",
        " ---\nx\n---\n",
        "----\n",
        "--- x\n",
        "---x\n---\n",
        "---\n---\n",
        "---\n\n# only a comment\n---\n",
        "---\n~\n---\n",
        "---\n...\nbody",
        "---\n---",
    ];
    for text in plain {
        let document = read(text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!((document.session, document.cwd, document.env), (None, None, vec![]), "{text:?}");
    }
}

#[test]
fn line_ends_and_byte_order_mark_do_not_matter() {
    let crlf = "\u{feff}---\r\nagent_doc_session: s\r\nenv:\r\n  A: b\r\n---\r\nbody\r\n";
    let document = read(crlf).unwrap();
    assert_eq!(document.session.as_deref(), Some("s"));
    assert_eq!(env(&document), [("A", "b")]);
    assert_eq!(read("---  \nagent_doc_session: s\n--- \n").unwrap().session.as_deref(), Some("s"));
    assert_eq!(read("---\nagent_doc_session: 1234\n...").unwrap().session.as_deref(), Some("1234"));
}

#[test]
fn a_body_of_any_size_and_kind_is_not_looked_at() {
    let mut bytes = b"---\nagent_doc_session: s\n---\n".to_vec();
    bytes.extend(b"\xff\x00---\n".repeat(2_000_000));
    assert_eq!(read(bytes).unwrap().session.as_deref(), Some("s"));
}

#[test]
fn flaws_come_with_file_and_line() {
    for (text, line, what) in [
        ("---\na: [\n---\n", 0, "not YAML"),
        ("---\na: b\n\tc: d\n---\n", 2, "not YAML"),
        ("---\na: b: c\n---\n", 2, "not YAML"),
        ("---\n- a\n---\n", 2, "not a map"),
        ("---\njust words\n---\n", 2, "not a map"),
        ("---\na: b\n--- c\nd: e\n---\n", 3, "second YAML document"),
        ("---\nenv: 5\n---\n", 2, "`env` is not a map"),
        ("---\nenv:\n- A\n---\n", 3, "`env` is not a map"),
        ("---\nx: 1\nenv:\n  A: [b]\n---\n", 4, "value of A is not plain text"),
        ("---\nenv:\n  A: {b: c}\n---\n", 3, "value of A is not plain text"),
        ("---\nenv:\n  [A]: b\n---\n", 3, "name in `env` is not plain text"),
        ("---\nenv:\n  '': b\n---\n", 3, "not a name for a variable"),
        ("---\nenv:\n  A=B: c\n---\n", 3, "not a name for a variable: \"A=B\""),
        ("---\nenv:\n  \"A\\0B\": c\n---\n", 3, "not a name for a variable"),
        ("---\nenv:\n  A: \"x\\0y\"\n---\n", 3, "value of A holds a NUL"),
        ("---\nenv:\n  A: 1\n  A: 2\n---\n", 4, "A is given twice"),
        ("---\nenv: {A: 1}\nenv: {B: 2}\n---\n", 3, "`env` is given twice"),
        ("---\nagent_doc_session: [a]\n---\n", 2, "`agent_doc_session` is not plain text"),
        ("---\nagent_doc_session:\n---\n", 0, "`agent_doc_session` is empty"),
        ("---\nagent_doc_cwd:\n  a: b\n---\n", 3, "`agent_doc_cwd` is not plain text"),
        ("---\nagent_doc_cwd: null\n---\n", 2, "`agent_doc_cwd` is empty"),
        ("---\nagent_doc_cwd: \"a\\0\"\n---\n", 2, "`agent_doc_cwd` holds a NUL"),
        ("---\nagent_doc_cwd: a\nagent_doc_cwd: b\n---\n", 3, "`agent_doc_cwd` is given twice"),
        ("---\nx: &a v\nagent_doc_cwd: *a\n---\n", 3, "`agent_doc_cwd` is an alias"),
        ("---\nx: &a v\nenv:\n  A: *a\n---\n", 4, "A is an alias"),
        ("---\nx: &a {B: c}\nenv:\n  <<: *a\n---\n", 4, "<< is an alias"),
        ("---\nx: *none\n---\n", 2, "unknown anchor"),
        ("---\na: b\n", 2, "not closed"),
        ("---", 1, "not closed"),
        ("---\na: b\n ---\n", 3, "not closed"),
    ] {
        let why = refused(text);
        assert!(why.contains(what), "{text:?}: {why}");
        let place = format!("task.md:{line}: ");
        assert!(line == 0 || why.starts_with(&place), "{text:?}: {why}");
        assert!(why.starts_with("task.md:"), "{text:?}: {why}");
    }
}

#[test]
fn foreign_keys_may_be_anything_yaml() {
    let text = "---\nx: &a [1, 2]\ny: *a\n<<: {p: q}\n? [complex, key]\n: {v: w}\n? *a\n: z\nx: 2\n\
                t: !!set {a, b}\nm: |\n  env: no\nagent_doc_session: s\n---\n";
    assert_eq!(read(text).unwrap().session.as_deref(), Some("s"));
}

#[test]
fn bytes_that_are_no_text_are_named_with_their_line() {
    assert_eq!(refused(b"---\na: b\nc: \xff\n---\n"), "task.md:3: frontmatter is not UTF-8 text");
    let why = refused(b"---\na: b\0\nenv: {}\n---\n");
    assert!(why.starts_with("task.md:2: frontmatter holds a control character"), "{why}");
    assert!(refused(b"---\na: \x1b[0m\n---\n").contains("control character"));
}

#[test]
fn size_is_limited_and_the_limit_itself_is_fine() {
    let fitting = |n: usize| format!("---\n{}\n---\n", "#".repeat(n));
    assert!(read(fitting(LIMIT - 1)).is_ok());
    assert_eq!(refused(fitting(LIMIT)), "task.md:2: frontmatter is longer than 64 KiB");
    assert!(refused(fitting(LIMIT * 4)).contains("longer than 64 KiB"));
    let lines = format!("---\n{}---\n", "a: b\n".repeat(20_000));
    assert_eq!(refused(lines), "task.md:13108: frontmatter is longer than 64 KiB");
}

#[test]
fn nesting_bombs_are_refused_without_a_crash_or_a_wait() {
    let begun = std::time::Instant::now();
    let open = 60 * 1024;
    for bomb in [
        "[".repeat(open),
        "{".repeat(open),
        "[{".repeat(open / 2),
        "{a: ".repeat(open / 4),
        "- ".repeat(open / 2),
        "? ".repeat(open / 2),
        "[\n".repeat(open / 2),
        format!("x: {}{}", "[".repeat(200), "]".repeat(200)),
        "&a ".repeat(open / 3),
        "!t ".repeat(open / 3),
        "a: ".repeat(open / 3),
        "*".repeat(open),
        "'".repeat(open - 1),
        "x: \"".repeat(open / 4),
        "|\n".repeat(open / 2),
        "%".repeat(open),
        (0..300).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
    ] {
        let why = refused(format!("---\n{bomb}\n---\n"));
        assert!(why.starts_with("task.md:"), "{:.20}: {why}", bomb);
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_alias_bomb_is_only_a_foreign_key() {
    let mut text = String::from("---\na0: &a0 [x, x]\n");
    for n in 1..30 {
        text += &format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1);
    }
    assert!(read(text + "---\n").is_ok());
}

#[test]
fn what_is_no_readable_file_is_refused_at_once() {
    let s = Scratch::new();
    let why = |path: &Path| Document::read(path).unwrap_err().0;
    let none = s.path().join("none.md");
    assert!(why(&none).starts_with(&format!("document: path does not exist: {};", none.display())));
    assert!(why(s.path()).contains("is not a regular file"));
    let fifo = s.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(why(&fifo).contains("is not a regular file"));
    assert!(why(Path::new("/dev/zero")).contains("is not a regular file"));
    assert!(why(&s.file("f", "").join("x")).contains("cannot be resolved"));
    let odd = s.file("x", "").with_file_name(std::ffi::OsStr::from_bytes(b"caf\xE9.md"));
    fs::write(&odd, "---\nagent_doc_session: s\n---\n").unwrap();
    assert_eq!(Document::read(&odd).unwrap().path, odd);
}

#[test]
fn a_symlinked_document_is_the_file_it_points_to() {
    let s = Scratch::new();
    let real = s.file("real/task.md", "");
    let link = s.path().join("link.md");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(Document::read(&link).unwrap().path, real);
}

/// Pieces of YAML, glued at random: nearer to the parser's corners than plain noise.
fn yaml_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "env",
        "agent_doc_cwd",
        "agent_doc_session",
        ":",
        ": ",
        "-",
        "- ",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\n",
        "\n  ",
        "\n ",
        "\r\n",
        "\r",
        "\t",
        "&a",
        "*a",
        "!!str",
        "!t ",
        "|",
        ">",
        "|-\n",
        "'",
        "\"",
        "\\",
        "\\x",
        "#",
        " #",
        "%YAML 1.2\n",
        "%TAG ! x\n",
        "---",
        "...",
        "--- ",
        "~",
        "a",
        "<<",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "ä",
        "😀",
        "@",
        "`",
        "\\0",
        "0",
        "\n---\n",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

fn digest(bytes: &[u8]) {
    if let Ok(Some(yaml)) = cut(bytes) {
        let _ = frontmatter::parse(yaml);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        digest(&bytes);
        digest(&[b"---\n", &bytes[..], b"\n---\n"].concat());
    }

    #[test]
    fn yaml_like_text_never_panics(bytes in yaml_like()) {
        digest(&[b"---\n", &bytes[..], b"\n---\n"].concat());
    }
}
