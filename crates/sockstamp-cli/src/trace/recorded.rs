//! `trace -r`: the messages of recordings, one line each.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use sockstamp_model::clock::Nanos;
use sockstamp_print::interfaces::Namespaces;
use sockstamp_record::Detail;
use sockstamp_run::escape;

use super::options::Options;
use super::printer::Printer;
use crate::measure::Observer;
use crate::recordings::Recordings;

/// No line is wanted any more.
#[derive(Debug)]
struct Enough;

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no more messages are wanted")
    }
}

impl std::error::Error for Enough {}

pub(super) fn run(recordings: &Recordings, options: &Options) -> Result<ExitCode> {
    if let Some(slow_only) = recordings.slow_only() {
        escape::complain(slow_only);
    }
    let names = Namespaces::recorded(recordings.places());
    let mut printer = Printer::new(options, names)?;
    let limit = options.slow_only.slow.map(Nanos::from);
    let read = recordings.in_order(Detail::All, |message| {
        if limit.is_none_or(|limit| message.is_slow(limit)) {
            printer.message(message);
        }
        match printer.wants_more() {
            true => Ok(()),
            false => Err(Enough.into()),
        }
    });
    match read {
        Err(error) if !error.is::<Enough>() => return Err(error),
        _ => {}
    }
    printer.finish(recordings.lost().ring)?;
    if printer.has_printed_nothing() {
        let why = match recordings.is_part() || limit.is_some() {
            true => "no message of the recording matches",
            false => "the recording has no message",
        };
        escape::complain(format_args!("{why}"));
    }
    Ok(ExitCode::SUCCESS)
}
