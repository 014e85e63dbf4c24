//! The workspace's own test binaries, as cargo builds them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The built binaries.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Test binaries by name: `sockstamp-cli/corner_cases`, `testbed/lib`.
    pub(crate) tests: BTreeMap<String, PathBuf>,
    /// Programs that tests start, by the paths that are compiled into them.
    pub(crate) programs: Vec<PathBuf>,
}

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Message {
    package_id: Option<String>,
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

/// The archive of the C library, and the folder of its programs, next to the other programs.
const C_LIBRARY: &str = "libsockstamp_capi.a";
const C_PROGRAMS: &str = "c-programs";

/// Builds them as `make test` does, so that nothing is built twice but for these features.
pub(crate) fn build(features: &[&str]) -> Result<Built> {
    // The archive is part of no test.
    let status = Command::new("cargo")
        .args([
            "build",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
        ])
        .args(features)
        .status();
    ensure!(
        status.context("cannot run cargo")?.success(),
        "cargo cannot build"
    );
    let cargo = Command::new("cargo")
        .args([
            "test",
            "--quiet",
            "--locked",
            "--workspace",
            "--tests",
            "--no-run",
            "--message-format=json",
        ])
        .args(features)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(cargo.status.success(), "cargo cannot build the tests");
    let mut built = parse(&String::from_utf8_lossy(&cargo.stdout))?;
    built.add_c_programs()?;
    Ok(built)
}

impl Built {
    /// Build the programs in C, which guests cannot build themselves.
    fn add_c_programs(&mut self) -> Result<()> {
        let any = self.programs.first().context("cargo built no program")?;
        let folder = any.with_file_name(C_PROGRAMS);
        let status = Command::new("scripts/c-programs.sh")
            .args([&any.with_file_name(C_LIBRARY), &folder])
            .status();
        let status = status.context("cannot run scripts/c-programs.sh")?;
        ensure!(status.success(), "scripts/c-programs.sh: {status}");
        let reading = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            if entry.file_type().with_context(reading)?.is_file() {
                self.programs.push(entry.path());
            }
        }
        Ok(())
    }
}

/// Return the names of the tests in it. The host runs what it has built.
pub(crate) fn list(binary: &Path) -> Result<Vec<String>> {
    let output = Command::new(binary)
        .args(["--list", "--format", "terse"])
        .output();
    let output = output.with_context(|| format!("cannot run {}", binary.display()))?;
    ensure!(
        output.status.success(),
        "{} lists no tests",
        binary.display()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

fn parse(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines() {
        let message: Message =
            serde_json::from_str(line).context("cargo printed an unknown message")?;
        let (Some(package), Some(target), Some(profile), Some(executable)) = (
            message.package_id,
            message.target,
            message.profile,
            message.executable,
        ) else {
            continue;
        };
        if profile.test {
            built.tests.insert(
                format!("{}/{}", package_name(&package), target.part()),
                executable,
            );
        } else {
            built.programs.push(executable);
        }
    }
    Ok(built)
}

impl Target {
    fn part(&self) -> String {
        match self.kind.first().map(String::as_str) {
            Some("lib") => "lib".into(),
            Some("bin") => format!("bin-{}", self.name),
            _ => self.name.clone(),
        }
    }
}

/// `…/FOLDER#VERSION`, or `…#NAME@VERSION` where the folder has another name.
fn package_name(id: &str) -> &str {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_programs_are_distinguished() {
        let messages = r#"
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/testbed#0.1.0","target":{"kind":["lib"],"name":"testbed"},"profile":{"test":true},"executable":"/t/deps/testbed-1"}
{"reason":"compiler-artifact","package_id":"path+file:///a/kernel/lab#sockstamp-lab@0.1.0","target":{"kind":["bin"],"name":"sockstamp-lab"},"profile":{"test":true},"executable":"/t/deps/lab-1"}
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/testbed#0.1.0","target":{"kind":["bin"],"name":"testbed-peer"},"profile":{"test":false},"executable":"/t/testbed-peer"}
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/testbed#0.1.0","target":{"kind":["lib"],"name":"testbed"},"profile":{"test":false},"executable":null}
{"reason":"build-finished","success":true}"#;
        let built = parse(messages.trim_start()).unwrap();
        let tests: Vec<&str> = built.tests.keys().map(String::as_str).collect();
        assert_eq!(tests, ["sockstamp-lab/bin-sockstamp-lab", "testbed/lib"]);
        assert_eq!(built.programs, [Path::new("/t/testbed-peer")]);
    }
}
