//! `sockstamp stat -- COMMAND`.

use std::process::ExitStatus;

use serde_json::Value;
use tempfile::NamedTempFile;
use testbed::{Host, PATIENCE, Process};

use crate::{hooks, report, sockstamp};

/// The output of `sockstamp stat -- COMMAND`.
#[derive(Debug)]
pub struct Measured {
    /// The exit status.
    pub status: ExitStatus,
    /// The command's standard output.
    pub stdout: String,
    /// The standard error of the command and of sockstamp.
    pub stderr: String,
    /// The report.
    pub report: Value,
}

/// Run a command in a host under `sockstamp stat` to its end.
pub fn stat_command(host: &Host, words: &[&str]) -> Measured {
    let output = NamedTempFile::new().unwrap();
    let mut command = host.command(sockstamp());
    command
        .args([
            "stat",
            "--every",
            "--max-cost=none",
            "--format",
            "json",
            "-o",
        ])
        .arg(output.path())
        .args(hooks());
    command.arg("--").args(words);
    let mut process = Process::spawn(command).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    Measured {
        status,
        stdout: process.stdout(),
        stderr: process.stderr(),
        report: report(output.path()),
    }
}
