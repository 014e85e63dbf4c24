//! Write a shell script that runs tests one by one, and parse its output.

use std::fmt::Write;

use serde::Serialize;

use super::selection::Test;
use crate::guest::Time;

/// The longest test takes half of it under emulation.
const TIME_LIMIT_S: u32 = 120;
const BEGIN: &str = "#lab begin ";
const END: &str = "#lab end ";
const NEVER_BEGAN: &str = "the guest ended before it";

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) binary: String,
    pub(crate) test: String,
    pub(crate) result: Verdict,
    pub(crate) seconds: f64,
    /// The reason of a failure or skip.
    pub(crate) reason: Option<String>,
    /// The reason of the first failure, if this is the second try.
    pub(crate) again: Option<String>,
    #[serde(skip)]
    pub(crate) output: String,
}

impl Outcome {
    /// Return true if the guest reached it.
    pub(crate) fn began(&self) -> bool {
        self.reason.as_deref() != Some(NEVER_BEGAN)
    }

    /// Turn a skip into a failure.
    pub(crate) fn forbid_skip(&mut self) {
        if self.result == Verdict::Skipped {
            let reason = self.reason.as_deref().unwrap_or_default();
            self.reason = Some(format!(
                "it must run on this kernel, and was skipped: {reason}"
            ));
            self.result = Verdict::Failed;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    Failed,
    Skipped,
}

/// Write a script for any shell. Its times are by the caller's clock.
pub(crate) fn script(tests: &[Test]) -> String {
    let mut script = format!(
        "run() {{\n\
         echo \"{BEGIN}$1 $2\"\n\
         read -r begin rest </proc/uptime\n\
         timeout -k 5 {TIME_LIMIT_S} \"$1\" --test-threads=1 --nocapture --exact \"$2\" </dev/null 2>&1\n\
         status=$?\n\
         read -r end rest </proc/uptime\n\
         echo\n\
         echo \"{END}$status $begin $end\"\n\
         return $status\n\
         }}\n",
    );
    for test in tests {
        let run = format!("run {}", title(test));
        let _ = match test.time {
            // An emulated machine may stand still for a while where no machine would: once is no
            // proof.
            Time::Host => writeln!(script, "{run} || {run}"),
            Time::Instructions => writeln!(script, "{run}"),
        };
    }
    script
}

/// Return a title that is unique in a guest.
fn title(test: &Test) -> String {
    format!("{} {}", test.path.display(), test.name)
}

/// Return one outcome per test of the script, even if the output ends early.
pub(crate) fn parse(tests: &[Test], output: &str) -> Vec<Outcome> {
    let mut parts = output.split(BEGIN).skip(1).peekable();
    let outcome = |test: &Test| {
        let title = title(test);
        let mut tries = Vec::new();
        while let Some(part) = parts.next_if(|part| part.lines().next() == Some(&title)) {
            tries.push(tried(test, part));
        }
        let last = tries.pop();
        let mut outcome = last.unwrap_or_else(|| failed(test, NEVER_BEGAN, ""));
        outcome.again = tries.pop().and_then(|first| first.reason);
        outcome
    };
    tests.iter().map(outcome).collect()
}

fn tried(test: &Test, output: &str) -> Outcome {
    match output.rsplit_once(END) {
        Some((output, end)) => ended(test, output, end),
        None => failed(test, "the guest ended in it", output),
    }
}

fn ended(test: &Test, output: &str, end: &str) -> Outcome {
    let mut fields = end.split_whitespace();
    let status = fields.next().and_then(|status| status.parse().ok());
    let mut time = || {
        let time = fields.next().and_then(|time| time.parse::<f64>().ok());
        time.unwrap_or_default()
    };
    let (begin, end) = (time(), time());
    let (result, reason) = judge(status, output);
    Outcome {
        binary: test.binary.clone(),
        test: test.name.clone(),
        result,
        seconds: end - begin,
        reason,
        again: None,
        output: output.to_owned(),
    }
}

fn judge(status: Option<u8>, output: &str) -> (Verdict, Option<String>) {
    match status {
        Some(0) if !output.contains(" 1 passed;") => {
            (Verdict::Failed, Some("it did not run".into()))
        }
        Some(0) => match skip(output) {
            Some(reason) => (Verdict::Skipped, Some(reason)),
            None => (Verdict::Ok, None),
        },
        // timeout(1)
        Some(124 | 137) => (
            Verdict::Failed,
            Some(format!("it took more than {TIME_LIMIT_S} s")),
        ),
        _ => (Verdict::Failed, Some(complaint(output))),
    }
}

/// Return the lines after the harness's heading.
pub(crate) fn said(output: &str) -> impl Iterator<Item = &str> {
    output.lines().map(|line| match line.split_once(" ... ") {
        Some((test, said)) if test.starts_with("test ") => said,
        _ => line,
    })
}

/// Return the text after `SKIP TEST: `.
fn skip(output: &str) -> Option<String> {
    let line = said(output).find_map(|line| line.strip_prefix("SKIP "))?;
    Some(
        line.split_once(": ")
            .map_or(line, |(_, reason)| reason)
            .to_owned(),
    )
}

/// Return the first line of the panic.
fn complaint(output: &str) -> String {
    let mut lines = output.lines();
    let panicked = lines.any(|line| line.contains("panicked at "));
    let first = if panicked {
        lines.next()
    } else {
        output.lines().last()
    };
    first.unwrap_or("it said nothing").to_owned()
}

fn failed(test: &Test, reason: &str, output: &str) -> Outcome {
    Outcome {
        binary: test.binary.clone(),
        test: test.name.clone(),
        result: Verdict::Failed,
        seconds: 0.0,
        reason: Some(reason.to_owned()),
        again: None,
        output: output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Vec<Test> {
        let test = |name: &str| Test {
            binary: "a/x".into(),
            path: "/x".into(),
            name: name.into(),
            kernels: Vec::new(),
            time: Time::Host,
        };
        ["good", "bad", "left"].map(test).to_vec()
    }

    fn results(output: &str) -> Vec<(Verdict, Option<String>)> {
        let outcomes = parse(&tests(), output).into_iter();
        outcomes
            .map(|outcome| (outcome.result, outcome.reason))
            .collect()
    }

    #[test]
    fn each_test_has_its_outcome() {
        let output = "\
#lab begin /x good
running 1 test
test good ... ok

test result: ok. 1 passed; 0 failed
#lab end 0 3.25 4.75
#lab begin /x bad
thread 'bad' (7) panicked at a.rs:1:
left != right
note: run with
#lab end 101 5 6
#lab begin /x left
test left ... SKIP left: no such hook here
ok
test result: ok. 1 passed; 0 failed
#lab end 0 6 7
";
        assert_eq!(
            results(output),
            [
                (Verdict::Ok, None),
                (Verdict::Failed, Some("left != right".into())),
                (Verdict::Skipped, Some("no such hook here".into())),
            ]
        );
        assert!((parse(&tests(), output)[0].seconds - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_second_try_counts_and_the_first_is_reported() {
        let output = "\
#lab begin /x good
thread 'good' (7) panicked at a.rs:1:
left != right
#lab end 101 1 2
#lab begin /x good
test result: ok. 1 passed; 0 failed
#lab end 0 2 3
#lab begin /x bad
";
        let outcomes = parse(&tests(), output);
        assert_eq!(outcomes.len(), 3);
        assert_eq!(outcomes[0].result, Verdict::Ok);
        assert_eq!(outcomes[0].again.as_deref(), Some("left != right"));
        assert_eq!(outcomes[1].test, "bad");
    }

    #[test]
    fn a_forbidden_skip_is_a_failure_and_nothing_else_changes() {
        let skipped = "#lab begin /x good\nSKIP good: no such hook\ntest result: ok. 1 passed;\n#lab end 0 1 2\n";
        let passed = skipped.replace("SKIP good: no such hook\n", "");
        for (output, result, reason) in [
            (
                skipped,
                Verdict::Failed,
                Some("it must run on this kernel, and was skipped: no such hook"),
            ),
            (&passed, Verdict::Ok, None),
        ] {
            let mut outcome = parse(&tests(), output).remove(0);
            outcome.forbid_skip();
            assert_eq!(
                (outcome.result, outcome.reason.as_deref()),
                (result, reason)
            );
        }
    }

    #[test]
    fn tests_after_the_end_of_the_guest_have_failed() {
        let output = "#lab begin /x good\ntest result: ok. 1 passed;\n#lab end 0 1 2\n#lab begin /x bad\nthread 'bad'";
        assert_eq!(
            results(output)[1..],
            [
                (Verdict::Failed, Some("the guest ended in it".into())),
                (Verdict::Failed, Some("the guest ended before it".into())),
            ]
        );
        let began: Vec<bool> = parse(&tests(), output).iter().map(Outcome::began).collect();
        assert_eq!(began, [true, true, false]);
    }

    #[test]
    fn a_test_that_does_not_run_is_not_ok() {
        let output = "#lab begin /x good\ntest result: ok. 0 passed; 0 failed\n#lab end 0 1 2\n";
        assert_eq!(
            results(output)[0],
            (Verdict::Failed, Some("it did not run".into()))
        );
        let output = "#lab begin /x good\n#lab end 124 1 121\n";
        assert_eq!(
            results(output)[0],
            (Verdict::Failed, Some("it took more than 120 s".into()))
        );
    }
}
