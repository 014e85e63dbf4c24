//! `sockstamp stat`: distributions of the stages, counted in the kernel.

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use sockstamp_model::group::Grouping;
use sockstamp_model::summary::Summary;

use crate::cli::{self, StatFormat};
use crate::measure::{self, Measurement};
use crate::{command, cumulative, escape, groups, text};

pub(crate) fn run(options: &cli::Stat) -> Result<ExitCode> {
    let mut output = output(options)?;
    let measurement = Measurement {
        target: &options.target,
        command: &options.command,
        duration: options.duration,
        measuring: &options.measuring,
        slower_than: None,
        record: false,
        groups: Grouping::new(options.by.iter().copied()),
    };
    let outcome = measure::run(&measurement, |_| {}, || true)?;
    let summary = &outcome.summary;
    let printed = if options.cumulative {
        print_cumulative(&mut output, summary, options.format)
    } else {
        print(&mut output, summary, options)
    };
    printed.context("cannot print the table")?;
    Ok(outcome.status.map_or(ExitCode::SUCCESS, command::exit_code))
}

/// Standard output is the command's, where there is one.
fn output(options: &cli::Stat) -> Result<Box<dyn Write>> {
    Ok(match &options.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(io::BufWriter::new(file))
        }
        None if options.command.is_empty() => Box::new(io::stdout()),
        None => Box::new(io::stderr()),
    })
}

fn print(output: &mut dyn Write, summary: &Summary, options: &cli::Stat) -> io::Result<()> {
    match (options.format, &summary.groups) {
        (StatFormat::Text, None) => text::table(output, summary)?,
        (StatFormat::Text, Some(groups)) => {
            text::table(output, summary)?;
            groups::table(output, groups, options.top)?;
        }
        (StatFormat::Csv, None) => text::csv(output, summary)?,
        (StatFormat::Csv, Some(groups)) => groups::csv(output, groups)?,
        (StatFormat::Json, _) => {
            escape::json(&mut *output, summary)?;
            writeln!(output)?;
        }
    }
    output.flush()
}

fn print_cumulative(output: &mut dyn Write, summary: &Summary, format: StatFormat) -> io::Result<()> {
    match format {
        StatFormat::Text => cumulative::table(output, summary)?,
        StatFormat::Csv => cumulative::csv(output, summary)?,
        StatFormat::Json => {
            escape::json(&mut *output, &cumulative::Json::new(summary))?;
            writeln!(output)?;
        }
    }
    output.flush()
}
