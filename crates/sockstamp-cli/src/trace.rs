//! `sockstamp trace`: each message as it completes.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, Result};
use sockstamp_bpf::{Decoder, Record};
use sockstamp_model::message::Message;

use crate::cli::{self, Format};
use crate::measure::{self, Measurement};
use crate::{command, escape, text};

pub(crate) fn run(options: &cli::Trace) -> Result<ExitCode> {
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
    fn new(options: &cli::Trace) -> Result<Self> {
        let output: Box<dyn Write> = match &options.output {
            Some(path) => Box::new(BufWriter::new(
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
            )),
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
