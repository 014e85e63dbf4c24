//! The workspace's test programs: cargo builds them, and this runs the tests of some groups.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::built::{self, Program, unused};
use super::child::End;
use super::groups::Group;
use super::runner::{self, PATIENCE, Runner};
use crate::root::root;

/// Build everything at once: built for one package alone, dependencies have fewer features, and are
/// built once more.
pub(super) fn build(runner: &mut Runner) -> Result<End> {
    if runner.programs.0.get().is_some() {
        return Ok(End::Passed);
    }
    let all = ["build", "--locked", "--workspace", "--all-targets"];
    let end = match runner.run(cargo(&all))? {
        End::Passed => runner.run(cargo(&arguments("--tests")))?,
        end => end,
    };
    if end == End::Passed {
        let _ = runner.programs.0.set(programs("--tests")?);
    }
    Ok(end)
}

/// Run all tests of some groups, whatever fails of them.
pub(super) fn run(groups: &[Group], runner: &mut Runner) -> Result<End> {
    let all = runner.programs;
    if let Some(programs) = all.0.get() {
        return run_groups(groups, programs, runner);
    }
    // Tests beside the code need no program of `tests/`, which take minutes to link.
    let built = runner.run(cargo(&arguments("--lib --bins")))?;
    if built != End::Passed {
        return Ok(built);
    }
    run_groups(groups, &programs("--lib --bins")?, runner)
}

fn run_groups(groups: &[Group], programs: &[Program], runner: &mut Runner) -> Result<End> {
    let unused = unused(groups, programs);
    ensure!(
        unused.is_empty(),
        "no test is in groups.rs's {}",
        unused.join(", ")
    );
    let mut worst = End::Passed;
    for program in programs {
        let chosen = program.tests_of(groups);
        if chosen.is_empty() {
            continue;
        }
        let end = run_program(program, &chosen, groups, runner)?;
        if end != End::Passed {
            worst = end;
        }
        if end == End::OverLimit {
            break;
        }
    }
    Ok(worst)
}

fn run_program(
    program: &Program,
    tests: &[&str],
    groups: &[Group],
    runner: &mut Runner,
) -> Result<End> {
    runner
        .log
        .line(&format!("\n   Running {}", program.title))?;
    let mut command = Command::new(&program.executable);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .arg("--exact")
        .args(tests);
    if groups.iter().any(|group| group.is_serial()) {
        command.arg("--test-threads=1");
    } else {
        command.arg("--quiet");
    }
    let end = runner.run_test(command, &program.title)?;
    if end == End::Silent {
        let name = &program.title;
        runner.log.line(&format!(
            "\n{name} has printed nothing for {} s: the test of the last line hangs",
            PATIENCE.as_secs()
        ))?;
    }
    Ok(end)
}

/// Return arguments of cargo that build the test programs of some targets.
fn arguments(targets: &str) -> Vec<&str> {
    let build = ["test", "--locked", "--workspace", "--no-run", "--quiet"];
    build.into_iter().chain(targets.split(' ')).collect()
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    runner::forget_own_package(&mut command);
    command
}

/// Find what has been built.
fn programs(targets: &str) -> Result<Vec<Program>> {
    let output = cargo(&arguments(targets))
        .arg("--message-format=json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo cannot list the test programs"
    );
    built::programs(&String::from_utf8_lossy(&output.stdout))
}
