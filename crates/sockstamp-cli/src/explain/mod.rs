//! `sockstamp explain`: where time is lost, and the stages that make slow messages slow.

mod border;
mod causes;
mod failed;
mod json;
mod kept;
mod text;
mod told;
mod waterfall;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_explain::Border;
use sockstamp_explain::diagnosis::Scope;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_print::colour::Colours;
use sockstamp_print::destination::{Output, Stream};
use sockstamp_print::listeners::Listeners;
use sockstamp_print::output::Format;
use sockstamp_run::{command, escape};

use crate::measure::{self, Measurement, Recorded};
use crate::options::least::LeastOptions;
use crate::options::live::Live;
use crate::options::source::Source;
use crate::recordings::{Recordings, all_files};
use crate::watched::{self, Watched};

use kept::Kept;
use told::Told;

/// Options of `explain`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// Recordings, or the measurement.
    pub live: Live<Source>,
    /// Call messages slow if they took longer than this: p75 to p99.999, or a time
    #[arg(long, value_name = "p99|20ms", value_parser = border::border, default_value = "p99")]
    pub slow: Border,
    #[command(flatten)]
    /// The limits below which an excess is no finding.
    pub least: LeastOptions,
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

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let live = &options.live;
    let stream = Stream::beside(&live.command);
    if let Some(recordings) = Recordings::named(&live.target)? {
        let read = all_files(&live.target.files)?;
        let mut output = options.output.open_beside(stream, &read)?;
        let told = of_recordings(&recordings, options)?;
        print(&mut *output, &told, options)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut output = options.output.open(stream)?;
    // The listeners of a command end with it.
    let listeners = match live.command[..] {
        [] => Some(Listeners::of(live.target.target.resolve()?)),
        _ => None,
    };
    let mut kept = Kept::default();
    let slow = slow_of(options.slow);
    let mut watched = Watched::new(watched::scope(&live.target.target, &live.command, slow));
    let measurement = Measurement {
        target: &live.target.target,
        command: &live.command,
        duration: live.duration,
        measuring: &live.measuring,
        recorded: Recorded::All,
        waits: Some(slow),
        unix: true,
        groups: None,
        tag: false,
        told: Some("measuring"),
    };
    let measured = measure::run(&measurement, &mut (&mut kept, &mut watched))?;
    let listeners = listeners.map_or_else(Vec::new, |listeners| listeners.end());
    let lost = measured.summary.lost.ring;
    if lost > 0 {
        escape::complain(format_args!("{lost} messages were lost and are left out"));
    }
    if kept.one_in() > 1 {
        escape::complain(format_args!(
            "not all messages fit into memory: one in {} is explained, and counts for these",
            kept.one_in()
        ));
    }
    let each = |_, take: &mut dyn FnMut(&Message)| {
        kept.messages().iter().for_each(take);
        Ok(())
    };
    let (explained, failed) = causes::of(options.slow, options.least.into(), each)?;
    let told = Told {
        diagnosis: watched.diagnose(&measured.summary),
        slow,
        explained,
        failed,
        slow_only: None,
        listeners,
    };
    print(&mut *output, &told, options)?;
    Ok(measured
        .status
        .map_or(ExitCode::SUCCESS, command::exit_code))
}

/// Return what is slow for the findings: the time that the user has named, else that of `stat`.
fn slow_of(border: Border) -> Nanos {
    match border {
        Border::Time(time) => time,
        Border::Percentile(_) => Scope::default().slow,
    }
}

fn of_recordings(recordings: &Recordings, options: &Options) -> Result<Told> {
    let (border, least, slow) = (options.slow, options.least.into(), slow_of(options.slow));
    let (explained, failed) = causes::of(border, least, |detail, take| {
        recordings.each(detail, |message| {
            take(message);
            Ok(())
        })
    })?;
    Ok(Told {
        diagnosis: recordings.diagnose(slow)?,
        slow,
        explained,
        failed,
        slow_only: recordings.slow_only(),
        listeners: Vec::new(),
    })
}

fn print(output: &mut dyn Write, told: &Told, options: &Options) -> Result<()> {
    let stream = Stream::beside(&options.live.command);
    let brush = options.colours.brush_for(&options.output, stream);
    let printed = match options.format {
        Format::Text => text::all(output, told, brush),
        Format::Json => json::all(output, told),
    };
    match printed.and_then(|()| output.flush()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")
        }
        _ => Ok(()),
    }
}
