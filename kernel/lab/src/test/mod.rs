//! The chosen tests of the workspace on every kernel.

mod binaries;
mod facts;
mod places;
mod protocol;
mod report;
mod selection;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::arch::Arch;
use crate::choice::Choice;
use crate::kernel::Kernel;
use crate::series;
use binaries::Built;
use facts::{Comparison, Facts};
use places::{Ran, Tasks};
use protocol::Verdict;
use report::Row;
use selection::LeftOut;

/// Lines shown of a failed test's output.
const SHOWN_LINES: usize = 40;

/// Options of `test`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Kernels, as for `run`; all of Debian's if none is given
    #[arg(long = "kernel", value_name = "KERNEL")]
    kernels: Vec<Choice>,
    /// Ask doctor and the verifier of this machine's own kernel as well (root): cargo test runs its
    /// tests
    #[arg(long)]
    host: bool,
    /// Only ask doctor and the verifier
    #[arg(long)]
    facts: bool,
    /// Only the chosen tests with this in `BINARY TEST`
    #[arg(long, value_name = "TEXT", conflicts_with = "facts")]
    only: Option<String>,
    /// Keep the output of doctor and the verifier as the results of these kernels
    #[arg(long)]
    bless: bool,
    /// Number of guests that run in parallel [default: the number of CPUs]
    #[arg(long, value_name = "NUMBER")]
    guests: Option<usize>,
}

/// Fails if any test does, or if the facts are not those that are kept.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut choices = arguments.kernels.clone();
    if choices.is_empty() {
        choices = Choice::all_of_debian(Arch::Amd64);
    }
    let built = binaries::build(features(&choices)?)?;
    let (mut chosen, left_out) = selection::choose(&built)?;
    chosen.retain(|test| !arguments.facts || test.binary == facts::BINARY);
    if let Some(text) = &arguments.only {
        chosen.retain(|test| format!("{} {}", test.binary, test.name).contains(text));
    }
    let kernels: Vec<Kernel> = choices
        .iter()
        .map(|choice| choice.get(Arch::Amd64))
        .collect::<Result<_>>()?;
    let folder = folder(&built)?;
    let tasks = Tasks::new(&built, &chosen)?;
    let guests = arguments
        .guests
        .map_or_else(processors, |guests| guests.max(1));
    let mut ran = places::in_guests(&kernels, &tasks, guests, &folder)?;
    if arguments.host {
        chosen.retain(|test| test.binary == facts::BINARY);
        ran.extend(places::on_host(&Tasks::new(&built, &chosen)?)?);
    }
    let good = conclude(ran, &left_out, &folder, arguments.bless)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Return the features to build with. Kept results of Debian's kernels are those of users'
/// programs, which lack what kernels that are built here are for.
fn features(choices: &[Choice]) -> Result<&'static [&'static str]> {
    let built = choices.iter().filter(|choice| choice.is_built()).count();
    match built {
        0 => Ok(&[]),
        _ if built == choices.len() => Ok(&[series::FEATURE]),
        _ => bail!("patched and stock have programs of their own: test them without other kernels"),
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Return the folder for consoles and results, next to the built binaries.
fn folder(built: &Built) -> Result<PathBuf> {
    let program = built.programs.first().context("cargo built no program")?;
    let folder = program.with_file_name("kernel-lab");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Print the report. Return true if all went well.
fn conclude(ran: Vec<Ran>, left_out: &LeftOut, folder: &Path, bless: bool) -> Result<bool> {
    let (rows, facts): (Vec<_>, Vec<_>) = ran.into_iter().map(|ran| (ran.rows, ran.facts)).unzip();
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    let results = folder.join("results.jsonl");
    fs::write(&results, report::json_lines(&rows)?)
        .with_context(|| format!("cannot write {}", results.display()))?;
    print!("{}", report::failures(&rows, SHOWN_LINES));
    println!("\n{}", report::table(&rows));
    println!("{}", report::left_out(left_out));
    print!("{}", report::second_tries(&rows));
    print!("{}", report::skips(&rows));
    let mut good = rows.iter().all(|row| row.outcome.result != Verdict::Failed);
    for facts in facts.into_iter().flatten() {
        good &= match facts {
            Ok(facts) if bless => facts.keep().map(|()| true)?,
            Ok(facts) => as_kept(&facts)?,
            Err(error) => {
                println!("FAILED {error:#}");
                false
            }
        };
    }
    Ok(good)
}

/// Keep what doctor wrote on a kernel, or return true if it is what is kept.
pub(crate) fn conclude_doctor(kernel: &str, doctor: &str, bless: bool) -> Result<bool> {
    let facts = Facts::of_doctor(kernel, doctor)?;
    if bless {
        facts.keep()?;
        return Ok(true);
    }
    as_kept(&facts)
}

fn as_kept(facts: &Facts) -> Result<bool> {
    let mut same = true;
    for (file, comparison) in facts.compare()? {
        match comparison {
            Comparison::Same => {}
            Comparison::Skipped(reason) => println!("SKIP {file}: {reason}"),
            Comparison::Different(diff) => {
                println!("\nFAILED kernel/lab/results/{file} (--facts --bless writes it)\n{diff}");
                same = false;
            }
        }
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_for_the_series_are_built_for_its_kernels_alone() {
        let features = |names: &[&str]| {
            let choices: Vec<Choice> = names.iter().map(|name| name.parse().unwrap()).collect();
            features(&choices).ok()
        };
        assert_eq!(features(&["6.1", "7.2"]), Some(&[][..]));
        assert_eq!(
            features(&["patched", "stock"]),
            Some(&[series::FEATURE][..])
        );
        assert_eq!(features(&["6.1", "patched"]), None);
    }
}
