//! `sockstamp explain`: the stages that make slow messages slow.

mod causes;
mod text;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::message::Message;
use sockstamp_record::Reader;

use crate::duration::duration;
use crate::measure::{self, Measurement, Observer};
use crate::measuring::Measuring;
use crate::target::Target;
use crate::{command, escape, report};

use causes::Explained;

/// Options of `explain`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The target.
    pub target: Target,
    #[command(flatten)]
    /// Options of measuring.
    pub measuring: Measuring,
    /// Measure for this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Read recordings instead of measuring
    #[arg(short, long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["pids", "comms", "cgroup", "container", "netns", "interface", "duration", "command", "filter"])]
    pub read: Vec<PathBuf>,
    /// Run this command and measure only it
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

/// Messages that are kept for the second look at them: a few hundred megabytes.
const KEPT: usize = 400_000;

/// Keeps messages in memory.
#[derive(Default)]
struct Kept {
    messages: Vec<Message>,
    left_out: u64,
}

impl Observer for Kept {
    fn message(&mut self, message: &Message) {
        if self.messages.len() < KEPT {
            self.messages.push(message.clone());
        } else {
            self.left_out += 1;
        }
    }

    fn round_is_over(&mut self) -> bool {
        true
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.read.is_empty() {
        let explanations = of_recordings(&options.read)?;
        print(&mut io::stdout(), &explanations)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut kept = Kept::default();
    let measurement = Measurement {
        target: &options.target,
        command: &options.command,
        duration: options.duration,
        measuring: &options.measuring,
        slower_than: None,
        record: true,
        groups: None,
    };
    let outcome = measure::run(&measurement, &mut kept)?;
    let missing = kept.left_out + outcome.summary.lost.ring;
    if missing > 0 {
        escape::complain(format_args!(
            "{missing} messages came too many: they are left out"
        ));
    }
    let each = |take: &mut dyn FnMut(&Message)| {
        kept.messages.iter().for_each(take);
        Ok(())
    };
    let explanations = causes::of(each)?;
    // Leave standard output to the command.
    match options.command.is_empty() {
        true => print(&mut io::stdout(), &explanations)?,
        false => print(&mut io::stderr(), &explanations)?,
    }
    Ok(outcome.status.map_or(ExitCode::SUCCESS, command::exit_code))
}

fn of_recordings(files: &[PathBuf]) -> Result<Vec<Explained>> {
    let recordings: Result<Vec<_>, _> = files.iter().map(|path| Reader::open(path)).collect();
    let recordings = recordings?;
    recordings.iter().for_each(report::tell_what_is_unread);
    causes::of(|take| {
        for message in recordings.iter().flat_map(Reader::messages) {
            take(&message?);
        }
        Ok(())
    })
}

fn print(output: &mut dyn Write, explanations: &[Explained]) -> Result<()> {
    match text::all(output, explanations) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}
