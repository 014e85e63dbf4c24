//! The options of `stat`, and what follows from them.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_print::colour::{Brush, Colours};
use sockstamp_print::columns::Column;
use sockstamp_print::destination::{Output, Stream};
use sockstamp_print::groups;
use sockstamp_run::duration::duration;

use crate::measure::{Measurement, Recorded};
use crate::options::live::Live;
use crate::options::slow::Slow;

/// Options of `stat`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The measurement.
    pub live: Live,
    #[command(flatten)]
    /// The messages whose owners are named.
    pub slow: Slow,
    /// Also sum messages in groups by these dimensions
    ///
    /// The port is the service's: the local one of accepted connections, the remote one of others.
    /// The container is that of the socket's cgroup. The interface is that of the socket's route at
    /// its first message. There are 1000 slots for groups; messages without a slot are summed as
    /// "other".
    #[arg(
        long,
        value_name = "DIMENSION",
        value_delimiter = ',',
        value_parser = groups::dimension(Dimension::MEASURED),
        conflicts_with = "cumulative",
    )]
    pub by: Vec<Dimension>,
    /// Print this many groups as text
    #[arg(long, value_name = "N", default_value_t = 10, requires = "by")]
    pub top: usize,
    /// Sort groups by this figure, the largest first
    ///
    /// count: messages; bytes; total: the time of all messages until they left the host or were
    /// read; or a stage: the time of all messages in it.
    #[arg(
        long,
        value_name = "FIGURE",
        value_parser = groups::sort(),
        default_value = "count",
        requires = "by",
        hide_possible_values = true,
    )]
    pub sort: groups::Sort,
    /// Columns of the table of stages, as text and CSV
    ///
    /// min, mean, p50, p90, p99, p99.9, max. JSON has all of them for each stage, whatever is
    /// chosen here, and CSV with --by has columns of its own. A part of a stage has a mean and a
    /// max alone.
    #[arg(
        long,
        value_name = "FIGURE",
        value_delimiter = ',',
        default_value = "p50,p90,p99,p99.9,max",
        hide_possible_values = true,
        conflicts_with_all = ["cumulative", "repeat"],
    )]
    pub columns: Vec<Column>,
    /// Measure N times, and print the mean of each figure with its standard error, as perf stat -r
    ///
    /// A run is that of the COMMAND, or --duration long.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["by", "cumulative", "interval", "why"],
    )]
    pub repeat: Option<u32>,
    /// Also print a table of each interval, while it measures: 100ms or longer
    #[arg(long, value_name = "TIME", value_parser = between_tables, conflicts_with = "cumulative")]
    pub interval: Option<Duration>,
    /// Print times from a read's RX stamp to each point on its path, under netstacklat's names
    #[arg(long)]
    pub cumulative: bool,
    /// Below each diagnosis, print what stands behind it, how to check it, and its usual cure
    #[arg(long)]
    pub why: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
    /// Where it is printed.
    #[command(flatten)]
    pub output: Output,
}

/// Output formats of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, times with units
    #[default]
    Text,
    /// One JSON object, all times in nanoseconds
    Json,
    /// One line per stage, all times in nanoseconds
    Csv,
}

/// Read an interval that somebody can read in.
fn between_tables(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match interval >= Duration::from_millis(100) {
        true => Ok(interval),
        false => Err("an interval is 100ms or longer".to_owned()),
    }
}

/// Return the measurement that these options describe.
pub(crate) fn measurement(options: &Options) -> Measurement<'_> {
    Measurement {
        target: &options.live.target,
        command: &options.live.command,
        duration: options.live.duration,
        measuring: &options.live.measuring,
        recorded: recorded(options),
        waits: (recorded(options) != Recorded::None).then(|| options.slow.slow.into()),
        unix: true,
        groups: Grouping::new(options.by.iter().copied()),
        tag: false,
        told: Some("measuring"),
    }
}

/// Return the messages that are examined: all of a command, for its wall time; otherwise slow ones,
/// for the diagnosis.
fn recorded(options: &Options) -> Recorded {
    match options.format {
        _ if options.repeat.is_some() => Recorded::None,
        _ if !options.live.command.is_empty() => Recorded::All,
        Format::Text | Format::Json if !options.cumulative => Recorded::Notable(options.slow.slow),
        _ => Recorded::None,
    }
}

/// Leave standard output to the command, if there is one.
pub(super) fn output_of(options: &Options) -> Result<Box<dyn Write>> {
    options.output.open(Stream::beside(&options.live.command))
}

/// Colours are for terminals.
pub(super) fn brush_of(options: &Options) -> Brush {
    let stream = Stream::beside(&options.live.command);
    options.colours.brush_for(&options.output, stream)
}
