//! The options of `trace`.

use clap::Args;
use sockstamp_print::colour::Colours;
use sockstamp_print::destination::Output;
use sockstamp_print::output::Format;

use crate::options::live::Live;
use crate::options::slow::SlowOnly;
use crate::options::source::Source;

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// Recordings, or the measurement.
    pub live: Live<Source>,
    #[command(flatten)]
    /// The messages that are shown.
    pub slow_only: SlowOnly,
    /// Stop after N messages
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Output format: a line of text or a JSON object per message
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
    /// Where it is printed.
    #[command(flatten)]
    pub output: Output,
}
