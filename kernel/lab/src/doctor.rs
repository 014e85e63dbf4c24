//! Ask `sockstamp doctor` on kernels of another processor than this host's, whose tests are not run
//! there.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::arch::Arch;
use crate::choice::Choice;
use crate::guest::{Guest, Time};
use crate::image::Image;
use crate::test;

/// The path of the program in guests.
const PROGRAM: &str = "/usr/bin/sockstamp";
/// Most of it is the emulated start of the kernel.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Kernels, as for `run`; all of Debian's if none is given
    #[arg(long = "kernel", value_name = "KERNEL")]
    kernels: Vec<Choice>,
    /// The processor
    #[arg(long, value_enum, default_value = "arm64")]
    arch: Arch,
    /// Keep the output as the results of these kernels
    #[arg(long)]
    bless: bool,
    /// sockstamp, built for the processor
    program: PathBuf,
}

/// Fails if the output is not what is kept.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut choices = arguments.kernels.clone();
    if choices.is_empty() {
        choices = Choice::all_of_debian(arguments.arch);
    }
    let mut good = true;
    for choice in &choices {
        good &= ask(choice, arguments)?;
    }
    println!("left out: kernel/lab/tests.txt, whose tests run on amd64 alone");
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn ask(choice: &Choice, arguments: &Arguments) -> Result<bool> {
    let kernel = choice.get(arguments.arch)?;
    let mut image = Image::new(arguments.arch)?;
    image.modules(&kernel)?;
    image.host_file(&arguments.program, Path::new(PROGRAM))?;
    let command = format!("{PROGRAM} doctor --format json");
    image.file("/lab/command", 0o644, command.into_bytes());
    let console = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let guest = Guest {
        kernel: &kernel,
        image: &image,
        machine: Time::Host.machine(),
        time_limit: TIME_LIMIT,
        console: console.path(),
    };
    let mut output = Vec::new();
    guest.run(&mut output, io::stderr())?;
    let name = format!("{}/{}", arguments.arch.name(), kernel.name);
    println!("{name}: doctor ran");
    test::conclude_doctor(&name, &String::from_utf8_lossy(&output), arguments.bless)
}
