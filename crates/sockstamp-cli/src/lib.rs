//! The command line of sockstamp: thin, one file a subcommand. A library so that the generator of
//! man pages and completions reads the same definition as the program.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `escape` has the ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod cgroup;
pub mod cli;
mod command;
mod completions;
mod container;
mod cumulative;
mod doctor;
mod escape;
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
use sockstamp_model::name::shows;

use crate::cli::{Cli, Subcommand};

/// Says why the arguments are none, or gives the help that they ask for.
fn refuse(error: clap::Error) -> Cli {
    let text = error.render().to_string();
    // In colours where nothing in it is hostile: the arguments may be what a script was handed.
    if text
        .chars()
        .all(|character| shows(character) || character == '\n')
    {
        error.exit();
    }
    escape::complain_lines(&text);
    std::process::exit(error.exit_code())
}

/// Runs the command line of this process.
///
/// Exit status: 0 done, 1 failed, 2 wrong usage; with a command, the command's own; of `ping`, ping(8)'s.
#[must_use]
pub fn run() -> ExitCode {
    let subcommand = Cli::try_parse().unwrap_or_else(refuse).subcommand;
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
        escape::complain(format_args!("{error:#}"));
        let status = error
            .downcast_ref::<command::CannotRun>()
            .map_or(failed, command::CannotRun::status);
        ExitCode::from(status)
    })
}
