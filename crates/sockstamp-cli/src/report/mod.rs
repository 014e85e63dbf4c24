//! `sockstamp report`: the table of `stat`, from recordings.

mod groups;
mod html;
mod series;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Serialize;
use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_host::places::Places;
use sockstamp_model::aggregate::Aggregate;
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::Waits;

use self::groups::{Intervals, Sums};
use self::series::Series;
use crate::options::chosen::Chosen;
use crate::options::files::Files;
use crate::options::slow::Slow;
use crate::recordings::findings::Findings;
use crate::recordings::{MESSAGES, Recordings, SlowOnly, all_files};
use crate::stat::Format;
use sockstamp_print::colour::{Brush, Colours};
use sockstamp_print::columns::Column;
use sockstamp_print::destination::{Output, Stream};
use sockstamp_print::findings::{self, Shown};
use sockstamp_print::groups::{Sort, dimension, order, sort};
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_print::{csv, output, text, waits};
use sockstamp_record::Detail;
use sockstamp_run::{duration, escape};

/// Options of `report`.
#[derive(Debug, Args)]
#[command(mut_arg("slow", |arg| arg.help_heading(None::<&str>)))]
pub struct Options {
    /// Recordings, and a filter.
    #[command(flatten)]
    pub files: Files,
    /// The rows that are read.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The messages whose owners are named.
    #[command(flatten)]
    pub slow: Slow,
    /// Also sum messages in groups by these dimensions
    ///
    /// The port is the service's. The cgroup is known by its number. The interface is the one that
    /// messages left by; that of reads is unknown. The size is a class of numbers of bytes, of
    /// which each ends at eight times its begin. Messages beyond 10000 groups, or an equal part of
    /// these per interval, are summed as "other".
    #[arg(
        long,
        value_name = "DIMENSION",
        value_delimiter = ',',
        value_parser = dimension(Dimension::ALL),
    )]
    pub by: Vec<Dimension>,
    /// Sum messages in intervals of this length, which begin at multiples of it since 1970
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub interval: Option<Duration>,
    /// Print this many groups per interval as text
    #[arg(long, value_name = "N", default_value_t = 10, requires = "by")]
    pub top: usize,
    /// Sort groups by this figure, the largest first
    ///
    /// count: messages; bytes; total: the time of all messages until they left the host or were
    /// read; or a stage: the time of all messages in it.
    #[arg(
        long,
        value_name = "FIGURE",
        value_parser = sort(),
        default_value = "count",
        requires = "by",
        hide_possible_values = true,
    )]
    pub sort: Sort,
    /// Columns of the table of stages, as text and CSV
    ///
    /// min, mean, p50, p90, p99, p99.9, max. JSON has all of them for each stage, whatever is
    /// chosen here, and CSV with --by or --interval has columns of its own. A part of a stage has
    /// a mean and a max alone.
    #[arg(
        long,
        value_name = "FIGURE",
        value_delimiter = ',',
        default_value = "p50,p90,p99,p99.9,max",
        hide_possible_values = true
    )]
    pub columns: Vec<Column>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
    /// Write a page with figures to this file instead, or to - (standard output): at most 2 MB,
    /// which loads nothing
    ///
    /// It has the composition of messages at some quantiles, distributions, heat maps over time,
    /// and the slowest and typical messages as waterfalls, for the 8 largest groups of --by
    /// (comm,port unless given) and all others.
    #[arg(
        long,
        value_name = "OUT",
        value_parser = OsStringValueParser::new().try_map(page),
        conflicts_with_all = ["format", "interval", "top", "sort", "columns", "output"],
    )]
    pub html: Option<PathBuf>,
    /// Print what the recordings say of their making instead: host, kernel, CPUs, clock, command
    /// line, sampling, begin, end, losses and names of network namespaces
    ///
    /// The lines are text, for each recording; files of one recording are one. What a file does not
    /// say is "not known": older programs noted less, and one that was killed noted no end.
    #[arg(
        long,
        conflicts_with_all = ["by", "interval", "top", "sort", "columns", "format", "html"],
    )]
    pub header: bool,
    /// Where it is printed.
    #[command(flatten)]
    pub output: Output,
}

/// Refuse a recording in the place of the page.
fn page(name: OsString) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(name);
    match path
        .extension()
        .is_some_and(|extension| extension == MESSAGES)
    {
        true => Err("it is the page to write, and recordings follow: --html OUT FILE"),
        false => Ok(path),
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let files = all_files(&options.files.paths)?;
    let recordings = Recordings::chosen(&files, options.chosen.choice(&options.files.filter))?;
    if options.header {
        return header(options, &recordings, &files);
    }
    if let Some(path) = page_of(options)? {
        output::unless_unread(html::run(
            &recordings,
            &files,
            &options.by,
            options.slow.slow.into(),
            path,
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::of(options, &recordings)?;
    let mut output = options.output.open_beside(Stream::Output, &files)?;
    let brush = options.colours.brush_for(&options.output, Stream::Output);
    if let Some(slow_only) = &report.slow_only {
        escape::complain(slow_only);
    }
    match print(&mut output, &report, options, brush) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print the table")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Print the making of each recording.
fn header(options: &Options, recordings: &Recordings, files: &[PathBuf]) -> Result<ExitCode> {
    let mut output = options.output.open_beside(Stream::Output, files)?;
    let made: Vec<_> = recordings
        .provenance()
        .iter()
        .map(ToString::to_string)
        .collect();
    output::unless_unread(
        write!(output, "{}", made.join("\n"))
            .and_then(|()| output.flush())
            .context("cannot print the header"),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Return the page to write: that of --html, or the file of -o if it has the name of one.
fn page_of(options: &Options) -> Result<Option<&Path>> {
    let named = options.output.page();
    let of_table = options.format != Format::Text || options.interval.is_some();
    if named.is_some() && of_table {
        let told = "a page has neither --format nor --interval: leave them out";
        return Err(WrongUse(told.to_owned()).into());
    }
    Ok(options.html.as_deref().or(named))
}

fn print(
    output: &mut dyn Write,
    report: &Report,
    options: &Options,
    brush: Brush,
) -> io::Result<()> {
    let Report {
        summary,
        series,
        slow_only,
        diagnosis,
        waits,
        places,
        is_part,
    } = report;
    let columns = &options.columns;
    let shown = Shown {
        diagnosis,
        why: false,
    };
    match (options.format, series) {
        (Format::Text, _) if text::is_empty(summary) => {
            let why = match (&waits.list[..], &waits.unix[..]) {
                ([], []) if *is_part => "nothing in the recording matches",
                ([], []) => "the recording is empty",
                _ => "none was sent or read whole, but something waited",
            };
            text::nothing(output, summary, why)?;
            shown.print(output, brush)?;
        }
        (Format::Text, series) => {
            text::table(output, summary, columns, &shown, places, brush)?;
            if let Some(groups) = &summary.groups {
                sockstamp_print::groups::table(output, groups, options.top)?;
            }
            if let Some(series) = series {
                series::table(output, series, options.top)?;
            }
        }
        (Format::Csv, Some(series)) => series::csv(output, series)?,
        (Format::Csv, None) => match &summary.groups {
            Some(groups) => sockstamp_print::groups::csv(output, groups)?,
            None => csv::summary(output, summary, columns)?,
        },
        (Format::Json, series) => {
            let series = series.as_ref().map(series::Json::from);
            let recorded_slower_than_ns = slow_only.map(|slow_only| slow_only.limit);
            let json = Json {
                summary,
                recorded_slower_than_ns,
                series,
                diagnosis: findings::Json::new(diagnosis, options.slow.slow.into()),
                waits: waits::Json::of_all(waits),
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
    /// Other messages were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_slower_than_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<series::Json<'a>>,
    diagnosis: findings::Json<'a>,
    waits: Vec<waits::Json<'a>>,
}

/// The messages and waits of all files.
struct Report {
    summary: Summary,
    series: Option<Series>,
    slow_only: Option<SlowOnly>,
    diagnosis: Diagnosis,
    waits: Waits,
    places: Places,
    /// Rows may have been left out.
    is_part: bool,
}

impl Report {
    /// The duration is the time from the first row to the last.
    fn of(options: &Options, recordings: &Recordings) -> Result<Self> {
        let by = Grouping::new(options.by.iter().copied());
        let interval = options
            .interval
            .and_then(|interval| u64::try_from(interval.as_nanos()).ok());
        let intervals = interval.map(|interval| intervals(recordings, interval));
        let mut aggregate = Aggregate::new();
        let mut sums = Sums::new(by.clone(), intervals.transpose()?.flatten());
        let mut findings = Findings::new(recordings, options.slow.slow.into())?;
        // A diagnosis needs stamps, and no column of CSV has one.
        let detail = match options.format {
            Format::Csv => Detail::Dimensions,
            Format::Text | Format::Json => Detail::All,
        };
        recordings.each(detail, |message| {
            aggregate.record(message);
            sums.add(message);
            findings.message(message);
            Ok(())
        })?;
        let mut summary = aggregate.summary(findings.duration());
        summary.lost = recordings.lost();
        let mut intervals = sums.finish();
        for (_, groups) in &mut intervals {
            order(groups, options.sort);
        }
        let series = match interval {
            None => {
                summary.groups = intervals.pop().map(|(_, groups)| groups);
                None
            }
            Some(interval_ns) => Some(Series {
                interval_ns,
                by,
                intervals,
            }),
        };
        let (diagnosis, waits) = findings.finish(&summary);
        Ok(Self {
            diagnosis,
            waits,
            summary,
            series,
            slow_only: recordings.slow_only(),
            places: recordings.places(),
            is_part: recordings.is_part(),
        })
    }
}

/// The times of the first and the last message, if there is any.
#[derive(Debug, Default)]
struct Times(Option<(Timestamp<Realtime>, Timestamp<Realtime>)>);

impl Times {
    fn add(&mut self, message: &Message) {
        let (first, last) = self.0.unwrap_or((message.time, message.time));
        self.0 = Some((first.min(message.time), last.max(message.time)));
    }
}

/// Divide the time of the recordings, or return `None` if they are empty.
fn intervals(recordings: &Recordings, length: u64) -> Result<Option<Intervals>> {
    let mut times = Times::default();
    recordings.each(Detail::Durations, |message| {
        times.add(message);
        Ok(())
    })?;
    let Some((first, last)) = times.0 else {
        return Ok(None);
    };
    let divided = Intervals::new(length, first.as_nanos(), last.as_nanos());
    divided.map(Some).map_err(|longer| {
        let millis = longer.div_ceil(1_000_000);
        anyhow!("--interval is too short for these recordings: {millis}ms or longer will do")
    })
}
