//! Run the tests as named steps. A failed step does not stop the others; the summary has all of
//! them.
//!
//! A test that cannot run here writes a line `SKIP <test>: <reason>` to standard error; the summary
//! repeats it. A measurement of time that missed and is tried again writes `RETRY <test>: <reason>`
//! (`within_attempts()` of testbed); the summary lists and counts those, and too many fail.

mod built;
mod child;
mod groups;
mod inputs;
mod lane;
mod log;
mod owner;
mod programs;
mod runner;
mod steps;
mod summary;

use std::path::{self, Path, PathBuf};
use std::process::{self, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nix::unistd::Uid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::root::root;
use built::Built;
use lane::{Place, Report, Setting};
use steps::{Lane, STEPS, Set, Step};

/// Which steps run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Steps, in this order; without any, those of `make test`
    #[arg(value_parser = step_parser())]
    steps: Vec<&'static Step>,

    /// All steps but those that have passed with the same inputs
    #[arg(long, conflicts_with = "steps")]
    all: bool,

    /// In addition to those of `make test`, the steps whose inputs differ from a commit
    #[arg(long, conflicts_with_all = ["steps", "all"])]
    changed: bool,

    /// The commit that --changed means; without one, the newest that is five hours old
    #[arg(long, env = "CI_BASE", value_name = "REV")]
    base: Option<String>,

    /// The time for all, as far as steps that `make test` does not have can be left out or ended
    #[arg(long)]
    minutes: Option<u64>,
}

fn step_parser() -> impl TypedValueParser<Value = &'static Step> {
    PossibleValuesParser::new(STEPS.iter().map(|step| step.name))
        .try_map(|name| steps::named(&name).ok_or("no such step"))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let steps = chosen(options);
    check_root(&steps)?;
    let setting = setting(options)?;
    end_by_signals(&setting.target)?;
    let reports = if options.steps.is_empty() {
        run_lanes(&steps, &setting)
    } else {
        lane::run(&steps, Place::Front, &setting)
    };
    let reports = reports?;
    keep_times(&setting.target, &summary::times(&reports))?;
    owner::give_back(&setting.target);
    let summary = summary::summary(&reports);
    print!("{}", summary.text);
    Ok(if summary.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Keep the times of live tests; a run without any leaves those of another.
fn keep_times(target: &Path, times: &[String]) -> Result<()> {
    if times.is_empty() {
        return Ok(());
    }
    let file = target.join("tests/times");
    fs::write(&file, times.join("\n")).with_context(|| format!("cannot write {}", file.display()))
}

/// Return the steps in their order. Those that `make test` does not have begin with the cheapest,
/// so that most of them have time.
fn chosen(options: &Options) -> Vec<&'static Step> {
    if !options.steps.is_empty() {
        return options.steps.clone();
    }
    let of = |set| STEPS.iter().filter(move |step| step.set == set);
    let mut more: Vec<_> = of(Set::All)
        .filter(|_| options.all || options.changed)
        .collect();
    more.sort_by_key(|step| step.minutes);
    of(Set::Test).chain(more).collect()
}

/// Plain `sudo make test` comes without the caller's cargo on PATH: Makefile says so.
fn check_root(steps: &[&Step]) -> Result<()> {
    let names: Vec<_> = steps
        .iter()
        .filter(|step| step.root)
        .map(|step| step.name)
        .collect();
    if names.is_empty() || Uid::effective().is_root() {
        return Ok(());
    }
    bail!(
        "{} needs root: tests create network namespaces and cgroups, and load BPF programs. Run:\n  \
         sudo env \"PATH=$PATH\" \"RUSTUP_HOME=${{RUSTUP_HOME:-$HOME/.rustup}}\" make test",
        names.join(", ")
    )
}

fn setting(options: &Options) -> Result<Setting> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let target = path::absolute(target).context("cannot find the target folder")?;
    let logs = target.join("tests/logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let base = options
        .changed
        .then(|| inputs::base(options.base.as_deref()))
        .flatten();
    if options.changed {
        let of = base
            .as_deref()
            .unwrap_or("an unknown commit: all steps count as changed");
        println!("Changes are those since {of}");
    }
    let minutes = options
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    Ok(Setting {
        target,
        programs: Built::default(),
        deadline: minutes.map(|time| Instant::now() + time),
        stamps: options.all,
        base,
    })
}

/// End what runs, as it is in process groups that a key at the terminal does not reach.
fn end_by_signals(target: &Path) -> Result<()> {
    let target = target.to_owned();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot wait for signals")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            child::end_all();
            owner::give_back(&target);
            process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Run the first steps, then the timed ones with both other lanes beside them.
fn run_lanes(steps: &[&'static Step], setting: &Setting) -> Result<Vec<Report>> {
    let of = |lane| -> Vec<_> {
        steps
            .iter()
            .copied()
            .filter(|step| step.lane == lane)
            .collect()
    };
    let mut reports = lane::run(&of(Lane::First), Place::Front, setting)?;
    thread::scope(|scope| {
        let others = [Lane::Beside, Lane::Checks].map(|lane| {
            let steps = of(lane);
            scope.spawn(move || lane::run(&steps, Place::Beside, setting))
        });
        reports.extend(lane::run(&of(Lane::Timed), Place::Front, setting)?);
        for other in others {
            let other = other.join().map_err(|_| anyhow!("a lane has panicked"))?;
            reports.extend(other?);
        }
        Ok(reports)
    })
}

#[cfg(test)]
mod tests {
    use super::lane::Outcome;
    use super::steps::{Run, STEP};
    use super::*;

    /// Each step ends when the two others have begun.
    #[test]
    fn three_lanes_run_side_by_side_after_the_first() {
        const MEET: &[Run] = &[Run::Script(
            "touch \"$BUILT.$$\"
             [ -e \"$BUILT.first\" ]
             until [ \"$(ls \"$BUILT\".[0-9]* | wc -l)\" = 3 ]; do sleep 0.01; done",
        )];
        static FIRST: Step = Step {
            name: "first",
            lane: Lane::First,
            run: &[Run::Script("touch \"$BUILT.first\"")],
            ..STEP
        };
        static TIMED: Step = Step {
            name: "timed",
            lane: Lane::Timed,
            run: MEET,
            ..STEP
        };
        static BESIDE: Step = Step {
            name: "beside",
            run: MEET,
            ..STEP
        };
        static CHECKS: Step = Step {
            name: "checks",
            lane: Lane::Checks,
            run: MEET,
            ..STEP
        };
        let target = tempfile::tempdir().unwrap();
        fs::create_dir_all(target.path().join("tests/logs")).unwrap();
        let setting = Setting {
            target: target.path().to_owned(),
            programs: Built::default(),
            deadline: None,
            stamps: false,
            base: None,
        };
        let reports = run_lanes(&[&CHECKS, &BESIDE, &TIMED, &FIRST], &setting).unwrap();
        assert_eq!(reports.len(), 4);
        for report in reports {
            assert_eq!(report.outcome, Outcome::Passed, "{}", report.text);
        }
    }
}
