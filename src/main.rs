//! The words of the command line in, an exit code out; only here does the process end.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use agentsup::cli;

#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: agentsup::os::heap::Heap = agentsup::os::heap::Heap::new();

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().skip(1).collect();
    match cli::go(&argv) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if failure.message.is_empty() {
                return ExitCode::from(failure.code);
            }
            // Not eprintln!: a closed stderr must not turn a refusal into a panic.
            let _ = writeln!(std::io::stderr(), "agentsup: {}", failure.shown());
            ExitCode::from(failure.code)
        }
    }
}
