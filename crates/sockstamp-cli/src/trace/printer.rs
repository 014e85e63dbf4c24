//! Messages as lines, where somebody reads them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use sockstamp_explain::diagnosis::Scope;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_print::colour::Brush;
use sockstamp_print::destination::Stream;
use sockstamp_print::interfaces::Namespaces;
use sockstamp_print::line::{self, Line};
use sockstamp_print::output::Format;
use sockstamp_run::escape;

use super::heads::Heads;
use super::json;
use super::options::Options;
use crate::measure::Observer;
use crate::recordings::all_files;

/// Bytes per write where messages come fast.
const BATCH: usize = 64 << 10;

/// Return standard output without a buffer of its own, which would split a batch at its last line.
fn unbuffered_stdout() -> Result<File> {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    stdout.map(File::from).context("cannot write")
}

/// Prints messages.
pub(super) struct Printer {
    output: Box<dyn Write>,
    line: Line,
    heads: Heads,
    namespaces: Namespaces,
    format: Format,
    /// Messages that are still to be shown, if they are counted.
    left: Option<u64>,
    printed: u64,
    flush_lines: bool,
    brush: Brush,
    /// Messages that took longer stand out.
    slow: Nanos,
    /// Columns of the terminal that it is printed to.
    width: Option<usize>,
    failure: Option<io::Error>,
}

impl Printer {
    pub(super) fn new(options: &Options, namespaces: Namespaces) -> Result<Self> {
        let output = match &options.output.output {
            Some(_) => {
                let read = all_files(&options.live.target.files)?;
                options.output.open_beside(Stream::Output, &read)?
            }
            None => Box::new(BufWriter::with_capacity(BATCH, unbuffered_stdout()?)),
        };
        let terminal = options.output.is_terminal(Stream::Output);
        let columns = terminal.then(crossterm::terminal::size);
        Ok(Self {
            output,
            line: Line::default(),
            heads: Heads::new(match options.format {
                Format::Text => Line::head,
                Format::Json => json::head,
            }),
            namespaces,
            format: options.format,
            left: options.count,
            printed: 0,
            flush_lines: terminal,
            brush: options.colours.brush(terminal),
            slow: (options.slow_only.slow).map_or(Scope::default().slow, Nanos::from),
            width: columns
                .and_then(Result::ok)
                .map(|(columns, _)| columns.into())
                .filter(|&columns| columns > 0),
            failure: None,
        })
    }

    fn line(&mut self, message: &Message) -> io::Result<()> {
        let head = self.heads.of(message);
        self.line.clear();
        match self.format {
            Format::Text => {
                self.line.message(message, head, &mut self.namespaces);
                self.fold();
                self.line.paint(self.brush, message.is_slow(self.slow));
            }
            Format::Json => json::write(&mut self.line, message, head),
        }
        self.end_line()?;
        if self.flush_lines {
            self.output.flush()?;
        }
        Ok(())
    }

    /// Divide the line, in a terminal, into as many of its lines as it takes.
    fn fold(&mut self) {
        if let Some(width) = self.width {
            let folded = line::folded(self.line.as_bytes(), width);
            self.line.clear();
            self.line.text(&folded);
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.text("\n");
        self.output.write_all(self.line.as_bytes())
    }

    pub(super) fn has_printed_nothing(&self) -> bool {
        self.printed == 0
    }

    pub(super) fn wants_more(&self) -> bool {
        self.failure.is_none() && self.left != Some(0)
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Treat a closed pipe as success: the reader has seen enough.
    pub(super) fn finish(&mut self, lost: u64) -> Result<()> {
        let flushed = self.output.flush();
        self.keep(flushed);
        if lost > 0 {
            escape::complain(format_args!(
                "{lost} messages could not be shown: the reader of the output was too slow"
            ));
        }
        match self.failure.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write")
            }
            _ => Ok(()),
        }
    }
}

impl Observer for Printer {
    fn message(&mut self, message: &Message) {
        if self.wants_more() {
            self.left = self.left.map(|left| left - 1);
            self.printed += 1;
            let printed = self.line(message);
            self.keep(printed);
        }
    }

    /// Flush once per round, so that the reader of a pipe waits no longer.
    fn round_is_over(&mut self) -> bool {
        let flushed = self.output.flush();
        self.keep(flushed);
        self.wants_more()
    }
}
