//! A stderr that nobody reads: it keeps lines from people, and no supervisor from ending.

use std::ffi::OsString;

use crate::support::{FAKE, Lab, Launch};

/// Starts its command on a stderr that has no room for a byte.
fn nobody_reads(lab: &Lab) -> Vec<OsString> {
    let fifo = lab.text("stderr");
    let script = format!(
        "mkfifo {fifo}; exec 9<>{fifo}; head -c 65536 /dev/zero >&9; \"$@\" 2>&9 9>&- & wait $!; exit $?"
    );
    ["sh", "-c", &script, "sh"].map(OsString::from).to_vec()
}

#[test]
fn a_child_of_a_node_halts_and_is_started_again_until_the_node_gives_up() {
    let lab = Lab::new();
    let file = lab.write(
        "team.toml",
        "[node]\nmax_restarts = 2\nwait = \"0s\"\n[[child]]\nid = \"a\"\ngrace = \"300ms\"\n\
         command = [\"sh\", \"-c\", \"exit 3\"]\n[child.policy]\nhalt_after = 1\n",
    );
    let ended = Launch::tree(&lab, &file).wrapped_in(nobody_reads(&lab)).end();
    ended.assert_code(70);
    assert_eq!(ended.log.matches("child_exit child=a").count(), 3, "{ended}");
}

/// What they say is in the log.
#[test]
fn lines_of_our_own_are_not_waited_for_as_output_is() {
    let lab = Lab::new();
    let launch = Launch::run(&lab, [FAKE, "exit", "0"]).with(["--restart", "no", "--grace", "60s"]);
    launch.wrapped_in(nobody_reads(&lab)).end().assert_code(0);
}

#[test]
fn a_halted_run_ends_with_the_code_of_its_agent() {
    let lab = Lab::new();
    let config = lab.write("run.toml", "[policy]\nhalt_after = 1\n");
    let launch = Launch::run(&lab, ["sh", "-c", "exit 3"]).with(["--config", &config, "--grace", "300ms"]);
    launch.wrapped_in(nobody_reads(&lab)).end().assert_code(3);
}
