//! `sockstamp stat`: distributions of the stages, counted in the kernel.

mod cumulative;
mod intervals;
mod repeat;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_host::places::Places;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::Wait;
use sockstamp_run::duration::duration;
use sockstamp_run::{command, escape};

use crate::measure::{self, Measurement, Recorded};
use crate::options::colours::Colours;
use crate::options::live::Live;
use crate::options::slow::Slow;
use crate::options::wrong_use::WrongUse;
use crate::print::colour::Brush;
use crate::print::findings::Shown;
use crate::print::listeners::Listeners;
use crate::print::wall_time::{Waits, WallTime};
use crate::print::{findings, groups, output, text, waits};
use crate::watched::{self, Watched};
use intervals::Intervals;

/// Options of `stat`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The measurement.
    pub live: Live,
    #[command(flatten)]
    /// The messages whose owners are named.
    pub slow: Slow,
    /// Also sum messages in groups by these dimensions
    ///
    /// The port is the service's: the local one of accepted connections, the remote one of others.
    /// The container is that of the socket's cgroup. The interface is that of the socket's route at
    /// its first message. There are 1000 slots for groups; messages without a slot are summed as
    /// "other".
    #[arg(
        long,
        value_name = "DIMENSION",
        value_delimiter = ',',
        value_parser = groups::dimension(Dimension::MEASURED),
        conflicts_with = "cumulative",
    )]
    pub by: Vec<Dimension>,
    /// Print this many groups as text
    #[arg(long, value_name = "N", default_value_t = 10, requires = "by")]
    pub top: usize,
    /// Sort groups by this figure, the largest first
    ///
    /// count: messages; bytes; total: the time of all messages until they left the host or were
    /// read; or a stage: the time of all messages in it.
    #[arg(
        long,
        value_name = "FIGURE",
        value_parser = groups::sort(),
        default_value = "count",
        requires = "by",
        hide_possible_values = true,
    )]
    pub sort: groups::Sort,
    /// Measure N times, and print the mean of each figure with its standard error, as perf stat -r
    ///
    /// A run is that of the COMMAND, or --duration long.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["by", "cumulative", "interval", "why"],
    )]
    pub repeat: Option<u32>,
    /// Also print a table of each interval, while it measures: 100ms or longer
    #[arg(long, value_name = "TIME", value_parser = between_tables, conflicts_with = "cumulative")]
    pub interval: Option<Duration>,
    /// Print times from a read's RX stamp to each point on its path, under netstacklat's names
    #[arg(long)]
    pub cumulative: bool,
    /// Below each diagnosis, print what stands behind it, how to check it, and its usual cure
    #[arg(long)]
    pub why: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Output formats of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, times with units
    #[default]
    Text,
    /// One JSON object, all times in nanoseconds
    Json,
    /// One line per stage, all times in nanoseconds
    Csv,
}

/// Read an interval that somebody can read in.
fn between_tables(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match interval >= Duration::from_millis(100) {
        true => Ok(interval),
        false => Err("an interval is 100ms or longer".to_owned()),
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(runs) = options.repeat {
        return repeat::run(options, runs);
    }
    if options.interval.is_some() && options.format == Format::Csv {
        return Err(
            WrongUse("--interval prints text or JSON: leave out --format csv".to_owned()).into(),
        );
    }
    let mut output = output_of(options)?;
    let measurement = measurement(options);
    // The listeners of a command end with it.
    let listeners = match options.live.command[..] {
        [] => Some(Listeners::of(&options.live.target)?),
        _ => None,
    };
    let mut waits = Waits::default();
    let live = &options.live;
    let scope = watched::scope(&live.target, &live.command, options.slow.slow.into());
    let mut watched = Watched::new(scope);
    let mut intervals = Intervals::new(options, &mut *output, brush_of(options));
    let mut measured = match options.live.command[..] {
        [] => measure::run(&measurement, &mut (&mut watched, &mut intervals))?,
        _ => {
            let mut of_command = (&mut waits, &mut watched);
            measure::run(&measurement, &mut (&mut of_command, &mut intervals))?
        }
    };
    let wall_time = (!options.live.command.is_empty())
        .then(|| waits.divide(measured.began, measured.ended, measured.spent.as_ref()));
    measured.summary.listeners = listeners.map_or_else(Vec::new, |listeners| listeners.end());
    if let Some(groups) = &mut measured.summary.groups {
        groups::order(groups, options.sort);
    }
    let summary = &measured.summary;
    let results = Results {
        summary,
        wall_time: wall_time.as_ref(),
        diagnosis: &watched.diagnose(summary),
        waits: watched.waits(),
    };
    let printed = if options.cumulative {
        print_cumulative(&mut output, summary, options.format)
    } else {
        print(&mut output, &results, options)
    };
    match printed {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(error).context("cannot print the table");
        }
        _ => {}
    }
    Ok(measured
        .status
        .map_or(ExitCode::SUCCESS, command::exit_code))
}

/// Return the measurement that these options describe.
pub(crate) fn measurement(options: &Options) -> Measurement<'_> {
    Measurement {
        target: &options.live.target,
        command: &options.live.command,
        duration: options.live.duration,
        measuring: &options.live.measuring,
        recorded: recorded(options),
        waits: (recorded(options) != Recorded::None).then(|| options.slow.slow.into()),
        groups: Grouping::new(options.by.iter().copied()),
        tag: false,
        told: Some("measuring"),
    }
}

/// Return the messages that are examined: all of a command, for its wall time; otherwise slow ones,
/// for the diagnosis.
fn recorded(options: &Options) -> Recorded {
    match options.format {
        _ if options.repeat.is_some() => Recorded::None,
        _ if !options.live.command.is_empty() => Recorded::All,
        Format::Text | Format::Json if !options.cumulative => Recorded::Notable(options.slow.slow),
        _ => Recorded::None,
    }
}

/// The results of a measurement.
#[derive(Clone, Copy)]
struct Results<'a> {
    summary: &'a Summary,
    wall_time: Option<&'a WallTime>,
    diagnosis: &'a Diagnosis,
    /// Those that no message shows whole.
    waits: &'a [Wait],
}

/// Leave standard output to the command, if there is one.
fn output_of(options: &Options) -> Result<Box<dyn Write>> {
    match &options.output {
        Some(path) => output::create(path),
        None if options.live.command.is_empty() => Ok(Box::new(io::stdout())),
        None => Ok(Box::new(io::stderr())),
    }
}

fn brush_of(options: &Options) -> Brush {
    let is_terminal = match options.output {
        Some(_) => false,
        None if options.live.command.is_empty() => io::stdout().is_terminal(),
        None => io::stderr().is_terminal(),
    };
    options.colours.brush(is_terminal)
}

fn print(output: &mut dyn Write, results: &Results<'_>, options: &Options) -> io::Result<()> {
    let &Results {
        summary,
        wall_time,
        diagnosis,
        waits,
    } = results;
    let brush = brush_of(options);
    let shown = Shown {
        diagnosis,
        why: options.why,
    };
    let waited = !waits.is_empty();
    let is_idle = text::is_empty(summary) && !waited;
    if let (Format::Text, Some(wall_time), false) = (options.format, wall_time, is_idle) {
        writeln!(output, "\n{}", brush.bold(&wall_time.to_string()))?;
    }
    match (options.format, &summary.groups) {
        (Format::Text, _) if text::is_empty(summary) => {
            text::nothing(output, summary, why_nothing(options, waited))?;
            shown.print(output, brush)?;
            writeln!(output, " note: {}", text::OTHER_TRAFFIC)?;
        }
        (Format::Text, None) => text::table(output, summary, &shown, &Places::here(), brush)?,
        (Format::Text, Some(groups)) => {
            text::table(output, summary, &shown, &Places::here(), brush)?;
            groups::table(output, groups, options.top)?;
            groups::diagnoses(output, groups, options.slow.slow.into(), brush)?;
        }
        (Format::Csv, None) => text::csv(output, summary)?,
        (Format::Csv, Some(groups)) => groups::csv(output, groups)?,
        (Format::Json, _) => {
            let json = Json {
                summary,
                wall_time,
                diagnosis: findings::Json::new(diagnosis, options.slow.slow.into()),
                waits: waits.iter().map(waits::Json::from).collect(),
            };
            escape::json(&mut *output, &json)?;
            writeln!(output)?;
        }
    }
    output.flush()
}

/// The object of `--format json`.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_time: Option<&'a WallTime>,
    diagnosis: findings::Json<'a>,
    waits: Vec<waits::Json<'a>>,
}

/// Explain where messages would have come from.
fn why_nothing(options: &Options, waited: bool) -> &'static str {
    let target = &options.live.target;
    let by_process = target.processes.are_named();
    let by_place =
        target.cgroup.is_some() || target.container.is_some() || !target.netns.is_empty();
    if waited {
        "none was sent or read whole, but something waited"
    } else if target.filter.0.is_some() {
        "nothing over TCP or UDP matched the filter"
    } else if !options.live.command.is_empty() {
        "no process in the command's cgroup sent or read anything over TCP or UDP"
    } else if by_process || by_place {
        "the target sent and read nothing over TCP or UDP"
    } else if target.interface.is_some() {
        "no socket whose route leaves by the interface sent or read anything"
    } else {
        "no socket of this host sent or read anything over TCP or UDP"
    }
}

fn print_cumulative(output: &mut dyn Write, summary: &Summary, format: Format) -> io::Result<()> {
    match format {
        Format::Text => cumulative::table(output, summary)?,
        Format::Csv => cumulative::csv(output, summary)?,
        Format::Json => {
            escape::json(&mut *output, &cumulative::Json::new(summary))?;
            writeln!(output)?;
        }
    }
    output.flush()
}
