//! Run steps one after the other, each if it must be run, can be run, and has time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::built::Built;
use super::child::End;
use super::inputs::{self, Stamp};
use super::log::{self, Log, Times};
use super::programs;
use super::runner::Runner;
use super::steps::{Lane, Need, Run, Set, Step};

/// How a step ended, or why it did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    TimedOut,
    /// The time for all steps was over. This says nothing of the product.
    DidNotFinish,
    /// The reason why it cannot run here.
    Skipped(String),
    LeftOut(String),
}

/// A step and what became of it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) step: &'static Step,
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
    pub(super) text: String,
    pub(super) times: Times,
}

/// The settings of a whole run.
#[derive(Debug)]
pub(super) struct Setting {
    /// The folder of cargo's builds; `tests/` in it has logs and stamps.
    pub(super) target: PathBuf,
    pub(super) programs: Built,
    /// When steps that `make test` does not have end. None: never.
    pub(super) deadline: Option<Instant>,
    /// Leave out steps of `make test-all` that have passed with the same inputs.
    pub(super) stamps: bool,
    /// Leave out those whose inputs are as in this commit.
    pub(super) base: Option<String>,
}

/// Where a lane prints, and on which processors it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Print as output comes.
    Front,
    /// Print at the end of a step, and use idle processors alone.
    Beside,
}

pub(super) fn run(steps: &[&'static Step], place: Place, setting: &Setting) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for step in steps {
        let report = run_step(step, place, setting)?;
        if place == Place::Beside {
            log::print(report.text.as_bytes());
        }
        reports.push(report);
    }
    Ok(reports)
}

fn run_step(step: &'static Step, place: Place, setting: &Setting) -> Result<Report> {
    let path = setting
        .target
        .join("tests/logs")
        .join(format!("{}.log", step.name));
    let mut log = Log::create(&path, place == Place::Front)?;
    log.line(&format!("\n== {}", step.name))?;
    let built = setting.target.join("debug");
    let began = Instant::now();
    let mut times = Times::new();
    let stamp = (step.set == Set::All)
        .then(|| Stamp::of(step, &setting.target))
        .flatten();
    let outcome = match reason_against(step, stamp.as_ref(), setting) {
        Some(reason) => Outcome::LeftOut(reason),
        None => {
            let mut runner = Runner {
                log: &mut log,
                end: end(step, setting),
                idle: place == Place::Beside,
                narrow: place == Place::Beside && step.lane == Lane::Checks,
                built: &built,
                programs: &setting.programs,
                times: Times::new(),
            };
            let outcome = outcome(step, setting, &mut runner);
            times = runner.times;
            outcome
        }
    };
    match &outcome {
        Outcome::Skipped(reason) => log.line(&format!("SKIP {}: {reason}", step.name))?,
        Outcome::LeftOut(reason) => log.line(&format!("Left out: {reason}"))?,
        _ => {}
    }
    let report = Report {
        step,
        outcome,
        time: began.elapsed(),
        text: log.text().to_owned(),
        times,
    };
    if let Some(stamp) = stamp.filter(|_| report.is_worth_a_stamp()) {
        stamp.keep()?;
    }
    Ok(report)
}

fn outcome(step: &Step, setting: &Setting, runner: &mut Runner) -> Outcome {
    let end = match unmet(step, runner) {
        // To meet a need may take a download.
        Ok(Some(_)) if Instant::now() >= runner.end => Ok(End::OverLimit),
        Ok(Some(need)) => return Outcome::Skipped(need.otherwise.to_owned()),
        Ok(None) => run_all(step, runner),
        Err(error) => Err(error),
    };
    match end {
        Ok(End::Passed) => Outcome::Passed,
        Ok(End::OverLimit) if deadline(step, setting) == Some(runner.end) => Outcome::DidNotFinish,
        Ok(End::OverLimit) => Outcome::TimedOut,
        Ok(End::Failed | End::Silent) => Outcome::Failed,
        Err(error) => {
            // The step has failed, whether the log can be written or not.
            let _ = runner.log.line(&format!("{}: {error:#}", step.name));
            Outcome::Failed
        }
    }
}

/// Find the first need that is not met.
fn unmet<'s>(step: &'s Step, runner: &mut Runner) -> Result<Option<&'s Need>> {
    for need in step.needs {
        if runner.script(need.script)? != End::Passed {
            return Ok(Some(need));
        }
    }
    Ok(None)
}

/// Run the scripts and tests of a step in their order, until one fails.
fn run_all(step: &Step, runner: &mut Runner) -> Result<End> {
    for run in step.run {
        let end = match run {
            Run::Build => programs::build(runner)?,
            Run::Script(text) => runner.script(text)?,
            Run::Tests(groups) => programs::run(groups, runner)?,
        };
        if end != End::Passed {
            return Ok(end);
        }
    }
    Ok(End::Passed)
}

/// Return the reason to leave a step out.
fn reason_against(step: &Step, stamp: Option<&Stamp>, setting: &Setting) -> Option<String> {
    if step.set != Set::All {
        return None;
    }
    if setting.stamps && stamp.is_some_and(Stamp::is_kept) {
        return Some("it has passed with the files that are here now".into());
    }
    if let Some(base) = &setting.base
        && inputs::changed(step.inputs, base).is_ok_and(|changed| !changed)
    {
        let base = base.get(..12).unwrap_or(base);
        return Some(format!("its inputs are as in {base}"));
    }
    let left = deadline(step, setting)?.saturating_duration_since(Instant::now());
    let minutes = step.minutes;
    (left < Duration::from_secs(60 * minutes)).then(|| {
        let left = left.as_secs() / 60;
        format!("it takes {minutes} minutes, and {left} are left")
    })
}

fn end(step: &Step, setting: &Setting) -> Instant {
    let limit = Instant::now() + Duration::from_secs(60 * step.limit);
    deadline(step, setting).map_or(limit, |deadline| limit.min(deadline))
}

/// The time for all ends no step of `make test`.
fn deadline(step: &Step, setting: &Setting) -> Option<Instant> {
    setting.deadline.filter(|_| step.set == Set::All)
}

impl Report {
    /// Counts of another compiler were compared with wide limits only.
    fn is_worth_a_stamp(&self) -> bool {
        self.outcome == Outcome::Passed
            && !self
                .text
                .lines()
                .any(|line| line.starts_with("SKIP instructions: "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::STEP;
    use super::*;

    const MORE: Step = Step {
        name: "more",
        set: Set::All,
        run: &[Run::Script("echo done")],
        inputs: &["xtask/Cargo.toml"],
        minutes: 0,
        ..STEP
    };

    fn setting(target: &tempfile::TempDir) -> Setting {
        std::fs::create_dir_all(target.path().join("tests/logs")).unwrap();
        Setting {
            target: target.path().to_owned(),
            programs: Built::default(),
            deadline: None,
            stamps: false,
            base: None,
        }
    }

    fn run_one(step: &'static Step, change: impl FnOnce(&mut Setting)) -> Report {
        let target = tempfile::tempdir().unwrap();
        let mut setting = setting(&target);
        change(&mut setting);
        run_step(step, Place::Beside, &setting).unwrap()
    }

    #[test]
    fn scripts_run_in_their_order_until_one_fails() {
        static FAILS: Step = Step {
            name: "fails",
            run: &[
                Run::Script("echo one; false; echo two"),
                Run::Script("echo three"),
            ],
            ..STEP
        };
        let report = run_one(&FAILS, |_| {});
        assert_eq!(report.outcome, Outcome::Failed);
        assert_eq!(report.text, "\n== fails\none\n");
    }

    #[test]
    fn commands_of_a_step_know_nothing_of_xtasks_package() {
        static LISTS: Step = Step {
            run: &[Run::Script("! env | grep -E '^CARGO_(PKG|MANIFEST)_'")],
            ..STEP
        };
        assert_eq!(run_one(&LISTS, |_| {}).outcome, Outcome::Passed);
    }

    #[test]
    fn a_step_whose_need_is_not_met_is_skipped_with_the_reason() {
        static NEEDS: Step = Step {
            name: "needs",
            needs: &[Need {
                script: "exit 1",
                otherwise: "there is none",
            }],
            ..MORE
        };
        let report = run_one(&NEEDS, |_| {});
        assert_eq!(report.outcome, Outcome::Skipped("there is none".into()));
        assert!(
            report.text.ends_with("SKIP needs: there is none\n"),
            "{}",
            report.text
        );
    }

    #[test]
    fn the_time_for_all_ends_further_steps_and_none_of_make_test() {
        static SLEEPS: Step = Step {
            run: &[Run::Script("sleep 1.5")],
            ..MORE
        };
        static OF_TEST: Step = Step {
            set: Set::Test,
            ..SLEEPS
        };
        let soon = |setting: &mut Setting| {
            setting.deadline = Some(Instant::now() + Duration::from_secs(1));
        };
        assert_eq!(run_one(&SLEEPS, soon).outcome, Outcome::DidNotFinish);
        assert_eq!(run_one(&OF_TEST, soon).outcome, Outcome::Passed);
    }

    #[test]
    fn a_step_that_takes_longer_than_is_left_does_not_begin() {
        static LONG: Step = Step { minutes: 5, ..MORE };
        let report = run_one(&LONG, |setting| {
            setting.deadline = Some(Instant::now() + Duration::from_secs(150));
        });
        let reason = "it takes 5 minutes, and 2 are left";
        assert_eq!(report.outcome, Outcome::LeftOut(reason.into()));
    }

    #[test]
    fn a_step_that_has_passed_with_the_same_inputs_is_left_out_if_asked() {
        static PASSES: Step = MORE;
        let target = tempfile::tempdir().unwrap();
        let mut setting = setting(&target);
        let mut run = |stamps| {
            setting.stamps = stamps;
            run_step(&PASSES, Place::Beside, &setting).unwrap().outcome
        };
        assert_eq!(run(true), Outcome::Passed);
        assert!(matches!(run(true), Outcome::LeftOut(_)));
        assert_eq!(run(false), Outcome::Passed);
    }

    #[test]
    fn a_step_whose_inputs_are_as_in_the_base_is_left_out() {
        static ELSEWHERE: Step = Step {
            inputs: &["no/such/file"],
            ..MORE
        };
        let report = run_one(&ELSEWHERE, |setting| setting.base = Some("HEAD".into()));
        assert_eq!(
            report.outcome,
            Outcome::LeftOut("its inputs are as in HEAD".into())
        );
    }
}
