//! `sockstamp diff`: what changed from one recording to another.

mod condition;
mod difference;
mod json;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use sockstamp_explain::diff::{Population, compare, one_sided, seen};
use sockstamp_print::colour::Colours;
use sockstamp_print::destination::{Output, Stream};
use sockstamp_print::output::Format;
use sockstamp_record::Detail;
use sockstamp_run::escape::complain;

use crate::options::choice::Choice;
use crate::options::chosen::Chosen;
use crate::options::files::{one_or_several, with_filter};
use crate::options::filter::FilterWords;
use crate::options::least::LeastOptions;
use crate::recordings::{Recordings, all_files, files};

use condition::{Condition, Held};
use difference::{Difference, messages};

/// The exit status if a condition of `--fail-if` holds.
const HELD: u8 = 3;

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct Options {
    /// A recording: a file, or a directory that `record -o` filled
    #[arg(
        value_name = "BEFORE",
        required_unless_present = "befores",
        conflicts_with = "befores"
    )]
    pub before: Option<PathBuf>,
    /// Another one
    #[arg(
        value_name = "AFTER",
        required_unless_present = "befores",
        conflicts_with = "befores"
    )]
    pub after: Option<PathBuf>,
    /// Several recordings of the same system, which tell how far such recordings lie apart
    #[arg(long = "before", value_name = "RECORDING", num_args = 1.., requires = "afters")]
    pub befores: Vec<PathBuf>,
    /// Several recordings to compare these with; behind them a filter
    #[arg(long = "after", value_name = "RECORDING", num_args = 1.., requires = "befores")]
    pub afters: Vec<PathBuf>,
    /// The rows that are read.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The filter expression.
    #[command(flatten)]
    pub filter: FilterWords,
    #[command(flatten)]
    /// The limits below which a change is no finding.
    pub least: LeastOptions,
    /// Exit with status 3 if this holds beyond chance, such as 'tx.qdisc.p99 > +20%'
    ///
    /// STAGE.pN > +LIMIT or STAGE.pN < -LIMIT, where STAGE is a stage, tx.sent or rx.total, pN is
    /// p50, p90, p99 or p99.9, and LIMIT is a percentage or a time with its unit (us, ms, s). It
    /// holds if the whole interval of the change is beyond the limit. If the recordings are too
    /// small to tell, the exit status is 1. May be given several times.
    #[arg(long, value_name = "CONDITION", value_parser = condition::condition)]
    pub fail_if: Vec<Condition>,
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
    let (afters, filter) = with_filter(&options.afters, &options.filter, "diff")?;
    let choice = options.chosen.choice(&filter);
    let paths = [
        one_or_several(&options.before, &options.befores),
        one_or_several(&options.after, &afters),
    ];
    let read = all_files(&paths.concat())?;
    let mut output = options.output.open_beside(Stream::Output, &read)?;
    let [before, after] = [
        populations(&paths[0], &choice)?,
        populations(&paths[1], &choice)?,
    ];
    if let Some(lacking) = lacking([&before, &after]) {
        bail!("nothing to compare: no message {lacking}");
    }
    let changes = compare(&before, &after, options.least.into());
    let one_sided = one_sided(&before, &after);
    let seen = seen(&before, &after);
    let mut held = Vec::new();
    let mut unknown = Vec::new();
    for condition in &options.fail_if {
        match condition.held(&changes) {
            Held::Yes => held.push(condition.to_string()),
            Held::No => {}
            Held::Unknown => unknown.push(condition.lacks([&before, &after])),
        }
    }
    let difference = Difference {
        before,
        after,
        seen,
        changes,
        one_sided,
        held,
    };
    print(&mut *output, &difference, options)?;
    if !difference.held.is_empty() {
        return Ok(ExitCode::from(HELD));
    }
    if !unknown.is_empty() {
        bail!("too few messages to evaluate: {}", unknown.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Name the sides without any message.
fn lacking(sides: [&[Population]; 2]) -> Option<&'static str> {
    match sides.map(messages) {
        [0, 0] => Some("matches on either side"),
        [0, _] => Some("matches before"),
        [_, 0] => Some("matches after"),
        _ => None,
    }
}

fn print(output: &mut dyn Write, difference: &Difference, options: &Options) -> Result<()> {
    let brush = options.colours.brush_for(&options.output, Stream::Output);
    let printed = match options.format {
        Format::Text => text::all(output, difference, brush),
        Format::Json => json::all(output, difference),
    };
    match printed.and_then(|()| output.flush()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")
        }
        _ => Ok(()),
    }
}

fn populations(paths: &[PathBuf], choice: &Choice) -> Result<Vec<Population>> {
    let paths = paths.iter();
    paths.map(|path| population(path, choice)).collect()
}

fn population(path: &Path, choice: &Choice) -> Result<Population> {
    let mut population = Population::new();
    let recordings = Recordings::chosen(&files(path)?, choice.clone())?;
    if let Some(slow_only) = recordings.slow_only() {
        complain(format_args!("{}: {slow_only}", path.display()));
    }
    recordings.each(Detail::Dimensions, |message| {
        population.add(message);
        Ok(())
    })?;
    Ok(population)
}
