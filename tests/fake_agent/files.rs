//! Verbs that leave something in a file.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use crate::{leave, signals, tell};

/// A line in `file` for each start; the first `n` starts end with `code`, later ones stay.
pub fn crash_then(file: &str, n: usize, code: i32) -> ! {
    let mut marks = OpenOptions::new().create(true).append(true).open(file).expect("marks");
    writeln!(marks, "started").expect("marks");
    if fs::read_to_string(file).expect("marks").lines().count() <= n {
        leave(code);
    }
    signals::wait()
}

/// `FILE.1`, `FILE.2`, …: the environment exactly as the kernel handed it over; with `.where` added,
/// four views of the working directory; with `.argv`, the arguments. Then it exits or waits.
pub fn env0(file: &str, code: Option<i32>) -> ! {
    let nth = (1..).find(|n| !fs::exists(format!("{file}.{n}")).expect("stat")).expect("a free number");
    let linked = fs::read_link("/proc/self/cwd").expect("/proc/self/cwd");
    let pwd = std::env::var_os("PWD").unwrap_or_default();
    let physical = std::process::Command::new("/bin/pwd").arg("-P").output().expect("pwd").stdout;
    let logical = std::process::Command::new("/bin/pwd").arg("-L").output().expect("pwd").stdout;
    let place = [linked.as_os_str().as_bytes(), pwd.as_bytes(), physical.trim_ascii(), logical.trim_ascii()];
    fs::write(format!("{file}.{nth}.where"), place.join(&b'\n')).expect("where");
    fs::copy("/proc/self/cmdline", format!("{file}.{nth}.argv")).expect("argv");
    let environment = fs::read("/proc/self/environ").expect("environ");
    fs::write(format!("{file}.{nth}"), environment).expect("environment");
    tell(&format!("DUMPED {nth}\n"));
    match code {
        Some(code) => leave(code),
        None => signals::wait(),
    }
}

/// Fills the file system that `file` is on, then waits for the end; real-time signals pass by.
pub fn fill(file: &str) -> ! {
    (34..=64).for_each(crate::sys::ignore);
    let mut ballast = fs::File::create(file).expect("ballast");
    for size in [4096, 64, 1] {
        let block = vec![b'x'; size];
        while ballast.write_all(&block).is_ok() {}
    }
    // Open, it would keep its space even when somebody removes it.
    drop(ballast);
    signals::wait()
}
