//! `sockstamp janitor`: remove a command's cgroup when its parent has ended, even by `kill -9`.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sockstamp_run::command::remove_cgroup;

/// Options of the process that removes a command's cgroup.
#[derive(Debug, Args)]
pub struct Options {
    /// The cgroup, from the root of the hierarchy.
    pub cgroup: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let cgroup = sockstamp_host::cgroup::root()?.join(&options.cgroup);
    // No byte is ever written: reading ends when the parent does.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    remove_cgroup(&cgroup)?;
    Ok(ExitCode::SUCCESS)
}
