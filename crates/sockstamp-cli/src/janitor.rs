//! `sockstamp janitor`: removes a command's cgroup when its parent is gone, also by `kill -9`.

use std::io::{self, Read};
use std::process::ExitCode;

use anyhow::Result;

use crate::{cgroup, cli};

pub(crate) fn run(options: &cli::Janitor) -> Result<ExitCode> {
    let cgroup = cgroup::root()?.join(&options.cgroup);
    // Nothing is ever written: reading ends when the parent does.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    cgroup::remove(&cgroup)?;
    Ok(ExitCode::SUCCESS)
}
