//! Run the programs that build a kernel.

use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};

/// Run a program that reports its own errors.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}

/// Return the number of jobs that run at a time.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
