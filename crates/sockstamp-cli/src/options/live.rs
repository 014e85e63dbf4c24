//! The options of what measures until a command, a duration or the user ends it.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use sockstamp_run::duration::lasting;

use super::measuring::Measuring;
use super::target::Target;

/// The options of a measurement that runs, of a target or of what else is named.
#[derive(Debug, Args)]
pub struct Live<T: Args = Target> {
    #[command(flatten)]
    /// The target.
    pub target: T,
    #[command(flatten)]
    /// Options of measuring.
    pub measuring: Measuring,
    /// Stop after this time: a number with us, ms, s (default), m or h
    #[arg(short, long, value_name = "TIME", value_parser = lasting)]
    pub duration: Option<Duration>,
    /// Run this command and measure only it
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}
