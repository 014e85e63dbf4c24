//! `sockstamp stat`: distributions of the stages, counted in the kernel.

mod cumulative;
mod intervals;
mod options;
mod repeat;
mod wall_time;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{UnixWait, Wait};
use sockstamp_print::findings::Shown;
use sockstamp_print::listeners::Listeners;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_print::{csv, findings, groups, text, waits};
use sockstamp_run::{command, escape};

use crate::measure;
use crate::watched::{self, Watched};
use intervals::Intervals;
pub(crate) use options::measurement;
pub use options::{Format, Options};
use options::{brush_of, output_of};
use wall_time::{Waits, WallTime};

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(runs) = options.repeat {
        return repeat::run(options, runs);
    }
    if options.interval.is_some() && options.format == Format::Csv {
        return Err(
            WrongUse("--interval prints text or JSON: leave out --format csv".to_owned()).into(),
        );
    }
    if let (Some(interval), Some(duration)) = (options.interval, options.live.duration)
        && interval > duration
    {
        let told = format!(
            "--interval {} is longer than --duration {}: a bare number has seconds, as in 1000ms",
            Nanos::from(interval),
            Nanos::from(duration)
        );
        return Err(WrongUse(told).into());
    }
    let mut output = output_of(options)?;
    let measurement = measurement(options);
    // The listeners of a command end with it.
    let listeners = match options.live.command[..] {
        [] => Some(Listeners::of(options.live.target.resolve()?)),
        _ => None,
    };
    let mut waits = Waits::default();
    let live = &options.live;
    let scope = watched::scope(&live.target, &live.command, options.slow.slow.into());
    let is_printed = !options.cumulative && options.format != Format::Csv;
    let mut watched = Watched::new(scope).printed(is_printed);
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
        unix: watched.unix(),
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

/// The results of a measurement.
#[derive(Clone, Copy)]
struct Results<'a> {
    summary: &'a Summary,
    wall_time: Option<&'a WallTime>,
    diagnosis: &'a Diagnosis,
    /// Those that no message shows whole.
    waits: &'a [Wait],
    /// Waits over Unix sockets.
    unix: &'a [UnixWait],
}

fn print(output: &mut dyn Write, results: &Results<'_>, options: &Options) -> io::Result<()> {
    let &Results {
        summary,
        wall_time,
        diagnosis,
        waits,
        unix,
    } = results;
    let brush = brush_of(options);
    let columns = &options.columns;
    let shown = Shown {
        diagnosis,
        why: options.why,
    };
    let waited = !waits.is_empty() || !unix.is_empty();
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
        (Format::Text, groups) => {
            text::table(output, summary, columns, &shown, &Places::here(), brush)?;
            if let Some(groups) = groups {
                groups::table(output, groups, options.top)?;
                groups::diagnoses(output, groups, options.slow.slow.into(), brush)?;
            }
        }
        (Format::Csv, None) => csv::summary(output, summary, columns)?,
        (Format::Csv, Some(groups)) => groups::csv(output, groups)?,
        (Format::Json, _) => {
            let json = Json {
                summary,
                wall_time,
                diagnosis: findings::Json::new(diagnosis, options.slow.slow.into()),
                waits: waits
                    .iter()
                    .map(waits::Json::from)
                    .chain(unix.iter().map(waits::Json::from))
                    .collect(),
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
