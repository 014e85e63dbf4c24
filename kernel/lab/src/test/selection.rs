//! Select tests per kernel, with reasons for the others: `tests.txt`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::binaries::{self, Built};
use crate::guest::Time;
use crate::release::DebianKernel;
use crate::series::Variant;

const TABLE: &str = include_str!("../../tests.txt");

/// A test of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) binary: String,
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    /// The kernels that it is for; none: those of Debian.
    pub(crate) kernels: Vec<Place>,
    /// The source of time in its guests.
    pub(crate) time: Time,
}

/// A kernel that a line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    kernel: String,
    /// The kernel has what the test is about, so a skip is a failure.
    must_run: bool,
}

impl Test {
    /// Return true if it runs on the kernel of this name. Kernels that are built here belong to
    /// another step of CI, which must be short, and the one with NICs is for what they do, so a
    /// line must name them.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        let mut named = Variant::ALL.iter().map(|variant| variant.name());
        let must_be_named = name == DebianKernel::Igb.name() || named.any(|built| built == name);
        match self.kernels.is_empty() {
            true => !must_be_named,
            false => self.place(name).is_some(),
        }
    }

    /// Return true if it must not skip itself on the kernel of this name.
    pub(crate) fn must_run_on(&self, name: &str) -> bool {
        self.place(name).is_some_and(|place| place.must_run)
    }

    fn place(&self, name: &str) -> Option<&Place> {
        self.kernels.iter().find(|place| place.kernel == name)
    }
}

/// The number of tests of a binary that are left out, per reason.
pub(crate) type LeftOut = BTreeMap<(String, String), usize>;

/// A line of the table.
#[derive(Debug)]
struct Rule<'a> {
    binary: &'a str,
    test: &'a str,
    verb: Verb<'a>,
}

#[derive(Debug)]
enum Verb<'a> {
    Run { kernels: Vec<Place>, time: Time },
    Skip { reason: &'a str },
}

/// Decides about every test that was built.
pub(crate) fn choose(built: &Built) -> Result<(Vec<Test>, LeftOut)> {
    let mut tests = Vec::new();
    for (binary, path) in &built.tests {
        let test = |name| Test {
            binary: binary.clone(),
            path: path.clone(),
            name,
            kernels: Vec::new(),
            time: Time::Host,
        };
        tests.extend(binaries::list(path)?.into_iter().map(test));
    }
    decide(TABLE, tests).context("kernel/lab/tests.txt")
}

/// The first rule that fits holds. Every test has one, and every rule fits some test.
fn decide(table: &str, tests: Vec<Test>) -> Result<(Vec<Test>, LeftOut)> {
    let rules = parse(table)?;
    let mut fits = vec![0; rules.len()];
    let mut chosen = Vec::new();
    let mut left_out = LeftOut::new();
    for mut test in tests {
        let rule = rules.iter().position(|rule| rule.covers(&test));
        let rule = rule.with_context(|| format!("no line for {} {}", test.binary, test.name))?;
        fits[rule] += 1;
        match &rules[rule].verb {
            Verb::Skip { reason } => {
                let key = (test.binary, (*reason).to_owned());
                *left_out.entry(key).or_default() += 1;
            }
            Verb::Run { kernels, time } => {
                test.time = *time;
                test.kernels.clone_from(kernels);
                chosen.push(test);
            }
        }
    }
    if let Some(idle) = fits.iter().position(|fits| *fits == 0) {
        bail!(
            "no test for the line {} {}",
            rules[idle].binary,
            rules[idle].test
        );
    }
    Ok((chosen, left_out))
}

/// Lines `run BINARY TEST`, `on KERNEL,KERNEL BINARY TEST`, either after `counted`, and
/// `skip BINARY TEST REASON`; a trailing `*` matches anything.
fn parse(table: &str) -> Result<Vec<Rule<'_>>> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| rule(line).with_context(|| format!("cannot parse the line {line}")))
        .collect()
}

fn rule(line: &str) -> Result<Rule<'_>> {
    let (time, line) = match line.strip_prefix("counted ") {
        Some(line) => (Time::Instructions, line),
        None => (Time::Host, line),
    };
    let (verb, rest) = word(line);
    let (kernels, rest) = if verb == "on" { word(rest) } else { ("", rest) };
    let (binary, rest) = word(rest);
    let (test, reason) = word(rest);
    let verb = match verb {
        "run" => Verb::Run {
            kernels: Vec::new(),
            time,
        },
        "on" => Verb::Run {
            kernels: places(kernels)?,
            time,
        },
        "skip" if time == Time::Host => Verb::Skip { reason },
        _ => bail!("neither run, on nor skip"),
    };
    let unexplained = matches!(verb, Verb::Skip { reason: "" });
    ensure!(!test.is_empty() && !unexplained, "something is missing");
    Ok(Rule { binary, test, verb })
}

fn places(names: &str) -> Result<Vec<Place>> {
    names.split(',').map(place).collect()
}

fn place(name: &str) -> Result<Place> {
    let (kernel, must_run) = match name.strip_suffix('!') {
        Some(kernel) => (kernel, true),
        None => (name, false),
    };
    let of_debian = DebianKernel::ALL
        .iter()
        .any(|release| release.name() == kernel);
    let built = Variant::ALL.iter().any(|variant| variant.name() == kernel);
    ensure!(of_debian || built, "the lab has no kernel {kernel}");
    Ok(Place {
        kernel: kernel.to_owned(),
        must_run,
    })
}

/// Split off the first word.
fn word(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim_start())
}

impl Rule<'_> {
    fn covers(&self, test: &Test) -> bool {
        fits(self.binary, &test.binary) && fits(self.test, &test.name)
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(binary: &str, name: &str) -> Test {
        Test {
            binary: binary.into(),
            path: binary.into(),
            name: name.into(),
            kernels: Vec::new(),
            time: Time::Host,
        }
    }

    #[test]
    fn the_first_line_that_fits_holds() {
        let table =
            "# words\n\nskip a/x tx::python* needs a snake\nrun a/x tx::*\nskip a/* * too slow\n";
        let tests = vec![
            test("a/x", "tx::one"),
            test("a/x", "tx::python3"),
            test("a/x", "rx::one"),
            test("a/y", "b"),
        ];
        let (chosen, left_out) = decide(table, tests).unwrap();
        assert_eq!(chosen, [test("a/x", "tx::one")]);
        let key = |binary: &str, reason: &str| (binary.to_owned(), reason.to_owned());
        let expected = [
            (key("a/x", "needs a snake"), 1),
            (key("a/x", "too slow"), 1),
            (key("a/y", "too slow"), 1),
        ];
        assert_eq!(left_out, LeftOut::from(expected));
    }

    #[test]
    fn a_test_runs_on_the_kernels_of_its_line() {
        let table = "on 6.1,7.2 a/x one\nrun a/x *\n";
        let tests = vec![test("a/x", "one"), test("a/x", "two")];
        let (chosen, _) = decide(table, tests).unwrap();
        let kernels = ["6.1", "6.12", "6.18", "7.2", "igb", "patched"];
        let places = |test: &Test| kernels.map(|kernel| test.is_for(kernel));
        assert_eq!(places(&chosen[0]), [true, false, false, true, false, false]);
        assert_eq!(places(&chosen[1]), [true, true, true, true, false, false]);
    }

    #[test]
    fn a_test_must_run_where_its_line_says_so() {
        let table = "on 7.2,patched! a/x one\nrun a/x *\n";
        let (chosen, _) = decide(table, vec![test("a/x", "one"), test("a/x", "two")]).unwrap();
        let places = |test: &Test| ["7.2", "patched"].map(|kernel| test.must_run_on(kernel));
        assert_eq!(places(&chosen[0]), [false, true]);
        assert!(chosen[0].is_for("patched"));
        assert_eq!(places(&chosen[1]), [false, false]);
    }

    #[test]
    fn the_time_of_a_test_is_that_of_its_line() {
        let table = "counted on 6.1 a/x one\ncounted run a/x two\nrun a/x *\n";
        let tests = ["one", "two", "three"].map(|name| test("a/x", name));
        let (chosen, _) = decide(table, tests.to_vec()).unwrap();
        let times: Vec<Time> = chosen.iter().map(|test| test.time).collect();
        assert_eq!(times, [Time::Instructions, Time::Instructions, Time::Host]);
    }

    #[test]
    fn nothing_is_left_open() {
        let why = |table, tests| decide(table, tests).unwrap_err().to_string();
        assert_eq!(
            why("run a/x t*\n", vec![test("a/x", "u")]),
            "no line for a/x u"
        );
        assert_eq!(
            why("run a/x t\nrun a/x *\n", vec![test("a/x", "u")]),
            "no test for the line a/x t"
        );
        assert_eq!(
            why("skip a/x t\n", vec![]),
            "cannot parse the line skip a/x t"
        );
        assert_eq!(
            why("on 6.2 a/x t\n", vec![]),
            "cannot parse the line on 6.2 a/x t"
        );
        assert_eq!(
            why("counted skip a/x t why\n", vec![]),
            "cannot parse the line counted skip a/x t why"
        );
        assert_eq!(
            why("walk a/x t\n", vec![]),
            "cannot parse the line walk a/x t"
        );
    }
}
