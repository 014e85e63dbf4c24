//! `sockstamp reader`: read memory of other processes for the parent, which must not wait for pages
//! that never come.

use std::process::{Command, ExitCode};

use anyhow::Result;
use sockstamp_host::memory;
use sockstamp_run::capabilities::{self, Capability};

/// The files of a task are its user's; other users' memory takes both.
const NEEDED: [Capability; 2] = [Capability::CAP_SYS_PTRACE, Capability::CAP_DAC_READ_SEARCH];

pub(crate) fn run() -> Result<ExitCode> {
    capabilities::keep(&NEEDED);
    memory::serve()?;
    Ok(ExitCode::SUCCESS)
}

/// Return the command that starts it.
pub(crate) fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("reader");
    command
}
