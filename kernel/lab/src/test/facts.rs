//! Keep the output of `sockstamp doctor` and of the verifier on a kernel as text, in results/.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::protocol::{self, Outcome, Verdict};

/// The binary whose test prints the verifier's counts.
pub(crate) const BINARY: &str = "sockstamp-bpf/verified";
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
const MARK: &str = "#lab doctor ";
/// Keys of doctor's output that depend on the kernel, and not on this host.
const KEPT: [&str; 9] = [
    "bpf_timestamping",
    "hooks",
    "host_path",
    "library",
    "notifications",
    "parts",
    "plan",
    "ready",
    "udp",
];

/// The findings on one kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    kernel: String,
    /// JSON, for people to read.
    doctor: String,
    /// The counts: first their compiler and kernel, then a line per program. Absent for the host,
    /// whose counts depend on its CPUs.
    verifier: Option<String>,
}

/// The result of comparing a file with the findings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Same,
    /// The comparison is not possible, for this reason.
    Skipped(String),
    /// The differences, in the format of diff(1).
    Different(String),
}

/// Runs after the tests of [`BINARY`].
pub(crate) fn script(sockstamp: &Path) -> String {
    format!(
        "echo \"{MARK}$(uname -r)\"\n{} doctor --format json\n",
        sockstamp.display()
    )
}

impl Facts {
    /// Read the findings from the outcomes of a script with [`BINARY`] and from its output.
    pub(crate) fn read(
        kernel: &str,
        outcomes: &[Outcome],
        output: &str,
        of_guest: bool,
    ) -> Result<Facts> {
        let (_, rest) = output.split_once(MARK).context("doctor did not run")?;
        let (release, doctor) = rest.split_once('\n').context("doctor said nothing")?;
        let mut verified = outcomes.iter().filter(|outcome| outcome.binary == BINARY);
        let verified = verified.find(|outcome| outcome.result == Verdict::Ok);
        let verified = verified.context("the verifier's counts are missing")?;
        Ok(Facts {
            kernel: kernel.to_owned(),
            doctor: kept(doctor)?,
            verifier: of_guest
                .then(|| counts(&verified.output, release))
                .transpose()?,
        })
    }

    /// Read what doctor wrote where the verifier's counts were not asked for.
    pub(super) fn of_doctor(kernel: &str, doctor: &str) -> Result<Facts> {
        Ok(Facts {
            kernel: kernel.to_owned(),
            doctor: kept(doctor)?,
            verifier: None,
        })
    }

    /// Compare with the files of this kernel; return the results by file name.
    pub(crate) fn compare(&self) -> Result<Vec<(String, Comparison)>> {
        let mut compared = Vec::new();
        for (name, found) in self.files() {
            let path = Path::new(FOLDER).join(&name);
            let comparison = match fs::read_to_string(&path) {
                Ok(kept) => compare(&path, &kept, found)?,
                Err(_) => {
                    Comparison::Skipped("no results of this kernel are kept (--bless)".into())
                }
            };
            compared.push((name, comparison));
        }
        Ok(compared)
    }

    /// Keep them as the files of this kernel.
    pub(crate) fn keep(&self) -> Result<()> {
        for (name, found) in self.files() {
            let path = Path::new(FOLDER).join(name);
            fs::write(&path, found).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn files(&self) -> Vec<(String, &str)> {
        let kernel = &self.kernel;
        let mut files = vec![(format!("{kernel}.json"), self.doctor.as_str())];
        if let Some(verifier) = &self.verifier {
            files.push((format!("{kernel}.verifier.txt"), verifier));
        }
        files
    }
}

/// Keep only the hooks in use, one per line.
fn kept(doctor: &str) -> Result<String> {
    let mut report: Value = serde_json::from_str(doctor.trim()).context("doctor wrote no JSON")?;
    let object = report.as_object_mut().context("doctor wrote no object")?;
    object.retain(|name, _| KEPT.contains(&name.as_str()));
    let hooks = object.get_mut("hooks").and_then(Value::as_array_mut);
    let hooks = hooks.context("doctor has no hooks")?;
    hooks.retain(|hook| hook["used"] == true);
    let mut lines: Vec<String> = hooks.iter().map(line).collect();
    // Sort and deduplicate: the order of trials and the number of programs per hook are no facts
    // about the kernel.
    lines.sort_unstable();
    lines.dedup();
    *hooks = lines.into_iter().map(Value::from).collect();
    let mut text = serde_json::to_string_pretty(&report)?;
    text.push('\n');
    Ok(text)
}

fn line(hook: &Value) -> String {
    let words = ["hook", "state", "reason"].map(|name| hook[name].as_str());
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Return the counts; the first line names their compiler and kernel.
fn counts(output: &str, release: &str) -> Result<String> {
    let clang = protocol::said(output)
        .find(|line| line.starts_with("clang "))
        .context("the compiler of the programs is not said")?;
    let programs: BTreeSet<&str> = protocol::said(output)
        .filter_map(|line| line.strip_prefix("verified "))
        .collect();
    let mut text = format!("{clang}, Linux {release}\n");
    for program in programs {
        text.push_str(program);
        text.push('\n');
    }
    Ok(text)
}

/// Counts of another compiler's programs or another kernel's verifier are not compared.
fn compare(path: &Path, kept: &str, found: &str) -> Result<Comparison> {
    if kept == found {
        return Ok(Comparison::Same);
    }
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let is_counts = path.extension().is_some_and(|extension| extension == "txt");
    if is_counts && first(kept) != first(found) {
        return Ok(Comparison::Skipped(format!(
            "kept are those of {}, these are of {}",
            first(kept),
            first(found)
        )));
    }
    difference(path, found).map(Comparison::Different)
}

fn difference(path: &Path, found: &str) -> Result<String> {
    let mut diff = Command::new("diff")
        .args(["-u", "--label", "kept", "--label", "found"])
        .arg(path)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run diff")?;
    let mut input = diff.stdin.take().context("no input of diff")?;
    input
        .write_all(found.as_bytes())
        .context("cannot write to diff")?;
    drop(input);
    let output = diff.wait_with_output().context("cannot wait for diff")?;
    ensure!(output.status.code() == Some(1), "diff: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 1 test
test every ... clang 19.1.7
verified on_sockops 12
verified adopt_flows 7
test result: ok. 1 passed;
";
    const DOCTOR: &str = r#"{"kernel":"6.12.9-x","ready":true,"plan":{"tx.copy":{"hooks":"a"}},
        "hooks":[{"hook":"a","state":"refused","reason":"why","used":true},
        {"hook":"b","state":"works","reason":null,"used":true},{"hook":"c","used":false}]}"#;

    fn outcome() -> Outcome {
        Outcome {
            binary: BINARY.into(),
            test: "every".into(),
            result: Verdict::Ok,
            seconds: 1.0,
            reason: None,
            again: None,
            output: OUTPUT.into(),
        }
    }

    fn facts() -> Facts {
        let other = Outcome {
            binary: "sockstamp/lib".into(),
            output: String::new(),
            ..outcome()
        };
        Facts::read(
            "6.12",
            &[other, outcome()],
            &format!("{OUTPUT}{MARK}6.12.9-x\n{DOCTOR}\n"),
            true,
        )
        .unwrap()
    }

    #[test]
    fn kept_facts_hold_for_every_kernel_of_the_release() {
        let doctor: Value = serde_json::from_str(&facts().doctor).unwrap();
        assert_eq!(
            doctor,
            serde_json::json!({
                "ready": true, "plan": { "tx.copy": { "hooks": "a" } }, "hooks": ["a refused why", "b works"],
            })
        );
    }

    #[test]
    fn counts_are_of_a_compiler_and_a_kernel() {
        let verifier = facts().verifier.unwrap();
        assert_eq!(
            verifier,
            "clang 19.1.7, Linux 6.12.9-x\nadopt_flows 7\non_sockops 12\n"
        );
    }

    #[test]
    fn other_counts_differ_and_those_of_another_compiler_are_skipped() {
        let file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
        let kept = "clang 19, Linux 6.1\na 7\n";
        fs::write(file.path(), kept).unwrap();
        let with = |found| compare(file.path(), kept, found).unwrap();
        assert_eq!(with(kept), Comparison::Same);
        assert!(matches!(
            with("clang 16, Linux 6.1\na 8\n"),
            Comparison::Skipped(_)
        ));
        let Comparison::Different(diff) = with("clang 19, Linux 6.1\na 8\n") else {
            panic!("they differ")
        };
        assert!(diff.ends_with("-a 7\n+a 8\n"), "{diff}");
    }
}
