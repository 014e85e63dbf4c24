//! Which rows of recordings are read.

use clap::Args;
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_run::target::process_name;
use sockstamp_run::utc::moment;

use super::choice::Choice;
use super::filter::FilterWords;
use super::target::process;

const HEADING: &str = "Rows";

/// Conditions on the time of rows.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Span {
    /// Read only what was recorded then or later: a date and a time, UTC
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = HEADING)]
    pub from: Option<Timestamp<Realtime>>,
    /// Read only what was recorded before then
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = HEADING)]
    pub to: Option<Timestamp<Realtime>>,
}

/// Conditions on rows beside the filter. All must hold.
#[derive(Debug, Clone, Default, Args)]
pub struct Chosen {
    /// Read only messages that these processes sent or read
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        value_parser = process,
        help_heading = HEADING,
    )]
    pub pids: Vec<u32>,
    /// The same, for processes or threads of this name
    #[arg(
        long = "comm",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = process_name,
        help_heading = HEADING,
    )]
    pub comms: Vec<String>,
    /// The time.
    #[command(flatten)]
    pub span: Span,
}

impl Chosen {
    pub(crate) fn choice(&self, filter: &FilterWords) -> Choice {
        Choice {
            filter: filter.0.clone(),
            pids: self.pids.clone(),
            comms: self.comms.clone(),
            from: self.span.from,
            to: self.span.to,
        }
    }
}

fn time(text: &str) -> Result<Timestamp<Realtime>, String> {
    moment(text).map(Timestamp::from_nanos)
}
