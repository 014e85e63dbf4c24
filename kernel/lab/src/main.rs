//! Boots kernels of distributions in QEMU, and runs commands of this host in them.

#![forbid(unsafe_code)]

mod apt;
mod cache;
mod cpio;
mod debian;
mod guest;
mod image;
mod kernel;
mod libraries;
mod modules;
mod run;
mod setting;
mod shell;
mod test;

use std::process::ExitCode;

use clap::Parser;

/// Runs commands on the kernels that people run.
#[derive(Debug, Parser)]
#[command(name = "sockstamp-lab")]
enum Task {
    /// Run one command as root in a guest; its output and exit status are the command's
    Run(run::Arguments),
    /// Run the chosen tests of the workspace on every kernel
    Test(test::Arguments),
    /// Boot a guest with a shell on this terminal
    Shell(setting::Setting),
    /// Download and unpack kernels
    Fetch {
        /// Which; all if none is given
        versions: Vec<debian::DebianKernel>,
    },
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Run(arguments) => run::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Shell(setting) => shell::run(&setting),
        Task::Fetch { versions } => kernel::fetch(&versions).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("sockstamp-lab: {error:#}");
        ExitCode::FAILURE
    })
}
