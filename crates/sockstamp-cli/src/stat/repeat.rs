//! `stat --repeat`: the mean of each figure over several runs, and how sure it is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use nix::libc::SIGINT;
use serde::Serialize;
use sockstamp_model::clock::Nanos;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{StageSummary, Summary};
use sockstamp_print::colour::Brush;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_run::{command, escape};
use std::os::unix::process::ExitStatusExt;

use super::options::{Format, Options, brush_of, measurement, output_of};
use crate::measure::{self, Measured};

/// The version of the JSON: it changes when a key that exists changes.
const VERSION: u32 = 1;

pub(super) fn run(options: &Options, runs: u32) -> Result<ExitCode> {
    if options.live.command.is_empty() && options.live.duration.is_none() {
        let told = "--repeat needs a COMMAND or --duration: when does a run end?";
        return Err(WrongUse(told.to_owned()).into());
    }
    let mut output = output_of(options)?;
    let mut figures = Figures::default();
    let mut status = None;
    for _ in 0..runs {
        let measured = measure::run(&measurement(options), &mut ())?;
        status = measured.status;
        figures.add(&measured);
        let killed = status.is_some_and(|status| status.signal() == Some(SIGINT));
        if measured.interrupted || killed {
            break;
        }
    }
    let printed = match options.format {
        Format::Text => figures.text(&mut output, brush_of(options)),
        Format::Json => figures.json(&mut output),
        Format::Csv => figures.csv(&mut output),
    };
    match printed.and_then(|()| output.flush()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print the table")
        }
        _ => Ok(status.map_or(ExitCode::SUCCESS, command::exit_code)),
    }
}

/// A mean that grows by one run at a time: Welford's way.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    runs: u32,
    mean: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.runs += 1;
        let from = value - self.mean;
        self.mean += from / f64::from(self.runs);
        self.squares += from * (value - self.mean);
    }

    /// Return the standard error of the mean, as perf-stat(1) has it; none of a single run.
    fn error(self) -> Option<f64> {
        let runs = f64::from(self.runs);
        (self.runs > 1).then(|| (self.squares / (runs - 1.0) / runs).sqrt())
    }

    fn relative(self) -> Option<f64> {
        let error = self.error()?;
        (self.mean > 0.0).then(|| error / self.mean * 100.0)
    }
}

impl Serialize for Mean {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = [("mean", Some(self.mean)), ("error", self.error())];
        serializer.collect_map(keys)
    }
}

/// What is printed of a distribution, and its name in JSON and CSV.
const STATISTICS: [(&str, &str); 5] = [
    ("count", "count"),
    ("p50", "p50_ns"),
    ("p90", "p90_ns"),
    ("p99", "p99_ns"),
    ("max", "max_ns"),
];

/// Figures that fit into a line of text.
const PRINTED: [usize; 4] = [0, 1, 3, 4];

fn statistics(of: &StageSummary) -> [Option<f64>; STATISTICS.len()] {
    let times = [of.p50, of.p90, of.p99, of.max].map(|time| time.map(|time| time.0 as f64));
    let [p50, p90, p99, max] = times;
    [Some(of.count as f64), p50, p90, p99, max]
}

/// The means of all figures.
#[derive(Debug, Default)]
struct Figures {
    runs: u32,
    duration: Mean,
    messages: [Mean; 2],
    rows: BTreeMap<Row, [Mean; STATISTICS.len()]>,
}

/// A distribution, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Stage(Stage),
    Sent,
    Total,
}

impl Row {
    const fn name(self) -> &'static str {
        match self {
            Self::Stage(stage) => stage.name(),
            Self::Sent => "tx.sent",
            Self::Total => "rx.total",
        }
    }
}

/// Return the distributions of a run that have a message.
fn rows(summary: &Summary) -> Vec<(Row, StageSummary)> {
    let mut rows = Vec::new();
    for direction in Direction::ALL {
        let half = summary.direction(direction);
        let stages = half.stages.present();
        rows.extend(stages.map(|(stage, histogram)| (Row::Stage(stage), histogram.into())));
        let whole = match direction {
            Direction::Tx => Row::Sent,
            Direction::Rx => Row::Total,
        };
        rows.push((whole, half.time(direction).into()));
    }
    rows.retain(|(_, of): &(Row, StageSummary)| of.count > 0);
    rows
}

impl Figures {
    fn add(&mut self, measured: &Measured) {
        let summary = &measured.summary;
        self.runs += 1;
        self.duration.add(summary.duration.0 as f64);
        for (mean, direction) in self.messages.iter_mut().zip(Direction::ALL) {
            mean.add(summary.direction(direction).messages as f64);
        }
        for (row, of) in rows(summary) {
            let means = self.rows.entry(row).or_default();
            for (mean, value) in means.iter_mut().zip(statistics(&of)) {
                value.into_iter().for_each(|value| mean.add(value));
            }
        }
    }

    fn text(&self, output: &mut dyn Write, brush: Brush) -> io::Result<()> {
        let runs = match self.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs, mean ± standard error of the mean"),
        };
        writeln!(output, "\n {runs}\n")?;
        let named = [("tx", 0), ("rx", 1)];
        for (name, at) in named {
            let mean = self.messages[at];
            writeln!(
                output,
                " {name:<12}{} messages",
                cell(mean, &count(mean.mean))
            )?;
        }
        let duration = cell(self.duration, &time(self.duration.mean));
        writeln!(output, " {:<12}{duration}\n", "duration")?;
        let mut heads = format!(" {:<14}", "stage");
        for place in PRINTED {
            heads += &format!("{:>16}", STATISTICS[place].0);
        }
        writeln!(output, "{}", brush.bold(&heads))?;
        for (row, means) in &self.rows {
            write!(output, " {:<14}", row.name())?;
            for place in PRINTED {
                let mean = means[place];
                let value = match place {
                    0 => count(mean.mean),
                    _ => time(mean.mean),
                };
                write!(output, "{:>16}", cell(mean, &value))?;
            }
            writeln!(output)?;
        }
        writeln!(output)
    }

    fn json(&self, output: &mut dyn Write) -> io::Result<()> {
        let row = |means: &[Mean; STATISTICS.len()]| -> BTreeMap<_, _> {
            let keys = STATISTICS.into_iter().map(|(_, key)| key);
            keys.zip(means.iter().copied()).collect()
        };
        let [tx, rx] = self.messages;
        let object = serde_json::json!({
            "version": VERSION,
            "runs": self.runs,
            "duration_ns": self.duration,
            "messages": {"tx": tx, "rx": rx},
            "figures": self.rows.iter().map(|(of, means)| (of.name(), row(means)))
                .collect::<BTreeMap<_, _>>(),
        });
        escape::json(&mut *output, &object)?;
        writeln!(output)
    }

    fn csv(&self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "figure,statistic,runs,mean,error")?;
        let mut line = |figure: &str, statistic: &str, mean: &Mean| {
            let error = mean
                .error()
                .map_or(String::new(), |error| error.to_string());
            writeln!(
                output,
                "{figure},{statistic},{},{},{error}",
                mean.runs, mean.mean
            )
        };
        line("duration", "ns", &self.duration)?;
        line("tx", "messages", &self.messages[0])?;
        line("rx", "messages", &self.messages[1])?;
        for (row, means) in &self.rows {
            for ((_, statistic), mean) in STATISTICS.iter().zip(means) {
                line(row.name(), statistic, mean)?;
            }
        }
        Ok(())
    }
}

fn cell(mean: Mean, value: &str) -> String {
    match mean.relative() {
        Some(percent) => format!("{value} ±{percent:>4.1}%"),
        None => value.to_owned(),
    }
}

fn count(mean: f64) -> String {
    format!("{mean:.0}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of nanoseconds is not negative, and casts from floats saturate"
)]
fn time(mean: f64) -> String {
    Nanos(mean.round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_error_that_perf_prints() {
        let mut mean = Mean::default();
        mean.add(8.0);
        assert_eq!(mean.error(), None);
        [9.0, 10.0, 11.0, 12.0]
            .into_iter()
            .for_each(|value| mean.add(value));
        assert!((mean.mean - 10.0).abs() < 1e-12);
        // sqrt(10 / 4 / 5)
        assert!((mean.error().unwrap() - 0.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(cell(mean, "10"), "10 ± 7.1%");
    }
}
