//! `sockstamp trace`: each message as it completes.

mod heads;
mod json;
mod options;
mod printer;
mod recorded;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Result;
use sockstamp_print::interfaces::Namespaces;
use sockstamp_print::silence;
use sockstamp_run::command;

use crate::measure::{self, Measurement, Recorded};
use crate::recordings::Recordings;
pub use options::Options;
use printer::Printer;

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(recordings) = Recordings::named(&options.live.target)? {
        return recorded::run(&recordings, options);
    }
    let mut printer = Printer::new(options, Namespaces::read())?;
    let measurement = Measurement {
        target: &options.live.target.target,
        command: &options.live.command,
        duration: options.live.duration,
        measuring: &options.live.measuring,
        recorded: Recorded::slower_than(options.slow_only),
        unix: false,
        waits: None,
        groups: None,
        tag: false,
        told: None,
    };
    let measured = measure::run(&measurement, &mut printer)?;
    printer.finish(measured.summary.lost.ring)?;
    if printer.has_printed_nothing() {
        let asked = silence::Asked {
            slow: options.slow_only.slow,
            filter: options.live.target.target.filter.0.as_ref(),
            command: &options.live.command,
        };
        silence::tell(&measured.summary, asked);
    }
    Ok(measured
        .status
        .map_or(ExitCode::SUCCESS, command::exit_code))
}
