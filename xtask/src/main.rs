//! Run development tasks: `cargo xtask test` runs tests, `cargo xtask generate` writes the
//! generated files that are checked in.

#![forbid(unsafe_code)]

mod architecture;
mod imports;
mod includes;
mod root;
mod test;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Parser;

use root::root;

/// Development tasks of sockstamp.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Write man pages, completions, and the references of stages and kernels to docs/
    Generate {
        /// Write nothing; fail if a file is not as it would be generated, or if `imports` fails
        #[arg(long)]
        check: bool,
    },
    /// Fail if ARCHITECTURE.md has another table of crates than `cargo metadata` gives, or other
    /// imports than the files, or if files, or folders of the BPF programs, know each other in a
    /// circle
    Imports,
    /// Run steps of the tests; without any named, those of `make test`
    Test(test::Options),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Generate { check } => generate(check).map(|()| ExitCode::SUCCESS),
        Task::Imports => imports().map(|()| ExitCode::SUCCESS),
        Task::Test(options) => test::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

/// Call the generator, which links most of sockstamp and is therefore a program of its own.
fn generate(check: bool) -> Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "xtask-docs", "--"])
        .args(check.then_some("--check"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "xtask-docs: {status}");
    if check { imports() } else { Ok(()) }
}

fn imports() -> Result<()> {
    architecture::check(root())?;
    imports::check(root())?;
    includes::check(root())
}
