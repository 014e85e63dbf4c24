//! Print what ran where, for people and as lines of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use super::protocol::{Outcome, Verdict};
use super::selection::LeftOut;

/// The outcome of a test on one kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) kernel: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// One line per test.
pub(crate) fn json_lines(rows: &[Row]) -> serde_json::Result<String> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

/// One line per test, one column per kernel.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut kernels: Vec<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
    kernels.sort_by_key(|kernel| version(kernel));
    kernels.dedup();
    let mut cells = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for row in rows {
        let test = format!("{} {}", row.outcome.binary, row.outcome.test);
        cells.insert((test.clone(), row.kernel.as_str()), &row.outcome);
        tests.insert(test);
    }
    let width = tests.iter().map(String::len).max().unwrap_or_default();
    let mut text = format!("{:width$}", "test");
    for kernel in &kernels {
        let _ = write!(text, "  {kernel:>7}");
    }
    for test in &tests {
        let _ = write!(text, "\n{test:width$}");
        for kernel in &kernels {
            let cell = cells.get(&(test.clone(), *kernel));
            let _ = write!(
                text,
                "  {:>7}",
                cell.map_or(String::new(), |outcome| short(outcome))
            );
        }
    }
    text.push('\n');
    text
}

/// 6.12 comes after 6.9.
fn version(kernel: &str) -> Vec<u64> {
    kernel
        .split('.')
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn short(outcome: &Outcome) -> String {
    match outcome.result {
        Verdict::Ok => format!("{:.1} s", outcome.seconds),
        Verdict::Failed => "FAILED".into(),
        Verdict::Skipped => "skipped".into(),
    }
}

/// One line per skip, as every test of the workspace writes it.
pub(crate) fn skips(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows
        .iter()
        .filter(|row| row.outcome.result == Verdict::Skipped)
    {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "SKIP {} on {}: {reason}",
            row.outcome.test, row.kernel
        );
    }
    text
}

/// A line for each test that failed at first.
pub(crate) fn second_tries(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some(first) = &row.outcome.again {
            let _ = writeln!(
                text,
                "a second try of {} on {}: at first {first}",
                row.outcome.test, row.kernel
            );
        }
    }
    text
}

/// Print what was left out: tests for the host only.
pub(crate) fn left_out(left_out: &LeftOut) -> String {
    let mut text = "not chosen (kernel/lab/tests.txt):\n".to_owned();
    for ((binary, reason), tests) in left_out {
        let _ = writeln!(text, "  {tests:3} of {binary}: {reason}");
    }
    text
}

/// All that a failed test said, up to `lines` lines from its end.
pub(crate) fn failures(rows: &[Row], lines: usize) -> String {
    let mut text = String::new();
    for row in rows
        .iter()
        .filter(|row| row.outcome.result == Verdict::Failed)
    {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "\nFAILED {} {} on {}: {reason}",
            row.outcome.binary, row.outcome.test, row.kernel
        );
        let said: Vec<&str> = row.outcome.output.lines().collect();
        for line in &said[said.len().saturating_sub(lines)..] {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &str, test: &str, result: Verdict, reason: Option<&str>) -> Row {
        Row {
            kernel: kernel.into(),
            outcome: Outcome {
                binary: "a/x".into(),
                test: test.into(),
                result,
                seconds: 1.25,
                reason: reason.map(str::to_owned),
                again: None,
                output: "one\ntwo\nthree\n".into(),
            },
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            row("6.1", "one", Verdict::Skipped, Some("no hook")),
            row("7.2", "one", Verdict::Ok, None),
            row("7.2", "two", Verdict::Failed, Some("left != right")),
        ]
    }

    #[test]
    fn the_report_has_a_line_per_test_and_a_column_per_kernel() {
        let table = table(&rows());
        assert_eq!(
            table,
            "test         6.1      7.2\na/x one  skipped    1.2 s\na/x two            FAILED\n"
        );
    }

    #[test]
    fn skips_have_reasons() {
        assert_eq!(skips(&rows()), "SKIP one on 6.1: no hook\n");
        let given = LeftOut::from([(("a/y".to_owned(), "too slow".to_owned()), 7)]);
        assert_eq!(
            left_out(&given),
            "not chosen (kernel/lab/tests.txt):\n    7 of a/y: too slow\n"
        );
    }

    #[test]
    fn a_failure_ends_with_its_last_output() {
        assert_eq!(
            failures(&rows(), 2),
            "\nFAILED a/x two on 7.2: left != right\n    two\n    three\n"
        );
    }

    #[test]
    fn a_line_of_json_has_all_but_the_output() {
        assert_eq!(
            json_lines(&rows()[..1]).unwrap(),
            "{\"kernel\":\"6.1\",\"binary\":\"a/x\",\"test\":\"one\",\"result\":\"skipped\",\"seconds\":1.25,\
             \"reason\":\"no hook\",\"again\":null}\n"
        );
    }
}
