//! Boots kernels of distributions in QEMU, and runs commands of this host in them.

#![forbid(unsafe_code)]

mod apt;
mod arch;
mod cache;
mod choice;
mod cpio;
mod debian;
mod doctor;
mod guest;
mod igb;
mod image;
mod kernel;
mod libraries;
mod modules;
mod nic;
mod package;
mod release;
mod run;
mod series;
mod setting;
mod shell;
mod test;
mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use arch::Arch;
use choice::Choice;

/// Runs commands on the kernels that people run.
#[derive(Debug, Parser)]
#[command(name = "sockstamp-lab")]
enum Task {
    /// Run one command as root in a guest; its output and exit status are the command's
    Run(run::Arguments),
    /// Run the chosen tests of the workspace on every kernel
    Test(test::Arguments),
    /// Compare the output of `sockstamp doctor` with what is kept, on kernels of another processor
    Doctor(doctor::Arguments),
    /// Boot a guest with a shell on this terminal
    Shell(setting::Setting),
    /// Get kernels into the cache, and print the paths of their images
    Fetch {
        /// Kernels, as for `run`; all of Debian's if none is given
        kernels: Vec<Choice>,
        /// The processor
        #[arg(long, value_enum, default_value_t)]
        arch: Arch,
    },
    /// Count the instructions of a message that sockstamp measures, on Debian's newest kernel
    Count(series::CountArguments),
    /// Build the kernel of kernel/series, run its selftests in a guest, and count the instructions
    /// of each message
    Series(series::Arguments),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Run(arguments) => run::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Doctor(arguments) => doctor::run(&arguments),
        Task::Shell(setting) => shell::run(&setting),
        Task::Fetch { kernels, arch } => fetch(kernels, arch),
        Task::Count(arguments) => series::count_on_debian(&arguments),
        Task::Series(arguments) => series::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("sockstamp-lab: {error:#}");
        ExitCode::FAILURE
    })
}

fn fetch(mut kernels: Vec<Choice>, arch: Arch) -> Result<ExitCode> {
    if kernels.is_empty() {
        kernels = Choice::all_of_debian(arch);
    }
    for kernel in kernels {
        let kernel = kernel.get(arch)?;
        println!("{}: {}", kernel.name, kernel.image.display());
    }
    Ok(ExitCode::SUCCESS)
}
