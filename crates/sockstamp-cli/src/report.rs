//! `sockstamp report`: the table of `stat`, from recordings.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::aggregate::Aggregate;
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::summary::Summary;
use sockstamp_record::Reader;

use crate::colour::Color;
use crate::stat::Format;
use crate::{escape, output, text};

/// Options of `report`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let summary = summary(&options.files)?;
    let mut output: Box<dyn Write> = match &options.output {
        Some(path) => output::create(path)?,
        None => Box::new(io::stdout()),
    };
    let is_terminal = options.output.is_none() && io::stdout().is_terminal();
    match print(&mut output, &summary, options.format, is_terminal) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print the table")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn print(output: &mut dyn Write, summary: &Summary, format: Format, is_terminal: bool) -> io::Result<()> {
    match format {
        Format::Text if text::is_empty(summary) => {
            text::nothing(output, summary, "the recording is empty")?;
        }
        Format::Text => text::table(output, summary, Color::default().brush(is_terminal))?,
        Format::Csv => text::csv(output, summary)?,
        Format::Json => {
            escape::json(&mut *output, summary)?;
            writeln!(output)?;
        }
    }
    output.flush()
}

/// Sum the messages of all files. The duration is the time from the first to the last of them.
fn summary(files: &[PathBuf]) -> Result<Summary> {
    let mut aggregate = Aggregate::new();
    let mut times: Option<(Timestamp<Realtime>, Timestamp<Realtime>)> = None;
    for path in files {
        let recording = Reader::open(path)?;
        tell_what_is_unread(&recording);
        for message in recording.messages() {
            let message = message?;
            aggregate.record(&message);
            let (first, last) = times.unwrap_or((message.time, message.time));
            times = Some((first.min(message.time), last.max(message.time)));
        }
    }
    let duration = times.and_then(|(first, last)| last.since(first));
    Ok(aggregate.summary(duration.unwrap_or(Nanos::ZERO)))
}

/// Tell of rows that the writer had no time to finish.
pub(crate) fn tell_what_is_unread(recording: &Reader) {
    if recording.unread() > 0 {
        escape::complain(format_args!(
            "{}: its last {} bytes are of messages that were not finished: the recording was killed",
            recording.path().display(),
            recording.unread()
        ));
    }
}
