//! Test programs that cargo has built, and the tests in them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::groups::{self, Group, PLACES, ROOTED};

/// A test program, as cargo has built it.
#[derive(Debug)]
pub(super) struct Program {
    /// `sockstamp-cli/witness`, `testbed/lib`.
    pub(super) title: String,
    name: String,
    is_unit: bool,
    pub(super) executable: PathBuf,
    /// Tests run where cargo runs them: in the folder of their package.
    pub(super) folder: PathBuf,
    tests: Vec<String>,
}

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Programs that a run has built, for all of its steps.
#[derive(Debug, Default)]
pub(super) struct Built(pub(super) OnceLock<Vec<Program>>);

/// Find the test programs in what cargo prints, and their tests.
pub(super) fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut programs: Vec<_> = messages
        .lines()
        .filter_map(|line| program(line).transpose())
        .collect::<Result<_>>()?;
    programs.sort_by(|one, other| (other.is_unit, &one.title).cmp(&(one.is_unit, &other.title)));
    for program in &mut programs {
        program.tests = list(&program.executable)?;
    }
    Ok(programs)
}

/// Read a line of cargo's. None: no test program.
fn program(line: &str) -> Result<Option<Program>> {
    let message: Message =
        serde_json::from_str(line).context("cargo has printed an unknown message")?;
    let Message {
        manifest_path: Some(manifest),
        target: Some(target),
        profile: Some(Profile { test: true }),
        executable: Some(executable),
    } = message
    else {
        return Ok(None);
    };
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let kind = target.kind.first().context("a target has a kind")?;
    Ok(Some(Program {
        title: title(folder, kind, &target.name),
        name: target.name,
        is_unit: kind != "test",
        executable,
        folder: folder.to_owned(),
        tests: Vec::new(),
    }))
}

fn title(folder: &Path, kind: &str, name: &str) -> String {
    let package = folder.file_name().unwrap_or_default().to_string_lossy();
    match kind {
        "test" => format!("{package}/{name}"),
        "bin" => format!("{package}/bin-{name}"),
        _ => format!("{package}/lib"),
    }
}

fn list(executable: &Path) -> Result<Vec<String>> {
    let output = Command::new(executable)
        .args(["--list", "--format", "terse"])
        .output()
        .with_context(|| format!("cannot run {}", executable.display()))?;
    if !output.status.success() {
        bail!("{} lists no tests", executable.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

impl Program {
    fn group_of(&self, test: &str) -> Group {
        if self.is_unit {
            groups::of_unit(test)
        } else {
            groups::of_program(&self.name, test)
        }
    }

    pub(super) fn tests_of(&self, groups: &[Group]) -> Vec<&str> {
        let tests = self.tests.iter().map(String::as_str);
        tests
            .filter(|test| groups.contains(&self.group_of(test)))
            .collect()
    }
}

/// Return entries of the list that fit no test: a test that was renamed would change its group
/// without a word.
pub(super) fn unused(groups: &[Group], programs: &[Program]) -> Vec<String> {
    let has = |is_unit: bool, fits: &dyn Fn(&Program, &str) -> bool| {
        let programs = programs
            .iter()
            .filter(move |program| program.is_unit == is_unit);
        programs
            .into_iter()
            .any(|program| program.tests.iter().any(|test| fits(program, test)))
    };
    let places = PLACES
        .iter()
        .filter(|place| groups.contains(&place.group))
        .filter(|place| !has(false, &|program, test| place.has(&program.name, test)))
        .map(|place| format!("{} {}", place.program, place.names));
    let rooted = ROOTED
        .iter()
        .filter(|_| groups.contains(&Group::Rooted))
        .filter(|names| !has(true, &|_, test| test.starts_with(*names)))
        .map(|names| (*names).to_owned());
    places.chain(rooted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(is_unit: bool, name: &str, tests: &[&str]) -> Program {
        Program {
            title: name.to_owned(),
            name: name.to_owned(),
            is_unit,
            executable: PathBuf::new(),
            folder: PathBuf::new(),
            tests: tests.iter().map(|&test| test.to_owned()).collect(),
        }
    }

    #[test]
    fn test_programs_are_told_from_others() {
        let line = |kind: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/a/crates/one/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"two\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/two-1\"}}"
            )
        };
        let title = |kind| {
            program(&line(kind, true))
                .unwrap()
                .map(|program| program.title)
        };
        assert_eq!(title("test").as_deref(), Some("one/two"));
        assert_eq!(title("bin").as_deref(), Some("one/bin-two"));
        assert_eq!(title("lib").as_deref(), Some("one/lib"));
        assert!(program(&line("bin", false)).unwrap().is_none());
        let end = "{\"reason\":\"build-finished\",\"success\":true}";
        assert!(program(end).unwrap().is_none());
    }

    #[test]
    fn each_test_is_in_one_group() {
        let unit = built(true, "lib", &["a::one", "sched::tests::two"]);
        assert_eq!(unit.tests_of(&[Group::Unit]), ["a::one"]);
        assert_eq!(
            unit.tests_of(&[Group::Rooted, Group::Live]),
            ["sched::tests::two"]
        );
        let packaging = built(false, "packaging", &["the_chart_x", "y"]);
        assert_eq!(packaging.tests_of(&[Group::Kubernetes]), ["the_chart_x"]);
        assert_eq!(packaging.tests_of(&[Group::Beside]), ["y"]);
        let agent = built(false, "agent", &["configuration::x", "y"]);
        assert_eq!(agent.tests_of(&[Group::Beside]), ["configuration::x"]);
        assert_eq!(agent.tests_of(&[Group::Live]), ["y"]);
    }

    #[test]
    fn an_entry_that_fits_no_test_is_named() {
        let programs = [built(false, "otel_collector", &["one"])];
        assert_eq!(unused(&[Group::Collector], &programs), Vec::<String>::new());
        assert_eq!(unused(&[Group::Spark], &programs), ["sql_spark "]);
    }
}
