//! The options of `stuck`.

use std::time::Duration;

use clap::Args;
use sockstamp_print::colour::Colours;
use sockstamp_print::destination::Output;
use sockstamp_print::output::Format;
use sockstamp_run::duration::{duration, interval};

use crate::options::slow::limit;
use crate::options::source::Source;

/// The version of the JSON: it changes when a key that exists changes.
pub(super) const VERSION: u32 = 1;

/// Exit status if something waits longer than `--slow`, with `--fail`.
pub(super) const WAITING: u8 = 3;

/// Options of `stuck`.
#[derive(Debug, Args)]
// A look sees no connection begin.
#[command(mut_arg("new_only", |arg| arg.hide(true).conflicts_with("slow")))]
pub struct Options {
    #[command(flatten)]
    /// Recordings, or the target.
    pub source: Source,
    /// List what waits at least this long: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = limit, default_value = "10ms")]
    pub slow: Duration,
    /// Below each wait, print what stands behind it, how to check it, and its usual cure
    #[arg(long)]
    pub why: bool,
    /// Exit with status 3 if something waits at least this long
    #[arg(long, conflicts_with = "watch")]
    pub fail: bool,
    /// Look again and again until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// The time between looks of --watch: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s", requires = "watch")]
    pub interval: Duration,
    /// Look for this long before anything is listed: a number with us, ms, s (default), m or h
    ///
    /// Only what waits at the end is listed. Several looks show how long a request is not read, and
    /// which senders go on without an answer: nobody waits for one there.
    #[arg(id = "for", long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "watch")]
    pub looking: Option<Duration>,
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
