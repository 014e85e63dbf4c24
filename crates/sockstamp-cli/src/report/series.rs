//! Intervals of a recording, one after the other.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_model::group::{GroupDirection, GroupKey, GroupSummary, Grouping, Groups};
use sockstamp_print::groups;
use sockstamp_print::line::time_of_day;
use sockstamp_run::utc::utc;

/// Groups by interval.
pub(crate) struct Series {
    pub(crate) interval_ns: u64,
    pub(crate) by: Option<Grouping>,
    /// With the start of each, in nanoseconds since 1970.
    pub(crate) intervals: Vec<(u64, Groups)>,
}

/// Print two lines per interval and group, and the first `count` groups of each interval.
pub(crate) fn table(output: &mut dyn Write, series: &Series, count: usize) -> io::Result<()> {
    let date = |begin: u64| {
        let [date, ..] = utc(begin / 1_000_000_000);
        date
    };
    let days = [series.intervals.first(), series.intervals.last()]
        .map(|interval| interval.map(|(begin, _)| date(*begin)));
    let name = |begin: u64, of: &str| {
        let time = time_of_day(begin);
        let time = match series.interval_ns % 1_000_000_000 {
            0 => &time.as_str()[..8],
            _ => time.as_str(),
        };
        let time = match days[0] == days[1] {
            true => time.to_owned(),
            false => format!("{} {time}", date(begin)),
        };
        match &series.by {
            Some(_) => format!("{time} {of}"),
            None => time,
        }
    };
    let mut rows = Vec::new();
    for (begin, groups) in &series.intervals {
        let named = match &series.by {
            Some(_) => groups::named(groups, count),
            None => vec![(String::new(), all(groups))],
        };
        rows.extend(
            named
                .into_iter()
                .map(|(of, group)| (name(*begin, &of), group)),
        );
    }
    let headline = match &series.by {
        Some(by) => format!("time (UTC), by {by}"),
        None => "time (UTC)".to_owned(),
    };
    groups::rows(output, &headline, &rows)
}

fn all(groups: &Groups) -> GroupSummary {
    let (_, all) = groups.top(0);
    all
}

/// Print the lines of [`groups::csv`], with the begin of their interval before each.
pub(crate) fn csv(output: &mut dyn Write, series: &Series) -> io::Result<()> {
    let by = series.by.as_ref();
    write!(output, "time_ns,")?;
    groups::csv_names(output, by)?;
    for (begin, groups) in &series.intervals {
        let mut lines = Vec::new();
        groups::csv_lines(&mut lines, by, groups)?;
        for line in String::from_utf8_lossy(&lines).lines() {
            writeln!(output, "{begin},{line}")?;
        }
    }
    Ok(())
}

/// The key `series` of a report's JSON.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    interval_ns: u64,
    by: Vec<&'static str>,
    rows: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    time_ns: u64,
    key: &'a GroupKey,
    tx: &'a GroupDirection,
    rx: &'a GroupDirection,
}

impl<'a> From<&'a Series> for Json<'a> {
    fn from(series: &'a Series) -> Self {
        let row = |time_ns: u64, group: &'a GroupSummary| Row {
            time_ns,
            key: &group.key,
            tx: &group.tx,
            rx: &group.rx,
        };
        let rows = series.intervals.iter().flat_map(|(begin, groups)| {
            let other = Some(&groups.other).filter(|other| other.messages() > 0);
            groups
                .groups
                .iter()
                .chain(other)
                .map(move |group| row(*begin, group))
        });
        Self {
            interval_ns: series.interval_ns,
            by: (series.by.iter())
                .flat_map(Grouping::dimensions)
                .map(sockstamp_model::Dimension::name)
                .collect(),
            rows: rows.collect(),
        }
    }
}
