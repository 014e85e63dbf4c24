//! The `sockstamp` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sockstamp_cli::run()
}
