//! Sum up what all steps have printed.

use std::cmp::Reverse;
use std::time::Duration;

use super::lane::{Outcome, Report};

/// Retries of a run that nothing explains: more say that a bound is wrong, or the product. A quiet
/// machine has none to three.
const MOST_RETRIES: usize = 5;
/// Retries while the hypervisor gave this machine's processors to others, as `/proc/stat` says. A
/// crowded host was seen to cause fifteen. More say that this machine cannot measure times.
const MOST_STOLEN: usize = 20;
/// How many of the longest tests are listed.
const LONGEST: usize = 10;

/// Counts of the harness' last lines: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tests {
    passed: usize,
    failed: usize,
    ignored: usize,
    programs: usize,
}

/// A run in words, and whether it has passed.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) passed: bool,
}

pub(super) fn summary(reports: &[Report]) -> Summary {
    let all: String = reports.iter().map(|report| report.text.as_str()).collect();
    let skipped = skipped(&all);
    let retried = marked(&all, "RETRY ");
    let stolen = retried
        .iter()
        .filter(|line| line.contains(" (stolen: "))
        .count();
    let unexplained = retried.len() - stolen;
    let too_many = unexplained > MOST_RETRIES || stolen > MOST_STOLEN;
    let mut text = "\n== summary\n".to_owned();
    text.extend(reports.iter().filter_map(row));
    text += &list("longest tests", times(reports).into_iter().take(LONGEST));
    text += &list("left out", reports.iter().filter_map(left_out));
    text += &list("skipped", skipped.iter().map(ToString::to_string));
    text += &list("retried", retried.iter().map(ToString::to_string));
    text += &format!(
        "retries: {unexplained}, of {MOST_RETRIES} that are allowed; {stolen}, of {MOST_STOLEN}, \
         while processors were stolen\n"
    );
    if too_many {
        text += "FAILED: too many measurements of time missed\n";
    }
    let (passed, failed) = counts(reports, too_many);
    // Last, for programs that read it.
    text += &format!(
        "{passed} passed, {failed} failed, {} skipped\n",
        skipped.len()
    );
    Summary {
        text,
        passed: failed == 0,
    }
}

/// Count tests. A step without tests counts as one, and so does one that failed by no test's fault.
fn counts(reports: &[Report], too_many_retries: bool) -> (usize, usize) {
    let mut sum = (0, usize::from(too_many_retries));
    for report in reports {
        let tests = tests(&report.text);
        let as_step = |outcome: bool, of_tests: usize| usize::from(outcome && of_tests == 0);
        let failed = matches!(report.outcome, Outcome::Failed | Outcome::TimedOut);
        sum.0 += tests.passed + as_step(report.outcome == Outcome::Passed, tests.passed);
        sum.1 += tests.failed + as_step(failed, tests.failed);
    }
    sum
}

fn row(report: &Report) -> Option<String> {
    let word = match report.outcome {
        Outcome::Passed => "ok",
        Outcome::Failed => "FAILED",
        Outcome::TimedOut => "TIMEOUT",
        Outcome::DidNotFinish => "did not finish",
        Outcome::Skipped(_) => "skipped",
        Outcome::LeftOut(_) => return None,
    };
    let tests = match tests(&report.text) {
        Tests { programs: 0, .. } => String::new(),
        Tests {
            passed,
            failed,
            ignored,
            programs,
        } => {
            format!("  {passed} passed, {failed} failed, {ignored} ignored, in {programs} programs")
        }
    };
    let seconds = report.time.as_secs();
    Some(format!(
        "{word:<15} {:<14}{seconds:>5} s{tests}\n",
        report.step.name
    ))
}

fn left_out(report: &Report) -> Option<String> {
    match &report.outcome {
        Outcome::LeftOut(reason) => Some(format!("{}: {reason}", report.step.name)),
        Outcome::DidNotFinish => Some(format!(
            "{}: it did not finish in the time for all steps",
            report.step.name
        )),
        _ => None,
    }
}

/// Return the time of each test that ran alone in its program, the longest first.
pub(super) fn times(reports: &[Report]) -> Vec<String> {
    let mut times: Vec<_> = reports.iter().flat_map(|report| &report.times).collect();
    times.sort_by_key(|(_, time)| Reverse(*time));
    let row = |(test, time): &(String, Duration)| format!("{:>6.1} s  {test}", time.as_secs_f64());
    times.into_iter().map(row).collect()
}

fn list(title: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: String = lines.map(|line| format!("\n  {line}")).collect();
    let lines = if lines.is_empty() { " nothing" } else { &lines };
    format!("{title}:{lines}\n")
}

fn tests(text: &str) -> Tests {
    let mut sum = Tests::default();
    for line in text.lines() {
        let Some(counts) = line.strip_prefix("test result: ") else {
            continue;
        };
        let words: Vec<_> = counts.split_whitespace().collect();
        let count = |word| {
            let place = words.iter().position(|&other| other == word)?;
            words.get(place.checked_sub(1)?)?.parse::<usize>().ok()
        };
        sum.passed += count("passed;").unwrap_or(0);
        sum.failed += count("failed;").unwrap_or(0);
        sum.ignored += count("ignored;").unwrap_or(0);
        sum.programs += 1;
    }
    sum
}

fn skipped(text: &str) -> Vec<&str> {
    let ignored = |line: &&str| line.starts_with("test ") && line.contains(" ... ignored");
    let mut lines = marked(text, "SKIP ");
    lines.extend(text.lines().filter(ignored));
    lines
}

/// Return lines that begin so, of themselves or after the name of the test that prints them.
fn marked<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let of_line = |line: &'t str| {
        let after_name = line
            .find(&format!(" ... {mark}"))
            .map(|at| &line[at + " ... ".len()..]);
        line.starts_with(mark).then_some(line).or(after_name)
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::steps;
    use super::*;

    const PRINTED: &str = "\
test a ... SKIP a: no such hook
ok
test b ... RETRY b: late
RETRY b: later (stolen: 60 ms)
ok
test c ... ignored, by hand
SKIP d: no Java
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
";

    fn report(name: &str, outcome: Outcome, text: &str) -> Report {
        Report {
            step: steps::named(name).unwrap(),
            outcome,
            time: Duration::from_secs(3),
            text: text.to_owned(),
            times: vec![("cli/witness a".to_owned(), Duration::from_millis(1234))],
        }
    }

    #[test]
    fn skips_retries_and_counts_are_found() {
        assert_eq!(
            skipped(PRINTED),
            [
                "SKIP a: no such hook",
                "SKIP d: no Java",
                "test c ... ignored, by hand"
            ]
        );
        assert_eq!(
            marked(PRINTED, "RETRY "),
            ["RETRY b: late", "RETRY b: later (stolen: 60 ms)"]
        );
        let expected = Tests {
            passed: 4,
            failed: 2,
            ignored: 1,
            programs: 2,
        };
        assert_eq!(tests(PRINTED), expected);
    }

    #[test]
    fn the_last_line_counts_tests_and_steps_without_tests() {
        let summary = summary(&[
            report("live", Outcome::Failed, PRINTED),
            report("clippy", Outcome::Passed, ""),
            report("doc", Outcome::TimedOut, ""),
            report("series", Outcome::LeftOut("no time".into()), ""),
        ]);
        assert!(!summary.passed);
        let last = summary.text.lines().last();
        assert_eq!(
            last,
            Some("5 passed, 3 failed, 3 skipped"),
            "{}",
            summary.text
        );
        assert!(
            summary.text.contains("left out:\n  series: no time\n"),
            "{}",
            summary.text
        );
        assert!(
            summary.text.contains("\n     1.2 s  cli/witness a\n"),
            "{}",
            summary.text
        );
    }

    #[test]
    fn more_retries_than_allowed_fail_a_run_and_stolen_ones_count_apart() {
        let run = |unexplained: usize, stolen: usize| {
            let text = "RETRY a: late\n".repeat(unexplained)
                + &"RETRY a: late (stolen: 60 ms)\n".repeat(stolen);
            summary(&[report("live", Outcome::Passed, &text)]).passed
        };
        assert!(run(MOST_RETRIES, MOST_STOLEN));
        assert!(!run(MOST_RETRIES + 1, 0));
        assert!(!run(0, MOST_STOLEN + 1));
    }

    #[test]
    fn a_step_that_did_not_finish_fails_nothing() {
        let reports = [report("kernels", Outcome::DidNotFinish, "")];
        assert!(summary(&reports).passed);
    }
}
