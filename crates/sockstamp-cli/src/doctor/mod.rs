//! `sockstamp doctor`: show facts, the resulting plan, and how to get what is missing.

mod json;
mod library;
mod report;
mod self_test;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use sockstamp_bpf::{plan, probe};
use sockstamp_run::command::Prepared;

use crate::print::output;
use crate::stat::{self, Format};
use report::Report;

/// Options of `doctor`: those of `stat`, so that any of its command lines can be asked about.
pub use crate::stat::Options;

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.format == Format::Csv {
        bail!("doctor prints text or JSON, no CSV");
    }
    let mut output = match &options.output {
        Some(path) => output::create(path)?,
        None => Box::new(io::stdout()),
    };
    let mut of_stat = stat::measurement(options).options()?;
    let facts = probe::facts();
    // The command does not run, but its cgroup may admit other programs than the host's.
    let place = match plan::obstacles(&facts, &of_stat.request())[..] {
        [] if !options.live.command.is_empty() => Some(Prepared::new(&options.live.command)?),
        _ => None,
    };
    if let Some(place) = &place {
        of_stat.target.cgroup = Some(place.cgroup().to_owned());
    }
    let report = Report::gather(&facts, &of_stat)?;
    let printed = match options.format {
        Format::Json => json::line(&report)?,
        Format::Text | Format::Csv => text::report(&report),
    };
    let written = output
        .write_all(printed.as_bytes())
        .and_then(|()| output.flush());
    match written {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write")
        }
        _ => Ok(match report.can_measure() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }),
    }
}
