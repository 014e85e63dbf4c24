//! The options of `join`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sockstamp_print::colour::Colours;
use sockstamp_print::output::Format;
use sockstamp_run::duration::duration;

use crate::options::chosen::Chosen;
use crate::options::filter::FilterWords;

/// Options of `join`.
#[derive(Debug, Args)]
pub struct Options {
    /// The recording of one host: a file, or a directory that `record -o` filled
    #[arg(
        value_name = "FIRST",
        required_unless_present = "firsts",
        conflicts_with = "firsts"
    )]
    pub first: Option<PathBuf>,
    /// The recording of the other host
    #[arg(
        value_name = "SECOND",
        required_unless_present = "firsts",
        conflicts_with = "firsts"
    )]
    pub second: Option<PathBuf>,
    /// Several recordings of one host
    #[arg(long = "first", value_name = "RECORDING", num_args = 1.., requires = "seconds")]
    pub firsts: Vec<PathBuf>,
    /// Several recordings of the other host; behind them a filter
    #[arg(long = "second", value_name = "RECORDING", num_args = 1.., requires = "firsts")]
    pub seconds: Vec<PathBuf>,
    /// The rows that are read; of either process, a message is joined.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The filter expression.
    #[command(flatten)]
    pub filter: FilterWords,
    /// Treat CLOCK_REALTIME of both hosts as equal, because PTP synchronizes it
    ///
    /// Otherwise the offset of the clocks is computed from the messages, with an interval.
    #[arg(long)]
    pub ptp: bool,
    /// Find connections whose addresses NAT changes, by the numbers and lengths of their messages
    ///
    /// Both hosts must have measured the same messages (--sample 2^K, or all). The recordings are
    /// read twice.
    #[arg(long)]
    pub nat: bool,
    /// Allow the clocks of the hosts to differ by up to this time
    ///
    /// Messages are kept for this long, until their other end is read.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub apart: Duration,
    /// Print the stages of this many of the slowest messages of each direction
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slowest: usize,
    /// Write each joined message to this file, one JSON object per line; - is standard output
    #[arg(long, value_name = "FILE")]
    pub lives: Option<PathBuf>,
    /// Write the joined messages as a recording, for `report`, `explain`, `diff` and SQL
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the offsets of the clocks to this file, as CSV, for sql/join.sql; - is standard output
    #[arg(long, value_name = "FILE")]
    pub clocks: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
}
