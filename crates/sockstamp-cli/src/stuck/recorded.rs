//! `stuck -r`: what waited in recordings, and got no data.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use sockstamp_bpf::stuck::{Open, OpenUnix};
use sockstamp_host::places::Places;
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::wait::{End, UnixWait, Wait};
use sockstamp_print::colour::Brush;
use sockstamp_print::destination::Stream;
use sockstamp_print::line::time_of_day;
use sockstamp_print::open_waits;
use sockstamp_print::output::{self, Format};
use sockstamp_print::waits;
use sockstamp_record::Waited;
use sockstamp_run::escape;
use sockstamp_run::utc::utc;

use super::options::{Options, VERSION, WAITING};
use crate::recordings::{Recordings, all_files};

pub(super) fn run(recordings: &Recordings, options: &Options) -> Result<ExitCode> {
    let slow = Nanos::from(options.slow);
    let mut rows = Vec::new();
    let read = recordings.waits(|row| {
        if row.wait.end != End::Data && row.wait.lasted >= slow {
            rows.push(row.clone());
        }
    })?;
    rows.sort_by_key(|row| Reverse(row.wait.lasted));
    if read.lost > 0 {
        escape::complain(format_args!(
            "{} waits are not in the recording: they came too fast",
            read.lost
        ));
    }
    let files = all_files(&options.source.files)?;
    let mut output = options.output.open_beside(Stream::Output, &files)?;
    let brush = options.colours.brush_for(&options.output, Stream::Output);
    let written = match options.format {
        Format::Text => text(&mut *output, &rows, &recordings.places(), options, brush),
        Format::Json => json(&mut *output, &rows, slow),
    };
    let written = written.and_then(|()| output.flush());
    output::unless_unread(written.context("cannot print"))?;
    Ok(match rows[..] {
        [_, ..] if options.fail => ExitCode::from(WAITING),
        _ => ExitCode::SUCCESS,
    })
}

fn text(
    output: &mut dyn Write,
    rows: &[Waited],
    places: &Places,
    options: &Options,
    brush: Brush,
) -> io::Result<()> {
    let names = open_waits::Places::recorded(places);
    for row in rows {
        let line = match row.unix() {
            Some(wait) => open_waits::unix_line(&open_unix(wait), &names, brush),
            None => open_waits::line(&open(&row.wait), &names, brush),
        };
        writeln!(output, "{line}; {}, {}", how(row.wait.end), at(row.time))?;
        if options.why && row.unix.is_none() {
            for paragraph in open_waits::why(&row.wait) {
                writeln!(output, "{paragraph}")?;
            }
        }
    }
    let slow = Nanos::from(options.slow);
    match rows.len() {
        0 => writeln!(output, "nothing waited {slow} or longer without data"),
        1 => writeln!(output, "1 wait of {slow} or longer got no data"),
        count => writeln!(output, "{count} waits of {slow} or longer got no data"),
    }
}

fn open(wait: &Wait) -> Open {
    Open {
        wait: wait.clone(),
        at_least: wait.may_be_older(),
        or_pushed_to: false,
    }
}

fn open_unix(wait: UnixWait) -> OpenUnix {
    OpenUnix {
        wait,
        at_least: false,
        count: 0,
        is_full: false,
    }
}

fn at(time: Timestamp<Realtime>) -> String {
    let nanos = time.as_nanos();
    let [date, ..] = utc(nanos / 1_000_000_000);
    format!("{date} {} UTC", time_of_day(nanos))
}

fn how(end: End) -> String {
    match end {
        End::Open => "still at the end".to_owned(),
        end => end.name().replace('-', " "),
    }
}

/// The object of `--format json`.
#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    slow_ns: Nanos,
    waits: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    time_ns: u64,
    #[serde(flatten)]
    wait: waits::Json<'a>,
}

impl<'a> Row<'a> {
    fn of(row: &'a Waited, unix: Option<&'a UnixWait>) -> Self {
        let of_unix = unix.map(waits::Json::from);
        Self {
            time_ns: row.time.as_nanos(),
            wait: of_unix.unwrap_or_else(|| waits::Json::from(&row.wait)),
        }
    }
}

fn json(output: &mut dyn Write, rows: &[Waited], slow_ns: Nanos) -> io::Result<()> {
    let unix: Vec<_> = rows.iter().map(Waited::unix).collect();
    let both = rows.iter().zip(&unix);
    let object = Json {
        version: VERSION,
        slow_ns,
        waits: both
            .map(|(row, unix)| Row::of(row, unix.as_ref()))
            .collect(),
    };
    escape::json(&mut *output, &object)?;
    writeln!(output)
}
