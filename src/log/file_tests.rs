use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::log::sandbox;
use crate::log::tests::Dir;

fn sink(path: &Path) -> FileSink {
    FileSink::open(path, 1 << 20).expect("opens")
}

fn say(sink: &mut FileSink, text: &str) -> Result<Option<Loss>, ()> {
    sink.write(&[text.to_owned()], 9)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("readable")
}

#[test]
fn a_new_file_is_private_and_an_old_one_is_continued() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    say(&mut sink(&path), "one").expect("written");
    say(&mut sink(&path), "two").expect("written");
    assert_eq!(read(&path), "one\ntwo\n");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o7777, 0o600);
}

#[test]
fn only_a_regular_file_is_a_log() {
    let dir = Dir::new();
    let link = dir.join("link.log");
    fs::write(dir.join("target"), "").expect("written");
    symlink(dir.join("target"), &link).expect("linked");
    assert_eq!(FileSink::open(&link, 1).err().and_then(|e| e.raw_os_error()), Some(libc::ELOOP));

    let fifo = dir.join("fifo.log");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let error = FileSink::open(&fifo, 1).err().expect("refused");
    assert_eq!(error.to_string(), "not a regular file");
    assert!(FileSink::open(&dir.join("missing/s.log"), 1).is_err());
    assert!(FileSink::open(&dir, 1).is_err());
}

#[test]
fn half_a_line_from_a_crash_is_ended_before_the_next() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    fs::write(&path, "[1] [supervisor] hal").expect("written");
    let mut sink = sink(&path);
    say(&mut sink, "one").expect("written");
    say(&mut sink, "two").expect("written");
    assert_eq!(read(&path), "[1] [supervisor] hal\none\ntwo\n");
}

#[test]
fn a_full_file_is_put_aside_once() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    let old = dir.join("s.log.1");
    let mut sink = FileSink::open(&path, 100).expect("opens");
    let line = "x".repeat(39);
    say(&mut sink, &line).expect("written");
    say(&mut sink, &line).expect("written");
    assert!(!old.exists(), "80 of 100 bytes");
    say(&mut sink, &line).expect("written");
    assert_eq!(read(&old), format!("{line}\n{line}\n"));
    assert_eq!(read(&path), format!("[9] [supervisor] log_rotated file=s.log.1 size=80\n{line}\n"));

    say(&mut sink, &line).expect("written");
    assert!(read(&old).starts_with("[9] [supervisor] log_rotated"), "the first old file is gone");
    assert_eq!(fs::read_dir(&*dir).expect("listed").count(), 2);
    assert_eq!(sink.lost(), 0);
}

#[test]
fn a_file_that_cannot_be_put_aside_grows_on() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    fs::create_dir(dir.join("s.log.1")).expect("made");
    let mut sink = FileSink::open(&path, 10).expect("opens");
    for _ in 0..3 {
        say(&mut sink, "seven77").expect("written");
    }
    assert_eq!(read(&path), "seven77\n".repeat(3));
}

#[test]
fn a_line_longer_than_the_limit_is_still_written() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    let mut sink = FileSink::open(&path, 10).expect("opens");
    let line = "y".repeat(50);
    say(&mut sink, &line).expect("written");
    assert_eq!(read(&path), format!("{line}\n"));
}

#[test]
fn what_is_written_where_nobody_can_read_it_is_lost_and_counted() {
    let dir = Dir::new();
    let logs = dir.join("logs");
    fs::create_dir(&logs).expect("made");
    let mut sink = sink(&logs.join("s.log"));
    say(&mut sink, "one").expect("written");
    fs::remove_dir_all(&logs).expect("removed");
    fs::write(&logs, "").expect("no directory any more");
    assert!(say(&mut sink, "two").is_err());
    assert_eq!(sink.lost(), 1);
    fs::remove_file(&logs).expect("removed");
    fs::create_dir(&logs).expect("made");
    say(&mut sink, "three").expect("written");
    assert!(read(&logs.join("s.log")).ends_with("three\n"));
}

#[test]
fn a_file_deleted_or_moved_from_outside_is_begun_anew() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    let mut sink = sink(&path);
    say(&mut sink, "one").expect("written");
    fs::remove_file(&path).expect("removed");
    say(&mut sink, "two").expect("written");
    assert_eq!(read(&path), "two\n");
    fs::rename(&path, dir.join("moved")).expect("moved");
    say(&mut sink, "three").expect("written");
    assert_eq!(read(&path), "three\n");
    assert_eq!(read(&dir.join("moved")), "two\n");
}

#[test]
fn what_was_lost_is_said_first_when_the_directory_is_back() {
    let dir = Dir::new();
    let logs = dir.join("logs");
    let path = logs.join("s.log");
    fs::create_dir(&logs).expect("made");
    let mut sink = sink(&path);
    fs::remove_dir_all(&logs).expect("removed");
    assert!(say(&mut sink, "one").is_err());
    assert!(say(&mut sink, "two").is_err());
    fs::create_dir(&logs).expect("made");
    let ended = say(&mut sink, "three").expect("written").expect("a loss ended");
    assert_eq!(ended.lost, 2);
    assert_eq!(
        read(&path),
        "[9] [supervisor] log_lost sink=file lost=2 error=\"No such file or directory (os error 2)\"\nthree\n"
    );
    assert_eq!(say(&mut sink, "four"), Ok(None), "told once");
    assert_eq!(sink.lost(), 2);
}

#[test]
fn a_link_put_in_the_place_of_the_log_is_not_followed() {
    let dir = Dir::new();
    let path = dir.join("s.log");
    let mut sink = sink(&path);
    fs::remove_file(&path).expect("removed");
    symlink(dir.join("target"), &path).expect("linked");
    assert!(say(&mut sink, "one").is_err());
    assert!(!dir.join("target").exists());
}

#[test]
fn a_full_disk_costs_lines_but_never_tears_one() {
    if !sandbox::own_mounts("log::file::tests::a_full_disk_costs_lines_but_never_tears_one") {
        return;
    }
    let dir = Dir::new();
    let disk = dir.join("disk");
    sandbox::disk(&disk, "64k");
    let path = disk.join("s.log");
    let mut sink = sink(&path);
    fs::write(disk.join("filler"), vec![0; 40 << 10]).expect("fits");

    // 4096 is no multiple of 101: the last write is a short one.
    let line = "z".repeat(100);
    let mut written = 0;
    while say(&mut sink, &line).is_ok() {
        written += 1;
    }
    assert!(written > 100, "{written}");
    for _ in 0..9 {
        assert!(say(&mut sink, &line).is_err());
    }
    assert_eq!(read(&path), format!("{line}\n").repeat(written), "whole lines only");

    fs::remove_file(disk.join("filler")).expect("removed");
    let ended = say(&mut sink, "after").expect("written").expect("a loss ended");
    assert_eq!(ended.lost, 10);
    let tail = read(&path).split_off(written * 101);
    assert!(tail.starts_with("[9] [supervisor] log_lost sink=file lost=10 error="), "{tail}");
    assert!(tail.ends_with("\nafter\n"), "{tail}");
}

#[test]
fn a_disk_full_from_the_start_does_not_stop_the_start() {
    if !sandbox::own_mounts("log::file::tests::a_disk_full_from_the_start_does_not_stop_the_start") {
        return;
    }
    let dir = Dir::new();
    let disk = dir.join("disk");
    sandbox::disk(&disk, "64k,nr_inodes=2");
    fs::write(disk.join("filler"), "").expect("the last inode");
    let mut sink = sink(&disk.join("s.log"));
    assert!(say(&mut sink, "one").is_err());
    fs::remove_file(disk.join("filler")).expect("removed");
    assert_eq!(say(&mut sink, "two").expect("written").map(|loss| loss.lost), Some(1));
}
