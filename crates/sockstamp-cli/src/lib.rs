//! The command line of sockstamp: thin, one file a subcommand. A library so that the generator of
//! man pages and completions reads the same definition as the program.

#![forbid(unsafe_code)]

mod cgroup;
pub mod cli;
mod command;
mod completions;
mod container;
mod cumulative;
mod doctor;
pub mod filter;
mod groups;
mod interfaces;
mod janitor;
mod measure;
mod ping;
mod stat;
mod target;
mod text;
mod top;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Subcommand};

/// Runs the command line of this process.
///
/// Exit status: 0 done, 1 failed, 2 wrong usage; with a command, the command's own; of `ping`, ping(8)'s.
#[must_use]
pub fn run() -> ExitCode {
    let subcommand = Cli::parse().subcommand;
    let failed = match subcommand {
        Subcommand::Ping(_) => ping::FAILED,
        _ => 1,
    };
    let result = match subcommand {
        Subcommand::Stat(options) => stat::run(&options),
        Subcommand::Trace(options) => trace::run(&options),
        Subcommand::Top(options) => top::run(&options),
        Subcommand::Ping(options) => ping::run(&options),
        Subcommand::Doctor(options) => doctor::run(&options),
        Subcommand::Completions(options) => completions::run(&options),
        Subcommand::Janitor(options) => janitor::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("sockstamp: {error:#}");
        let status = error
            .downcast_ref::<command::CannotRun>()
            .map_or(failed, command::CannotRun::status);
        ExitCode::from(status)
    })
}
