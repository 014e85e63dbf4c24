//! `sockstamp doctor`: show facts, the resulting plan, and how to get what is missing.

mod json;
mod library;
mod report;
mod self_test;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::measure::Measurement;
use crate::measuring::Measuring;
use crate::output::Format;
use crate::target::Target;
use report::Report;

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The target.
    pub target: Target,
    #[command(flatten)]
    /// Options of measuring.
    pub measuring: Measuring,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let request = Measurement::of(&options.target, &options.measuring)
        .options()?
        .request();
    let report = Report::gather(&request)?;
    let printed = match options.format {
        Format::Text => text::report(&report),
        Format::Json => json::line(&report)?,
    };
    match io::stdout().write_all(printed.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
