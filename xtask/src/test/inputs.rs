//! Files that a step depends on: whether they differ from a commit, and their checksum.
//!
//! Inputs are pathspecs of git: globs, of which `:!` excludes (gitglossary(7)).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};

use super::steps::Step;
use crate::root::root;

/// The age of a commit that no work in progress has made.
const EARLIER: &str = "5 hours ago";

/// Return the commit that changes are counted from: the named one, else the newest of some hours
/// ago. None: there is none here, as in a shallow clone.
pub(super) fn base(named: Option<&str>) -> Option<String> {
    let found = match named {
        Some(name) => git(&[
            "rev-parse",
            "--verify",
            "--quiet",
            &format!("{name}^{{commit}}"),
        ]),
        None => git(&["rev-list", "-1", &format!("--before={EARLIER}"), "HEAD"]),
    };
    let commit = found.ok()?.trim().to_owned();
    (!commit.is_empty()).then_some(commit)
}

/// Tell whether an input differs from a commit. Files that git does not know yet count as well.
pub(super) fn changed(inputs: &[&str], base: &str) -> Result<bool> {
    let of = |arguments: &[&str]| git(&[arguments, &["--"], inputs].concat());
    let differing = of(&["diff", "--name-only", base])?;
    let new = of(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(!differing.is_empty() || !new.is_empty())
}

/// Return the checksum of the names and contents of inputs.
fn checksum(inputs: &[&str]) -> Result<String> {
    let known = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ];
    let names: String = git(&[&known, inputs].concat())?
        .lines()
        .filter(|name| root().join(name).is_file())
        .flat_map(|name| [name, "\n"])
        .collect();
    let contents = git_with(&["hash-object", "--no-filters", "--stdin-paths"], &names)?;
    let sum = git_with(&["hash-object", "--stdin"], &format!("{names}{contents}"))?;
    Ok(sum.trim().to_owned())
}

/// Inputs with which a step has passed, below the folder of cargo's builds.
#[derive(Debug)]
pub(super) struct Stamp {
    file: PathBuf,
    /// The checksum of the inputs as they were before the step.
    now: String,
}

impl Stamp {
    /// None: there is no git to list the inputs.
    pub(super) fn of(step: &Step, target: &Path) -> Option<Self> {
        let now = checksum(step.inputs).ok()?;
        let file = target.join("tests/passed").join(step.name);
        Some(Self { file, now })
    }

    pub(super) fn is_kept(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|kept| kept == self.now)
    }

    pub(super) fn keep(&self) -> Result<()> {
        let folder = self.file.parent().context("a stamp is in a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&self.file, &self.now))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    git_with(arguments, "")
}

fn git_with(arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("git")
        // Print names as they are.
        .args(["-c", "core.quotePath=false"])
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let mut pipe = child.stdin.take().context("a pipe was asked for")?;
    let input = input.to_owned();
    // Beside the reader: git answers while it reads. An error here is one of git's below.
    thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().context("cannot wait for git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("git names a file that is not UTF-8")
}
