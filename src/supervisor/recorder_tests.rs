use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::log::sandbox;

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let template = std::env::temp_dir().join("agentsup-recorder-XXXXXX");
        Dir(nix::unistd::mkdtemp(&template).expect("made"))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SIZE: Size = Size { cols: 80, rows: 24 };

fn open(path: &Path) -> Result<Recorder, String> {
    let settings = RecordSettings { file: path.to_owned(), input: false };
    Recorder::open(&settings, SIZE, Header::new("t", None, None)).map_err(|refused| {
        assert_eq!(refused.code, 78);
        refused.message
    })
}

fn say(recorder: &mut Recorder, text: &str) -> Option<News> {
    recorder.recording.output(text.as_bytes(), Instant::now());
    recorder.flush(Take::All, Instant::now())
}

/// Every line is whole; the texts of its outputs, and the labels of its markers.
fn read(path: &Path) -> (String, Vec<String>) {
    let text = fs::read_to_string(path).expect("readable");
    assert!(text.ends_with('\n'), "{text}");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let header = lines.next().expect("a header");
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&2.into(), &80.into(), &24.into())
    );
    let (mut output, mut markers, mut latest) = (String::new(), Vec::new(), 0.0);
    for event in lines {
        let text = event[2].as_str().expect("text");
        let at = event[0].as_f64().expect("a time");
        assert!(at >= latest, "{event}");
        latest = at;
        match event[1].as_str() {
            Some("o") => output.push_str(text),
            Some("m") => markers.push(text.to_owned()),
            _ => panic!("{event}"),
        }
    }
    (output, markers)
}

#[test]
fn a_new_file_is_private_and_one_old_file_is_kept() {
    let dir = Dir::new();
    let path = dir.join("r.cast");
    for text in ["one", "two", "three"] {
        say(&mut open(&path).unwrap(), text);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!((read(&path).0, read(&dir.join("r.cast.1")).0), ("three".into(), "two".into()));
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 2);

    // An empty file is not worth the one that it would replace.
    fs::write(&path, "").unwrap();
    say(&mut open(&path).unwrap(), "four");
    assert_eq!((read(&path).0, read(&dir.join("r.cast.1")).0), ("four".into(), "two".into()));
}

#[test]
fn what_cannot_be_recorded_to_is_refused_and_stays_as_it_is() {
    let dir = Dir::new();
    let target = dir.join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, dir.join("link")).unwrap();
    nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, why) in [
        ("link", "it is a symbolic link"),
        ("fifo", "it is no regular file"),
        (".", "it is a directory"),
        ("missing/r.cast", "it lies in no directory that exists"),
        ("target/r.cast", "it lies in no directory that exists"),
    ] {
        let refused = open(&dir.join(name)).err().expect(name);
        assert!(refused.contains(why) && refused.ends_with("choose another file with --record"), "{refused}");
    }
    assert!(open(Path::new("/dev/null")).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 3);

    fs::create_dir(dir.join("target.1")).unwrap();
    let refused = open(&target).err().expect("what is there cannot be kept");
    assert!(refused.contains("cannot be kept as"), "{refused}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
}

#[test]
fn two_do_not_record_to_one_file() {
    let dir = Dir::new();
    let path = dir.join("r.cast");
    let mut first = open(&path).unwrap();
    let refused = open(&path).err().expect("it is taken");
    assert!(refused.contains("another agentsup is recording to it"), "{refused}");
    say(&mut first, "still here");
    assert_eq!(read(&path).0, "still here");
    drop(first);
    assert!(open(&path).is_ok());
}

#[test]
fn a_file_that_is_gone_or_another_is_begun_anew() {
    let dir = Dir::new();
    let path = dir.join("r.cast");
    let mut recorder = open(&path).unwrap();
    say(&mut recorder, "one");
    fs::remove_file(&path).unwrap();
    say(&mut recorder, "two");
    assert_eq!(read(&path).0, "two");
    fs::rename(&path, dir.join("moved")).unwrap();
    say(&mut recorder, "three");
    assert_eq!((read(&path).0, read(&dir.join("moved")).0), ("three".into(), "two".into()));
    // Emptied, edited in place: it would not be a recording any more.
    fs::File::create(&path).unwrap();
    say(&mut recorder, "four");
    assert_eq!(read(&path).0, "four");
    fs::write(&path, "something else").unwrap();
    say(&mut recorder, "five");
    assert_eq!(
        (read(&path).0, fs::read_to_string(dir.join("r.cast.1")).unwrap().as_str()),
        ("five".into(), "something else")
    );
    assert_eq!(recorder.total, 0);
}

#[test]
fn a_link_put_in_its_place_is_not_followed_and_the_loss_is_counted() {
    let dir = Dir::new();
    let path = dir.join("r.cast");
    let mut recorder = open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(dir.join("target"), &path).unwrap();
    assert!(matches!(say(&mut recorder, "one"), Some(News::Fails(why)) if why == "it is a symbolic link"));
    assert!(say(&mut recorder, "two").is_none(), "said once");
    assert!(!dir.join("target").exists());
    fs::remove_file(&path).unwrap();
    assert!(matches!(say(&mut recorder, "three"), Some(News::GoesOn { lost: 2 })));
    assert_eq!(
        read(&path),
        ("three".into(), vec!["2 events are missing here: it is a symbolic link".into()])
    );
    assert!(say(&mut recorder, "four").is_none(), "told once");
    assert_eq!((read(&path).1.len(), recorder.total), (1, 2));
}

#[test]
fn a_full_disk_costs_events_but_never_tears_a_line() {
    if !sandbox::own_mounts("supervisor::recorder::tests::a_full_disk_costs_events_but_never_tears_a_line") {
        return;
    }
    let dir = Dir::new();
    let disk = dir.join("disk");
    sandbox::disk(&disk, "64k");
    let path = disk.join("r.cast");
    let mut recorder = open(&path).unwrap();
    fs::write(disk.join("filler"), vec![0; 40 << 10]).unwrap();
    let text = "z".repeat(10_000);
    let mut written = 0;
    while say(&mut recorder, &text).is_none() {
        written += 1;
        assert_eq!(read(&path).0, text.repeat(written));
    }
    assert!(written > 0);
    for _ in 0..9 {
        assert!(say(&mut recorder, &text).is_none());
    }
    assert_eq!(read(&path).0, text.repeat(written), "whole lines only");
    fs::remove_file(disk.join("filler")).unwrap();
    assert!(matches!(say(&mut recorder, "after"), Some(News::GoesOn { lost: 10 })));
    let (output, markers) = read(&path);
    assert!(output.ends_with("zzafter"), "{output}");
    assert!(markers[0].starts_with("10 events are missing here: No space left on device"), "{markers:?}");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_refused() {
    if !sandbox::own_mounts("supervisor::recorder::tests::a_disk_that_is_full_from_the_start_is_refused") {
        return;
    }
    let dir = Dir::new();
    let disk = dir.join("disk");
    sandbox::disk(&disk, "64k");
    fs::write(disk.join("filler"), vec![0; 64 << 10]).unwrap();
    let refused = open(&disk.join("r.cast")).err().expect("no room");
    assert!(refused.contains("No space left on device"), "{refused}");
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn nothing_unwritten_is_nothing_to_do() {
    let dir = Dir::new();
    let path = dir.join("r.cast");
    let mut recorder = open(&path).unwrap();
    assert_eq!(recorder.deadline(), None);
    fs::remove_file(&path).unwrap();
    assert!(recorder.flush(Take::All, Instant::now() + Duration::from_secs(9)).is_none());
    assert!(!path.exists());
    recorder.begin(Vec::new(), SIZE, Start::Fresh);
    assert!(recorder.deadline().is_some());
    recorder.resize(SIZE, Instant::now());
    recorder.flush(Take::All, Instant::now());
    assert_eq!(read(&path), (String::new(), vec!["agent started (fresh)".into()]));
}
