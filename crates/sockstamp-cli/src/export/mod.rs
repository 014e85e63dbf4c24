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
use sockstamp_print::output;
use sockstamp_record::Detail;
use sockstamp_run::escape;

use crate::options::chosen::Chosen;
use crate::options::files::Files;
use crate::options::slow::limit;
use crate::recordings::{Recordings, all_files};

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings, and a filter.
    #[command(flatten)]
    pub files: Files,
    /// The rows that are read.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Write a trace for Perfetto (ui.perfetto.dev), with a slice per message, stage and part
    #[arg(long, required = true)]
    pub perfetto: bool,
    /// Keep only messages slower than this
    ///
    /// A message is slow if it took longer until it was sent, until it was read, or until its
    /// answer came. A connection is slow if its handshake took longer, or its accept(). The time is
    /// a number with us, ms, s (default), m or h.
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub slow: Option<Duration>,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    output::unless_unread(export(options))?;
    Ok(ExitCode::SUCCESS)
}

fn export(options: &Options) -> Result<()> {
    let files = all_files(&options.files.paths)?;
    let recordings = Recordings::chosen(&files, options.chosen.choice(&options.files.filter))?;
    let file = output::Unfinished::new_alone(&options.output, &files)?;
    let limit = options.slow.map(Nanos::from);
    let mut trace = perfetto::Trace::new(file.create()?);
    recordings.each(Detail::All, |message| {
        match limit.is_none_or(|limit| message.is_slow(limit)) {
            true => trace.add(message).context("cannot write the trace"),
            false => Ok(()),
        }
    })?;
    let (messages, mut output) = trace.finish();
    output.flush().context("cannot write the trace")?;
    file.finish()?;
    escape::complain(format_args!(
        "wrote {messages} messages to {}",
        options.output.display()
    ));
    Ok(())
}
