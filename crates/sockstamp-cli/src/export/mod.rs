//! `sockstamp export`: recordings in the formats of other programs.

mod lanes;
mod perfetto;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::clock::Nanos;
use sockstamp_record::Detail;

use crate::recordings::{Recordings, all_files};
use crate::{duration, escape, output};

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings: files, or directories of `record`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write a trace for Perfetto (ui.perfetto.dev), with a slice per message, stage and part
    #[arg(long, required = true)]
    pub perfetto: bool,
    /// Leave out messages whose stages together took less than this: a number with ms, s or m
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit)]
    pub slower_than: Option<Duration>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let files = all_files(&options.files)?;
    let recordings = Recordings::open(&files)?;
    let file = output::Unfinished::new(&options.output, &files)?;
    let least = options.slower_than.map_or(Nanos::ZERO, Nanos::from);
    let mut trace = perfetto::Trace::new(file.create()?);
    recordings.each(Detail::All, |message| match message.total() >= least {
        true => trace.add(message).context("cannot write the trace"),
        false => Ok(()),
    })?;
    let (messages, mut output) = trace.finish();
    output.flush().context("cannot write the trace")?;
    file.finish()?;
    escape::complain(format_args!(
        "wrote {messages} messages to {}",
        options.output.display()
    ));
    Ok(ExitCode::SUCCESS)
}
