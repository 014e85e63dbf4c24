//! Which rows of recordings are read.

use clap::Args;
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_run::utc::moment;

use super::choice::Choice;
use super::filter::FilterWords;
use super::processes::Processes;

const HEADING: &str = "Rows";
const PIDS: &str = "Read only messages that these processes sent or read";
const COMMS: &str = "The same, for processes or threads of this name";

/// Conditions on the time of rows.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Span {
    /// Read only what was recorded then or later, UTC: 2026-11-22T19:05:07, 19:05 of today,
    /// 'yesterday 19:05', or -5m
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time,
        allow_hyphen_values = true,
        help_heading = HEADING,
    )]
    pub from: Option<Timestamp<Realtime>>,
    /// Read only what was recorded before then
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time,
        allow_hyphen_values = true,
        help_heading = HEADING,
    )]
    pub to: Option<Timestamp<Realtime>>,
}

impl Span {
    /// Return the choice of rows that also meet these conditions.
    pub(crate) fn choice(self, processes: &Processes, filter: &FilterWords) -> Choice {
        Choice {
            filter: filter.0.clone(),
            pids: processes.pids.clone(),
            comms: processes.comms.clone(),
            from: self.from,
            to: self.to,
        }
    }
}

/// Conditions on rows beside the filter. All must hold.
#[derive(Debug, Clone, Default, Args)]
#[command(
    mut_arg("pids", |arg| arg.help(PIDS).help_heading(HEADING)),
    mut_arg("comms", |arg| arg.help(COMMS).help_heading(HEADING)),
)]
pub struct Chosen {
    /// The processes.
    #[command(flatten)]
    pub processes: Processes,
    /// The time.
    #[command(flatten)]
    pub span: Span,
}

impl Chosen {
    pub(crate) fn choice(&self, filter: &FilterWords) -> Choice {
        self.span.choice(&self.processes, filter)
    }
}

fn time(text: &str) -> Result<Timestamp<Realtime>, String> {
    moment(text).map(Timestamp::from_nanos)
}
