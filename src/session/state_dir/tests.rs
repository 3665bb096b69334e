use std::os::unix::fs::symlink;

use super::*;
use crate::session::testing::Scratch;

fn named(path: &Path) -> Vec<StateDir> {
    candidates(Some(path), None, None, None, 7)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn me() -> u32 {
    Uid::effective().as_raw()
}

#[test]
fn a_named_place_is_the_only_one() {
    let (a, b, c) = (Path::new("/a"), Path::new("/b"), Path::new("/c"));
    let only = |source, path: &str| vec![StateDir { path: path.into(), source }];
    assert_eq!(candidates(Some(a), Some(b), Some(c), Some(c), 7), only("--dir", "/a"));
    assert_eq!(candidates(None, Some(b), Some(c), Some(c), 7), only("$AGENTSUP_DIR", "/b"));
}

#[test]
fn the_others_come_in_their_order() {
    let (p, x) = (Path::new("/p"), Path::new("/run/user/7"));
    let paths = |env, project, xdg| -> Vec<String> {
        let all = candidates(None, env, project, xdg, 7);
        all.iter().map(|c| c.path.display().to_string()).collect()
    };
    let all = ["/p/.agent-doc", "/run/agentsup", "/run/user/7/agentsup", "/tmp/agentsup-7"];
    assert_eq!(paths(None, Some(p), Some(x)), all);
    let empty = Some(Path::new(""));
    assert_eq!(paths(empty, None, Some(Path::new("rel"))), ["/run/agentsup", "/tmp/agentsup-7"]);
}

#[test]
fn project_root_is_the_nearest_with_a_directory() {
    let s = Scratch::new();
    s.dir("a/.agent-doc");
    s.file("a/b/.agent-doc", "a file is none");
    assert_eq!(project_root(&s.dir("a/b/c")), Some(s.path().join("a")));
    assert_eq!(project_root(&s.path().join("a")), Some(s.path().join("a")));
}

#[test]
fn a_named_place_is_made_with_its_parents_and_private() {
    let s = Scratch::new();
    let dir = s.path().join("x/y");
    let seen = choose(&named(&dir)).unwrap();
    assert!(!s.path().join("x").exists(), "choose makes nothing");
    let made = make(&named(&dir)).unwrap();
    assert_eq!(made, seen);
    assert_eq!(made, StateDir { path: dir.clone(), source: "--dir" });
    for path in [dir.clone(), dir.join("supervisor"), dir.join("logs"), dir.join("claims")] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    assert_eq!(made.socket("s"), dir.join("supervisor/s.sock"));
    assert_eq!(made.lock("s"), dir.join("supervisor/s.lock"));
    assert_eq!(made.record("s"), dir.join("supervisor/s.json"));
    assert_eq!(made.log("s"), dir.join("logs/s.log"));
    assert_eq!(make(&named(&dir)), Ok(made), "a second time changes nothing");
}

#[test]
fn existing_directories_keep_their_mode() {
    let s = Scratch::new();
    let dir = s.dir("d");
    s.dir("d/logs");
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("logs"), Permissions::from_mode(0o750)).unwrap();
    make(&named(&dir)).unwrap();
    assert_eq!((mode(&dir), mode(&dir.join("logs"))), (0o755, 0o750));
    assert_eq!(mode(&dir.join("supervisor")), 0o700);
}

#[test]
fn a_symlink_is_refused_wherever_it_stands() {
    let s = Scratch::new();
    let real = s.dir("real");
    let link = s.path().join("link");
    symlink(&real, &link).unwrap();
    let with_slash = PathBuf::from(format!("{}/", link.display()));
    for path in [&link, &with_slash] {
        for try_it in [make, choose] {
            let why = try_it(&named(path)).unwrap_err().0;
            assert!(why.contains("is a symlink") && why.contains("--dir"), "{why}");
        }
    }
    symlink(&real, real.join("supervisor")).unwrap();
    for try_it in [make, choose] {
        let why = try_it(&named(&real)).unwrap_err().0;
        assert!(why.contains("supervisor is a symlink"), "{why}");
    }
}

#[test]
fn a_symlinked_parent_is_resolved() {
    let s = Scratch::new();
    let real = s.dir("real");
    symlink(&real, s.path().join("link")).unwrap();
    let made = make(&named(&s.path().join("link/state"))).unwrap();
    assert_eq!(made.path, real.join("state"));
}

#[test]
fn a_trap_is_not_passed_over_for_the_next_candidate() {
    let s = Scratch::new();
    symlink(s.dir("real"), s.path().join("trap")).unwrap();
    let place = |name| StateDir { path: s.path().join(name), source: "/tmp" };
    assert!(make(&[place("trap"), place("fine")]).is_err());
    assert!(!s.path().join("fine").exists());
}

#[test]
fn another_owner_is_refused_and_root_is_fine_only_outside() {
    let s = Scratch::new();
    let dir = s.dir("d");
    // Seen by another uid, what we own is somebody else's.
    let stranger = me() + 4242;
    let outer = check_own(&dir, stranger, Root::IsFine);
    let inner = check_own(&dir, stranger, Root::IsForeign);
    assert!(matches!(inner, Err(Unfit::Unsafe(why)) if why.contains("belongs to uid")));
    assert_eq!(outer.is_ok(), me() == 0);
    assert!(check_own(Path::new("/"), stranger, Root::IsFine).is_ok());
    assert!(matches!(check_own(Path::new("/"), stranger, Root::IsForeign), Err(Unfit::Unsafe(_))));
}

#[test]
fn root_does_not_take_over_directories_of_others() {
    if me() != 0 {
        return;
    }
    let s = Scratch::new();
    let dir = s.dir("d");
    std::os::unix::fs::chown(s.dir("d/supervisor"), Some(1234), None).unwrap();
    for try_it in [make, choose] {
        let why = try_it(&named(&dir)).unwrap_err().0;
        assert!(why.contains("belongs to uid 1234, not to uid 0"), "{why}");
    }
}

#[test]
fn a_place_that_cannot_be_used_gives_way_to_the_next() {
    let s = Scratch::new();
    let file = s.file("file", "");
    let place = |path: PathBuf| StateDir { path, source: "$XDG_RUNTIME_DIR" };
    let list = [
        place(file.join("below")),
        place(s.path().join("no-parent/x")),
        place(file),
        place(s.path().join("good")),
    ];
    for try_it in [choose, make] {
        assert_eq!(try_it(&list).unwrap().path, s.path().join("good"));
    }
    let why = make(&list[..3]).unwrap_err().0;
    assert!(why.contains("Not a directory") && why.contains("--dir"), "{why}");
    assert!(why.contains("No such file"), "{why}");
}

#[test]
fn a_named_place_that_fails_says_so() {
    let s = Scratch::new();
    let file = s.file("file", "");
    for try_it in [make, choose] {
        let why = try_it(&named(&file.join("x"))).unwrap_err().0;
        assert!(why.contains("--dir: ") && why.contains("file"), "{why}");
        assert!(try_it(&named(Path::new(""))).is_err());
    }
}

#[test]
fn a_read_only_place_is_not_usable() {
    // /proc takes no directories, from nobody.
    let list = [StateDir { path: "/proc/agentsup".into(), source: "/run" }];
    assert!(make(&list).is_err());
}

#[test]
fn a_place_of_root_is_passed_over_where_it_cannot_be_written() {
    if me() == 0 {
        return;
    }
    let s = Scratch::new();
    let place = |path: &Path| StateDir { path: path.into(), source: "/run" };
    let list = [place(Path::new("/usr")), place(&s.path().join("good"))];
    for try_it in [choose, make] {
        assert_eq!(try_it(&list).unwrap().path, s.path().join("good"));
    }
}
