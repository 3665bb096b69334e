//! For tests that need a file system of their own: a small disk to fill, or a `/run` with another
//! journald in it.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};

const MARK: &str = "AGENTSUP_TEST_OWN_MOUNTS";

/// True inside a mount namespace that ends with the test. Outside, it runs `test` (its full name)
/// again in one, fails if that fails, and returns false.
pub fn own_mounts(test: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        if !nix::unistd::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        // A network of its own has the default of ten waiting datagrams, which systemd raises.
        command.args(["--mount", "--net", "--"]);
        command
    };
    let possible = unshare().args(["mount", "-t", "tmpfs", "none", "/tmp"]).output();
    if !possible.as_ref().is_ok_and(|out| out.status.success()) {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{test}: cannot mount: {possible:?}");
        // Straight to stderr: what the macros print, the test harness keeps to itself.
        writeln!(std::io::stderr(), "SKIPPED {test}: needs a mount namespace").expect("stderr");
        return false;
    }
    let inner = unshare()
        .arg(std::env::current_exe().expect("this test"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .expect("unshare has just worked");
    let said = String::from_utf8_lossy(&inner.stdout);
    let cried = String::from_utf8_lossy(&inner.stderr);
    assert!(inner.status.success() && said.contains("1 passed"), "{said}\n{cried}");
    false
}

/// A disk of `size` bytes over `at`.
pub fn disk(at: &Path, size: &str) {
    std::fs::create_dir_all(at).expect("a place to mount on");
    let options = format!("size={size}");
    mount(Some("none"), at, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).expect("tmpfs");
}
