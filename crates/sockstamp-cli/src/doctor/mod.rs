//! `sockstamp doctor`: show facts, the resulting plan, and how to get what is missing.

mod json;
mod library;
mod nic;
mod report;
mod self_test;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_bpf::{plan, probe};
use sockstamp_print::destination::Stream;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_run::command::Prepared;

use crate::stat::{self, Format};
use report::Report;

/// Options of `doctor`: those of `stat`, so that any of its command lines can be asked about.
#[derive(Debug, Args)]
// Clap names the group of `stat`'s options alike.
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    stat: stat::Options,

    /// Show this interface's NIC alone: what it can stamp, what is set, its clock, and who uses it
    ///
    /// The interface is one of this network namespace. The command that would enable what is
    /// missing is printed, and nothing is changed. To compare the clock needs the permission to
    /// read its device, which root has.
    #[arg(long, value_name = "INTERFACE", help_heading = "NIC")]
    nic: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let Options { stat: options, nic } = options;
    if options.format == Format::Csv {
        let told = "doctor prints text or JSON: leave out --format csv";
        return Err(WrongUse(told.to_owned()).into());
    }
    let mut output = options.output.open(Stream::Output)?;
    let brush = options.colours.brush_for(&options.output, Stream::Output);
    if let Some(name) = nic {
        let nic = nic::Nic::gather(name)?;
        let printed = match options.format {
            Format::Json => json::printed(&nic.json())?,
            Format::Text | Format::Csv => {
                let mut text = String::new();
                text::section(&mut text, name, nic.lines(), brush);
                text
            }
        };
        return write(output.as_mut(), &printed).map(|()| ExitCode::SUCCESS);
    }
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
        Format::Text | Format::Csv => text::report(&report, brush),
    };
    write(output.as_mut(), &printed)?;
    Ok(match report.can_measure() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Write everything. A reader that has seen enough is no failure.
fn write(output: &mut dyn Write, text: &str) -> Result<()> {
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write")
        }
        _ => Ok(()),
    }
}
