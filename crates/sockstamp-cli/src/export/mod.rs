//! `sockstamp export`: recordings in the formats of other programs.

mod lanes;
mod perfetto;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_record::Detail;
use sockstamp_run::{duration, escape};

use crate::print::output;
use crate::recordings::{Recordings, all_files};

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings: files, or directories of `record`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write a trace for Perfetto (ui.perfetto.dev), with a slice per message, stage and part
    #[arg(long, required = true)]
    pub perfetto: bool,
    /// Leave out what took less than this: messages with their answer, and connections
    ///
    /// A message took as long as its stages together, or as the answer before it (peer.answer). A
    /// connection took as long as its handshake, or until it was accepted. The time is a number
    /// with ms, s or m.
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit)]
    pub slower_than: Option<Duration>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let files = all_files(&options.files)?;
    let recordings = Recordings::open(&files)?;
    let file = output::Unfinished::new(&options.output, &files)?;
    let least = options.slower_than.map_or(Nanos::ZERO, Nanos::from);
    let mut trace = perfetto::Trace::new(file.create()?);
    recordings.each(Detail::All, |message| match longest(message) >= least {
        true => trace.add(message).context("cannot write the trace"),
        false => Ok(()),
    })?;
    let (messages, mut output) = trace.finish();
    output.flush().context("cannot write the trace")?;
    file.finish()?;
    escape::complain(format_args!(
        "wrote {messages} messages to {}",
        options.output.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Return the time of a message, or a longer one of a stage that is no part of it.
fn longest(message: &Message) -> Nanos {
    let stages = message.stages.present();
    let beside = stages.filter(|(stage, _)| stage.is_between_messages());
    let beside = beside.map(|(_, duration)| *duration);
    beside.fold(message.total(), Nanos::max)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;

    #[test]
    fn a_slow_handshake_and_a_slow_answer_are_slow() {
        let mut connection = fixture::message(Direction::Tx);
        connection.stages[Stage::ConnHandshake] = Some(Nanos(3_000_000_000));
        assert_eq!(longest(&connection), Nanos(3_000_000_000));
        let mut read = fixture::message(Direction::Rx);
        read.stages[Stage::RxApp] = Some(Nanos(7));
        read.stages[Stage::PeerAnswer] = Some(Nanos(5_000_000_000));
        assert_eq!(longest(&read), Nanos(5_000_000_000));
        read.stages[Stage::PeerAnswer] = None;
        assert_eq!(longest(&read), Nanos(7));
    }
}
