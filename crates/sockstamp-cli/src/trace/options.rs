//! The options of `trace`.

use clap::Args;

use crate::options::live::Live;
use crate::options::slow::SlowOnly;
use crate::options::source::Source;
use crate::print::colour::Colours;
use crate::print::destination::Output;
use crate::print::output::Format;

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
