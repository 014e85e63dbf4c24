//! `stat --interval`: a table of what came in each interval.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::Serialize;
use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_print::colour::Brush;
use sockstamp_print::findings::Shown;
use sockstamp_print::line::time_of_day;
use sockstamp_print::{groups, text};
use sockstamp_run::escape;

use super::options::{Format, Options};
use crate::measure::Observer;

/// Prints the counts of each interval.
pub(super) struct Intervals<'a> {
    options: &'a Options,
    output: &'a mut dyn Write,
    brush: Brush,
    earlier: Summary,
    /// The reader of the output has seen enough.
    unread: bool,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(options: &'a Options, output: &'a mut dyn Write, brush: Brush) -> Self {
        Self {
            options,
            output,
            brush,
            earlier: Summary::default(),
            unread: false,
        }
    }

    fn print(&mut self, mut since: Summary) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = Nanos::from(now.unwrap_or_default());
        if let Some(groups) = &mut since.groups {
            groups::order(groups, self.options.sort);
        }
        match self.options.format {
            Format::Json => {
                let object = Json {
                    time_ns: now,
                    interval: &since,
                };
                escape::json(&mut *self.output, &object)?;
                writeln!(self.output)?;
            }
            Format::Text | Format::Csv => {
                let until = String::from_utf8_lossy(time_of_day(now.0).as_bytes()).into_owned();
                let head = format!(" until {until} UTC, {}", since.duration);
                writeln!(self.output, "\n{}", self.brush.bold(&head))?;
                let shown = Shown {
                    diagnosis: &Diagnosis::default(),
                    why: false,
                };
                text::table(
                    self.output,
                    &since,
                    &self.options.columns,
                    &shown,
                    &Places::default(),
                    self.brush,
                )?;
                if let Some(groups) = &since.groups {
                    groups::table(self.output, groups, self.options.top)?;
                }
            }
        }
        self.output.flush()
    }
}

/// A line of `--format json`.
#[derive(Serialize)]
struct Json<'a> {
    time_ns: Nanos,
    interval: &'a Summary,
}

impl Observer for Intervals<'_> {
    fn message(&mut self, _: &Message) {}

    fn round_is_over(&mut self) -> bool {
        !self.unread
    }

    fn interval(&self) -> Option<Duration> {
        self.options.interval
    }

    fn interval_is_over(&mut self, summary: &Summary) -> Result<()> {
        let since = summary.since(&self.earlier);
        self.earlier = summary.clone();
        match self.print(since) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.unread = true;
                Ok(())
            }
            printed => printed.context("cannot print the table"),
        }
    }
}
