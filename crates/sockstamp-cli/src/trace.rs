//! `sockstamp trace`: each message as it completes.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_bpf::{Decoder, Record};
use sockstamp_model::message::Message;

use crate::duration::duration;
use crate::measure::{self, Measurement};
use crate::measuring::{self, Measuring};
use crate::output::{self, Format};
use crate::target::Target;
use crate::{command, escape, text};

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// Which messages.
    pub target: Target,
    #[command(flatten)]
    /// How they are measured.
    pub measuring: Measuring,
    /// Stop after this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Show only messages that took longer than this in all; every message is measured
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["rate_cap", "sample"],
          help_heading = measuring::HEADING)]
    pub slower_than: Option<Duration>,
    /// How to print: a line of text or a JSON object for each message
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Run this command and measure it alone
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let printer = Rc::new(RefCell::new(Printer::new(options)?));
    let measurement = Measurement {
        target: &options.target,
        command: &options.command,
        duration: options.duration,
        measuring: &options.measuring,
        slower_than: options.slower_than,
        record: true,
        groups: None,
    };
    let of_records = Rc::clone(&printer);
    let on_record = move |record: &Record| of_records.borrow_mut().print(record);
    let after_poll = || printer.borrow_mut().after_round();
    let outcome = measure::run(&measurement, on_record, after_poll)?;
    printer.borrow_mut().finish(outcome.summary.lost.ring)?;
    Ok(outcome.status.map_or(ExitCode::SUCCESS, command::exit_code))
}

struct Printer {
    output: Box<dyn Write>,
    format: Format,
    flush_lines: bool,
    decoder: Decoder,
    undecoded: u64,
    failure: Option<io::Error>,
}

impl Printer {
    fn new(options: &Options) -> Result<Self> {
        let output = match &options.output {
            Some(path) => output::create(path)?,
            None => Box::new(BufWriter::new(io::stdout())),
        };
        Ok(Self {
            output,
            format: options.format,
            flush_lines: options.output.is_none() && io::stdout().is_terminal(),
            decoder: Decoder::new()?,
            undecoded: 0,
            failure: None,
        })
    }

    fn print(&mut self, record: &Record) {
        if self.failure.is_some() {
            return;
        }
        let Some(message) = self.decoder.message(record) else {
            self.undecoded += 1;
            return;
        };
        let printed = self.line(&message);
        self.keep(printed);
    }

    fn line(&mut self, message: &Message) -> io::Result<()> {
        match self.format {
            Format::Text => text::line(&mut self.output, message)?,
            Format::Json => escape::json(&mut self.output, message)?,
        }
        self.output.write_all(b"\n")?;
        if self.flush_lines {
            self.output.flush()?;
        }
        Ok(())
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Between rounds of records: who reads a pipe waits no longer than a round. False ends it all.
    fn after_round(&mut self) -> bool {
        let flushed = self.output.flush();
        self.keep(flushed);
        if let Ok(decoder) = Decoder::new() {
            self.decoder = decoder;
        }
        self.failure.is_none()
    }

    /// A reader that has seen enough is no failure.
    fn finish(&mut self, lost: u64) -> Result<()> {
        if lost + self.undecoded > 0 {
            escape::complain(format_args!(
                "{} messages could not be shown: the reader of the output was too slow",
                lost + self.undecoded
            ));
        }
        match self.failure.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
            _ => Ok(()),
        }
    }
}
